# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold a directory for a script. The script starts this program, waits for one line of output, and keeps standard input
open as long as no other job may use the directory. Signals are ignored, because those of a job go to all its processes
and the script may still have to save. If another job has the directory, the exit status is 1 without a line.
"""

from __future__ import annotations

import argparse
import signal
import sys

from ..cli import arguments
from ..errors import PASS, DataError
from .directory import JOB_NAME, Lock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "directory", type=arguments.path, metavar="DIRECTORY", help="directory that one job at a time may use"
    )


def run(args: argparse.Namespace) -> int:
    """Hold it until standard input ends. Raises DataError."""
    lock = Lock(args.directory, name=JOB_NAME)
    # Until the directory is held, a signal ends this process without leaving a lock for which the next job would wait.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        try:
            before = lock.acquire()
        except OSError as exc:
            raise DataError(
                f"{args.directory} could not be held for one job ({exc.strerror or exc}): use a directory that this "
                "user may write to, of a file system that has links"
            ) from exc
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        print(f"holds {args.directory}" + (f", which {before} left" if before else ""), flush=True)
        sys.stdin.read()
    finally:
        lock.release()
    return PASS
