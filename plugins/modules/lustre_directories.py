#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lustre_directories
short_description: Create missing directories on Lustre, and keep all others unchanged
version_added: 0.1.0
description:
  - Creates missing directories with owner, group, mode, access control list and stripe layout, under a lock.
  - Never changes an existing directory or its content; it reports the differences.
  - Creates nothing on a path that is not proved to be its Lustre file system, follows no link, and deletes nothing.
  - A directory gets its name when it is complete, so a killed run leaves no incomplete one.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
extends_documentation_fragment:
  - mlcluster.aws._lustre
attributes:
  check_mode:
    description: Creates nothing, and returns what it would create.
    support: full
  diff_mode:
    description: Shows the directories before and after.
    support: full
notes:
  - Needs root, and C(lfs) for a stripe layout.
  - Run it on one node, the head node. On a mount with the option flock, several nodes at once wait for each other.
seealso:
  - module: mlcluster.aws.lustre_info
"""

EXAMPLES = r"""
- name: Directories for two models, checkpoints over all OSTs
  mlcluster.aws.lustre_directories:
    file_systems:
      - path: /fsx
    directories:
      - path: /fsx/checkpoints/model1
        group: ml
        stripe:
          - count: -1
            size: 16M
      - path: /fsx/logs/model1
        group: ml
        acl: ["default:group:ml:rwx"]
"""

RETURN = r"""
created:
  description: Paths that were created, or would be in check mode, from the top down.
  returned: success
  type: list
  elements: str
  sample: [/fsx/checkpoints, /fsx/checkpoints/model1]
differences:
  description: How existing directories differ from the wanted ones, one sentence each.
  returned: success
  type: list
  elements: str
  sample: ["/fsx/logs exists and was left as it is: mode is 0755 instead of 2775"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import directories
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import ARGUMENT_SPEC, parse_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.identity import proved_paths
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.look import mounted, with_adopted
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.mounts import read_fstab


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    host = Host()
    try:
        config = with_adopted(host, parse_config(module.params))
        mounts = mounted(host, config, read_fstab(host))
        rows = directories.look(host, config, proved_paths(mounts))
        refused = [f"{row['path']}: {row['why']}" for row in rows if row["state"] in ("refused", "unknown")]
        if refused:
            module.fail_json(msg=f"no directory was created: {'; '.join(refused)}")
        missing = [row["path"] for row in rows if row["state"] == "missing"]
        created = missing if module.check_mode else directories.make(host, config, rows)
    except NodeError as exc:
        module.fail_json(msg=str(exc))
    existing = [row["path"] for row in rows if row["state"] == "there"]
    module.exit_json(
        changed=bool(created),
        created=created,
        differences=[
            f"{row['path']} exists and was left as it is: {', '.join(row['differences'])}"
            for row in rows
            if row["differences"]
        ],
        diff={
            "before_header": "directories before",
            "after_header": "directories after",
            "before": "".join(f"{path}\n" for path in sorted(existing)),
            "after": "".join(f"{path}\n" for path in sorted(existing + created)),
        },
    )


if __name__ == "__main__":
    main()
