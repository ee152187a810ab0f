# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of a role on one host, with the role's own defaults below them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader

COLLECTION = Path(__file__).resolve().parents[3]
# Ansible's mapping of all hosts, which renders a variable when it is read. Rendered as a whole it would cost every
# variable of every host, and fail with an error in any of them.
HOSTVARS = "hostvars"


def role_directory(role: str) -> Path:
    """Return the directory of a role of this collection."""
    return COLLECTION / "roles" / role


@functools.cache
def read_defaults(role: str) -> dict[str, Any]:
    """Return ``defaults/main.yml`` of a role, with its expressions marked as templates."""
    path = str(role_directory(role) / "defaults" / "main.yml")
    # The loader copies what it returns unless it is ``unsafe`` to change: here nothing changes it.
    loader = DataLoader()
    # ansible-core 2.19 and newer template only trusted strings.
    if "trusted_as_template" in inspect.signature(loader.load_from_file).parameters:
        return dict(loader.load_from_file(path, unsafe=True, trusted_as_template=True) or {})
    return dict(loader.load_from_file(path, unsafe=True) or {})


class Variables(Mapping[str, Any]):
    """Variables by name, templated when they are read; a name without a value is missing.

    ``given`` are those of the task, ``template`` renders a value with the mapping of variables passed to it. The
    defaults are used for names that are not in ``given``, as before the role has begun.
    """

    def __init__(self, role: str, given: Mapping[str, Any], template: Callable[[Any, Mapping[str, Any]], Any]) -> None:
        self.role = role
        self._given = given
        self._template = template
        self._all: Mapping[str, Any] | None = None

    def _known(self) -> Mapping[str, Any]:
        if self._all is None:
            self._all = {**read_defaults(self.role), **self._given}
        return self._all

    def __getitem__(self, name: str) -> Any:
        if name == HOSTVARS and name in self._given:
            return self._given[name]
        if name in self._given:
            return self._template(self._given[name], self._all or self._given)
        return self._template(self._known()[name], self._known())

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __contains__(self, name: object) -> bool:
        return name in self._given or name in self._known()
