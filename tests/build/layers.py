# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Layers of the collection: which package may import which, the rule that checks it and the picture that shows it.

A package may import packages of lower layers and its own modules. Packages of one layer do not import each other.
``python -m tests.build.layers`` writes the picture in docs/architecture.md again.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
COLLECTION = "ansible_collections.mlcluster.aws."
IN_ROOMS = "plugins/module_utils/_node/"

# Lowest layer first. Rooms that a node runs and the controller reads:
ROOMS = (
    ("verdict",),
    ("system",),
    ("storage", "accelerator", "slurm", "gds"),
    ("efa", "containers", "imex", "lustre", "scratch"),
    ("nccl", "health"),
    ("jobs",),
    ("node",),
    ("cli",),
)
# And the packages around it. Modules stand beside plugin_utils: Ansible ships only module_utils with a module.
PACKAGES = (
    ("module_utils._data",),
    *(tuple(f"module_utils._node.{room}" for room in layer) for layer in ROOMS),
    ("module_utils._bundle", "module_utils._cluster"),
    ("plugin_utils", "modules"),
    ("action", "callback", "filter", "inventory", "lookup"),
)
LEVELS = {f"plugins.{package}": level for level, layer in enumerate(PACKAGES) for package in layer}
LEVELS["plugins.doc_fragments"] = LEVELS["plugins.__init__"] = 0

BLOCK = re.compile(r"(<!-- picture: layers -->\n).*?(<!-- /picture -->)", re.DOTALL)


def package_of(module: str) -> str:
    """Return the package of a dotted name below the collection, ``""`` for a name outside every package."""
    parts = module.split(".")
    for length in (4, 3, 2):
        package = ".".join(parts[:length])
        if package in LEVELS:
            return package
    return ""


def imported(path: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name, below the collection, of every import of its own modules, at any depth."""
    here = path[: -len(".py")].split("/")
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*here[: -node.level], *filter(None, [node.module])]) if node.level else str(node.module)
            names = [f"{base}.{alias.name}" for alias in node.names]
            if node.level:
                names = [COLLECTION + name for name in names]
        for name in names:
            if name.startswith(COLLECTION):
                yield node.lineno, name[len(COLLECTION) :]


def layers(path: str, text: str) -> Iterator[str]:
    """Yield imports from a lower layer into a higher one, or between packages of one layer."""
    if not path.startswith("plugins/") or not path.endswith(".py"):
        return
    own = package_of(path[: -len(".py")].replace("/", "."))
    if not own:
        if text.strip():
            yield f"{path}:1: in no layer: move it, or add its package to tests/build/layers.py"
        return
    for line, name in imported(path, ast.parse(text)):
        other = package_of(name)
        if not name.startswith("plugins.") or other == own:
            continue
        where = f"{path}:{line}: {own[len('plugins.') :]} may not import"
        if not other:
            yield f"{where} {name}: layer unknown, add its package to tests/build/layers.py"
        elif LEVELS[other] >= LEVELS[own]:
            order = "is the same layer" if LEVELS[other] == LEVELS[own] else f"is below layer {LEVELS[other]}"
            yield f"{where} {other[len('plugins.') :]}: layer {LEVELS[own]} {order}"


def picture() -> str:
    """Return the layers as a mermaid chart; an arrow points to who may import."""
    lines = ["```mermaid", "flowchart LR"]
    for level, layer in enumerate(PACKAGES):
        label = "<br/>".join(package.replace("module_utils.", "") for package in layer)
        lines.append(f'  L{level}["{label}"]')
    lines.append("  " + " --> ".join(f"L{level}" for level in range(len(PACKAGES))))
    return "\n".join([*lines, "```"])


def renewed(text: str) -> str:
    """Return the page with an up-to-date picture. Raises ValueError without a place for it."""
    new, count = BLOCK.subn(lambda found: f"{found[1]}{picture()}\n{found[2]}", text)
    if count != 1:
        raise ValueError(f"{PAGE.name} has {count} pictures of the layers, wanted 1: <!-- picture: layers -->")
    return new


def main() -> int:
    """Write the picture again; returns the exit status."""
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
