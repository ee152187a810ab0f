# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Empty the trash of the jobs' directories: trees of any depth and size, made by users who may be hostile.

Every step is relative to an open descriptor and follows no link. A directory that is not empty is moved up into the
trash instead of being entered, so the depth of a tree does not matter, and no user can move it elsewhere meanwhile.
Files are never written or opened, and owners and modes never change: a hard link only loses one of its names.
The kernel rejects the removal of mount points inside (EBUSY), so they stay.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import secrets
import typing as t

# Passes over a directory that a process, which outlived its job, fills meanwhile; then it is skipped in this run.
PASSES = 3
MAX_PROBLEMS = 5
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclasses.dataclass
class TrashResult:
    """The number of removed names, whether none is left, and the first few problems."""

    removed: int = 0
    complete: bool = False
    problems: list[str] = dataclasses.field(default_factory=list)

    def problem(self, name: str, exc: OSError) -> None:
        """Record why a name stays."""
        if len(self.problems) < MAX_PROBLEMS:
            why = "something is mounted on it" if exc.errno == errno.EBUSY else exc.strerror
            self.problems.append(f"{name!r} stays in the trash: {why}")


def empty(trash: int, deadline: float, clock: t.Callable[[], float]) -> TrashResult:
    """Remove everything in the directory of the descriptor trash, until the deadline."""
    result = TrashResult()
    waiting = os.listdir(trash)
    stays = 0
    while waiting:
        if clock() >= deadline:
            return result
        name = waiting.pop()
        try:
            stays += not _remove(trash, name, waiting, result, deadline, clock)
        except FileNotFoundError:
            # Another epilog has removed the same name.
            continue
        except OSError as exc:
            result.problem(name, exc)
            stays += 1
    result.complete = not stays
    return result


def _remove(
    trash: int, name: str, waiting: list[str], result: TrashResult, deadline: float, clock: t.Callable[[], float]
) -> bool:
    """Remove one name of the trash and return whether it is gone; directories moved up from it are added to waiting."""
    problem: OSError | None = None
    for _pass in range(PASSES):
        try:
            handle = os.open(name, _OPEN, dir_fd=trash)
        except OSError as exc:
            if exc.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            os.unlink(name, dir_fd=trash)
            result.removed += 1
            return True
        try:
            problem = _clear(handle, trash, waiting, result, deadline, clock)
        finally:
            os.close(handle)
        if clock() >= deadline:
            return False
        try:
            os.rmdir(name, dir_fd=trash)
            result.removed += 1
            return True
        except OSError as exc:
            if exc.errno != errno.ENOTEMPTY:
                raise
            problem = problem or exc
    result.problem(name, t.cast(OSError, problem))
    return False


def _clear(
    handle: int, trash: int, waiting: list[str], result: TrashResult, deadline: float, clock: t.Callable[[], float]
) -> OSError | None:
    """Make one pass over a directory. Return the first problem that kept a name in it."""
    problem: OSError | None = None
    with os.scandir(handle) as entries:
        for entry in entries:
            if clock() >= deadline:
                break
            try:
                if entry.is_dir(follow_symlinks=False):
                    _take_directory(handle, entry.name, trash, waiting, result)
                else:
                    os.unlink(entry.name, dir_fd=handle)
                    result.removed += 1
            except FileNotFoundError:
                continue
            except OSError as exc:
                problem = problem or exc
    return problem


def _take_directory(handle: int, name: str, trash: int, waiting: list[str], result: TrashResult) -> None:
    try:
        os.rmdir(name, dir_fd=handle)
        result.removed += 1
    except OSError as exc:
        if exc.errno != errno.ENOTEMPTY:
            raise
        above = secrets.token_hex(8)
        os.rename(name, above, src_dir_fd=handle, dst_dir_fd=trash)
        waiting.append(above)
