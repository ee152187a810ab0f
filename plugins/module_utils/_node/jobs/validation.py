# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The combined verdict on several validation jobs, from Slurm's states and the jobs' own reports. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from ..verdict import result

SCHEMA = "mlcluster.validation/1"
MARK = "mlcluster:"
WORDS = {result.PASS: "PASS", result.FAIL: "FAIL", result.UNDETERMINABLE: "????", result.NOT_APPLICABLE: "n/a"}
# Allowed difference between the clocks of two nodes, far more than Amazon's time service allows.
_SKEW = datetime.timedelta(minutes=10)
_COLUMNS = ("job", "id", "nodes", "state", "seconds", "verdict")


def collect(
    runs: Sequence[Mapping[str, Any]], cluster: str = "", time: str = "", nodes: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the combined verdict on all runs.

    ``cluster``, ``time`` (ISO 8601) and ``nodes`` identify the validation. Without them a report could not distinguish
    it from an old one or one of another cluster, and rejects it.

    Each of ``runs`` has ``name``, ``job`` (as ``slurm_job`` returns it, None if it was not submitted), ``report``
    (the text of report.json, None if it is missing), ``message`` (the error of ``slurm_job``) and ``since``
    (ISO 8601: when it was submitted, None if unknown; an older report is of another job).
    Returns status, exit_code, jobs, lines (a table), problems, and bad_nodes (node to reason).
    """
    jobs = [_judge({"until": time or None, **run}) for run in runs]
    every = [entry for job in jobs for entry in job["results"]]
    status = result.overall(every)
    bad: dict[str, str] = {}
    for entry in every:
        if entry.status == result.FAIL and entry.severity == "isolate" and entry.scope.node:
            bad.setdefault(entry.scope.node, f"{MARK} {entry.id}: {entry.message}")
    return {
        "schema": SCHEMA,
        "cluster": cluster,
        "time": time,
        "nodes": list(nodes),
        "status": status,
        "exit_code": result.exit_code(every),
        "jobs": [{**job, "results": [entry.to_dict() for entry in job["results"]]} for job in jobs],
        "lines": table(jobs),
        "problems": [
            f"{job['name']}: {entry.line()}"
            for job in jobs
            for entry in job["results"]
            if entry.status in (result.FAIL, result.UNDETERMINABLE)
        ],
        "bad_nodes": bad,
    }


def _judge(run: Mapping[str, Any]) -> dict[str, Any]:
    job = run.get("job") or {}
    results = _results(run, job)
    if results and all(entry.status == result.NOT_APPLICABLE for entry in results):
        text = "no verdict of this job is a pass: nothing was proved"
        results = [*results, result.undeterminable("job.end", "no_pass", message=text)]
    return {
        "name": run["name"],
        "job_id": job.get("job_id"),
        "state": job.get("state") or "NOT SUBMITTED",
        "nodes": job.get("nodes"),
        "seconds": job.get("elapsed_seconds"),
        "status": result.overall(results),
        "results": results,
    }


def _results(run: Mapping[str, Any], job: Mapping[str, Any]) -> list[result.Result]:
    """Return the report's results, and job.end if Slurm and the report disagree or the report is missing."""
    name, message = run["name"], run.get("message")
    if not job:
        return [result.undeterminable("job.end", "not_submitted", message=message or f"{name} was not submitted")]
    state, code = job.get("state"), job.get("exit_code")
    ending = f"job {job.get('job_id')} is {state} with exit status {code}"
    ending += f" by signal {job['signal']}" if job.get("signal") else ""
    if state not in ("COMPLETED", "FAILED"):
        # Also with a report: the cause of the end may have ended the tested programs. The report of a job that never
        # had a node is of an earlier job with its number.
        own = [] if state == "CANCELLED" and not job.get("nodes") else _report(run)[0]
        broken = result.failed("job.end", message or ending, severity="monitor", expected="COMPLETED", found=state)
        if state in ("PENDING", "RUNNING", "LOST", "CANCELLED", "UNKNOWN"):
            broken = result.undeterminable("job.end", "not_ended", message=message or ending)
        return [broken, *own]
    own, problem = _report(run)
    if problem:
        last = (job.get("stderr_tail") or job.get("stdout_tail") or "").strip().splitlines()[-1:]
        why = f"{ending} and left {problem}" + (f"; it last wrote: {last[0][:300]}" if last else "")
        if code in (result.EXIT_OK, result.EXIT_UNDETERMINABLE, result.EXIT_USAGE):
            return [result.undeterminable("job.end", "no_report", message=why)]
        return [result.failed("job.end", why, severity="monitor", expected=0, found=code)]
    # A batch script that a signal ended has status 0 too.
    if code != result.exit_code(own) or (state == "COMPLETED") != (code == result.EXIT_OK) or job.get("signal"):
        return [
            *own,
            result.undeterminable(
                "job.end",
                "contradiction",
                message=f"{ending}, and its report has {result.exit_code(own)}: one of them is wrong",
            ),
        ]
    return own


def _report(run: Mapping[str, Any]) -> tuple[list[result.Result], str | None]:
    text = run.get("report")
    if not text:
        return [], "no report"
    try:
        found = result.loads(text)
    except result.ResultError as exc:
        return [], f"a report that cannot be read ({exc})"
    if not isinstance(found, result.Report) or not found.results:
        return [], "a report without results"
    if run.get("since") is not None:
        written, since = result.moment(found.time), result.moment(run["since"])
        if written is None or since is None or written < since - _SKEW:
            return [], f"a report of {found.time}, from before it was submitted ({run['since']})"
    written, until = result.moment(found.time), result.moment(run.get("until"))
    if until is not None and (written is None or written > until + _SKEW):
        return [], f"a report of {found.time}, dated in the future ({run['until']} is now)"
    return list(found.results), None


def table(jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table: a line of headings, then a line for each job."""
    rows = [_COLUMNS] + [
        (
            str(job["name"]),
            str(job["job_id"] or "-"),
            str(job["nodes"] or "-"),
            str(job["state"]),
            "-" if job["seconds"] is None else str(job["seconds"]),
            WORDS[job["status"]],
        )
        for job in jobs
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
