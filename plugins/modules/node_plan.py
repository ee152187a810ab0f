#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_plan
short_description: Look at a node for roles of this collection and say what each would do
version_added: 0.1.0
description:
  - Makes the looks and plans of any number of roles side by side, in one module execution, each within its own time
    limit. Changes nothing.
  - Tasks use the action plugin of the same name, which takes the options of a role from its variables. Where it has
    an answer of this run to the same options already, it does not ask the node again. An answer is taken once, and no
    answer is left once a role changes the node.
  - The answer of a role is printed, and the task fails as the variable C(<role>_required) asks for it. Without that
    variable every problem fails it.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
attributes:
  check_mode:
    description: Changes nothing. In check mode no look writes anything, such as the temporary files of a probe.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  role:
    description: >-
      The role whose tasks ask; its answer is returned and judged. The parts of slurm_jobs for nodes are
      V(slurm_jobs_checks) and V(slurm_jobs_tools).
    type: str
  roles:
    description:
      - A list of roles whose looks are made now, for their tasks to find. Nothing is judged, and nothing fails. Roles
        of which the tags of the run leave no task are passed over. The list ends at a role that does not look so, since
        that may change what the roles behind it see.
      - The action plugin gives the module a mapping of role and options instead.
    type: raw
  groups:
    description: In the place of O(roles), groups of the inventory; the roles are those that site.yml has for them.
    type: list
    elements: str
  again:
    description: Ask the node also where there is an answer.
    type: bool
    default: false
  verify:
    description:
      - Judge the node as it is, whatever differs. Without it only a node with nothing to do is judged, since tasks
        follow that change it.
    type: bool
    default: false
  validate:
    description: Judge the options and the distribution alone, without asking the node.
    type: bool
    default: false
  removal:
    description:
      - What a removal takes away and what it keeps, as the end of a sentence. The task fails with that sentence unless
        the variable C(<role>_remove_confirmed) is true. Nothing is asked of the node, and no answer of this run is
        left, since the removal changes the node.
    type: str
  required:
    description: Whether problems fail the task, in place of the variable C(<role>_required).
    type: bool
  trouble:
    description: What went wrong before, a sentence each. They count as problems, before all others.
    type: list
    elements: str
    default: []
seealso:
  - module: mlcluster.aws.text_files
"""

EXAMPLES = r"""
- name: Look at the node for all roles at once
  mlcluster.aws.node_plan:
    groups: "{{ group_names }}"

- name: Look at the node and decide
  mlcluster.aws.node_plan:
    role: nvidia_gds
  register: answer

- name: Show what differs
  ansible.builtin.debug:
    var: answer.plan.differences
"""

RETURN = r"""
plan:
  description: What has to be done, in the schema C(mlcluster.plan/1).
  returned: with O(role)
  type: dict
  sample: {"schema": "mlcluster.plan/1", "domain": "nvidia_gds", "differences": ["cufile.json"], "empty": false}
results:
  description: Verdicts on the node in the schema C(mlcluster.result/1).
  returned: with O(role)
  type: list
  elements: dict
  sample: [{"id": "gds.mode", "status": "pass", "found": "compat"}]
lines:
  description: The verdicts as a person reads them, a line each.
  returned: with O(role)
  type: list
  elements: str
  sample: ["PASS gds.mode (/data): compat: nvfs lacks nvidia_fs_module"]
problems:
  description: Those of RV(lines) that are neither a pass nor not applicable.
  returned: with O(role)
  type: list
  elements: str
  sample: []
shown:
  description: What else a person should know.
  returned: with O(role)
  type: list
  elements: str
  sample: ["driver 580.159.04 (open kernel module by /proc/driver/nvidia/version), CUDA 13.0 by package libcufile-13-0"]
details:
  description: Longer texts that explain RV(problems), such as the end of a log.
  returned: with O(role)
  type: list
  elements: str
  sample: []
msg:
  description: What was printed, or why the task failed.
  returned: with O(role)
  type: str
  sample: "node1: would change packages, cufile.json"
options:
  description: The options of each role as the node is asked with, without secrets.
  returned: where options are sound
  type: dict
  sample: {"nvidia_gds": {"mode": "compat"}}
wanted:
  description: The roles, and parts of roles, that site.yml has for the node.
  returned: with O(roles) and O(groups)
  type: list
  elements: str
  sample: [nvme_raid0, slurm_jobs_tools]
asked:
  description: Whether the node was asked, and not an answer of this run taken.
  returned: always
  type: bool
  sample: false
ansible_facts:
  description: >-
    C(mlcluster_plan_ROLE), the answers of this run that no task has taken yet, and what roles say about the node.
  returned: success
  type: dict
  sample: {"mlcluster_gds": {"mounts": {"/data": "compat"}, "reboot_needed": [], "bandwidth": []}}
"""

import sys

from ansible.module_utils.basic import AnsibleModule

OLDEST_PYTHON = (3, 9)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str"},
            "roles": {"type": "raw"},
            "groups": {"type": "list", "elements": "str"},
            "again": {"type": "bool", "default": False},
            "verify": {"type": "bool", "default": False},
            "validate": {"type": "bool", "default": False},
            "removal": {"type": "str"},
            "required": {"type": "bool"},
            "trouble": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    roles = module.params["roles"]
    if not isinstance(roles, dict):
        module.fail_json(
            msg="roles is not a mapping of roles and options: let the action plugin node_plan call the module"
        )
    version = list(sys.version_info[:2])
    if sys.version_info < OLDEST_PYTHON:
        # An older Python cannot import what follows.
        module.exit_json(changed=False, python=version, system={}, roles={})
    from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.look import look_all
    from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
    from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.release import system_facts

    host = Host()
    module.exit_json(
        changed=False,
        python=version,
        system=system_facts(host),
        roles=look_all(host, roles, read_only=module.check_mode),
    )


if __name__ == "__main__":
    main()
