# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _artifacts
from ansible_collections.mlcluster.aws.plugins.plugin_utils._containers import image
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import role_directory

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "base": {"type": "str", "required": True},
    "name": {"type": "str", "default": "training"},
    "directory": {"type": "str", "default": "/fsx/images"},
    "push": {"type": "str", "default": ""},
    "build_arguments": {"type": "dict", "default": {}},
    "requirements": {"type": "str", "default": ""},
    "efa_version": {"type": "str", "default": ""},
    "source": {"type": "str", "choices": ["auto", "preinstalled", "mirror", "local", "upstream"], "default": "auto"},
    "mirror_url": {"type": "str", "default": ""},
    "local_files": {"type": "str", "default": ""},
    "checksums": {"type": "dict", "default": {}},
    "file_names": {"type": "dict", "default": {}},
    "credentials": {"type": "list", "elements": "dict", "default": []},
}


class ActionModule(ActionBase):
    """Plan the contents of the training image on the controller."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(argument_spec=ARGUMENT_SPEC)
        folder = role_directory("training_image")
        own = given["requirements"]
        path = self._find_needle("files", own) if own else folder / "files" / "training-requirements.txt"
        host = task_vars["inventory_hostname"]
        try:
            locks = _artifacts.read_lock(_artifacts.collection_lock())
            efa = _artifacts.find("aws-efa-installer", version=given["efa_version"] or None, locks=locks)
            requirements = Path(path).read_text(encoding="utf-8").rstrip("\n") + "\n"
        except (_artifacts.ArtifactError, OSError, ValueError) as exc:
            raise AnsibleActionFail(f"{host}: {exc}") from None
        template = (folder / "templates" / "training.Dockerfile.j2").read_text(encoding="utf-8")
        made = image.recipe(given, efa, requirements, template)
        problems = made.pop("problems")
        if problems:
            raise AnsibleActionFail(f"{host}: {'; '.join(problems)}")
        return {**result, **made, "changed": False}
