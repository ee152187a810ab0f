# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several jobs followed to their ends, one after the other, with a line whenever one of them changes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..system.host import NodeError
from ..verdict.result import printable
from . import job as slurm_job
from .client import Slurm

# Seconds after which a job that goes on as it did is spoken of again.
REMINDER = 60.0
# Seconds of one look at the job that is waited for; the others are looked at after it.
EVERY = 10.0
SILENT = "did not answer"
# Seconds in which a job that is cancelled has to end.
CANCEL_SECONDS = 120
# Seconds between two looks of Slurm's client, and how much of the end of a job's output is kept.
POLL = 0.5
TAIL_BYTES = 4096

Looked = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Wishes:
    """timeout: seconds for each job, from when those before it have ended; every: seconds of one look."""

    timeout: float
    every: float
    cancel_on_timeout: bool


@dataclasses.dataclass
class Entry:
    """A job by the name that people know it by, and what was last seen of it."""

    name: str
    job_id: int
    exit_file: str | None
    job: Mapping[str, Any] | None = None
    over: bool = False
    msg: str = ""
    said: str = ""
    said_at: float = 0.0


class Looker:
    """Looks at jobs from a node that submits."""

    def __init__(self, slurm: Slurm, poll: float = POLL) -> None:
        self.slurm, self.poll = slurm, poll
        self._followers: dict[int, slurm_job.Follower] = {}

    def look(self, entry: Entry, seconds: float, cancel: bool) -> Looked:
        """Wait for the end of a job and return ``failed`` (no end was seen), ``job`` and ``msg``.

        ``cancel``: cancel it if it has no end by then. Without an answer of the controller there is no ``job``.
        """
        follower = self._followers.setdefault(
            entry.job_id, slurm_job.Follower(self.slurm, entry.job_id, entry.exit_file)
        )
        # An answer to an earlier look is none to this one.
        follower.answered = False
        try:
            over = follower.wait(seconds, self.poll)
            if not over and cancel and slurm_job.cancel(self.slurm, entry.job_id):
                follower.wait(CANCEL_SECONDS, self.poll)
        except NodeError as exc:
            return {"failed": True, "msg": str(exc)}
        return {
            "failed": not over,
            "msg": "" if over else f"waited {seconds:g} seconds",
            "job": slurm_job.report(self.slurm, follower, TAIL_BYTES),
        }


class Follow:
    """look(entry, seconds, cancel) is that of ``Looker``; say(line) shows a line; clock() is in seconds."""

    def __init__(
        self,
        look: Callable[[Entry, float, bool], Looked],
        say: Callable[[str], None],
        clock: Callable[[], float],
        wishes: Wishes,
    ) -> None:
        self.look, self.say, self.clock, self.wishes = look, say, clock, wishes

    def run(self, entries: Sequence[Entry]) -> None:
        """Look until each has an end or its time has passed; the entries say what was seen."""
        for index, entry in enumerate(entries):
            deadline = self.clock() + self.wishes.timeout
            while not entry.over:
                left = deadline - self.clock()
                last = left <= self.wishes.every
                looked = self.look(entry, max(min(left, self.wishes.every), 0), last and self._cancel)
                if not self._take(entry, looked):
                    break
                if last and not entry.over:
                    self._give_up(entry, answered=bool(looked.get("job")))
                    break
                for other in entries[index + 1 :]:
                    # Its end is taken down now, for Slurm forgets a job some minutes after it.
                    if not other.over:
                        self._take(other, self.look(other, 0, False))

    @property
    def _cancel(self) -> bool:
        return self.wishes.cancel_on_timeout

    def _take(self, entry: Entry, looked: Looked) -> bool:
        """Note what was seen; False where no further look would tell more."""
        entry.job = looked.get("job") or entry.job
        entry.over = not looked.get("failed")
        # A wait that was not long enough comes with the job, a controller that is silent without.
        silent = SILENT in str(looked.get("msg"))
        lost = not entry.over and not looked.get("job") and not silent
        entry.msg = "" if entry.over else str(looked.get("msg", ""))
        self._tell(entry, "nobody answers" if silent and not looked.get("job") else None)
        return not lost

    def _give_up(self, entry: Entry, answered: bool) -> None:
        state = (entry.job or {}).get("state", "UNKNOWN")
        then = "it was cancelled" if self._cancel else f"it goes on: scontrol show job {entry.job_id}"
        if self._cancel and not answered:
            then = f"it was to be cancelled and nobody answered, so it may go on: scancel {entry.job_id}"
        if entry.job is not None:
            entry.msg = (
                f"waited {self.wishes.timeout:g} seconds for the end of job {entry.job_id} and it is {state}: {then}"
            )
        self.say(f"{entry.name}: {entry.msg}")

    def _tell(self, entry: Entry, instead: str | None) -> None:
        now = self.clock()
        text = instead or state_line(entry.job or {})
        if text == entry.said and (entry.over or now - entry.said_at < REMINDER):
            return
        entry.said, entry.said_at = text, now
        seconds = (entry.job or {}).get("elapsed_seconds")
        self.say(f"{entry.name}: job {entry.job_id} {text}" + (f", {seconds} s" if seconds and not instead else ""))


def follow(
    slurm: Slurm, entries: Sequence[Entry], say: Callable[[str], None], timeout: float, cancel_on_timeout: bool = False
) -> None:
    """Follow jobs to their ends from a node that submits; ``say`` takes lines that begin with the time of day."""

    def say_when(line: str) -> None:
        say(f"{time.strftime('%H:%M:%S')} {line}")

    Follow(Looker(slurm).look, say_when, slurm.host.monotonic, Wishes(timeout, EVERY, cancel_on_timeout)).run(entries)


def state_line(job: Mapping[str, Any]) -> str:
    """The state of a job with where it runs and, of one that waits, why; at its end with its exit status."""
    state, reason = job.get("state") or "UNKNOWN", job.get("reason")
    text = str(state)
    if state == "PENDING" and reason and reason != "None":
        text += f" ({reason})"
    if job.get("nodes"):
        text += f" on {job['nodes']}"
    if job.get("restarts"):
        text += f", started again {job['restarts']} times"
    if job.get("exit_code"):
        text += f", exit status {job['exit_code']}"
    return text


def sentence(entry: Entry) -> str | None:
    """Why the job is not a success; None where it is one."""
    if not entry.over:
        return f"{entry.name}: {entry.msg}"
    job = entry.job or {}
    if job.get("ok"):
        return None
    last = str(job.get("stderr_tail") or job.get("stdout_tail") or "").strip().splitlines()[-1:]
    wrote = f"; it last wrote: {printable(last[0][:300])}" if last else ""
    return f"{entry.name}: job {entry.job_id} is {state_line(job)}{wrote}"
