# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounds of the evidence on a fabric: who took part, which runs pose as one, what the counters have to carry."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import fabric
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import RequestedRun, judge

from tests.unit.fakes.fake_nccl_output import FOUR, Plan, header, log, only, output, snapshots, table, without

HOSTS = Plan().hosts
# The largest message of the plan, and the least that each of four nodes has to send of it.
LARGEST, MINIMUM = 1 << 30, 1 << 28


def run_of(lines):
    (run,) = parse(lines).runs
    return run


def counted(sent, hosts=HOSTS, first=None, **fields):
    """Return the verdict with counters that grew by so many bytes in one device."""
    before = {host: {"rdmap0s6": {"tx_bytes": 0}} for host in first or hosts}
    after = {host: {"rdmap0s6": {"tx_bytes": sent}} for host in hosts}
    return only(output(), "fabric", dataclasses.replace(FOUR, before=before, after=after, **fields))


def test_counters_carry_share_of_largest_message():
    assert run_of(output()).rows[-1].size == LARGEST
    assert counted(MINIMUM).status == "pass"
    idle = counted(MINIMUM - 1)
    assert (idle.status, idle.expected, idle.found) == ("fail", MINIMUM, dict.fromkeys(HOSTS, MINIMUM - 1))


@pytest.mark.parametrize(("hosts", "first"), [(HOSTS[:3], HOSTS), (HOSTS, HOSTS[1:]), (HOSTS[:3], HOSTS[:3])])
def test_counters_of_each_host_on_both_sides(hosts, first):
    result = counted(MINIMUM, hosts, first)
    assert (result.status, result.reason) == ("undeterminable", "counters_missing")


def test_hosts_without_device_are_absent():
    before = {**snapshots(HOSTS, 0), "node-2": {}}
    result = only(output(), "fabric", dataclasses.replace(FOUR, before=before, after=snapshots(HOSTS, 1 << 40)))
    assert (result.reason, result.message.startswith("the counters of node-2 are")) == ("counters_missing", True)


NCCOM = [
    "    size(B)    count(elems)    type    time:avg(us)    algbw(GB/s)    busbw(GB/s)",
    "     524288          131072    fp32          343.84           1.42           2.80",
    "Avg bus bandwidth:      2.8000GB/s",
]


@pytest.mark.parametrize(
    ("before", "after", "nodes", "reason"),
    [
        ("ab", "ab", 2, None),
        ("abc", "ab", 2, "counters_missing"),
        ("ab", "abc", 2, "counters_missing"),
        # A node outside the job proves nothing about those of the job.
        ("abc", "abc", 2, "counters_missing"),
        ("ab", "ab", 3, "counters_missing"),
        ("ab", "ac", 3, "counters_missing"),
    ],
)
def test_counters_of_exactly_nodes_of_nccom_test(before, after, nodes, reason):
    requested = RequestedRun(nodes=nodes, before=snapshots(before, 0), after=snapshots(after, 1 << 30))
    result = judge(parse(NCCOM), requested).results[1]
    assert (result.reason, result.status) == (reason, "pass" if reason is None else "undeterminable")


@pytest.mark.parametrize("missing", ["before", "after"])
def test_counters_of_one_side_prove_nothing(missing):
    both = {"before": snapshots("ab", 0), "after": snapshots("ab", 1 << 30), missing: None}
    assert judge(parse(NCCOM), RequestedRun(nodes=2, **both)).results[1].reason == "no_evidence"


def one_node(host, **fields):
    return output(hosts=(host,), gpus=8, **fields)


@pytest.mark.parametrize(
    ("lines", "ranks", "nodes", "separate_runs_error"),
    [
        (one_node("a") + one_node("b"), 16, 2, True),
        (one_node("a") + one_node("b"), None, 2, True),
        (one_node("a") + one_node("b"), 8, 1, False),
        # Of one node there is no fabric, however many ranks its runs have.
        (one_node("a") + one_node("a"), 16, 1, False),
        (one_node("a") + one_node("b"), 16, None, False),
        (one_node("a"), 16, 2, False),
        (output() + output(), 8, 4, False),
        (output() + output(), None, 4, False),
        (output() + output(), 9, 4, True),
        (output() + one_node("a"), 8, 4, False),
        # NCCL's own log shows the size of the communicators.
        (without(output() + output(), "#  Rank"), 8, 4, False),
    ],
)
def test_separate_outputs_that_pose_as_one(lines, ranks, nodes, separate_runs_error):
    assert bool(fabric.separate_runs_error(parse(lines).runs, ranks, nodes)) == separate_runs_error


def test_damaged_lists_of_ranks():
    assert fabric.damaged(run_of(output()), 8) is None
    assert fabric.damaged(run_of(without(output(), "#  Rank")), 8) == "the output does not list the ranks"
    assert "gaps" in fabric.damaged(run_of(without(output(), "#  Rank  3")), 8)
    short = run_of(without(output(), "#  Rank  7"))
    assert "NCCL logged communicators of 8" in fabric.damaged(short, 8)
    # More was requested than NCCL had: ranks are missing, and no line.
    assert fabric.damaged(short, 9) is None
    assert fabric.damaged(short, None) is None


def test_bandwidth_of_damaged_list_is_not_judged():
    plan = Plan(hosts=("a", "b"), gpus=8, smallest=1 << 30, largest=1 << 34, factor=2, busbw=lambda _size: 480.0)
    requested = RequestedRun(ranks=16, nodes=2, instance_type="p5.48xlarge")
    assert only(output(plan), "bandwidth", requested).status == "pass"
    assert only(without(output(plan), "#  Rank  3"), "bandwidth", requested).reason == "no_ranks"


@pytest.mark.parametrize(("count", "words"), [(1, "node-1"), (3, "node-1, node-2, node-3"), (4, "node-3 and 1 more")])
def test_silent_hosts_are_named(count, words):
    plan = Plan(silent=HOSTS[:count])
    lines = header(plan) + log(plan) + table(plan)
    if count == len(HOSTS):
        lines += [line for line in log(Plan()) if "NCCL INFO NET/OFI" in line]
    message = only(lines, "fabric").message
    assert message.endswith(words), message


def test_nvlink_between_some_hosts_hides_no_silent_one():
    lines = [line.replace("MNNVL 0", "MNNVL 1").replace("nNodes 4", "nNodes 2") for line in output()]
    assert only(lines, "fabric").status == "pass"
    silent = without(lines, "node-3:")
    assert only(silent, "fabric").reason == "not_the_network"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"network": "Socket"}, "NCCL chose the network Socket"),
        ({"provider": "tcp"}, "the plugin chose the provider tcp"),
    ],
)
def test_choice_of_another_way_is_named_without_channels(fields, message):
    fabric = only(without(output(**fields), "Channel "), "fabric")
    assert (fabric.status, fabric.reason, fabric.message) == ("fail", "not_efa", message)
    assert fabric.found == "no channel"


def test_communicator_of_other_size_did_not_join_all_ranks():
    run = run_of(output())
    assert fabric.participation_error(run, 8, 4) is None
    run.log.ranks.add(2)
    assert fabric.participation_error(run, 8, 4) == "the list has 8 ranks, and NCCL logged communicators of 2"


def test_hosts_other_than_asked_are_counted():
    run = run_of(output())
    assert fabric.participation_error(run, 8, 5) == "5 nodes were requested, and the ranks were on 4"
    assert fabric.participation_error(run, 9, 4) == "9 ranks were requested, and 8 took part"


@pytest.mark.parametrize("unknown", ["ranks", "nodes"])
def test_fabric_of_unknown_request_is_not_proved(unknown):
    one = only(output(), "fabric", dataclasses.replace(FOUR, **{unknown: None}))
    assert (one.status, one.reason) == ("undeterminable", "not_asked")


@pytest.mark.parametrize(
    ("hosts", "nodes", "message"),
    [
        (HOSTS, 4, "nodes talked to each other over Socket, on 4 hosts"),
        (HOSTS, None, "nodes talked to each other over Socket, on 4 hosts"),
        (HOSTS[:2], 2, "nodes talked to each other over Socket, on 2 hosts"),
        (HOSTS[:1], 1, "a run on one node does not use the fabric"),
    ],
)
def test_other_network_counts_between_nodes(hosts, nodes, message):
    lines = output(hosts=hosts, network="Socket", gdr="")
    assert "NCCL INFO Using network Socket" in "\n".join(lines)
    one = only(lines, "fabric", dataclasses.replace(FOUR, ranks=2 * len(hosts), nodes=nodes))
    assert one.message == message
    assert one.status == ("fail" if len(hosts) > 1 else "not_applicable")


def test_share_of_message_by_nodes():
    run = run_of(output())
    assert [fabric._minimum_bytes(run, nodes) for nodes in (0, 1, 4)] == [LARGEST, LARGEST, MINIMUM]
    run.rows.clear()
    assert fabric._minimum_bytes(run, 1) == 0


def test_one_byte_is_least_without_known_share():
    before, after = {"a": {"d": {"tx_bytes": 0}}}, {"a": {"d": {"tx_bytes": 1}}}
    assert fabric._counted("x", ["a"], 0, before, after) == {"a": 1}
    idle = fabric._counted("x", ["a"], 0, before, before)
    assert (idle.status, idle.expected, idle.found) == ("fail", 1, {"a": 0})


def test_message_names_way_of_data():
    assert only(output(), "fabric").message.endswith(" over EFA, all with GPUDirect RDMA")
    some = [line.replace("/GDRDMA", "") if line.startswith("node-2:") else line for line in output()]
    assert only(some, "fabric").message.endswith(" over EFA, 12 with GPUDirect RDMA")
