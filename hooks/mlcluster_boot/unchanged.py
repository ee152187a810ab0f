# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check by the facts of the roles, without Ansible, that this node is still configured."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

from .node import Role

SCHEMA = "mlcluster.configured/1"


def request_key(bundle: str, roles: Sequence[Role], variables: Mapping[str, Any]) -> str:
    """Return a checksum of a run's request: the bundle, the roles and the variables of the play."""
    asked = [bundle, [[role.full_name, role.required] for role in roles], variables]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


def forget(path: Path) -> None:
    """Remove the record before the node is changed, so that an interrupted run leaves none."""
    path.unlink(missing_ok=True)


def remember(path: Path, key: str, roles: Sequence[Role], options: Mapping[str, Mapping[str, Any]]) -> None:
    """Record the request of a run that configured the node, if every role of the run supports ``look``."""
    names = [_short_name(role) for role in roles]
    if all(name in options for name in names):
        document = {"schema": SCHEMA, "key": key, "options": {name: options[name] for name in names}}
        Host().write_text(str(path), json.dumps(document, indent=2, sort_keys=True) + "\n", 0o600)


def look(path: Path, key: str, roles: Sequence[Role], variables: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the state of each role if the node is unchanged since the last run; None in case of doubt.

    None without a record, with a record of another request, and if a role refuses, differs, has a problem, does not
    answer or lacks hardware of the node: the play then reports the rest. ``variables`` are those of the play.
    """
    host = Host()
    record = host.read_json(str(path))
    if not isinstance(record, dict) or record.get("schema") != SCHEMA or record.get("key") != key:
        return None
    options = record.get("options")
    names = [_short_name(role) for role in roles]
    if not isinstance(options, dict) or any(name not in options for name in names):
        return None
    started = time.monotonic()
    answers = _ask(host, {name: options[name] for name in names})
    if answers is None or any(_is_changed(name, answers[name], options[name], variables) for name in names):
        return None
    seconds = round(time.monotonic() - started, 3)
    return [
        {"role": role.name, "required": role.required, "state": "configured", "seconds": seconds, "changed": 0}
        for role in roles
    ]


def _ask(host: Host, options: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    """Return the answer of each role; None if one of them does not support ``look``."""
    # Imported here: only a node with a record needs these 140 files.
    from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.domains import DOMAINS
    from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.look import look_all

    return look_all(host, options) if options.keys() <= DOMAINS.keys() else None


def _is_changed(name: str, answer: Mapping[str, Any], options: Mapping[str, Any], variables: Mapping[str, Any]) -> bool:
    from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.hardware import missing

    plan = answer["plan"]
    if answer["failed"] or not plan["empty"] or plan["refusals"] or answer["problems"]:
        return True
    return bool(missing(name, answer, options, variables))


def _short_name(role: Role) -> str:
    """Return the short name of a role of this collection; a role of another keeps its full name."""
    return role.full_name.removeprefix("mlcluster.aws.")
