# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render Slurm's topology.conf: a tree of network nodes of EC2 instances, or blocks of UltraServers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.mlcluster.aws.plugins.module_utils._data.ultraservers import is_ultraserver

# Names that Slurm accepts; a name with a blank or line end would add configuration.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NUMBERED = re.compile(r"(.*?)(\d+)")
UNPLACED = "unplaced"
PLUGINS = ("tree", "block")
BLOCK_KEY = "ec2_capacity_block_id"
TYPE_KEY = "ec2_instance_type"

Path = tuple[str, ...]


def _checked(kind: str, text: Any) -> str:
    name = str(text)
    if not _NAME.fullmatch(name):
        raise AnsibleFilterError(f"slurm_topology: {name!r} cannot be the name of a {kind} in Slurm")
    return name


def _ranges(numbers: list[int], width: int) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    ranges = (sorted({f"{first:0{width}}", f"{last:0{width}}"}, key=int) for first, last in runs)
    return ",".join("-".join(ends) for ends in ranges)


def hostlist(names: Iterable[str]) -> str:
    """Return names as one Slurm expression: ``q-1, q-2, q-4`` becomes ``q-[1-2,4]``."""
    groups: dict[tuple[str, int], list[int]] = {}
    unnumbered = set()
    for name in names:
        match = _NUMBERED.fullmatch(name)
        # A range pads all its numbers to one width, so 08 and 8 need different ranges.
        if match:
            prefix, digits = match.groups()
            width = len(digits) if len(digits) > 1 and digits.startswith("0") else 0
            groups.setdefault((prefix, width), []).append(int(digits))
        else:
            unnumbered.add(name)
    parts = sorted(unnumbered)
    for (prefix, width), numbers in sorted(groups.items()):
        text = _ranges(sorted(set(numbers)), width)
        parts.append(f"{prefix}[{text}]" if re.search("[-,]", text) else f"{prefix}{text}")
    return ",".join(parts)


def _placed(hosts: Iterable[Mapping[str, Any]], name_key: str, path_key: str) -> dict[str, Path]:
    """Return the network nodes by Slurm node name, from the widest to the nearest."""
    result: dict[str, Path] = {}
    for host in hosts:
        if not isinstance(host, Mapping):
            raise AnsibleFilterError(
                "slurm_topology needs a list of host variables, as groups['compute'] | map('extract', hostvars) gives"
            )
        host_name = host.get("inventory_hostname") or host.get("ec2_instance_id") or "a host"
        name = host.get(name_key)
        if not name:
            raise AnsibleFilterError(
                f"slurm_topology: {host_name} has no {name_key}; enrich the inventory with slurm_names, or set name_key"
            )
        name = _checked("node", name)
        if name in result:
            raise AnsibleFilterError(f"slurm_topology: two hosts are called {name}")
        result[name] = tuple(_checked("switch", node) for node in host.get(path_key) or ())
    return result


def _switches(placed: Mapping[str, Path]) -> tuple[dict[str, set[str]], dict[str, set[str]], set[str]]:
    """Return the child switches and nodes of each switch, and the top switches."""
    below: dict[str, set[str]] = {}
    nodes: dict[str, set[str]] = {}
    tops: set[str] = set()
    for name, path in placed.items():
        path = path or (UNPLACED,)
        tops.add(path[0])
        for upper, lower in zip(path, path[1:]):
            below.setdefault(upper, set()).add(lower)
        nodes.setdefault(path[-1], set()).add(name)
    for switch in sorted(set(below) & set(nodes)):
        # Slurm's switches have either nodes or switches below them.
        leaf = f"{switch}-nodes"
        below[switch].add(leaf)
        nodes[leaf] = nodes.pop(switch)
    return below, nodes, tops


def _sizes(block_sizes: Any, smallest: int) -> list[int]:
    """Return the values of BlockSizes: the first, and its multiples by powers of two (Slurm's topology guide)."""
    if not isinstance(block_sizes, (list, tuple)) or not all(
        isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in block_sizes
    ):
        raise AnsibleFilterError(f"slurm_topology: block_sizes is {block_sizes!r}: use a list of numbers of nodes")
    sizes = list(block_sizes) or [smallest]
    if sizes[0] > smallest:
        raise AnsibleFilterError(
            f"slurm_topology: block_sizes begins with {sizes[0]}, and the smallest block has {smallest} nodes: use "
            f"{smallest} or less"
        )
    for lower, size in zip(sizes, sizes[1:]):
        factor, rest = divmod(size, sizes[0])
        if rest or factor & (factor - 1) or size <= lower:
            raise AnsibleFilterError(
                f"slurm_topology: block_sizes has {size}: each size must be larger than the one before, and "
                f"{sizes[0]} multiplied by a power of 2"
            )
    return sizes


def _blocks(hosts: Iterable[Mapping[str, Any]], name_key: str, block_key: str, block_sizes: Any) -> str:
    """Return the lines of topology/block; hosts without a block are left out.

    With the default block_key, instances other than UltraServers are left out too, since their blocks can be small:
    BlockSizes begins with the size of the smallest block, and Slurm 24.11 rejects jobs with a larger ``--segment``.
    """
    hosts = list(hosts)
    placed = _placed(hosts, name_key, "")
    members: dict[str, set[str]] = {}
    for name, host in zip(placed, hosts):
        value = host.get(block_key)
        # A list is a path of network nodes; the last one is the nearest.
        block = value[-1] if isinstance(value, (list, tuple)) and value else value
        instance_type = host.get(TYPE_KEY)
        if block_key == BLOCK_KEY and instance_type and is_ultraserver(instance_type) is False:
            continue
        if block:
            members.setdefault(_checked("block", block), set()).add(name)
    if not members:
        return ""
    lines = [f"BlockName={block} Nodes={hostlist(members[block])}" for block in sorted(members)]
    sizes = _sizes(block_sizes, min(map(len, members.values())))
    lines.append(f"BlockSizes={','.join(map(str, sizes))}")
    return "".join(f"{line}\n" for line in lines)


def slurm_topology(
    hosts: Iterable[Mapping[str, Any]],
    name_key: str = "ec2_slurm_node_name",
    path_key: str = "ec2_network_nodes",
    root: str = "cluster",
    nodes: Iterable[str] = (),
    plugin: str = "tree",
    block_key: str = BLOCK_KEY,
    block_sizes: Iterable[int] = (),
) -> str:
    """Return the lines of topology.conf, or an empty string without hosts. Raises AnsibleFilterError.

    ``nodes`` are all node names of Slurm. Names without a host are below the switch UNPLACED, or in no block with the
    plugin ``block``.
    """
    if plugin not in PLUGINS:
        raise AnsibleFilterError(f"slurm_topology: plugin is {plugin!r}: use one of {', '.join(PLUGINS)}")
    if isinstance(nodes, str) or not isinstance(nodes, Iterable):
        raise AnsibleFilterError(f"slurm_topology: nodes must be a list of names, found {type(nodes).__name__}")
    if plugin == "block":
        return _blocks(hosts, name_key, block_key, block_sizes)
    placed = _placed(hosts, name_key, path_key)
    for name in nodes:
        placed.setdefault(_checked("node", name), ())
    below, members, tops = _switches(placed)
    if len(tops) > 1:
        # Without a common switch Slurm allocates no job across two trees.
        below[_checked("switch", root)] = tops
    # Switch names are listed one by one: they end in hexadecimal digits, which a Slurm range cannot express.
    lines = [f"SwitchName={switch} Switches={','.join(sorted(below[switch]))}" for switch in sorted(below)]
    lines += [f"SwitchName={switch} Nodes={hostlist(members[switch])}" for switch in sorted(members)]
    return "".join(f"{line}\n" for line in lines)


class FilterModule:
    """The filter ``mlcluster.aws.slurm_topology``."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Return the filters by name."""
        return {"slurm_topology": slurm_topology}
