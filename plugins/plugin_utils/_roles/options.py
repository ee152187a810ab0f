# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a role for a node, made of its variables and of what only the controller knows, and judged."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.domains import DOMAINS, Domain
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.look import option_errors
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.argument_types import coerce, kind_of
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.argument_types import problems as type_problems
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.distribution import UNSUPPORTED
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import read_defaults, role_directory

OLDEST_PYTHON = (3, 9)


def _controller_part(key: str) -> Any:
    """The module of a role, or of a part of one, in this folder; None without one."""
    name = f"ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.{key}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name != name:
            raise
        return None


# Ansible loads an action in its own process and forks one for each task and host: what is loaded here is loaded once.
PARTS = {key: _controller_part(key) for key in DOMAINS}
for _role in {_domain.role for _domain in DOMAINS.values()}:
    if role_directory(_role).is_dir():
        read_defaults(_role)


def role_options(domain: Domain, variables: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The options that ``variables`` (whole names) give a role, and what is wrong with them, a sentence each.

    An option that no variable and no default has is left out. A role with more for its node has a module of its key
    in this folder with ``controller_options(variables) -> dict``, ``controller_problems(variables)`` where only the
    controller can judge an option, and ``CONTROLLER_SPEC`` of variables that no node is told, by their whole names.
    """
    prefix = f"{domain.role}_"
    given = {}
    for name, option in domain.spec.items():
        value = variables.get(prefix + name)
        if value is None:
            continue
        if kind_of(option) == "a text" and isinstance(value, float):
            # YAML has made 13.1 of 13.10 already.
            return {}, [f"{prefix}{name} is {value}, a number; give a text in quotes, such as '{value}'"]
        given[name] = coerce(kind_of(option), value)
    part = PARTS.get(domain.key)
    own = getattr(part, "CONTROLLER_SPEC", {})
    found = [*type_problems({name: variables.get(name) for name in own}, own), *option_errors(domain, given)]
    if part is None or found:
        return given, found
    given.update(part.controller_options(variables))
    problems = getattr(part, "controller_problems", _no_problems)
    return given, [*problems(variables), *option_errors(domain, given)]


def is_wanted(domain: Domain, given: Mapping[str, Any], variables: Mapping[str, Any]) -> bool:
    """Whether site.yml has the role for a node of its groups; ``given`` are the variables without defaults.

    The module of a role may have ``is_wanted(given, variables)``.
    """
    ask = getattr(PARTS.get(domain.key), "is_wanted", None)
    return bool(ask(given, variables)) if ask else True


def _no_problems(variables: Mapping[str, Any]) -> list[str]:
    return []


def system_problems(host: str, facts: Mapping[str, Any]) -> list[str]:
    """Why no role runs on a node with these facts of Ansible; what is not known is not a problem."""
    if facts.get("distribution") == "Amazon" and str(facts.get("distribution_major_version")) == "2":
        return [UNSUPPORTED["amzn", "2"]]
    python = (facts.get("python") or {}).get("version") or {}
    version = (python.get("major"), python.get("minor"))
    if None not in version and version < OLDEST_PYTHON:
        found = f"{host} has Python {version[0]}.{version[1]}"
        return [f"{found} and this role needs 3.9 or newer: install it and set ansible_python_interpreter"]
    return []


def checksum(role: str, options: Mapping[str, Any], run: str, is_check: bool) -> str:
    """What an answer is kept under: another role, option, run or mode has another."""
    text = json.dumps([role, options, run, is_check], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
