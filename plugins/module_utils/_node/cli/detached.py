# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb detached of the mlcluster command: runs a command that a play follows."""

from __future__ import annotations

import argparse
import logging
import typing as t

from ..system import detached
from ..verdict import result

LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    parser = subparsers.add_parser("detached", help="run a command while a play polls it")
    parser.add_argument("directory", metavar="DIRECTORY", help="the output directory of the module node_verb")
    parser.add_argument("command", nargs="+", metavar="WORD", help="the command, behind --")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Run the command to its end; its exit status is written to the directory."""
    if not detached.is_ours(args.directory):
        LOGGER.error("detached: %s is not a directory of node_verb: this verb is for that module", args.directory)
        return result.EXIT_USAGE
    return detached.keep(args.directory, args.command)
