# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb submit-training of the mlcluster command: the trainings of a plan, from a node that submits jobs."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import typing as t

from ..jobs.plan_run import InvalidPlanError, PlanRun
from ..slurm.client import Slurm
from ..system.ask import whole_number
from ..system.host import Host, NodeError
from ..verdict import result
from .progress import add_common, print_line, write_outcome

LONGEST = 366 * 24 * 3600

LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    parser = subparsers.add_parser(
        "submit-training",
        help="submit a training for each model of a plan, and follow them",
        description="Exits with 0 if all succeeded (or, with --no-follow, were accepted by Slurm), 1 if one did not, "
        "2 if nothing was submitted, and 3 for wrong usage. A job that waits or runs already is followed.",
    )
    parser.add_argument("plan", metavar="PLAN.json", help="the plan: cluster and models; - reads standard input")
    add_common(parser)
    parser.add_argument("--no-follow", action="store_true", help="submit without following the jobs")
    parser.add_argument("--timeout", type=whole_number(1, LONGEST), default=604800, metavar="SECONDS",
                        help="how long to follow each; its job continues after that (%(default)s)")  # fmt: skip
    parser.set_defaults(handler=run)


def read_plan(host: Host, path: str) -> t.Any:
    """Return the plan that a file or standard input holds. Raises ``InvalidPlanError``."""
    text = sys.stdin.read() if path == "-" else host.read_text(path)
    if text is None:
        raise InvalidPlanError([f"{path} could not be read: use a file with the plan as JSON"])
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidPlanError([f"{path} is not JSON ({exc}): write the plan as one JSON object"]) from None
    # The format of the playbook's variables.
    return found["plan"] if isinstance(found, dict) and set(found) == {"plan"} else found


def run(args: argparse.Namespace, host: t.Optional[Host] = None) -> int:
    """Submit and follow the trainings of a plan, and return the exit status: 3 for an unreadable or invalid plan."""
    host = host or Host()
    plan_run = PlanRun(Slurm(host, args.slurm_prefix, args.slurm_conf), args.dir, print_line)
    failed: list[str] = []
    code = result.EXIT_UNDETERMINABLE
    try:
        plan_run.prepare(read_plan(host, args.plan))
        if args.dry_run:
            return result.EXIT_OK
        failed = plan_run.submit()
        if not args.no_follow:
            failed += plan_run.follow(args.timeout)
        code = result.EXIT_FAIL if failed else result.EXIT_OK
        if failed:
            LOGGER.error("submit-training: %s", "; ".join(failed))
    except InvalidPlanError as exc:
        LOGGER.error("submit-training: %s", exc)
        code = result.EXIT_USAGE
    except NodeError as exc:
        LOGGER.error("submit-training: %s", exc)
    finally:
        write_outcome(host, args.outcome, {"changed": plan_run.changed})
    return code
