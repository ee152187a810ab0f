# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The start of ``make`` on a bare machine: install the system packages and nox, then become the suite.

    python -m tests.build.start SUITE|SESSION [ARGUMENT...]

It needs nothing but Python.
"""

from __future__ import annotations

import os
import sys

from tests.build import environments, packages


def main(arguments: list[str]) -> int:
    """Return 1 when something is missing that cannot be installed; otherwise the suite takes over."""
    os.chdir(environments.CHECKOUT)
    if sys.prefix != sys.base_prefix:
        # An activated environment may be one that set-up is about to make again.
        os.execv(sys._base_executable, [sys._base_executable, "-m", "tests.build.start", *arguments])
    try:
        environments.require_python(sys.version_info[:2])
        with environments.locked("start"):
            packages.ensure(environments.REQUIREMENTS / "apt-debian.txt", environments.show)
            nox = environments.CHECKOUT / ".build" / "nox"
            python = str(environments.ensure_environment(nox, environments.REQUIREMENTS / "nox.txt"))
    except packages.SetupError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return os.execv(python, [python, "-m", "tests.build.suite", *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
