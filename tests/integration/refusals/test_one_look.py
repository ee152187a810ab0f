# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""site.yml looks at a node once, and each role takes its answer from that look."""

from __future__ import annotations

import json

GROUPS = ("instance_store", "efa", "gpu", "compute")
NODE = {"enroot_pyxis_slurm_prefix": "/opt/no-slurm", "efa_nccl_expected_devices": 0}
# Three tasks before the roles, and one for each of six roles: each is a process of the controller, also a skipped one.
TASKS = 9


def test_idle_node_costs_one_look_and_few_tasks(run_playbook):
    groups = {group: {"node1": NODE} for group in GROUPS}
    status, output = run_playbook("site.yml", groups, display="ansible.posix.json")
    assert status == 0, output[-2000:]
    document, _end = json.JSONDecoder().raw_decode(output[output.index("{ ") :])
    tasks = [task for play in document["plays"] for task in play["tasks"] if "node1" in task["hosts"]]
    looks = {
        task["task"]["name"]: result["queried"]
        for task in tasks
        if (result := task["hosts"]["node1"])["action"] == "mlcluster.aws.node_plan"
    }
    assert [name for name, asked in looks.items() if asked] == ["Look for all roles at once"]
    assert len(looks) == 1
    assert len(tasks) <= TASKS, [task["task"]["name"] for task in tasks]
