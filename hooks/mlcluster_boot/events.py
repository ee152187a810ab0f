# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events of a run of Ansible, the same from ansible-runner (used by the hook) and from a callback plugin."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import re
from collections.abc import Mapping
from typing import Any

COUNTS = ("ok", "changed", "failed", "unreachable", "skipped", "rescued", "ignored")
# The name of each count in Ansible's final statistics.
STATS = dict(zip(COUNTS, ("ok", "changed", "failures", "dark", "skipped", "rescued", "ignored")))
LONGEST_LINE = 1000
# Messages without a reason; the reason is in the output beside them.
EMPTY_MESSAGES = re.compile(
    r"(non-zero return code|MODULE FAILURE.*|Module result deserialization failed.*|)", re.DOTALL
)


@dataclasses.dataclass(frozen=True)
class Event:
    """One event; ``time`` is in seconds, by the clock of its source.

    ``kind`` is ``play``, ``no_hosts``, ``task``, ``start`` (a host begins a task), ``result`` (a host ended one),
    ``stats`` (the end), or empty. ``outcome`` of a result is ``ok``, ``skipped``, ``failed`` or ``unreachable``.
    ``interleaved`` is set for a play whose hosts do not wait for each other. ``counts`` of ``stats`` has a number for
    each host and each of ``COUNTS``.
    """

    kind: str
    time: float
    name: str = ""
    interleaved: bool = False
    role: str = ""
    task: str = ""
    action: str = ""
    host: str = ""
    outcome: str = ""
    ignored: bool = False
    result: Any = None
    counts: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Return whether the host ended the task with a change."""
        return self.outcome == "ok" and isinstance(self.result, Mapping) and bool(self.result.get("changed"))

    @property
    def title(self) -> str:
        """Return the task as it is shown."""
        return f"{self.role} : {self.task}" if self.role else self.task


def is_interleaved(strategy: object) -> bool:
    """Return whether hosts do not wait for each other with this strategy."""
    name = str(strategy or "").rpartition(".")[2]
    return "free" in name or "pinned" in name


def closing_counts(tables: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the counts of each host, sorted by name; Ansible has a table of hosts for each count."""
    names = sorted(set().union(*(tables.get(key) or {} for key in (*STATS.values(), "processed"))))
    return {host: {count: int((tables.get(key) or {}).get(host, 0)) for count, key in STATS.items()} for host in names}


def from_runner(event: Mapping[str, Any], latest: float) -> Event:
    """Convert an event of ansible-runner.

    ``kind`` is empty for an unused type. ``latest`` is the time of an event that has none.
    """
    time = latest
    with contextlib.suppress(KeyError, ValueError, TypeError):
        time = datetime.datetime.fromisoformat(event["created"]).timestamp()
    data = event.get("event_data") or {}
    kind = event.get("event", "")
    if kind == "playbook_on_play_start":
        name = data.get("name") or data.get("play") or ""
        return Event("play", time, name=name, interleaved=is_interleaved(data.get("strategy")))
    if kind == "playbook_on_no_hosts_matched":
        return Event("no_hosts", time)
    if kind == "playbook_on_stats":
        return Event("stats", time, counts=closing_counts(data))
    fields: dict[str, Any] = {"role": data.get("role") or "", "task": data.get("task") or data.get("name") or ""}
    if kind in ("playbook_on_task_start", "playbook_on_handler_task_start"):
        return Event("task", time, **fields)
    host, outcome = data.get("host") or "", kind.removeprefix("runner_on_")
    if kind == "runner_on_start":
        return Event("start", time, host=host)
    if outcome not in ("ok", "skipped", "failed", "unreachable"):
        return Event("", time)
    ignored = outcome == "failed" and bool(data.get("ignore_errors"))
    action, result = data.get("task_action") or "", data.get("res") or {}
    return Event("result", time, host=host, outcome=outcome, ignored=ignored, action=action, result=result, **fields)


def _tail(text: object, count: int) -> list[str]:
    return [line.rstrip() for line in str(text or "").splitlines() if line.strip()][-count:]


def failure_message(res: object) -> str:
    """Return the message of a task result in at most six lines of bounded length; a cut line ends with ….

    If the message gives no reason, the end of the output is added. For a loop, the first three failed items are shown.
    """
    if not isinstance(res, Mapping):
        return str(res)
    items = [item for item in res.get("results") or [] if isinstance(item, Mapping) and item.get("failed")]
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
    return "\n".join(map(_cut, lines)) or "the task failed and gave no message"


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"


def failure_text(event: Event) -> str:
    """Return a failure as it is shown: host, task and message."""
    body = "".join(f"\n    {line}" for line in failure_message(event.result).splitlines())
    return f"{event.outcome.upper()} {event.host} | {event.title}{body}"
