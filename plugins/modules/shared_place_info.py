#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: shared_place_info
short_description: Check whether a path is on a file system that other nodes share
version_added: 0.1.0
description:
  - Below the mount point of a missing file system, directories are created on the root disk without an error. This
    module reports that.
  - Network file systems and NFS exports of this machine count as shared.
  - A missing path is judged by its nearest existing parent directory. An automount is accessed.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Changes nothing, also without check mode.
    support: full
  diff_mode:
    description: Has no difference to show.
    support: none
options:
  paths:
    description: Absolute paths.
    type: list
    elements: str
    required: true
  timeout:
    description: Seconds after which a path counts as not responding.
    type: int
    default: 30
seealso:
  - module: mlcluster.aws.lustre_info
"""

EXAMPLES = r"""
- name: Look at the place of the jobs' directory
  mlcluster.aws.shared_place_info:
    paths: [/fsx/mlcluster/jobs]
  register: place

- name: Reject the root disk
  ansible.builtin.assert:
    that: place.problems == []
    fail_msg: "{{ place.problems | join('; ') }}"
"""

RETURN = r"""
places:
  description: >-
    For each path C(path), C(mount), C(source), C(fstype), C(state) (shared, local, root, silent) and C(why).
  returned: success
  type: list
  elements: dict
  sample: [{"path": "/fsx/jobs", "mount": "/", "source": "/dev/root", "fstype": "ext4", "state": "root", "why": ""}]
problems:
  description: One sentence for each path that is on the root disk or does not respond.
  returned: success
  type: list
  elements: str
  sample: []
shared:
  description: Mount points of network file systems, and NFS exports of this machine.
  returned: success
  type: list
  elements: str
  sample: [/fsx1, /fsx2, /home]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import shared_place
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "str", "required": True},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    strange = [path for path in module.params["paths"] if not path.startswith("/")]
    if strange:
        module.fail_json(msg=f"paths has {', '.join(map(repr, strange))}: use absolute paths")
    host = Host()
    places = [shared_place.look(host, path, module.params["timeout"]) for path in module.params["paths"]]
    elsewhere = shared_place.shared_mounts(host)
    module.exit_json(
        changed=False,
        places=places,
        problems=[problem for seen in places if (problem := shared_place.problem(seen, elsewhere))],
        shared=elsewhere,
    )


if __name__ == "__main__":
    main()
