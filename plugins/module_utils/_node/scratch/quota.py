# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disk usage of the running jobs' directories on the local volume, against the limit of each.

Usage is measured, not enforced by the kernel: project quotas need a mount option that the volume may not have. A job
above its limit gets a message on its error output, and is cancelled if that is configured.
"""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ..slurm.client import Slurm
from ..system.host import Host, NodeError
from ..verdict.result import Result, Scope, failed, not_applicable, passed, undeterminable
from .directories import OWN, JobDirectory, opened_base

CHECK = "scratch.quota"
# Unit of st_blocks, independent of the filesystem's block size (stat(2)).
BLOCK = 512
# Names between two reads of the clock.
STRIDE = 256


@dataclasses.dataclass(frozen=True)
class Usage:
    """Bytes of a job's directory on its filesystem; problem: why the size is incomplete, None if it is complete."""

    size: int
    problem: str | None = None


def usage(base: str, job: JobDirectory, deadline: float, clock: t.Callable[[], float]) -> Usage:
    """Measure the directory of a job until the deadline. A file with several names counts once.

    Links are not followed, and filesystems mounted inside do not count.
    """
    with opened_base(base) as handle:
        try:
            return _walk(handle, job, deadline, clock)
        except FileNotFoundError:
            # The job has ended meanwhile, and its directory is removed.
            return Usage(0)
        except (OSError, RecursionError) as exc:
            return Usage(0, f"its directory cannot be read: {getattr(exc, 'strerror', None) or 'it is too deep'}")


def _walk(handle: int, job: JobDirectory, deadline: float, clock: t.Callable[[], float]) -> Usage:
    total, names = 0, 0
    linked_inodes: set[int] = set()
    volume = os.fstat(handle).st_dev
    top = f"{job.name}/{OWN}"
    for _path, folders, files, inner in os.fwalk(top, dir_fd=handle, follow_symlinks=False, onerror=_raise):
        for name in [*folders, *files]:
            names += 1
            if names % STRIDE == 0 and clock() >= deadline:
                return Usage(total, f"only {names} names were counted within the time limit")
            info = _info(name, inner)
            if info is None or info.st_dev != volume:
                # Mounted filesystems are not entered.
                folders[:] = [folder for folder in folders if folder != name]
            elif info.st_ino not in linked_inodes:
                total += info.st_blocks * BLOCK
                linked_inodes |= {info.st_ino} if info.st_nlink > 1 else set()
    return Usage(total)


def _raise(exc: OSError) -> None:
    # A running job may remove a directory at any time.
    if not isinstance(exc, FileNotFoundError):
        raise exc


def _info(name: str, handle: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return None


def verify(
    host: Host,
    slurm: Slurm,
    base: str,
    jobs: t.Sequence[JobDirectory],
    maximum: int,
    cancel: bool,
    seconds: float,
) -> list[Result]:
    """Return a verdict for each job above ``maximum`` bytes or not measured; if there is none, one pass."""
    if not jobs:
        return [not_applicable(CHECK, "no job has a directory here", scope=Scope(device=base))]
    deadline = host.monotonic() + seconds
    results, largest = [], 0
    for job in jobs:
        used = usage(base, job, deadline, host.monotonic)
        scope = Scope(device=f"{base}/{job.name}")
        fields: dict[str, t.Any] = {"expected": maximum, "found": used.size, "unit": "B", "scope": scope}
        largest = max(largest, used.size)
        if used.size > maximum:
            message = f"job {job.job_id} holds {used.size >> 20} MiB of the local disk and may hold {maximum >> 20}"
            results.append(failed(CHECK, f"{message}; {_notify(slurm, job.job_id, message, cancel)}", **fields))
        elif used.problem:
            results.append(undeterminable(CHECK, f"job {job.job_id}: {used.problem}", **fields))
    return results or [passed(CHECK, largest, expected=maximum, unit="B", scope=Scope(device=base))]


def _notify(slurm: Slurm, job_id: int, message: str, cancel: bool) -> str:
    """Notify the job and, if cancel is set, cancel it; return what was done."""
    try:
        slurm.ask("scontrol", "notify", str(job_id), message)
        if cancel:
            slurm.ask("scancel", str(job_id))
    except NodeError as exc:
        return str(exc)
    return "it was notified and cancelled" if cancel else "it was notified"
