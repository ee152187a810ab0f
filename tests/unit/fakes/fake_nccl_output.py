# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of nccl-tests on several nodes. Invented: no such machine could be had.

Tables and headers follow the recorded ones of one GPU and the formats in NVIDIA/nccl-tests src/util.cu; the lines of
channels, providers and communicators follow the formats in NVIDIA/nccl src/transport and aws-ofi-nccl src.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.parse import parse
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl.verify import RequestedRun, judge

HALF = "     time   algbw   busbw  #wrong"
COLUMNS = f"#       size         count      type   redop    root{HALF}{HALF} "
GPU = "NVIDIA H100 80GB HBM3"
UNITS = "     (us)  (GB/s)  (GB/s)        "


@dataclasses.dataclass
class Plan:
    """The run to simulate: each field changes one property of a good run of all_reduce over EFA."""

    hosts: tuple[str, ...] = ("node-1", "node-2", "node-3", "node-4")
    gpus: int = 2
    collective: str = "all_reduce"
    smallest: int = 1 << 20
    largest: int = 1 << 30
    factor: int = 4
    busbw: t.Callable[[int], float] = lambda size: 400.0 * size / (size + (1 << 26))
    in_place_busbw: t.Callable[[int], float] | None = None
    network: str = "Libfabric"
    provider: str = "efa"
    gdr: str = "/GDRDMA"
    in_place_wrong: str = "0"
    nvls: int = 16
    silent: tuple[str, ...] = ()
    # Hosts of one NVLink domain each, in the order of hosts; none: no NVLink between hosts.
    domains: tuple[int, ...] = ()

    def domain(self, host: str) -> int:
        """The NVLink domain of a host."""
        bounds = [sum(self.domains[: index + 1]) for index in range(len(self.domains))]
        place = self.hosts.index(host)
        return next((index for index, bound in enumerate(bounds) if place < bound), -1 - place)

    @property
    def ranks(self) -> list[tuple[int, str, int]]:
        """Rank, host and device."""
        return [
            (index * self.gpus + device, host, device)
            for index, host in enumerate(self.hosts)
            for device in range(self.gpus)
        ]

    @property
    def factor_of_bus(self) -> float:
        """Bus bandwidth by algorithm bandwidth (NVIDIA/nccl-tests, doc/PERFORMANCE.md)."""
        ranks = len(self.ranks)
        shares = {"all_reduce": 2 * (ranks - 1) / ranks, "broadcast": 1, "reduce": 1, "sendrecv": 1}
        return shares.get(self.collective, (ranks - 1) / ranks)

    @property
    def sizes(self) -> list[int]:
        """The sizes of the sweep."""
        found, size = [], self.smallest
        while size <= self.largest:
            found.append(size)
            size *= self.factor
        return found


def header(plan: Plan) -> list[str]:
    """The lines up to the list of ranks."""
    options = "warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0"
    sweep = f"minBytes {plan.smallest} maxBytes {plan.largest} step: {plan.factor}(factor)"
    return [
        "# nccl-tests version 2.19.6 nccl-headers=22803 nccl-library=22803",
        f"# Collective test starting: {plan.collective}_perf",
        f"# nThread 1 nGpus 1 {sweep} {options}",
        "#",
        "# Using devices",
        *(
            f"#  Rank {rank:2} Group  0 Pid {1000 + rank:6} on {host:>10} device {device:2} "
            f"[0000:{device:02x}:00] {GPU}"
            for rank, host, device in plan.ranks
        ),
    ]


def log(plan: Plan) -> list[str]:
    """Return NCCL's log on all hosts during the set-up of the communicator: a ring through all ranks."""
    total = len(plan.ranks)
    lines = []
    for rank, host, device in plan.ranks:
        if host in plan.silent:
            continue
        start = f"{host}:{1000 + rank}:{1100 + rank} [{device}] NCCL INFO"
        after, _host, next_device = plan.ranks[(rank + 1) % total]
        before, _host, last_device = plan.ranks[rank - 1]
        lines += [f"{start} Using network {plan.network}"]
        if "Libfabric" in plan.network:
            lines += [
                f"{start} NET/OFI Initializing aws-ofi-nccl 1.21.1",
                f"{start} NET/OFI Selected provider is {plan.provider}, fabric is efa-direct (found 32 nics)",
            ]
        count, mnnvl = (len(plan.domains), 1) if plan.domains else (len(plan.hosts), 0)
        sizes = f"nRanks {total} nNodes {count} localRanks {plan.gpus} localRank {device} MNNVL {mnnvl}"
        lines += [f"{start} comm 0x5{rank:x} rank {rank} {sizes}"]
        lines += [f"{start} 16 coll channels, 16 collnet channels, {plan.nvls} nvls channels, 32 p2p channels"]
        for channel in ("00/0", "01/0"):
            if plan.domain(plan.ranks[before][1]) != plan.domain(host):
                via = f"NET/{plan.network}/{device}{plan.gdr}"
                lines += [
                    f"{start} Channel {channel} : {before}[{last_device}] -> {rank}[{device}] [receive] via {via}"
                ]
            if plan.domain(plan.ranks[after][1]) != plan.domain(host):
                via = f"NET/{plan.network}/{device}({rank}){plan.gdr}/Shared"
                lines += [f"{start} Channel {channel} : {rank}[{device}] -> {after}[{next_device}] [send] via {via}"]
            else:
                inside = "P2P/MNNVL" if plan.domains else "P2P/CUMEM/read"
                lines += [f"{start} Channel {channel} : {rank}[{device}] -> {after}[{next_device}] via {inside}"]
    return lines


def table(plan: Plan) -> list[str]:
    """The table and what closes it."""
    rows, total, factor = [], 0.0, plan.factor_of_bus
    operation = "sum" if plan.collective in ("all_reduce", "reduce_scatter", "reduce") else "none"
    root = 0 if plan.collective in ("broadcast", "reduce") else -1
    for size in plan.sizes:
        halves = []
        for figure in (plan.busbw, plan.in_place_busbw or plan.busbw):
            busbw = round(figure(size), 2) if factor else 0.0
            algbw = busbw / factor if factor else 300.0
            total += busbw
            halves.append(f"  {size / algbw / 1e3:7.2f}  {algbw:6.2f}  {busbw:6.2f}")
        start = f"{size:12}  {size // 4:12}  {'float':>8}  {operation:>6}  {root:6}"
        rows += [f"{start}{halves[0]}       0{halves[1]}  {plan.in_place_wrong:>6}"]
    return [
        "#",
        f"#{'':62}out-of-place{'':23}in-place{'':10}",
        COLUMNS,
        f"#        (B)    (elements)                         {UNITS}{UNITS} ",
        *rows,
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {total / (2 * len(plan.sizes)):g} ",
        "#",
        f"# Collective test concluded: {plan.collective}_perf",
        "#",
    ]


def output(plan: Plan | None = None, **fields: t.Any) -> list[str]:
    """The lines of a whole run."""
    plan = plan or Plan(**fields)
    return header(plan) + log(plan) + table(plan)


def reduced(largest: int) -> list[str]:
    """The lines of a run whose memory is too small for the plan's largest size: it measured those up to ``largest``."""
    plan = Plan()
    smaller = dataclasses.replace(plan, largest=largest)
    line = f"# Reducing maxBytes to {largest + 5} due to memory limitation"
    return [*header(plan), "#", line, *log(plan), *table(smaller)]


def snapshots(hosts: t.Iterable[str], sent: int) -> dict[str, dict[str, dict[str, int]]]:
    """Counters of two devices of each host, after so many bytes."""
    return {host: {name: {"tx_bytes": sent // 2, "rx_bytes": 7} for name in ("rdmap0s6", "rdmap1s6")} for host in hosts}


FOUR = RequestedRun(ranks=8, nodes=4, instance_type="p5.48xlarge")


def verdicts(lines: t.Iterable[str], requested: RequestedRun = FOUR, tool: str | None = None) -> list[str]:
    """The status of each of the three verdicts."""
    return [one.status for one in judge(parse(lines), requested, tool).results]


def only(lines: t.Iterable[str], which: str, requested: RequestedRun = FOUR) -> t.Any:
    """One of the verdicts on nccl-tests: correct, fabric or bandwidth."""
    return next(one for one in judge(parse(lines), requested).results if one.id == f"nccl.{which}")


def without(lines: t.Iterable[str], *parts: str) -> list[str]:
    """The lines that have none of the parts in them."""
    return [line for line in lines if not any(part in line for part in parts)]


# A table of nccl-tests 2.0 on two hosts, from the formats in its source.
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
    "          32             8   float     sum    41.94    0.50    0.50  0e+00    41.81    0.50    0.50  0e+00",
    "# Out of bounds values : 0 OK",
    "# Avg bus bandwidth    : 0.5 ",
    "#",
]
