# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import printable
from ansible_collections.mlcluster.aws.plugins.plugin_utils._slurm.follow import BROKEN, Entry, Follow, Wishes, sentence

ARGUMENTS: dict[str, Any] = {
    "jobs": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "job_id": {"type": "int", "required": True},
            "exit_file": {"type": "path"},
        },
    },
    "timeout": {"type": "int", "default": 3600},
    "cancel_on_timeout": {"type": "bool", "default": False},
    "fail_on_error": {"type": "bool", "default": True},
    "every": {"type": "int", "default": 10},
    "prefix": {"type": "path"},
    "conf": {"type": "path"},
}


class ActionModule(ActionBase):
    """Looks again and again with ``slurm_job``, for a module could say nothing before its end."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        answer: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        if not 1 <= given["every"] <= 300 or given["timeout"] < 0:
            raise AnsibleActionFail("every has to be 1 to 300 seconds, and timeout 0 or more")
        if self._task.check_mode:
            answer.update(skipped=True, msg="nothing is followed in check mode", jobs=[])
            return answer
        entries = [Entry(one["name"], one["job_id"], one["exit_file"]) for one in given["jobs"]]
        changed = False

        def look(entry: Entry, seconds: float, cancel: bool) -> dict[str, Any]:
            nonlocal changed
            # The module counts whole seconds; a wait of none is one look.
            told = self._ask(given, entry, int(seconds), cancel, task_vars)
            changed = changed or bool(told.get("changed"))
            return told

        wishes = Wishes(given["timeout"], given["every"], given["cancel_on_timeout"])
        Follow(look, self._say, time.monotonic, wishes).run(entries)
        wrong = [text for text in map(sentence, entries) if text]
        answer.update(changed=changed, jobs=[entry.result() for entry in entries])
        if wrong and given["fail_on_error"]:
            answer.update(failed=True, msg="; ".join(wrong))
        return answer

    def _ask(self, given: dict[str, Any], entry: Entry, seconds: int, cancel: bool, task_vars: Any) -> dict[str, Any]:
        arguments = {
            "job_id": entry.job_id,
            "exit_file": entry.exit_file,
            "timeout": seconds,
            "cancel_on_timeout": cancel,
            "fail_on_error": False,
            "prefix": given["prefix"],
            "conf": given["conf"],
        }
        try:
            told: dict[str, Any] = self._execute_module(
                module_name="mlcluster.aws.slurm_job",
                module_args={key: value for key, value in arguments.items() if value is not None},
                task_vars=task_vars,
            )
        except AnsibleConnectionFailure as exc:
            # The job goes on without us, and so does the wait.
            time.sleep(min(given["every"], max(seconds, 1)))
            return {"failed": True, "unreachable": True, "msg": str(exc)}
        if BROKEN in told:
            time.sleep(min(given["every"], max(seconds, 1)))
        return told

    def _say(self, line: str) -> None:
        self._display.display(f"{time.strftime('%H:%M:%S')} {printable(line)}")
