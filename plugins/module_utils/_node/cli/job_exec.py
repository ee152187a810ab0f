# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb job-exec of the mlcluster command: what stands in front of the program of a task.

Every rank of a training starts it, in a container from sources that Python compiles first. So it is imported without
the other verbs.
"""

from __future__ import annotations

import argparse
import os
import sys
import typing as t

from ..jobs.execute import missing_directory, scratch_directory, task_command, task_variables
from ..jobs.live import replace_process
from ..system.host import Host, NodeError
from ..verdict import result
from . import streams
from .parser import Parser


def add_arguments(task: argparse.ArgumentParser) -> None:
    """Add the options of the verb to its parser."""
    task.add_argument("--scratch", default="", metavar="DIRECTORY", help="where nodes create directories for jobs")
    task.add_argument("--ranks", action="store_true", help="set RANK, LOCAL_RANK and WORLD_SIZE")
    task.add_argument(
        "--node-rank", action="store_true", help="add --node-rank=N, the number of its node, to the program"
    )
    task.add_argument(
        "--without", action="append", default=[], metavar="NAME=VALUE", help="omit a variable that has this value"
    )
    task.add_argument("--spool", action="store_true", help="set MLCLUSTER_SPOOL to that directory, if there is none")
    task.add_argument("command", nargs="+", metavar="WORD", help="the program and its arguments, behind --")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    task = subparsers.add_parser("job-exec", help="start a program as a task of a job, with the variables of that task")
    add_arguments(task)
    task.set_defaults(handler=run)


def main(argv: t.Sequence[str] | None = None, version: str = "unknown") -> int:
    """Run the verb without the others; ``argv`` begins with its name, as that of the command does."""
    streams.open_missing()
    parser = Parser(prog="mlcluster job-exec")
    add_arguments(parser)
    return run(parser.parse_args(list(sys.argv[1:] if argv is None else argv)[1:]))


def run(args: argparse.Namespace, host: Host | None = None) -> int:
    """Replace this process by the program of a task; return an exit status only if it cannot be started."""
    host, own = host or Host(), dict(os.environ)
    try:
        scratch = scratch_directory(host, args.scratch, own)
        if warning := missing_directory(host, args.scratch, scratch, own):
            sys.stderr.write(f"job-exec: {warning}\n")
        variables = task_variables(own, scratch, args.ranks, args.spool, args.without)
        return replace_process(task_command(own, args.command, args.node_rank), variables)
    except NodeError as exc:
        # Without a log: the ranks of all nodes would write into it.
        sys.stderr.write(f"job-exec: {exc}\n")
        return result.EXIT_USAGE
