# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the tasks of a job ran, from the files that they wrote."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import tasks
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.job import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds.container import judge_container
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds.node_smoke import judge_smoke
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

NODES = ("n1", "n2")


def asked(**fields):
    return {"kind": "node_smoke", "name": "x", "tasks_per_node": 2, "gpus_per_node": 2, **fields}


def task(rank, **fields):
    return {"rank": rank, "local": rank % 2, "node": NODES[rank // 2], "host": NODES[rank // 2], "gpus": ["0", "1"],
            **fields}  # fmt: skip


def smoke(tmp_path, written):
    for entry in written:
        (tmp_path / f"task-{entry['rank']}.json").write_text(json.dumps(entry))
    found = judge_smoke(Job(asked(), NODES, str(tmp_path)), Host())
    return {entry.id: entry for entry in found}


def test_every_task_in_its_place(tmp_path):
    found = smoke(tmp_path, [task(rank) for rank in range(4)])
    assert [entry.status for entry in found.values()] == ["pass"] * 4


def test_torn_file_is_no_task(tmp_path):
    (tmp_path / "task-3.json").write_text('{"rank": 3')
    found = smoke(tmp_path, [task(rank) for rank in range(3)])
    assert found["smoke.tasks"].status == "fail"


@pytest.mark.parametrize(
    ("changed", "check", "node"),
    [
        (task(3, node="n1"), "smoke.placement", None),
        (task(3, local=0), "smoke.placement", None),
        (task(3, gpus=[]), "smoke.gpus", "n2"),
    ],
)
def test_tasks_out_of_place(tmp_path, changed, check, node):
    found = smoke(tmp_path, [*(task(rank) for rank in range(3)), changed])
    assert (found[check].status, found[check].scope.node) == ("fail", node)


def test_two_nodes_with_one_name(tmp_path):
    assert smoke(tmp_path, [task(rank, host="ip") for rank in range(4)])["smoke.hosts"].status == "fail"


def test_silent_node_is_named(tmp_path):
    found = smoke(tmp_path, [task(0), task(1)])["smoke.tasks"]
    assert (found.scope.node, found.severity) == ("n2", "isolate")


def test_more_tasks_than_memory_could_count_out_are_verdict(tmp_path):
    """The expected number stands in a script that any user may rewrite."""
    many = Job(asked(tasks_per_node=10**15), NODES, str(tmp_path))
    found = tasks.judge_tasks("smoke", many, [task(rank) for rank in range(4)])
    assert [(entry.status, entry.expected, entry.found) for entry in found] == [("fail", 2 * 10**15, 4)]


@pytest.mark.parametrize("name", ["task-1.json.tmp", "host-n1.json", "task-1.jsonl", "1.json"])
def test_other_file_is_no_task(tmp_path, name):
    (tmp_path / name).write_text(json.dumps(task(1)))
    (tmp_path / "task-0.json").write_text(json.dumps(task(0)))
    (tmp_path / "task-2.json").write_text(json.dumps([task(2)]))
    assert tasks.read_tasks(Host(), str(tmp_path)) == [task(0)]


@pytest.mark.parametrize(
    ("ranks", "severity", "node"),
    [
        # Each rank wrote, and one wrote twice.
        ([0, 1, 2, 3, 3], "monitor", None),
        # The right number of files, and one rank is missing.
        ([0, 1, 2, 2], "isolate", "n2"),
        ([0, 1, 2, None], "isolate", "n2"),
        ([0, 1, 2, 4], "isolate", "n2"),
        ([0, 1, 2, -1], "isolate", "n2"),
        ([0, 1, 2, 3, None], "monitor", None),
    ],
)
def test_each_rank_writes_once(ranks, severity, node):
    ran = [{**task(0), "rank": rank} for rank in ranks]
    (found,) = tasks.judge_tasks("smoke", Job(asked(), NODES, "/r"), ran)
    assert (found.id, found.status, found.severity, found.scope.node) == ("smoke.tasks", "fail", severity, node)
    assert (found.expected, found.found) == (4, len(ranks))


def test_first_three_misplaced_ranks_are_named():
    ran = [task(rank, node="n9", local=7) for rank in range(4)]
    by_id = {one.id: one for one in tasks.judge_tasks("smoke", Job(asked(), NODES, "/r"), ran)}
    shown = "; ".join(f"rank {rank} ran on n9 as local 7" for rank in range(3))
    assert by_id["smoke.placement"].message.endswith(f"in the order of the nodes: {shown}")
    assert len(by_id["smoke.placement"].found) == 4


HOSTS = {"n1": "259:1 /", "n2": "259:1 /"}
INSIDE = "0:77 /"


@pytest.mark.parametrize(
    ("roots", "hosts", "status", "words"),
    [
        ([INSIDE] * 4, HOSTS, "pass", "4 tasks had a root directory of their own"),
        ([INSIDE] * 3 + [HOSTS["n2"]], HOSTS, "fail", "tasks on n2 ran outside of their containers"),
        ([INSIDE] * 3 + [None], HOSTS, "undeterminable", "was not recorded on n2"),
        ([INSIDE] * 4, {"n1": HOSTS["n1"], "n2": None}, "undeterminable", "was not recorded on n2"),
        # A task that is seen outside counts more than one that is not seen.
        ([None] * 3 + [HOSTS["n2"]], HOSTS, "fail", "tasks on n2 ran outside"),
        ([], HOSTS, "undeterminable", "was not recorded on every node"),
        (["N/A"] * 4, HOSTS, "undeterminable", "was not recorded on n1, n2"),
        ([INSIDE] * 4, {"n1": "overlay /", "n2": "ERR!"}, "undeterminable", "was not recorded on n1, n2"),
    ],
)
def test_tasks_have_root_of_their_own(roots, hosts, status, words):
    ran = [task(rank, root=root) for rank, root in enumerate(roots)]
    found = tasks.judge_task_roots(ran, hosts)
    assert (found.id, found.status) == ("container.task_root", status) and words in found.message


def test_container_job_compares_its_tasks_with_what_hosts_wrote(tmp_path):
    for rank in range(4):
        (tmp_path / f"task-{rank}.json").write_text(json.dumps(task(rank, root=INSIDE if rank < 2 else HOSTS["n2"])))
    for node, root in HOSTS.items():
        (tmp_path / f"host-{node}.json").write_text(json.dumps({"root": root}))
    found = judge_container(Job(asked(kind="container"), NODES, str(tmp_path)), Host())
    (one,) = [entry for entry in found if entry.id == "container.task_root"]
    assert (one.status, one.found) == ("fail", ["n2"])
    (tmp_path / "host-n1.json").write_text("[]")
    found = judge_container(Job(asked(kind="container"), NODES[:1], str(tmp_path)), Host())
    assert [entry.status for entry in found if entry.id == "container.task_root"] == ["undeterminable"]


@pytest.mark.parametrize(
    ("ranks", "severity", "node"),
    [([0, 1, 2], "isolate", "n2"), ([0, 1], "isolate", "n2"), ([0, 2], "monitor", None), ([], "monitor", None)],
)
def test_silent_node_is_isolated_unless_every_node_is_silent(tmp_path, ranks, severity, node):
    (tasks_written,) = smoke(tmp_path, [task(rank) for rank in ranks]).values()
    assert (tasks_written.status, tasks_written.severity, tasks_written.scope.node) == ("fail", severity, node)


def test_placement_names_ranks_of_each_node(tmp_path):
    found = smoke(tmp_path, [task(rank) for rank in range(4)])
    assert found["smoke.placement"].found == {"n1": [0, 1], "n2": [2, 3]}


def test_gpus_of_job_without_any_are_not_judged():
    ran = [task(rank, gpus=None) for rank in range(4)]
    by_id = {one.id: one for one in tasks.judge_tasks("smoke", Job(asked(gpus_per_node=None), NODES, "/r"), ran)}
    assert by_id["smoke.gpus"].status == "not_applicable"
    seen = [task(rank, gpus=["0"]) for rank in range(4)]
    by_id = {one.id: one for one in tasks.judge_tasks("smoke", Job(asked(gpus_per_node=0), NODES, "/r"), seen)}
    assert by_id["smoke.gpus"].status == "not_applicable"
    by_id = {one.id: one for one in tasks.judge_tasks("smoke", Job(asked(), NODES, "/r"), ran)}
    assert by_id["smoke.gpus"].status == "fail" and by_id["smoke.gpus"].found == {"n1": 0, "n2": 0}


@pytest.mark.parametrize("gpus", ["01", ["0", "0"], ["0", ""], ["0", None], [0, 1], None, {"0": 1, "1": 2}])
def test_gpus_that_are_no_different_names_are_not_counted(gpus):
    ran = [{**task(rank), "gpus": gpus} for rank in range(4)]
    by_id = {one.id: one for one in tasks.judge_tasks("smoke", Job(asked(), NODES, "/r"), ran)}
    assert by_id["smoke.gpus"].status == "fail"


@pytest.mark.parametrize("host", [None, "", 5])
def test_task_without_host_name_proves_no_placement(host):
    ran = [{**task(rank), "host": host} for rank in range(4)]
    by_id = {one.id: one for one in tasks.judge_tasks("smoke", Job(asked(), NODES, "/r"), ran)}
    assert (by_id["smoke.hosts"].status, by_id["smoke.hosts"].reason) == ("undeterminable", "no_host")
