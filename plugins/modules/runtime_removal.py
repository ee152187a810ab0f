#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: runtime_removal
short_description: Remove the runtime of the collection if no role uses it
version_added: 0.1.0
description:
  - Removes the runtime, its command and the files that Python compiled from it, unless something is left below
    O(configuration).
  - Everything below O(configuration) except a directory counts as used - files, links, pipes, sockets and devices. No
    link is followed.
  - A path that is not as the collection wrote it, such as a directory or a link in the place of a file, is kept and
    reported.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Reports what would be removed.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  runtime:
    description: The file of the runtime.
    type: path
    required: true
  command:
    description: The link to the runtime.
    type: path
    required: true
  configuration:
    description: The directory with the configuration of the roles.
    type: path
    default: /etc/mlcluster
"""

EXAMPLES = r"""
- name: Remove the runtime
  mlcluster.aws.runtime_removal:
    runtime: /usr/local/lib/mlcluster/mlcluster.pyz
    command: /usr/local/bin/mlcluster
"""

RETURN = r"""
removed:
  description: Paths that were removed, or would be.
  returned: success
  type: list
  elements: str
  sample: [/usr/local/bin/mlcluster, /usr/local/lib/mlcluster/mlcluster.pyz]
users:
  description: Paths that are left below O(configuration), for which the runtime is kept.
  returned: success
  type: list
  elements: str
  sample: [/etc/mlcluster/lustre.json]
kept:
  description: Files of the runtime that were kept for RV(users).
  returned: success
  type: list
  elements: str
  sample: []
foreign:
  description: Paths that were kept, since the collection did not write them in this form.
  returned: success
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import remains


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "runtime": {"type": "path", "required": True},
            "command": {"type": "path", "required": True},
            "configuration": {"type": "path", "default": "/etc/mlcluster"},
        },
        supports_check_mode=True,
    )
    users = remains.users(module.params["configuration"])
    try:
        found = remains.runtime_files(module.params["runtime"], module.params["command"])
        removed = [] if users else found["own"]
        if not module.check_mode:
            remains.remove(removed)
    except OSError as exc:
        module.fail_json(msg=f"the runtime could not be removed: {exc}; correct that and run again")
    kept = found["own"] if users else []
    module.exit_json(changed=bool(removed), removed=removed, users=users, kept=kept, foreign=found["foreign"])


if __name__ == "__main__":
    main()
