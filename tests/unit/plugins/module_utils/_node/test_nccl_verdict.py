# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run earns its three verdicts by what its output proves, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node import nccl_log, nccl_table
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl_parse import parse, parse_file
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl_verdict import Asked, entries, judge

from tests.unit.plugins.module_utils._node.nccl_outputs import COLUMNS, Plan, header, log, output, snapshots, table

FIXTURES = Path(__file__).parent / "fixtures" / "nccl"
FOUR = Asked(ranks=8, nodes=4, instance_type="p5.48xlarge")
HOSTS = Plan().hosts


def verdicts(lines, asked=FOUR, tool=None):
    return [one.status for one in judge(parse(lines), asked, tool).results]


def only(lines, which, asked=FOUR):
    return next(one for one in judge(parse(lines), asked).results if one.id == f"nccl.{which}")


def without(lines, *parts):
    return [line for line in lines if not any(part in line for part in parts)]


def test_a_good_run_on_four_nodes_passes_what_it_proves():
    judged = judge(parse(output()), FOUR)
    assert [one.status for one in judged.results] == ["pass", "pass", "undeterminable"]
    correct, fabric, bandwidth = judged.results
    assert correct.found == {"collective": "all_reduce", "ranks": 8, "rows": 6, "wrong": 0}
    assert fabric.found["hosts"] == list(HOSTS)
    assert fabric.found["channels"] == dict.fromkeys(HOSTS, 4)
    assert fabric.found["gpudirect_rdma"] == "all"
    assert fabric.found["intra_node"] == {"P2P": 8}
    assert fabric.found["nvls_channels"] == 16
    assert bandwidth.reason == "no_threshold"
    assert judged.facts["plugin_version"] == "1.21.1"
    assert judged.facts["devices"] == ["NVIDIA H100 80GB HBM3"]


def test_the_older_name_of_the_plugin_is_efa_as_well():
    assert verdicts(output(network="AWS Libfabric"))[:2] == ["pass", "pass"]


def test_the_provider_line_alone_proves_nothing():
    lines = without(output(), "Channel ")
    assert any("Selected provider is efa" in line for line in lines)
    fabric = only(lines, "fabric")
    assert (fabric.status, fabric.reason) == ("undeterminable", "no_channels")


def test_channels_alone_prove_nothing_either_for_libfabric_has_other_providers():
    assert only(without(output(), "Selected provider"), "fabric").reason == "no_provider"
    fabric = only(output(provider="tcp;ofi_rxm"), "fabric")
    assert (fabric.status, fabric.reason) == ("fail", "not_efa")
    assert "tcp;ofi_rxm" in fabric.message


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_has_to_log_its_channels(host):
    fabric = only(output(silent=(host,)), "fabric")
    assert (fabric.status, fabric.reason) == ("undeterminable", "no_channels")
    assert host in fabric.message


@pytest.mark.parametrize("network", ["Socket", "IB"])
def test_any_other_network_fails(network):
    fabric = only(output(network=network, gdr=""), "fabric")
    assert (fabric.status, fabric.reason) == ("fail", "not_efa")
    assert network in fabric.message


def test_one_host_that_fell_back_to_sockets_fails_the_run():
    lines = [line.replace("NET/Libfabric", "NET/Socket") if line.startswith("node-3:") else line for line in output()]
    fabric = only(lines, "fabric")
    assert (fabric.status, fabric.found["node-3"]) == ("fail", ["Socket"])


def test_no_log_proves_nothing():
    plan = Plan()
    fabric = only(header(plan) + table(plan), "fabric")
    assert (fabric.status, fabric.reason) == ("undeterminable", "no_log")


def test_channels_logged_by_another_host_than_the_ranks_prove_nothing():
    lines = [line.replace("node-2:", "node-9:") if "Channel" in line else line for line in output()]
    fabric = only(lines, "fabric")
    assert (fabric.status, fabric.reason) == ("undeterminable", "contradictory")


def test_nvlink_between_nodes_is_not_efa():
    lines = [
        line.replace("[send] via NET/Libfabric", "via P2P/MNNVL #") if "[send]" in line else line
        for line in without(output(), "[receive]")
    ]
    lines = [line.split(" #")[0] for line in lines]
    assert only(lines, "fabric").reason == "not_the_network"


def test_gpudirect_rdma_is_reported_not_demanded():
    fabric = only(output(gdr=""), "fabric")
    assert (fabric.status, fabric.found["gpudirect_rdma"]) == ("pass", "none")
    assert "without GPUDirect" in fabric.message


@pytest.mark.parametrize(("asked", "text"), [({"ranks": 16}, "16 ranks"), ({"nodes": 2}, "2 nodes")])
def test_what_was_asked_for_has_to_take_part(asked, text):
    judged = judge(parse(output()), Asked(**{"ranks": 8, "nodes": 4, **asked}))
    correct, fabric, bandwidth = judged.results
    assert (correct.status, fabric.status, bandwidth.status) == ("pass", "fail", "undeterminable")
    assert text in fabric.message


def test_without_saying_what_was_asked_for_the_fabric_is_not_judged():
    assert [only(output(), which, Asked()).reason for which in ("fabric", "bandwidth")] == ["not_asked", "not_asked"]


def test_ranks_split_into_groups_do_not_make_one_run():
    lines = [line.replace("Group  0", "Group  1") if "Rank  7" in line else line for line in output()]
    assert "2 groups" in only(lines, "fabric").message


def test_communicators_smaller_than_the_list_of_ranks_fail():
    lines = [line.replace("nRanks 8 nNodes 4", "nRanks 2 nNodes 1") for line in output()]
    fabric = only(lines, "fabric")
    assert (fabric.status, fabric.reason) == ("fail", "not_all_took_part")


def test_a_damaged_list_of_ranks_is_no_proof_that_ranks_were_missing():
    fabric = only(without(output(), "#  Rank  7"), "fabric")
    assert (fabric.status, fabric.reason) == ("undeterminable", "no_ranks")
    assert only(without(output(), "#  Rank  3"), "fabric").reason == "no_ranks"


def one_node_runs():
    """What srun without an MPI plugin gives: each node runs the whole test alone."""
    return [output(hosts=(host,), gpus=8) for host in HOSTS]


def test_one_node_runs_after_each_other_do_not_pose_as_one():
    lines = [line for run in one_node_runs() for line in run]
    judged = judge(parse(lines), Asked(ranks=32, nodes=4, instance_type="p5.48xlarge"))
    correct, fabric, bandwidth = judged.results
    assert (correct.status, fabric.status, bandwidth.status) == ("undeterminable", "fail", "undeterminable")
    assert fabric.reason == "separate_runs"
    assert "at most 8 ranks, not one on 4 nodes" in fabric.message


def test_one_node_runs_at_the_same_time_do_not_pose_as_one():
    lines = [line for lines in zip(*one_node_runs()) for line in lines]
    judged = judge(parse(lines), Asked(ranks=32, nodes=4))
    assert [one.status for one in judged.results] == ["undeterminable", "fail", "undeterminable"]


def test_a_single_one_node_run_does_not_pose_as_many():
    fabric = only(one_node_runs()[0], "fabric", Asked(ranks=32, nodes=4))
    assert (fabric.status, fabric.reason) == ("fail", "not_all_took_part")


def test_a_run_on_one_node_has_no_fabric():
    judged = judge(parse(output(hosts=("node-1",), gpus=8)), Asked(ranks=8, nodes=1))
    assert [one.status for one in judged.results] == ["pass", "not_applicable", "undeterminable"]


def test_several_collectives_in_a_file_are_told_apart():
    lines = output() + output(collective="reduce_scatter", network="Socket", gdr="")
    assert verdicts(lines)[0] == "undeterminable"
    assert verdicts(lines, Asked(ranks=8, nodes=4, collective="all_reduce"))[:2] == ["pass", "pass"]
    assert verdicts(lines, Asked(ranks=8, nodes=4, collective="reduce_scatter_perf"))[:2] == ["pass", "fail"]
    missing = only(lines, "correct", Asked(collective="alltoall"))
    assert "asked for alltoall, and found only all_reduce, reduce_scatter" in missing.message


def test_wrong_values_fail():
    lines = output()
    broken = [line[:-1] + "3" if line.startswith("     4194304") else line for line in lines]
    assert [only(broken, "correct").status, only(broken, "correct").severity] == ["fail", "isolate"]
    assert only([line.replace("0 OK", "2 FAILED") for line in lines], "correct").status == "fail"
    assert only([line.replace("       0  ", "     nan  ") for line in lines], "correct").status == "fail"


def test_an_unchecked_table_is_not_correct_by_that():
    lines = [line.replace("       0  ", "     N/A  ").replace("       0", "     N/A") for line in output()]
    assert only(lines, "correct").reason == "not_checked"


@pytest.mark.parametrize("collective", ["alltoall", "sendrecv"])
def test_collectives_without_an_in_place_check_pass(collective):
    assert verdicts(output(collective=collective, in_place_wrong="N/A"))[0] == "pass"
    assert only(output(in_place_wrong="N/A"), "correct").reason == "not_checked"


@pytest.mark.parametrize("cut", ["# Out of bounds", "    16777216", "# Avg bus", "# Collective test concluded"])
def test_a_truncated_output_fails(cut):
    lines = output()
    end = next(number for number, line in enumerate(lines) if line.startswith(cut))
    correct = only(lines[:end], "correct")
    assert (correct.status, correct.reason) == ("fail", "truncated")
    assert only(lines[:end], "bandwidth").status == "undeterminable"


def test_a_missing_or_a_doubled_row_is_no_whole_table():
    lines = output()
    row = next(number for number, line in enumerate(lines) if line.startswith("    16777216"))
    for changed in (lines[:row] + lines[row + 1 :], lines[: row + 1] + lines[row:]):
        correct = only(changed, "correct")
        assert (correct.status, correct.reason) == ("undeterminable", "incomplete")
        assert "announces 6 sizes" in correct.message


def test_a_row_of_another_size_or_bandwidth_is_noticed():
    lines = output()
    assert "stands where" in only([line.replace("    16777216", "    16000000") for line in lines], "correct").message
    changed = [line.replace("  80.00", " 980.00") if line.startswith("    16777216") else line for line in lines]
    assert "printed an average" in only(changed, "correct").message


@pytest.mark.parametrize(
    "error",
    [
        "node-2: Test NCCL failure common.cu:222 'unhandled cuda error'",
        " .. node-2 pid 1234: Test failure common.cu:1454",
        "srun: error: node-2: task 3: Segmentation fault",
        "slurmstepd: error: *** STEP 7.0 ON node-1 CANCELLED AT 2026-11-27T22:00:00 DUE TO TIME LIMIT ***",
        "node-2:1234:1250 [0] enqueue.cc:1694 NCCL WARN Cuda failure 'out of memory'",
    ],
)
def test_an_error_in_the_middle_fails(error):
    lines = output()
    lines.insert(len(lines) - 8, error)
    correct = only(lines, "correct")
    assert (correct.status, correct.reason) == ("fail", "test_failed")


def test_a_warning_is_reported_and_not_more():
    lines = output()
    lines.insert(
        30, "[2026-11-27 21:38:21] node-2:1234:1250 [0] misc/ibvwrap.cc:1 NCCL WARN Failed to open libibverbs.so"
    )
    judged = judge(parse(lines), FOUR)
    assert [one.status for one in judged.results][:2] == ["pass", "pass"]
    assert judged.facts["warnings"] == ["Failed to open libibverbs.so"]


def test_the_exit_status_counts():
    assert only(output(), "correct", Asked(rc=1)).status == "fail"
    assert only(output(), "correct", Asked(rc=0)).status == "pass"


def glued(line, start, noise):
    """A line another process wrote into: the beginning, the noise behind it, and the rest on a line of its own."""
    return [line[:start] + noise, line[start:]]


@pytest.mark.parametrize("start", [47, 51, 52, 65, 84, 90])
def test_a_row_that_the_log_was_written_into_is_put_together_again(start):
    noise = "node-2:1002:1102 [0] NCCL INFO Channel 03/1 : 2[0] -> 4[0] [send] via NET/Libfabric/1/GDRDMA"
    lines = [
        part for line in output() for part in (glued(line, start, noise) if line.startswith("    1677") else [line])
    ]
    judged = judge(parse(lines), FOUR)
    assert [one.status for one in judged.results][:2] == ["pass", "pass"]
    assert judged.results[1].found["channels"]["node-2"] == 5


def test_a_row_whose_rest_is_lost_is_no_whole_table():
    lines = [line[:50] if line.startswith("    16777216") else line for line in output()]
    assert "damaged" in only(lines, "correct").message


@pytest.mark.parametrize("label", ["{}: ", "[1,{}]<stdout>:", "  {}: "])
def test_labels_of_srun_and_mpirun_are_taken_off(label):
    assert verdicts([label.format(number % 8) + line for number, line in enumerate(output())])[:2] == ["pass", "pass"]


def test_colours_and_windows_line_ends_do_not_matter():
    assert verdicts([f"\x1b[32m{line}\x1b[0m\r\n" for line in output()])[:2] == ["pass", "pass"]


# Tables of other versions, from the formats in their source: 2.0 (error), 2.13 (#wrong, no version line),
# and 2.19 with CPU time, timestamps and times of each iteration.
OLD = [
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 32 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 ",
    "#",
    "# Using devices",
    "#   Rank  0 Pid   3685 on ip-10-0-0-1 device  0 [0x10] A100-SXM4-40GB",
    "#   Rank  1 Pid   3910 on ip-10-0-0-2 device  0 [0x10] A100-SXM4-40GB",
    "#",
    "#                                                     out-of-place                       in-place          ",
    "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error",
    "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       ",
    "           8             2   float     sum    41.94    0.50    0.50  0e+00    41.81    0.50    0.50  0e+00",
    "          16             4   float     sum    41.94    0.50    0.50  2e-07    41.81    0.50    0.50  2e-07",
    "          32             8   float     sum    41.94    0.50    0.50  0e+00    41.81    0.50    0.50    N/A",
    "# Out of bounds values : 0 OK",
    "# Avg bus bandwidth    : 0.5 ",
    "#",
]


def test_the_oldest_tables_are_read_and_judged_by_their_closing_line():
    judged = judge(parse(OLD), Asked(ranks=2, nodes=2, collective="all_reduce"))
    assert [one.status for one in judged.results] == ["pass", "undeterminable", "undeterminable"]
    assert judged.facts["hosts"] == ["ip-10-0-0-1", "ip-10-0-0-2"]
    failed = [line.replace("0 OK", "1 FAILED") for line in OLD]
    assert only(failed, "correct", Asked()).status == "fail"


def test_a_table_without_an_operation_column_is_read():
    lines = [line.replace("   redop", "").replace("     sum", "") for line in OLD]
    assert only(lines, "correct", Asked()).status == "pass"


def columns(more_names, more_words, time="time"):
    lines = output(smallest=1 << 20, largest=1 << 20)
    return [
        line.replace("    time", f"  {time}").rstrip() + more_names
        if line == COLUMNS
        else line.rstrip() + more_words
        if line.startswith("     1048576")
        else line
        for line in lines
    ]


def test_newer_columns_are_read_by_their_names():
    assert only(columns("", "", "cputime"), "correct").status == "pass"
    assert only(columns("  timestamp", "  2026-11-27 21:38:21"), "correct").status == "pass"
    assert only(columns("  timestamp", ""), "correct").status == "undeterminable"


def test_times_of_each_iteration_are_read():
    extra = "    i_min    i_max    i_p99    i_cv%"
    lines = [
        line.replace("#wrong", "#wrong" + extra)
        if line == COLUMNS
        else line.replace("       0", "       0     9.00    10.00    10.00     2.00")
        if line.startswith("     1048576")
        else line
        for line in output(smallest=1 << 20, largest=1 << 20)
    ]
    assert only(lines, "correct").status == "pass"


def test_a_step_in_bytes_and_a_reduced_maximum_are_understood():
    lines = [
        line.replace("step: 4(factor)", "step: 1048576(bytes)")
        for line in output(smallest=1 << 20, largest=1 << 22, factor=4)
    ]
    assert only(lines, "correct").reason == "incomplete"
    reduced = output()
    reduced = [line for line in reduced if not line.startswith("  1073741824")]
    reduced.insert(14, "# Reducing maxBytes to 300000000 due to memory limitation")
    assert "average" in only(reduced, "correct").message


def test_several_types_each_have_all_sizes():
    plan = Plan()
    lines = output(plan)
    start = lines.index(COLUMNS) + 2
    rows = lines[start : start + 6]
    second = [row.replace("   float", "    half") for row in rows]
    assert only(lines[: start + 6] + second + lines[start + 6 :], "correct").status == "pass"
    assert only(lines[: start + 6] + second[:4] + lines[start + 6 :], "correct").reason == "incomplete"


@pytest.mark.parametrize("collective", ["all_reduce", "alltoall", "broadcast"])
def test_recorded_tables_of_one_gpu_are_correct_and_say_nothing_of_a_fabric(collective):
    recorded = parse_file(str(FIXTURES / f"nccl-tests-{collective}-2.19.6.txt"))
    one = judge(recorded, Asked(ranks=1, nodes=1, collective=collective))
    assert [result.status for result in one.results] == ["pass", "not_applicable", "not_applicable"]
    two = judge(recorded, Asked(ranks=16, nodes=2))
    assert [result.status for result in two.results] == ["pass", "fail", "undeterminable"]


def test_a_recorded_table_with_log_lines_is_read():
    judged = judge(parse_file(str(FIXTURES / "nccl-tests-info-interleaved-2.19.6.txt")), Asked(ranks=1, nodes=1))
    assert judged.results[0].status == "pass"
    assert judged.facts["networks"] == ["Socket"]
    assert judged.facts["nvls_channels"] == 0
    assert judged.facts["nccl_version"] == "2.28.3+cuda13.0"


@pytest.mark.parametrize("name", ["net-ofi-missing", "too-many-gpus"])
def test_recorded_failures_fail(name):
    judged = judge(parse_file(str(FIXTURES / f"nccl-tests-{name}-2.19.6.txt")), Asked(ranks=1, nodes=1))
    assert judged.results[0].status == "fail"
    assert judged.results[2].status == "undeterminable"


def test_a_recorded_log_without_a_test_is_no_output():
    judged = judge(parse_file(str(FIXTURES / "nccl-2.28-socket.txt")), FOUR)
    assert {one.status for one in judged.results} == {"undeterminable"}
    assert judged.facts["networks"] == ["Socket"]


P5_PAIR = Asked(ranks=16, nodes=2, instance_type="p5.48xlarge")


def pair(busbw):
    return output(Plan(hosts=("a", "b"), gpus=8, smallest=1 << 30, largest=1 << 34, factor=2, busbw=lambda size: busbw))


def test_bandwidth_is_compared_with_published_figures_of_exactly_this():
    good = only(pair(480.0), "bandwidth", P5_PAIR)
    assert (good.status, good.expected["2147483648"], good.found["2147483648"]) == ("pass", 399.35, 480.0)
    assert "443.72 GB/s, less 10 percent" in good.source
    low = only(pair(420.0), "bandwidth", P5_PAIR)
    assert (low.status, sorted(low.found)) == ("fail", ["17179869184", "8589934592"])
    assert (
        only(pair(420.0), "bandwidth", Asked(ranks=16, nodes=2, instance_type="p5e.48xlarge")).reason == "no_threshold"
    )
    assert only(pair(420.0), "bandwidth", Asked(ranks=16, nodes=2)).reason == "no_threshold"


def test_bandwidth_of_sizes_between_published_ones_is_not_made_up():
    between = output(hosts=("a", "b"), gpus=8, smallest=3 << 29, largest=3 << 31, factor=2)
    assert only(between, "bandwidth", P5_PAIR).reason == "no_threshold"


def test_a_tolerance_is_ones_own_choice():
    asked = Asked(ranks=16, nodes=2, instance_type="p5.48xlarge", tolerance_percent=20)
    assert only(pair(420.0), "bandwidth", asked).status == "pass"


def baseline(lines, asked, now="2026-11-27T00:00:00Z"):
    return entries(judge(parse(lines), asked), asked, now)


def test_a_sites_own_figures_go_before_published_ones():
    recorded, problem = baseline(pair(600.0), P5_PAIR)
    assert problem is None
    asked = Asked(ranks=16, nodes=2, instance_type="p5.48xlarge", baseline=recorded)
    result = only(pair(480.0), "bandwidth", asked)
    assert (result.status, result.source) == ("fail", "the site's baseline: 600 GB/s, less 10 percent")


def test_a_baseline_is_recorded_of_good_runs_only():
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
    for lines, asked, sentence in (
        (output(network="Socket"), FOUR, "NCCL chose the network|talked to each other over Socket"),
        (output()[:-6], FOUR, "truncated|ends before"),
        (pair(100.0), P5_PAIR, "slower than what is known"),
        (output(), Asked(ranks=8, nodes=4), "needs to know instance_type"),
    ):
        recorded, problem = baseline(lines, asked)
        assert recorded == []
        assert any(part in problem for part in sentence.split("|"))


def test_a_test_that_missed_its_own_limit_is_too_slow():
    lines = [line.rstrip() + " FAILED" if "Avg bus" in line else line for line in output()]
    assert only(lines, "bandwidth").status == "fail"


def with_counters(before, after, **fields):
    return only(output(**fields), "fabric", Asked(ranks=8, nodes=4, before=before, after=after))


def test_counters_confirm_what_the_log_says():
    fabric = with_counters(snapshots(HOSTS, 0), snapshots(HOSTS, 4 << 30))
    assert (fabric.status, fabric.found["counted_bytes"]["node-1"]) == ("pass", 4 << 30)
    assert "counters of every host" in fabric.source


def test_idle_counters_disprove_it():
    after = {**snapshots(HOSTS, 4 << 30), **snapshots(["node-2"], 1000)}
    fabric = with_counters(snapshots(HOSTS, 0), after)
    assert (fabric.status, fabric.reason, fabric.found) == ("fail", "counters_idle", {"node-2": 1000})


def test_missing_or_reset_counters_prove_nothing():
    assert with_counters(snapshots(HOSTS, 0), None).reason == "counters_missing"
    assert with_counters(snapshots(HOSTS[:3], 0), snapshots(HOSTS, 1 << 32)).reason == "counters_missing"
    assert with_counters(snapshots(HOSTS, 5 << 30), snapshots(HOSTS, 1 << 30)).reason == "counters_reset"


def test_counters_do_not_replace_the_log():
    asked = Asked(ranks=8, nodes=4, before=snapshots(HOSTS, 0), after=snapshots(HOSTS, 1 << 32))
    assert only(without(output(), "NCCL INFO"), "fabric", asked).reason == "no_log"


def test_a_hosts_domain_does_not_matter():
    after = snapshots([f"{host}.example.com" for host in HOSTS], 4 << 30)
    assert with_counters(snapshots(HOSTS, 0), after).status == "pass"


NCCOM = [
    "    size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)",
    "     262144           65536    fp32          791.38           0.31           0.61",
    "     524288          131072    fp32          343.84           1.42           2.80",
    "Avg bus bandwidth:      1.7050GB/s",
]
PLAIN = ["     size(B)    count(elems)     type    time(us)    algbw(GB/s)    busbw(GB/s)"] + NCCOM[1:]


def nccom(lines=None, **asked):
    return judge(parse(NCCOM if lines is None else lines), Asked(**{"collective": "allr", **asked}))


def test_nccom_test_is_told_by_its_header_and_says_little():
    judged = nccom(nodes=2, ranks=64, instance_type="trn1.32xlarge")
    assert [one.id for one in judged.results] == ["nccom.correct", "nccom.fabric", "nccom.bandwidth"]
    assert [one.reason for one in judged.results] == ["not_checked", "no_evidence", "no_threshold"]
    assert judge(parse(PLAIN), Asked(checked=True, rc=0)).results[0].status == "pass"


def test_nccom_test_passes_with_the_evidence_it_needs():
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


def test_nccom_test_fails_where_it_did():
    assert nccom(rc=1, checked=True).results[0].status == "fail"
    assert nccom(NCCOM[:-1], rc=0, checked=True).results[0].reason == "truncated"
    assert "average" in nccom(NCCOM[:1] + NCCOM[2:], rc=0, checked=True).results[0].message
    assert nccom(NCCOM + NCCOM, rc=0, checked=True).results[0].reason == "no_single_run"


def test_nccom_bandwidth_is_compared_with_a_baseline_of_its_own():
    asked = {"nodes": 1, "ranks": 2, "instance_type": "trn1.32xlarge", "checked": True, "rc": 0}
    recorded, problem = entries(nccom(**asked), Asked(collective="allr", **asked), "2026-11-27T00:00:00Z")
    assert problem is None
    assert {(entry["tool"], entry["collective"]) for entry in recorded} == {("nccom-test", "all_reduce")}
    assert nccom(**asked, baseline=recorded).results[2].status == "pass"
    assert only(output(), "bandwidth", Asked(ranks=8, nodes=4, baseline=recorded)).reason == "no_threshold"


def test_the_ids_follow_the_tool_that_was_named():
    assert judge(parse([]), Asked(), "nccom-test").results[0].id == "nccom.correct"
    assert judge(parse([]), Asked()).results[0].id == "nccl.correct"


def test_lines_of_log_only_before_the_header_belong_to_the_run():
    plan = Plan()
    assert verdicts(log(plan) + header(plan) + table(plan))[:2] == ["pass", "pass"]


def test_logs_of_the_ranks_can_be_appended_to_the_output():
    plan = Plan()
    assert verdicts(header(plan) + table(plan) + log(plan))[:2] == ["pass", "pass"]
    assert verdicts(header(plan) + table(plan) + log(Plan(network="Socket", gdr="")))[:2] == ["pass", "fail"]


def test_a_node_that_nccl_takes_for_two_is_not_what_was_asked_for():
    lines = [line.replace("nNodes 4", "nNodes 5") for line in output()]
    assert "communicators over 5" in only(lines, "fabric").message


def test_many_channels_are_counted_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(nccl_log, "_PENDING", 3)
    fabric = only(output(), "fabric")
    assert (fabric.status, fabric.found["channels"]) == ("pass", dict.fromkeys(HOSTS, 4))
    plan = Plan()
    # Without the list of ranks nothing can be folded, and what does not fit is known to be missing.
    assert only(log(plan) + header(plan) + table(plan), "fabric").reason == "contradictory"


def test_many_outputs_are_read_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(nccl_table, "MAX_RUNS", 2)
    read = parse(output() * 4)
    assert (len(read.runs), read.runs[-1].tangled) == (2, True)


def test_a_table_without_rows_or_with_rows_that_are_none_is_no_whole_table():
    without_rows = [line for line in output() if not line.startswith(" ")]
    assert only(without_rows, "correct").message == "the table has no rows"
    for old, new in (("   float", "   fl@at"), ("  80.00", "  8x.00"), ("       0", "       ?")):
        assert "damaged" in only([line.replace(old, new) for line in output()], "correct").message


def test_an_operation_that_is_printed_as_nothing_is_read():
    lines = [line.replace("     sum      -1", "              -1") for line in output()]
    assert only(lines, "correct").status == "pass"


def test_threads_have_averages_of_their_own():
    lines = [line.replace("# nThread 1", "# nThread 2").replace("167.692", "150.1") for line in output()]
    assert only(lines, "correct").status == "pass"
    assert only([line.replace("167.692", "150.1") for line in output()], "correct").reason == "incomplete"


def test_the_way_between_the_gpus_of_a_node_is_reported():
    lines = [line.replace("via P2P/CUMEM/read", "via SHM/direct/direct") for line in output(nvls=0)]
    judged = judge(parse(lines), FOUR)
    assert (judged.facts["intra_node"], judged.facts["nvls_channels"]) == ({"SHM": 8}, 0)
    older = ["node-1:1:1 [0] NCCL INFO 16 coll channels, 4 nvls channels, 16 p2p channels", *output(nvls=0)]
    assert judge(parse(older), FOUR).facts["nvls_channels"] == 4
