# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdicts on validation jobs, from files that their scripts leave."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import verify as slurm_verdict
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

from tests.unit.fakes.fake_nccl_output import output, snapshots

NODES = ("n1", "n2")


def asked(**fields):
    return {"kind": "node_smoke", "name": "x", "tasks_per_node": 2, "gpus_per_node": 2, **fields}


def task(rank, **fields):
    return {"rank": rank, "local": rank % 2, "node": NODES[rank // 2], "host": NODES[rank // 2], "gpus": ["0", "1"],
            **fields}  # fmt: skip


def smoke(tmp_path, tasks):
    for entry in tasks:
        (tmp_path / f"task-{entry['rank']}.json").write_text(json.dumps(entry))
    found = slurm_verdict.judge_smoke(slurm_verdict.Job(asked(), NODES, str(tmp_path)), Host())
    return {entry.id: entry for entry in found}


def test_every_task_in_its_place(tmp_path):
    found = smoke(tmp_path, [task(rank) for rank in range(4)])
    assert [entry.status for entry in found.values()] == ["pass"] * 4


def test_a_torn_file_is_no_task(tmp_path):
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
def test_what_is_out_of_place(tmp_path, changed, check, node):
    found = smoke(tmp_path, [*(task(rank) for rank in range(3)), changed])
    assert (found[check].status, found[check].scope.node) == ("fail", node)


def test_two_nodes_with_one_name(tmp_path):
    assert smoke(tmp_path, [task(rank, host="ip") for rank in range(4)])["smoke.hosts"].status == "fail"


def test_a_silent_node_is_named(tmp_path):
    found = smoke(tmp_path, [task(0), task(1)])["smoke.tasks"]
    assert (found.scope.node, found.severity) == ("n2", "isolate")


def test_more_tasks_than_memory_could_count_out_are_a_verdict(tmp_path):
    """What was asked for is a number in a script, which anybody may write again."""
    many = slurm_verdict.Job(asked(tasks_per_node=10**15), NODES, str(tmp_path))
    found = slurm_verdict.judge_tasks("smoke", many, [task(rank) for rank in range(4)])
    assert [(entry.status, entry.expected, entry.found) for entry in found] == [("fail", 2 * 10**15, 4)]


@pytest.mark.parametrize(
    ("runs", "accused"),
    [
        ([(("a", "b"), "pass"), (("b", "c"), "pass")], {}),
        # One pair that fails accuses nobody.
        ([(("a", "b"), "fail"), (("c", "d"), "pass")], None),
        ([(("a", "b"), "fail"), (("b", "c"), "pass")], {"a"}),
        ([(("a", "b"), "fail"), (("b", "c"), "fail"), (("c", "d"), "pass"), (("d", "a"), "pass")], {"b"}),
        ([(("a",), "fail"), (("a", "b"), "fail")], {"a"}),
        # A run alone that passes says nothing of the fabric.
        ([(("a", "b"), "fail"), (("a",), "pass"), (("b",), "pass")], None),
        # A large group that fails does not accuse those in it.
        ([(("a", "b", "c", "d"), "fail"), (("a", "b"), "pass"), (("c", "d"), "pass")], None),
    ],
)
def test_which_node_stands_out(runs, accused):
    found = slurm_verdict.nodes_that_stand_out(runs)
    if accused:
        assert {entry.scope.node for entry in found} == accused
        assert {(entry.status, entry.severity) for entry in found} == {("fail", "isolate")}
    else:
        assert [entry.status for entry in found] == ["undeterminable" if accused is None else "pass"]


def test_a_run_that_could_not_be_proved_clears_nobody():
    (found,) = slurm_verdict.nodes_that_stand_out([(("a", "b"), "undeterminable")])
    assert (found.status, found.reason) == ("undeterminable", "not_proved")


class Nccl:
    """A directory of results of two nodes with two GPUs, as the script of a nccl job leaves it."""

    def __init__(self, folder, **fields):
        self.folder = folder
        self.asked = asked(
            kind="nccl",
            collectives=["all_reduce"],
            layout="all",
            instance_type="p5.48xlarge",
            tolerance_percent=10,
            baseline=None,
            **fields,
        )

    def ran(self, unit="all", nodes=NODES, rc=0, **plan):
        lines = output(hosts=nodes, gpus=2, **plan)
        (self.folder / f"{unit}.all_reduce.out").write_text("\n".join(lines) + "\n")
        with (self.folder / "runs.tsv").open("a") as file:
            file.write(f"{unit}\tall_reduce\t{','.join(nodes)}\t{rc}\t0\n")

    def counted(self, side, sent, hosts=NODES):
        lines = [json.dumps({"host": host, "devices": devices}) for host, devices in snapshots(hosts, sent).items()]
        (self.folder / f"counters.0.{side}").write_text("\n".join(lines) + "\n")

    def judged(self):
        found = slurm_verdict.judge_nccl(slurm_verdict.Job(self.asked, NODES, str(self.folder)), Host())
        return {entry.id: entry for entry in found}


def test_a_run_with_counters(tmp_path):
    nccl = Nccl(tmp_path)
    nccl.ran()
    nccl.counted("before", 0)
    nccl.counted("after", 1 << 40)
    fabric = nccl.judged()["nccl.fabric.all_reduce"]
    assert fabric.status == "pass" and fabric.found["counted_bytes"]
    nccl.counted("after", 0)
    assert nccl.judged()["nccl.fabric.all_reduce"].status == "fail"


@pytest.mark.parametrize(
    ("nodes", "node", "device"),
    [(("n1",), "n1", None), (("n1", "n2"), None, "n1+n2"), (("n1", "n2", "n3"), None, None)],
)
def test_whose_a_figure_is(tmp_path, nodes, node, device):
    nccl = Nccl(tmp_path)
    nccl.ran(nodes=nodes)
    scope = nccl.judged()["nccl.bandwidth.all_reduce"].scope
    assert (scope.node, scope.device) == (node, device)


def test_counters_of_one_node_only_prove_nothing(tmp_path):
    nccl = Nccl(tmp_path)
    nccl.ran()
    nccl.counted("before", 0, NODES[:1])
    nccl.counted("after", 1 << 40, NODES[:1])
    assert nccl.judged()["nccl.fabric.all_reduce"].status == "undeterminable"


def test_the_status_of_the_program_counts(tmp_path):
    nccl = Nccl(tmp_path)
    nccl.ran(rc=137)
    assert nccl.judged()["nccl.correct.all_reduce"].status == "fail"


def test_what_was_never_run_is_a_failure(tmp_path):
    nccl = Nccl(tmp_path)
    nccl.ran(nodes=NODES[:1])
    nccl.asked["collectives"] = ["all_reduce", "broadcast"]
    complete = nccl.judged()["nccl.complete"]
    assert (complete.status, complete.found, complete.expected) == ("fail", 1, 4)


def test_an_output_that_is_gone_is_no_pass(tmp_path):
    nccl = Nccl(tmp_path)
    nccl.ran()
    (tmp_path / "all.all_reduce.out").unlink()
    assert nccl.judged()["nccl.correct.all_reduce"].status == "undeterminable"


NCCOM = """\
       size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)
          1024             256    fp32          151.20           0.01           0.01
         65536           16384    fp32          150.00           0.41           0.39
Avg bus bandwidth:      0.2000GB/s
"""


@pytest.mark.parametrize(
    ("text", "rc", "status"),
    [(NCCOM, 0, "pass"), (NCCOM, 1, "fail"), (NCCOM.partition("Avg")[0], 0, "fail"), ("no driver\n", 1, "fail")],
)
def test_a_run_of_nccom_test_is_judged_as_one_whose_results_were_compared(tmp_path, text, rc, status):
    (tmp_path / "n1.all_reduce.out").write_text(text)
    (tmp_path / "runs.tsv").write_text(f"n1\tall_reduce\tn1\t{rc}\t0\n")
    wanted = {"kind": "nccom", "collectives": ["all_reduce"], "layout": "single", "tolerance_percent": 10}
    more = {"instance_type": "trn1.32xlarge", "baseline": None, "workers_per_node": 32, "tasks_per_node": 1}
    job = slurm_verdict.Job(asked(**wanted, **more), ("n1",), str(tmp_path))
    found = {entry.id: entry for entry in slurm_verdict.judge_job(job, Host())}
    assert found["nccom.correct.all_reduce"].status == status
    assert found["nccom.fabric.all_reduce"].status != "pass"
    assert set(found) == {"nccom.complete", "nccom.nodes", *(f"nccom.{part}.all_reduce" for part in PARTS)}


PARTS = ("correct", "fabric", "bandwidth")


def call(capsys, tmp_path, *words):
    try:
        code = cli.main([str(word) for word in words], "0.1.0", str(tmp_path / "log"))
    except SystemExit as ended:
        code = ended.code
    return code, capsys.readouterr()


def test_the_verb_writes_and_prints_a_report(tmp_path, capsys):
    for rank in range(4):
        (tmp_path / f"task-{rank}.json").write_text(json.dumps(task(rank)))
    words = ["job-verdict", tmp_path, "--asked", json.dumps(asked()), "--nodes", "n1 n2"]
    code, said = call(capsys, tmp_path, *words)
    assert (code, said.out.splitlines()[-1].partition(": ")[2]) == (0, "4 pass")
    assert json.loads((tmp_path / "report.json").read_text())["schema"] == "mlcluster.report/1"


@pytest.mark.parametrize(
    ("given", "nodes"),
    [("{", "n1"), ('{"kind": "dance", "name": "x"}', "n1"), ('{"kind": "nccl", "name": "x"}', "n1"),
     (json.dumps(asked()), " ")],
)  # fmt: skip
def test_what_is_no_job_is_a_matter_of_usage(tmp_path, capsys, given, nodes):
    assert call(capsys, tmp_path, "job-verdict", tmp_path, "--asked", given, "--nodes", nodes)[0] == 3
    assert not (tmp_path / "report.json").exists()


def test_a_task_writes_where_it_is(tmp_path, capsys, monkeypatch):
    for name, value in {"SLURM_PROCID": "9", "SLURM_LOCALID": "1", "SLURMD_NODENAME": "n2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert call(capsys, tmp_path, "job-task", tmp_path)[0] == 0
    found = json.loads((tmp_path / "task-9.json").read_text())
    assert (found["node"], found["local"], found["gpus"]) == ("n2", 1, ["0", "1"])
    assert call(capsys, tmp_path, "job-task", tmp_path / "missing")[0] == 3
    assert not (tmp_path / "missing").exists()
    monkeypatch.delenv("SLURM_PROCID")
    assert call(capsys, tmp_path, "job-task", tmp_path)[0] == 3
