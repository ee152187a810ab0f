# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes run together, in which order, and what each run leaves."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import layouts
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.collectives import expected_runs, read_runs

from tests.unit.fakes.fake_job_work import FakeWork, spec_of
from tests.unit.fakes.fake_nccl_output import output

FOUR, THREE = ("n1", "n2", "n3", "n4"), ("n1", "n2", "n3")


def ran(layout, nodes, counts=False, in_parallel=True, statuses=None, **options):
    """Return the work after its runs, and the groups that ran in parallel, without the steps that look at counters."""
    work = FakeWork(spec_of("nccl", layout=layout, **{"collectives": ["all_reduce"], **options}), nodes)
    work.statuses = statuses or {}
    if counts:
        work.read = lambda name: '{"devices": {"rdmap0": {"rdma_read_bytes": 1}}}'
    layouts.run_layout(work, lambda name, group: ("run", name, *group), 2, in_parallel)
    batches = [[line for line in batch if line.startswith("run ")] for batch in work.batches]
    return work, [[line.partition(" >")[0].split()[2:] for line in batch] for batch in batches if batch]


@pytest.mark.parametrize(
    ("layout", "nodes", "groups"),
    [
        ("all", THREE, [[["n1", "n2", "n3"]]]),
        ("single", THREE, [[["n1"], ["n2"], ["n3"]]]),
        ("pairs", FOUR, [[["n1", "n2"], ["n3", "n4"]], [["n2", "n3"], ["n4", "n1"]]]),
        ("pairs", THREE, [[["n1", "n2"]], [["n2", "n3"]]]),
        ("pairs", FOUR[:2], [[["n1", "n2"]]]),
        ("pairs", FOUR[:1], []),
    ],
)
def test_groups_that_run_in_parallel(layout, nodes, groups):
    work, found = ran(layout, nodes)
    assert found == groups
    runs = read_runs(work.files.get("runs.tsv"))
    assert [run.nodes for run in runs] == [tuple(group) for batch in groups for group in batch]
    # The verdict expects exactly the runs that are started.
    if groups:
        assert {run.nodes for run in runs} == {group for _name, group in expected_runs(layout, ["all_reduce"], nodes)}


def test_pairs_one_after_other_are_one_round():
    work, found = ran("pairs", FOUR, in_parallel=False)
    assert found == [[["n1", "n2"]], [["n3", "n4"]], [["n2", "n3"]], [["n4", "n1"]]]
    assert [run.round for run in read_runs(work.files["runs.tsv"])] == ["0", "0", "1", "1"]


def test_each_run_leaves_its_output_and_line():
    work, _found = ran("all", THREE, collectives=["all_reduce", "reduce"], statuses={"reduce": 3})
    assert work.files["runs.tsv"] == "all\tall_reduce\tn1,n2,n3\t0\t0\nall\treduce\tn1,n2,n3\t3\t1\n"
    output = "/fsx/jobs/results/x-7/all.reduce.out"
    assert [f"run reduce n1 n2 n3 >{output} 2>&1"] in work.batches


def looks(work):
    return [
        line.rpartition("counters.")[2].partition(" ")[0] for (line, *_others) in work.batches if "efa-counters" in line
    ]


def test_counters_are_read_each_round_until_no_node_has_any():
    work, _found = ran("all", THREE, counts=True, collectives=["all_reduce", "reduce"])
    assert looks(work) == ["0.before", "0.after", "1.before", "1.after"]
    work, _found = ran("all", THREE, collectives=["all_reduce", "reduce"])
    assert looks(work) == ["0.before"]
    work, _found = ran("single", THREE, counts=True)
    assert looks(work) == []


def test_empty_counters_are_removed():
    work = FakeWork(spec_of("nccl", layout="all", collectives=["all_reduce"]))
    work.files["counters.0.before"] = '{"host": "n1", "devices": {}}'
    layouts.run_layout(work, lambda name, group: ("run", name, *group), 2)
    assert sorted(work.files) == ["runs.tsv"]


def test_counters_of_each_node_are_read_by_a_short_step():
    work, _found = ran("all", THREE, counts=True)
    (first, *_others) = [line for (line, *_more) in work.batches if "efa-counters" in line]
    assert "--time=2 " in first and first.count("2>/dev/null") == 1


@pytest.mark.parametrize(
    ("group", "layout", "name"),
    [
        (("n1",), "all", "all"),
        (("n1",), "single", "n1"),
        (("n1", "n2"), "pairs", "n1+n2"),
        (FOUR, "bisect", "n1+n2+n3+n4"),
        ((*FOUR, "n5"), "bisect", "n1-to-n5-5"),
    ],
)
def test_name_of_group(group, layout, name):
    assert layouts.unit(group, layout) == name


def bisected(nodes, broken, alone=False):
    """Return the groups that run if a group with the broken node fails; alone: also by itself."""
    seen = []

    def fails(group):
        seen.append("+".join(group))
        assert len(seen) < 20, "a group is halved for ever"
        return broken in group and (alone or len(group) > 1)

    layouts.bisect(nodes, fails)
    return seen


def test_nodes_that_do_not_fail_run_once():
    assert bisected(FOUR, "") == ["n1+n2+n3+n4"]


def test_each_of_failing_pair_runs_by_itself_and_with_good_node():
    assert bisected(FOUR, "n3") == ["n1+n2+n3+n4", "n1+n2", "n3+n4", "n3", "n4", "n3+n1", "n4+n1"]


def test_pair_without_good_node_is_left_pair():
    assert bisected(FOUR[:2], "n1", alone=True) == ["n1+n2", "n1", "n2"]


def test_half_of_odd_group_is_larger_one_first():
    assert bisected(THREE, "n3") == ["n1+n2+n3", "n1+n2", "n3"]


def test_failed_run_is_halved_undeterminable_one_is_not():
    _work, found = ran("bisect", FOUR)
    # Without an output nothing can be determined.
    assert found == [[["n1", "n2", "n3", "n4"]]]


def test_failing_nodes_are_halved_to_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(FakeWork, "file", lambda self, name: str(tmp_path / name))
    for group in ("n1+n2+n3+n4", "n3+n4", "n3+n1"):
        (tmp_path / f"{group}.all_reduce.out").write_text("no table at all\n")
    statuses = {"n3": 1}
    work, found = ran("bisect", FOUR, statuses=statuses, collectives=["all_reduce", "broadcast"])
    order = ["n1 n2 n3 n4", "n1 n2", "n3 n4", "n3", "n4", "n3 n1", "n4 n1"]
    assert [" ".join(group) for (group,) in found] == order
    assert {run.collective for run in read_runs(work.files["runs.tsv"])} == {"all_reduce"}


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("bisect", "halves a group of nodes as long as it fails"),
        ("domains", "2 UltraServers by the blocks"),
        ("all", ""),
    ],
)
def test_steps_of_layout_are_noted(layout, words):
    work = FakeWork(spec_of("nccl", layout=layout, collectives=["all_reduce"]), FOUR[:3])
    work.spec.asked["instance_type"] = "p5.48xlarge"
    work.answers = {"scontrol": BLOCKS}
    layouts.run_layout(work, lambda name, group: ("run", name, *group), 2)
    notes = [line for line in work.printed if line.startswith("# ")]
    assert any(words in line for line in notes) if words else notes == []


@pytest.mark.parametrize("kind", ["nccl", "nccom"])
def test_wrong_figures_of_tool_fail(tmp_path, monkeypatch, kind):
    """A run is judged as one of its own tool."""
    monkeypatch.setattr(FakeWork, "file", lambda self, name: str(tmp_path / name))
    lines = output(hosts=("n1", "n2"), gpus=2, in_place_wrong="1")
    (tmp_path / "n1+n2.all_reduce.out").write_text("\n".join(lines) + "\n")
    work = FakeWork(spec_of(kind, layout="bisect", collectives=["all_reduce"]))
    rounds = layouts.Rounds(work, lambda name, group: ("run", *group), 2, counts=False)
    assert rounds.fails("all_reduce", ("n1", "n2")) is (kind == "nccl")


def test_run_with_wrong_results_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(FakeWork, "file", lambda self, name: str(tmp_path / name))
    (tmp_path / "n1+n2.all_reduce.out").write_text("no table at all\n")
    work = FakeWork(spec_of("nccl", layout="bisect", collectives=["all_reduce"]))
    work.statuses = {"run": 1}
    rounds = layouts.Rounds(work, lambda name, group: ("run", *group), 2, counts=False)
    assert rounds.fails("all_reduce", ("n1", "n2")) is True
    assert rounds.fails("all_reduce", ("n1", "n3")) is False
    work.dry = True
    assert rounds.fails("all_reduce", ("n1", "n2")) is False


BLOCKS = "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 Nodes=n[3,9] BlockSize=2\n"


def in_blocks(text, nodes=FOUR, **options):
    work = FakeWork(spec_of("nccl", **{"layout": "domains", "collectives": ["all_reduce"], **options}), nodes)
    work.answers = {"scontrol": text}
    layouts.run_layout(work, lambda name, group: ("run", name, *group), 2)
    batches = [[line for line in batch if line.startswith("run ")] for batch in work.batches]
    return work, [[line.partition(" >")[0].split()[2:] for line in batch] for batch in batches if batch]


def test_each_ultraserver_runs_by_itself_and_then_all():
    work, found = in_blocks(BLOCKS)
    # A node in no block is by itself.
    assert found == [[["n1", "n2"], ["n3"], ["n4"]], [["n1", "n2", "n3", "n4"]]]
    assert work.files["topology"] == BLOCKS
    runs = {run.nodes for run in read_runs(work.files["runs.tsv"])}
    assert runs == {group for _name, group in expected_runs("domains", ["all_reduce"], FOUR, BLOCKS)}


@pytest.mark.parametrize(("text", "nodes"), [("", FOUR), (BLOCKS, ("n1", "n2"))])
def test_single_ultraserver_runs_once(text, nodes):
    work, found = in_blocks(text, nodes)
    assert found == [[list(nodes)]]
    assert [run.round for run in read_runs(work.files["runs.tsv"])] == ["0"]


def test_slurm_is_asked_for_blocks_only_for_ultraservers():
    assert "topology" not in in_blocks(BLOCKS, layout="all")[0].files
    work = FakeWork(spec_of("nccl", layout="all", collectives=["all_reduce"]))
    work.answers = {"scontrol": BLOCKS}
    for instance, text in (("p5.48xlarge", ""), (None, ""), ("p6e-gb200.36xlarge", BLOCKS), ("u-p6e-gb200x72", BLOCKS)):
        work.spec.asked["instance_type"] = instance
        assert layouts._topology(work, "all") == text
    work.spec.asked["instance_type"] = "p5.48xlarge"
    assert layouts._topology(work, "domains") == BLOCKS
