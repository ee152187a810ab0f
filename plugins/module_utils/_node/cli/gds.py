# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb gds of the mlcluster command."""

from __future__ import annotations

import argparse
import logging
import math
import typing as t

from ..gds.decide import advice, survey
from ..gds.gdsio import bandwidth
from ..gds.verify import verify
from ..system.ask import whole_number
from ..system.host import Host, NodeError
from ..verdict import result
from .report import print_report

LOGGER = logging.getLogger("mlcluster")
# The limits of the role: 1 TiB, and ten minutes.
MAX_MIB = 1 << 20
MAX_SECONDS = 600


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    gds = subparsers.add_parser(
        "gds", help="print which path of GPUDirect Storage is active on each mount, and what the others lack"
    )
    gds.add_argument("mounts", nargs="*", default=["/"], metavar="PATH", help="paths to check (/)")
    gds.add_argument("--active", action="store_true", help="prove it with a temporary file on each mount")
    gds.add_argument(
        "--require", action="append", default=[], choices=("nvfs", "p2pdma", "compat"), help="an accepted mode"
    )
    gds.add_argument("--bandwidth", action="store_true", help="measure with gdsio, by cuFile and through the CPU")
    gds.add_argument(
        "--bandwidth-mib", type=whole_number(1, MAX_MIB), default=1024, help="size of the file to read (%(default)s)"
    )
    gds.add_argument("--baseline", type=_positive, help="minimum GiB/s that this site accepts by cuFile")
    gds.add_argument("--gdsio", metavar="PATH", help="path of gdsio (default: with CUDA, or on the search path)")
    gds.add_argument("--library", help="path of libcufile.so.0")
    gds.add_argument(
        "--timeout", type=whole_number(1, MAX_SECONDS), default=30, help="seconds for each process (%(default)s)"
    )
    gds.add_argument("--json", action="store_true", help="print one mlcluster.report/1 instead of lines")
    gds.set_defaults(handler=gds_verb)


def _positive(text: str) -> float:
    """Parse --baseline: with nan every figure would pass."""
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def gds_verb(args: argparse.Namespace, host: Host | None = None) -> int:
    """Print the verdicts and return their exit code."""
    host = host or Host()
    try:
        facts = survey(host, args.mounts, args.active, args.library, args.timeout)
    except NodeError as exc:
        LOGGER.error("gds: %s", exc)
        return result.EXIT_UNDETERMINABLE
    results = verify(facts, args.require)
    facts["tools"]["gdsio"] = args.gdsio or facts["tools"]["gdsio"]
    if args.bandwidth:
        results += [bandwidth(facts, mount, args.bandwidth_mib, args.baseline) for mount in facts["mounts"]]
    versions = {"mlcluster.aws": args.runtime_version, "libcufile": facts["library"]["version"] or "none"}
    return print_report(host, results, versions, args.json, [f"note: {text}" for text in advice(facts)])
