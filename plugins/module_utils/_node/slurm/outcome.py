# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outcome of a job, from the several places that may know it. Pure."""

from __future__ import annotations

import re
import typing as t

# Final states of a job (squeue's manual page, "JOB STATE CODES").
ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT LOST".split()
)
# Reasons with which a pending job never starts unless a person acts ("JOB REASON CODES").
NEVER_STARTS = {
    "DependencyNeverSatisfied": "a job that it depends on did not end as it should",
    "BadConstraints": "no set of nodes can satisfy its constraints",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its quality of service is not valid",
    "PartitionTimeLimit": "its time limit is above that of the partition",
    "JobHeldAdmin": "it is held by an administrator, or by Slurm after a failed launch",
    "JobHeldUser": "it is held by its user",
    "launch_failed_requeued_held": "its launch failed and Slurm holds it",
    "launch failed requeued held": "its launch failed and Slurm holds it",
}
# Worst first: the worst task determines the state of an array.
_ORDER = ("LOST", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "DEADLINE", "FAILED", "PREEMPTED", "REVOKED",
          "CANCELLED", "COMPLETED")  # fmt: skip


def ended(job: t.Mapping[str, t.Any]) -> bool:
    """Return whether the job, or the array task, has ended."""
    return job["state"] in ENDED


def never_starts_reason(job: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Return why a waiting job will never start; None if it may."""
    return NEVER_STARTS.get(job["reason"] or "") if job["state"] == "PENDING" else None


def settled(jobs: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    """Return whether there is nothing to wait for: every part has ended or will never start."""
    return bool(jobs) and all(ended(job) or never_starts_reason(job) for job in jobs)


def from_exit_file(job_id: int, text: t.Optional[str]) -> t.Optional[dict[str, t.Any]]:
    """Return the job by the exit status that it wrote; None if the file has no such number."""
    found = re.fullmatch(r"\s*(\d{1,3})\s*", text or "")
    if not found:
        return None
    code = int(found.group(1))
    return {
        **blank(job_id),
        "state": "COMPLETED" if code == 0 else "FAILED",
        # A shell reports a program ended by a signal as 128 plus its number.
        "exit_code": code,
        "signal": code - 128 if 128 < code < 193 else 0,
    }


def blank(job_id: int) -> dict[str, t.Any]:
    """Return a job of which only the number is known, with all keys of ``parse.jobs``."""
    return {
        "job_id": job_id,
        "array_job_id": None,
        "array_task_id": None,
        "het_job_id": None,
        "name": None,
        "state": "LOST",
        "reason": None,
        "exit_code": None,
        "signal": 0,
        "partition": None,
        "nodes": None,
        "elapsed_seconds": None,
        "restarts": 0,
        "stdout": None,
        "stderr": None,
    }


def merged(new: t.Mapping[str, t.Any], seen: t.Optional[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return the newer look, completed with values of the older one (paths of the output, restarts)."""
    result = dict(new)
    for key, value in (seen or {}).items():
        if key not in ("state", "reason", "exit_code", "signal") and not result.get(key):
            result[key] = value
    return result


def whole(jobs: t.Sequence[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the jobs with the components of each heterogeneous job as one, on the nodes of all.

    It has the state of a component that never starts, since no other starts without it, else that of the worst.
    """
    found: list[dict[str, t.Any]] = []
    for job in jobs:
        parts = [one for one in jobs if one["het_job_id"] and one["het_job_id"] == job["het_job_id"]]
        if parts and job is not parts[0]:
            continue
        nodes = [one["nodes"] for one in parts if one["nodes"]]
        worst = next(filter(never_starts_reason, parts), None) or _worst(parts or [job])
        found.append({**worst, "job_id": job["het_job_id"], "nodes": ",".join(nodes) or None} if parts else dict(job))
    return found


def _worst(jobs: t.Sequence[t.Mapping[str, t.Any]]) -> t.Mapping[str, t.Any]:
    return min(jobs, key=lambda job: (_rank(job["state"]), -(job["exit_code"] or 0), job["job_id"] or 0))


def summary(jobs: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return one result for a job or an array: the worst state and, among those, the largest exit status.

    Keys: job_id, state, exit_code, signal, reason, nodes, elapsed_seconds, restarts, ok.
    """
    first = _worst(jobs)
    nodes = sorted({job["nodes"] for job in jobs if job["nodes"]})
    elapsed = [job["elapsed_seconds"] for job in jobs if job["elapsed_seconds"] is not None]
    return {
        "job_id": first["array_job_id"] or first["job_id"],
        "state": first["state"],
        "exit_code": first["exit_code"],
        "signal": first["signal"],
        "reason": first["reason"],
        "nodes": ",".join(nodes) or None,
        "elapsed_seconds": max(elapsed) if elapsed else None,
        "restarts": max(job["restarts"] for job in jobs),
        "ok": all(job["state"] == "COMPLETED" and job["exit_code"] == 0 and not job["signal"] for job in jobs),
    }


def _rank(state: str) -> int:
    # Running and waiting tasks come first: the array as a whole has not ended.
    return _ORDER.index(state) if state in _ORDER else -1


def sentence(result: t.Mapping[str, t.Any], tail: str = "") -> str:
    """Return why the job did not succeed, in one sentence, with the last line that it wrote."""
    who = f"job {result['job_id']}"
    if result["state"] == "LOST":
        return (
            f"looked for {who} and neither the controller, nor the accounting, nor an exit file knows how it ended: "
            "raise MinJobAge, turn accounting on, or let the script write its exit status to exit_file"
        )
    never = never_starts_reason(result)
    if never:
        return f"{who} never starts ({result['reason']}): {never}; cancel it, or fix that and release it"
    how = f"ended {result['state']}"
    if result["signal"]:
        how += f" by signal {result['signal']}"
    elif result["exit_code"]:
        how += f" with exit status {result['exit_code']}"
    where = f" on {result['nodes']}" if result["nodes"] else ""
    why = f" ({result['reason']})" if result["reason"] and result["reason"] != "NonZeroExitCode" else ""
    last = tail.strip().splitlines()[-1:] if tail else []
    return f"{who} {how}{where}{why}" + (f"; it last wrote: {last[0][:300]}" if last else "; it wrote nothing")
