# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on runs of nccl-tests and nccom-test, shared by the job kinds nccl and nccom."""

from __future__ import annotations

import dataclasses
import itertools
import posixpath
import typing as t

from ..imex.parse import blocks as parse_blocks
from ..nccl.baseline import Entry, load
from ..nccl.counters import Snapshot, parse_snapshots
from ..nccl.log import short_host
from ..nccl.parse import parse_file
from ..nccl.table import NCCL_TESTS, NCCOM_TEST
from ..nccl.verify import RequestedRun, judge
from ..slurm.parse import expand
from ..system.host import Host, NodeError
from ..verdict import result
from .job import Job
from .sweep import requested_sizes

RUNS = "runs.tsv"
# Slurm's output on its topology, if the layout or the type of the nodes asks for UltraServers.
TOPOLOGY = "topology"


def _tool(job: Job) -> str:
    return NCCOM_TEST if job.asked["kind"] == "nccom" else NCCL_TESTS


@dataclasses.dataclass(frozen=True)
class Ran:
    """One run: its nodes, exit status, and round (the runs of a round ran at the same time)."""

    unit: str
    collective: str
    nodes: tuple[str, ...]
    rc: int
    round: str


def read_runs(text: str | None) -> list[Ran]:
    """Return the runs from lines UNIT, COLLECTIVE, NODES, STATUS, ROUND; an incomplete line is left out."""
    found = []
    for line in (text or "").splitlines():
        parts = line.split("\t")
        if len(parts) == 5 and parts[3].isdecimal():
            found.append(Ran(parts[0], parts[1], tuple(parts[2].split(",")), int(parts[3]), parts[4]))
    return found


def judge_collectives(job: Job, host: Host) -> list[result.Result]:
    """Return the verdicts on each run of nccl-tests or nccom-test, on missing runs, and on nodes that stand out."""
    runs = read_runs(host.read_text(posixpath.join(job.results, RUNS)))
    baseline = load(host, job.asked["baseline"]) if job.asked.get("baseline") else ()
    topology = host.read_text(posixpath.join(job.results, TOPOLOGY)) or ""
    outputs = [(run, *_judge_run(job, run, host, baseline, domains_joined(run.nodes, topology))) for run in runs]
    judged = [(run, verdicts) for run, verdicts, _hosts in outputs]
    where_of = {run: hosts for run, _verdicts, hosts in outputs}
    mixed = _one_for_two(job, runs, where_of) or _of_others(job, runs, where_of)
    results = [_complete(job, runs, topology), *mixed]
    for run, verdicts in judged:
        # A run between two nodes belongs to both: reports use this for the map of pairs.
        where = result.Scope(
            node=run.nodes[0] if len(run.nodes) == 1 else None,
            device="+".join(run.nodes) if len(run.nodes) == 2 else None,
        )
        for verdict in verdicts:
            results.append(
                dataclasses.replace(
                    verdict,
                    id=f"{verdict.id}.{run.collective}",
                    scope=where,
                    message=f"{run.unit}: {verdict.message or verdict.reason or verdict.status}",
                )
            )
    if job.asked["layout"] != "all":
        stand_out = nodes_that_stand_out(
            [(run.nodes, result.overall([*verdicts[:2], *verdicts[3:]])) for run, verdicts in judged]
        )
        results += [dataclasses.replace(one, id=f"{job.asked['kind']}.nodes") for one in stand_out]
    return results


def _judge_run(
    job: Job, run: Ran, host: Host, baseline: t.Sequence[Entry], domains: int | None
) -> tuple[tuple[result.Result, ...], frozenset[str]]:
    """Return the verdicts on the output of a run, and the hosts that it names."""
    before, after = (_counters(job, run, host, side) for side in ("before", "after"))
    asked = RequestedRun(
        ranks=len(run.nodes) * job.ranks,
        nodes=len(run.nodes),
        instance_type=job.asked.get("instance_type"),
        collective=run.collective,
        rc=run.rc,
        # Its script always uses --check.
        checked=_tool(job) == NCCOM_TEST,
        before=before,
        after=after,
        baseline=baseline,
        tolerance_percent=float(job.asked["tolerance_percent"]),
        domains=domains,
        sizes=requested_sizes(job.asked),
    )
    path = posixpath.join(job.results, f"{run.unit}.{run.collective}.out")
    try:
        found = judge(parse_file(path), asked, _tool(job))
        return found.results, frozenset(found.run.hosts if found.run else ())
    except NodeError as exc:
        missing = result.undeterminable(f"{job.asked['kind']}.correct", "no_output", message=str(exc))
        return (missing,), frozenset()


def _counters(job: Job, run: Ran, host: Host, side: str) -> dict[str, Snapshot] | None:
    """Return the counters of the run's nodes; None if no node has an EFA device with counters."""
    path = posixpath.join(job.results, f"counters.{run.round}.{side}")
    text = host.read_text(path)
    if text is None:
        return None
    names = {short_host(name) for name in run.nodes}
    found = {name: devices for name, devices in parse_snapshots(text, path).items() if name in names}
    return found if any(found.values()) else None


def domains_of(nodes: t.Sequence[str], topology: str) -> list[tuple[str, ...]]:
    """Return the nodes by UltraServer, which is a block of Slurm's topology; a node without a block is alone.

    Without any block, all nodes count as one UltraServer.
    """
    blocks = parse_blocks(topology)
    if not blocks:
        return [tuple(nodes)]
    block_of = {name: block for block, names in blocks.items() for name in expand(names)}
    found: dict[str, list[str]] = {}
    for node in nodes:
        found.setdefault(block_of.get(node, f"/{node}"), []).append(node)
    return [tuple(one) for one in found.values()]


def domains_joined(nodes: t.Sequence[str], topology: str | None) -> int | None:
    """Return the number of UltraServers of some nodes; None if Slurm has no blocks."""
    return len(domains_of(nodes, topology)) if topology and parse_blocks(topology) else None


def expected_runs(
    layout: str, collectives: t.Sequence[str], nodes: t.Sequence[str], topology: str = ""
) -> list[tuple[str, tuple[str, ...]]]:
    """Return collective and nodes of every run of a layout; of ``bisect`` only the first.

    ``domains``: each UltraServer alone, then all of them together.
    """
    count = len(nodes)
    groups: list[tuple[str, ...]]
    if layout == "bisect":
        return [(collectives[0], tuple(nodes))]
    if layout == "single":
        groups = [(node,) for node in nodes]
    elif layout == "domains":
        groups = domains_of(nodes, topology)
        groups += [tuple(nodes)] if len(groups) > 1 else []
    elif layout == "pairs" and count > 2:
        # Each node with both neighbours; two nodes are one pair.
        starts = [*range(0, count - 1, 2), *range(1, count, 2)]
        groups = [(nodes[index], nodes[(index + 1) % count]) for index in starts]
    else:
        groups = [tuple(nodes)]
    return [(collective, group) for collective in collectives for group in groups]


def _complete(job: Job, runs: t.Sequence[Ran], topology: str) -> result.Result:
    """Return the verdict on whether every run of the layout exists, on the right nodes."""
    check = f"{job.asked['kind']}.complete"
    wanted = expected_runs(job.asked["layout"], job.asked["collectives"], job.nodes, topology)
    had = {(run.collective, frozenset(run.nodes)) for run in runs}
    missing = [(collective, group) for collective, group in wanted if (collective, frozenset(group)) not in had]
    if missing or not wanted:
        named = ", ".join(f"{collective} on {_group(group)}" for collective, group in missing[:4])
        return result.failed(
            check,
            f"{len(missing)} of {len(wanted)} were never run: {named}",
            expected=len(wanted),
            found=len(wanted) - len(missing),
            hint="The job ended too early: give it more minutes, or see its output",
        )
    return result.passed(check, len(runs), message=f"{len(runs)} runs on {len(job.nodes)} nodes")


def _one_for_two(job: Job, runs: t.Sequence[Ran], where: t.Mapping[Ran, frozenset[str]]) -> list[result.Result]:
    """Return a failure for each two runs that have the same output: the same name, or the same hosts.

    ``where`` has the hosts in each output.
    """
    found = []
    for first, second in itertools.combinations(runs, 2):
        if first.collective != second.collective or set(first.nodes) == set(second.nodes):
            continue
        same = where[first] and where[first] == where[second]
        if first.unit == second.unit or same:
            why = "have one output" if first.unit == second.unit else f"both name {', '.join(sorted(where[first]))}"
            message = f"{first.collective} on {_group(first.nodes)} and on {_group(second.nodes)} {why}: run it again"
            check = f"{job.asked['kind']}.complete"
            found.append(result.undeterminable(check, "one_for_two", message=message))
    return found


def _of_others(job: Job, runs: t.Sequence[Ran], where: t.Mapping[Ran, frozenset[str]]) -> list[result.Result]:
    """Return a failure for each run whose output names nodes of the job that were not in the run.

    Host names may differ from Slurm's, so a name of no node of the job proves nothing.
    """
    found = []
    for run in runs:
        own = {short_host(name) for name in run.nodes}
        others = sorted(where[run] & {short_host(name) for name in job.nodes} - own)
        if others:
            message = f"{run.collective} on {_group(run.nodes)} names {', '.join(others)}: run it again"
            found.append(result.undeterminable(f"{job.asked['kind']}.complete", "other_nodes", message=message))
    return found


def _group(nodes: t.Sequence[str]) -> str:
    return "+".join(nodes) if len(nodes) <= 2 else f"{nodes[0]} to {nodes[-1]}, {len(nodes)} nodes"


def nodes_that_stand_out(runs: t.Sequence[tuple[tuple[str, ...], str]]) -> list[result.Result]:
    """Return the nodes that fail, from overlapping runs (nodes, status of correctness and fabric). Pure.

    A node is singled out if it fails alone. It is also singled out if it fails with others, never succeeds with any,
    and each of those nodes has succeeded in another run. A single failing pair accuses no node.
    """
    failed = [frozenset(nodes) for nodes, status in runs if status == result.FAIL]
    good = {node for nodes, status in runs if status == result.PASS and len(nodes) > 1 for node in nodes}
    alone = {next(iter(group)) for group in failed if len(group) == 1}
    accused = set(alone)
    for node in {name for group in failed for name in group} - good:
        partners = {name for group in failed if node in group and len(group) == 2 for name in group} - {node}
        if partners and partners <= good | alone and partners - alone:
            accused.add(node)
    if not failed:
        if any(status != result.PASS for _nodes, status in runs) or not runs:
            return [
                result.undeterminable(
                    "nccl.nodes", "not_proved", message="no run failed, and not every run could be proved good"
                )
            ]
        names = sorted({node for nodes, _status in runs for node in nodes})
        return [result.passed("nccl.nodes", names, message=f"none of {len(names)} nodes stands out")]
    if not accused:
        groups = "; ".join(" with ".join(sorted(group)) for group in sorted(failed, key=sorted)[:4])
        return [
            result.undeterminable(
                "nccl.nodes",
                "not_singled_out",
                message=f"runs failed and no single node explains them: {groups}",
                hint="Run the layout pairs on more nodes, some of which are known to be good",
            )
        ]
    return [
        result.failed(
            "nccl.nodes",
            f"{node} fails {'by itself' if node in alone else 'with nodes that succeed with others'}",
            severity="isolate",
            found=[sorted(group) for group in sorted(failed, key=sorted) if node in group],
            hint="Drain the node and run mlcluster health --profile full on it",
            scope=result.Scope(node=node),
        )
        for node in sorted(accused)
    ]
