# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Step times recorded by training processes, for the metrics of their node.

A training job names the file in ``MLCLUSTER_STEP_FILE``; each process adds its number on the node:

    /dev/shm/mlcluster-steps.4711.0   "120 96.5 31.25": steps so far, their seconds, and the seconds of them
                                      without waiting for other processes (its data and its forward pass)

The last number may be missing. Users write here, so only a plain file of the job's own user is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import typing as t

from ..system.host import Host
from .job_labels import Job

DIRECTORY = "/dev/shm"  # noqa: S108 only files of the job's user are read there
# No node has more GPUs, and each is three series.
MAX_PROCESSES = 16
MAX_CHARACTERS = 100
_TEXT = re.compile(r"(\d{1,15}) (\d{1,12}(?:\.\d{1,9})?)(?: (\d{1,12}(?:\.\d{1,9})?))?\s*", re.ASCII)


@dataclasses.dataclass(frozen=True)
class StepTimes:
    """The steps of one process of a job so far and their seconds; ``own`` is None if it was not written."""

    job_id: int
    process: int
    steps: int
    seconds: float
    own: float | None = None


def base_path(job: object, directory: str = DIRECTORY) -> str:
    """Return the value of ``MLCLUSTER_STEP_FILE`` for a job, by its number."""
    return f"{directory}/mlcluster-steps.{job}"


def parse(text: str) -> tuple[int, float, float | None] | None:
    """Return steps, seconds and own seconds in the text of a file; None for any other text."""
    found = _TEXT.fullmatch(text)
    if not found:
        return None
    return int(found[1]), float(found[2]), float(found[3]) if found[3] else None


def read(host: Host, jobs: t.Sequence[Job], directory: str = DIRECTORY) -> list[StepTimes]:
    """Return the step times of the jobs, by job and process; other files are skipped."""
    found = []
    for job in jobs:
        uid = host.uid(job.user)
        for process in range(MAX_PROCESSES if uid is not None else 0):
            path = f"{base_path(job.job_id, directory)}.{process}"
            parsed = parse(host.read_owned(path, uid, MAX_CHARACTERS) or "")
            if parsed:
                found.append(StepTimes(job.job_id, process, *parsed))
    return found


def remove(host: Host, job_id: int, directory: str = DIRECTORY) -> None:
    """Remove the files of a job that has ended; one that remains is small, and its job is no longer shown."""
    with contextlib.suppress(OSError):
        for process in range(MAX_PROCESSES):
            host.remove(f"{base_path(job_id, directory)}.{process}")
