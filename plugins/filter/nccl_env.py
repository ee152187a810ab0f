# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render and check the environment of NCCL, with the table and the functions that the node uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import environment as engine
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

_SETTING = ("plugin", "nccl", "libfabric", "use")
_SWITCHES = ("huge_pages", "pin_network", "accept_harmful")
_REQUEST = ("debug", "huge_pages", "pin_network", "net_plugin", "extra", "accept_harmful")


def _setting(what: str, instance_type: str | None, options: dict[str, Any]) -> engine.Setting:
    chosen = {key: options.pop(key) for key in _SETTING if options.get(key) is not None}
    for key in _SETTING:
        options.pop(key, None)
    if options:
        raise NodeError(f"{what} does not know {', '.join(sorted(options))}")
    numbers = [f"{key} is the number {value}" for key, value in chosen.items() if isinstance(value, float)]
    if numbers:
        raise NodeError(f"{', '.join(numbers)}: put the version into quotes, for as numbers 1.20 and 1.2 are the same")
    return engine.Setting(instance_type=instance_type or None, **{key: str(value) for key, value in chosen.items()})


def nccl_env(instance_type: str, **options: Any) -> dict[str, Any]:
    """Return the environment for an instance type. Raises AnsibleFilterError."""
    try:
        requested = {key: options.pop(key) for key in _REQUEST if key in options}
        requested.update({key: _boolean(key, requested[key]) for key in _SWITCHES if key in requested})
        if not isinstance(requested.get("extra", {}), Mapping):
            raise NodeError("extra must map names of variables to values")
        return engine.render(_setting("nccl_env", instance_type, options), engine.Options(**requested))
    except NodeError as exc:
        raise AnsibleFilterError(f"nccl_env: {exc}") from exc


def nccl_env_lint(variables: Any, instance_type: str | None = None, **options: Any) -> list[dict[str, Any]]:
    """Return a verdict on each variable of a dictionary, or of a string with assignments. Raises AnsibleFilterError."""
    try:
        return engine.lint(_checked(variables), _setting("nccl_env_lint", instance_type, options))
    except NodeError as exc:
        raise AnsibleFilterError(f"nccl_env_lint: {exc}") from exc


def nccl_env_problem(variables: Any, instance_type: str | None = None, **options: Any) -> str:
    """Return a sentence that names harmful and misspelt variables; empty if there are none."""
    try:
        return engine.problem(_checked(variables), _setting("nccl_env_problem", instance_type, options))
    except NodeError as exc:
        return str(exc)


def _boolean(name: str, value: Any) -> bool:
    try:
        return bool(boolean(value))
    except TypeError:
        raise NodeError(f"{name} is {value!r}: use true or false") from None


def _checked(variables: Any) -> Mapping[str, object] | str:
    if not isinstance(variables, (Mapping, str)):
        raise NodeError("use a dictionary of names to values, or a string with assignments")
    return variables


class FilterModule:
    """The filters of this file, for Ansible's loader."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"nccl_env": nccl_env, "nccl_env_lint": nccl_env_lint, "nccl_env_problem": nccl_env_problem}
