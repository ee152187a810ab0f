# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb heal of the mlcluster command: repair of drained nodes, and its journal."""

from __future__ import annotations

import argparse
import logging
import sys
import time
import typing as t

from ..health import profiles
from ..node import heal, healing
from ..slurm.client import Slurm, node_name
from ..system.ask import whole_number
from ..system.host import Host, NodeError
from ..verdict import result

CONFIG = "/etc/mlcluster/heal.json"

LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    parser = subparsers.add_parser("heal", help="reset, reboot or replace nodes that the health check has drained")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--node", action="store_true", help="do this node's part: reset its GPUs, and resume it after a full check"
    )
    what.add_argument("--journal", action="store_true", help="print what was done, the newest last")
    what.add_argument("--dry-run", action="store_true", help="print what would be done")
    parser.add_argument("--config", default=CONFIG, help="the policy (%(default)s)")
    parser.add_argument("--lines", type=whole_number(1, heal.MAX_LINES), default=50, help="of --journal (%(default)s)")
    parser.add_argument("--directory", help="where to write metrics for node_exporter (default: none are written)")
    parser.add_argument("--instance-type", help="the EC2 instance type (default: from the firmware)")
    parser.add_argument("--slurm-prefix", help="the directory above Slurm's bin (default: /opt/slurm, or the path)")
    parser.add_argument("--slurm-conf", help="the slurm.conf to use (default: that of Slurm)")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace, host: Host | None = None) -> int:
    """Exit 0: done, or nothing to do; 2: it failed."""
    host = host or Host()
    slurm = Slurm(host, args.slurm_prefix, args.slurm_conf)
    try:
        if args.journal:
            events = heal.read_journal(host)[-args.lines :]
            sys.stdout.write("".join(f"{heal.shown(event)}\n" for event in events) or "nothing was done\n")
            return result.EXIT_OK
        if args.node:
            options = profiles.Options(
                instance_type=args.instance_type, slurm_prefix=args.slurm_prefix, slurm_conf=args.slurm_conf
            )
            done = heal.heal_node(host, slurm, node_name(), options)
            lines = [done] if done else []
        else:
            policy, problems = healing.parse_policy(host.read_json(args.config))
            if problems:
                LOGGER.error("heal: %s: %s", args.config, "; ".join(problems))
                return result.EXIT_UNDETERMINABLE
            lines = heal.heal_cluster(host, slurm, policy, time.time(), directory=args.directory, dry_run=args.dry_run)
    except NodeError as exc:
        LOGGER.error("heal: %s", exc)
        return result.EXIT_UNDETERMINABLE
    for line in lines:
        LOGGER.warning("heal: %s", line)
    return result.EXIT_OK
