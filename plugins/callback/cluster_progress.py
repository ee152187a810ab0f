# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_progress
type: stdout
short_description: A line for each role instead of one for each node and task
version_added: 0.1.0
description:
  - Shows how far a run over many nodes is. On a terminal, one line is kept up to date with the role, the task, how many
    nodes have ended it, and at last which nodes everybody waits for. Elsewhere, each role has one line when it is over.
  - A failure is shown at once and whole. What C(debug) says is shown, once where many nodes say the same.
  - Tasks that went well say nothing; with C(-v) those that changed something say so for each node, with C(-vv) all do.
    For what they returned, use another callback.
author:
  - mlcluster.aws contributors (@mlcluster-aws)
requirements:
  - Set C(stdout_callback = mlcluster.aws.cluster_progress) in C(ansible.cfg), or the variable
    E(ANSIBLE_STDOUT_CALLBACK).
"""

import sys
import time
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible_collections.mlcluster.aws.hooks.mlcluster_boot.play import Display
from ansible_collections.mlcluster.aws.hooks.mlcluster_boot.tracker import failure_message
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import printable
from ansible_collections.mlcluster.aws.plugins.plugin_utils._progress import Progress


def _role_of(task: Any) -> str:
    """The short name of the task's role, empty for one outside of roles."""
    role = getattr(task, "_role", None)
    return role.get_name().rpartition(".")[2] if role is not None else ""


class CallbackModule(CallbackBase):
    """Translates Ansible's events; what is shown is decided in _progress."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "mlcluster.aws.cluster_progress"

    def __init__(self) -> None:
        super().__init__()
        self.screen = Display(sys.stdout)
        self.progress = Progress(time.monotonic())
        self.said: set[str] = set()

    def _show(self, lines: list[str]) -> None:
        for line in lines:
            self.screen.line(printable(line))
        if self.screen.terminal and self.progress.line():
            self.screen.task(printable(self.progress.line()))

    def v2_playbook_on_play_start(self, play: Any) -> None:
        lines = self.progress.end_part(time.monotonic())
        strategy = str(play.strategy).rpartition(".")[2]
        self.progress.interleaved = "free" in strategy or "pinned" in strategy
        self.said = set()
        name = play.get_name().strip()
        self._show([*lines, f"== {name}"] if name else lines)

    def v2_playbook_on_no_hosts_matched(self) -> None:
        self._show(["   no node is in its groups"])

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        if not self.progress.interleaved:
            self.said = set()
        self._show(self.progress.task(_role_of(task), task.get_name().strip(), time.monotonic()))

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self.progress.start(host.get_name())

    def v2_runner_on_ok(self, result: Any) -> None:
        changed = bool(result._result.get("changed"))
        self._ended(result, "ok", changed)
        lines = self._debugged(result)
        if self._display.verbosity > (0 if changed else 1):
            word = "changed" if changed else "ok"
            lines = [f"   {word} {result._host.get_name()} | {result._task.get_name().strip()}", *lines]
        self._show(lines)

    def _debugged(self, result: Any) -> list[str]:
        """What a debug task says, once for all nodes that say it."""
        if result._task.action not in ("debug", "ansible.builtin.debug"):
            return []
        message = result._result.get("msg")
        text = "\n".join(map(str, message)) if isinstance(message, (list, tuple)) else str(message or "")
        if not text or text in self.said:
            return []
        self.said.add(text)
        return [f"   {line}" for line in text.splitlines()]

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._ended(result, "skipped")
        self._show([])

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._ended(result, "ok" if ignore_errors else "failed")
        self._show([] if ignore_errors else self._failure("FAILED", result))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        ignored = bool(getattr(result._task, "ignore_unreachable", False))
        self._ended(result, "ok" if ignored else "unreachable")
        self._show([] if ignored else self._failure("UNREACHABLE", result))

    def _ended(self, result: Any, outcome: str, changed: bool = False) -> None:
        host = result._host.get_name()
        self.progress.result(host, outcome, changed, role=_role_of(result._task), now=time.monotonic())

    def _failure(self, word: str, result: Any) -> list[str]:
        task = result._task.get_name().strip()
        told = failure_message(result._result).splitlines()
        return [f"{word} {result._host.get_name()} | {task}", *(f"    {line}" for line in told)]

    def v2_playbook_on_stats(self, stats: Any) -> None:
        counts = {host: stats.summarize(host) for host in sorted(stats.processed)}
        lines = self.progress.finish(counts, time.monotonic())
        self.screen.end()
        for line in lines:
            self.screen.line(printable(line))
