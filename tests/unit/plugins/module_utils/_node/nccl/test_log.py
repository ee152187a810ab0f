# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NCCL's log."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import log as nccl_log

from tests.unit.fakes.fake_nccl_output import Plan, header, log, only, output, table
from tests.unit.plugins.module_utils._node.nccl.test_verify import HOSTS


def test_many_channels_are_counted_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(nccl_log, "_PENDING", 3)
    fabric = only(output(), "fabric")
    assert (fabric.status, fabric.found["channels"]) == ("pass", dict.fromkeys(HOSTS, 4))
    plan = Plan()
    # Without the list of ranks nothing can be folded, and what does not fit is known to be missing.
    assert only(log(plan) + header(plan) + table(plan), "fabric").reason == "contradictory"


WHERE = {0: "a", 1: "a", 2: "b"}


def fed(*texts, host="a", level="INFO"):
    found = nccl_log.NcclLog()
    for text in texts:
        found.feed(host, level, text, WHERE)
    return found


@pytest.mark.parametrize(
    ("line", "taken", "kept"),
    [
        ("NCCL version 2.28.9+cuda13.0", True, "version"),
        ("srun: error: n1: task 3: Killed", True, "failures"),
        ("Cuda failure 700 'an illegal memory access was encountered'", True, "failures"),
        ("slurmstepd: error: something odd", True, "notes"),
        ("CPU Out of memory was avoided", True, "notes"),
        ("slurmstepd: error: couldn't chdir to /x", False, None),
        ("srun: error: x, will retry", False, None),
        ("   1048576   262144   float", False, None),
    ],
)
def test_line_without_prefix_is_read_for_its_facts(line, taken, kept):
    found = nccl_log.NcclLog()
    assert found.plain(line) is taken
    kept_in = {name for name in ("version", "failures", "notes") if getattr(found, name)}
    assert kept_in == ({kept} if kept else set())


def test_texts_are_kept_up_to_number_and_length():
    found = fed(*(f"warned {number} " + "x" * 400 for number in range(9)), level="WARN")
    assert [text[:9] for text in found.warnings] == [f"warned {number} " for number in range(nccl_log.KEPT_TEXTS)]
    assert {len(text) for text in found.warnings} == {300}
    found = fed("Cuda failure 700", level="WARN")
    assert (found.failures, found.warnings) == (["Cuda failure 700"], [])


def test_hosts_and_names_are_kept_up_to_number(monkeypatch):
    monkeypatch.setattr(nccl_log, "KEPT_NAMES", 2)
    found = nccl_log.NcclLog()
    for number in range(3):
        found.feed(f"h{number}.local", "INFO", "Using network Libfabric", {})
        found.feed("h0", "INFO", f"comm 0x5 rank 0 nRanks {number + 1} nNodes 1", {})
    assert (found.hosts, set(found.networks), found.ranks) == ({"h0", "h1"}, {"h0", "h1"}, {1, 2})
    many = fed(*(f"Using network N{number}" for number in range(9)))
    assert many.networks == {"a": {f"N{number}" for number in range(nccl_log.KEPT_TEXTS)}}


def test_communicators_show_number_of_ranks():
    found = fed("comm 0x5 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0", "comm 0x5 rank 1 nranks 8")
    assert (found.ranks, found.nodes, found.mnnvl) == ({16, 8}, {2}, False)
    assert fed("comm 0x5 rank 0 nRanks 16 nNodes 2 x MNNVL 1", "comm 0x5 rank 0 nRanks 16 nNodes 2 x MNNVL 0").mnnvl


def test_largest_number_of_nvls_channels_counts():
    line = "16 coll channels, 16 collnet channels, {} nvls channels, 32 p2p channels"
    assert fed(line.format(8), line.format(16), line.format(4)).nvls == 16
    assert fed(line.format(0)).nvls == 0 and fed().nvls is None


@pytest.mark.parametrize(
    ("text", "networks", "gpudirect", "direct", "nvlink"),
    [
        ("Channel 00/0 : 0[0] -> 2[0] [send] via NET/Libfabric/0/GDRDMA", {"Libfabric": 1}, 1, 0, set()),
        ("Channel 00/0 : 0[0] -> 2[0] [send] via NET/Libfabric/0/Shared", {"Libfabric": 1}, 0, 0, set()),
        ("Channel 00/0 : 2[0] -> 0[0] [receive] via NET/Socket/0", {"Socket": 1}, 0, 0, set()),
        ("Channel 00/0 : 0[0] -> 2[0] via P2P/MNNVL", {}, 0, 1, {"b"}),
        # Not over NVLink between hosts, whatever it is.
        ("Channel 00/0 : 0[0] -> 2[0] via P2P/CUMEM", {}, 0, 1, set()),
    ],
)
def test_channel_between_hosts(text, networks, gpudirect, direct, nvlink):
    between = fed(text).between(WHERE)
    peers = {"b"} if networks else set()
    assert between == {"a": nccl_log.HostChannels(networks, gpudirect, direct, direct - bool(nvlink), nvlink, peers)}


def test_lines_on_nvlink_are_kept_by_host():
    found = fed("comm 0x5 rank 0 nRanks 16 nNodes 2 x MNNVL 1", "comm 0x5 rank 0 nRanks 16 nNodes 2 x MNNVL 0")
    assert found.joined == {"a": {"0", "1"}} and fed("comm 0x5 rank 1 nranks 8").joined == {}


def test_channels_over_mnnvl_inside_host_are_p2p():
    found = fed("Channel 00/0 : 0[0] -> 1[0] via P2P/MNNVL")
    assert found.between(WHERE) == {} and found.intra == {"P2P": 1}


def test_channels_are_counted_each_time_they_are_logged():
    text = "Channel 00/0 : 0[0] -> 2[0] [send] via NET/Libfabric/0/GDRDMA"
    found = fed(text, text, "Channel 00/0 : 0[0] -> 1[0] via P2P/CUMEM", "Channel 01/0 : 0[0] -> 1[0] via P2P/CUMEM")
    assert found.between(WHERE)["a"] == nccl_log.HostChannels({"Libfabric": 2}, 2, 0, peers={"b"})
    assert (found.intra, found.contradictions) == ({"P2P": 2}, 0)
    # A counted line is not counted again.
    assert found.between(WHERE)["a"].networks == {"Libfabric": 2}


def test_channel_of_misplaced_rank_contradicts():
    elsewhere = fed("Channel 00/0 : 2[0] -> 0[0] [send] via NET/Libfabric/0")
    assert (elsewhere.between(WHERE), elsewhere.contradictions) == ({}, 1)
    nowhere = fed("Channel 00/0 : 0[0] -> 9[0] [send] via NET/Libfabric/0")
    assert (nowhere.between(WHERE), nowhere.contradictions) == ({}, 1)


@pytest.mark.parametrize(
    ("via", "unread"),
    [
        ("XYZ/5/abc", 1),
        ("P2P", 1),
        ("lower/case", 1),
        ("", 1),
        ("NET/Socket", 1),
        ("NET/Socket : eth0", 1),
        ("net/", 1),
        ("N", 1),
        ("NET/", 1),
        ("NET/AWS Socket", 1),
        ("NET/L", 0),
        ("NET/Libfabric", 0),
        ("NET/Libfabric/", 0),
        ("NET/AWS Lib", 0),
        ("NET/Libfabric/0/GDRb:1:2 [0] NCCL INFO x", 0),
    ],
)
def test_unknown_transport_is_counted(via, unread):
    found = fed(f"Channel 00/0 : 0[0] -> 2[0] [send] via {via}")
    between = found.between(WHERE)
    assert (found.unread, between) == (unread, {})


@pytest.mark.parametrize(
    "text", ["Channel 00/0 : 0[0] -> 1[0] via ", "Channel 00/0 : 0[0] -> 1[0]", "Channel 00/0 : 0[0] -> 1[0] via P2P"]
)
def test_unread_channel_inside_host_concerns_no_network(text):
    found = fed(text)
    assert (found.between(WHERE), found.unread, found.intra) == ({}, 0, {})


@pytest.mark.parametrize(
    "text",
    [
        "Channel 00/0 : 0[0] -> 2[0]",
        "Channel 00/0 : 0[0] -> 2[0] [send]",
        "Channel 00/0 : 2[0] -> 0[0] [receive]",
        "Channel 00/0 : 2[0] -> 0[0] [receive] via",
        "Ring 00 : 0[0] -> 2[0] [send] by NET/Libfabric/0",
        "Channel 00/0 : 0[0] -> 2[0] [both] via NET/Libfabric/0",
    ],
)
def test_channel_line_of_unknown_form_is_unread(text):
    found = fed(text)
    assert (found.between(WHERE), found.unread, found.contradictions) == ({}, 1, 0)


@pytest.mark.parametrize("before", ["Channel 00/0 : 0[0] -> 2[0] [send] via NET/Libfabric/0/GDR", "Trees [0] 1/-1"])
@pytest.mark.parametrize(
    ("lost", "unread"),
    [
        ("Channel 01/0 : 1[0] -> 3[0] [send] via NET/Socket/0", 1),
        ("Channel 01/0 : 1[0] -> 3[0] [send] via NET/IB/0", 1),
        ("Using network Socket", 1),
        ("NET/OFI Selected Provider is tcp", 1),
        ("Channel 01/0 : 1[0] -> 3[0] [send] via NET/AWS Libfabric/0/GDRDMA", 0),
        ("Channel 01/0 : 1[0] -> 3[0] [send] via NET/Lib", 0),
        ("Channel 01/0 : 0[0] -> 1[0] via P2P/CUMEM", 0),
        ("Using network Libfabric", 0),
        ("NET/OFI Selected Provider is efa", 0),
    ],
)
def test_line_of_another_network_inside_a_torn_one_is_unread(before, lost, unread):
    assert fed(f"{before}b:1:2 [0] NCCL INFO {lost}").unread == unread


def test_networks_of_host_are_sorted_into_efa_and_others():
    host = nccl_log.HostChannels({"Libfabric": 2, "AWS Libfabric": 1, "Socket": 3, "IB": 1})
    assert (host.efa, host.other) == (3, ["IB", "Socket"])
    assert nccl_log.short_host("a.b.c") == "a"


@pytest.mark.parametrize(
    ("via", "networks"),
    [("NET/Libfabric/0/GDRDMAnode-3:1:2", None), ("NET/Socket/0node-3:1:2", {"Socket": 1})],
)
def test_torn_line_proves_no_channel_over_efa(via, networks):
    between = fed(f"Channel 00/0 : 0[0] -> 2[0] [send] via {via}").between(WHERE)
    assert between == ({"a": nccl_log.HostChannels(networks, peers={"b"})} if networks else {})


def test_channels_that_wait_for_list_of_ranks_are_bounded(monkeypatch):
    monkeypatch.setattr(nccl_log, "_PENDING", 2)
    texts = [f"Channel 0{number}/0 : 0[0] -> {number}[0] [send] via NET/Libfabric/0" for number in (1, 2, 3, 4)]
    found, blind = nccl_log.NcclLog(), nccl_log.NcclLog()
    for text in texts:
        found.feed("a", "INFO", text, dict.fromkeys(range(5), "b") | {0: "a"})
        blind.feed("a", "INFO", text, {})
        assert len(found._pending) <= 2 and len(blind._pending) <= 2
    assert found.between(dict.fromkeys(range(5), "b") | {0: "a"})["a"].networks == {"Libfabric": 4}
    # A line over the limit is missing, and that is known.
    blind.between(dict.fromkeys(range(5), "b") | {0: "a"})
    assert blind.contradictions == 1


def test_versions_and_nodes_are_read_from_their_lines():
    found = fed(
        "NET/OFI Initializing aws-ofi-nccl 1.16.1", "NCCL version 2.28.9+cuda13.0", "comm 0x5 rank 0 nRanks 8 nNodes 2"
    )
    assert (found.plugin, found.version, found.nodes) == ("1.16.1", "2.28.9+cuda13.0", {2})


def test_channels_before_list_of_ranks_are_kept(monkeypatch):
    texts = [f"Channel 0{number}/0 : 0[0] -> {number}[0] [send] via NET/Libfabric/0" for number in (2, 3)]
    found = nccl_log.NcclLog()
    for text in texts:
        found.feed("a", "INFO", text, {})
    assert found.between({**WHERE, 3: "b"})["a"].networks == {"Libfabric": 2} and found.contradictions == 0
    # A line that is counted already needs no more memory.
    monkeypatch.setattr(nccl_log, "_PENDING", 1)
    found = nccl_log.NcclLog()
    for text in texts[:1] * 3:
        found.feed("a", "INFO", text, {})
    assert found.between(WHERE)["a"].networks == {"Libfabric": 3} and found.contradictions == 0


def test_long_name_of_network_is_cut():
    assert fed("Using network " + "N" * 80).networks == {"a": {"N" * 60}}


@pytest.mark.parametrize(
    "text", ["Using network", "Using network ", "NET/OFI Selected provider is", "NET/OFI Selected Provider is ,"]
)
def test_choice_that_cannot_be_read_is_counted(text):
    found = fed(text)
    assert (found.unread, found.networks, found.providers) == (1, {}, {})
