# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much of the local volume the directories of running jobs hold, against the most that each may.

It is measured, not enforced by the kernel: project quotas need a mount option that the volume of the node may not have.
A job that holds too much is told on its error output, and cancelled where that is wanted.
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
# What st_blocks counts in, whatever the filesystem's own blocks are (stat(2)).
BLOCK = 512
# How often the clock is asked, in names.
STRIDE = 256


@dataclasses.dataclass(frozen=True)
class Held:
    """Bytes that a job's directory takes on its filesystem; problem says why that is only a part, None if whole."""

    size: int
    problem: str | None = None


def held(base: str, job: JobDirectory, deadline: float, clock: t.Callable[[], float]) -> Held:
    """Measure the directory of a job until the clock says deadline. A file with several names counts once.

    No link is followed, and what is mounted inside does not count.
    """
    with opened_base(base) as handle:
        try:
            return _walk(handle, job, deadline, clock)
        except FileNotFoundError:
            # The job ended meanwhile, and its directory with it.
            return Held(0)
        except (OSError, RecursionError) as exc:
            return Held(0, f"its directory cannot be read: {getattr(exc, 'strerror', None) or 'it is too deep'}")


def _walk(handle: int, job: JobDirectory, deadline: float, clock: t.Callable[[], float]) -> Held:
    total, names = 0, 0
    several: set[int] = set()
    volume = os.fstat(handle).st_dev
    top = f"{job.name}/{OWN}"
    for _path, folders, files, inner in os.fwalk(top, dir_fd=handle, follow_symlinks=False, onerror=_raise):
        for name in [*folders, *files]:
            names += 1
            if names % STRIDE == 0 and clock() >= deadline:
                return Held(total, f"{names} names were counted when the time was over")
            info = _info(name, inner)
            if info is None or info.st_dev != volume:
                # What is mounted here is not entered either.
                folders[:] = [folder for folder in folders if folder != name]
            elif info.st_ino not in several:
                total += info.st_blocks * BLOCK
                several |= {info.st_ino} if info.st_nlink > 1 else set()
    return Held(total)


def _raise(exc: OSError) -> None:
    # A directory of a running job may go at any time.
    if not isinstance(exc, FileNotFoundError):
        raise exc


def _info(name: str, handle: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return None


def judge(
    host: Host,
    slurm: Slurm,
    base: str,
    jobs: t.Sequence[JobDirectory],
    most: int,
    cancel: bool,
    seconds: float,
) -> list[Result]:
    """A verdict for each running job that holds more than most bytes or cannot be measured, else one pass."""
    if not jobs:
        return [not_applicable(CHECK, "no job has a directory here", scope=Scope(device=base))]
    deadline = host.monotonic() + seconds
    results, largest = [], 0
    for job in jobs:
        found = held(base, job, deadline, host.monotonic)
        scope = Scope(device=f"{base}/{job.name}")
        fields: dict[str, t.Any] = {"expected": most, "found": found.size, "unit": "B", "scope": scope}
        largest = max(largest, found.size)
        if found.size > most:
            told = f"job {job.job_id} holds {found.size >> 20} MiB of the local disk and may hold {most >> 20}"
            results.append(failed(CHECK, f"{told}; {_tell(slurm, job.job_id, told, cancel)}", **fields))
        elif found.problem:
            results.append(undeterminable(CHECK, f"job {job.job_id}: {found.problem}", **fields))
    return results or [passed(CHECK, largest, expected=most, unit="B", scope=Scope(device=base))]


def _tell(slurm: Slurm, job_id: int, what: str, cancel: bool) -> str:
    """Tell the job and, if so wanted, cancel it; says what was done."""
    try:
        slurm.ask("scontrol", "notify", str(job_id), what)
        if cancel:
            slurm.ask("scancel", str(job_id))
    except NodeError as exc:
        return str(exc)
    return "it was told and cancelled" if cancel else "it was told"
