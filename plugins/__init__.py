# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Save CPU seconds of Ansible's process: keep compiled modules, and search for garbage rarely.

Ansible's loader of collections compiles each file at each start: the 170 files of a look at a node cost a quarter of a
CPU second of every run. Python itself keeps the compiled files of the packages below. Ansible runs this file before any
plugin of the collection and ships it with no module.
"""

from __future__ import annotations

import atexit
import functools
import gc
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from typing import Any

COLLECTION = "ansible_collections.mlcluster.aws."
PACKAGES = tuple(COLLECTION + package for package in ("plugins.module_utils.", "plugins.plugin_utils.", "hooks."))
ANSIBLE = "_AnsibleCollectionFinder"
# Objects between two searches for garbage, as in plays of the boot hook.
OBJECTS = 100_000


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


def install(finders: list[Any]) -> bool:
    """Put the finder in front of Ansible's; return False in a process that has none, or ours already."""
    names = [type(finder).__name__ for finder in finders]
    if ANSIBLE not in names or CompiledFinder.__name__ in names:
        return False
    finders.insert(names.index(ANSIBLE), CompiledFinder())
    return True


def collect_rarely() -> None:
    """Let this process search for garbage rarely, and not at its end.

    Python's defaults search each 700 objects, and twice in all objects as the process ends: a third of the CPU seconds
    of a short run.
    """
    if 0 < gc.get_threshold()[0] < OBJECTS:
        gc.set_threshold(OBJECTS)
    atexit.register(gc.freeze)


if install(sys.meta_path):
    collect_rarely()
