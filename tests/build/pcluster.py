# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make .venv-pcluster whole: set-up installs what judges a configuration; making a cluster needs more, and Node.js."""

from __future__ import annotations

import shutil
import sys
import time

from . import environments, packages
from .setup import CHECKOUT


def main() -> int:
    """Install what is missing; returns the exit status."""
    begin = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - begin:4.0f} s] {text}", flush=True)

    where = CHECKOUT / ".venv-pcluster"
    lock = CHECKOUT / "requirements" / "pcluster.txt"
    try:
        # Node.js of any origin will do; only without one the distribution's is installed.
        if not shutil.which("node"):
            packages.ensure(CHECKOUT / "requirements" / "apt-pcluster.txt", say)
        say(f"{where.name}: installing {lock.name}")
        environments.install(where, lock)
    except packages.SetupError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    say(f"{where.name}/bin/pcluster is there")
    return 0


if __name__ == "__main__":
    sys.exit(main())
