# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lets Python itself load the packages below, so that what it has compiled is kept.

Ansible's loader of collections compiles each file at each start: the 170 files of a look at a node cost a quarter of a
CPU second of every run. Plugins themselves Ansible loads by their path, as Python would. It runs this file before any
of them and ships it with no module.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from typing import Any

COLLECTION = "ansible_collections.mlcluster.aws."
PACKAGES = tuple(COLLECTION + package for package in ("plugins.module_utils.", "plugins.plugin_utils.", "hooks."))
ANSIBLE = "_AnsibleCollectionFinder"


@functools.cache
def _finder(folder: str) -> FileFinder:
    return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))


class CompiledFinder:
    """Finds the modules of ``PACKAGES`` for ``sys.meta_path``, and leaves all others to Ansible."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return how Python loads a module, None for another's and for a folder without code of its own."""
        if not path or not name.startswith(PACKAGES):
            return None
        spec = _finder(path[0]).find_spec(name)
        return spec if spec is not None and spec.loader is not None else None


def install(finders: list[Any]) -> None:
    """Put the finder in front of Ansible's; do nothing in a process that has none, or ours already."""
    names = [type(finder).__name__ for finder in finders]
    if ANSIBLE in names and CompiledFinder.__name__ not in names:
        finders.insert(names.index(ANSIBLE), CompiledFinder())


install(sys.meta_path)
