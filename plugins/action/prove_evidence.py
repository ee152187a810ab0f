# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.release import __version__ as core_version
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.files import replace_file
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime
from ansible_collections.mlcluster.aws.plugins.plugin_utils._prove import evidence
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import names


class ActionModule(ActionBase):
    """Write the evidence of a run, on the controller only."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(
            argument_spec={
                "path": {"type": "path", "required": True},
                "reports": {"type": "path", "required": True},
                "type": {"type": "str", "required": True},
                "image": {"type": "str", "required": True},
                "started": {"type": "str", "required": True},
                "steps": {"type": "list", "elements": "dict", "required": True},
                "done": {"type": "list", "elements": "dict", "default": []},
            }
        )
        folder = Path(given["reports"])
        finished = Host().now()
        try:
            facts = json.loads(_read(folder / "facts.json") or "{}")
            reports = {step["name"]: _read(folder / f"{step['name']}.jsonl") for step in given["steps"]}
            versions = {"ansible-core": core_version, "mlcluster.aws": _runtime.collection_version(names.COLLECTION)}
            document = evidence.build({**given, "facts": facts, "finished": finished}, reports, versions)
            text = json.dumps(document, indent=1) + "\n"
            if not self._task.check_mode:
                replace_file(Path(given["path"]), text.encode(), 0o644)
        except (OSError, ValueError, KeyError, TypeError) as exc:
            return {**result, "failed": True, "msg": f"no evidence was written to {given['path']}: {exc}"}
        return {**result, "changed": True, "evidence": document, "unproved": evidence.unproved(document)}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
