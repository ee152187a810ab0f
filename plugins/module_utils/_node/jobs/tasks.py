# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the places of a job's tasks, from the files that they wrote."""

from __future__ import annotations

import collections
import posixpath
import typing as t

from ..health.container import is_root
from ..system.host import Host
from ..verdict import result
from .job import Job

TASK_PREFIX = "task-"


def read_tasks(host: Host, results: str) -> list[dict[str, t.Any]]:
    """Return the content of the tasks' files as dictionaries; an incomplete file does not count as a task."""
    found = []
    for name in sorted(host.listdir(results)):
        if name.startswith(TASK_PREFIX) and name.endswith(".json"):
            entry = host.read_json(posixpath.join(results, name))
            if isinstance(entry, dict):
                found.append(entry)
    return found


def judge_tasks(prefix: str, job: Job, tasks: t.Sequence[t.Mapping[str, t.Any]]) -> list[result.Result]:
    """Return the results PREFIX.tasks, PREFIX.placement, PREFIX.hosts and PREFIX.gpus. Pure."""
    by_rank = {entry.get("rank"): entry for entry in tasks}
    wanted = len(job.nodes) * job.tasks
    # Counted from the files that exist, since the expected number is in a script that users may change.
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
                hint="Check slurmd on those nodes, and whether they have the shared directory mounted",
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
    # Frameworks rely on ranks 0 to 7 on the first node, and 8 to 15 on the second.
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
    unnamed = [entry for entry in by_rank.values() if not isinstance(entry.get("host"), str) or not entry["host"]]
    if unnamed:
        message = f"{len(unnamed)} tasks did not write the name of their host"
        return result.undeterminable(f"{prefix}.hosts", "no_host", message=message)
    if len(names) != len(job.nodes):
        return result.failed(
            f"{prefix}.hosts",
            f"{len(job.nodes)} nodes were requested, and the tasks ran on {len(names)}: {', '.join(sorted(names))}",
            expected=len(job.nodes),
            found=sorted(names),
            hint="Give each node its own host name",
        )
    return result.passed(f"{prefix}.hosts", sorted(names), message=f"{len(names)} hosts with names of their own")


def _gpus(prefix: str, job: Job, by_rank: t.Mapping[t.Any, t.Mapping[str, t.Any]]) -> result.Result:
    wanted = int(job.asked.get("gpus_per_node") or 0)
    if not wanted:
        return result.not_applicable(f"{prefix}.gpus", "no_gpus", message="the job requested no GPUs")
    numbers = {rank: _different(entry.get("gpus")) for rank, entry in by_rank.items()}
    short = {str(entry.get("node")): numbers[rank] for rank, entry in by_rank.items() if numbers[rank] != wanted}
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


def _different(gpus: object) -> int:
    """Return the number of different GPUs that a task recorded."""
    return len({name for name in gpus if isinstance(name, str) and name}) if isinstance(gpus, list) else 0


def judge_task_roots(tasks: t.Sequence[t.Mapping[str, t.Any]], roots: t.Mapping[str, t.Any]) -> result.Result:
    """Return container.task_root: whether each task had another root directory than its host. Pure.

    ``roots`` maps each node to its mount at /.
    """
    check = "container.task_root"
    unknown = [task for task in tasks if not (is_root(task.get("root")) and is_root(roots.get(str(task.get("node")))))]
    known = [task for task in tasks if task not in unknown]
    bare = sorted({str(task["node"]) for task in known if task["root"] == roots[str(task["node"])]})
    if bare:
        return result.failed(
            check,
            f"tasks on {', '.join(bare)} ran outside of their containers: their root directory is the host's",
            severity="reset",
            found=bare,
            hint="check that Pyxis is loaded: srun --help | grep container-image",
        )
    if unknown or not tasks:
        where = ", ".join(sorted({str(task.get("node")) for task in unknown})) or "every node"
        return result.undeterminable(
            check, "no_root", message=f"the mount at / was not recorded on {where}, by a task or by the host"
        )
    return result.passed(check, len(tasks), message=f"{len(tasks)} tasks had a root directory of their own")
