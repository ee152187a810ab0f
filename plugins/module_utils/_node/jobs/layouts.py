# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layouts: the nodes that run a collective together. All, each alone (single), pairs of neighbours, halves of a failing
group (bisect), or each UltraServer and then all (domains).

Each run writes its output and a line of runs.tsv; each round, the counters of the EFA devices of every node before and
after it.
"""

from __future__ import annotations

import typing as t

from ..._data.ultraservers import is_ultraserver
from ..nccl.parse import parse_file
from ..nccl.table import NCCOM_TEST
from ..nccl.verify import RequestedRun, judge
from ..system.host import NodeError
from ..verdict import result
from .collectives import RUNS, TOPOLOGY, domains_of, expected_runs
from .step import Step, each_node
from .work import Work

# From a collective and its nodes to the command.
Launch = t.Callable[[str, t.Sequence[str]], t.Sequence[str]]
Nodes = tuple[str, ...]


class Rounds:
    """Runs of a job in rounds; the runs of a round run in parallel.

    ``ranks`` is their number on a node. ``counts``: whether a round reads the counters; false after no node had any.
    """

    def __init__(self, work: Work, launch: Launch, ranks: int, counts: bool) -> None:
        self.work = work
        self.launch = launch
        self.ranks = ranks
        self.counts = counts
        self.number = 0

    def run(self, collective: str, groups: t.Sequence[Nodes], in_parallel: bool = True) -> list[int]:
        """Run a collective once on each group of nodes, as one round, and return the exit statuses."""
        self._look("before")
        # A launch may look for a free port, so it is made after the earlier ones have begun or ended.
        batches = [groups] if in_parallel else [[group] for group in groups]
        statuses = [status for batch in batches for status in self._run(collective, batch)]
        self._look("after")
        self.number += 1
        return statuses

    def _run(self, collective: str, groups: t.Sequence[Nodes]) -> list[int]:
        steps = []
        for group in groups:
            output = self.work.file(f"{self._unit(group)}.{collective}.out")
            steps.append(Step(tuple(self.launch(collective, group)), output, output))
        statuses = self.work.together(steps)
        for group, status in zip(groups, statuses):
            row = (self._unit(group), collective, ",".join(group), str(status), str(self.number))
            self.work.append(RUNS, "\t".join(row) + "\n")
        return statuses

    def _unit(self, group: Nodes) -> str:
        return unit(group, self.work.spec.values["layout"])

    def _look(self, side: str) -> None:
        if not self.counts:
            return
        name = f"counters.{self.number}.{side}"
        step = (*each_node(self.work.nodes, time=2), *self.work.spec.mlcluster, "efa-counters")
        self.work.run(*step, stdout=self.work.file(name), stderr="/dev/null")
        if not self.work.dry and '_bytes"' not in self.work.read(name):
            self.counts = False
            self.work.remove(name)

    def fails(self, collective: str, group: Nodes) -> bool:
        """Return whether a run on these nodes is wrong, or not over EFA; what cannot be determined is not a failure."""
        (status,) = self.run(collective, [group])
        if self.work.dry:
            return False
        neuron = self.work.spec.kind == "nccom"
        requested = RequestedRun(
            ranks=len(group) * self.ranks, nodes=len(group), collective=collective, rc=status, checked=neuron
        )
        path = self.work.file(f"{self._unit(group)}.{collective}.out")
        try:
            judged = judge(parse_file(path), requested, NCCOM_TEST if neuron else None)
        except NodeError:
            return False
        return result.exit_code(judged.results) == result.EXIT_FAIL


def unit(group: Nodes, layout: str) -> str:
    """Return the name of a group in files and reports. Pure."""
    if layout == "all":
        return "all"
    return "+".join(group) if len(group) <= 4 else f"{group[0]}-to-{group[-1]}-{len(group)}"


def run_layout(work: Work, launch: Launch, ranks: int, parallel_pairs: bool = True) -> None:
    """Run the collectives of a job by its layout."""
    layout, collectives = work.spec.values["layout"], work.spec.values["collectives"]
    rounds = Rounds(work, launch, ranks, counts=layout != "single")
    if layout == "bisect":
        work.note("halves a group of nodes as long as it fails; each failing node runs with a good one")
        bisect(work.nodes, lambda group: rounds.fails(collectives[0], group))
        return
    topology = _topology(work, layout)
    for collective in collectives:
        groups = [group for _collective, group in expected_runs(layout, [collective], work.nodes, topology)]
        if layout == "domains":
            *alone, every = groups
            if alone:
                rounds.run(collective, alone, parallel_pairs)
            rounds.run(collective, [every])
            continue
        if layout != "pairs":
            rounds.run(collective, groups)
            continue
        # A node runs with both neighbours, so that the node is found and not only the pair.
        groups = [group for group in groups if len(group) > 1]
        half = len(work.nodes) // 2
        for batch in (groups[:half], groups[half:]):
            if batch:
                rounds.run(collective, batch, parallel_pairs)


def _topology(work: Work, layout: str) -> str:
    """Return Slurm's output on its blocks, and store it for the verdict; empty if no UltraServer is involved."""
    if layout != "domains" and is_ultraserver(work.spec.asked.get("instance_type")) is False:
        return ""
    text = work.ask("scontrol", "show", "topology")
    work.write(TOPOLOGY, text)
    work.note(f"{len(domains_of(work.nodes, text))} UltraServers by the blocks of Slurm's topology")
    return text


def bisect(nodes: Nodes, fails: t.Callable[[Nodes], bool]) -> None:
    """Halve a failing group until single nodes or pairs are left; a group that does not fail is finished.

    A fabric fails only between nodes, so each node of a failing pair runs with a node that is known to be good.
    """
    good = ""
    failing: list[str] = []
    groups = [nodes]
    while groups:
        group = groups.pop(0)
        half = (len(group) + 1) // 2
        if not fails(group):
            # A single node proves nothing about its fabric.
            good = group[0] if len(group) > 1 else good
        elif len(group) > 1:
            failing += group if len(group) == 2 else ()
            groups += [group[:half], group[half:]]
    for node in failing:
        if good and good != node:
            fails((node, good))
