# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb scratch of the mlcluster command: makes and removes jobs' directories, for Prolog, Epilog and health check.

Each action has a time limit, so that an unresponsive disk delays a job no longer than that.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
import typing as t

from ..scratch import directories as scratch
from ..scratch import made
from ..scratch import quota as scratch_quota
from ..slurm.client import Slurm, node_name
from ..slurm.look import ON_NODES
from ..system.ask import whole_number
from ..system.host import Host, NodeError
from ..system.parallel import STATE_DIRECTORY, Check, run_all
from ..verdict import result
from ..verdict.result import Result, Scope, failed, not_applicable, passed, undeterminable
from .report import print_report

LARGEST_ID = 0xFFFFFFFE
SLURM_SECONDS = 10
# Creating a directory takes milliseconds, and seconds on a node that is out of memory or CPUs. A Prolog with a health
# check of 4 seconds has to stay below the 10 seconds of MessageTimeout and BatchStartTimeout (manual of slurm.conf).
MAKE_SECONDS = 4
EMPTY_SECONDS = 30
# Seconds that removing and sweeping may take, in addition to the deadline for emptying the trash.
QUOTA_SECONDS = 8
MORE_SECONDS = {"remove": 5, "sweep": SLURM_SECONDS + QUOTA_SECONDS + 5}
LARGEST_QUOTA_GIB = 1 << 20

LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    parser = subparsers.add_parser("scratch", help="the jobs' directories on the local volume: make, remove, sweep")
    parser.add_argument(
        "action", choices=("make", "remove", "sweep"),
        help="make: the job's directory, in a Prolog; remove: it, in an Epilog; sweep: those of jobs that are gone",
    )  # fmt: skip
    parser.add_argument("--base", help="their parent directory (default: jobs on the local volume)")
    parser.add_argument("--job", type=whole_number(1, LARGEST_ID), help="the job (default: SLURM_JOB_ID)")
    parser.add_argument("--uid", type=whole_number(0, LARGEST_ID), help="its user (default: SLURM_JOB_UID)")
    parser.add_argument(
        "--seconds", type=whole_number(0, 3600), default=EMPTY_SECONDS, help="for emptying the trash (%(default)s)"
    )
    parser.add_argument(
        "--keep-hours", type=whole_number(0, 8760), default=0, help="how long sweep keeps leftovers (%(default)s)"
    )
    parser.add_argument(
        "--least-free",
        type=whole_number(0, 100),
        default=10,
        help="percent; below it leftovers are removed (%(default)s)",
    )
    parser.add_argument(
        "--quota-gib", type=whole_number(0, LARGEST_QUOTA_GIB), default=0,
        help="limit for each running job, 0 for no limit (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--over-quota", choices=("report", "cancel"), default="report",
        help="action of sweep for a job above it (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--slurm-prefix", help="the directory above Slurm's bin (default: /opt/slurm, or the path)")
    parser.add_argument("--slurm-conf", help="the slurm.conf to use (default: that of Slurm)")
    parser.add_argument("--json", action="store_true", help="print one mlcluster.report/1 instead of lines")
    parser.set_defaults(handler=act)


def act(args: argparse.Namespace, host: Host | None = None, state_directory: str = STATE_DIRECTORY) -> int:
    """Run the action; return 0 if it is done or not needed, 1 if it failed or kept a directory, 2 if undeterminable."""
    host = host or Host()
    name = f"scratch.{args.action}"
    limit = MAKE_SECONDS if args.action == "make" else args.seconds + MORE_SECONDS[args.action]
    results = run_all(host, [Check(name, lambda host: _verdicts(args, host, name), limit)], limit, state_directory)
    if args.action == "make":
        _remember(args, host, results[0])
    code = print_report(host, results, {"mlcluster.aws": args.runtime_version}, args.json)
    for verdict in results:
        if verdict.status not in (result.PASS, result.NOT_APPLICABLE):
            LOGGER.error("scratch: %s", verdict.line())
    return code


def _verdicts(args: argparse.Namespace, host: Host, name: str) -> list[Result]:
    try:
        base = args.base or scratch.default_base(host)
        if base is None:
            return [not_applicable(name, "this node has no local volume for the jobs' directories")]
        missing = scratch.no_volume(host, base)
        if missing:
            return [not_applicable(name, missing)]
        if args.action != "make" and not host.exists(base):
            return [not_applicable(name, f"there is no {base}")]
        return {"make": _make, "remove": _remove, "sweep": _sweep}[args.action](args, host, base)
    except NodeError as exc:
        return [failed(name, str(exc), severity="reset")]


def _job(args: argparse.Namespace) -> int:
    text = str(args.job or os.environ.get("SLURM_JOB_ID", ""))
    if not text.isdecimal() or not 0 < int(text) <= LARGEST_ID:
        raise NodeError("no job is named: use --job, or run this where Slurm sets SLURM_JOB_ID")
    return int(text)


def _make(args: argparse.Namespace, host: Host, base: str) -> list[Result]:
    text = os.environ.get("SLURM_JOB_UID", "") if args.uid is None else str(args.uid)
    uid = host.uid(text) if text.isdecimal() else None
    if uid is None:
        raise NodeError("no user is named: use --uid, or run this where Slurm sets SLURM_JOB_UID")
    away = scratch.unmounted_volume(host, base)
    if away:
        raise NodeError(away)
    gid = host.primary_gid(text)
    if gid is None:
        raise NodeError(f"user {uid} of the job is not known on this node: check that 'getent passwd {uid}' answers")
    return [passed("scratch.make", scratch.make(host, base, _job(args), uid, gid))]


def _remember(args: argparse.Namespace, host: Host, verdict: Result) -> None:
    """Record for the health check whether the job got its directory, also if that took too long."""
    try:
        base = args.base or scratch.default_base(host)
        if base and verdict.status != result.NOT_APPLICABLE and host.is_root():
            made.remember(host, base, _job(args), verdict)
    except NodeError as exc:
        LOGGER.error("scratch: the health check does not learn of this: %s", exc)


def _remove(args: argparse.Namespace, host: Host, base: str) -> list[Result]:
    job = _job(args)
    return [_removed("scratch.remove", f"job {job}", base, scratch.remove(host, base, job, args.seconds))]


def _sweep(args: argparse.Namespace, host: Host, base: str) -> list[Result]:
    slurm = Slurm(host, args.slurm_prefix, args.slurm_conf, local=True)
    known = scratch.survey(base)
    live, problem = _live(slurm) if known else (set(), None)
    swept = scratch.sweep(host, base, known, live, time.time(), args.keep_hours * 3600, args.least_free)
    emptied = scratch.empty_trash(host, base, args.seconds)
    emptied.problems[:0] = swept.problems
    jobs = ", ".join(map(str, swept.taken)) or "none"
    verdict = _removed("scratch.sweep", f"leftovers of jobs: {jobs}", base, emptied)
    if problem and verdict.status == result.PASS:
        why = f"only leftovers of an earlier boot could be swept: {problem}"
        verdict = undeterminable("scratch.sweep", why, found=verdict.found, scope=verdict.scope)
    if not args.quota_gib:
        return [verdict]
    running = [one for one in known if live and one.job_id in live]
    return [verdict] + scratch_quota.verify(
        host, slurm, base, running, args.quota_gib << 30, args.over_quota == "cancel", QUOTA_SECONDS
    )


def _live(slurm: Slurm) -> tuple[set[int] | None, str | None]:
    """Return the jobs that Slurm has on this node, or None and the reason why they are unknown."""
    arguments = ("--noheader", "--all", f"--states={ON_NODES}", f"--nodelist={node_name()}", "--format=%A")
    try:
        text = slurm.ask("squeue", *arguments, timeout=SLURM_SECONDS)
    except NodeError as exc:
        return None, str(exc)
    rows = text.split()
    # If an unreadable row were skipped, its job would lose its directory.
    unread = [row for row in rows if not (row.isascii() and row.isdecimal())]
    return (None, f"squeue printed {unread[0][:100]!r}, which is no job") if unread else (set(map(int, rows)), None)


def _removed(check: str, what: str, base: str, emptied: scratch.TrashResult) -> Result:
    scope = Scope(device=base)
    if emptied.problems:
        return failed(check, f"{what}; {'; '.join(emptied.problems)}", scope=scope)
    rest = "" if emptied.complete else ", the rest stays in the trash until the next run"
    return passed(check, f"{what}: {emptied.removed} names removed{rest}", scope=scope)
