#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: efa_step
short_description: Carry out a step of the role efa_nccl
version_added: 0.1.0
description:
  - Carries out one step of a plan of the role C(efa_nccl), which M(mlcluster.aws.node_plan) makes.
  - Unpacks and runs no file with another sha256, or with a signature of another key than the requested one.
  - An installation that is interrupted is recognised by the file C(/var/lib/mlcluster/efa_installer.json), and repaired
    by the next run of the role.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Changes nothing, and reports what it would change.
    support: full
  diff_mode:
    description: Has no difference to show.
    support: none
options:
  step:
    description:
      - C(idle) fails if Slurm jobs run.
      - C(installer) runs the EFA installer and C(tests) builds nccl-tests, both from files that were downloaded before.
      - C(restart) restarts services if no Slurm job runs.
      - C(remove) deletes the role's files and releases its holds.
    type: str
    required: true
    choices: [idle, installer, tests, restart, remove]
  arguments:
    description: The arguments of that step in the plan; for C(remove) the options of the role.
    type: dict
    required: true
notes:
  - Needs root.
seealso:
  - module: mlcluster.aws.efa_info
"""

EXAMPLES = r"""
- name: Look at the node and decide
  mlcluster.aws.node_plan:
    role: efa_nccl
  register: answer

- name: Carry out a step after its downloads
  mlcluster.aws.efa_step:
    step: "{{ item.name }}"
    arguments: "{{ item.arguments }}"
  loop: "{{ answer.plan.steps | selectattr('name', 'in', ['installer', 'tests']) }}"
"""

RETURN = r"""
seconds:
  description: Seconds that the step took.
  returned: success
  type: float
  sample: 212.4
restarted:
  description: Services that were restarted.
  returned: with O(step=restart)
  type: list
  elements: str
  sample: [slurmd.service]
removed:
  description: Files that were removed.
  returned: with O(step=remove)
  type: list
  elements: str
  sample: [/etc/security/limits.d/95-mlcluster.conf]
unheld:
  description: Packages that are not held any more.
  returned: with O(step=remove)
  type: list
  elements: str
  sample: [libnccl2]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa.apply import STEPS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "required": True, "choices": list(STEPS)},
            "arguments": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    host = Host()
    started = host.monotonic()
    try:
        outcome = STEPS[module.params["step"]](host, module.params["arguments"], module.check_mode)
    except (NodeError, OSError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(seconds=round(host.monotonic() - started, 1), **outcome)


if __name__ == "__main__":
    main()
