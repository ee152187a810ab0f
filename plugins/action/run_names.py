# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars
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
                "roles": {"type": "list", "elements": "str", "default": list(names.ROLES)},
                "variables": {"type": "list", "elements": "str", "default": []},
                "prefix": {"type": "str", "default": ""},
            }
        )
        # The command line, because the magic variables are "all" by default.
        arguments = context.CLIARGS
        tags = {
            "--tags": [str(tag) for tag in arguments.get("tags") or ()],
            "--skip-tags": [str(tag) for tag in arguments.get("skip_tags") or ()],
        }
        ours = is_ours(arguments.get("args"))
        roles = [role.removeprefix(NAMESPACE) for role in given["roles"]]
        problems, warnings = self._tags(tags, roles, given["has_tags"], ours)
        extra = [str(name) for name in load_extra_vars(self._loader)]
        hostvars = task_vars["hostvars"]
        # Names only, without templating: a template may be invalid or slow. The implicit localhost is left out.
        chosen = set(task_vars["ansible_play_hosts_all"]) & set(task_vars["groups"]["all"])
        hosts = {host: [name for name in hostvars.raw_get(host) if name not in extra] for host in sorted(chosen)}
        # Only the specs of roles whose prefix is in use: every boot of a node runs this.
        prefixes = tuple(f"{role}_" for role in names.ROLES)
        used = {name for name in itertools.chain(extra, *hosts.values()) if name.startswith(prefixes)}
        known = names.known_variables(
            roles=[role for role in names.ROLES if any(name.startswith(f"{role}_") for name in used)]
        )
        others = names.known_variables(roles=[role for role in roles if role in names.OTHER_ROLES])
        misspelt = names.rejected_variables(
            extra,
            known,
            [*given["variables"], *itertools.chain.from_iterable(others.values())],
            given["prefix"],
            given["own_variables"],
        )
        (problems if ours else warnings).extend(misspelt)
        if problems:
            raise AnsibleActionFail("; ".join(problems))
        warnings += names.misnamed_groups(given["wanted_groups"], task_vars["groups"])
        warnings += names.unknown_variables(hosts, known, given["own_variables"])
        return {**result, "changed": False, "warnings": warnings, "unknown": warnings}

    def _tags(
        self, tags: Mapping[str, Sequence[str]], roles: Sequence[str], has_tags: bool, ours: bool
    ) -> tuple[list[str], list[str]]:
        """Return the errors and the warnings about the tags of this run."""
        if not roles:
            return [], []
        if ours and not has_tags:
            return names.useless_tags(tags), []
        # A role of another collection may have any tag.
        own = [role for role in roles if role in (*names.ROLES, *names.OTHER_ROLES)]
        known = names.known_tags(own)
        if not ours or len(own) < len(roles):
            return [], names.similar_tags(tags, known)
        return names.tag_problems(tags, known) or names.idle_tags(tags, own), []
