# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several jobs followed to their ends, one after the other, with a line whenever one of them changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import printable

# Seconds after which a job that goes on as it did is spoken of again.
REMINDER = 60.0
SILENT = "did not answer"
# What Ansible gives when the module itself was killed or could not start, as where a disk or the memory is full.
BROKEN = "module_stdout"

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

    def result(self) -> dict[str, Any]:
        """What is told of it at the end; failed where its end was not seen."""
        return {
            "name": self.name,
            "job_id": self.job_id,
            "job": self.job,
            "failed": not self.over,
            "msg": self.msg or None,
        }


class Follow:
    """look(entry, seconds, cancel) gives what ``slurm_job`` gave; say(line) shows a line; clock() is in seconds."""

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
        # A wait that was not long enough comes with the job, a controller or a machine that is silent without.
        silent = bool(looked.get("unreachable")) or SILENT in str(looked.get("msg")) or BROKEN in looked
        lost = not entry.over and not looked.get("job") and not silent
        entry.msg = "" if entry.over else str(looked.get("msg", ""))
        self._tell(entry, "nobody answers" if silent and not looked.get("job") else None)
        return not lost

    def _give_up(self, entry: Entry, answered: bool) -> None:
        state = (entry.job or {}).get("state", "UNKNOWN")
        then = "it was cancelled" if self._cancel else "it goes on, and job_id follows it further"
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
    """Why the job is no success; None where it is one."""
    if not entry.over:
        return f"{entry.name}: {entry.msg}"
    job = entry.job or {}
    if job.get("ok"):
        return None
    last = str(job.get("stderr_tail") or job.get("stdout_tail") or "").strip().splitlines()[-1:]
    wrote = f"; it last wrote: {printable(last[0][:300])}" if last else ""
    return f"{entry.name}: job {entry.job_id} is {state_line(job)}{wrote}"
