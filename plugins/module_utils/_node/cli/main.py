# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``mlcluster`` command of the node runtime.

A part of the runtime offers ``add_verbs(subparsers)``, which adds its parsers and gives each
``set_defaults(handler=function)``; the function takes the parsed arguments and returns the exit code.
``args.runtime_version`` is the version of the installed runtime. Exit codes: 0 pass or not applicable,
1 fail, 2 undeterminable or an unexpected error, 3 usage.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import platform
import sys
import typing as t
from collections.abc import Sequence

from ..verdict import result
from . import log, streams
from .parser import Parser

# The parts and their verbs. Only the part of the requested verb is imported: all of them would triple the CPU time of a
# short command, and a Prolog starts several.
PARTS: dict[str, tuple[str, ...]] = {
    "cli.storage": ("storage-boot", "storage-info"),
    "cli.efa": ("efa",),
    "cli.accelerator": ("accelerators",),
    "cli.containers": ("containers-boot", "containers-info", "registry-credential"),
    "cli.gds": ("gds",),
    "cli.nccl": ("nccl-verdict", "efa-counters"),
    "cli.lustre": ("lustre-info", "lustre-tune", "lustre-data"),
    "cli.jobs": ("job", "job-node", "job-verdict", "job-task"),
    "cli.job_exec": ("job-exec",),
    "jobs.checkpoints": ("checkpoints",),
    "cli.health": ("health", "drain-marker", "host-facts"),
    "cli.scratch": ("scratch",),
    "slurm.notice": ("instance-notice",),
    "cli.watch": ("watch", "job-label"),
    "cli.plan": ("plan",),
    "cli.heal": ("heal",),
    "cli.imex": ("imex",),
    "cli.checks": ("checks",),
    "cli.validate": ("validate",),
    "cli.submit_training": ("submit-training",),
    "cli.detached": ("detached",),
}
VERSION = "version"
_PACKAGE = __package__.rpartition(".")[0] if __package__ else ""


def load(arguments: Sequence[str] = ()) -> list[t.Any]:
    """Import and return the part of the first word's verb; all parts if no part has it."""
    if arguments and arguments[0] == VERSION:
        return []
    wanted = [name for name, verbs in PARTS.items() if arguments and arguments[0] in verbs] or list(PARTS)
    return [importlib.import_module(f"{_PACKAGE}.{name}") for name in wanted]


def _version_line(version: str) -> str:
    return f"mlcluster {version} (Python {platform.python_version()})"


def _version(args: argparse.Namespace) -> int:
    sys.stdout.write(f"{_version_line(args.runtime_version)}\n")
    return result.EXIT_OK


def build_parser(version: str, arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser with every verb, or only with those for ``arguments``; ``version`` is what it prints."""
    parser = Parser(prog="mlcluster", description="Checks and boot-time work of an mlcluster.aws node.")
    parser.set_defaults(runtime_version=version)
    parser.add_argument("--version", action="version", version=_version_line(version), help="the same as version")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for part in load(arguments):
        part.add_verbs(subparsers)
    subparsers.add_parser(VERSION, help="print the version of this runtime").set_defaults(handler=_version)
    # The help of a verb begins with the verb's line from the list of verbs.
    for listed in subparsers._get_subactions():
        verb = subparsers.choices[listed.dest]
        verb.description = verb.description or f"{(listed.help or '').capitalize()}."
    return parser


def main(argv: Sequence[str] | None = None, version: str = "unknown", log_dir: str = log.LOG_DIR) -> int:
    """Run one verb and return its exit code; a usage error raises SystemExit(3) and ``--help`` SystemExit(0).

    Lost output turns success into 2, as the reader has not received it; other exit codes stay.
    """
    streams.open_missing()
    arguments = sys.argv[1:] if argv is None else argv
    args = build_parser(version, arguments).parse_args(arguments)
    logger, path = log.setup(args.verb, log_dir)
    output = streams.Output(sys.stdout)
    with contextlib.redirect_stdout(output):
        advice = f"the details are in {path}" if path else f"run it as root to get the details in {log_dir}"
        code = _run(args, logger, advice)
    lost = output.lost()
    if lost is not None:
        logger.error(
            "mlcluster %s: its output could not be written (%s): send it to a place with room", args.verb, lost
        )
        code = code or result.EXIT_UNDETERMINABLE
    return code


def _run(args: argparse.Namespace, logger: logging.Logger, advice: str) -> int:
    try:
        return int(args.handler(args))
    except KeyboardInterrupt:
        logger.error("mlcluster %s: interrupted before it had a verdict", args.verb)
    except Exception as exc:
        error = f"{type(exc).__name__}: {' '.join(str(exc).split()) or 'no message'}"
        logger.exception("mlcluster %s: stopped by an unexpected %s; %s", args.verb, error, advice)
    return result.EXIT_UNDETERMINABLE
