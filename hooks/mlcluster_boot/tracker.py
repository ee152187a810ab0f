# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of a running playbook, from the events of ansible-runner; prints and writes nothing."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import json
import re
from typing import Any

SCHEMA = "mlcluster.run/1"
COUNTS = ("ok", "changed", "failed", "unreachable", "skipped", "rescued", "ignored")
# Where the closing statistics event keeps each count.
STATS = dict(zip(COUNTS, ("ok", "changed", "failures", "dark", "skipped", "rescued", "ignored")))
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# The fact in which playbooks/tasks/node_role.yml records how a role ended.
OUTCOME = "configure_node_outcome"
# The action whose result has the options of roles.
LOOK = "mlcluster.aws.node_plan"
# Messages without a reason; the reason is in the output beside them.
EMPTY_MESSAGES = re.compile(
    r"(non-zero return code|MODULE FAILURE.*|Module result deserialization failed.*|)", re.DOTALL
)


def utc(seconds: float) -> str:
    """Return seconds since the epoch as 2026-01-31T12:00:00Z."""
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _tail(text: object, count: int) -> list[str]:
    return [line.rstrip() for line in str(text or "").splitlines() if line.strip()][-count:]


def failure_message(res: object) -> str:
    """Return the message of a task result: at most six lines, with the end of the output if the message gives no
    reason; of a loop, the first three items that failed."""
    if not isinstance(res, dict):
        return str(res)
    items = [item for item in res.get("results") or [] if isinstance(item, dict) and item.get("failed")]
    if items:
        lines = [f"{item.get('_ansible_item_label', item.get('item'))}: {failure_message(item)}" for item in items[:3]]
        return "\n".join(lines + ([f"and {len(items) - 3} more items"] if len(items) > 3 else []))
    message = res.get("msg")
    text = message if isinstance(message, str) else json.dumps(message) if message else ""
    lines = text.strip().splitlines()[:6]
    if EMPTY_MESSAGES.fullmatch(text.strip()):
        detail = _tail(res.get("stderr") or res.get("module_stderr"), 4) or _tail(res.get("stdout"), 4)
        status = [f"the command ended with {res['rc']}"] if "rc" in res and "stderr" in res else lines[:1]
        lines = status + detail
    return "\n".join(line[:400] for line in lines) or "the task failed and gave no message"


@dataclasses.dataclass
class Task:
    """One task of the run; ``seconds`` is wall-clock time until the next one began."""

    role: str
    name: str
    started: float
    seconds: float = 0.0
    changed: int = 0

    def title(self) -> str:
        return f"{self.role} : {self.name}" if self.role else self.name


class Tracker:
    """The state of one run; ``handle`` returns what to show at once: (``task``, ``failure`` or ``outcome``, text)."""

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
        # What the looks of roles were asked with, by role.
        self.options: dict[str, dict[str, Any]] = {}
        self.tail: collections.deque[str] = collections.deque(maxlen=12)

    def handle(self, event: dict[str, Any]) -> list[tuple[str, str]]:
        """Process one event; an event of an unknown type only adds its output."""
        with contextlib.suppress(KeyError, ValueError, TypeError):
            self.latest = datetime.datetime.fromisoformat(event["created"]).timestamp()
        self.tail.extend(line for line in ANSI.sub("", event.get("stdout") or "").splitlines() if line.strip())
        data = event.get("event_data") or {}
        kind = event.get("event", "")
        if kind == "playbook_on_play_start":
            self.state, self.play = "running", data.get("name") or data.get("play") or ""
        elif kind in ("playbook_on_task_start", "playbook_on_handler_task_start"):
            return self._task_start(data)
        elif kind == "playbook_on_stats":
            self._stats(data)
        elif kind.startswith("runner_on_"):
            return self._host_result(kind[len("runner_on_") :], data)
        return []

    def _task_start(self, data: dict[str, Any]) -> list[tuple[str, str]]:
        self._close_task()
        self.tasks.append(Task(data.get("role") or "", data.get("task") or data.get("name") or "", self.latest))
        return [("task", self.tasks[-1].title())]

    def _close_task(self) -> None:
        if self.tasks:
            self.tasks[-1].seconds = max(0.0, self.latest - self.tasks[-1].started)

    def _host_result(self, outcome: str, data: dict[str, Any]) -> list[tuple[str, str]]:
        host = data.get("host") or ""
        counts = self.hosts.setdefault(host, dict.fromkeys(COUNTS, 0)) if host else dict.fromkeys(COUNTS, 0)
        self._close_task()
        res = data.get("res") or {}
        if outcome == "ok":
            counts["ok"] += 1
            if isinstance(res, dict) and res.get("changed"):
                counts["changed"] += 1
                self.tasks[-1].changed += 1
            if isinstance(res, dict) and data.get("task_action") == LOOK:
                self.options.update(res.get("options") or {})
            if isinstance(res, dict) and OUTCOME in (res.get("ansible_facts") or {}):
                return self._outcome(res["ansible_facts"][OUTCOME])
        elif outcome == "skipped":
            counts["skipped"] += 1
        elif outcome == "failed" and data.get("ignore_errors"):
            counts["ignored"] += 1
        elif outcome in ("failed", "unreachable"):
            counts[outcome] += 1
            return [self._failure(host, outcome, data)]
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

    def _failure(self, host: str, outcome: str, data: dict[str, Any]) -> tuple[str, str]:
        failure: dict[str, Any] = {
            "host": host,
            "play": self.play,
            "role": data.get("role") or "",
            "task": data.get("task") or "",
            "message": failure_message(data.get("res")),
            "unreachable": outcome == "unreachable",
            "rescued": False,
        }
        self.failures.append(failure)
        where = f"{failure['role']} : {failure['task']}" if failure["role"] else failure["task"]
        body = "".join(f"\n    {line}" for line in failure["message"].splitlines())
        return "failure", f"{'UNREACHABLE' if failure['unreachable'] else 'FAILED'} {host} | {where}{body}"

    def _stats(self, data: dict[str, Any]) -> None:
        self._close_task()
        self.finished = True
        names = sorted(set().union(*(data.get(key) or {} for key in (*STATS.values(), "processed"))))
        self.hosts = {
            host: {count: int((data.get(key) or {}).get(host, 0)) for count, key in STATS.items()} for host in names
        }
        for host, counts in self.hosts.items():
            # The events of a block do not say whether a rescue follows; the closing counts do.
            lasting = counts["failed"] + counts["unreachable"]
            failures = [failure for failure in self.failures if failure["host"] == host]
            for failure in failures[: len(failures) - lasting]:
                failure["rescued"] = True

    def close(self, status: str, rc: int | None) -> None:
        """Settle the state from the runner's closing status and exit code."""
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
            text = "\n".join(self.tail) or "ansible-playbook gave no output"
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
