# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb scratch of the mlcluster command: what Prolog, Epilog and the health check do for jobs' directories."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import typing as t

from . import result, scratch
from .efa_tools import whole_number
from .health_drain import node_name
from .host import Host, NodeError
from .slurm_client import Slurm
from .slurm_parse import QUEUE_FORMAT, queue
from .slurm_survey import ON_NODES

LARGEST_ID = 0xFFFFFFFE
SLURM_SECONDS = 10
EPILOG_SECONDS = 30

LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    parser = subparsers.add_parser("scratch", help="the jobs' directories on the local volume: make, remove, sweep")
    parser.add_argument("action", choices=("make", "remove", "sweep"))
    parser.add_argument("--base", help="where they are (default: jobs on the local volume)")
    parser.add_argument("--job", type=whole_number(1, LARGEST_ID), help="the job (default: SLURM_JOB_ID)")
    parser.add_argument("--uid", type=whole_number(0, LARGEST_ID), help="its user (default: SLURM_JOB_UID)")
    parser.add_argument(
        "--seconds", type=whole_number(0, 3600), default=EPILOG_SECONDS, help="for emptying the trash (%(default)s)"
    )
    parser.add_argument(
        "--keep-hours", type=whole_number(0, 8760), default=0, help="how long sweep keeps leftovers (%(default)s)"
    )
    parser.add_argument(
        "--least-free", type=whole_number(0, 100), default=10, help="percent; below it leftovers go (%(default)s)"
    )
    parser.add_argument("--slurm-prefix", help="the directory above Slurm's bin (default: /opt/slurm, or the path)")
    parser.set_defaults(handler=act)


def act(args: argparse.Namespace, host: Host | None = None) -> int:
    """Exit 0: done, or there is nothing to do; 1: something had to stay; 2: it could not be done; 3: usage."""
    host = host or Host()
    try:
        base = args.base or scratch.default_base(host)
        if base is None:
            LOGGER.info("scratch: this node has no local volume for the jobs' directories")
            return result.EXIT_OK
        return {"make": _make, "remove": _remove, "sweep": _sweep}[args.action](args, host, base)
    except NodeError as exc:
        LOGGER.error("scratch: %s", exc)
        return result.EXIT_UNDETERMINABLE


def _job(args: argparse.Namespace) -> int:
    text = str(args.job or os.environ.get("SLURM_JOB_ID", ""))
    if not text.isdigit() or not 0 < int(text) <= LARGEST_ID:
        raise NodeError("no job is named: give --job, or run this where Slurm sets SLURM_JOB_ID")
    return int(text)


def _make(args: argparse.Namespace, host: Host, base: str) -> int:
    text = os.environ.get("SLURM_JOB_UID", "") if args.uid is None else str(args.uid)
    uid = host.uid(text) if text.isdigit() else None
    if uid is None:
        raise NodeError("no user is named: give --uid, or run this where Slurm sets SLURM_JOB_UID")
    gid = host.primary_gid(text)
    if gid is None:
        gid = host.gid(os.environ.get("SLURM_JOB_GID", ""))
    if gid is None:
        raise NodeError(f"user {uid} of the job is not known on this node: see that 'getent passwd {uid}' answers")
    sys.stdout.write(scratch.make(host, base, _job(args), uid, gid) + "\n")
    return result.EXIT_OK


def _remove(args: argparse.Namespace, host: Host, base: str) -> int:
    if not host.exists(base):
        return result.EXIT_OK
    job = _job(args)
    return _told(f"job {job}", scratch.remove(host, base, job, args.seconds))


def _sweep(args: argparse.Namespace, host: Host, base: str) -> int:
    if not host.exists(base):
        return result.EXIT_OK
    known = scratch.survey(base)
    live = _live(host, args.slurm_prefix) if known else set()
    swept = scratch.sweep(host, base, known, live, time.time(), args.keep_hours * 3600, args.least_free)
    for problem in swept.problems:
        LOGGER.error("scratch: %s", problem)
    if swept.taken:
        LOGGER.info("scratch: took away what jobs %s had left", ", ".join(map(str, swept.taken)))
    code = _told("the trash", scratch.empty_trash(host, base, args.seconds))
    return result.EXIT_FAIL if swept.problems else code


def _live(host: Host, prefix: str | None) -> set[int] | None:
    """The jobs that Slurm has on this node; None where it does not tell."""
    arguments = ("--noheader", f"--states={ON_NODES}", f"--nodelist={node_name()}", f"--format={QUEUE_FORMAT}")
    try:
        text = Slurm(host, prefix).ask("squeue", *arguments, timeout=SLURM_SECONDS)
    except NodeError as exc:
        LOGGER.warning("scratch: only what an earlier boot left can be swept: %s", exc)
        return None
    return {job["job_id"] for job in queue(text)}


def _told(what: str, emptied: scratch.Emptied) -> int:
    for problem in emptied.problems:
        LOGGER.error("scratch: %s: %s", what, problem)
    if not emptied.complete and not emptied.problems:
        LOGGER.warning("scratch: %s: %d names removed, the rest is left for the next time", what, emptied.removed)
    return result.EXIT_FAIL if emptied.problems else result.EXIT_OK
