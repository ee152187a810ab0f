# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import nvlink_domain
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.fabric import nvlink_groups
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.log import HostChannels
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import RequestedRun, entries, judge

from tests.unit.fakes.fake_nccl_output import Plan, header, log, output, snapshots, without

HOSTS = ("u1-1", "u1-2", "u2-1", "u2-2")
TYPE = "p6e-gb200.36xlarge"


def judged(lines, domains=None, hosts=4, **more):
    requested = RequestedRun(ranks=hosts * 4, nodes=hosts, instance_type=TYPE, domains=domains, **more)
    return {one.id: one for one in judge(parse(lines), requested).results}


def made(domains=(4,), hosts=HOSTS):
    return output(hosts=hosts, gpus=4, domains=domains)


def test_one_domain_is_proved_and_needs_no_network():
    found = judged(made())
    assert found["nccl.nvlink_domain"].status == "pass"
    assert found["nccl.nvlink_domain"].found["domains"] == [sorted(HOSTS)]
    assert (found["nccl.fabric"].status, found["nccl.fabric"].reason) == ("not_applicable", "one_domain")


def test_two_domains_talk_over_nvlink_inside_and_efa_between():
    found = judged(made((2, 2)), domains=2)
    domain = found["nccl.nvlink_domain"]
    assert (domain.status, domain.found["domains"]) == ("pass", [["u1-1", "u1-2"], ["u2-1", "u2-2"]])
    assert found["nccl.fabric"].status == "pass"


def test_domain_without_efa_is_reported_apart():
    lines = [line for line in made((2, 2)) if not (line.startswith("u2") and "via NET" in line)]
    found = judged(lines, domains=2)
    assert found["nccl.nvlink_domain"].status == "pass"
    assert (found["nccl.fabric"].status, found["nccl.fabric"].reason) == ("undeterminable", "not_the_network")


def test_one_host_of_each_domain_proves_network():
    lines = [line for line in made((2, 2)) if not (line.startswith(("u1-2", "u2-2")) and "via NET" in line)]
    assert judged(lines, domains=2)["nccl.fabric"].status == "pass"
    # Two hosts of one domain prove nothing about the other.
    lines = [line for line in made((2, 2)) if not (line.startswith("u2-") and "via NET" in line)]
    assert judged(lines, domains=2)["nccl.fabric"].status == "undeterminable"


def with_channel(lines, text):
    """Return the lines with one more that the first host logs."""
    at = next(index for index, line in enumerate(lines) if "MNNVL 1" in line)
    start = lines[at].partition(" comm ")[0]
    return [*lines[:at], f"{start} {text}", *lines[at:]]


@pytest.mark.parametrize("network", ["Libfabric", "Socket"])
@pytest.mark.parametrize("line", ["0[0] -> 4[0] [send]", "4[0] -> 0[0] [receive]"])
def test_channel_over_network_inside_domain_fell_back(network, line):
    lines = with_channel(made(), f"Channel 00/0 : {line} via NET/{network}/0")
    unknown, known = judged(lines), judged(lines, domains=1)
    assert (unknown["nccl.nvlink_domain"].status, unknown["nccl.nvlink_domain"].reason) == (
        "undeterminable",
        "fell_back",
    )
    assert (known["nccl.nvlink_domain"].status, known["nccl.nvlink_domain"].severity) == ("fail", "reset")
    assert "u1-1 logged such channels" in known["nccl.nvlink_domain"].message
    # One host over EFA does not speak for the domain either.
    assert unknown["nccl.fabric"].status != "pass"


def test_channel_over_network_between_domains_is_its_way():
    lines = with_channel(made((2, 2)), "Channel 00/0 : 0[0] -> 8[0] [send] via NET/Libfabric/0")
    assert judged(lines, domains=2)["nccl.nvlink_domain"].status == "pass"


def test_unknown_transport_proves_no_domain():
    one = judged(with_channel(made(), "Channel 00/0 : 0[0] -> 4[0] via XYZ/0"))["nccl.nvlink_domain"]
    assert (one.status, one.reason) == ("undeterminable", "unread")
    assert one.message == "1 lines of channels and networks name none that is known here"


@pytest.mark.parametrize("requested", [{"ranks": 16}, {"nodes": 4}, {}])
def test_domain_of_unknown_request_is_not_proved(requested):
    one = judge(parse(made()), RequestedRun(instance_type=TYPE, **requested)).results[3]
    assert (one.id, one.status, one.reason) == ("nccl.nvlink_domain", "undeterminable", "not_asked")


def test_nodes_of_other_ultraservers_that_nvlink_joined():
    one = judged(made(), domains=4)["nccl.nvlink_domain"]
    assert (one.status, one.reason) == ("undeterminable", "unread")
    assert one.message == "the nodes are of 4 UltraServers, and NCCL counted 1 NVLink domains"


def test_run_that_fell_back_is_no_baseline():
    good = RequestedRun(ranks=16, nodes=4, instance_type=TYPE, collective="all_reduce", domains=1)
    joined, apart = ([line.replace("H100 80GB HBM3", "GB200") for line in made(domains)] for domains in ((4,), ()))
    assert len(entries(judge(parse(joined), good), good, "now")[0]) == 6
    fallen = judge(parse(apart), good)
    assert [one.status for one in fallen.results[:2]] == ["pass", "pass"]
    recorded, problem = entries(fallen, good, "now")
    assert recorded == [] and problem.startswith("this run is not a baseline: FAIL nccl.nvlink_domain: NCCL went over")


def test_type_named_like_ultraserver_has_verdict():
    requested = RequestedRun(ranks=16, nodes=4, instance_type="p7e-gb400.72xlarge")
    assert judge(parse(made(())), requested).results[3].reason == "not_joined"


def test_counters_of_one_host_speak_for_its_domain():
    before, after = snapshots(HOSTS, 0), snapshots(HOSTS, 1 << 40)
    after["u1-1"], after["u2-1"] = before["u1-1"], before["u2-1"]
    assert judged(made((2, 2)), before=before, after=after)["nccl.fabric"].status == "pass"
    after["u2-2"] = before["u2-2"]
    assert judged(made((2, 2)), before=before, after=after)["nccl.fabric"].reason == "counters_idle"


def test_fall_back_to_network_is_found_where_domains_are_known():
    lines = made(())
    unknown = judged(lines)["nccl.nvlink_domain"]
    assert (unknown.status, unknown.reason) == ("undeterminable", "not_joined")
    failed = judged(lines, domains=1)["nccl.nvlink_domain"]
    assert (failed.status, failed.severity) == ("fail", "reset")
    assert "NCCL went over the network where NVLink joins the nodes: u1-1, u1-2, u2-1 and 1 more" in failed.message


@pytest.mark.parametrize(
    ("sizes", "domains", "ending"),
    [
        ((3, 1), 1, "to 2 groups; not in one of the largest: u2-2"),
        ((2, 1, 1), 1, "to 3 groups; not in one of the largest: u2-1, u2-2"),
        ((2, 1, 1), 2, "to 3 groups"),
        ((2, 2), 1, "to 2 groups"),
    ],
)
def test_hosts_outside_their_domain_are_named(sizes, domains, ending):
    failed = judged(made(sizes), domains=domains)["nccl.nvlink_domain"]
    assert failed.status == "fail" and failed.message.endswith(ending)


def test_more_groups_than_ultraservers_is_failure():
    failed = judged(made((2, 2)), domains=1)["nccl.nvlink_domain"]
    assert failed.status == "fail" and "of 1 UltraServers, and NVLink joined them to 2 groups" in failed.message


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (without(made(), "MNNVL 1"), "no_log"),
        (without(made(), "P2P/MNNVL"), "no_channels"),
        ([line.replace("P2P/MNNVL", "P2P/CUMEM/read") for line in made()], "no_channels"),
        ([line.replace("nNodes 1", "nNodes 2") for line in made()], "unread"),
        ([line.replace("u1-2:", "u9-2:") if "Channel" in line else line for line in made()], "contradictory"),
        (header(Plan(HOSTS, 4, domains=(4,))) + log(Plan(HOSTS, 4, domains=(4,))), "no_traffic"),
        ([line.replace("MNNVL 1", "MNNVL 0") if line.startswith("u2-1:") else line for line in made()], "not_joined"),
    ],
)
def test_missing_lines_prove_nothing(lines, reason):
    one = judged(lines)["nccl.nvlink_domain"]
    assert (one.status, one.reason) == ("undeterminable", reason)


def test_nodes_of_one_ultraserver_each_use_no_nvlink():
    one = judged(made((), HOSTS[:2]), domains=2, hosts=2)["nccl.nvlink_domain"]
    assert (one.status, one.reason) == ("not_applicable", "one_each")


def test_one_node_does_not_use_domain():
    one = judged(made((), HOSTS[:1]), hosts=1)["nccl.nvlink_domain"]
    assert (one.status, one.reason) == ("not_applicable", "one_node")


def test_other_types_have_no_such_verdict():
    assert len(judge(parse(output()), RequestedRun(ranks=8, nodes=4, instance_type="p5.48xlarge")).results) == 3


@pytest.mark.parametrize("domains", [None, 1])
def test_unknown_type_proves_nothing(domains):
    requested = RequestedRun(ranks=16, nodes=4, instance_type="p6e-gb300r.36xlarge", domains=domains)
    found = {one.id: one for one in judge(parse(made(())), requested).results}
    assert found["nccl.nvlink_domain"].status == "undeterminable"


def test_groups_are_joined_by_way_of_others():
    between = {"a": HostChannels(nvlink={"b"}), "c": HostChannels(nvlink={"b", "gone"}), "d": HostChannels()}
    assert nvlink_groups(["d", "c", "b", "a"], between) == [["a", "b", "c"], ["d"]]


def test_three_hosts_are_named_in_full():
    assert nvlink_domain._some("cab") == "a, b, c"
    assert nvlink_domain._some("dcab") == "a, b, c and 1 more"
