# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.release import __version__ as core_version
from ansible.utils.display import Display
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.files import replace_file
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import journal, names, verdict

display = Display()


class ActionModule(ActionBase):
    """Report the results that roles have kept, on the controller only."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(
            argument_spec={
                "report": {"type": "path"},
                "role": {"type": "str"},
                "results": {"type": "list", "elements": "dict", "default": []},
                "problems": {"type": "list", "elements": "str", "default": []},
                "reason": {"type": "str"},
                "required": {"type": "bool", "default": True},
            }
        )
        check, file = bool(self._task.check_mode), journal.path()
        if given["role"]:
            entry = journal.Entry(
                host=task_vars["inventory_hostname"],
                role=given["role"],
                final=True,
                concerned=not given["reason"],
                reason=given["reason"] or "",
                problems=given["problems"],
                results=given["results"],
                required=given["required"],
                check=check,
            )
            journal.add([entry], file)
            return {**result, "changed": False}
        wanted = [host for host in task_vars["ansible_play_hosts_all"] if host in task_vars["groups"]["all"]]
        ended = set(wanted) - set(task_vars["ansible_play_hosts"])
        table = verdict.table(journal.read(file), wanted, ended)
        lines = verdict.lines(table)
        for line in lines:
            display.display(line)
        report = "" if check or not table else given["report"] or ""
        if report:
            report = self._write(Path(report), table)
        journal.finish(file)
        result.update(
            changed=False,
            lines=lines,
            nodes={host: {role: found.state for role, found in cells.items()} for host, cells in table.items()},
        )
        sentence = verdict.sentence(table, report)
        if sentence and not check:
            return {**result, "failed": True, "msg": sentence}
        return result

    @staticmethod
    def _write(path: Path, table: verdict.Table) -> str:
        """Write the report and return its path; an unwritable path is a warning, since the verdict stands."""
        versions = {"ansible-core": core_version, "mlcluster.aws": _runtime.collection_version(names.COLLECTION)}
        time = Host().now()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, verdict.reports(table, time, versions).encode(), 0o644)
        except OSError as exc:
            display.warning(f"the verdict cannot be written to {path} ({exc.strerror}): set mlcluster_verdict_report")
            return ""
        return str(path)
