# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs nccl-verdict and efa-counters of the mlcluster command."""

from __future__ import annotations

import argparse
import json
import logging
import platform
import sys
import typing as t

from ..._data.thresholds import TOLERANCE_PERCENT
from ..nccl.baseline import load, record
from ..nccl.counters import parse_snapshots, snapshot
from ..nccl.fabric import Counters
from ..nccl.parse import parse, parse_file, read_lines
from ..nccl.table import NCCL_TESTS, NCCOM_TEST
from ..nccl.verify import Judged, RequestedRun, entries, judge
from ..system.host import Host, NodeError
from ..verdict import result

LOGGER = logging.getLogger("mlcluster")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 1")
    return number


def _percent(text: str) -> float:
    number = float(text)
    if not 0 <= number < 100:
        raise argparse.ArgumentTypeError(f"{text} is not a percentage from 0 to below 100")
    return number


def add_verbs(subparsers: t.Any) -> None:
    """Register the verbs with the mlcluster command."""
    verb = subparsers.add_parser(
        "nccl-verdict", help="check an output of nccl-tests or nccom-test: correct, over EFA, fast enough"
    )
    verb.add_argument("file", metavar="FILE", help="the output, with NCCL_DEBUG=INFO lines of all ranks; - for stdin")
    verb.add_argument("--ranks", type=_positive, help="the expected number of ranks")
    verb.add_argument("--nodes", type=_positive, help="the expected number of nodes")
    verb.add_argument("--instance-type", help="EC2 instance type of the nodes")
    verb.add_argument("--domains", type=int, help="the number of UltraServers of the nodes")
    verb.add_argument("--collective", help="the collective to check, such as all_reduce")
    verb.add_argument("--tool", choices=(NCCL_TESTS, NCCOM_TEST), help="the test program (default: from the output)")
    verb.add_argument("--rc", type=int, help="exit status of the test")
    verb.add_argument("--checked", action="store_true", help="nccom-test ran with --check")
    verb.add_argument(
        "--counters-before", metavar="FILE", help="the output of efa-counters on each node before the run"
    )
    verb.add_argument("--counters-after", metavar="FILE", help="the same after the run")
    verb.add_argument("--baseline", metavar="FILE", help="compare with the bandwidths recorded in this file")
    verb.add_argument("--record-baseline", metavar="FILE", help="record the bandwidths of this run, if it passes")
    verb.add_argument(
        "--tolerance",
        type=_percent,
        default=float(TOLERANCE_PERCENT),
        metavar="PERCENT",
        help="accepted loss against a known bandwidth (%(default)g)",
    )
    verb.add_argument("--json", action="store_true", help="print one mlcluster.report/1 instead of lines")
    verb.set_defaults(handler=nccl_verdict)
    counters = subparsers.add_parser(
        "efa-counters", help="print the byte counters of this host's EFA devices as one line of JSON"
    )
    counters.set_defaults(handler=efa_counters)


def requested_run(args: argparse.Namespace, host: Host) -> RequestedRun:
    """Return the options of the verb as a request. Raises ``NodeError`` for an invalid file."""
    before, after = read_snapshots(host, args.counters_before, args.counters_after)
    return RequestedRun(
        ranks=args.ranks,
        nodes=args.nodes,
        instance_type=args.instance_type,
        collective=args.collective,
        rc=args.rc,
        checked=args.checked,
        before=before,
        after=after,
        baseline=load(host, args.baseline) if args.baseline else (),
        tolerance_percent=args.tolerance,
        domains=args.domains,
    )


def read_snapshots(host: Host, before: str | None, after: str | None) -> tuple[Counters, Counters]:
    """Return the counters in the two files by host, None without a file. Raises ``NodeError``."""
    if before and after and host.realpath(before) == host.realpath(after):
        raise NodeError(f"{before} is given for the counters before and after the test: use the two files of that test")
    return _snapshots(host, before), _snapshots(host, after)


def _snapshots(host: Host, path: str | None) -> Counters:
    if path is None:
        return None
    text = host.read_text(path)
    if text is None:
        raise NodeError(
            f"looked for the counters {path} and could not read them: use a file with the output of efa-counters"
        )
    return parse_snapshots(text, path)


def nccl_verdict(args: argparse.Namespace, host: Host | None = None) -> int:
    """Print the verdicts on an output and return their exit code; 3 for an invalid file of an option."""
    host = host or Host()
    try:
        requested = requested_run(args, host)
        output = parse(read_lines(sys.stdin.buffer)) if args.file == "-" else parse_file(args.file)
        judged = judge(output, requested, args.tool)
    except NodeError as exc:
        LOGGER.error("nccl-verdict: %s", exc)
        return result.EXIT_USAGE
    report = result.Report(
        platform.node() or "unknown", host.now(), {"mlcluster.aws": args.runtime_version}, judged.results
    )
    sys.stdout.write((result.dumps(report) if args.json else "\n".join(report.lines() + _facts(judged))) + "\n")
    code = result.exit_code(judged.results)
    if args.record_baseline and not _recorded(args.record_baseline, judged, requested, host):
        # A run that could not be recorded as requested is not a success.
        code = code or result.EXIT_UNDETERMINABLE
    return code


def _recorded(path: str, judged: Judged, requested: RequestedRun, host: Host) -> bool:
    fresh, problem = entries(judged, requested, host.now())
    if problem is None:
        try:
            record(host, path, fresh)
            LOGGER.info("nccl-verdict: recorded %d bandwidths in %s", len(fresh), path)
            return True
        except NodeError as exc:
            problem = str(exc)
    LOGGER.error("nccl-verdict: nothing was recorded in %s: %s", path, problem)
    return False


def _facts(judged: Judged) -> list[str]:
    facts = judged.facts
    if judged.run is None:
        return []
    inside = ", ".join(f"{name} ({number} channels)" for name, number in facts["intra_node"].items())
    sharp = {None: "not known", 0: "off"}.get(facts["nvls_channels"], f"{facts['nvls_channels']} channels")
    return [
        f"GPUDirect RDMA between nodes: {facts['gpudirect_rdma'] or 'not known'}",
        f"between the GPUs of a node: {inside or 'not known'}; NVLink SHARP: {sharp}",
    ]


def efa_counters(args: argparse.Namespace, host: Host | None = None) -> int:
    """Print ``{"host": ..., "devices": {device: {counter: bytes}}}``; exit 2 without a device."""
    devices = snapshot(host or Host())
    sys.stdout.write(json.dumps({"host": platform.node(), "devices": devices}, sort_keys=True) + "\n")
    return result.EXIT_OK if devices else result.EXIT_UNDETERMINABLE
