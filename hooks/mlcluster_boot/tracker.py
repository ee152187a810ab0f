# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of a running playbook from its events, and its messages to users; prints and writes nothing.

The hook and the callback ``cluster_progress`` show what it returns.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from .events import COUNTS, Event, failure_message, failure_text
from .progress import Progress

SCHEMA = "mlcluster.run/1"
# The fact in which playbooks/tasks/node_role.yml records how a role ended.
OUTCOME = "configure_node_outcome"
# The action whose result has the options of roles.
LOOK = "mlcluster.aws.node_plan"
# Roles whose tasks count as tasks of the role that includes them.
SHARED = frozenset({"plan"})


def utc(seconds: float) -> str:
    """Return seconds since the epoch as 2026-01-31T12:00:00Z."""
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclasses.dataclass
class Task:
    """One task of the run; ``seconds`` is wall-clock time until the next one began."""

    role: str
    name: str
    started: float
    seconds: float = 0.0
    changed: int = 0

    def title(self) -> str:
        """Return the name of the task, after that of its role, if any."""
        return f"{self.role} : {self.name}" if self.role else self.name


class Tracker:
    """The state of one run; ``handle`` returns what to show at once, as pairs of a type and a text.

    The types: ``play``, ``task``, ``failure``, ``outcome`` (how a role of the hook ended), ``role`` (the summary of a
    role that is over), ``end`` (that of the run), ``no_hosts``.
    """

    def __init__(self, playbook: str, started: float) -> None:
        self.playbook = playbook
        self.started = started
        self.state = "starting"
        self.rc: int | None = None
        self.play = ""
        self.tasks: list[Task] = []
        self.hosts: dict[str, dict[str, int]] = {}
        self.failures: list[dict[str, Any]] = []
        self.outcomes: dict[str, dict[str, str]] = {}
        self.finished = False
        self.latest = started
        # The options of the roles' looks, by role.
        self.options: dict[str, dict[str, Any]] = {}
        self.progress = Progress(started)
        # The role that runs now; empty outside of roles.
        self.turn = ""

    def handle(self, event: Event) -> list[tuple[str, str]]:
        """Process one event; one of an unknown type changes nothing."""
        self.latest = event.time
        event = self._in_turn(event)
        summaries = [("role", line) for line in self.progress.handle(event)]
        if event.kind == "play":
            self.state, self.play = "running", event.name
            return [*summaries, ("play", event.name)]
        if event.kind == "no_hosts":
            return [*summaries, ("no_hosts", "no node is in its groups")]
        if event.kind == "task":
            self._close_task()
            self.tasks.append(Task(event.role, event.task, event.time))
            return [*summaries, ("task", event.title)]
        if event.kind == "stats":
            self._stats(event)
            return [*summaries, ("end", self.progress.verdict(event.counts, event.time))]
        if event.kind == "result":
            return self._host_result(event)
        return summaries

    def _in_turn(self, event: Event) -> Event:
        """Return the event with the role that runs now."""
        if event.role in SHARED:
            return dataclasses.replace(event, role=self.turn)
        if event.kind in ("play", "task"):
            self.turn = event.role
        return event

    def _close_task(self) -> None:
        if self.tasks:
            self.tasks[-1].seconds = max(0.0, self.latest - self.tasks[-1].started)

    def _host_result(self, event: Event) -> list[tuple[str, str]]:
        zero = dict.fromkeys(COUNTS, 0)
        counts = self.hosts.setdefault(event.host, zero) if event.host else zero
        self._close_task()
        if event.ignored:
            counts["ignored"] += 1
            return []
        counts[event.outcome] += 1
        if event.outcome in ("failed", "unreachable"):
            return [("failure", self._failure(event))]
        result = event.result if event.outcome == "ok" and isinstance(event.result, dict) else {}
        if event.changed:
            counts["changed"] += 1
            if self.tasks:
                self.tasks[-1].changed += 1
        if event.action == LOOK:
            self.options.update(result.get("options") or {})
        if OUTCOME in (result.get("ansible_facts") or {}):
            return self._outcome(result["ansible_facts"][OUTCOME])
        return []

    def _outcome(self, fact: dict[str, str]) -> list[tuple[str, str]]:
        """Record how a role ended; for a failed role with task and message of the last failure."""
        outcome = {"state": "configured", "task": "", "message": ""}
        if fact["state"] != "configured":
            outcome["state"] = "failed"
            last = self.failures[-1] if self.failures else {}
            outcome["task"] = last.get("task") or "a task without a name"
            outcome["message"] = last.get("message") or "the task gave no message"
        self.outcomes[fact["role"]] = outcome
        return [("outcome", f"role {fact['role']} {outcome['state']}")]

    def _failure(self, event: Event) -> str:
        failure: dict[str, Any] = {
            "host": event.host,
            "play": self.play,
            "role": event.role,
            "task": event.task,
            "message": failure_message(event.result),
            "unreachable": event.outcome == "unreachable",
            "rescued": False,
        }
        self.failures.append(failure)
        return failure_text(event)

    def _stats(self, event: Event) -> None:
        self._close_task()
        self.finished = True
        self.hosts = {host: dict(counts) for host, counts in event.counts.items()}
        for host, counts in self.hosts.items():
            # The events of a block do not show whether a rescue follows; the closing counts do.
            lasting = counts["failed"] + counts["unreachable"]
            failures = [failure for failure in self.failures if failure["host"] == host]
            for failure in failures[: len(failures) - lasting]:
                failure["rescued"] = True

    def close(self, status: str, rc: int | None, tail: str = "") -> None:
        """Set the final state by the runner's status and exit code; ``tail`` is the end of its output."""
        self.rc = rc
        if status in ("timeout", "canceled"):
            self.state = status
        elif not self.finished:
            self.state = "error"
        elif any(counts["failed"] for counts in self.hosts.values()):
            self.state = "failed"
        elif any(counts["unreachable"] for counts in self.hosts.values()):
            self.state = "unreachable"
        elif not self.hosts:
            self.state = "no_hosts"
        else:
            self.state = "successful" if rc == 0 else "error"
        if self.state == "error":
            text = tail or "ansible-playbook gave no output"
            self.failures.append(
                {
                    "host": "",
                    "play": self.play,
                    "role": "",
                    "task": "",
                    "message": text,
                    "unreachable": False,
                    "rescued": False,
                }
            )

    def roles(self) -> dict[str, float]:
        """Return wall-clock seconds per role in order; tasks outside roles are under ``""``."""
        totals: dict[str, float] = {}
        for task in self.tasks:
            totals[task.role] = totals.get(task.role, 0.0) + task.seconds
        return {role: round(seconds, 3) for role, seconds in totals.items()}

    def snapshot(self, now: float) -> dict[str, Any]:
        """Return the object of the status file at the time ``now`` (seconds since the epoch)."""
        current = self.tasks[-1] if self.tasks and not self.finished else None
        return {
            "schema": SCHEMA,
            "state": self.state,
            "rc": self.rc,
            "playbook": self.playbook,
            "started": utc(self.started),
            "updated": utc(now),
            "elapsed": round(now - self.started, 1),
            "play": self.play,
            "role": current.role if current else "",
            "task": current.name if current else "",
            "roles": self.roles(),
            "tasks": [
                {"role": t.role, "task": t.name, "seconds": round(t.seconds, 3), "changed": t.changed}
                for t in self.tasks
            ],
            "hosts": self.hosts,
            "failures": self.failures,
            "outcomes": self.outcomes,
        }
