# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that outlive their parent, identified by pid and start time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")
MARK = "MLCLUSTER_SLURM_RIG"
# Limit in seconds of waits that take some seconds on an idle machine.
LIMIT = 120.0

# Keeps the Popen objects of daemons: Popen warns if its object is deleted while the child runs.
_children: list[subprocess.Popen[bytes]] = []


class RigError(Exception):
    """An error of the rig: its message has what was tried, what was found, what to do next, and the end of a log."""


class Process(NamedTuple):
    """A process: its pid and its start time in clock ticks since boot."""

    pid: int
    started: int


def started_at(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot; None if it is missing or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is a name in parentheses, which may contain blanks and parentheses.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def identify(pid: int) -> Process | None:
    """Return the process that now has the pid, or None."""
    started = started_at(pid)
    return None if started is None else Process(pid, started)


def alive(process: Process) -> bool:
    """Return whether this process, and not another one of its pid, still runs."""
    return started_at(process.pid) == process.started


def spawn(argv: Sequence[str], log: Path, mark: str, environment: Mapping[str, str] | None = None) -> Process:
    """Start a daemon in a new session with output to ``log``; ``mark`` in its environment identifies its cluster."""
    values = {**os.environ, **(environment or {}), MARK: mark}
    with open(log, "ab") as output:
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=values,
                cwd="/",
            )
        except FileNotFoundError as exc:
            raise RigError(f"the rig needs the program {argv[0]}, which is not installed: run `make setup`") from exc
    _children.append(child)
    process = identify(child.pid)
    if process is None:
        raise RigError(f"{argv[0]} ended at once: {tail(log)}")
    return process


def children(pid: int) -> list[int]:
    """Return the pids of the children of a single-threaded process."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def marked(mark: str) -> list[Process]:
    """Return every process that has exactly this mark in its environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                process = identify(int(entry.name))
                found += [process] if process else []
    return found


def reap() -> None:
    """Reap the children that have ended."""
    _children[:] = [child for child in _children if child.poll() is None]


def end(processes: Iterable[Process], how: int = signal.SIGKILL) -> None:
    """Send a signal to those processes that still run, and wait until they have ended.

    Raises RigError with the pids that are left after ``LIMIT`` seconds.
    """
    wanted = [process for process in processes if alive(process)]
    for process in wanted:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, how)

    def gone() -> bool:
        reap()
        return not any(alive(process) for process in wanted)

    left = ", ".join(str(process.pid) for process in wanted)
    wait_for(f"the processes {left} to end", gone, poll=0.01)


def wait_for(
    what: str, probe: Callable[[], T], timeout: float = LIMIT, poll: float = 0.05, over: Callable[[], str] = lambda: ""
) -> T:
    """Call ``probe`` until it returns a true value, and return that.

    Raises RigError after ``timeout`` seconds, or if ``over``, which is called once a second, returns a reason to stop.
    """
    deadline = time.monotonic() + timeout
    next_ask = time.monotonic()
    while True:
        why = ""
        if time.monotonic() >= next_ask:
            # Called before the probe, so that the effects of a process that ends meanwhile count.
            why = over()
            next_ask = time.monotonic() + 1
        found = probe()
        if found:
            return found
        if why:
            raise RigError(f"waited for {what} without success: {why}")
        if time.monotonic() >= deadline:
            raise RigError(f"waited {timeout:g} s for {what} without success")
        time.sleep(poll)


def tail(path: Path, lines: int = 15) -> str:
    """Return the last lines of a log file."""
    try:
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()[-lines:])
    except FileNotFoundError:
        return f"({path} does not exist)"
