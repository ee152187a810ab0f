# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rule that every place named in docs/architecture.md exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = "docs/architecture.md"
SECTION = re.compile(r"^## Where to look\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROOMS = "plugins/module_utils/_node"
# A file, and with a colon the name of what is defined in it.
POINTER = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:py|sh|yml))(?:: ([\w.]+))?`")
# A name in capitals stands for each of a kind.
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b")


def pointers(path: str, text: str) -> Iterator[str]:
    """Yield files and names of the section "Where to look" that are missing from the checkout."""
    if path != PAGE:
        return
    section = SECTION.search(text)
    if not section or not POINTER.search(section.group(1)):
        yield f"{path}:1: has no section 'Where to look' with a `file: name`"
        return
    for found in POINTER.finditer(section.group(1)):
        file, name = found.groups()
        if PLACEHOLDER.search(file):
            continue
        line = text.count("\n", 0, section.start(1) + found.start()) + 1
        source = next((place for place in (CHECKOUT / file, CHECKOUT / ROOMS / file) if place.is_file()), None)
        if source is None:
            yield f"{path}:{line}: there is no file {file}, nor one of that name below {ROOMS}"
        elif name and name not in names(source):
            yield f"{path}:{line}: {file} defines no {name}"


def names(source: Path) -> set[str]:
    """Return what a file defines: functions, classes, their methods as ``Class.method``, and constants."""
    text = source.read_text(encoding="utf-8")
    if source.suffix != ".py":
        return set(re.findall(r"^(\w+)\(\)", text, re.MULTILINE))
    return set(_defined(ast.parse(text).body))


def _defined(body: list[ast.stmt], owner: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield owner + node.name
            if isinstance(node, ast.ClassDef):
                yield from _defined(node.body, f"{owner}{node.name}.")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (owner + target.id for target in targets if isinstance(target, ast.Name))
