#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fsx_lustre_info
short_description: Find the mount addresses of FSx for Lustre file systems
version_added: 0.1.0
description:
  - Queries FSx once for all identifiers, and returns the DNS name and the mount name of each.
  - Fails if a file system is missing, is not Lustre, or cannot be mounted now; the message has a sentence for each.
  - With O(cluster) it lists the file systems that M(mlcluster.aws.fsx_lustre) created for a cluster instead.
  - Reads only.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._cluster
attributes:
  check_mode:
    description: Reads only, in check mode too.
    support: full
options:
  ids:
    description: Identifiers of file systems, as V(fs-0123456789abcdef0). This or O(cluster) is required.
    type: list
    elements: str
  cluster:
    description: Name of a cluster.
    type: str
seealso:
  - module: mlcluster.aws.fsx_lustre
  - module: mlcluster.aws.lustre_info
"""

EXAMPLES = r"""
- name: Find the names of two file systems
  mlcluster.aws.fsx_lustre_info:
    region: ap-southeast-3
    ids: [fs-0123456789abcdef0, fs-0123456789abcdef1]
  delegate_to: localhost
  run_once: true
  register: found
"""

RETURN = r"""
of_cluster:
  description: File systems with the tag of the cluster, each with C(id), C(name) and its size as C(gib).
  returned: with O(cluster)
  type: list
  elements: dict
  sample: [{"id": "fs-0123456789abcdef0", "name": "checkpoints", "gib": 7200}]
file_systems:
  description: By identifier C(dns_name), C(mount_name), and C(efa), whether it was created with EFA.
  returned: with O(ids)
  type: dict
  sample:
    fs-0123456789abcdef0:
      dns_name: fs-0123456789abcdef0.fsx.ap-southeast-3.amazonaws.com
      mount_name: abcdefgh
      efa: true
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws, fsx

ADVICE = (
    "let this controller ask (credentials with fsx:DescribeFileSystems), or set dns_name and mount_name, not the id"
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={**aws.OPTIONS, "ids": {"type": "list", "elements": "str"}, "cluster": {"type": "str"}},
        required_one_of=[("ids", "cluster")],
        mutually_exclusive=[("ids", "cluster")],
        supports_check_mode=True,
    )
    if module.params["cluster"]:
        try:
            found = fsx.of_cluster(aws.client(module.params, "fsx"), module.params["cluster"])
        except aws.AwsError as exc:
            module.fail_json(msg=str(exc))
        module.exit_json(changed=False, of_cluster=found)
    wanted = list(dict.fromkeys(module.params["ids"] or []))
    try:
        names, problems = fsx.mount_names(aws.client(module.params, "fsx"), wanted, module.params["region"])
    except aws.AwsError as exc:
        module.fail_json(msg=f"{exc}; {ADVICE}")
    if problems:
        module.fail_json(msg="; ".join(problems))
    module.exit_json(changed=False, file_systems=names)


if __name__ == "__main__":
    main()
