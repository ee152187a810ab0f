# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ranks of a training as forked processes: torch is imported once, and a rank can be killed at any of its writes."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

# An optimizer and DDP import this at their first use, which takes two seconds in every child.
import torch._dynamo
import torch.distributed as dist

FORK = multiprocessing.get_context("fork")
CLONE_NEWNS = 0x00020000
# Changes of a directory, by the names of Python's audit events (docs.python.org, "Audit events table").
CHANGES = frozenset({"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.link", "os.utime"})
# Functions of os that take a directory's descriptor; their audit events have no path of the directory.
BY_HANDLE = ("open", "replace", "rename", "mkdir", "unlink", "remove", "rmdir", "link", "utime")
# Bytes of a file before a rank dies in it; the shortest file, the name of the newest checkpoint, has 14.
HALF = 10
torch.set_num_threads(1)
# Destructors of earlier tests' garbage may wait for threads, which a fork does not copy: a child would hang.
os.register_at_fork(after_in_child=gc.freeze)


class RankDiedError(Exception):
    """A rank ended without a result: exit status (negative for a signal), and the values that it had reported."""

    def __init__(self, status: int | None, reported: list[Any]) -> None:
        super().__init__(f"ended with {status} after {reported}")
        self.status, self.reported = status, reported


def _rank(function, rank: int, ranks: int, meeting: str, pipe) -> None:
    os.setsid()
    try:
        if ranks:
            # A single rank has no file store, in which it might die.
            store = dist.FileStore(meeting, ranks) if ranks > 1 else dist.HashStore()
            dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
        pipe.send(("result", function(lambda value: pipe.send(("reported", value)))))
    except BaseException as exc:
        traceback.print_exc()
        pipe.send(("error", exc))
    sys.stdout.flush()
    # Not by exit(), which would run pytest's exit handlers.
    os._exit(0)


def ranks(count: int, function: Callable[..., Any], folder: Path) -> list[Any]:
    """Run ``function(report)`` on ranks joined by gloo (0: one process without gloo); return results in rank order.

    Raises the error of a rank, and RankDiedError if a rank died.
    """
    meeting = folder / f"meeting-{os.urandom(4).hex()}"
    started = []
    for rank in range(max(count, 1)):
        mine, theirs = FORK.Pipe()
        process = FORK.Process(target=_rank, args=(function, rank, count, str(meeting), theirs))
        process.start()
        theirs.close()
        started.append((process, mine))
    try:
        found = [_result(process, pipe) for process, pipe in started]
    finally:
        # After a test's timeout, this process would wait for ranks that wait for each other.
        for process, _pipe in started:
            process.kill()
            process.join()
    meeting.unlink(missing_ok=True)
    for value in found:
        if isinstance(value, BaseException):
            raise value
    return found


def _result(process, pipe) -> Any:
    reported = []
    while True:
        try:
            kind, value = pipe.recv()
        except EOFError:
            process.join()
            return RankDiedError(process.exitcode, reported)
        if kind == "reported":
            reported.append(value)
        else:
            process.join()
            return value


def die_at_change(number: int, below: Path, but: str = "\0") -> None:
    """Kill this process right before its ``number``-th change of a file or directory below a folder.

    Files with ``but`` in their names do not count.
    """
    left = [number]

    def watch(_change: str, paths: list[str]) -> None:
        if any(path.startswith(str(below)) and but not in path for path in paths):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    watch_changes(watch)


def watch_changes(watch: Callable[[str, list[str]], None]) -> None:
    """Call ``watch(change, absolute paths)`` before each change of a directory and each file opened for writing."""

    def audited(event: str, arguments: tuple[Any, ...]) -> None:
        if event in CHANGES or (event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)):
            watch(event, [str(argument) for argument in arguments if str(argument).startswith("/")])

    def handled(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **named: Any) -> Any:
            handles = [named[key] for key in ("dir_fd", "src_dir_fd", "dst_dir_fd") if named.get(key) is not None]
            names = [os.fsdecode(one) for one in given[: max(1, len(handles))] if isinstance(one, (str, bytes))]
            reads = function is real_open and not given[1] & (os.O_WRONLY | os.O_RDWR)
            if handles and not reads:
                folders = [os.readlink(f"/proc/self/fd/{handle}") for handle in handles]
                watch(function.__name__, [f"{folder}/{name}" for folder, name in zip(folders, names)])
            return function(*given, **named)

        return wrapped

    real_open = os.open
    for name in BY_HANDLE:
        setattr(os, name, handled(getattr(os, name)))
    sys.addaudithook(audited)


def die_at_byte(number: int) -> None:
    """Kill this process in the middle of a write, once any file has this many bytes."""
    _heed_limit()
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))


def die_in_file(number: int, below: Path) -> None:
    """Kill this process in the middle of the ``number``-th file below a folder that it opens for writing."""
    _heed_limit()
    left = [number]

    def watch(change: str, paths: list[str]) -> None:
        if change == "open":
            left[0] -= paths[0].startswith(str(below)) if paths else 0
            if not left[0]:
                resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, HALF))

    watch_changes(watch)


def _heed_limit() -> None:
    """Restore the signal's default action, as Python ignores it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def small_disk(path: Path, size: int) -> None:
    """Mount an empty file system of ``size`` bytes that only this process sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    path.mkdir(parents=True, exist_ok=True)
    for argv in (["mount", "--make-rprivate", "/"], ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]):
        subprocess.run(argv, check=True)
