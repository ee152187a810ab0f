# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of a job, out of the several places that may know it. Pure."""

from __future__ import annotations

import re
import typing as t

# squeue's manual page, "JOB STATE CODES": those that a job does not leave by itself.
ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT LOST".split()
)
# "JOB REASON CODES": a pending job with one of these never starts unless a person does something.
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
# Worst first, so that an array is called by the worst of its tasks.
_ORDER = ("LOST", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "DEADLINE", "FAILED", "PREEMPTED", "REVOKED",
          "CANCELLED", "COMPLETED")  # fmt: skip


def ended(job: t.Mapping[str, t.Any]) -> bool:
    """Whether the job, or the array task, is over."""
    return job["state"] in ENDED


def stuck(job: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Why a waiting job will never start; None where it may."""
    return NEVER_STARTS.get(job["reason"] or "") if job["state"] == "PENDING" else None


def settled(jobs: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    """Whether there is nothing to wait for: every part is over, or what is left never starts."""
    return bool(jobs) and all(ended(job) or stuck(job) for job in jobs)


def from_exit_file(job_id: int, text: t.Optional[str]) -> t.Optional[dict[str, t.Any]]:
    """The job by the exit status that it wrote itself; None where there is no such number."""
    found = re.fullmatch(r"\s*(\d{1,3})\s*", text or "")
    if not found:
        return None
    code = int(found.group(1))
    return {
        **blank(job_id),
        "state": "COMPLETED" if code == 0 else "FAILED",
        # A shell reports a program that a signal ended as 128 and its number.
        "exit_code": code,
        "signal": code - 128 if 128 < code < 193 else 0,
    }


def blank(job_id: int) -> dict[str, t.Any]:
    """A job of which nothing is known but its number."""
    return {
        "job_id": job_id,
        "array_job_id": None,
        "array_task_id": None,
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
    """The newer look, with what only the older one knew (paths of the output, restarts)."""
    result = dict(new)
    for key, value in (seen or {}).items():
        if key not in ("state", "reason", "exit_code", "signal") and not result.get(key):
            result[key] = value
    return result


def summary(jobs: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """One result for a job or for an array: of an array the worst state and, among those, the largest exit status.

    Shape: job_id, state, exit_code, signal, reason, nodes, elapsed_seconds, restarts, ok.
    """
    first = min(jobs, key=lambda job: (_rank(job["state"]), -(job["exit_code"] or 0), job["job_id"] or 0))
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
        "ok": all(job["state"] == "COMPLETED" and job["exit_code"] == 0 for job in jobs),
    }


def _rank(state: str) -> int:
    # What still runs or waits comes before all that ended: the array as a whole is not over.
    return _ORDER.index(state) if state in _ORDER else -1


def sentence(result: t.Mapping[str, t.Any], tail: str = "") -> str:
    """Why the job is not a success, in one sentence, with the last line that it wrote."""
    who = f"job {result['job_id']}"
    if result["state"] == "LOST":
        return (
            f"looked for {who} and neither the controller, nor the accounting, nor an exit file knows how it ended: "
            "raise MinJobAge, turn accounting on, or let the script write its exit status to exit_file"
        )
    if stuck(result):
        return f"{who} never starts ({result['reason']}): {stuck(result)}; cancel it, or mend that and release it"
    how = f"ended {result['state']}"
    if result["signal"]:
        how += f" by signal {result['signal']}"
    elif result["exit_code"]:
        how += f" with exit status {result['exit_code']}"
    where = f" on {result['nodes']}" if result["nodes"] else ""
    why = f" ({result['reason']})" if result["reason"] and result["reason"] != "NonZeroExitCode" else ""
    last = tail.strip().splitlines()[-1:] if tail else []
    return f"{who} {how}{where}{why}" + (f"; it last wrote: {last[0][:300]}" if last else "; it wrote nothing")
