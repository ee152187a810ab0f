# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress of a run, a line for each role. Pure: from events to lines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import first_of

from .events import Event

OUTSIDE = "other tasks"
# Names of nodes on one line.
NAMES = 5


def _count(number: int) -> str:
    """Return a number of nodes in words."""
    return f"{number} node{'' if number == 1 else 's'}"


@dataclasses.dataclass
class Part:
    """A role that runs: its start (seconds), and its nodes by outcome."""

    role: str
    began: float
    last: float | None = None
    hosts: set[str] = dataclasses.field(default_factory=set)
    changed: set[str] = dataclasses.field(default_factory=set)
    failed: set[str] = dataclasses.field(default_factory=set)

    def summary(self, now: float) -> str:
        """Return the final line."""
        parts = [_count(len(self.hosts)), f"{len(self.changed)} changed"]
        if self.failed:
            parts.append(f"{len(self.failed)} FAILED ({first_of(sorted(self.failed), NAMES)})")
        return f"{self.role:<16} {', '.join(parts)}, {now - self.began:.1f} s"


class Progress:
    """The state of a run. Methods return the lines to print for roles that have ended.

    ``interleaved``: nodes do not wait for each other (strategy free), so a role ends with its play instead of with the
    next role.
    """

    interleaved = False

    def __init__(self, now: float) -> None:
        self.began = now
        self.part: Part | None = None
        self.parts: dict[str, Part] = {}
        self.name = ""
        self.running: set[str] = set()
        self.done: set[str] = set()
        self.failed: dict[str, str] = {}

    def handle(self, event: Event) -> list[str]:
        """Process one event; return the lines of the roles that it ends."""
        if event.kind == "play":
            lines = self.end_part(event.time)
            self.interleaved = event.interleaved
            return lines
        if event.kind == "task":
            return self.task(event.role, event.task, event.time)
        if event.kind == "stats":
            return self.end_part(event.time)
        if event.kind == "start" and event.host:
            self.start(event.host)
        if event.kind == "result" and event.host:
            outcome = "ok" if event.ignored else event.outcome
            self.result(event.host, outcome, event.changed, role=event.role, now=event.time)
        return []

    def task(self, role: str, name: str, now: float) -> list[str]:
        """Record the start of a task, with the name of its role or ""."""
        role = role or OUTSIDE
        if self.interleaved:
            self.name, self.part = name, self.parts.setdefault(role, Part(role, now))
            return []
        self.name, self.running, self.done = name, set(), set()
        if self.part is not None and self.part.role == role:
            return []
        lines = self.end_part(now)
        self.part = self.parts[role] = Part(role, now)
        return lines

    def end_part(self, now: float) -> list[str]:
        """End the current role, or all interleaved roles; return their lines."""
        parts, self.part, self.parts = self.parts, None, {}
        return [
            part.summary(now if part.last is None else part.last)
            for part in parts.values()
            # Tasks outside of roles are shown if they changed or failed anything.
            if part.hosts and (part.role != OUTSIDE or part.changed or part.failed)
        ]

    def start(self, host: str) -> None:
        """Record that a node starts the task."""
        self.running.add(host)
        self.done.discard(host)

    def result(
        self, host: str, outcome: str, changed: bool = False, role: str | None = None, now: float | None = None
    ) -> None:
        """Record that a node ended a task; outcome is ok, skipped, failed or unreachable.

        ``role`` is set if the task may belong to another role than the last one that began."""
        self.running.add(host)
        self.done.add(host)
        part = self.part if role is None else self.parts.get(role or OUTSIDE, self.part)
        if part is None:
            return
        if self.interleaved:
            part.last = now
        part.hosts.add(host)
        if changed:
            part.changed.add(host)
        if outcome in ("failed", "unreachable"):
            part.failed.add(host)
            self.failed[host] = outcome

    def line(self) -> str:
        """Return the current activity."""
        if self.part is None:
            return ""
        bad = f", {len(self.failed)} FAILED" if self.failed else ""
        waiting = sorted(self.running - self.done)
        # All other nodes wait for the last few.
        names = f": {', '.join(waiting)}" if self.done and len(waiting) <= NAMES and waiting else ""
        return f"{self.part.role}: {self.name} ({len(self.done)} done{bad}, {len(waiting)} running{names})"

    def verdict(self, counts: Mapping[str, Mapping[str, int]], now: float) -> str:
        """Return the last line of the run; counts are those of the closing event."""
        bad = sorted(
            host for host, host_counts in counts.items() if host_counts.get("failed") or host_counts.get("unreachable")
        )
        changed = sum(bool(host_counts.get("changed")) for host_counts in counts.values())
        whole = "the node is done" if len(counts) == 1 else f"all {len(counts)} nodes are done"
        verdict = f"{len(bad)} of {_count(len(counts))} FAILED: {first_of(bad, NAMES)}" if bad else whole
        if not counts:
            verdict = "no node took part"
        return f"{verdict}; {changed} changed; {now - self.began:.1f} s"
