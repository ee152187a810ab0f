# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.mlcluster.aws.plugins.filter.slurm_topology import FilterModule, hostlist, slurm_topology
from hypothesis import given, settings
from hypothesis import strategies as st


def host(name, *path):
    return {"ec2_slurm_node_name": name, "ec2_network_nodes": list(path), "inventory_hostname": f"i-{name}"}


def test_tree_of_three_layers():
    hosts = [host(f"q-dy-p5-{number}", "nn-top", f"nn-m{number // 4}", f"nn-l{number // 2}") for number in range(8)]
    assert slurm_topology(hosts).splitlines() == [
        "SwitchName=nn-m0 Switches=nn-l0,nn-l1",
        "SwitchName=nn-m1 Switches=nn-l2,nn-l3",
        "SwitchName=nn-top Switches=nn-m0,nn-m1",
        "SwitchName=nn-l0 Nodes=q-dy-p5-[0-1]",
        "SwitchName=nn-l1 Nodes=q-dy-p5-[2-3]",
        "SwitchName=nn-l2 Nodes=q-dy-p5-[4-5]",
        "SwitchName=nn-l3 Nodes=q-dy-p5-[6-7]",
    ]


def test_several_trees_and_nodes_without_place_are_joined():
    assert slurm_topology([host("a-1", "nn-x"), host("a-2", "nn-y"), host("a-3")]).splitlines() == [
        "SwitchName=cluster Switches=nn-x,nn-y,unplaced",
        "SwitchName=nn-x Nodes=a-1",
        "SwitchName=nn-y Nodes=a-2",
        "SwitchName=unplaced Nodes=a-3",
    ]


def test_switch_has_either_nodes_or_switches():
    assert slurm_topology([host("a", "top"), host("b", "top", "leaf")]).splitlines() == [
        "SwitchName=top Switches=leaf,top-nodes",
        "SwitchName=leaf Nodes=b",
        "SwitchName=top-nodes Nodes=a",
    ]


def test_other_variables_may_be_named():
    rendered = slurm_topology([{"n": "a", "p": ["x"]}], name_key="n", path_key="p")
    assert rendered == "SwitchName=x Nodes=a\n"
    assert slurm_topology([]) == ""


def test_stopped_nodes_have_place_too():
    assert slurm_topology([host("a-1", "nn-x")], nodes=["a-1", "a-2", "a-2", "a-3"]).splitlines() == [
        "SwitchName=cluster Switches=nn-x,unplaced",
        "SwitchName=nn-x Nodes=a-1",
        "SwitchName=unplaced Nodes=a-[2-3]",
    ]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [(["a b"], "cannot be the name of a node"), ("a", "must be a list of names, found str"), (7, "found int")],
)
def test_invalid_node_names_are_rejected(nodes, message):
    with pytest.raises(AnsibleFilterError, match=message):
        slurm_topology([], nodes=nodes)


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ([host("")], "i- has no ec2_slurm_node_name; enrich the inventory with slurm_names"),
        ([host("a\nNodeName=b")], "cannot be the name of a node"),
        ([host("a", "x Nodes=ALL")], "cannot be the name of a switch"),
        ([host("a"), host("a")], "two hosts are called a"),
        (["a"], "needs a list of host variables"),
    ],
)
def test_value_that_breaks_file_is_rejected(hosts, message):
    with pytest.raises(AnsibleFilterError, match=message):
        slurm_topology(hosts)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], ""),
        (["a"], "a"),
        (["a-1"], "a-1"),
        (["a-2", "a-1", "a-4", "b"], "b,a-[1-2,4]"),
        (["n08", "n09", "n10", "n8"], "n[8,10],n[08-09]"),
        (["7"], "7"),
    ],
)
def test_hostlist_joins_ranges(names, expected):
    assert hostlist(names) == expected


def expanded(text):
    """Return the names that Slurm reads in a hostlist."""
    result = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text):
        prefix, _bracket, ranges = part.rstrip("]").partition("[")
        if not ranges:
            result.append(prefix)
        for one in ranges.split(",") if ranges else ():
            first, _dash, last = one.partition("-")
            numbers = range(int(first), int(last or first) + 1)
            result += [f"{prefix}{number:0{len(first) if first.startswith('0') else 1}}" for number in numbers]
    return result


NAMES = st.sets(st.from_regex(r"[a-c](-[a-c])?-?[0-9]{0,3}", fullmatch=True), max_size=30)


@settings(max_examples=200, deadline=None)
@given(NAMES)
def test_every_name_is_in_hostlist_once(names):
    assert sorted(expanded(hostlist(names))) == sorted(names)


@settings(max_examples=100, deadline=None)
@given(NAMES, st.data())
def test_every_node_hangs_below_one_root_once(names, data):
    places = st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3))
    hosts = []
    for name in names:
        place = data.draw(st.none() | places)
        path = [f"nn-{'-'.join(map(str, place[: depth + 1]))}-x" for depth in range(3)] if place else []
        hosts.append(host(name, *path))
    parents, seen, switches = {}, [], []
    for line in slurm_topology(hosts).splitlines():
        switch, kind, members = re.fullmatch(r"SwitchName=(\S+) (Switches|Nodes)=(\S+)", line).groups()
        switches.append(switch)
        if kind == "Nodes":
            seen += expanded(members)
        for member in expanded(members):
            assert member not in parents
            parents[member] = switch
    assert sorted(seen) == sorted(names)
    assert len(switches) == len(set(switches))
    assert len(set(switches) - set(parents)) == min(1, len(names))


def test_filter_is_registered():
    assert FilterModule().filters()["slurm_topology"] is slurm_topology


def in_block(name, block):
    return {"ec2_slurm_node_name": name, "ec2_capacity_block_id": block, "ec2_network_nodes": ["nn-0", "nn-1"]}


def blocks(hosts, **options):
    return slurm_topology(hosts, plugin="block", **options).splitlines()


def test_ultraservers_are_blocks():
    hosts = [in_block(f"q-st-u-{number}", f"cb-{number // 3}") for number in range(6)]
    assert blocks([*hosts, in_block("q-st-p5-1", None)]) == [
        "BlockName=cb-0 Nodes=q-st-u-[0-2]",
        "BlockName=cb-1 Nodes=q-st-u-[3-5]",
        "BlockSizes=3",
    ]


def test_capacity_blocks_of_other_types_are_no_blocks():
    ultra = [{**in_block(f"u{number}", "cb-0"), "ec2_instance_type": "p6e-gb200.36xlarge"} for number in range(3)]
    unknown = [{**in_block(f"v{number}", "cb-1"), "ec2_instance_type": "p6e-gb300r.36xlarge"} for number in range(3)]
    other = {**in_block("p5-1", "cb-2"), "ec2_instance_type": "p5.48xlarge"}
    assert blocks([*ultra, *unknown, other]) == [
        "BlockName=cb-0 Nodes=u[0-2]", "BlockName=cb-1 Nodes=v[0-2]", "BlockSizes=3"
    ]  # fmt: skip
    assert blocks([other], block_key="ec2_network_nodes")[-1] == "BlockSizes=1"


def test_smallest_block_is_base_size():
    hosts = [in_block(f"n{number}", "a" if number < 3 else "b") for number in range(5)]
    assert blocks(hosts)[-1] == "BlockSizes=2"
    assert blocks(hosts, block_sizes=[1, 2, 4])[-1] == "BlockSizes=1,2,4"


def test_nearest_network_node_may_be_block():
    assert blocks([in_block("a", "x")], block_key="ec2_network_nodes") == ["BlockName=nn-1 Nodes=a", "BlockSizes=1"]


def test_no_host_in_block_gives_empty_text():
    assert slurm_topology([in_block("a", None)], plugin="block") == ""


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"plugin": "mesh"}, "plugin is 'mesh': use one of tree, block"),
        ({"plugin": "block", "block_sizes": [3]}, "begins with 3, and the smallest block has 2 nodes"),
        ({"plugin": "block", "block_sizes": [2, 6]}, "block_sizes has 6"),
        ({"plugin": "block", "block_sizes": [2, 2]}, "block_sizes has 2"),
        ({"plugin": "block", "block_sizes": "2"}, "use a list of numbers"),
        ({"plugin": "block", "block_sizes": [True]}, "use a list of numbers"),
    ],
)
def test_wrong_block_option_is_rejected(options, refusal):
    with pytest.raises(AnsibleFilterError, match=re.escape(refusal)):
        slurm_topology([in_block("a", "x"), in_block("b", "x")], **options)


def test_block_with_invalid_name_is_rejected():
    with pytest.raises(AnsibleFilterError, match="cannot be the name of a block"):
        blocks([in_block("a", "x y")])
