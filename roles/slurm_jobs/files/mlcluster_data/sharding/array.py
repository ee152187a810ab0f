# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The range is for sbatch: ``sbatch --array=$(python -m mlcluster_data array INPUTS --limit 8) ...``. There is one task
for each input, or fewer with --tasks; --limit is how many of them run at once.
"""

from __future__ import annotations

import argparse

from ..cli import arguments
from ..corpus.manifest import inputs_of
from ..errors import PASS, DataError

# slurm.conf's manual page, MaxArraySize: 1001 by default, at most this; the index of a task is below it.
ARRAY_MOST = 4_000_001


def spec(inputs: int, tasks: int | None = None, limit: int | None = None) -> str:
    """Return the value of --array for these inputs, such as ``0-9%4``. Raises DataError."""
    if inputs < 1:
        raise DataError("an array needs an input: put .jsonl or .txt files into the folder, or call collect first")
    last = min(inputs, tasks or inputs) - 1
    if last >= ARRAY_MOST:
        raise DataError(
            f"{last + 1} tasks are more than an array of Slurm can have, whose indices end at {ARRAY_MOST - 1} "
            "(MaxArraySize): give a task several inputs with --tasks"
        )
    return f"0-{last}%{limit}" if limit else f"0-{last}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("input", type=arguments.path, help="folder with the inputs")
    count = arguments.between(0, arguments.MAX_VALUE)
    parser.add_argument("--tasks", type=count, help="maximum number of tasks (one for each input)")
    parser.add_argument("--limit", type=count, help="maximum number that run at once")


def run(args: argparse.Namespace) -> int:
    """Print the range."""
    print(spec(len(inputs_of(args.input)), args.tasks, args.limit))
    return PASS
