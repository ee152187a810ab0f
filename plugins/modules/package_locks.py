#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: package_locks
short_description: Wait until no process holds a lock of a package manager
version_added: 0.1.0
description:
  - Waits for apt, dpkg, dnf and rpm, and fails with the name of the process that still holds a lock at the limit.
  - M(ansible.builtin.dnf) waits for such a process without a limit, with any value of C(lock_timeout).
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Changes nothing, and waits too.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  timeout:
    description: Maximum seconds to wait, 0 or more; 0 looks once.
    type: int
    default: 300
notes:
  - Needs root to see the locks of apt, dpkg and rpm.
seealso:
  - module: ansible.builtin.dnf
"""

EXAMPLES = r"""
- name: Wait for another process that installs packages
  mlcluster.aws.package_locks:
    timeout: 600
"""

RETURN = r"""
seconds:
  description: Seconds of the wait.
  returned: success
  type: float
  sample: 0.0
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.package_locks import wait_for_locks


def main() -> None:
    module = AnsibleModule(argument_spec={"timeout": {"type": "int", "default": 300}}, supports_check_mode=True)
    seconds = module.params["timeout"]
    if seconds < 0:
        module.fail_json(msg=f"timeout is {seconds}: use the seconds to wait, 0 or more")
    host = Host()
    started = host.monotonic()
    held = wait_for_locks(host, seconds)
    if held:
        module.fail_json(
            msg=f"waited {seconds} s to change packages, and {held}: see what that process waits for, then run again"
        )
    module.exit_json(changed=False, seconds=round(host.monotonic() - started, 1))


if __name__ == "__main__":
    main()
