# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of a run in NCCL's own log: channels and their transport, providers, networks, warnings.

A log is folded line by line into counts; no line is kept but a few warnings and failures. The shapes are those of
NVIDIA/nccl src/debug.cc and src/transport (2.4 to 2.30) and of aws-ofi-nccl (1.1 to 1.21).
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

# Names of the OFI plugin: up to 1.11 "AWS Libfabric", or any of these as NCCL_NET requests.
EFA_NETWORKS = frozenset({"Libfabric", "AWS Libfabric", "OFI"})

KEPT_TEXTS = 5
KEPT_NAMES = 10_000
_PENDING = 20_000

NCCL_LINE = re.compile(
    r"(?:\[\d{4}-\d\d-\d\d [\d:.]+\] )?(?P<host>[A-Za-z0-9][\w.-]{0,255}):\d{1,10}:\d{1,10} \[-?\d{1,4}\] "
    r"(?:\S{1,200}:\d{1,6} (?:\(\w{1,20}\) )?)?NCCL (?P<level>INFO|WARN) (?P<text>.{0,1000})"
)
# How far before "NCCL INFO" the prefix can begin.
PREFIX = 600
_CHANNEL = re.compile(
    r"(?:Channel|Ring) \d+(?:/\d+)? : (\d+)\[[0-9a-fA-F]+\] -> (\d+)\[[0-9a-fA-F]+\] (?:\[(send|receive)\] )?via (.+)"
)
# Any line about a channel between two ranks, whatever follows.
_BEGINS = re.compile(
    r"(?:Channel|Ring) \d+(?:/\d+)? : (\d+)\[[0-9a-fA-F]+\] -> (\d+)\[[0-9a-fA-F]+\](?:(?! \[receive\])| \[(receive)\])"
)
_NET = re.compile(r"NET/([^/]+)/\d+(?:\(\d+\))?((?:/[\w=()]+)*)\s*")
# The transport in a line about EFA that another process cut.
_CUT = re.compile(
    "|".join(f"NET/{name[:size]}" for name in sorted(EFA_NETWORKS) for size in range(1, len(name) + 1)) + "|NET/(?:"
    + "|".join(sorted(EFA_NETWORKS)) + ")/"
)  # fmt: skip
# A line without a transport that is known; between hosts it ends the proof.
_UNREAD = ""
# The network of a line that another process wrote into a torn one.
_LOST = re.compile(
    r"NCCL INFO .*(?:(?:via NET/|Using network )(?!AWS L|Lib|OFI)[\w/]{2}|Selected [Pp]rovider is (?!efa\b)\w)"
)
_INTRA = re.compile(r"(P2P|SHM)/[\w /()\[\]]+")
_UNKNOWN = re.compile(r"(?!(?:NET|P2P|SHM)/)[A-Z][A-Za-z0-9]{1,30}/[\w/()=]{0,60}")
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([^\s,(]+)")
_CHOICE = re.compile(r"NET/OFI Selected [Pp]rovider is")
_NETWORK = re.compile(r"Using network (\S.*)")
_COMM = re.compile(
    r"comm 0x[0-9a-f]{1,16} rank \d{1,9} n[Rr]anks (\d{1,9})(?: nNodes (\d{1,9}))?\b(?:.{0,80}? MNNVL (\d)\b)?"
)
_PLUGIN = re.compile(r"NET/OFI (?:Initializing|Using) aws-ofi-nccl (\S+)")
_NVLS = re.compile(r"\d+ coll channels, (?:\d+ collnet channels, )?(\d+) nvls channels,")
_VERSION = re.compile(r"NCCL version (\S+)")

# A run that prints one of these failed, even with a good table: a task ended, or was ended.
_FAILURE = re.compile(
    r"Test (?:NCCL|CUDA) failure|Test failure |Test timeout|Invalid number of GPUs|Segmentation fault|\bcore dumped\b"
    r"|srun: error: .{0,300}(?:Exited with exit code|Killed|Aborted|Terminated|Segmentation|Bus error|Out Of Memory"
    r"|Node failure|[Tt]imed out waiting|CANCELLED)|Job step aborted|STEP .{0,60}CANCELLED|oom[_-]kill"
    r"|mpirun noticed|prterun noticed|MPI_ABORT|MPI_Abort|CUDA error|Cuda failure|CANCELLED AT"
    r"|^Killed|^Aborted|^Bus error|Out of bounds values\s*:\s*\d+ FAILED"
    # No container started: lines of Pyxis and Enroot, which stand before those of srun.
    r"|error: pyxis: +(?:failed to (?:create container|import docker image)|--container-mounts: |couldn't chdir to "
    r"|enroot-|\[ERROR\]|FATAL ERROR)"
)
# Reports of a launcher or library that may be harmless: the test's own result decides.
_NOTE = re.compile(r"(?:srun|slurmstepd): error: (?!couldn't chdir|.{0,200}(?:retrying|will retry))|[Oo]ut of memory")


def short_host(name: str) -> str:
    """Return a host name up to its first dot, as NCCL and nccl-tests shorten it."""
    return name.partition(".")[0]


@dataclasses.dataclass
class HostChannels:
    """Channels between hosts that one host logged: their number by network, and how many use GPUDirect RDMA.

    ``direct`` is the number of those over NVLink, to the hosts in ``nvlink``, and ``inside`` that of those among them
    with a transport that exists inside one host only; ``peers`` are the hosts of channels over
    a network.
    """

    networks: dict[str, int] = dataclasses.field(default_factory=dict)
    gpudirect: int = 0
    direct: int = 0
    inside: int = 0
    nvlink: set[str] = dataclasses.field(default_factory=set)
    peers: set[str] = dataclasses.field(default_factory=set)

    @property
    def efa(self) -> int:
        """Return the number of channels over the OFI plugin."""
        return sum(number for name, number in self.networks.items() if name in EFA_NETWORKS)

    @property
    def other(self) -> list[str]:
        """Return the networks other than the OFI plugin that carry a channel."""
        return sorted(name for name in self.networks if name not in EFA_NETWORKS)


class NcclLog:
    """Counts over the NCCL lines of one output.

    providers and networks: {host: logged names}; ranks and nodes: sizes of communicators; hosts: those that logged
    anything; unread: lines of channels with an unknown transport, and between hosts all without a known one; nvls:
    channels of NVLink SHARP, which only NVSwitch has. mnnvl: NCCL joined hosts by NVLink, and counts all hosts of one
    NVLink domain as one node; joined has the words of that by host. failures: lines of a task that ended; notes: lines
    that may be harmless.
    """

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self.providers: dict[str, set[str]] = {}
        self.networks: dict[str, set[str]] = {}
        self.ranks: set[int] = set()
        self.nodes: set[int] = set()
        self.warnings: list[str] = []
        self.failures: list[str] = []
        self.notes: list[str] = []
        self.mnnvl = False
        self.joined: dict[str, set[str]] = {}
        self.plugin: str | None = None
        self.version: str | None = None
        self.intra: dict[str, int] = {}
        self.nvls: int | None = None
        self.contradictions = 0
        self.unread = 0
        self._between: dict[str, HostChannels] = {}
        self._pending: dict[tuple[str, int, int, str, bool], int] = {}
        self._dropped = False

    def plain(self, line: str) -> bool:
        """Record a line without NCCL's prefix with its version or a failure; return whether it has either."""
        if found := _VERSION.match(line):
            self.version = found.group(1)
            return True
        return self._failure(line)

    def _failure(self, text: str) -> bool:
        if _FAILURE.search(text):
            _keep(self.failures, text)
        elif _NOTE.search(text):
            _keep(self.notes, text)
        else:
            return False
        return True

    def feed(self, host: str, level: str, text: str, where: t.Mapping[int, str]) -> None:
        """Fold one NCCL line; where maps ranks to hosts, as far as it is known."""
        host = short_host(host)
        if len(self.hosts) < KEPT_NAMES:
            self.hosts.add(host)
        if level == "WARN":
            if not self._failure(text):
                _keep(self.warnings, text)
            return
        if "NCCL INFO " in text and _LOST.search(text):
            self.unread += 1
        begun = _BEGINS.match(text)
        if begun:
            found = _CHANNEL.fullmatch(text)
            if found:
                self._channel(host, found, where)
            else:
                self._record(host, begun.groups(), _UNREAD, False, where)
            return
        self._other(host, text)

    def _other(self, host: str, text: str) -> None:
        if text.startswith("NET/OFI"):
            if found := _PROVIDER.match(text):
                _note(self.providers, host, found.group(1))
            elif found := _PLUGIN.match(text):
                self.plugin = found.group(1)
            elif _CHOICE.match(text):
                self.unread += 1
        elif found := _NETWORK.match(text):
            _note(self.networks, host, found.group(1).strip())
        elif (found := _COMM.match(text)) and len(self.ranks) < KEPT_NAMES:
            self.ranks.add(int(found.group(1)))
            if found.group(2):
                self.nodes.add(int(found.group(2)))
            self.mnnvl = self.mnnvl or found.group(3) == "1"
            if found.group(3):
                _note(self.joined, host, found.group(3))
        elif found := _NVLS.match(text):
            self.nvls = max(self.nvls or 0, int(found.group(1)))
        elif found := _VERSION.match(text):
            self.version = found.group(1)
        elif text.startswith("Using network"):
            self.unread += 1

    def _channel(self, host: str, found: re.Match[str], where: t.Mapping[int, str]) -> None:
        *ends, via = found.groups()
        net = _NET.match(via)
        if net and net.end() == len(via):
            transport, direct = f"NET/{net.group(1)}", "/GDRDMA" in net.group(2)
        elif net and net.group(1) not in EFA_NETWORKS:
            transport, direct = f"NET/{net.group(1)}", False
        elif net or _CUT.fullmatch(via):
            # Another process wrote into a line about EFA: the rest of it proves nothing.
            return
        elif intra := _INTRA.fullmatch(via):
            # With MNNVL the channels inside a host have this name too.
            transport, direct = ("P2P/MNNVL" if via.startswith("P2P/MNNVL") else intra.group(1)), False
        elif _UNKNOWN.fullmatch(via):
            self.unread += 1
            return
        else:
            transport, direct = _UNREAD, False
        self._record(host, ends, transport, direct, where)

    def _record(
        self, host: str, ends: t.Sequence[str | None], transport: str, direct: bool, where: t.Mapping[int, str]
    ) -> None:
        # The sender logs [send] and the receiver [receive]; a channel inside a node is logged by its sender.
        first, second = int(ends[0] or 0), int(ends[1] or 0)
        own, peer = (second, first) if ends[2] == "receive" else (first, second)
        key = (host, own, peer, transport, direct)
        if key in self._pending or len(self._pending) < _PENDING:
            self._pending[key] = self._pending.get(key, 0) + 1
        elif where:
            self.settle(where)
            self._pending[key] = 1
        else:
            self._dropped = True

    def settle(self, where: t.Mapping[int, str]) -> None:
        """Divide the recorded channels into those between hosts and those inside one."""
        for (host, own, peer, transport, direct), number in self._pending.items():
            home, away = where.get(own), where.get(peer)
            if home is None or away is None or short_host(home) != host:
                self.contradictions += number
            elif short_host(away) == host and transport == _UNREAD:
                # No network is concerned.
                continue
            elif transport == _UNREAD:
                self.unread += number
            elif short_host(away) == host:
                name = transport.partition("/")[0] if transport.startswith("P2P") else transport
                self.intra[name] = self.intra.get(name, 0) + number
            else:
                between = self._between.setdefault(host, HostChannels())
                if transport.startswith("NET/"):
                    name = transport[4:]
                    between.networks[name] = between.networks.get(name, 0) + number
                    between.gpudirect += number if direct else 0
                    between.peers.add(short_host(away))
                else:
                    between.direct += number
                    if transport == "P2P/MNNVL":
                        between.nvlink.add(short_host(away))
                    else:
                        between.inside += number
        self._pending.clear()

    def between(self, where: t.Mapping[int, str]) -> dict[str, HostChannels]:
        """Return the channels between hosts that each host logged. Call it after the last line."""
        self.settle(where)
        if self._dropped:
            self.contradictions += 1
        return self._between


def _keep(texts: list[str], text: str) -> None:
    if len(texts) < KEPT_TEXTS:
        texts.append(" ".join(text.split())[:300])


def _note(names: dict[str, set[str]], host: str, name: str) -> None:
    if len(names) < KEPT_NAMES:
        kept = names.setdefault(host, set())
        if len(kept) < KEPT_TEXTS:
            kept.add(name[:60])
