# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb validate of the mlcluster command: a validation of the cluster from a node that submits jobs."""

from __future__ import annotations

import argparse
import logging
import typing as t

from ..jobs.validation_run import Options, Validation
from ..slurm import parse as slurm_parse
from ..slurm.client import Slurm
from ..system.ask import whole_number
from ..system.host import Host, NodeError
from ..verdict import result
from .progress import add_common, print_line, write_outcome

LONGEST = 7 * 24 * 3600

LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    parser = subparsers.add_parser(
        "validate",
        help="submit the jobs that validate the cluster, follow them and evaluate them together",
        description="Exits with 0 if everything was proved, 1 if something failed, 2 if something could not be proved "
        "or nothing was submitted, and 3 for wrong usage. A job that waits or runs already is followed.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="jobs in this order (default: all with a verdict)")
    add_common(parser)
    parser.add_argument("--nodes", type=_nodes, default="", metavar="N", help="on how many nodes: a number, or all")
    parser.add_argument("--nodelist", type=_names, default=(), metavar="NAMES", help="on these nodes, such as n[1-4]")
    parser.add_argument("--partition", default="", help="the partition, instead of that of each script")
    parser.add_argument("--timeout", type=whole_number(1, LONGEST), default=7200, metavar="SECONDS",
                        help="cancel a job that has no end by then (%(default)s)")  # fmt: skip
    parser.add_argument("--drain", action="store_true", help="drain the nodes that failures single out")
    parser.add_argument(
        "--undrain", type=_names, default=(), metavar="NAMES", help="resume these first, if mlcluster drained them"
    )
    parser.add_argument("--cluster", default="", metavar="NAME", help="the name of the cluster, for the report")
    parser.add_argument("--accept-undeterminable", action="store_true",
                        help="exit with 0 if nothing failed, even if something could not be proved")  # fmt: skip
    parser.set_defaults(handler=run)


def _nodes(text: str) -> str:
    if text not in ("", "all") and not (text.isdecimal() and text.isascii() and 0 < int(text) <= 1_000_000):
        raise argparse.ArgumentTypeError(f"use a number from 1, or all: not {text}")
    return text


def _names(text: str) -> tuple[str, ...]:
    try:
        return tuple(slurm_parse.expand(text))
    except NodeError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from None


def run(args: argparse.Namespace, host: t.Optional[Host] = None) -> int:
    """Run a validation and return its exit status."""
    options = Options(
        directory=args.dir,
        names=tuple(args.names),
        nodes=args.nodes,
        nodelist=args.nodelist,
        partition=args.partition,
        timeout=args.timeout,
        drain=args.drain,
        undrain=args.undrain,
        cluster=args.cluster,
    )
    host = host or Host()
    validation = Validation(Slurm(host, args.slurm_prefix, args.slurm_conf), options, print_line)
    code = result.EXIT_UNDETERMINABLE
    kept: t.Optional[str] = None
    try:
        validation.prepare()
        if args.dry_run:
            validation.preview()
            return result.EXIT_OK
        code, kept = _carry_out(validation, args.accept_undeterminable)
    except NodeError as exc:
        LOGGER.error("validate: %s", exc)
    finally:
        write_outcome(host, args.outcome, {"changed": validation.changed, "file": kept})
    return code


def _carry_out(validation: Validation, accept_undeterminable: bool) -> tuple[int, t.Optional[str]]:
    """Return the exit status, and the file with the verdict if it was written."""
    validation.submit()
    validation.follow()
    verdict = validation.judge()
    for line in [*verdict["lines"], *verdict["problems"]]:
        print_line(line)
    late = validation.drain(verdict) if validation.options.drain else []
    lost = validation.keep(verdict)
    late += lost
    code = int(verdict["exit_code"])
    if accept_undeterminable and code == result.EXIT_UNDETERMINABLE:
        code = result.EXIT_OK
    if code or late:
        LOGGER.error(
            "validation is %s (exit code %s): %s",
            verdict["status"], verdict["exit_code"], "; ".join([*verdict["problems"], *late]),
        )  # fmt: skip
    return code or (result.EXIT_UNDETERMINABLE if late else result.EXIT_OK), None if lost else validation.file
