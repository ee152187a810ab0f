# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rule that every source file has a unit test at the mirrored path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

UNIT = Path(__file__).resolve().parents[1] / "unit"
SOURCES = ("plugins/module_utils/_node/", "plugins/plugin_utils/", "plugins/modules/")

# Folders whose files are entries of a registry, and the test that asks the same of each: a new entry needs no other.
REGISTRIES = {"plugins/module_utils/_node/jobs/kinds": "test_kinds.py"}


def tests_of(path: str) -> list[str]:
    """Return the names, below tests/unit, that the test of a source file may have."""
    folder, _slash, name = path.rpartition("/")
    if folder in REGISTRIES:
        return [f"{folder}/{REGISTRIES[folder]}"]
    return [f"{folder}/test_{name}", f"{folder}/test_{name.lstrip('_')}"]


def mirror(path: str, text: str) -> Iterator[str]:
    """Yield source files of nodes, modules and plugin_utils without a unit test at the mirrored path."""
    if not path.startswith(SOURCES) or not path.endswith(".py") or path.endswith("__init__.py") or not text.strip():
        return
    if not any((UNIT / test).is_file() for test in tests_of(path)):
        yield f"{path}:1: has no test: write tests/unit/{tests_of(path)[-1]}"
