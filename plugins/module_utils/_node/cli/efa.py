# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb efa of the mlcluster command."""

from __future__ import annotations

import argparse
import typing as t

from ..._data.accelerator_versions import COMPONENTS
from ..accelerator.versions import minima_problems
from ..efa import look as efa
from ..efa.verify import verify
from ..system.ask import whole_number
from ..system.host import Host
from .report import print_report


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    parser = subparsers.add_parser("efa", help="check EFA, libfabric and NCCL's plugin; changes nothing")
    parser.add_argument("--instance-type", help="the EC2 instance type (default: from the firmware)")
    parser.add_argument(
        "--expected-devices",
        type=whole_number(0, efa.MAX_DEVICES),
        help="how many EFA devices there must be (default: by type)",
    )
    parser.add_argument(
        "--wait",
        type=whole_number(0, efa.LONGEST_WAIT),
        default=0,
        help="seconds to wait for late devices (%(default)s)",
    )
    parser.add_argument(
        "--minimum",
        action="append",
        type=_minimum,
        default=[],
        metavar="WHAT=VERSION",
        help=f"the oldest accepted version of {', '.join(COMPONENTS)}; may be given several times",
    )
    parser.add_argument("--json", action="store_true", help="print one mlcluster.report/1 instead of lines")
    parser.set_defaults(handler=show)


def _minimum(text: str) -> tuple[str, str]:
    name, _equals, version = text.partition("=")
    problems = minima_problems({name: version})
    if problems:
        raise argparse.ArgumentTypeError(problems[0])
    return name, version


def show(args: argparse.Namespace, host: Host | None = None) -> int:
    """Print the verdicts and return their exit code."""
    host = host or Host()
    options = efa.Options(
        instance_type=args.instance_type,
        expected_devices=args.expected_devices,
        wait_seconds=args.wait,
        minima=dict(args.minimum),
    )
    results = verify(efa.look(host, options))
    return print_report(host, results, {"mlcluster.aws": args.runtime_version}, args.json)
