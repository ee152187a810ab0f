# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The selection of ``make quick``: the files that differ from main, and the unit tests that they concern."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.build.layers import imported, package_of

UNIT = Path("tests", "unit")


def git(checkout: Path, *words: str) -> list[str]:
    """Return the lines that git prints; none if it fails."""
    done = subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_files(checkout: Path) -> list[str]:
    """Return the files that differ from where this branch left main, committed or not; deleted ones left out."""
    bases = (git(checkout, "merge-base", "HEAD", branch) for branch in ("@{upstream}", "origin/main", "main", "HEAD"))
    (base,) = next(filter(None, bases))
    changed = git(checkout, "diff", "--name-only", "--diff-filter=d", "--no-renames", base)
    return sorted({*changed, *git(checkout, "ls-files", "--others", "--exclude-standard")})


def _names(path: str, tree: ast.AST) -> Iterator[str]:
    """Return the dotted names of the collection and the tests that a file imports."""
    yield from (name for _line, name in imported(path, tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tests":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importers(checkout: Path) -> dict[str, set[str]]:
    """Return each file with the files that import it, by paths in the checkout. Raises SyntaxError."""
    found: dict[str, set[str]] = {}
    paths = [path for place in ("plugins", UNIT) for path in sorted((checkout / place).rglob("*.py"))]
    known = {path.relative_to(checkout).as_posix() for path in paths}
    for name in known:
        for dotted in _names(name, ast.parse((checkout / name).read_text(encoding="utf-8"))):
            # The last part may be what a module defines.
            for place in (dotted, dotted.rpartition(".")[0]):
                file = f"{place.replace('.', '/')}.py"
                if file in known:
                    found.setdefault(file, set()).add(name)
    return found


def _dependents(changed: str, checkout: Path) -> Iterator[Path]:
    """Return the test files that import a changed one, directly or by way of others."""
    graph, seen, left = importers(checkout), {changed}, [changed]
    while left:
        fresh = graph.get(left.pop(), set()) - seen
        seen |= fresh
        left += fresh
    paths = map(Path, seen)
    yield from (path for path in paths if path.is_relative_to(UNIT) and path.name.startswith("test_"))


def _concerned(name: str, checkout: Path) -> Iterator[Path]:
    path = Path(name)
    if path.is_relative_to(UNIT) and path.name.startswith("test_"):
        yield path
        return
    # Unit tests mirror the tree.
    mirrored = path if path.is_relative_to(UNIT) else UNIT / name.removeprefix("tests/")
    package = package_of(name.removesuffix(".py").replace("/", "."))
    named = mirrored.with_name(f"test_{path.stem}.py")
    if package not in ("", "plugins.modules"):
        yield UNIT / package.replace(".", "/")
        yield from _dependents(name, checkout)
    elif (checkout / named).exists():
        yield named
    elif path.parts[0] == "roles":
        yield from (found.relative_to(checkout) for found in checkout.glob(f"{UNIT}/roles/test_{path.parts[1]}*.py"))
    else:
        # The nearest folder that has tests.
        folder = next((parent for parent in mirrored.parents if (checkout / parent).is_dir()), UNIT)
        if folder != UNIT:
            yield folder
    if path.suffix == ".md":
        yield UNIT / "docs_check"


def tests_of(changed: Sequence[str], checkout: Path) -> list[str]:
    """Return the unit tests for changed files, none named twice or within another."""
    found = {path for name in changed for path in _concerned(name, checkout) if (checkout / path).exists()}
    return sorted(str(path) for path in found if found.isdisjoint(path.parents))
