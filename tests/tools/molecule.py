# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run Molecule from the checkout: scenarios by name, or all that live in containers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from . import containers

CHECKOUT = Path(__file__).resolve().parents[2]


def scenarios(folder: Path) -> list[str]:
    """Names of all scenarios; those that need a virtual node end in _vm."""
    return sorted(path.parent.name for path in folder.glob("*/molecule.yml"))


def in_containers(names: list[str]) -> list[str]:
    """Those of ``names`` that need no virtual node."""
    return [name for name in names if not name.endswith("_vm")]


def main(arguments: list[str]) -> int:
    """Run the scenarios named, or all; returns Molecule's status."""
    known = scenarios(CHECKOUT / "molecule")
    if unknown := [name for name in arguments if name not in known]:
        print(f"ERROR: no scenario {unknown[0]}: there are {', '.join(known)}.", file=sys.stderr)
        return 2
    command = [str(CHECKOUT / ".venv" / "bin" / "molecule"), "test", "--no-command-borders"]
    for name in arguments or in_containers(known):
        command += ["--scenario-name", name]
    environment = dict(os.environ, NO_COLOR="1")
    with containers.locked("molecule"):
        return subprocess.run(command, cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
