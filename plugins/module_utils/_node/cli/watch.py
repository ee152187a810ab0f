# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verbs watch and job-label of the mlcluster command: metrics for node_exporter, and the jobs in their labels."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import typing as t

from ..efa.look import MAX_DEVICES
from ..health import profiles
from ..node import job_labels, step_times, watch
from ..system.ask import whole_number
from ..system.host import Host, NodeError
from ..verdict import result

LARGEST_ID = 0xFFFFFFFE
LONGEST_PERIOD = 3600
# Where Debian's prometheus-node-exporter reads.
DIRECTORY = "/var/lib/prometheus/node-exporter"

LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verbs with the mlcluster command."""
    parser = subparsers.add_parser("watch", help="write the metrics of this node for Prometheus' node_exporter")
    parser.add_argument("--directory", default=DIRECTORY, help="where node_exporter reads text files (%(default)s)")
    parser.add_argument(
        "--period", type=whole_number(5, LONGEST_PERIOD), default=60, help="seconds between two runs (%(default)s)"
    )
    parser.add_argument("--instance-type", help="the EC2 instance type (default: from the firmware)")
    parser.add_argument("--expected-efa", type=whole_number(0, MAX_DEVICES), help="how many EFA devices there must be")
    parser.add_argument("--scratch", help="the directory of the jobs' directories (default: on the local volume)")
    parser.add_argument("--slurm-prefix", help="the directory above Slurm's bin (default: /opt/slurm, or the path)")
    parser.add_argument("--slurm-conf", help="the slurm.conf to use (default: that of Slurm)")
    parser.set_defaults(handler=run)
    label = subparsers.add_parser(
        "job-label", help="label the metrics of its GPUs with a job: in a Prolog and an Epilog"
    )
    label.add_argument(
        "action", choices=("add", "remove"), help="add: write the labels, in a Prolog; remove: end them, in an Epilog"
    )
    label.add_argument("--job", type=whole_number(1, LARGEST_ID), help="the job (default: SLURM_JOB_ID)")
    label.add_argument("--user", help="its user (default: SLURM_JOB_USER)")
    label.add_argument("--gpus", help="indices of its GPUs, with commas (default: SLURM_JOB_GPUS)")
    label.set_defaults(handler=label_job)


def run(args: argparse.Namespace, host: Host | None = None) -> int:
    """Exit 0: the metrics are written, whatever their values; 2: they are not, and the old ones become stale."""
    host = host or Host()
    health_options = profiles.Options(
        instance_type=args.instance_type,
        expected_efa=args.expected_efa,
        scratch=args.scratch,
        slurm_prefix=args.slurm_prefix,
        slurm_conf=args.slurm_conf,
    )
    problems = profiles.option_errors(health_options, None)
    if not args.directory.startswith("/"):
        problems.append(f"directory is {args.directory!r}: use an absolute path")
    if problems:
        LOGGER.error("watch: %s", "; ".join(problems))
        return result.EXIT_USAGE
    options = watch.Options(args.directory, args.period, health_options, args.runtime_version)
    try:
        results = watch.run(host, options)
    except NodeError as exc:
        LOGGER.error("watch: %s", exc)
        return result.EXIT_UNDETERMINABLE
    for verdict in results:
        if verdict.status in (result.FAIL, result.UNDETERMINABLE):
            sys.stdout.write(verdict.line() + "\n")
    return result.EXIT_OK


def label_job(args: argparse.Namespace, host: Host | None = None) -> int:
    """Exit 0: done; 2: it failed, which is not a reason to keep a job away."""
    host = host or Host()
    text = str(args.job or os.environ.get("SLURM_JOB_ID", ""))
    if not text.isdecimal() or not 0 < int(text) <= LARGEST_ID:
        LOGGER.error("job-label: no job is named: use --job, or run this where Slurm sets SLURM_JOB_ID")
        return result.EXIT_USAGE
    try:
        if args.action == "remove":
            job_labels.remove(host, int(text))
            step_times.remove(host, int(text))
        else:
            gpus = job_labels.parse_gpus(os.environ.get("SLURM_JOB_GPUS", "") if args.gpus is None else args.gpus)
            user = os.environ.get("SLURM_JOB_USER", "") if args.user is None else args.user
            job_labels.add(host, job_labels.Job(int(text), result.printable(user), gpus))
    except NodeError as exc:
        LOGGER.error("job-label: %s", exc)
        return result.EXIT_UNDETERMINABLE
    return result.EXIT_OK
