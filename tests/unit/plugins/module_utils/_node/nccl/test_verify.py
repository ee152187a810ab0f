# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run earns its verdicts by what its output proves: who took part, and the path of the data."""

from __future__ import annotations

import dataclasses
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import RequestedRun, entries, judge

from tests.unit.fakes.fake_nccl_output import (
    FOUR,
    OLD,
    Plan,
    header,
    log,
    only,
    output,
    reduced,
    table,
    verdicts,
    without,
)

HOSTS = Plan().hosts


def test_good_run_on_four_nodes_passes_what_it_proves():
    judged = judge(parse(output()), FOUR)
    assert [one.status for one in judged.results] == ["pass", "pass", "undeterminable"]
    correct, fabric, bandwidth = judged.results
    assert correct.found == {"collective": "all_reduce", "ranks": 8, "rows": 6, "wrong": 0}
    assert (correct.expected, correct.message) == ({"wrong": 0}, "6 rows of all_reduce on 8 ranks, and nothing wrong")
    assert fabric.found["hosts"] == list(HOSTS)
    assert fabric.found["channels"] == dict.fromkeys(HOSTS, 4)
    assert fabric.found["gpudirect_rdma"] == "all"
    assert fabric.found["intra_node"] == {"P2P": 8}
    assert fabric.found["nvls_channels"] == 16
    assert bandwidth.reason == "no_threshold"
    assert judged.facts["plugin_version"] == "1.21.1"
    assert judged.facts["devices"] == ["NVIDIA H100 80GB HBM3"]


def test_older_name_of_plugin_is_efa_as_well():
    assert verdicts(output(network="AWS Libfabric"))[:2] == ["pass", "pass"]


def test_provider_line_alone_proves_nothing():
    lines = without(output(), "Channel ")
    assert any("Selected provider is efa" in line for line in lines)
    fabric = only(lines, "fabric")
    assert (fabric.status, fabric.reason) == ("undeterminable", "no_channels")


def test_channels_without_provider_prove_nothing():
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


def test_one_host_that_fell_back_to_sockets_fails_run():
    lines = [line.replace("NET/Libfabric", "NET/Socket") if line.startswith("node-3:") else line for line in output()]
    fabric = only(lines, "fabric")
    assert (fabric.status, fabric.found["node-3"]) == ("fail", ["Socket"])


@pytest.mark.parametrize(
    ("via", "status", "reason"),
    [
        ("NET/Socket/0 and more", "fail", "not_efa"),
        ("NET/Socket/0node-3:1:2 [0] NCCL INFO x", "fail", "not_efa"),
        ("COLLNET/0", "undeterminable", "unread"),
        # Another process wrote into these: one channel less is known.
        ("NET/Libfabric/0/GDRDnode-3:1:2 [0] NCCL INFO x", "pass", None),
        ("NET/Libf", "pass", None),
        ("P2P/CUnode-3:1:2", "undeterminable", "unread"),
        ("P2P/CUMEM", "undeterminable", "contradictory"),
        ("SHM/direct/direct", "undeterminable", "contradictory"),
        ("NET/Socket", "undeterminable", "unread"),
        ("", "undeterminable", "unread"),
        ("P2P/" + "x" * 2000, "undeterminable", "contradictory"),
    ],
)
def test_channel_of_another_kind_is_not_passed_over(via, status, reason):
    lines = output()
    lines.insert(30, f"node-2:1002:1102 [0] NCCL INFO Channel 07/0 : 2[0] -> 4[0] [send] via {via}")
    result = only(lines, "fabric")
    assert (result.status, result.reason) == (status, reason)


SOME_LINES = {
    "send": lambda line: "[send]" in line,
    "receive": lambda line: "[receive]" in line,
    "channel": lambda line: "Channel 00/0" in line,
    "host": lambda line: line.startswith("node-3:"),
    "rank": lambda line: " : 7[1] -> 0[0] [send]" in line,
    "line": lambda line: "Channel 01/0 : 1[1] -> 2[0] [receive]" in line,
}


@pytest.mark.parametrize("where", SOME_LINES)
@pytest.mark.parametrize(
    "via", ["NET/Socket/0", "NET/Socket", "NET/Socket : eth0", "SHM/direct", "net/x", "", "NET/IB/0"]
)
def test_fabric_needs_evidence_of_each_channel_line(where, via):
    """Other lines of the same channel, host or rank prove nothing for a line without a network of EFA."""
    chosen = [line for line in output() if SOME_LINES[where](line) and "via NET/" in line]
    lines = [f"{line.partition('via ')[0]}via {via}" if line in chosen else line for line in output()]
    assert chosen and only(lines, "fabric").status in ("fail", "undeterminable")


@pytest.mark.parametrize(
    "via",
    ["P2P/direct pointer/read", "P2P/indirect/5[5]", "P2P/CUMEM/read/CE", "P2P/IPC", "SHM/direct/direct", "SHM/direct"],
)
def test_every_way_inside_node_is_known(via):
    lines = [line.replace("P2P/CUMEM/read", via) for line in output()]
    result = only(lines, "fabric")
    assert (result.status, result.found["intra_node"]) == ("pass", {via[:3]: 8})


def test_ranks_that_share_gpu_are_not_so_many_gpus():
    lines = [line.replace("device  1 [0000:01:00]", "device  1 [0000:00:00]") for line in output()]
    result = only(lines, "fabric")
    assert (result.status, result.reason, result.message) == ("undeterminable", "no_ranks", "8 ranks share 4 GPUs")


def test_no_log_proves_nothing():
    plan = Plan()
    fabric = only(header(plan) + table(plan), "fabric")
    assert (fabric.status, fabric.reason) == ("undeterminable", "no_log")


def test_channels_logged_by_other_host_prove_nothing():
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
    mixed = [line.replace("/GDRDMA", "") if line.startswith("node-2:") else line for line in output()]
    fabric = only(mixed, "fabric")
    assert (fabric.status, fabric.found["gpudirect_rdma"]) == ("pass", "some")
    assert fabric.message == "16 channels between 4 hosts over EFA, 12 with GPUDirect RDMA"


@pytest.mark.parametrize(("requested", "text"), [({"ranks": 16}, "16 ranks"), ({"nodes": 2}, "2 nodes")])
def test_requested_ranks_and_nodes_have_to_take_part(requested, text):
    judged = judge(parse(output()), RequestedRun(**{"ranks": 8, "nodes": 4, **requested}))
    correct, fabric, bandwidth = judged.results
    assert (correct.status, fabric.status, bandwidth.status) == ("pass", "fail", "undeterminable")
    assert text in fabric.message


def test_fabric_of_unknown_request_is_not_judged():
    assert [only(output(), which, RequestedRun()).reason for which in ("fabric", "bandwidth")] == [
        "not_asked",
        "not_asked",
    ]


def test_ranks_split_into_groups_do_not_make_one_run():
    lines = [line.replace("Group  0", "Group  1") if "Rank  7" in line else line for line in output()]
    assert "2 groups" in only(lines, "fabric").message


def test_communicators_smaller_than_list_of_ranks_fail():
    lines = [line.replace("nRanks 8 nNodes 4", "nRanks 2 nNodes 1") for line in output()]
    fabric = only(lines, "fabric")
    assert (fabric.status, fabric.reason) == ("fail", "not_all_took_part")


def test_damaged_list_of_ranks_proves_no_missing_rank():
    fabric = only(without(output(), "#  Rank  7"), "fabric")
    assert (fabric.status, fabric.reason) == ("undeterminable", "no_ranks")
    assert only(without(output(), "#  Rank  3"), "fabric").reason == "no_ranks"


def one_node_runs():
    """Return the outputs of srun without an MPI plugin: each node runs the whole test alone."""
    return [output(hosts=(host,), gpus=8) for host in HOSTS]


def test_one_node_runs_after_each_other_do_not_pose_as_one():
    lines = [line for run in one_node_runs() for line in run]
    judged = judge(parse(lines), RequestedRun(ranks=32, nodes=4, instance_type="p5.48xlarge"))
    correct, fabric, bandwidth = judged.results
    assert (correct.status, fabric.status, bandwidth.status) == ("undeterminable", "fail", "undeterminable")
    assert fabric.reason == "separate_runs"
    assert "at most 8 ranks, not one on 4 nodes" in fabric.message


def test_one_node_runs_at_same_time_do_not_pose_as_one():
    lines = [line for lines in zip(*one_node_runs()) for line in lines]
    judged = judge(parse(lines), RequestedRun(ranks=32, nodes=4))
    assert [one.status for one in judged.results] == ["undeterminable", "fail", "undeterminable"]


def test_single_one_node_run_does_not_pose_as_many():
    fabric = only(one_node_runs()[0], "fabric", RequestedRun(ranks=32, nodes=4))
    assert (fabric.status, fabric.reason) == ("fail", "not_all_took_part")


def test_run_on_one_node_has_no_fabric():
    judged = judge(parse(output(hosts=("node-1",), gpus=8)), RequestedRun(ranks=8, nodes=1))
    assert [one.status for one in judged.results] == ["pass", "not_applicable", "undeterminable"]


def test_several_collectives_in_file_are_reported_apart():
    lines = output() + output(collective="reduce_scatter", network="Socket", gdr="")
    assert verdicts(lines)[0] == "undeterminable"
    assert verdicts(lines, RequestedRun(ranks=8, nodes=4, collective="all_reduce"))[:2] == ["pass", "pass"]
    assert verdicts(lines, RequestedRun(ranks=8, nodes=4, collective="reduce_scatter_perf"))[:2] == ["pass", "fail"]
    missing = only(lines, "correct", RequestedRun(collective="alltoall"))
    assert "alltoall was requested, and the output has only all_reduce, reduce_scatter" in missing.message


def test_lines_of_log_only_before_header_belong_to_run():
    plan = Plan()
    assert verdicts(log(plan) + header(plan) + table(plan))[:2] == ["pass", "pass"]


def test_logs_of_ranks_can_be_appended_to_output():
    plan = Plan()
    assert verdicts(header(plan) + table(plan) + log(plan))[:2] == ["pass", "pass"]
    assert verdicts(header(plan) + table(plan) + log(Plan(network="Socket", gdr="")))[:2] == ["pass", "fail"]


def test_node_that_nccl_counts_as_two_is_not_two():
    lines = [line.replace("nNodes 4", "nNodes 5") for line in output()]
    assert "communicators over 5" in only(lines, "fabric").message


def test_way_between_gpus_of_node_is_reported():
    lines = [line.replace("via P2P/CUMEM/read", "via SHM/direct/direct") for line in output(nvls=0)]
    judged = judge(parse(lines), FOUR)
    assert (judged.facts["intra_node"], judged.facts["nvls_channels"]) == ({"SHM": 8}, 0)
    older = ["node-1:1:1 [0] NCCL INFO 16 coll channels, 4 nvls channels, 16 p2p channels", *output(nvls=0)]
    assert judge(parse(older), FOUR).facts["nvls_channels"] == 4


def test_run_of_2022_under_mpirun_is_judged_as_well():
    hosts = ("ip-10-0-0-1", "ip-10-0-0-2")
    logged = [
        line
        for rank, host in enumerate(hosts)
        for line in (
            f"{host}:21:21 [0] NCCL INFO NET/OFI Using aws-ofi-nccl 1.5.0aws",
            f"{host}:21:21 [0] NCCL INFO NET/OFI Selected Provider is efa (found 1 nics)",
            f"{host}:21:21 [0] NCCL INFO Using network AWS Libfabric",
            f"{host}:21:26 [0] NCCL INFO Channel 00/02 :    0   1",
            f"{host}:21:26 [0] NCCL INFO Channel 00 : {1 - rank}[f5] -> {rank}[1c] [receive] via NET/AWS Libfabric/0",
            f"{host}:21:26 [0] NCCL INFO comm 0x7f9c0c00 rank {rank} nranks 2 cudaDev 0 busId f5000 - Init COMPLETE",
        )
    ]
    lines = [f"[1,0]<stdout>:{line}" for line in [*OLD[:6], "NCCL version 2.12.7+cuda11.4", *logged, *OLD[6:]]]
    judged = judge(parse(lines), RequestedRun(ranks=2, nodes=2, collective="all_reduce"))
    assert [one.status for one in judged.results] == ["pass", "pass", "undeterminable"]
    assert (judged.facts["nccl_version"], judged.facts["plugin_version"]) == ("2.12.7+cuda11.4", "1.5.0aws")


def anonymous(collective, **fields):
    """Return an output of before the line "Collective test starting": the table has to show its collective."""
    return without(output(collective=collective, **fields), "Collective test", "nccl-tests version")


@pytest.mark.parametrize(
    ("made", "requested", "status"),
    [
        ("all_reduce", "all_reduce", "pass"),
        ("all_gather", "all_gather", "pass"),
        ("broadcast", "broadcast", "pass"),
        ("reduce_scatter", "reduce_scatter_perf", "pass"),
        ("all_gather", "all_reduce", "undeterminable"),
        ("reduce_scatter", "all_reduce", "undeterminable"),
        ("all_reduce", "reduce_scatter", "undeterminable"),
        ("broadcast", "all_gather", "undeterminable"),
        ("all_gather", "broadcast", "undeterminable"),
        ("reduce", "all_reduce", "undeterminable"),
    ],
)
def test_table_of_another_collective_than_asked_for(made, requested, status):
    correct, _fabric, bandwidth = judge(parse(anonymous(made)), dataclasses.replace(FOUR, collective=requested)).results
    assert (correct.status, correct.reason) == (status, None if status == "pass" else "other_collective")
    assert status == "pass" or bandwidth.reason == "not_correct"


def test_unchecked_in_place_values_are_not_those_of_all_reduce():
    lines = anonymous("alltoall", in_place_wrong="N/A")
    for requested in ("all_reduce", None):
        correct = judge(parse(lines), dataclasses.replace(FOUR, collective=requested)).results[0]
        assert correct.status == "undeterminable"
    assert judge(parse(lines), dataclasses.replace(FOUR, collective="alltoall")).results[0].status == "pass"


def test_header_that_names_another_collective_than_its_table():
    lines = [line.replace("all_reduce_perf", "reduce_scatter_perf") for line in output()]
    assert only(lines, "correct").reason == "other_collective"


def test_hosts_of_one_nvlink_domain_prove_nothing_about_efa():
    hosts = ("gb200-1", "gb200-2")
    lines = [
        line.replace("nNodes 2", "nNodes 1").replace("MNNVL 0", "MNNVL 1")
        for line in output(hosts=hosts, gpus=4)
        if "[send]" not in line and "[receive]" not in line
    ]
    requested = RequestedRun(ranks=8, nodes=2, instance_type="p6e-gb200.36xlarge")
    correct, fabric, _bandwidth, domain = judge(parse(lines), requested).results
    assert (domain.status, domain.reason) == ("undeterminable", "no_channels")
    assert (correct.status, fabric.status, fabric.reason) == ("pass", "undeterminable", "not_the_network")
    assert "over NVLink (MNNVL), which proves nothing about EFA" in fabric.message
    # Without MNNVL the same numbers are a run that fell apart.
    apart = [line.replace("MNNVL 1", "MNNVL 0") for line in lines]
    assert only(apart, "fabric", requested).reason == "not_all_took_part"


def test_channels_without_row_carried_nothing():
    plan = Plan()
    fabric = only(header(plan) + log(plan), "fabric")
    assert (fabric.status, fabric.reason) == ("undeterminable", "no_traffic")
    sockets = Plan(network="Socket", gdr="")
    assert only(header(sockets) + log(sockets), "fabric").status == "fail"


def test_missing_rank_line_is_no_other_collective():
    correct = only(without(output(), "#  Rank  7"), "correct")
    assert (correct.status, correct.reason) == ("pass", None)
    assert only(without(output(), "#  Rank"), "correct").status == "pass"


def test_reduced_largest_size_is_named_in_pass():
    correct = only(reduced(1 << 28), "correct")
    assert (correct.status, correct.found["rows"]) == ("pass", 5)
    assert correct.message == (
        "5 rows of all_reduce on 8 ranks, and nothing wrong; the test lacked memory and reduced its largest size "
        "from 1073741824 to 268435461 bytes"
    )


def test_requested_sizes_that_were_not_measured_are_no_pass():
    requested = dataclasses.replace(FOUR, sizes=Plan().sizes)
    assert only(output(), "correct", requested).status == "pass"
    correct = only(reduced(1 << 26), "correct", requested)
    assert (correct.status, correct.reason) == ("undeterminable", "fewer_sizes")
    assert correct.message == (
        "2 of 6 requested sizes were not measured: 268435456 to 1073741824 bytes; the test lacked memory and reduced "
        "its largest size from 1073741824 to 67108869 bytes"
    )
    # A program that took other options prints them itself.
    correct = only(output(largest=1 << 28), "correct", requested)
    assert (correct.status, correct.reason) == ("undeterminable", "fewer_sizes")
    assert correct.message == "1 of 6 requested sizes were not measured: 1073741824 bytes"
    judged = judge(parse(reduced(1 << 26)), requested)
    assert entries(judged, requested, "2026-11-28T12:00:00Z")[0] == []


def nothing_measured(average="-nan"):
    """Return the lines of a test whose memory holds less than its smallest size."""
    plan = Plan(smallest=1 << 30)
    lines = [line for line in output(plan) if not line.startswith("  1073741824")]
    lines = [re.sub(r"(Avg bus bandwidth    : ).*", rf"\g<1>{average} ", line) for line in lines]
    start = next(number for number, line in enumerate(lines) if "Rank  7" in line)
    return [*lines[: start + 1], "# Reducing maxBytes to 300000000 due to memory limitation", *lines[start + 1 :]]


@pytest.mark.parametrize("average", ["-nan", "nan", "0"])
def test_smallest_size_above_memory_is_named(average):
    requested = dataclasses.replace(FOUR, sizes=[1 << 30])
    correct = only(nothing_measured(average), "correct", requested)
    assert (correct.status, correct.reason) == ("undeterminable", "incomplete")
    assert correct.message == (
        "nothing was measured: the smallest requested size is 1073741824 bytes, and the memory holds at most 300000000"
    )
    assert correct.hint == "Set smallest to at most the size that the memory holds"
    assert verdicts(nothing_measured(average), requested)[2] == "undeterminable"


def test_output_without_its_end_is_truncated_also_if_nothing_was_measured():
    cut = without(nothing_measured(), "Out of bounds")
    assert only(cut, "correct").reason == "truncated"


def test_failure_counts_before_sizes_that_are_missing():
    requested = dataclasses.replace(FOUR, sizes=Plan().sizes, rc=1)
    assert only(reduced(1 << 28), "correct", requested).status == "fail"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("all_reduce", "all_gather", "a row of all_gather has the operation sum: it is of another collective"),
        (" sum ", " none ", "a row of all_reduce has the operation none: it is of another collective"),
    ],
)
def test_operation_of_other_collective_is_named(old, new, message):
    one = only([line.replace(old, new) for line in output()], "correct", dataclasses.replace(FOUR, collective=None))
    assert (one.status, one.reason, one.message) == ("undeterminable", "other_collective", message)


@pytest.mark.parametrize(
    ("lines", "share"),
    [
        (output(), "all"),
        ([line.replace("/GDRDMA", "") if line.startswith("node-2:") else line for line in output()], "some"),
        (output(gdr=""), "none"),
        (without(output(), "Channel "), None),
    ],
)
def test_share_of_gpudirect_channels(lines, share):
    assert judge(parse(lines), FOUR).facts["gpudirect_rdma"] == share
