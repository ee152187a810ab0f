# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verbs health, drain-marker and host-facts of the mlcluster command."""

from __future__ import annotations

import argparse
import logging
import sys
import typing as t

from ..efa import look as efa
from ..health import profiles as health
from ..health.container import COMPONENTS, FACTS_PATH, host_facts
from ..health.marker import MARKER_PATH, clear_marker, read_marker, write_marker
from ..imex.config import MODES as IMEX_MODES
from ..slurm import drain as health_drain
from ..slurm.client import Slurm, node_name
from ..system.ask import whole_number
from ..system.host import Host, NodeError
from ..system.state import write_json
from ..verdict import result
from ..verdict.formats import FORMATS
from .report import report

# For each of the two commands of a drain; a Prolog has 10 seconds in total.
SLURM_SECONDS = 2

LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verbs with the mlcluster command."""
    parser = subparsers.add_parser(
        "health", help="check this node or container; in a Prolog, decide whether a job runs"
    )
    parser.add_argument("--profile", choices=health.PROFILES, default="full", help="how deep to look (%(default)s)")
    parser.add_argument("--seconds", type=whole_number(1, health.LONGEST), help="limit for everything together")
    parser.add_argument("--instance-type", help="the EC2 instance type (default: from the firmware)")
    parser.add_argument(
        "--expected-efa", type=whole_number(0, efa.MAX_DEVICES), help="how many EFA devices there must be"
    )
    parser.add_argument("--xid-since", help="ignore Xids before this time (a time for journalctl)")
    parser.add_argument("--scratch", help="the directory of the jobs' directories (default: on the local volume)")
    parser.add_argument("--mount", action="append", default=[], help="a path to check for GPUDirect Storage")
    parser.add_argument(
        "--least-free", type=whole_number(0, 100), default=5, help="percent of the jobs' volume (%(default)s)"
    )
    parser.add_argument(
        "--host-facts",
        default=FACTS_PATH,
        help="the file that the host wrote for its containers; %%N is the name of the node (%(default)s)",
    )
    parser.add_argument(
        "--require", action="append", default=[], type=_component, metavar="NAME[=VERSION]",
        help=f"a component that a container must have: {', '.join(COMPONENTS)}",
    )  # fmt: skip
    parser.add_argument(
        "--expect", metavar="FILE", help="expectations of this site, as JSON; see docs/health.md for its keys"
    )
    parser.add_argument(
        "--kind", choices=health.NODE_KINDS, help="the role of this node in the cluster (default: not given)"
    )
    parser.add_argument("--image", help="an image in which srun also runs the profile container")
    parser.add_argument("--image-user", default="root", help="the user who starts that container (%(default)s)")
    parser.add_argument(
        "--imex", choices=IMEX_MODES, default=IMEX_MODES[0],
        help="whether jobs on UltraServers need their NVLink domain, as in slurm_jobs_imex (%(default)s)",
    )  # fmt: skip
    gate = parser.add_mutually_exclusive_group()
    gate.add_argument("--fail-open", action="store_true", help="exit 1 only for failures; undeterminable checks pass")
    gate.add_argument("--fail-closed", action="store_true", help="exit 1 also for undeterminable checks")
    parser.add_argument(
        "--least-severity", choices=result.SEVERITIES[1:], default=health.MIN_SEVERITY,
        help="failures below this keep no job away (%(default)s)",
    )  # fmt: skip
    parser.add_argument("--drain", action="store_true", help="drain this node in Slurm if a check keeps jobs away")
    parser.add_argument("--undrain", action="store_true", help="end a drain by this command if its checks pass again")
    parser.add_argument("--slurm-prefix", help="the directory above Slurm's bin (default: /opt/slurm, or the path)")
    parser.add_argument("--slurm-conf", help="the slurm.conf to use (default: that of Slurm)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print one mlcluster.report/1 instead of lines")
    shape.add_argument(
        "--format", choices=tuple(FORMATS),
        help="print a format of other tools: AWS pcluster-diag's fields, Prometheus, JUnit, lines for nhc.conf",
    )  # fmt: skip
    parser.set_defaults(handler=show)
    marker = subparsers.add_parser("drain-marker", help="keep jobs away from this node, or admit them again")
    what = marker.add_mutually_exclusive_group()
    what.add_argument("--set", metavar="REASON", help="keep jobs away, starting with the next health check")
    what.add_argument("--clear", action="store_true", help="remove the marker")
    marker.set_defaults(handler=mark)
    facts = subparsers.add_parser("host-facts", help="write the facts that containers of this host are compared with")
    facts.add_argument("--output", default=FACTS_PATH, help="the file; %%N is the name of the node (%(default)s)")
    facts.set_defaults(handler=write_facts)


def _component(text: str) -> tuple[str, str | None]:
    name, _equals, version = text.partition("=")
    if name not in COMPONENTS:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(COMPONENTS)}")
    return name, version or None


def show(args: argparse.Namespace, host: Host | None = None) -> int:
    """Print the verdicts and return their exit code; with --fail-open and --fail-closed, 1 if no job may run."""
    host = host or Host()
    expectations = {} if args.expect is None else host.read_json(args.expect)
    if expectations is None:
        LOGGER.error(
            "health: %s cannot be read or is not JSON: use a file of expectations, or omit --expect", args.expect
        )
        return result.EXIT_USAGE
    options = health.Options(
        instance_type=args.instance_type,
        expected_efa=args.expected_efa,
        xid_since=args.xid_since,
        scratch=args.scratch,
        least_free_percent=args.least_free,
        mounts=tuple(args.mount),
        host_facts=args.host_facts.replace("%N", node_name()),
        require=dict(args.require),
        expectations=expectations,
        kind=args.kind,
        image=args.image,
        image_user=args.image_user,
        slurm_prefix=args.slurm_prefix,
        slurm_conf=args.slurm_conf,
        imex=args.imex,
    )
    problems = health.option_errors(options, args.seconds)
    if problems:
        LOGGER.error("health: %s", "; ".join(problems))
        return result.EXIT_USAGE
    results, versions = health.split(health.run_profile(host, args.profile, options, args.seconds))
    judged = report(host, results, {"mlcluster.aws": args.runtime_version, **versions})
    if args.format:
        sys.stdout.write(FORMATS[args.format]([judged]))
    else:
        sys.stdout.write((result.dumps(judged) if args.json else "\n".join(judged.lines())) + "\n")
    blocking = health.blocking(results, args.fail_closed, args.least_severity)
    # Without --expect the expectations of the site are not known.
    dropped = [] if args.expect is None else health.dropped(host, options)
    _update_slurm(args, host, [*results, *dropped], blocking)
    if args.fail_open or args.fail_closed:
        for verdict in blocking:
            LOGGER.error("health: no job here: %s", verdict.line())
        return result.EXIT_FAIL if blocking else result.EXIT_OK
    return result.exit_code(results)


def _update_slurm(
    args: argparse.Namespace, host: Host, results: t.Sequence[result.Result], blocking: t.Sequence[result.Result]
) -> None:
    """Drain or undrain if requested; a missing answer of Slurm does not change the verdicts."""
    try:
        if blocking and args.drain:
            done = health_drain.drain(
                Slurm(host, args.slurm_prefix, args.slurm_conf), node_name(), blocking, SLURM_SECONDS
            )
            LOGGER.warning("health: %s", done)
        elif not blocking and args.undrain:
            ended = health_drain.undrain(
                Slurm(host, args.slurm_prefix, args.slurm_conf), node_name(), results, SLURM_SECONDS
            )
            if ended:
                LOGGER.warning("health: %s", ended)
    except NodeError as exc:
        LOGGER.error("health: %s", exc)


def mark(args: argparse.Namespace, host: Host | None = None) -> int:
    """Set, clear or show the drain marker. Exit 0: no marker; 1: a marker; 2: undeterminable."""
    host = host or Host()
    try:
        if args.set is not None:
            write_marker(host, args.set, "mlcluster drain-marker")
            return result.EXIT_OK
        if args.clear:
            clear_marker(host)
            return result.EXIT_OK
        marker = read_marker(host)
    except NodeError as exc:
        LOGGER.error("drain-marker: %s", exc)
        return result.EXIT_UNDETERMINABLE
    sys.stdout.write(f"{marker.reason}\n" if marker else f"no marker ({MARKER_PATH})\n")
    return result.EXIT_FAIL if marker else result.EXIT_OK


def write_facts(args: argparse.Namespace, host: Host | None = None) -> int:
    """Write the facts of this host for its containers."""
    host = host or Host()
    try:
        write_json(host, args.output.replace("%N", node_name()), host_facts(host))
    except NodeError as exc:
        LOGGER.error("host-facts: %s", exc)
        return result.EXIT_UNDETERMINABLE
    return result.EXIT_OK
