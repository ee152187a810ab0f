# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m mlcluster_data COMMAND``: each command is a module, imported only when it is called.

A command's module has ``add_arguments(parser)`` and ``run(args) -> int``. Exit status: 0 done or pass, 1 failed,
2 undeterminable, 3 wrong usage.
"""

from __future__ import annotations

import argparse
import importlib
import io
import sys
from collections.abc import Sequence
from typing import NoReturn

from .errors import FAIL, PASS, USAGE, DataError, one_line
from .files import durable
from .files.s3 import S3Error
from .locks.directory import LockedError

COMMANDS: dict[str, tuple[str, str]] = {
    "array": ("sharding.array", "print the --array range for the inputs of a folder"),
    "backup": ("checkpoints.backup", "back up a directory to S3, and restore it"),
    "checkpoint": ("checkpoints.command", "list checkpoints, check them, remove old ones"),
    "collect": ("corpus.collect", "gather text from files or the datasets library into N inputs"),
    "hold": ("locks.holder", "reserve a directory for one job while standard input is open"),
    "preprocess": ("sharding.preprocess", "tokenise the inputs of one array task into shards"),
    "stage": ("files.stage", "copy weights or other files to the local disks of this node, once"),
    "train": ("training.train", "train a small transformer on shards, on any number of ranks"),
    "validate": ("corpus.validate", "check inputs or shards against their manifest"),
}


class Parser(argparse.ArgumentParser):
    """An argument parser with this project's exit status for wrong usage."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and end with 3."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def overview() -> str:
    """Return the commands with their descriptions, one a line."""
    width = max(map(len, COMMANDS), default=0)
    return "\n".join(f"  {name:<{width}}  {summary}" for name, (_module, summary) in sorted(COMMANDS.items()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that is not UTF-8 must not end a command that has done its work.
        sys.stdout.reconfigure(errors="backslashreplace")
    if not words or words[0] in ("-h", "--help"):
        print(f"usage: python -m mlcluster_data COMMAND [--help] ...\n\n{overview()}")
        return PASS if words else USAGE
    if words[0] not in COMMANDS:
        print(f"mlcluster_data: there is no command {words[0]}; there are:\n{overview()}", file=sys.stderr)
        return USAGE
    module_name, summary = COMMANDS[words[0]]
    try:
        module = importlib.import_module(f".{module_name}", __package__)
        parser = Parser(
            prog=f"mlcluster_data {words[0]}",
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=(module.__doc__ or "").replace("``", "`"),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(parser)
        return int(module.run(parser.parse_args(words[1:])))
    except (DataError, LockedError, S3Error) as error:
        print(f"ERROR: {one_line(str(error))}", file=sys.stderr)
        return FAIL
    except OSError as error:
        # Such as an unreadable file, a directory instead of a file, or a file in the middle of a path.
        print(
            f"ERROR: {words[0]} could not continue ({one_line(durable.reason(error))}): fix that and start it again",
            file=sys.stderr,
        )
        return FAIL
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__package__ or ""):
            raise
        print(
            f"ERROR: {words[0]} needs the Python package {error.name}, which is not installed for {sys.executable}: "
            "install it there or run the command in the container that has it.",
            file=sys.stderr,
        )
        return FAIL


if __name__ == "__main__":
    sys.exit(main())
