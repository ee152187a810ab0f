# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build and check the options of a role for a node, from its variables and the controller's data."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.domains import DOMAINS, Domain
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.look import option_errors
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.argument_types import coerce, type_name
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.argument_types import problems as type_problems
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.distribution import UNSUPPORTED
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import read_defaults, role_directory

OLDEST_PYTHON = (3, 9)


def _controller_part(key: str) -> Any:
    """Return the module of a role, or of a part of one, in this folder; None without one."""
    name = f"ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.{key}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name != name:
            raise
        return None


# Ansible loads an action once and forks a process for each task and host: modules loaded here are loaded once.
PARTS = {key: _controller_part(key) for key in DOMAINS}
for _role in {_domain.role for _domain in DOMAINS.values()}:
    if role_directory(_role).is_dir():
        read_defaults(_role)


def role_options(domain: Domain, variables: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the options of a role from ``variables`` (full names), and their problems, a sentence each.

    An option without a variable and a default is left out. A role with controller data has a module of its key in this
    folder with ``controller_options(variables) -> dict``, ``controller_problems(variables)`` for options that only the
    controller can check, and ``CONTROLLER_SPEC`` of variables that are not sent to nodes, by their full names.
    """
    prefix = f"{domain.role}_"
    given = {}
    for name, option in domain.spec.items():
        value = variables.get(prefix + name)
        if value is None:
            continue
        if type_name(option) == "a string" and isinstance(value, float):
            # YAML reads 13.10 as 13.1.
            return {}, [f"{prefix}{name} is {value}, a number; use a string in quotes, such as '{value}'"]
        given[name] = coerce(type_name(option), value)
    part = PARTS.get(domain.key)
    own = getattr(part, "CONTROLLER_SPEC", {})
    found = [*type_problems({name: variables.get(name) for name in own}, own), *option_errors(domain, given)]
    if part is None or found:
        return given, found
    given.update(part.controller_options(variables))
    problems = getattr(part, "controller_problems", _no_problems)
    return given, [*problems(variables), *option_errors(domain, given)]


def is_wanted(domain: Domain, given: Mapping[str, Any], variables: Mapping[str, Any]) -> bool:
    """Return whether site.yml applies the role to a node of its groups; ``given`` are the variables without defaults.

    The module of a role may have ``is_wanted(given, variables)``.
    """
    ask = getattr(PARTS.get(domain.key), "is_wanted", None)
    return bool(ask(given, variables)) if ask else True


def _no_problems(variables: Mapping[str, Any]) -> list[str]:
    return []


def system_problems(host: str, facts: Mapping[str, Any]) -> list[str]:
    """Return why no role runs on a node with these Ansible facts; unknown facts are not a problem."""
    if facts.get("distribution") == "Amazon" and str(facts.get("distribution_major_version")) == "2":
        return [UNSUPPORTED["amzn", "2"]]
    python = (facts.get("python") or {}).get("version") or {}
    version = (python.get("major"), python.get("minor"))
    if None not in version and version < OLDEST_PYTHON:
        found = f"{host} has Python {version[0]}.{version[1]}"
        return [f"{found} and this role needs 3.9 or newer: install it and set ansible_python_interpreter"]
    return []


def checksum(role: str, options: Mapping[str, Any], run: str, is_check: bool) -> str:
    """Return the key of an answer; it differs for another role, option, run or mode."""
    text = json.dumps([role, options, run, is_check], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
