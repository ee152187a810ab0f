# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run every style and type check; two at a time, each with its own words when it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import house_rules

CHECKOUT = Path(__file__).resolve().parents[2]
LINT_BIN = CHECKOUT / ".venv-lint" / "bin"
COLLECTION = CHECKOUT / ".collections" / "ansible_collections" / "mlcluster" / "aws"
BUILD = CHECKOUT / ".build" / "galaxy"

# Slowest first, so that two workers end together.
CHECKS: dict[str, list[str]] = {
    "ansible-lint": ["ansible-lint", "--offline", "--strict", "-q"],
    "galaxy-importer": ["{python}", "-m", "tests.build.lint", "galaxy-importer"],
    "mypy": ["mypy"],
    "ruff check": ["ruff", "check", "--quiet"],
    "ruff format": ["ruff", "format", "--check", "--output-format", "concise"],
    "yamllint": ["yamllint", "--strict", "."],
    "shellcheck": ["{python}", "-m", "tests.build.lint", "shellcheck"],
    "antsibull-changelog": ["antsibull-changelog", "lint"],
    "house rules": ["{python}", "-m", "tests.build.house_rules"],
}


def environment() -> dict[str, str]:
    """The lint environment's programs first; collections from the checkout only."""
    result = dict(os.environ)
    result["PATH"] = f"{LINT_BIN}{os.pathsep}{result.get('PATH', os.defpath)}"
    result["ANSIBLE_COLLECTIONS_PATH"] = str(CHECKOUT / ".collections")
    result["NO_COLOR"] = "1"
    return result


def is_shell(name: str) -> bool:
    """Whether a file of the checkout is a shell script, by its name or its first line."""
    if name.endswith((".j2", ".py", ".yml")):
        return False
    with (CHECKOUT / name).open("rb") as file:
        first = file.readline(80)
    return name.endswith(".sh") or (first.startswith(b"#!") and first.split(b"/")[-1].split()[-1] in (b"sh", b"bash"))


def shellcheck() -> int:
    """Check every shell script that git knows."""
    scripts = [name for name in house_rules.tracked_files(CHECKOUT) if is_shell(name)]
    return subprocess.run(["shellcheck", "--", *scripts], cwd=CHECKOUT, check=False).returncode


def galaxy_importer() -> int:
    """Build the archive as a user would and let Galaxy's own importer judge it."""
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    build = ["ansible-galaxy", "collection", "build", "--force", "--output-path", str(BUILD)]
    if subprocess.run(build, cwd=CHECKOUT, check=False).returncode:
        return 1
    (archive,) = BUILD.glob("*.tar.gz")
    settings = dict(
        os.environ,
        GALAXY_IMPORTER_RUN_ANSIBLE_LINT="false",
        GALAXY_IMPORTER_ANSIBLE_LOCAL_TMP=str(BUILD / "tmp"),
    )
    command = [str(LINT_BIN / "python"), "-m", "galaxy_importer.main", archive.name]
    result = subprocess.run(command, cwd=BUILD, env=settings, capture_output=True, text=True, check=False)
    words = result.stdout + result.stderr
    print(words)
    # The importer ends with 0 even when it refuses the archive; its log tells.
    refused = "ERROR" in words or "Importer processing completed successfully" not in words
    return 1 if result.returncode or refused else 0


def run_check(item: tuple[str, list[str]]) -> tuple[str, int, float, str]:
    """One check: its name, exit status, seconds and output."""
    name, command = item
    print(f"{name}: started", flush=True)
    begin = time.monotonic()
    command = [sys.executable if word == "{python}" else word for word in command]
    program = shutil.which(command[0], path=environment()["PATH"])
    if program is None:
        return name, 127, 0.0, f"{command[0]} is not there: run make setup first."
    result = subprocess.run(
        [program, *command[1:]],
        cwd=CHECKOUT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return name, result.returncode, time.monotonic() - begin, result.stdout


def main() -> int:
    """Run all checks; 1 when one failed."""
    failed = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        for name, status, seconds, output in pool.map(run_check, CHECKS.items()):
            if status:
                failed.append(name)
                print(output.rstrip())
            print(f"{name}: {'FAILED' if status else 'ok'}, {seconds:.1f} s", flush=True)
    print(f"failed: {', '.join(failed)}" if failed else f"all {len(CHECKS)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    actions = {"galaxy-importer": galaxy_importer, "shellcheck": shellcheck}
    sys.exit(actions[sys.argv[1]]() if len(sys.argv) > 1 else main())
