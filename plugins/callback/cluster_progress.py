# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_progress
type: stdout
short_description: Print one line for each role instead of one for each node and task
version_added: 0.1.0
description:
  - Shows the progress of a run over many nodes. On a terminal, one line is updated with the role, the task, the number
    of nodes that have finished it, and finally the nodes that are waited for. Elsewhere, each role has one line at its
    end.
  - A failure is shown at once, with the first six lines of its message. Output of C(debug) is shown, also of a loop
    or a variable, once if it is the same on many nodes.
  - Warnings of tasks are shown as the callback C(default) shows them.
  - If a run of roles ends before its verdict, because no node was left, the verdict is shown here.
  - Successful tasks show no line; with C(-v) changed tasks have a line for each node, with C(-vv) all tasks have one.
    To see the results of tasks, use another callback.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
requirements:
  - Set C(stdout_callback = mlcluster.aws.cluster_progress) in C(ansible.cfg), or the variable
    E(ANSIBLE_STDOUT_CALLBACK).
"""

import json
import sys
import time
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible_collections.mlcluster.aws.hooks.mlcluster_boot.events import (
    STATS,
    Event,
    closing_counts,
    is_interleaved,
)
from ansible_collections.mlcluster.aws.hooks.mlcluster_boot.play import Display
from ansible_collections.mlcluster.aws.hooks.mlcluster_boot.tracker import Tracker
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import printable
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import journal, verdict

CONTROLLER = "localhost"


def _task_fields(task: Any) -> dict[str, Any]:
    """Return role (its short name, empty outside of roles), name and action of a task."""
    role = getattr(task, "_role", None)
    # A task that includes a role belongs to it, also if it is skipped.
    name = role.get_name() if role is not None else str(getattr(task, "_role_name", None) or "")
    return {
        "role": "" if "{{" in name else name.rpartition(".")[2],
        "task": str(task.name or task.action).strip(),
        "action": str(task.action),
    }


def _debug_text(item: Any, variable: Any) -> str:
    """Return the output of one debug: its message, or the variable with its value."""
    if item.get("skipped"):
        return ""
    if variable is not None:
        return f"{variable}: {json.dumps(item.get(str(variable)), ensure_ascii=False, default=str)}"
    message = item.get("msg")
    return "\n".join(map(str, message)) if isinstance(message, (list, tuple)) else str(message or "")


class CallbackModule(CallbackBase):
    """Turn Ansible's callbacks into events; the tracker decides what is shown, as for the boot hook."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "mlcluster.aws.cluster_progress"

    def __init__(self) -> None:
        super().__init__()
        self.screen = Display(sys.stdout)
        self.tracker = Tracker("", time.monotonic())
        self.messages: set[str] = set()

    def _handle(self, event: Event, more: list[str] | None = None) -> None:
        """Show one event, then the lines of ``more``."""
        lines: list[str] = []
        for shown, text in self.tracker.handle(event):
            if shown == "play" and text:
                lines.append(f"== {text}")
            elif shown == "no_hosts":
                lines.append(f"   {text}")
            elif shown in ("role", "failure", "end"):
                lines += text.splitlines()
        for line in [*lines, *(more or [])]:
            self.screen.line(printable(line))
        now = self.tracker.progress.line()
        if self.screen.terminal and now and not self.tracker.finished:
            self.screen.task(printable(now))

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self.messages = set()
        name, free = play.get_name().strip(), is_interleaved(play.strategy)
        self._handle(Event("play", time.monotonic(), name=name, interleaved=free))

    def v2_playbook_on_no_hosts_matched(self) -> None:
        self._handle(Event("no_hosts", time.monotonic()))

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        if not self.tracker.progress.interleaved:
            self.messages = set()
        self._handle(Event("task", time.monotonic(), **_task_fields(task)))

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self._handle(Event("start", time.monotonic(), host=host.get_name()))

    def v2_runner_on_ok(self, result: Any) -> None:
        changed = bool(result._result.get("changed"))
        lines = self._debug_lines(result)
        if self._display.verbosity > (0 if changed else 1):
            word = "changed" if changed else "ok"
            lines = [f"   {word} {result._host.get_name()} | {_task_fields(result._task)['task']}", *lines]
        self._handle_result(result, "ok", more=lines)

    def _debug_lines(self, result: Any) -> list[str]:
        """Return the output of a debug task, of a loop each item's, once for all nodes with the same message."""
        if result._task.action not in ("debug", "ansible.builtin.debug"):
            return []
        lines = []
        for item in result._result.get("results", [result._result]):
            text = _debug_text(item, result._task.args.get("var"))
            if text and text not in self.messages:
                self.messages.add(text)
                lines += [f"   {line}" for line in text.splitlines()]
        return lines

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._handle_result(result, "skipped")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._handle_result(result, "failed", ignored=ignore_errors)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._handle_result(result, "unreachable", ignored=bool(getattr(result._task, "ignore_unreachable", False)))

    def _handle_result(self, result: Any, outcome: str, ignored: bool = False, more: list[str] | None = None) -> None:
        event = Event(
            "result",
            time.monotonic(),
            host=result._host.get_name(),
            outcome=outcome,
            ignored=ignored,
            result=result._result,
            **_task_fields(result._task),
        )
        self._handle(event, more)
        if result._result.get("warnings"):
            # Warnings go to stderr, outside the updated line.
            self.screen.end()
            self._handle_warnings(result._result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self.screen.end()
        tables = {name: dict(getattr(stats, name)) for name in (*STATS.values(), "processed")}
        lines = self._verdict(stats)
        if CONTROLLER in tables["processed"] and len(tables["processed"]) > 1:
            # The controller is not a node, but its failure fails the run.
            if tables["failures"].get(CONTROLLER):
                lines.append("the run FAILED on the controller; its message is above")
            tables = {
                name: {host: count for host, count in table.items() if host != CONTROLLER}
                for name, table in tables.items()
            }
        self._handle(Event("stats", time.monotonic(), counts=closing_counts(tables)), lines)

    def _verdict(self, stats: Any) -> list[str]:
        """Return the verdict if no task has reported it: Ansible ends a run when no node of a play is left."""
        entries = journal.read(journal.path())
        if not entries:
            return []
        bad = {*stats.failures, *stats.dark}
        known = {entry.host for entry in entries}
        hosts = [host for host in sorted(stats.processed) if host != CONTROLLER or host in known]
        return verdict.lines(verdict.table(entries, hosts, bad))
