# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs job-task and job-verdict of the mlcluster command, which the scripts of slurm_jobs call."""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import posixpath
import sys
import typing as t

from ..health.container import mounted_root
from ..jobs.job import Job
from ..jobs.tasks import TASK_PREFIX
from ..jobs.verify import judge_job, parse_asked
from ..system.ask import whole_number
from ..system.host import Host, NodeError
from ..verdict import result

LOGGER = logging.getLogger("mlcluster")
REPORT = "report.json"


def add_verbs(subparsers: t.Any) -> None:
    """Register the verbs with the mlcluster command."""
    verb = subparsers.add_parser("job-verdict", help="judge a validation job by what its script left")
    verb.add_argument("results", metavar="DIRECTORY", help="where the script kept what was printed")
    verb.add_argument("--asked", required=True, metavar="JSON", help="what the job was asked for, from its script")
    verb.add_argument("--nodes", required=True, metavar="NAMES", help="the job's nodes in Slurm's order, with blanks")
    verb.add_argument(
        "--started", type=whole_number(0, 1 << 40), metavar="SECONDS", help="when the job began, in seconds since 1970"
    )
    verb.add_argument("--json", action="store_true", help="print one mlcluster.report/1 instead of lines")
    verb.set_defaults(handler=job_verdict)
    task = subparsers.add_parser("job-task", help="write down where this task of a Slurm job runs")
    task.add_argument("results", metavar="DIRECTORY", help="a directory that all nodes share")
    task.set_defaults(handler=job_task)


def job_verdict(args: argparse.Namespace, host: Host | None = None) -> int:
    """Write report.json beside the results, print it, and give its exit code; 3 for what is no job."""
    host = host or Host()
    nodes = tuple(args.nodes.split())
    try:
        if not nodes:
            raise NodeError("--nodes is empty: give what `scontrol show hostnames` prints")
        results = judge_job(Job(parse_asked(args.asked), nodes, args.results, args.started), host)
    except NodeError as exc:
        LOGGER.error("job-verdict: %s", exc)
        return result.EXIT_USAGE
    report = result.Report(
        platform.node() or "unknown", host.now(), {"mlcluster.aws": args.runtime_version}, tuple(results)
    )
    try:
        host.write_text(posixpath.join(args.results, REPORT), result.dumps(report) + "\n")
    except OSError as exc:
        LOGGER.error("job-verdict: %s could not be written: %s", posixpath.join(args.results, REPORT), exc.strerror)
        return result.EXIT_UNDETERMINABLE
    sys.stdout.write((result.dumps(report) if args.json else "\n".join(report.lines())) + "\n")
    return result.exit_code(results)


def placement(environment: t.Mapping[str, str], host: str) -> dict[str, t.Any]:
    """What a task knows of its place. Raises NodeError outside of a step of Slurm."""
    try:
        rank, local = int(environment["SLURM_PROCID"]), int(environment["SLURM_LOCALID"])
    except (KeyError, ValueError):
        raise NodeError("SLURM_PROCID and SLURM_LOCALID are not set: start it with srun") from None
    return {
        "rank": rank,
        "local": local,
        "node": environment.get("SLURMD_NODENAME"),
        "host": host,
        "gpus": [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name],
    }


def job_task(args: argparse.Namespace, host: Host | None = None) -> int:
    """Write task-RANK.json into the directory, for job-verdict to find."""
    host = host or Host()
    try:
        entry = {**placement(os.environ, platform.node()), "root": mounted_root(host)}
        if not host.exists(args.results):
            # Not made here: on a node that lacks the shared directory it would be one that nobody else sees.
            raise NodeError(f"{args.results} is not there on {platform.node()}: mount the shared directory")
        path = posixpath.join(args.results, f"{TASK_PREFIX}{entry['rank']}.json")
        host.write_text(path, json.dumps(entry, sort_keys=True) + "\n")
    except NodeError as exc:
        LOGGER.error("job-task: %s", exc)
        return result.EXIT_USAGE
    except OSError as exc:
        LOGGER.error("job-task: %s on %s could not be written: %s", args.results, platform.node(), exc.strerror)
        return result.EXIT_FAIL
    return result.EXIT_OK
