# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run checks and looks in parallel, each within its own limit, so that a hanging one costs only its limit.

Each is a process: a thread that sleeps in the kernel would prevent its process from ending, while such a process
can be left behind. It has its own session and none of this process's streams, so that a program that waits for this
process (slurmd for its Prolog) waits for nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import selectors
import signal
import typing as t

from ..verdict.result import Result, undeterminable
from .host import Host, NodeError

# Records of checks that could not be ended, so that the next run does not start another.
STATE_DIRECTORY = "/run/mlcluster/health"
# Time limit for the end of a killed process before it counts as left behind.
KILL_SECONDS = 0.5
HINT = "look with 'ps -eo pid,stat,wchan:32,args' for processes in state D; a node that has them needs a reboot"
_STAT = re.compile(r"(\d+) \((.*)\) (\S) \d+ \d+ (\d+) ")


@dataclasses.dataclass(frozen=True)
class Check:
    """name is the id of the undeterminable verdict of a failure; look returns the verdicts; seconds is its limit."""

    name: str
    look: t.Callable[[Host], t.Sequence[Result]]
    seconds: float


@dataclasses.dataclass(frozen=True)
class Job:
    """A function that returns plain JSON. name is the file name of the record if it hangs."""

    name: str
    call: t.Callable[[Host], t.Any]
    seconds: float


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The answer of a ``Job``, or problem: why there is none. seconds: its duration, None if not run."""

    answer: t.Any = None
    problem: str | None = None
    hint: str | None = None
    seconds: float | None = None


@dataclasses.dataclass
class _Running:
    job: Job
    pid: int
    pipe: int
    started: float
    ends: float
    received: bytes = b""


def run_all(
    host: Host, checks: t.Sequence[Check], seconds: float, state_directory: str = STATE_DIRECTORY
) -> list[Result]:
    """Return the verdicts of all checks in their order, after at most seconds (and ``KILL_SECONDS``).

    A check that overran, crashed or still hangs from an earlier run gives one undeterminable verdict with its name.
    """
    jobs = [Job(check.name, _as_json(check.look), check.seconds) for check in checks]
    outcomes = run_jobs(host, jobs, seconds, state_directory)
    return [verdict for check in checks for verdict in _verdicts(check.name, outcomes[check.name])]


def _as_json(look: t.Callable[[Host], t.Sequence[Result]]) -> t.Callable[[Host], list[dict[str, t.Any]]]:
    return lambda host: [verdict.to_dict() for verdict in look(host)]


def _verdicts(name: str, outcome: Outcome) -> list[Result]:
    if outcome.problem:
        return [undeterminable(name, outcome.problem, hint=outcome.hint, seconds=outcome.seconds)]
    verdicts = [Result.from_dict(entry) for entry in outcome.answer]
    return [v if v.seconds is not None else dataclasses.replace(v, seconds=outcome.seconds) for v in verdicts]


def run_jobs(
    host: Host, jobs: t.Sequence[Job], seconds: float, state_directory: str = STATE_DIRECTORY
) -> dict[str, Outcome]:
    """Return the outcome of each job by its name, after at most seconds (and ``KILL_SECONDS``)."""
    started = host.monotonic()
    outcomes: dict[str, Outcome] = {}
    running = []
    for job in jobs:
        stuck = still_stuck(host, state_directory, job.name)
        if stuck:
            outcomes[job.name] = Outcome(problem=stuck, hint=HINT)
            continue
        running.append(_start(host, job, started + seconds))
    _collect(host, running)
    for one in running:
        outcomes[one.job.name] = _finish(host, one, state_directory)
    return outcomes


def _start(host: Host, job: Job, deadline: float) -> _Running:
    reading, writing = os.pipe()
    now = host.monotonic()
    limit = max(0.0, min(job.seconds, deadline - now))
    pid = os.fork()
    if pid == 0:
        _child(host, job, writing, limit)
    os.close(writing)
    os.set_blocking(reading, False)
    return _Running(job, pid, reading, now, now + limit)


def _child(host: Host, job: Job, out: int, limit: float) -> t.NoReturn:
    """Write the answer into the pipe and exit without running any exit handler of the parent; never returns."""
    try:
        os.setsid()
        # A limit for the case that the parent is gone.
        signal.signal(signal.SIGALRM, lambda number, frame: os.killpg(0, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, limit + 1)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        try:
            line = json.dumps({"answer": job.call(host)})
        except NodeError as exc:
            line = json.dumps({"problem": str(exc)})
        except Exception as exc:
            what = f"stopped by an unexpected {type(exc).__name__}: {' '.join(str(exc).split()) or 'no message'}"
            line = json.dumps({"problem": what})
        answer = memoryview(line.encode() + b"\n")
        while answer:
            answer = answer[os.write(out, answer) :]
    finally:
        os._exit(0)


def _collect(host: Host, running: t.Sequence[_Running]) -> None:
    """Read the output of the processes until each has ended or run out of time."""
    with selectors.DefaultSelector() as selector:
        for one in running:
            selector.register(one.pipe, selectors.EVENT_READ, one)
        while selector.get_map():
            now = host.monotonic()
            for key in list(selector.get_map().values()):
                if key.data.ends <= now:
                    selector.unregister(key.fd)
            waiting = [key.data.ends for key in selector.get_map().values()]
            for key, _events in selector.select(max(0.0, min(waiting) - now)) if waiting else ():
                with contextlib.suppress(BlockingIOError):
                    part = os.read(key.fd, 1 << 16)
                    key.data.received += part
                    # The answer is one line; a process left behind by the check may keep the pipe open.
                    if not part or part.endswith(b"\n"):
                        selector.unregister(key.fd)


def _finish(host: Host, one: _Running, state_directory: str) -> Outcome:
    os.close(one.pipe)
    seconds = round(host.monotonic() - one.started, 3)
    # Its children are ended with it, and hanging ones are not waited for.
    for end in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            end(one.pid, signal.SIGKILL)
    gone = _reap(host, one.pid)
    members = [] if gone and one.received.endswith(b"\n") else session_members(host, one.pid)
    if members:
        _remember(host, state_directory, one.job.name, one.pid)
    if one.received.endswith(b"\n"):
        return Outcome(seconds=seconds, **json.loads(one.received))
    if host.monotonic() >= one.ends:
        why = f"no answer within {one.ends - one.started:.1f} seconds"
        if members:
            why += f"; {', '.join(members)} cannot be ended and is left behind"
        return Outcome(problem=why, hint=HINT if members else None, seconds=seconds)
    return Outcome(problem="the process of this check crashed", seconds=seconds)


def _reap(host: Host, pid: int) -> bool:
    """Return whether a killed process is gone within ``KILL_SECONDS``."""
    ends = host.monotonic() + KILL_SECONDS
    while True:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                if host.monotonic() >= ends:
                    return False
                host.sleep(0.01)
                continue
        return True


def session_members(host: Host, session: int) -> list[str]:
    """Return the processes of a session that sleep in the kernel and cannot be ended, as "nvidia-smi (pid 4711)"."""
    found = []
    for name in host.listdir("/proc"):
        if not name.isdecimal():
            continue
        fields = _STAT.match(host.read_text(f"/proc/{name}/stat") or "")
        if fields and fields.group(3) == "D" and int(fields.group(4)) == session:
            found.append(f"{fields.group(2)} (pid {name})")
    return found


def still_stuck(host: Host, state_directory: str, name: str) -> str | None:
    """Return why a check is not started: a process of an earlier run still hangs. None without one."""
    path = f"{state_directory}/{name}"
    session = (host.read_text(path) or "").strip()
    if not session.isdecimal():
        return None
    members = session_members(host, int(session))
    if members:
        return f"{', '.join(members)} of an earlier run of this check still hangs in the kernel"
    with contextlib.suppress(OSError):
        host.remove(path)
    return None


def _remember(host: Host, state_directory: str, name: str, session: int) -> None:
    # Without write access the next run of this user hangs again, at most for its limit.
    with contextlib.suppress(OSError):
        host.write_text(f"{state_directory}/{name}", f"{session}\n", 0o644)
