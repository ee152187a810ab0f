# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make a checkout ready to work in: system packages, Python environments, collections.

Everything that is there already is left alone, so that a second run costs a second; what an
interrupted run left half made is made again.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import environments, packages

CHECKOUT = Path(__file__).resolve().parents[2]
# `make setup RETRY=1`: try again what could not be had before.
RETRY = "RETRY"
# In an environment that could not be made: the key that it was to have.
NOT_HAD = ".not-had"


def ensure_data(requirements: Path, say: Callable[[str], None]) -> None:
    """The environment of the data programs. The CPU build of torch that is pinned is one for Python 3.11."""
    here = sys.version_info[:2] == (3, 11)
    python = sys.executable if here else environments.find_python("python3.11")
    if python is None:
        say(
            ".venv-data: left out, for it needs Python 3.11: install that and try again to run the parts slurm and data"
        )
        return
    where, lock, build = CHECKOUT / ".venv-data", requirements / "data.txt", requirements / "torch-cpu.txt"
    key = environments.environment_key([lock, build], where, python)
    mark = where / NOT_HAD
    if not os.environ.get(RETRY) and mark.is_file() and mark.read_text(encoding="utf-8") == key:
        # A minute of every `make` otherwise, for what is as absent as it was.
        say(
            ".venv-data: left out as before, so the parts slurm and data cannot run: torch could not be had with these"
            f" pins; make setup {RETRY}=1 tries again"
        )
        return
    try:
        environments.ensure_environment(where, lock, say, build=build, index=environments.TORCH_INDEX, python=python)
    except packages.SetupError as error:
        # Nothing but these two parts needs it, and they fail without it.
        say(f".venv-data: left out, so the parts slurm and data cannot run: {error}")
        where.mkdir(exist_ok=True)
        mark.write_text(key, encoding="utf-8")


def main() -> int:
    """Run every step; returns the exit status."""
    if sys.prefix != sys.base_prefix:
        # From inside an activated environment it would delete the Python that it runs on.
        os.chdir(CHECKOUT)
        os.execv(sys._base_executable, [sys._base_executable, "-m", "tests.build.setup"])
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - begin:4.0f} s] {text}", flush=True)

    collections = CHECKOUT / ".collections"
    collections.mkdir(exist_ok=True)
    requirements = CHECKOUT / "requirements"
    try:
        environments.require_python(sys.version_info[:2])
        with open(collections / ".lock", "w", encoding="utf-8") as lock:
            # Two set-ups at once would delete each other's half-made environment.
            fcntl.flock(lock, fcntl.LOCK_EX)
            packages.ensure(requirements / "apt-debian.txt", say)
            environments.ensure_environment(CHECKOUT / ".venv", requirements / "build.txt", say)
            environments.ensure_environment(CHECKOUT / ".venv-lint", requirements / "lint.txt", say)
            ensure_data(requirements, say)
            environments.ensure_environment(
                CHECKOUT / ".venv-pcluster", requirements / "pcluster-check.txt", say, partial=True
            )
            interpreter = CHECKOUT / ".venv" / "bin" / "python"
            environments.ensure_collections(collections, requirements / "collections.txt", interpreter, say)
            environments.ensure_link(collections, CHECKOUT)
    except packages.SetupError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    say("set-up is complete")
    return 0


if __name__ == "__main__":
    sys.exit(main())
