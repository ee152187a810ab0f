# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The range is for sbatch: `sbatch --array=$(python -m mlcluster_data array INPUTS --limit 8) ...`. There is one task
for each input, or fewer when --tasks says so; --limit is how many of them run at once.
"""

from __future__ import annotations

import argparse

from . import arguments
from .errors import PASS, DataError
from .manifest import inputs_of


def spec(inputs: int, tasks: int | None = None, limit: int | None = None) -> str:
    """The value of --array for so many inputs: `0-9%4`. Raises DataError."""
    if min(inputs, tasks or 1, limit or 1) < 1:
        raise DataError("an array needs an input, a task and a limit of 1 or more")
    last = min(inputs, tasks or inputs) - 1
    return f"0-{last}%{limit}" if limit else f"0-{last}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("input", type=arguments.path, help="folder with the inputs")
    parser.add_argument("--tasks", type=int, help="at most so many tasks (one for each input)")
    parser.add_argument("--limit", type=int, help="at most so many at once")


def run(args: argparse.Namespace) -> int:
    """Print the range."""
    print(spec(len(inputs_of(args.input)), args.tasks, args.limit))
    return PASS
