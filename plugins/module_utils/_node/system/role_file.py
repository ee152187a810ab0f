# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an applied role, kept on the node (``mlcluster.role/1``) for looks without Ansible."""

from __future__ import annotations

import json
import typing as t

from .config_file import read_config
from .host import Host, NodeError
from .plan import File

SCHEMA = "mlcluster.role/1"
DIRECTORY = "/etc/mlcluster/roles"
NAME = "role options"


def path_of(role: str) -> str:
    """Return the path of the options of a role."""
    return f"{DIRECTORY}/{role}.json"


def role_file(role: str, options: t.Mapping[str, t.Any], spec: t.Mapping[str, t.Mapping[str, t.Any]]) -> File:
    """Return the file of a role, without options that are ``no_log``; equal options give equal texts."""
    kept = {name: value for name, value in options.items() if not spec[name].get("no_log")}
    text = json.dumps({"schema": SCHEMA, "role": role, "options": kept}, indent=2, sort_keys=True)
    # For root only: the address of a package may be a signed one.
    return File(NAME, path_of(role), f"{text}\n", mode="0600")


def read_role_file(host: Host, role: str) -> dict[str, t.Any]:
    """Return the options in the file of a role. Raises ``NodeError`` if it is missing or invalid."""
    path = path_of(role)
    found = read_config(host, path, role)
    options = found.get("options") if isinstance(found, dict) and found.get("schema") == SCHEMA else None
    if not isinstance(options, dict):
        raise NodeError(f"{path} is not of {SCHEMA}: run the role {role} again to write it")
    return options


def written_roles(host: Host) -> list[str]:
    """Return the roles with options on this node, sorted."""
    return [name[: -len(".json")] for name in host.listdir(DIRECTORY) if name.endswith(".json")]
