# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of nccl-tests and nccom-test, from the files that the script of a job leaves."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import collectives
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.job import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.verify import judge_job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import Judged
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result

from tests.unit.fakes.fake_nccl_output import output, snapshots

NODES = ("n1", "n2")


def asked(**fields):
    return {"kind": "node_smoke", "name": "x", "tasks_per_node": 2, "gpus_per_node": 2, **fields}


@pytest.mark.parametrize(
    ("runs", "accused"),
    [
        ([(("a", "b"), "pass"), (("b", "c"), "pass")], {}),
        # One failing pair accuses no node.
        ([(("a", "b"), "fail"), (("c", "d"), "pass")], None),
        ([(("a", "b"), "fail"), (("b", "c"), "pass")], {"a"}),
        ([(("a", "b"), "fail"), (("b", "c"), "fail"), (("c", "d"), "pass"), (("d", "a"), "pass")], {"b"}),
        ([(("a",), "fail"), (("a", "b"), "fail")], {"a"}),
        ([(("a", "b"), "fail"), (("a", "c"), "fail"), (("b", "c"), "pass")], {"a"}),
        # Another failing pair does not matter.
        ([(("a", "b"), "fail"), (("b", "c"), "pass"), (("x", "y"), "fail")], {"a"}),
        # A passing run of one node proves nothing about the fabric.
        ([(("a", "b"), "fail"), (("b",), "pass")], None),
        ([(("a", "b"), "fail"), (("a",), "pass"), (("b",), "pass")], None),
        # A large group that fails does not accuse those in it.
        ([(("a", "b", "c", "d"), "fail"), (("a", "b"), "pass"), (("c", "d"), "pass")], None),
        # Nor does a pair without them.
        ([(("a", "b", "c"), "fail"), (("x", "y"), "fail"), (("x", "z"), "pass"), (("y", "z"), "pass")], None),
    ],
)
def test_which_node_stands_out(runs, accused):
    found = collectives.nodes_that_stand_out(runs)
    if accused:
        assert {entry.scope.node for entry in found} == accused
        assert {(entry.status, entry.severity) for entry in found} == {("fail", "isolate")}
        alone = {nodes[0] for nodes, status in runs if status == "fail" and len(nodes) == 1}
        assert {entry.scope.node for entry in found if entry.message.endswith("fails by itself")} == alone
    else:
        assert [entry.status for entry in found] == ["undeterminable" if accused is None else "pass"]


@pytest.mark.parametrize("runs", [[(("a", "b"), "undeterminable")], []])
def test_undeterminable_run_clears_no_node(runs):
    (found,) = collectives.nodes_that_stand_out(runs)
    assert (found.status, found.reason) == ("undeterminable", "not_proved")


def test_failing_runs_of_accused_node_are_shown():
    runs = [
        (("b", "a"), "fail"),
        (("b", "c"), "fail"),
        (("c", "d"), "pass"),
        (("d", "a"), "pass"),
        (("x", "y"), "fail"),
    ]
    (found,) = collectives.nodes_that_stand_out(runs)
    assert (found.scope.node, found.found) == ("b", [["a", "b"], ["b", "c"]])


def test_four_unexplained_groups_are_named():
    (found,) = collectives.nodes_that_stand_out([((f"a{at}", f"b{at}"), "fail") for at in range(5)])
    assert found.reason == "not_singled_out"
    assert found.message.endswith("explains them: a0 with b0; a1 with b1; a2 with b2; a3 with b3")


def test_incomplete_line_of_runs_is_left_out():
    lines = ["a\tall_reduce\tn1,n2\t0\t1", "b\tall_reduce\tn1", "c\tall_reduce\tn1\tx\t0", "d\tr\tn1\t0\t0\t9"]
    assert collectives.read_runs("\n".join(lines)) == [collectives.Ran("a", "all_reduce", ("n1", "n2"), 0, "1")]
    assert collectives.read_runs(None) == []


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
        found = collectives.judge_collectives(Job(self.asked, NODES, str(self.folder)), Host())
        return {entry.id: entry for entry in found}


def test_run_with_counters(tmp_path):
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
def test_source_of_expected_figure(tmp_path, nodes, node, device):
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


def test_nodes_without_efa_devices_have_no_counters(tmp_path):
    nccl = Nccl(tmp_path)
    run = collectives.Ran("all", "all_reduce", NODES, 0, "0")
    job = Job(nccl.asked, NODES, str(tmp_path))
    assert collectives._counters(job, run, Host(), "after") is None
    lines = [json.dumps({"host": host, "devices": {}}) for host in NODES]
    (tmp_path / "counters.0.after").write_text("\n".join(lines) + "\n")
    assert collectives._counters(job, run, Host(), "after") is None


def test_counters_of_other_nodes_are_left_out(tmp_path):
    """A round of pairs writes the counters of all its nodes into one file."""
    nccl = Nccl(tmp_path)
    nccl.ran()
    nccl.counted("before", 0, (*NODES, "n3"))
    nccl.counted("after", 1 << 40, (*NODES, "n3"))
    run = collectives.Ran("all", "all_reduce", NODES, 0, "0")
    found = collectives._counters(Job(nccl.asked, NODES, str(tmp_path)), run, Host(), "after")
    assert sorted(found) == list(NODES)


def test_figure_is_compared_with_baseline_of_site(tmp_path):
    nccl = Nccl(tmp_path)
    nccl.ran()
    assert nccl.judged()["nccl.bandwidth.all_reduce"].reason == "no_threshold"
    where = {"tool": "nccl-tests", "instance_type": "p5.48xlarge", "nodes": 2, "ranks": 4, "collective": "all_reduce"}
    entry = {**where, "size": 1 << 30, "busbw": 900_000.0, "recorded": "2026-11-28T10:00:00Z"}
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps({"schema": "mlcluster.nccl_baseline/1", "entries": [entry]}))
    nccl.asked["baseline"] = str(path)
    slow = nccl.judged()["nccl.bandwidth.all_reduce"]
    assert slow.status == "fail" and slow.source.startswith("the site's baseline: ")


def test_status_of_program_counts(tmp_path):
    nccl = Nccl(tmp_path)
    nccl.ran(rc=137)
    assert nccl.judged()["nccl.correct.all_reduce"].status == "fail"


def test_collective_that_never_ran_is_failure(tmp_path):
    nccl = Nccl(tmp_path)
    nccl.ran(nodes=NODES[:1])
    nccl.asked["collectives"] = ["all_reduce", "broadcast"]
    complete = nccl.judged()["nccl.complete"]
    assert (complete.status, complete.found, complete.expected) == ("fail", 0, 2)


@pytest.mark.parametrize(
    ("layout", "nodes", "groups"),
    [
        ("all", "abcd", ["abcd"]),
        ("single", "abc", ["a", "b", "c"]),
        ("pairs", "ab", ["ab"]),
        ("pairs", "abc", ["ab", "bc"]),
        ("pairs", "abcd", ["ab", "cd", "bc", "da"]),
        ("pairs", "abcde", ["ab", "cd", "bc", "de"]),
        ("pairs", "a", ["a"]),
        ("bisect", "abcd", ["abcd"]),
        ("domains", "abcd", ["abcd"]),
    ],
)
def test_runs_of_layout(layout, nodes, groups):
    found = collectives.expected_runs(layout, ["x", "y"], list(nodes))
    wanted = [(name, tuple(group)) for name in ("x", "y") for group in groups]
    assert found == (wanted[:1] if layout == "bisect" else wanted)


@pytest.mark.parametrize(
    ("layout", "had", "missing"),
    [
        ("pairs", ["ab", "cd"], "2 of 4 were never run: all_reduce on b+c, all_reduce on d+a"),
        ("pairs", ["ab", "cd", "bc", "ad"], None),
        ("all", ["ab", "cd"], "1 of 1 were never run: all_reduce on a to d, 4 nodes"),
        ("all", ["abcd"], None),
        ("all", ["abc"], "1 of 1 were never run: all_reduce on a to d, 4 nodes"),
        ("single", ["a", "b", "d"], "1 of 4 were never run: all_reduce on c"),
        ("bisect", ["ab", "cd"], "1 of 1 were never run"),
        ("bisect", ["abcd", "ab"], None),
    ],
)
def test_runs_that_are_missing_are_named(tmp_path, layout, had, missing):
    nccl = Nccl(tmp_path)
    nccl.asked["layout"] = layout
    for nodes in had:
        nccl.ran("+".join(nodes), tuple(nodes))
    job = Job(nccl.asked, tuple("abcd"), str(tmp_path))
    found = {entry.id: entry for entry in collectives.judge_collectives(job, Host())}
    complete = found["nccl.complete"]
    assert complete.status == ("fail" if missing else "pass")
    assert (missing or "4 nodes") in complete.message


def test_four_missing_runs_are_named(tmp_path):
    nccl = Nccl(tmp_path)
    nccl.asked["layout"] = "single"
    found = collectives.judge_collectives(Job(nccl.asked, tuple("abcde"), str(tmp_path)), Host())[0]
    shown = ", ".join(f"all_reduce on {node}" for node in "abcd")
    assert (found.message, found.found) == (f"5 of 5 were never run: {shown}", 0)


def test_job_without_nodes_is_not_complete(tmp_path):
    nccl = Nccl(tmp_path)
    nccl.asked["layout"] = "single"
    found = collectives.judge_collectives(Job(nccl.asked, (), str(tmp_path)), Host())[0]
    assert (found.id, found.status) == ("nccl.complete", "fail")


def test_three_nodes_are_named_by_first_and_last(tmp_path):
    nccl = Nccl(tmp_path)
    found = collectives.judge_collectives(Job(nccl.asked, tuple("abc"), str(tmp_path)), Host())[0]
    assert found.message == "1 of 1 were never run: all_reduce on a to c, 3 nodes"


@pytest.mark.parametrize(
    ("named", "others"),
    [(("a", "b"), None), (("a", "c"), "c"), (("c", "d"), "c, d"), (("a", "ip-10-0-0-2"), None), (("a.x", "c.x"), "c")],
)
def test_output_of_other_nodes_is_not_accepted(tmp_path, named, others):
    nccl = Nccl(tmp_path)
    nccl.ran("one", named)
    (tmp_path / "runs.tsv").write_text("one\tall_reduce\ta,b\t0\t0\n")
    found = collectives.judge_collectives(Job(nccl.asked, tuple("abcd"), str(tmp_path)), Host())
    messages = [one.message for one in found if one.reason == "other_nodes"]
    assert messages == ([f"all_reduce on a+b names {others}: run it again"] if others else [])
    assert {one.status for one in found if one.reason == "other_nodes"} <= {"undeterminable"}


def test_output_that_is_gone_is_no_pass(tmp_path):
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
def test_nccom_correctness_by_output(tmp_path, text, rc, status):
    (tmp_path / "n1.all_reduce.out").write_text(text)
    (tmp_path / "runs.tsv").write_text(f"n1\tall_reduce\tn1\t{rc}\t0\n")
    wanted = {"kind": "nccom", "collectives": ["all_reduce"], "layout": "single", "tolerance_percent": 10}
    more = {"instance_type": "trn1.32xlarge", "baseline": None, "workers_per_node": 32, "tasks_per_node": 1}
    job = Job(asked(**wanted, **more), ("n1",), str(tmp_path))
    found = {entry.id: entry for entry in judge_job(job, Host())}
    assert found["nccom.correct.all_reduce"].status == status
    assert found["nccom.fabric.all_reduce"].status != "pass"
    assert set(found) == {"nccom.complete", "nccom.nodes", *(f"nccom.{part}.all_reduce" for part in PARTS)}


@pytest.mark.parametrize(
    ("largest", "reason"), [("64K", None), ("127K", None), ("128K", "fewer_sizes"), ("4M", "fewer_sizes")]
)
def test_sizes_of_nccom_are_those_of_job(tmp_path, largest, reason):
    (tmp_path / "n1.all_reduce.out").write_text(NCCOM)
    (tmp_path / "runs.tsv").write_text("n1\tall_reduce\tn1\t0\t0\n")
    wanted = {"kind": "nccom", "collectives": ["all_reduce"], "layout": "single", "tolerance_percent": 10}
    sizes = {"smallest": "1K", "largest": largest, "factor": 64 if reason is None else 2}
    more = {"instance_type": "trn1.32xlarge", "baseline": None, "workers_per_node": 32, "tasks_per_node": 1}
    job = Job(asked(**wanted, **more, **sizes), ("n1",), str(tmp_path))
    found = {entry.id: entry for entry in judge_job(job, Host())}["nccom.correct.all_reduce"]
    assert (found.status, found.reason) == ("undeterminable" if reason else "pass", reason)


@pytest.mark.parametrize(
    ("sizes", "status"),
    [
        ({}, "pass"),
        ({"smallest": "1M", "largest": "1G", "factor": 4}, "pass"),
        ({"smallest": "1M", "largest": "16G", "factor": 4}, "undeterminable"),
        ({"smallest": "8", "largest": "1G", "factor": 4}, "undeterminable"),
        ({"smallest": "1M", "largest": "1G", "factor": 2}, "undeterminable"),
    ],
)
def test_sizes_of_nccl_are_those_of_job(tmp_path, sizes, status):
    nccl = Nccl(tmp_path, **sizes)
    nccl.ran()
    found = nccl.judged()["nccl.correct.all_reduce"]
    assert (found.status, found.reason) == (status, None if status == "pass" else "fewer_sizes")


PARTS = ("correct", "fabric", "bandwidth")


def of_four(folder):
    nccl = Nccl(folder)
    nccl.asked["layout"] = "pairs"
    return nccl, Job(nccl.asked, ("n1", "n2", "n3", "n4"), str(folder))


def complete(job):
    return [
        (one.status, one.reason)
        for one in collectives.judge_collectives(job, Host())
        if one.id == "nccl.complete" and one.reason
    ]


def test_output_of_one_pair_counts_for_one_pair(tmp_path):
    nccl, job = of_four(tmp_path)
    nccl.ran("a", ("n1", "n2"))
    nccl.ran("b", ("n3", "n4"))
    assert complete(job) == []
    # The same hosts under the name of another pair.
    lines = output(hosts=("n1", "n2"), gpus=2)
    (tmp_path / "b.all_reduce.out").write_text("\n".join(lines) + "\n")
    assert complete(job) == [("undeterminable", "one_for_two")]
    (message,) = [one.message for one in collectives.judge_collectives(job, Host()) if one.reason == "one_for_two"]
    assert message == "all_reduce on n1+n2 and on n3+n4 both name n1, n2: run it again"


def test_two_runs_with_one_output_are_no_proof(tmp_path):
    nccl, job = of_four(tmp_path)
    nccl.ran("a", ("n1", "n2"))
    nccl.ran("a", ("n3", "n4"))
    assert complete(job) == [("undeterminable", "one_for_two")]
    (message,) = [one.message for one in collectives.judge_collectives(job, Host()) if one.reason == "one_for_two"]
    assert message == "all_reduce on n1+n2 and on n3+n4 have one output: run it again"


def test_two_collectives_of_same_nodes_are_two_runs(tmp_path):
    nccl = Nccl(tmp_path)
    nccl.asked["collectives"] = ["all_reduce", "broadcast"]
    nccl.ran()
    text = (tmp_path / "all.all_reduce.out").read_text()
    (tmp_path / "all.broadcast.out").write_text(text)
    with (tmp_path / "runs.tsv").open("a") as file:
        file.write("all\tbroadcast\tn1,n2\t0\t1\n")
    complete_one = nccl.judged()["nccl.complete"]
    assert (complete_one.status, complete_one.found) == ("pass", 2)


def test_bandwidth_of_pair_accuses_no_node(tmp_path):
    nccl = Nccl(tmp_path)
    nccl.asked["layout"] = "pairs"
    nccl.ran()
    where = {"tool": "nccl-tests", "instance_type": "p5.48xlarge", "nodes": 2, "ranks": 4, "collective": "all_reduce"}
    entry = {**where, "size": 1 << 30, "busbw": 900_000.0, "recorded": "2026-11-28T10:00:00Z"}
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps({"schema": "mlcluster.nccl_baseline/1", "entries": [entry]}))
    nccl.asked["baseline"] = str(path)
    found = nccl.judged()
    assert found["nccl.bandwidth.all_reduce"].status == "fail"
    assert found["nccl.nodes"].status == found["nccl.fabric.all_reduce"].status


@pytest.mark.parametrize("failed", [0, 1, 2, 3])
def test_each_verdict_but_bandwidth_counts_for_node(tmp_path, monkeypatch, failed):
    names = ("correct", "fabric", "bandwidth", "domain")
    results = tuple(
        result.failed(f"nccl.{name}", "it is bad") if at == failed else result.passed(f"nccl.{name}", 1)
        for at, name in enumerate(names)
    )
    monkeypatch.setattr(collectives, "judge", lambda *given: Judged(results, None, {}))
    nccl = Nccl(tmp_path)
    nccl.asked["layout"] = "single"
    nccl.ran("n1", NODES[:1])
    judged = nccl.judged()
    assert judged["nccl.nodes"].status == ("pass" if names[failed] == "bandwidth" else "fail")
    assert {one.message for key, one in judged.items() if key.endswith(".all_reduce")} == {"n1: it is bad", "n1: pass"}


def test_run_that_was_made_twice_is_one(tmp_path):
    nccl, job = of_four(tmp_path)
    nccl.ran("a", ("n1", "n2"))
    nccl.ran("a", ("n2", "n1"))
    assert complete(job) == []


BLOCKS = "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 Nodes=n3 BlockSize=2\n"


def test_nodes_by_ultraserver():
    assert collectives.domains_of(["n1", "n3", "n2", "n9"], BLOCKS) == [("n1", "n2"), ("n3",), ("n9",)]
    assert collectives.domains_of(["n1", "n3"], "") == [("n1", "n3")]


def test_runs_of_each_ultraserver_and_of_all_are_expected(tmp_path):
    nodes = ("n1", "n2", "n3")
    groups = [("n1", "n2"), ("n3",), nodes]
    assert collectives.expected_runs("domains", ["x"], nodes, BLOCKS) == [("x", group) for group in groups]
    nccl = Nccl(tmp_path)
    nccl.asked["layout"] = "domains"
    (tmp_path / "topology").write_text(BLOCKS)
    for at, group in enumerate(groups):
        assert nccl_complete(nccl, nodes) == ("fail", at)
        nccl.ran("+".join(group), group)
    assert nccl_complete(nccl, nodes) == ("pass", 3)


def nccl_complete(nccl, nodes):
    found = collectives.judge_collectives(Job(nccl.asked, nodes, str(nccl.folder)), Host())[0]
    return found.status, found.found


@pytest.mark.parametrize(
    ("nodes", "topology", "count"),
    [(["n1", "n2"], BLOCKS, 1), (["n1", "n3"], BLOCKS, 2), (["n1", "n3"], "", None), (["n1"], None, None)],
)
def test_number_of_ultraservers_of_run(nodes, topology, count):
    assert collectives.domains_joined(nodes, topology) == count
