# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb plan of the mlcluster command."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import typing as t

from ..node.domains import DOMAINS
from ..node.look import look_all, option_errors, unknown_name
from ..system.argument_types import coerce, type_name
from ..system.host import Host, NodeError
from ..system.role_file import path_of, read_role_file, written_roles
from ..verdict import result

LOGGER = logging.getLogger("mlcluster")


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    plan = subparsers.add_parser(
        "plan",
        help="print what the roles of this node would change if they were applied again",
        description="Exits with 0 if nothing differs, 1 if something does, and 2 if a role has a refusal, a look gave "
        "no answer, or no role has been applied here.",
    )
    plan.add_argument(
        "--role", action="append", default=[], choices=sorted(DOMAINS), help="only this role; may be repeated"
    )
    plan.add_argument("--json", action="store_true", help="print the plans as one JSON object by role")
    plan.set_defaults(handler=plan_verb)


def plan_verb(args: argparse.Namespace, host: Host | None = None) -> int:
    """Print what each role would change; the exit code is 1 if anything differs."""
    host = host or Host()
    written = [] if args.role else written_roles(host)
    roles = args.role or written
    unknown = [role for role in written if role not in DOMAINS]
    if unknown:
        errors = (f"{path_of(role)}: {unknown_name('role', role, DOMAINS)}" for role in unknown)
        LOGGER.error("plan: %s: rename or remove the file", "; ".join(errors))
        return result.EXIT_UNDETERMINABLE
    if not roles:
        LOGGER.error("plan: no role has left its options in %s: apply one first", path_of("ROLE"))
        return result.EXIT_UNDETERMINABLE
    try:
        asked = {role: _options(host, role) for role in roles}
    except NodeError as exc:
        LOGGER.error("plan: %s", exc)
        return result.EXIT_UNDETERMINABLE
    plans = {role: answer["plan"] for role, answer in look_all(host, asked, read_only=True).items()}
    if args.json:
        text = json.dumps(plans, indent=2, sort_keys=True)
    else:
        text = "\n".join(f"{role}: {_line(plan)}" for role, plan in plans.items())
    sys.stdout.write(f"{text}\n")
    if any(plan["refusals"] for plan in plans.values()):
        return result.EXIT_UNDETERMINABLE
    return result.EXIT_OK if all(plan["empty"] for plan in plans.values()) else result.EXIT_FAIL


def _options(host: Host, role: str) -> dict[str, t.Any]:
    spec = DOMAINS[role].spec
    options = {
        name: coerce(type_name(spec[name]), value) if name in spec else value
        for name, value in read_role_file(host, role).items()
    }
    found = option_errors(DOMAINS[role], options)
    if found:
        raise NodeError(f"{path_of(role)}: {'; '.join(found)}: run the role {role} again to write it")
    return options


def _line(plan: t.Mapping[str, t.Any]) -> str:
    if plan["refusals"]:
        return f"refused: {'; '.join(plan['refusals'])}"
    if not plan["concerned"]:
        return f"nothing to do: {plan['reason']}"
    return f"would change {', '.join(plan['differences'])}" if plan["differences"] else "nothing to do"
