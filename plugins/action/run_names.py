# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import names

NAMESPACE = "mlcluster.aws."


def is_ours(playbooks: Any) -> bool:
    """Return whether all playbooks of the command line belong to the collection, so that there are no other tags."""
    given = [str(one) for one in playbooks or ()]
    root = names.COLLECTION.resolve()
    # Not the playbooks of molecule/, which have their own tags.
    own_folders = (root, root / "playbooks")
    return bool(given) and all(
        one.startswith(NAMESPACE) or (Path(one).is_file() and Path(one).resolve().parent in own_folders)
        for one in given
    )


class ActionModule(ActionBase):
    """Check the names on the command line and in the inventory, on the controller only."""

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(
            argument_spec={
                "own_variables": {"type": "list", "elements": "str", "default": []},
                "wanted_groups": {"type": "list", "elements": "str", "default": []},
                "has_tags": {"type": "bool", "default": True},
            }
        )
        # The command line, because the magic variables are "all" by default.
        arguments = context.CLIARGS
        tags = {
            "--tags": [str(tag) for tag in arguments.get("tags") or ()],
            "--skip-tags": [str(tag) for tag in arguments.get("skip_tags") or ()],
        }
        known = names.known_tags()
        is_own = is_ours(arguments.get("args"))
        check = names.tag_problems if given["has_tags"] else names.useless_tags
        if is_own and (problems := check(tags, known)):
            raise AnsibleActionFail("; ".join(problems))
        warnings = [] if is_own else names.similar_tags(tags, known)
        warnings += names.misnamed_groups(given["wanted_groups"], task_vars["groups"])
        hostvars = task_vars["hostvars"]
        # Names only, without templating: a template may be invalid or slow. The implicit localhost is left out.
        chosen = set(task_vars["ansible_play_hosts_all"]) & set(task_vars["groups"]["all"])
        hosts = {host: list(hostvars.raw_get(host)) for host in sorted(chosen)}
        warnings += names.unknown_variables(hosts, names.known_variables(), given["own_variables"])
        return {**result, "changed": False, "warnings": warnings, "unknown": warnings}
