#!/usr/bin/python
# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_plan
short_description: Look at a node for roles of this collection and plan their actions
version_added: 0.1.0
description:
  - Looks and plans for any number of roles in parallel, in one module execution, each with its own time limit. Changes
    nothing.
  - Tasks use the action plugin of the same name, which reads the options of a role from its variables. If this run
    already has an answer for the same options, it does not query the node again. An answer is used once, and all
    answers are discarded once a role changes the node.
  - The answer of a role is printed, and the variable C(<role>_required) decides whether problems fail the task. Without
    that variable every problem does.
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
      The role of the calling tasks; its answer is returned and judged. The parts of slurm_jobs for nodes are
      V(slurm_jobs_checks) and V(slurm_jobs_tools).
    type: str
  roles:
    description:
      - A list of roles to look for now, whose tasks use the answers later. Nothing is judged, and nothing fails. Roles
        without a task under the tags of the run are skipped. The list ends at a role without such a look, since it may
        change the facts for later roles.
      - The action plugin passes a dictionary of roles and options to the module instead.
    type: raw
  groups:
    description: Groups of the inventory, instead of O(roles); the roles are those of site.yml for these groups.
    type: list
    elements: str
  look_again:
    description: Query the node even if there is an answer.
    type: bool
    default: false
  verify:
    description:
      - Judge the node in its present state, with any differences. Without it only a node with nothing to do is judged,
        since later tasks change it.
    type: bool
    default: false
  validate:
    description: Judge only the options and the distribution, without a query to the node.
    type: bool
    default: false
  runtime:
    description: The node runtime, packed. The action plugin passes it to the module; tasks leave it out.
    type: str
  removal:
    description:
      - The files that a removal deletes and keeps, as the end of a sentence. The task fails with that sentence unless
        the variable C(<role>_remove_confirmed) is true. The node is not queried, and all answers of this run are
        discarded, since the removal changes the node.
    type: str
  required:
    description: Whether problems fail the task, instead of the variable C(<role>_required).
    type: bool
  report_idle:
    description:
      - With O(roles) or O(groups), report the roles that have nothing to do and no problem, and list them in RV(idle)
        for plays that skip them. Roles after the first one that has something to do are left out, since they look
        again after the change.
    type: bool
    default: false
  earlier_problems:
    description: Earlier errors, one sentence each. They count as problems, before all others.
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

- name: Show the differences
  ansible.builtin.debug:
    var: answer.plan.differences
"""

RETURN = r"""
plan:
  description: The plan, in the schema C(mlcluster.plan/1).
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
  description: The verdicts as text, one line each.
  returned: with O(role)
  type: list
  elements: str
  sample: ["PASS gds.mode (/data): compat: nvfs lacks nvidia_fs_module"]
problems:
  description: Entries of RV(lines) that are neither a pass nor not applicable.
  returned: with O(role)
  type: list
  elements: str
  sample: []
info:
  description: Further information for the user.
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
  description: The printed text, or the reason of the failure.
  returned: with O(role)
  type: str
  sample: "node1: would change packages, cufile.json"
options:
  description: The options of each role in the query to the node, without secrets.
  returned: where options are valid
  type: dict
  sample: {"nvidia_gds": {"mode": "compat"}}
wanted:
  description: The roles, and parts of roles, of site.yml for the node.
  returned: with O(roles) and O(groups)
  type: list
  elements: str
  sample: [nvme_raid0, slurm_jobs_tools]
idle:
  description: The roles, and parts of roles, that have nothing to do and were reported.
  returned: with O(report_idle=true)
  type: list
  elements: str
  sample: [nvme_raid0, efa_nccl]
queried:
  description: Whether the node was queried, instead of using an answer of this run.
  returned: always
  type: bool
  sample: false
ansible_facts:
  description: >-
    C(mlcluster_plan_ROLE), the unused answers of this run, and facts of the roles about the node.
  returned: success
  type: dict
  sample: {"mlcluster_gds": {"mounts": {"/data": "compat"}, "reboot_needed": [], "bandwidth": []}}
"""

import base64
import contextlib
import importlib
import os
import sys
import tempfile
import typing as t
import zlib

from ansible.module_utils.basic import AnsibleModule

OLDEST_PYTHON = (3, 9)


@contextlib.contextmanager
def unpacked(runtime: str) -> t.Iterator[str]:
    """Write the archive of the runtime to a temporary file and return its path. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="mlcluster-plan-") as folder:
        archive = os.path.join(folder, "mlcluster.pyz")
        with open(archive, "wb") as stream:
            stream.write(zlib.decompress(base64.b64decode(runtime)))
        yield archive


def look(roles: dict[str, t.Any], read_only: bool) -> dict[str, t.Any]:
    """Return the answer of each role and the facts about the system, by the code of the runtime."""
    # The code comes as one archive, not by imports of module_utils. For these Ansible parses each file, here 200, which
    # costs half as much as the rest of a run with nothing to do.
    host = importlib.import_module("mlcluster._node.system.host").Host()
    system = importlib.import_module("mlcluster._node.system.release").system_facts(host)
    look_all = importlib.import_module("mlcluster._node.node.look").look_all
    return {"system": system, "roles": look_all(host, roles, read_only=read_only)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str"},
            "roles": {"type": "raw"},
            "groups": {"type": "list", "elements": "str"},
            "look_again": {"type": "bool", "default": False},
            "verify": {"type": "bool", "default": False},
            "validate": {"type": "bool", "default": False},
            # Two thirds of a megabyte that no log needs.
            "runtime": {"type": "str", "no_log": True},
            "removal": {"type": "str"},
            "required": {"type": "bool"},
            "report_idle": {"type": "bool", "default": False},
            "earlier_problems": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    roles, runtime = module.params["roles"], module.params["runtime"]
    if not isinstance(roles, dict) or runtime is None:
        module.fail_json(
            msg="roles is not a dictionary of roles and options with a runtime: let the action plugin node_plan call"
            " the module"
        )
    version = list(sys.version_info[:2])
    if sys.version_info < OLDEST_PYTHON:
        module.exit_json(changed=False, python=version, system={}, roles={})
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(unpacked(runtime))
        except OSError as exc:
            module.fail_json(
                msg=f"could not write to the directory for temporary files of the node ({exc.strerror}): make"
                f" {exc.filename or tempfile.gettempdir()} writable, with 5 MB of free space"
            )
        sys.path.insert(0, archive)
        module.exit_json(changed=False, python=version, **look(roles, module.check_mode))


if __name__ == "__main__":
    main()
