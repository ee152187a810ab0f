# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run ansible-test sanity from the checkout, without the host that its pip bootstrap is fetched from."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
LINT = CHECKOUT / ".venv-lint"

# ansible-test wants get-pip of a fixed version in its cache; ensurepip gives the same result from
# what Python ships, and the packages proper then come from wherever pip is told to look.
STAND_IN = """import ensurepip

ensurepip.bootstrap(upgrade=True, default_pip=True)
"""


def cache_home() -> Path:
    """The HOME that ansible-test gets, so that nothing is written into the user's own ~/.ansible."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mlcluster" / "ansible-test"


def bootstrap_versions(requirements: str) -> list[str]:
    """The pip versions named in the text of ansible-test's python_requirements.py."""
    return re.findall(r"\bpip='([0-9.]+)'", requirements)


def write_stand_ins(home: Path, package: Path) -> None:
    """Put the stand-in where ansible-test looks for each get-pip it may ask for."""
    source = (package / "_internal" / "python_requirements.py").read_text(encoding="utf-8")
    versions = bootstrap_versions(source)
    if not versions:
        raise SystemExit("ERROR: this ansible-test does not say which pip it wants: look at tests/build/sanity.py.")
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in versions:
        (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(STAND_IN, encoding="utf-8")


def environment(home: Path) -> dict[str, str]:
    """What ansible-test is run with."""
    result = dict(os.environ)
    # The user's package index is theirs to choose; a new HOME must not hide it.
    config = Path.home() / ".config" / "pip" / "pip.conf"
    if config.exists():
        result.setdefault("PIP_CONFIG_FILE", str(config))
    result.update(
        HOME=str(home),
        PATH=f"{LINT / 'bin'}{os.pathsep}{result.get('PATH', os.defpath)}",
        ANSIBLE_TEST_CONTENT_ROOT=str(CHECKOUT / ".collections" / "ansible_collections" / "mlcluster" / "aws"),
    )
    return result


def main(arguments: list[str]) -> int:
    """Run the sanity tests; more arguments are handed to ansible-test. Returns its status."""
    home = cache_home()
    (package,) = LINT.glob("lib/python3.*/site-packages/ansible_test")
    write_stand_ins(home, package)
    python = package.parents[1].name.removeprefix("python")
    command = [str(LINT / "bin" / "ansible-test"), "sanity", "--color", "no", "--python", python, *arguments]
    collection = CHECKOUT / ".collections" / "ansible_collections" / "mlcluster" / "aws"
    return subprocess.run(
        command, cwd=collection, env=environment(home), stdin=subprocess.DEVNULL, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
