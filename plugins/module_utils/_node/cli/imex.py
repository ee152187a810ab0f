# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb imex of the mlcluster command: the NVLink domain of a job, for Prolog and Epilog."""

from __future__ import annotations

import argparse
import logging
import typing as t

from ..imex import apply, config
from ..imex.job import look_job
from ..imex.look import look, look_slurm
from ..imex.plan import make_plan, no_domain_on_node_reason, unknown_machine
from ..slurm import drain as slurm_drain
from ..slurm.client import Slurm, node_name
from ..slurm.parse import number
from ..system.ask import whole_number
from ..system.host import Host, NodeError
from ..verdict import result
from ..verdict.result import PASS, Result, not_applicable, undeterminable, unproved
from .report import print_report

SLURM_SECONDS = 5
LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    parser = subparsers.add_parser("imex", help="the NVLink domain of a job across an UltraServer: up, down, status")
    parser.add_argument(
        "action", choices=("up", "down", "status", "forget"),
        help="up: make the domain of the job, in a Prolog; down: remove it, in an Epilog; status: check the domain of "
        "this node; forget: remove the record of a failed domain once its cause is repaired",
    )  # fmt: skip
    parser.add_argument(
        "--mode", choices=config.MODES, default="required",
        help="whether a job without its domain is kept away, reported, or nothing is done (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=whole_number(1, config.LONGEST), default=config.SECONDS,
        help="how long up waits for the domain (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--service", default=config.SERVICE, help="the unit of the daemon (%(default)s)")
    parser.add_argument("--instance-type", help="the EC2 instance type (default: from the firmware)")
    parser.add_argument("--drain", action="store_true", help="drain this node in Slurm with the reason of a failure")
    parser.add_argument("--slurm-prefix", help="the directory above Slurm's bin (default: /opt/slurm, or the path)")
    parser.add_argument("--slurm-conf", help="the slurm.conf to use (default: that of Slurm)")
    parser.add_argument("--json", action="store_true", help="print one mlcluster.report/1 instead of lines")
    parser.set_defaults(handler=act)


def act(args: argparse.Namespace, host: Host | None = None) -> int:
    """Exit 0: done, nothing to do, or best effort; 1 if that is not proved. status returns its verdicts' code."""
    host = host or Host()
    options = config.Options(args.mode, args.seconds, args.service, args.instance_type)
    problems = config.option_errors(options)
    if problems:
        LOGGER.error("imex: %s", "; ".join(problems))
        return result.EXIT_USAGE
    slurm = Slurm(host, args.slurm_prefix, args.slurm_conf)
    try:
        results = {"up": _up, "down": _down, "status": _status, "forget": _forget}[args.action](host, slurm, options)
    except NodeError as exc:
        results = [undeterminable("imex.domain", "unread", message=str(exc))]
    except Exception as exc:
        # A Prolog treats a command without output as a damaged runtime, which keeps no job away.
        LOGGER.exception("imex: stopped by an unexpected error")
        results = [undeterminable("imex.domain", "unexpected", message=f"stopped by {type(exc).__name__}: {exc}")]
    code = print_report(host, results, {"mlcluster.aws": args.runtime_version}, args.json)
    bad = unproved(results)
    for verdict in bad:
        LOGGER.error("imex: %s", verdict.line())
    for verdict in results:
        if args.action == "up" and verdict.status == PASS and verdict.message:
            # Slurm discards the output of a Prolog.
            LOGGER.warning("imex: %s", verdict.line())
    if args.action == "status":
        return code
    if not bad or (args.action == "up" and args.mode != "required"):
        return result.EXIT_OK
    if args.drain:
        _drain(host, slurm, bad)
    return result.EXIT_FAIL


def _up(host: Host, slurm: Slurm, options: config.Options) -> list[Result]:
    facts = look(host, options)
    # On other nodes no command of Slurm is run.
    reason = no_domain_on_node_reason(options, facts)
    if reason:
        return [not_applicable("imex.domain", reason)]
    if facts["ultraserver"] is None:
        return [undeterminable("imex.domain", "unknown_type", message=unknown_machine(facts))]
    facts.update(look_slurm(host, slurm))
    job = look_job(host, slurm)
    return apply.make(host, options, job, facts, make_plan(options, job, facts))


def _down(host: Host, _slurm: Slurm, options: config.Options) -> list[Result]:
    job_id = number(host.variable("SLURM_JOB_ID"))
    if not job_id:
        raise NodeError("no job is named: run this where Slurm sets SLURM_JOB_ID, such as in an Epilog")
    return apply.remove_domain(host, options, job_id)


def _status(host: Host, slurm: Slurm, options: config.Options) -> list[Result]:
    return apply.status(host, options, slurm)


def _forget(host: Host, slurm: Slurm, options: config.Options) -> list[Result]:
    return apply.forget(host, options, slurm)


def _drain(host: Host, slurm: Slurm, bad: t.Sequence[Result]) -> None:
    try:
        LOGGER.warning("imex: %s", slurm_drain.drain(slurm, node_name(), bad, SLURM_SECONDS))
    except NodeError as exc:
        LOGGER.error("imex: %s", exc)
