# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser of the mlcluster command."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from ..verdict import result


class Parser(argparse.ArgumentParser):
    """A parser that exits with 3 on a usage error: argparse uses 2, which means undeterminable here."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error on standard error, and exit with 3."""
        self.print_usage(sys.stderr)
        self.exit(result.EXIT_USAGE, f"{self.prog}: {message}\n")
