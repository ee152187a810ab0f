# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run Molecule from the checkout: scenarios by name, or all that live in containers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from . import containers

CHECKOUT = Path(__file__).resolve().parents[2]


def scenarios(folder: Path) -> list[str]:
    """Return the names of all scenarios; those of virtual nodes end in _vm. Raises FileNotFoundError without any."""
    found = sorted(path.parent.name for path in folder.glob("*/molecule.yml"))
    if not found:
        raise FileNotFoundError(f"there is no scenario below {folder}")
    return found


# For `make test-all` alone.
EXTRA = ("monitor_cluster",)


def in_containers(names: list[str]) -> list[str]:
    """Return those of ``names`` that need no virtual node and belong to every run."""
    return [name for name in names if not name.endswith("_vm") and name not in EXTRA]


def become_molecule(arguments: list[str]) -> NoReturn:
    """Replace this process by Molecule, which keeps the lock of its hosts.

    To end this process is to end Molecule, and no other run uses the hosts while Molecule lives.
    """
    program = str(CHECKOUT / ".venv" / "bin" / "molecule")
    with containers.locked("molecule") as lock, open(os.devnull, encoding="utf-8") as nothing:
        os.set_inheritable(lock, True)
        os.dup2(nothing.fileno(), sys.stdin.fileno())
        os.chdir(CHECKOUT)
        os.execve(program, [program, *arguments], dict(os.environ, NO_COLOR="1"))


def main(arguments: list[str]) -> int:
    """Run the scenarios named, or all; returns only when there is no such."""
    known = scenarios(CHECKOUT / "molecule")
    if unknown := [name for name in arguments if name not in known]:
        print(f"ERROR: no scenario {unknown[0]}: there are {', '.join(known)}.", file=sys.stderr)
        return 2
    names = arguments or in_containers(known)
    become_molecule(["test", "--no-command-borders", *(word for name in names for word in ("--scenario-name", name))])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
