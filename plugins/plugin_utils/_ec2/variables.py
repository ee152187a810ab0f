# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host variables and their names: the options ``variables`` and ``hostvars_prefix``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible.vars.reserved import is_reserved_name

# Two inventories compare it to see whether a name is of the same instance, so it is always set.
IDENTITY = "instance_id"
# Ansible's special variables that is_reserved_name does not list and that do not begin with ansible_.
_MAGIC = frozenset(
    "groups group_names hostvars inventory_dir inventory_file inventory_hostname inventory_hostname_short omit "
    "play_hosts playbook_dir role_name role_names role_path vars".split()
)
_PREFIX = re.compile(r"(?:[a-z_][a-z0-9_]*_)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class VariablesError(ValueError):
    """An unusable choice of variables; the message names the option and states what to use instead."""


def prefix(given: str) -> str:
    """Return the prefix. Raises VariablesError if it cannot begin the name of a variable."""
    if not _PREFIX.fullmatch(given):
        raise VariablesError(
            f"hostvars_prefix: '{given}' must be small letters, digits and _ and end with _, or be empty"
        )
    return given


def choose(given: Any, start: str, usual: Sequence[str], known: Iterable[str]) -> dict[str, str]:
    """Map fields of a record to names of variables, in the order in which they are set.

    ``given`` is the option: empty for ``usual``; a list of fields for only those; a mapping of fields to true (add it),
    false (leave it out) or a name (the full name of the variable). ``known`` are all fields that may be named.
    Raises VariablesError.
    """
    fields = set(known)
    chosen = {field: start + field for field in usual}
    if isinstance(given, Mapping):
        for field, value in given.items():
            _check_field(str(field), fields)
            chosen.pop(str(field), None)
            if value is not False:
                chosen[str(field)] = start + str(field) if value is True else _name(str(field), value)
    elif isinstance(given, (list, tuple)):
        chosen = {str(field): start + str(field) for field in given} if given else chosen
        for field in chosen:
            _check_field(field, fields)
    elif given:
        raise VariablesError(
            f"variables: is '{given}'; use a list of variables, or a dictionary of them to true, false or another name"
        )
    chosen = {IDENTITY: chosen.pop(IDENTITY, start + IDENTITY), **chosen}
    _check_names(chosen, start)
    return chosen


def _check_field(field: str, known: set[str]) -> None:
    if field not in known:
        close = difflib.get_close_matches(field.removeprefix("ec2_"), known, 1)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known))}"
        raise VariablesError(f"variables: instances have no '{field}'; {hint}")


def _name(field: str, value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise VariablesError(f"variables: {field} is {value!r}; use true, false, or the name of a variable")
    return "".join(value)


def _check_names(chosen: Mapping[str, str], start: str) -> None:
    owners: dict[str, str] = {}
    for field, name in chosen.items():
        if name in _MAGIC or is_reserved_name(name) or name.startswith("ansible_"):
            raise VariablesError(
                f"variables: {field} would be the variable '{name}', which Ansible keeps for itself; "
                f"give it another name, as in variables: {{{field}: ec2_{field}}}"
            )
        if name in owners:
            raise VariablesError(f"variables: {owners[name]} and {field} are both to be '{name}'; give each its own")
        owners[name] = field
