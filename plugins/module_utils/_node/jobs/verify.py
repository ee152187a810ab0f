# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on a validation job, from its directory of results.

The script only runs programs and stores their output; the ``judge`` of its kind makes the verdict.
"""

from __future__ import annotations

import platform
import posixpath
import typing as t

from ..system.host import Host, NodeError
from ..verdict import result
from .job import Job
from .kinds import JOB_KINDS
from .spec import loads

REPORT = "report.json"


def parse_asked(text: str) -> dict[str, t.Any]:
    """Parse the JSON that a script passes. Raises NodeError if it is invalid."""
    judged = [name for name, kind in JOB_KINDS.items() if kind.judge]
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("kind") not in judged or not isinstance(found.get("name"), str):
        raise NodeError(f"--asked must be a JSON object with a name and a kind of {', '.join(judged)}: got {text[:80]}")
    tasks = found.get("tasks_per_node")
    if not isinstance(tasks, int) or isinstance(tasks, bool) or tasks < 1:
        raise NodeError("--asked needs tasks_per_node, an integer: render the script again with the role slurm_jobs")
    return found


def judge_job(job: Job, host: Host) -> list[result.Result]:
    """Return all verdicts on the job. Raises NodeError for invalid files."""
    judge = JOB_KINDS[str(job.asked["kind"])].judge
    if judge is None:
        raise NodeError(f"jobs of the kind {job.asked['kind']} have no verdict: use their exit status")
    return judge(job, host)


def write_report(host: Host, directory: str, results: t.Sequence[result.Result], version: str) -> result.Report:
    """Write the results as report.json into the directory of a job and return the report. Raises OSError."""
    report = result.Report(platform.node() or "unknown", host.now(), {"mlcluster.aws": version}, tuple(results))
    host.write_text(posixpath.join(directory, REPORT), result.dumps(report) + "\n")
    return report
