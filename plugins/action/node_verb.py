# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import printable

MODULE = "mlcluster.aws.node_verb"
# Seconds without an answer after which the task gives up; the keeper on the node ends the verb at about that time.
NO_ANSWER_SECONDS = 600.0
# The key in Ansible's result if the module was killed or could not start, as with a full disk or memory.
CRASH_KEY = "module_stdout"
ARGUMENTS: dict[str, Any] = {
    "verb": {"type": "list", "elements": "str", "required": True},
    "runtime": {"type": "path"},
    "python": {"type": "path"},
    "stdin": {"type": "str"},
    "interval": {"type": "int", "default": 10},
}


class ActionModule(ActionBase):
    """Start the verb with the module and poll it, because a module cannot print lines before its end."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        answer: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        if not 1 <= given["interval"] <= 300 or not given["verb"]:
            raise AnsibleActionFail("interval must be 1 to 300 seconds, and verb a list that is not empty")
        begin = {key: value for key, value in given.items() if value is not None}
        started = self._execute_module(module_name=MODULE, module_args=begin, task_vars=task_vars)
        if started.get("failed") or "directory" not in started:
            answer.update(started, failed=True)
            return answer
        where = {"directory": started["directory"]}
        seen = self._follow(where, given["interval"], task_vars)
        if seen.get("over"):
            self._look({**where, "forget": True}, task_vars)
        outcome = seen.get("outcome") or {}
        answer.update(changed=bool(outcome.get("changed")), rc=seen.get("rc"), outcome=outcome)
        if seen.get("rc") != 0:
            errors = printable(" ".join(str(seen.get("errors") or "").split()))
            answer.update(
                failed=True, msg=errors or seen.get("msg") or self._exit_message(given["verb"], seen.get("rc"))
            )
        return answer

    def _follow(self, where: dict[str, Any], interval: int, task_vars: Any) -> dict[str, Any]:
        """Show lines until the verb ends or the node stops answering."""
        offset, answered = 0, time.monotonic()
        while True:
            seen = self._look({**where, "offset": offset, "interval": interval}, task_vars)
            if "offset" in seen:
                offset, answered = seen["offset"], time.monotonic()
                for line in seen["text"].splitlines():
                    self._display.display(printable(line))
                if seen["over"]:
                    return seen
            elif not (seen.get("unreachable") or CRASH_KEY in seen):
                return seen
            elif time.monotonic() - answered > NO_ANSWER_SECONDS:
                return {"msg": f"the node does not answer: {seen.get('msg')}; submitted jobs continue: run this again"}
            else:
                time.sleep(interval)

    def _look(self, arguments: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        try:
            seen: dict[str, Any] = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
        except AnsibleConnectionFailure as exc:
            # The verb continues on the node.
            return {"unreachable": True, "msg": str(exc)}
        return seen

    @staticmethod
    def _exit_message(verb: list[str], rc: Any) -> str:
        if rc is None:
            return f"{verb[0]} ended without an exit status, as when it is killed: see /var/log/mlcluster on the node"
        return f"{verb[0]} ended with {rc} without error output: see its lines above"
