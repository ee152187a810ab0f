# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``make quick`` runs: the files that differ from main, and the unit tests that they concern."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.build.layers import LEVELS, package_of

UNIT = Path("tests", "unit")


def git(checkout: Path, *words: str) -> list[str]:
    """The lines that git prints; none when it fails."""
    done = subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_files(checkout: Path) -> list[str]:
    """Files that differ from where this branch left main, committed or not; deleted ones left out."""
    bases = (git(checkout, "merge-base", "HEAD", branch) for branch in ("@{upstream}", "origin/main", "main", "HEAD"))
    (base,) = next(filter(None, bases))
    changed = git(checkout, "diff", "--name-only", "--diff-filter=d", "--no-renames", base)
    return sorted({*changed, *git(checkout, "ls-files", "--others", "--exclude-standard")})


def packages_from(package: str) -> list[str]:
    """The package and all packages of higher layers, which may import it."""
    return [package, *(other for other, level in LEVELS.items() if level > LEVELS[package])]


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
        for above in packages_from(package):
            yield UNIT / above.replace(".", "/")
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
    """The unit tests that changed files concern, none named twice or within another."""
    found = {path for name in changed for path in _concerned(name, checkout) if (checkout / path).exists()}
    return sorted(str(path) for path in found if found.isdisjoint(path.parents))
