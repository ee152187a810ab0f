# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Empties the trash of the jobs' directories: trees of any depth and size, made by somebody who may wish us ill.

Every step is relative to an open descriptor and follows no link. A directory that is not empty is moved up into the
trash instead of being entered, so the depth of a tree costs nothing, and nobody can move it elsewhere meanwhile.
Nothing is ever written, opened or given another owner or mode: a hard link loses one of its names, and that is all.
What is mounted inside is refused by the kernel (EBUSY) and stays.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import secrets
import typing as t

# A directory that fills while it is emptied, by a process that outlived its job, is given up for this time.
PASSES = 3
MAX_PROBLEMS = 5
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclasses.dataclass
class Emptied:
    """How many names were removed, whether none is left, and the first few problems in words."""

    removed: int = 0
    complete: bool = False
    problems: list[str] = dataclasses.field(default_factory=list)

    def problem(self, name: str, exc: OSError) -> None:
        """Remember why a name stays."""
        if len(self.problems) < MAX_PROBLEMS:
            why = "something is mounted on it" if exc.errno == errno.EBUSY else exc.strerror
            self.problems.append(f"{name!r} stays in the trash: {why}")


def empty(trash: int, deadline: float, clock: t.Callable[[], float]) -> Emptied:
    """Remove everything in the directory that trash is a descriptor of, until the clock says deadline."""
    told = Emptied()
    waiting = os.listdir(trash)
    stays = 0
    while waiting:
        if clock() >= deadline:
            return told
        name = waiting.pop()
        try:
            stays += not _remove(trash, name, waiting, told, deadline, clock)
        except FileNotFoundError:
            # Another epilog was at the same name: it is gone, and that was the aim.
            continue
        except OSError as exc:
            told.problem(name, exc)
            stays += 1
    told.complete = not stays
    return told


def _remove(
    trash: int, name: str, waiting: list[str], told: Emptied, deadline: float, clock: t.Callable[[], float]
) -> bool:
    """Remove one name of the trash; what is moved up out of it is added to waiting. Whether it is gone."""
    problem: OSError | None = None
    for _pass in range(PASSES):
        try:
            handle = os.open(name, _OPEN, dir_fd=trash)
        except OSError as exc:
            if exc.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            os.unlink(name, dir_fd=trash)
            told.removed += 1
            return True
        try:
            problem = _clear(handle, trash, waiting, told, deadline, clock)
        finally:
            os.close(handle)
        if clock() >= deadline:
            return False
        try:
            os.rmdir(name, dir_fd=trash)
            told.removed += 1
            return True
        except OSError as exc:
            if exc.errno != errno.ENOTEMPTY:
                raise
            problem = problem or exc
    told.problem(name, t.cast(OSError, problem))
    return False


def _clear(
    handle: int, trash: int, waiting: list[str], told: Emptied, deadline: float, clock: t.Callable[[], float]
) -> OSError | None:
    """One pass over a directory. Returns the first problem that kept a name in it."""
    problem: OSError | None = None
    with os.scandir(handle) as entries:
        for entry in entries:
            if clock() >= deadline:
                break
            try:
                if entry.is_dir(follow_symlinks=False):
                    _take_directory(handle, entry.name, trash, waiting, told)
                else:
                    os.unlink(entry.name, dir_fd=handle)
                    told.removed += 1
            except FileNotFoundError:
                continue
            except OSError as exc:
                problem = problem or exc
    return problem


def _take_directory(handle: int, name: str, trash: int, waiting: list[str], told: Emptied) -> None:
    try:
        os.rmdir(name, dir_fd=handle)
        told.removed += 1
    except OSError as exc:
        if exc.errno != errno.ENOTEMPTY:
            raise
        above = secrets.token_hex(8)
        os.rename(name, above, src_dir_fd=handle, dst_dir_fd=trash)
        waiting.append(above)
