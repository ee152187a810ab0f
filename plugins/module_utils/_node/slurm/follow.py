# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Follow several jobs to their ends, one after the other, with a line for each change."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..system.host import NodeError
from ..verdict.result import printable
from . import job as slurm_job
from .client import Slurm

# Seconds after which an unchanged job is reported again.
REMINDER = 60.0
# Seconds of one look at the awaited job; the others are looked at after it.
EVERY = 10.0
NO_ANSWER = "did not answer"
# Seconds in which a cancelled job has to end.
CANCEL_SECONDS = 120
# Seconds between two looks of Slurm's client, and the bytes kept from the end of a job's output.
POLL = 0.5
TAIL_BYTES = 4096

Looked = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Options:
    """timeout: seconds for each job, counted from the end of the jobs before it; every: seconds of one look."""

    timeout: float
    every: float
    cancel_on_timeout: bool


@dataclasses.dataclass
class Entry:
    """A job with its name for messages, and what was last seen of it."""

    name: str
    job_id: int
    exit_file: str | None
    job: Mapping[str, Any] | None = None
    over: bool = False
    msg: str = ""
    shown: str = ""
    shown_at: float = 0.0


class Looker:
    """A look at jobs from a node that submits."""

    def __init__(self, slurm: Slurm, poll: float = POLL) -> None:
        self.slurm, self.poll = slurm, poll
        self._followers: dict[int, slurm_job.Follower] = {}

    def look(self, entry: Entry, seconds: float, cancel: bool) -> Looked:
        """Wait for the end of a job and return ``failed`` (no end was seen), ``job`` and ``msg``.

        ``cancel``: cancel it if it has no end by then. ``job`` is missing if the controller does not answer.
        """
        follower = self._followers.setdefault(
            entry.job_id, slurm_job.Follower(self.slurm, entry.job_id, entry.exit_file)
        )
        # An answer to an earlier look does not count for this one.
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
    """Follow jobs: look(entry, seconds, cancel) as in ``Looker``; progress(line) shows a line; clock() in seconds."""

    def __init__(
        self,
        look: Callable[[Entry, float, bool], Looked],
        progress: Callable[[str], None],
        clock: Callable[[], float],
        options: Options,
    ) -> None:
        self.look, self.progress, self.clock, self.options = look, progress, clock, options

    def run(self, entries: Sequence[Entry]) -> None:
        """Look until each job has ended or its time has passed; store what was seen in the entries."""
        for index, entry in enumerate(entries):
            deadline = self.clock() + self.options.timeout
            while not entry.over:
                left = deadline - self.clock()
                last = left <= self.options.every
                looked = self.look(entry, max(min(left, self.options.every), 0), last and self._cancel)
                if not self._record(entry, looked):
                    break
                if last and not entry.over:
                    self._give_up(entry, answered=bool(looked.get("job")))
                    break
                for other in entries[index + 1 :]:
                    # Record its end now: Slurm forgets a job some minutes later.
                    if not other.over:
                        self._record(other, self.look(other, 0, False))

    @property
    def _cancel(self) -> bool:
        return self.options.cancel_on_timeout

    def _record(self, entry: Entry, looked: Looked) -> bool:
        """Record what was seen; return False if further looks are useless."""
        entry.job = looked.get("job") or entry.job
        entry.over = not looked.get("failed")
        # After a timeout there is a job; without an answer of the controller there is none.
        unanswered = NO_ANSWER in str(looked.get("msg"))
        lost = not entry.over and not looked.get("job") and not unanswered
        entry.msg = "" if entry.over else str(looked.get("msg", ""))
        self._show(entry, "no answer" if unanswered and not looked.get("job") else None)
        return not lost

    def _give_up(self, entry: Entry, answered: bool) -> None:
        state = (entry.job or {}).get("state", "UNKNOWN")
        then = "it was cancelled" if self._cancel else f"it continues: scontrol show job {entry.job_id}"
        if self._cancel and not answered:
            then = f"cancelling it got no answer, so it may continue: scancel {entry.job_id}"
        if entry.job is not None:
            entry.msg = (
                f"waited {self.options.timeout:g} seconds for the end of job {entry.job_id} and it is {state}: {then}"
            )
        self.progress(f"{entry.name}: {entry.msg}")

    def _show(self, entry: Entry, instead: str | None) -> None:
        now = self.clock()
        text = instead or state_line(entry.job or {})
        if text == entry.shown and (entry.over or now - entry.shown_at < REMINDER):
            return
        entry.shown, entry.shown_at = text, now
        seconds = (entry.job or {}).get("elapsed_seconds")
        self.progress(
            f"{entry.name}: job {entry.job_id} {text}" + (f", {seconds} s" if seconds and not instead else "")
        )


def follow(
    slurm: Slurm,
    entries: Sequence[Entry],
    progress: Callable[[str], None],
    timeout: float,
    cancel_on_timeout: bool = False,
) -> None:
    """Follow jobs to their ends from a node that submits; pass lines with the time of day to ``progress``."""

    def with_time(line: str) -> None:
        progress(f"{time.strftime('%H:%M:%S')} {line}")

    options = Options(timeout, EVERY, cancel_on_timeout)
    Follow(Looker(slurm).look, with_time, slurm.host.monotonic, options).run(entries)


def state_line(job: Mapping[str, Any]) -> str:
    """Return the state of a job with its nodes, the reason of a pending job, and the exit status of an ended one."""
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
    """Return why the job did not succeed; None if it did."""
    if not entry.over:
        return f"{entry.name}: {entry.msg}"
    job = entry.job or {}
    if job.get("ok"):
        return None
    last = str(job.get("stderr_tail") or job.get("stdout_tail") or "").strip().splitlines()[-1:]
    wrote = f"; it last wrote: {printable(last[0][:300])}" if last else ""
    return f"{entry.name}: job {entry.job_id} is {state_line(job)}{wrote}"
