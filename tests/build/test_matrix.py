# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the inventory's tests under every ansible-core that is supported, each on a Python that it supports.

`python -m tests.build.test_matrix [2.17 ...]`. The environments lie in .build/matrix and are kept. A version whose
Python is not on this machine is skipped with a sentence; that is no failure, but no test run is one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = CHECKOUT / ".build" / "matrix"
TESTS = ("tests/integration/inventory", "tests/unit/plugins/plugin_utils", "tests/unit/plugins/inventory")
# Their versions come from the lock of the build.
PACKAGES = ("boto3", "jmespath", "pyyaml", "pytest", "pytest-timeout", "hypothesis", "moto", "flask", "flask-cors")
# The last one for a Python that the lock's own no longer supports.
OLDER = {"3.10": {"hypothesis": "6.168.5"}}
LOCK = CHECKOUT / "requirements" / "build.txt"


class Row(NamedTuple):
    """One version of ansible-core, and the Pythons to try in this order."""

    core: str
    pythons: tuple[str, ...]


MATRIX = (
    Row("2.17.14", ("3.10",)),
    Row("2.19.14", ("3.11", "3.12")),
    Row("2.21.5", ("3.12", "3.13")),
)


def find(version: str) -> tuple[str, str] | None:
    """The version and a Python of it: on the PATH, or where pyenv puts them; None without one that starts."""
    homes = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"), reverse=True)
    for candidate in (shutil.which(f"python{version}"), *map(str, homes)):
        if candidate is None:
            continue
        told = subprocess.run(
            [candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if told.stdout.strip() == version:
            return version, candidate
    return None


def pinned(names: tuple[str, ...], lock: str, python: str) -> list[str]:
    """``name==version`` of the packages as the lock has them, or OLDER. Raises KeyError for one that it has not."""
    known = dict(re.findall(r"^([a-z0-9-]+)==([^\s;\\]+)", lock, re.MULTILINE))
    known.update(OLDER.get(python, {}))
    return [f"{name}=={known[name]}" for name in names]


def ensure(row: Row, version: str, python: str) -> Path:
    """The Python of the row's environment, made when it is not there or not finished."""
    folder = ENVIRONMENTS / f"{row.core}-python{version}"
    wanted = [f"ansible-core=={row.core}", *pinned(PACKAGES, LOCK.read_text(encoding="utf-8"), version)]
    stamp = folder / "installed"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8").split() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
        subprocess.run([*pip, *wanted], check=True)
        stamp.write_text("\n".join(wanted), encoding="utf-8")
    return folder / "bin" / "python"


def run(row: Row) -> int | None:
    """The exit status of the tests under one row; None when it was skipped."""
    found = next(filter(None, map(find, row.pythons)), None)
    if found is None:
        print(f"ansible-core {row.core}: skipped, no Python {' or '.join(row.pythons)} on this machine", flush=True)
        return None
    try:
        interpreter = ensure(row, *found)
    except subprocess.CalledProcessError as problem:
        print(f"ansible-core {row.core}: its environment could not be made ({problem})", flush=True)
        return 1
    print(f"ansible-core {row.core} on {found[1]}", flush=True)
    tests = [path for path in TESTS if (CHECKOUT / path).is_dir()]
    command = [str(interpreter), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    values = {**os.environ, "PATH": f"{interpreter.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    return subprocess.run(command, cwd=CHECKOUT, env=values, check=False).returncode


def main(versions: list[str]) -> int:
    """Run the rows that ``versions`` name (2.17), or all; 0 when what ran passed and something ran."""
    rows = [row for row in MATRIX if not versions or any(row.core.startswith(f"{name}.") for name in versions)]
    results = {row.core: run(row) for row in rows}
    for core, status in results.items():
        word = "skipped" if status is None else f"FAILED ({status})" if status else "passed"
        print(f"ansible-core {core}: {word}")
    ran = [status for status in results.values() if status is not None]
    if not ran:
        print("no version could be tested", file=sys.stderr)
    return 0 if ran and not any(ran) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
