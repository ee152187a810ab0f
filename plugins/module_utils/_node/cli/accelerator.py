# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The subcommand accelerators of the mlcluster command."""

from __future__ import annotations

import argparse
import typing as t

from ..._data.checklists import CHECKLISTS
from ..accelerator import look as accelerator
from ..accelerator.verify import verify
from ..health import checklist as accelerator_checklist
from ..system.ask import whole_number
from ..system.host import Host
from .report import print_report


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    parser = subparsers.add_parser("accelerators", help="check GPUs or Neuron devices; changes nothing")
    parser.add_argument("--instance-type", help="the EC2 instance type (default: from the firmware)")
    parser.add_argument(
        "--timeout",
        type=whole_number(1, accelerator.LONGEST_TIMEOUT),
        default=60,
        help="seconds for each command (%(default)s)",
    )
    parser.add_argument("--mig", action="store_true", help="MIG is expected on this node")
    parser.add_argument("--checklist", choices=sorted(CHECKLISTS), help="also check this checklist")
    parser.add_argument("--json", action="store_true", help="print one mlcluster.report/1 instead of lines")
    parser.set_defaults(handler=show)


def show(args: argparse.Namespace, host: Host | None = None) -> int:
    """Print the verdicts and return their exit code."""
    host = host or Host()
    facts = accelerator.look(host, accelerator.Options(instance_type=args.instance_type, timeout=args.timeout))
    results = verify(facts, args.mig)
    if args.checklist:
        parameters = accelerator_checklist.of_machine(host, args.checklist, facts["instance_type"])
        checks = accelerator_checklist.choose(args.checklist, parameters)
        results += accelerator_checklist.verify(checks, accelerator_checklist.look(host, checks, facts))
    return print_report(host, results, {"mlcluster.aws": args.runtime_version}, args.json)
