# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The subcommands of mlcluster that run inside Slurm jobs: the scripts of slurm_jobs and their steps start them."""

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
from ..jobs import dry_run
from ..jobs.job import Job
from ..jobs.kinds import JOB_KINDS
from ..jobs.run import load, run_job, run_part
from ..jobs.tasks import TASK_PREFIX
from ..jobs.verify import REPORT, judge_job, parse_asked, write_report
from ..system.ask import whole_number
from ..system.host import Host, NodeError
from ..verdict import result

LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verbs with the mlcluster command."""
    job = subparsers.add_parser("job", help="run the steps of a job, as its script does, or show them")
    job.add_argument("file", metavar="NAME.json", help="the job, beside its script")
    job.add_argument("--dry-run", action="store_true", help="print every step as a command line without running it")
    job.add_argument("--nodes", default="", metavar="NAMES", help="with --dry-run: node names, separated by spaces")
    job.add_argument(
        "options",
        nargs=argparse.REMAINDER,
        metavar="OPTION",
        help="additional sbatch options; used for a job that submits an array",
    )
    job.set_defaults(handler=run)
    part = subparsers.add_parser("job-node", help="run the per-node part of a job, inside a job step")
    part.add_argument("file", metavar="NAME.json", help="the job, beside its script")
    part.add_argument("words", nargs="*", metavar="WORD", help="arguments of the per-node part")
    part.set_defaults(handler=run_on_node)
    verb = subparsers.add_parser("job-verdict", help="evaluate the output of a validation job")
    verb.add_argument("results", metavar="DIRECTORY", help="the directory with the output of the script")
    verb.add_argument("--asked", required=True, metavar="JSON", help="the options of the job, from its script")
    verb.add_argument(
        "--nodes", required=True, metavar="NAMES", help="the job's nodes in Slurm's order, separated by spaces"
    )
    verb.add_argument(
        "--started", type=whole_number(0, 1 << 40), metavar="SECONDS", help="when the job began, in seconds since 1970"
    )
    verb.add_argument("--json", action="store_true", help="print one mlcluster.report/1 instead of lines")
    verb.set_defaults(handler=job_verdict)
    task = subparsers.add_parser("job-task", help="record where this task of a Slurm job runs")
    task.add_argument("results", metavar="DIRECTORY", help="a directory that all nodes share")
    task.set_defaults(handler=job_task)


def run(args: argparse.Namespace, host: Host | None = None) -> int:
    """Run a job and return its exit status, or print its steps; exit 3 for an invalid job."""
    host = host or Host()
    try:
        spec = load(host, args.file)
        if not args.dry_run:
            return run_job(spec, host, dict(os.environ), args.runtime_version, args.options)
        sys.stdout.write("\n".join(dry_run.lines(spec, host, args.nodes.split())) + "\n")
    except NodeError as exc:
        LOGGER.error("job: %s", exc)
        return result.EXIT_USAGE
    return result.EXIT_OK


def run_on_node(args: argparse.Namespace, host: Host | None = None) -> int:
    """Run the per-node part of a job, and return its exit status; exit 3 for an invalid job."""
    host = host or Host()
    try:
        spec = load(host, args.file)
        on_node = JOB_KINDS[spec.kind].on_node
        if on_node is None:
            raise NodeError(f"jobs of the kind {spec.kind} have no per-node part: start the job with its script")
        return run_part(spec, host, dict(os.environ), lambda work: on_node(work, args.words))
    except NodeError as exc:
        LOGGER.error("job-node: %s", exc)
        return result.EXIT_USAGE


def job_verdict(args: argparse.Namespace, host: Host | None = None) -> int:
    """Write report.json beside the results, print it, and return its exit code; exit 3 for an invalid job."""
    host = host or Host()
    nodes = tuple(args.nodes.split())
    try:
        if not nodes:
            raise NodeError("--nodes is empty: use the output of `scontrol show hostnames`")
        results = judge_job(Job(parse_asked(args.asked), nodes, args.results, args.started), host)
    except NodeError as exc:
        LOGGER.error("job-verdict: %s", exc)
        return result.EXIT_USAGE
    try:
        report = write_report(host, args.results, results, args.runtime_version)
    except OSError as exc:
        LOGGER.error("job-verdict: %s could not be written: %s", posixpath.join(args.results, REPORT), exc.strerror)
        return result.EXIT_UNDETERMINABLE
    sys.stdout.write((result.dumps(report) if args.json else "\n".join(report.lines())) + "\n")
    return result.exit_code(results)


def placement(environment: t.Mapping[str, str], host: str) -> dict[str, t.Any]:
    """Return rank, node and GPUs of a task. Raises NodeError outside of a step of Slurm."""
    try:
        rank, local = int(environment["SLURM_PROCID"]), int(environment["SLURM_LOCALID"])
    except (KeyError, ValueError):
        raise NodeError(
            "SLURM_PROCID and SLURM_LOCALID are not set, so this is not a task of Slurm: start it with srun"
        ) from None
    return {
        "rank": rank,
        "local": local,
        "node": environment.get("SLURMD_NODENAME"),
        "host": host,
        "gpus": [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name],
    }


def job_task(args: argparse.Namespace, host: Host | None = None) -> int:
    """Write task-RANK.json into the directory, for job-verdict."""
    host = host or Host()
    try:
        entry = {**placement(os.environ, platform.node()), "root": mounted_root(host)}
        if not host.exists(args.results):
            # Not created here: without the shared directory it would be visible on this node alone.
            raise NodeError(f"{args.results} is missing on {platform.node()}: mount the shared directory")
        path = posixpath.join(args.results, f"{TASK_PREFIX}{entry['rank']}.json")
        host.write_text(path, json.dumps(entry, sort_keys=True) + "\n")
    except NodeError as exc:
        LOGGER.error("job-task: %s", exc)
        return result.EXIT_USAGE
    except OSError as exc:
        LOGGER.error("job-task: %s on %s could not be written: %s", args.results, platform.node(), exc.strerror)
        return result.EXIT_FAIL
    return result.EXIT_OK
