# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a validation job, from what its script left in the directory of results.

The script only runs things and keeps what they print; everything is decided here.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import posixpath
import typing as t

from ..nccl.baseline import Entry, load
from ..nccl.counters import Snapshot, parse_snapshots
from ..nccl.log import short_host
from ..nccl.parse import parse_file
from ..nccl.table import NCCL_TESTS, NCCOM_TEST
from ..nccl.verify import Asked, judge
from ..system.host import Host, NodeError
from ..verdict import result
from . import verify_io as io

TASK_PREFIX = "task-"
RUNS = "runs.tsv"


@dataclasses.dataclass(frozen=True)
class Job:
    """A job that ran: what it was asked for (see slurm_jobs' data model), its nodes in Slurm's order, its results."""

    asked: t.Mapping[str, t.Any]
    nodes: tuple[str, ...]
    results: str

    @property
    def tasks(self) -> int:
        """How many tasks each node was to have."""
        return int(self.asked["tasks_per_node"])

    @property
    def ranks(self) -> int:
        """How many ranks of a collective each node was to have; one task of nccom-test stands for all of its node."""
        return int(self.asked.get("workers_per_node") or self.tasks)

    @property
    def tool(self) -> str:
        """What ran the collectives."""
        return NCCOM_TEST if self.asked["kind"] == "nccom" else NCCL_TESTS


def parse_asked(text: str) -> dict[str, t.Any]:
    """The JSON that a script hands over. Raises NodeError where it is not that."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("kind") not in JUDGES or not isinstance(found.get("name"), str):
        raise NodeError(f"--asked must be a JSON object with a name and a kind of {', '.join(JUDGES)}: got {text[:80]}")
    if not isinstance(found.get("tasks_per_node"), int) or found["tasks_per_node"] < 1:
        raise NodeError(
            "--asked needs tasks_per_node, a whole number: render the script again with the role slurm_jobs"
        )
    return found


# --- node_smoke ------------------------------------------------------------------------------------------------------


def read_tasks(host: Host, results: str) -> list[dict[str, t.Any]]:
    """What the tasks wrote, one mapping each; a file that is torn is no task."""
    found = []
    for name in sorted(host.listdir(results)):
        if name.startswith(TASK_PREFIX) and name.endswith(".json"):
            entry = host.read_json(posixpath.join(results, name))
            if isinstance(entry, dict):
                found.append(entry)
    return found


def judge_smoke(job: Job, host: Host) -> list[result.Result]:
    """Did every task start, where it belongs, with its GPUs, and was the shared directory there?"""
    return judge_tasks("smoke", job, read_tasks(host, job.results))


def judge_tasks(prefix: str, job: Job, tasks: t.Sequence[t.Mapping[str, t.Any]]) -> list[result.Result]:
    """Results PREFIX.tasks, PREFIX.placement, PREFIX.hosts and PREFIX.gpus. Pure."""
    by_rank = {entry.get("rank"): entry for entry in tasks}
    wanted = len(job.nodes) * job.tasks
    # Counted from what came, for what was to come is a number that somebody wrote down.
    came = collections.Counter(rank // job.tasks for rank in by_rank if isinstance(rank, int) and 0 <= rank < wanted)
    silent = sorted({node for at, node in enumerate(job.nodes) if came[at] < job.tasks})
    if silent or len(tasks) != wanted:
        where = f"; nothing came from ranks of {', '.join(silent)}" if silent else ""
        return [
            result.failed(
                f"{prefix}.tasks",
                f"{wanted} tasks were to start and {len(tasks)} wrote into {job.results}{where}",
                severity="isolate" if silent and len(silent) < len(job.nodes) else "monitor",
                expected=wanted,
                found=len(tasks),
                hint="Look at slurmd on those nodes, and whether they have the shared directory mounted",
                scope=result.Scope(node=silent[0] if len(silent) == 1 else None),
            )
        ]
    return [
        result.passed(f"{prefix}.tasks", wanted, expected=wanted, message=f"{wanted} tasks on {len(job.nodes)} nodes"),
        _placement(prefix, job, by_rank),
        _hosts(prefix, job, by_rank),
        _gpus(prefix, job, by_rank),
    ]


def _placement(prefix: str, job: Job, by_rank: t.Mapping[t.Any, t.Mapping[str, t.Any]]) -> result.Result:
    # Frameworks take it for granted that ranks 0 to 7 share the first node, and 8 to 15 the second.
    wrong = [
        f"rank {rank} ran on {entry.get('node')} as local {entry.get('local')}"
        for rank, entry in sorted(by_rank.items())
        if (entry.get("node"), entry.get("local")) != (job.nodes[rank // job.tasks], rank % job.tasks)
    ]
    expected = {node: [at * job.tasks, (at + 1) * job.tasks - 1] for at, node in enumerate(job.nodes)}
    if wrong:
        return result.failed(
            f"{prefix}.placement",
            f"ranks are not in blocks of {job.tasks} in the order of the nodes: {'; '.join(wrong[:3])}",
            expected=expected,
            found=wrong,
            hint="Leave --distribution out, or set it to block",
        )
    return result.passed(
        f"{prefix}.placement", expected, message=f"ranks in blocks of {job.tasks}, in the order of the nodes"
    )


def _hosts(prefix: str, job: Job, by_rank: t.Mapping[t.Any, t.Mapping[str, t.Any]]) -> result.Result:
    names: dict[str, set[str]] = {}
    for entry in by_rank.values():
        names.setdefault(str(entry.get("host")), set()).add(str(entry.get("node")))
    if len(names) != len(job.nodes):
        return result.failed(
            f"{prefix}.hosts",
            f"{len(job.nodes)} nodes were asked for, and the tasks ran on {len(names)}: {', '.join(sorted(names))}",
            expected=len(job.nodes),
            found=sorted(names),
            hint="Give each node a host name of its own",
        )
    return result.passed(f"{prefix}.hosts", sorted(names), message=f"{len(names)} hosts with names of their own")


def _gpus(prefix: str, job: Job, by_rank: t.Mapping[t.Any, t.Mapping[str, t.Any]]) -> result.Result:
    wanted = int(job.asked.get("gpus_per_node") or 0)
    if not wanted:
        return result.not_applicable(f"{prefix}.gpus", "no_gpus", message="the job asked for no GPUs")
    short = {
        str(entry.get("node")): len(entry.get("gpus") or [])
        for entry in by_rank.values()
        if len(entry.get("gpus") or []) != wanted
    }
    if short:
        return result.failed(
            f"{prefix}.gpus",
            f"each task was to see the {wanted} GPUs of its node, and on {', '.join(sorted(short))} it does not",
            severity="isolate",
            expected=wanted,
            found=short,
            hint="Compare gres.conf with nvidia-smi on those nodes",
            scope=result.Scope(node=next(iter(short)) if len(short) == 1 else None),
        )
    return result.passed(f"{prefix}.gpus", wanted, message=f"every task sees the {wanted} GPUs of its node")


# --- nccl ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Ran:
    """One run: its nodes, exit status, and round (runs of a round went on at the same time)."""

    unit: str
    collective: str
    nodes: tuple[str, ...]
    rc: int
    round: str


def read_runs(text: str | None) -> list[Ran]:
    """The lines UNIT, COLLECTIVE, NODES, STATUS, ROUND of the script; a torn line is left out."""
    found = []
    for line in (text or "").splitlines():
        parts = line.split("\t")
        if len(parts) == 5 and parts[3].isdecimal():
            found.append(Ran(parts[0], parts[1], tuple(parts[2].split(",")), int(parts[3]), parts[4]))
    return found


def judge_nccl(job: Job, host: Host) -> list[result.Result]:
    """Every run of nccl-tests or nccom-test by nccl_verdict, whether all are there, and which nodes stand out."""
    runs = read_runs(host.read_text(posixpath.join(job.results, RUNS)))
    baseline = load(host, job.asked["baseline"]) if job.asked.get("baseline") else ()
    judged = [(run, _judge_run(job, run, host, baseline)) for run in runs]
    results = [_complete(job, runs)]
    for run, verdicts in judged:
        # What ran between two nodes is of neither alone: a report draws its map of pairs by this.
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
        stand_out = nodes_that_stand_out([(run.nodes, result.overall(verdicts[:2])) for run, verdicts in judged])
        results += [dataclasses.replace(one, id=f"{job.asked['kind']}.nodes") for one in stand_out]
    return results


def _judge_run(job: Job, run: Ran, host: Host, baseline: t.Sequence[Entry]) -> tuple[result.Result, ...]:
    before, after = (_counters(job, run, host, side) for side in ("before", "after"))
    asked = Asked(
        ranks=len(run.nodes) * job.ranks,
        nodes=len(run.nodes),
        instance_type=job.asked.get("instance_type"),
        collective=run.collective,
        rc=run.rc,
        # Its script gives --check always.
        checked=job.tool == NCCOM_TEST,
        before=before,
        after=after,
        baseline=baseline,
        tolerance_percent=float(job.asked["tolerance_percent"]),
    )
    path = posixpath.join(job.results, f"{run.unit}.{run.collective}.out")
    try:
        return judge(parse_file(path), asked, job.tool).results
    except NodeError as exc:
        return (result.undeterminable(f"{job.asked['kind']}.correct", "no_output", message=str(exc)),)


def _counters(job: Job, run: Ran, host: Host, side: str) -> dict[str, Snapshot] | None:
    """The counters of the run's nodes; None where no node has an EFA device that counts."""
    path = posixpath.join(job.results, f"counters.{run.round}.{side}")
    text = host.read_text(path)
    if text is None:
        return None
    names = {short_host(name) for name in run.nodes}
    found = {name: devices for name, devices in parse_snapshots(text, path).items() if name in names}
    return found if any(found.values()) else None


def _complete(job: Job, runs: t.Sequence[Ran]) -> result.Result:
    check = f"{job.asked['kind']}.complete"
    collectives, layout = job.asked["collectives"], job.asked["layout"]
    wanted = {(collective, node) for collective in collectives for node in job.nodes}
    if layout == "bisect":
        wanted = {(collectives[0], node) for node in job.nodes}
    had = {(run.collective, node) for run in runs for node in run.nodes}
    missing = sorted({f"{collective} on {node}" for collective, node in wanted - had})
    if missing:
        return result.failed(
            check,
            f"{len(missing)} of {len(wanted)} were never run: {', '.join(missing[:4])}",
            expected=len(wanted),
            found=len(wanted) - len(missing),
            hint="The job ended too early: give it more minutes, or see its output",
        )
    return result.passed(check, len(runs), message=f"{len(runs)} runs on {len(job.nodes)} nodes")


def nodes_that_stand_out(runs: t.Sequence[tuple[tuple[str, ...], str]]) -> list[result.Result]:
    """Which nodes fail, from runs (nodes, status of correctness and fabric) that overlap. Pure.

    A node is singled out when it fails alone, or when it fails with others, never succeeds with any, and each of those
    that it failed with has succeeded elsewhere. One failing pair alone accuses nobody.
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


# --- Nodes, containers, disks and the shared file system -------------------------------------------------------------


def judge_gpu_efa(job: Job, host: Host) -> list[result.Result]:
    """What each node says of its GPUs, EFA and the rest, under its name."""
    return io.node_reports(host, job.results, job.nodes, "node")


def judge_gds_io(job: Job, host: Host) -> list[result.Result]:
    """Which path to the GPUs is active on each mount of each node, and what gdsio measured beside it."""
    return io.node_reports(host, job.results, job.nodes, "gds")


def judge_container(job: Job, host: Host) -> list[result.Result]:
    """Tasks in containers where they belong, and what each container has, compared with its host."""
    tasks = judge_tasks("container", job, read_tasks(host, job.results))
    return tasks + io.node_reports(host, job.results, job.nodes, "container")


def judge_local_io(job: Job, host: Host) -> list[result.Result]:
    """fio on each place of each node, against the median of the nodes."""
    figures: dict[str, dict[str, float | str]] = {}
    for at, place in enumerate(job.asked["directories"]):
        for mode in io.MEASURES:
            figures[f"{place} {mode}"] = {
                node: io.fio_figure(host.read_text(posixpath.join(job.results, f"fio-{at}-{mode}-{node}.json")), mode)
                for node in job.nodes
            }
    return io.judge_fio(figures, float(job.asked["median_percent"]))


def judge_fsx_io(job: Job, host: Host) -> list[result.Result]:
    """IOR and mdtest on the shared file system, with what makes their figures worth something."""
    ran = host.read_json(posixpath.join(job.results, "ran.json"))
    if not isinstance(ran, dict) or not all(isinstance(ran.get(key), int) for key in _RAN):
        return [result.undeterminable("io.ior.write", "not_run", message="the job ended before IOR and mdtest did")]
    least = {"write": job.asked["least_write_mib"], "read": job.asked["least_read_mib"]}
    figures = io.ior_figures(host.read_text(posixpath.join(job.results, "ior.json")))
    rates = io.mdtest_figures(host.read_text(posixpath.join(job.results, "mdtest.out")))
    stripes = host.read_text(posixpath.join(job.results, "stripes.txt"))
    striped = (
        result.passed("io.stripes", stripes.strip()[:2000], message="see stripes.txt")
        if stripes and stripes.strip()
        else result.not_applicable("io.stripes", "no_lustre", message="lfs says nothing of the directory")
    )
    return [
        *io.judge_ior(figures, least, ran["ior"]),
        io.judge_cache(ran["size"], ran["memory"], len(job.nodes)),
        io.judge_mdtest(rates, ran["mdtest"]),
        striped,
    ]


_RAN = ("size", "memory", "ior", "mdtest")

JUDGES: dict[str, t.Callable[[Job, Host], list[result.Result]]] = {
    "node_smoke": judge_smoke,
    "nccl": judge_nccl,
    "nccom": judge_nccl,
    "gds_io": judge_gds_io,
    "gpu_efa": judge_gpu_efa,
    "container": judge_container,
    "local_io": judge_local_io,
    "fsx_io": judge_fsx_io,
}


def judge_job(job: Job, host: Host) -> list[result.Result]:
    """All verdicts on the job. Raises NodeError for files that are not what they should be."""
    return JUDGES[str(job.asked["kind"])](job, host)
