# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bandwidth is compared with figures of exactly the same; counters prove where data went; nccom-test reports little."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import (
    RequestedRun,
    entries,
    judge,
    thresholds,
)

from tests.unit.fakes.fake_nccl_output import FOUR, Plan, only, output, snapshots, without

HOSTS = Plan().hosts


P5_PAIR = RequestedRun(ranks=16, nodes=2, instance_type="p5.48xlarge")


def pair(busbw):
    return output(Plan(hosts=("a", "b"), gpus=8, smallest=1 << 30, largest=1 << 34, factor=2, busbw=lambda size: busbw))


def test_bandwidth_is_compared_with_figures_of_same_setup():
    good = only(pair(480.0), "bandwidth", P5_PAIR)
    assert (good.status, good.expected["2147483648"], good.found["2147483648"]) == ("pass", 399.35, 480.0)
    assert "443.72 GB/s, less 10 percent" in good.source
    low = only(pair(420.0), "bandwidth", P5_PAIR)
    assert (low.status, sorted(low.found)) == ("fail", ["17179869184", "8589934592"])
    assert (
        only(pair(420.0), "bandwidth", RequestedRun(ranks=16, nodes=2, instance_type="p5.4xlarge")).reason
        == "implausible"
    )
    assert only(pair(420.0), "bandwidth", RequestedRun(ranks=16, nodes=2)).reason == "no_threshold"


def test_figures_of_other_gpus_are_not_compared():
    result = only(pair(90.0), "bandwidth", RequestedRun(ranks=16, nodes=2, instance_type="p4de.24xlarge"))
    assert (result.status, result.reason) == ("undeterminable", "other_type")
    assert result.message == "the ranks were on NVIDIA H100 80GB HBM3, and p4de.24xlarge has A100"


def test_figures_of_eight_ranks_are_not_for_one_rank():
    slow = output(hosts=("a", "b"), gpus=1, smallest=1 << 30, largest=1 << 34, factor=2, busbw=lambda size: 90.0)
    requested = RequestedRun(ranks=2, nodes=2, instance_type="p5.48xlarge")
    assert only(slow, "bandwidth", requested).reason == "no_threshold"
    recorded, problem = baseline(slow, requested)
    assert problem is None
    assert only(slow, "bandwidth", dataclasses.replace(requested, baseline=recorded)).status == "pass"
    # The bandwidth of one rank a node proves nothing about eight.
    assert only(pair(90.0), "bandwidth", dataclasses.replace(P5_PAIR, baseline=recorded)).status == "fail"


def test_size_between_published_ones_has_no_figure():
    between = output(hosts=("a", "b"), gpus=8, smallest=3 << 29, largest=3 << 31, factor=2)
    assert only(between, "bandwidth", P5_PAIR).reason == "no_threshold"


def test_tolerance_can_be_set():
    requested = RequestedRun(ranks=16, nodes=2, instance_type="p5.48xlarge", tolerance_percent=20)
    assert only(pair(420.0), "bandwidth", requested).status == "pass"


def baseline(lines, requested, now="2026-11-27T00:00:00Z"):
    return entries(judge(parse(lines), requested), requested, now)


def test_baseline_is_recorded_of_good_runs_only():
    recorded, problem = baseline(output(), FOUR)
    assert (len(recorded), problem) == (6, None)
    assert recorded[0] == {
        "tool": "nccl-tests",
        "instance_type": "p5.48xlarge",
        "nodes": 4,
        "collective": "all_reduce",
        "size": 1 << 20,
        "busbw": 6.15,
        "ranks": 8,
        "recorded": "2026-11-27T00:00:00Z",
    }
    for lines, requested, sentence in (
        (output(network="Socket"), FOUR, "NCCL chose the network|talked to each other over Socket"),
        (output()[:-6], FOUR, "truncated|ends before"),
        (pair(100.0), P5_PAIR, "slower than what is known"),
        (output(), RequestedRun(ranks=8, nodes=4), "needs to know instance_type"),
    ):
        recorded, problem = baseline(lines, requested)
        assert recorded == []
        assert any(part in problem for part in sentence.split("|"))


def test_figures_of_site_go_before_published_ones():
    recorded, problem = baseline(pair(600.0), P5_PAIR)
    assert problem is None
    requested = RequestedRun(ranks=16, nodes=2, instance_type="p5.48xlarge", baseline=recorded)
    result = only(pair(480.0), "bandwidth", requested)
    assert (result.status, result.source) == ("fail", "the site's baseline: 600 GB/s, less 10 percent")


def test_bandwidth_at_its_limit_passes():
    recorded, _problem = baseline(pair(480.0), P5_PAIR)
    requested = dataclasses.replace(P5_PAIR, baseline=recorded, tolerance_percent=0)
    assert only(pair(480.0), "bandwidth", requested).status == "pass"
    assert only(pair(479.99), "bandwidth", requested).status == "fail"


def test_test_below_its_own_limit_is_too_slow():
    lines = [line.rstrip() + " FAILED" if "Avg bus" in line else line for line in output()]
    assert only(lines, "bandwidth").status == "fail"


def with_counters(before, after, **fields):
    return only(output(**fields), "fabric", RequestedRun(ranks=8, nodes=4, before=before, after=after))


def test_counters_confirm_log():
    fabric = with_counters(snapshots(HOSTS, 0), snapshots(HOSTS, 4 << 30))
    assert (fabric.status, fabric.found["counted_bytes"]["node-1"]) == ("pass", 4 << 30)
    assert "counters of every host" in fabric.source


def test_idle_counters_disprove_log():
    after = {**snapshots(HOSTS, 4 << 30), **snapshots(["node-2"], 1000)}
    fabric = with_counters(snapshots(HOSTS, 0), after)
    assert (fabric.status, fabric.reason, fabric.found) == ("fail", "counters_idle", {"node-2": 1000})


def test_missing_or_reset_counters_prove_nothing():
    assert with_counters(snapshots(HOSTS, 0), None).reason == "counters_missing"
    assert with_counters(snapshots(HOSTS[:3], 0), snapshots(HOSTS, 1 << 32)).reason == "counters_missing"
    assert with_counters(snapshots(HOSTS, 5 << 30), snapshots(HOSTS, 1 << 30)).reason == "counters_reset"


def test_counters_do_not_replace_log():
    requested = RequestedRun(ranks=8, nodes=4, before=snapshots(HOSTS, 0), after=snapshots(HOSTS, 1 << 32))
    assert only(without(output(), "NCCL INFO"), "fabric", requested).reason == "no_log"


def test_hosts_domain_does_not_matter():
    after = snapshots([f"{host}.example.com" for host in HOSTS], 4 << 30)
    assert with_counters(snapshots(HOSTS, 0), after).status == "pass"


NCCOM = [
    "    size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)",
    "     262144           65536    fp32          791.38           0.31           0.61",
    "     524288          131072    fp32          343.84           1.42           2.80",
    "Avg bus bandwidth:      1.7050GB/s",
]


PLAIN = ["     size(B)    count(elems)     type    time(us)    algbw(GB/s)    busbw(GB/s)"] + NCCOM[1:]


def nccom(lines=None, **requested):
    return judge(parse(NCCOM if lines is None else lines), RequestedRun(**{"collective": "allr", **requested}))


def test_nccom_test_is_recognised_and_proves_little():
    judged = nccom(nodes=2, ranks=64, instance_type="trn1.32xlarge")
    assert [one.id for one in judged.results] == ["nccom.correct", "nccom.fabric", "nccom.bandwidth"]
    assert [one.reason for one in judged.results] == ["not_checked", "no_evidence", "no_threshold"]
    assert judge(parse(PLAIN), RequestedRun(checked=True, rc=0)).results[0].status == "pass"


def test_nccom_test_passes_with_evidence():
    nodes = ("a", "b")
    judged = nccom(
        nodes=2,
        checked=True,
        rc=0,
        before=snapshots(nodes, 0),
        after=snapshots(nodes, 1 << 20),
        instance_type="trn1.32xlarge",
    )
    assert [one.status for one in judged.results] == ["pass", "pass", "undeterminable"]
    assert (
        nccom(nodes=3, before=snapshots(nodes, 0), after=snapshots(nodes, 1 << 20)).results[1].reason
        == "counters_missing"
    )
    assert nccom(nodes=2, before=snapshots(nodes, 0), after=snapshots(nodes, 9)).results[1].status == "fail"
    assert nccom(nodes=1).results[1].status == "not_applicable"
    assert nccom().results[1].reason == "not_asked"


def test_failed_nccom_test_fails():
    assert nccom(rc=1, checked=True).results[0].status == "fail"
    assert nccom(NCCOM[:-1], rc=0, checked=True).results[0].reason == "truncated"
    assert "average" in nccom(NCCOM[:1] + NCCOM[2:], rc=0, checked=True).results[0].message
    assert nccom(NCCOM + NCCOM, rc=0, checked=True).results[0].reason == "no_single_run"


def test_nccom_bandwidth_is_compared_with_its_baseline():
    requested = {"nodes": 1, "ranks": 2, "instance_type": "trn1.32xlarge", "checked": True, "rc": 0}
    recorded, problem = entries(
        nccom(**requested), RequestedRun(collective="allr", **requested), "2026-11-27T00:00:00Z"
    )
    assert problem is None
    assert {(entry["tool"], entry["collective"]) for entry in recorded} == {("nccom-test", "all_reduce")}
    assert nccom(**requested, baseline=recorded).results[2].status == "pass"
    assert only(output(), "bandwidth", RequestedRun(ranks=8, nodes=4, baseline=recorded)).reason == "no_threshold"


@pytest.mark.parametrize(
    ("measured", "ranks", "reason"), [(128, None, None), (129, None, "fewer_sizes"), (129, 2, None)]
)
def test_nccom_size_is_rounded_by_number_of_ranks(measured, ranks, reason):
    row = f"     {measured}           {measured}    int8          1.00           0.13           0.13"
    found = nccom([NCCOM[0], row, "Avg bus bandwidth:      0.1300GB/s"], checked=True, rc=0, sizes=(64,), ranks=ranks)
    assert found.results[0].reason == reason


def test_nccom_status_alone_does_not_compare_results():
    assert nccom(rc=0).results[0].reason == "not_checked"


def test_ids_follow_named_tool():
    assert judge(parse([]), RequestedRun(), "nccom-test").results[0].id == "nccom.correct"
    assert judge(parse([]), RequestedRun()).results[0].id == "nccl.correct"


def test_slower_placement_counts():
    fast = {"hosts": ("a", "b"), "gpus": 8, "smallest": 1 << 30, "largest": 1 << 34, "factor": 2}
    for one, other in ((480.0, 1.0), (1.0, 480.0)):
        lines = output(Plan(**fast, busbw=lambda size, one=one: one, in_place_busbw=lambda size, other=other: other))
        result = only(lines, "bandwidth", P5_PAIR)
        assert (result.status, result.found["1073741824"]) == ("fail", 1.0)
        recorded, problem = baseline(lines, dataclasses.replace(P5_PAIR, tolerance_percent=99.9))
        assert (problem, {entry["busbw"] for entry in recorded}) == (None, {1.0})


@pytest.mark.parametrize("unit", ["(MB/s)", "(Gb/s)", "(GiB/s)", ""])
def test_unit_is_read_from_header(unit):
    lines = [line.replace("(GB/s)", unit) for line in pair(480.0)]
    result = only(lines, "bandwidth", P5_PAIR)
    assert (result.status, result.reason) == ("undeterminable", "unit")
    recorded, problem = baseline(lines, P5_PAIR)
    assert (recorded, "its bandwidth is not known" in problem) == ([], True)


def test_table_without_its_line_of_units():
    assert only(without(pair(480.0), "(elements)"), "bandwidth", P5_PAIR).reason == "unit"
    one = [line.replace("(GB/s)", "(Gb/s)", 1) for line in pair(480.0)]
    assert only(one, "bandwidth", P5_PAIR).reason == "unit"
    assert only([line.replace("(us)", "(ms)") for line in pair(480.0)], "bandwidth", P5_PAIR).reason == "unit"


@pytest.mark.parametrize(
    ("busbw", "reason"), [(799.0, None), (800.0, None), (801.0, "implausible"), (99999.0, "implausible")]
)
def test_bandwidth_that_no_hardware_reaches(busbw, reason):
    assert only(pair(busbw), "bandwidth", P5_PAIR).reason == reason


@pytest.mark.parametrize(
    ("busbw", "reason"), [(1999.0, "no_threshold"), (2000.0, "no_threshold"), (2001.0, "implausible")]
)
def test_bandwidth_that_no_link_reaches(busbw, reason):
    lines = output(hosts=("a",), gpus=8, smallest=1 << 30, largest=1 << 34, factor=2, busbw=lambda size: busbw)
    assert only(lines, "bandwidth", RequestedRun(ranks=8, nodes=1, instance_type="p5.48xlarge")).reason == reason
    assert only(pair(busbw), "bandwidth", RequestedRun(ranks=16, nodes=2)).reason == reason


def test_size_and_time_have_to_give_bandwidth():
    lines = pair(480.0)
    row = next(number for number, line in enumerate(lines) if line.startswith("  1073741824"))
    time = lines[row].split()[5]
    lines[row] = lines[row].replace(time, f"{float(time) * 2:.2f}", 1)
    result = only(lines, "bandwidth", P5_PAIR)
    assert (result.status, result.reason) == ("undeterminable", "contradictory")
    assert "1073741824 bytes in" in result.message


def test_run_of_no_iterations_measures_nothing():
    lines = [line.replace(" iters: 20 ", " iters: 0 ") for line in pair(480.0)]
    assert only(lines, "bandwidth", P5_PAIR).reason == "not_measured"


def test_ranks_without_name_of_their_gpu():
    lines = [line.replace(" NVIDIA H100 80GB HBM3", "") if "Rank 15" in line else line for line in pair(480.0)]
    result = only(lines, "bandwidth", P5_PAIR)
    assert (result.status, result.reason) == ("undeterminable", "other_type")
    assert result.message == "the list of ranks does not name the GPU of every rank"


@pytest.mark.parametrize(
    "requested", [RequestedRun(ranks=16), RequestedRun(nodes=2), RequestedRun(instance_type="p5.48xlarge")]
)
def test_bandwidth_of_unknown_run_size_is_not_judged(requested):
    assert only(pair(480.0), "bandwidth", requested).reason == "not_asked"


@pytest.mark.parametrize(("given", "named"), [(None, "the instance type"), ("x9.large", "x9.large")])
def test_unknown_figure_is_named_by_run(given, named):
    result = only(output(), "bandwidth", dataclasses.replace(FOUR, instance_type=given))
    wanted = f"no figure to compare with is known for {named}, 4 nodes, 8 ranks, all_reduce and the sizes measured"
    assert (result.reason, result.message) == ("no_threshold", wanted)
    assert result.found == {"largest_size": 1 << 30, "busbw": 376.47}


@pytest.mark.parametrize(
    ("percent", "least"),
    [(0, 443.72), (0.5, 441.5), (10, 399.35), (99, 4.44), (100, None), (100.5, None), (-1, None), (float("nan"), None)],
)
def test_least_bandwidth_by_tolerance(percent, least):
    found = thresholds("nccl-tests", "all_reduce", dataclasses.replace(P5_PAIR, tolerance_percent=percent))
    assert (found[1 << 31]["busbw"] if found else None) == least


def test_bus_bandwidth_of_other_ranks_is_of_another_run():
    lines = output(busbw=lambda size: 0.88)
    assert only(lines, "correct").status == "pass"
    changed = [line.replace("0.88", "1.60") for line in lines]
    assert only(changed, "correct").reason == "other_collective"
    # Rounded figures are not another run.
    near = [line.replace("0.88", "0.89") for line in lines]
    assert only(near, "correct").status == "pass"


def test_baseline_of_unnamed_collective_is_rejected():
    lines = without(output(), "Collective test", "nccl-tests version")
    recorded, problem = baseline(lines, FOUR)
    assert (recorded, problem) == ([], "a baseline needs to know collective: set these options")


@pytest.mark.parametrize(
    ("tool", "ids", "message"),
    [
        (None, "nccl", "there are 2 outputs in it where one was expected"),
        ("nccl-tests", "nccl", None),
        ("nccom-test", "nccom", None),
    ],
)
def test_run_of_named_tool_is_judged(tool, ids, message):
    judged = judge(parse([*output(), *NCCOM]), RequestedRun(ranks=8, nodes=4), tool)
    assert {one.id.partition(".")[0] for one in judged.results} == {ids}
    assert (judged.run.tool if judged.run else None) == tool
    assert message is None or judged.results[0].message == message


def test_output_without_run_reports_it():
    judged = judge(parse(["nothing"]), FOUR)
    assert (judged.run, judged.facts["tool"]) == (None, None)
    assert [one.message for one in judged.results] == ["there is no output of nccl-tests or nccom-test in it"] * 3
    judged = judge(parse(output()), dataclasses.replace(FOUR, collective="broadcast"))
    assert judged.results[0].message == "broadcast was requested, and the output has only all_reduce"


def test_baseline_of_nvlink_hosts_without_efa_is_rejected():
    lines = [
        line.replace("nNodes 2", "nNodes 1").replace("MNNVL 0", "MNNVL 1")
        for line in output(hosts=("gb200-1", "gb200-2"), gpus=4)
        if "[send]" not in line and "[receive]" not in line
    ]
    requested = RequestedRun(ranks=8, nodes=2, instance_type="p6e-gb200.36xlarge")
    judged = judge(parse(lines), requested)
    assert len(judged.results) == 4
    recorded, problem = entries(judged, requested, "2026-11-27T00:00:00Z")
    assert recorded == [] and problem.startswith("this run is not a baseline: ???? nccl.fabric")
