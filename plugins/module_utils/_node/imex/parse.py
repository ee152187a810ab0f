# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parsers of files and output of NVIDIA IMEX, the kernel and Slurm's topology. Pure.

The AWS PCS User Guide ("Validate the IMEX setup") and kubernetes-sigs/dra-driver-nvidia-gpu#722 show the table of
``nvidia-imex-ctl -N``; releases before 570.172 print no versions. The JSON (``-j``) is not used, because no source
lists all its words for states; the legend of the table explains each letter.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

CONNECTED = "C"
# The letters of the legend for a missing connection, and their meaning.
STATES = {
    "I": "not reachable",
    "N": "never connected",
    "R": "recovering: the connection was lost",
    "D": "disconnected",
    "A": "authenticating",
    "!V!": "version mismatch",
    "!M!": "its list of nodes differs",
}
READY = "READY"
# The words of -q and of the table (DCGM, DCGM_FI_IMEX_DAEMON_STATUS) that are not READY.
NOT_READY = (
    "INITIALIZING",
    "STARTING_AUTH_SERVER",
    "WAITING_FOR_PEERS",
    "WAITING_FOR_RECOVERY",
    "INIT_GPU",
    "SHUTTING_DOWN",
    "UNAVAILABLE",
)
CHANNEL_DRIVER = "nvidia-caps-imex-channels"
_SETTING = re.compile(r"\s*([A-Z][A-Z0-9_]*)\s*=\s*(.*?)\s*")
# The daemon that answered has asterisks around its address.
_NODE = re.compile(r"Node #(\d{1,4})\s+[-*]\s+(\S{1,255})\s+[-*]?\s*-\s+([A-Z_]+)(?:\s+-\s+Version:\s*(\S*))?\s*")
_HEADER = re.compile(r"\s*Nodes From\\To((?:\s+\d+)+)\s*")
_ROW = re.compile(r"\s*(\d{1,4})((?:\s+\S{1,3})+)\s*")
_STATE = re.compile(r"Domain State: (\w+)\s*")
_BLOCK = re.compile(r"\s*BlockName=(\S+)(?:\s+BlockIndex=\d+)?\s+Nodes=(\S+)")
_EXEC_CONFIG = re.compile(r"argv\[\]=\S*nvidia-imex\b[^;]*?\s-c\s+(/[^\s;]+)")


@dataclasses.dataclass(frozen=True)
class Member:
    """A node of the domain as one daemon sees it; ``to`` maps the address of each node to the letter of the legend."""

    address: str
    status: str
    version: str | None
    to: t.Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Domain:
    """The table that ``nvidia-imex-ctl -N`` prints."""

    state: str
    members: t.Mapping[str, Member]


def settings(text: str) -> dict[str, str]:
    """Return the KEY=VALUE lines of config.cfg; the last of several lines with a key counts."""
    found = {}
    for line in text.splitlines():
        match = _SETTING.fullmatch(line)
        if match:
            found[match.group(1)] = match.group(2)
    return found


def with_settings(text: str, changes: t.Mapping[str, str]) -> str:
    """Return the text of config.cfg with other values; other lines are kept, and missing keys are appended."""
    lines, left = [], dict(changes)
    for line in text.splitlines():
        match = _SETTING.fullmatch(line)
        key = match.group(1) if match else ""
        if key in changes:
            # A second line with the key would take precedence.
            if key in left:
                lines.append(f"{key}={left.pop(key)}")
            continue
        lines.append(line)
    lines += [f"{key}={value}" for key, value in left.items()]
    return "".join(f"{line}\n" for line in lines)


def addresses(text: str) -> list[str]:
    """Return the lines of nodes_config.cfg that are neither empty nor a comment."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def nodes_text(members: t.Iterable[str]) -> str:
    """Return nodes_config.cfg with these addresses, sorted, so that it is the same on each node."""
    return "".join(f"{address}\n" for address in sorted(set(members), key=_order))


def _order(address: str) -> tuple[int, int]:
    found = ipaddress.ip_address(address)
    return found.version, int(found)


def is_address(text: object) -> bool:
    """Return whether a text is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text if isinstance(text, str) else "")
    except ValueError:
        return False
    return True


def canonical(address: str) -> str:
    """Return the canonical form of an address; other text is unchanged."""
    return str(ipaddress.ip_address(address)) if is_address(address) else address


def channel_major(text: str | None) -> int | None:
    """Return the major number of IMEX channels in /proc/devices, which differs between nodes; None without one."""
    inside = False
    for line in (text or "").splitlines():
        if line.endswith("devices:"):
            inside = line.startswith("Character")
        words = line.split()
        if inside and len(words) == 2 and words[1] == CHANNEL_DRIVER and words[0].isdecimal():
            return int(words[0])
    return None


def config_path(exec_start: str) -> str | None:
    """Return the file that a unit's ExecStart (as ``systemctl show`` prints it) gives the daemon with ``-c``."""
    found = _EXEC_CONFIG.search(exec_start)
    return found.group(1) if found else None


def domain(text: str) -> Domain:
    """Parse the table of ``nvidia-imex-ctl -N``. Raises ValueError with the reason for any other output."""
    nodes: dict[int, tuple[str, str, str | None]] = {}
    header: list[int] = []
    rows: dict[int, list[str]] = {}
    states: list[str] = []
    for line in text.splitlines():
        node, state = _NODE.fullmatch(line), _STATE.fullmatch(line)
        row, top = _ROW.fullmatch(line), _HEADER.fullmatch(line)
        if node:
            if int(node.group(1)) in nodes:
                raise ValueError(f"node #{node.group(1)} is listed twice")
            nodes[int(node.group(1))] = (canonical(node.group(2)), node.group(3), node.group(4) or None)
        elif top:
            if header:
                raise ValueError("two tables of connections")
            header = [int(word) for word in top.group(1).split()]
        elif header and not states and row:
            if int(row.group(1)) in rows:
                raise ValueError(f"the connections of node #{row.group(1)} are listed twice")
            rows[int(row.group(1))] = row.group(2).split()
        elif state:
            states.append(state.group(1))
    if len(states) != 1:
        raise ValueError(f"{len(states)} lines 'Domain State:' instead of 1")
    if not nodes or sorted(nodes) != sorted(header) or sorted(nodes) != sorted(rows):
        raise ValueError(f"{len(nodes)} nodes, {len(header)} columns and {len(rows)} rows of connections")
    if len({address for address, _status, _version in nodes.values()}) != len(nodes):
        raise ValueError("two nodes have one address")
    if any(len(row) != len(header) for row in rows.values()):
        raise ValueError("a row of connections is not complete")
    names = {number: node[0] for number, node in nodes.items()}
    members = {
        address: Member(address, status, version, {names[to]: letter for to, letter in zip(header, rows[number])})
        for number, (address, status, version) in nodes.items()
    }
    return Domain(states[0], members)


def blocks(text: str) -> dict[str, str]:
    """Return {block: node expression} of ``scontrol show topology``, without aggregated blocks."""
    found = {}
    for line in text.splitlines():
        match = _BLOCK.match(line)
        if match:
            found[match.group(1)] = match.group(2)
    return found
