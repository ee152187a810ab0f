# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils import basic
from ansible.plugins.action import ActionBase
from ansible_collections.mlcluster.aws.plugins.plugin_utils._here import is_here

SETUP = "ansible.builtin.setup"


def gather(subset: Sequence[str]) -> dict[str, Any]:
    """Run the module setup in this process, which ends after the task. Returns facts. Raises AnsibleActionFail."""
    from ansible.modules import setup

    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": {"gather_subset": list(subset)}}).encode()
    # ansible-core 2.19 and newer: the module writes plain JSON.
    basic._ANSIBLE_PROFILE = "legacy"
    output = io.StringIO()
    # A module prints its result and exits.
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        setup.main()
    try:
        facts: dict[str, Any] = json.loads(output.getvalue())
    except ValueError as exc:
        raise AnsibleActionFail(f"setup gave no facts but {output.getvalue()[:200]!r} ({exc})") from exc
    return facts


class ActionModule(ActionBase):
    """Gather facts without another process if the node is the controller and uses Ansible's own Python."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        answer: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(
            argument_spec={"gather_subset": {"type": "list", "elements": "str", "default": ["min"]}}
        )
        if is_here(self._connection, self._task, task_vars):
            answer.update(gather(given["gather_subset"]))
        else:
            answer.update(self._execute_module(module_name=SETUP, module_args=given, task_vars=task_vars))
        return answer
