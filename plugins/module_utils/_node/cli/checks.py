# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verb checks of the mlcluster command: a list of all checks, without looking at the node."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import typing as t

from ..._data.checks import CHECKS
from ..verdict import result

SCHEMA = "mlcluster.checks/1"
# The profiles of the table, and the command or step of each.
ASKED_BY = {
    "prolog": "mlcluster health --profile prolog, before each job",
    "full": "mlcluster health --profile full, and check_nodes",
    "container": "mlcluster health --profile container",
    "checklist": "mlcluster accelerators --checklist",
    "role": "the role of that part, in site.yml and verify_nodes",
    "job": "a validation job",
    "watch": "mlcluster watch",
    "scratch": "mlcluster scratch",
    "run": "the end of site.yml and verify_nodes",
    "preflight": "the playbook preflight",
    "report": "the report on a cluster",
}
_WIDTH = 100


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    checks = subparsers.add_parser(
        "checks", help="list every check: its id, when it fails, its severity, and its profiles"
    )
    checks.add_argument("prefix", nargs="?", default="", metavar="ID", help="only ids with this prefix, such as gpu.")
    checks.add_argument("--profile", choices=tuple(ASKED_BY), help="only checks of this profile")
    checks.add_argument("--json", action="store_true", help=f"print one {SCHEMA} instead of lines")
    checks.set_defaults(handler=checks_verb)


def chosen(prefix: str, profile: str | None) -> list[dict[str, t.Any]]:
    """Return {id, fails_when, severities, profiles} of each check with this prefix in this profile."""
    return [
        {"id": name, "fails_when": text, "severities": list(severities), "profiles": list(who)}
        for name, text, severities, who in CHECKS
        if name.startswith(prefix) and (profile is None or profile in who)
    ]


def lines(checks: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return two or more lines a check: id, severities and profiles; below, when it fails."""
    found = []
    for check in checks:
        severities = "/".join(check["severities"]) or "-"
        found.append(f"{check['id']:<28} {severities:<22} {', '.join(check['profiles'])}".rstrip())
        found += textwrap.wrap(
            check["fails_when"] or "(reported only)", _WIDTH, initial_indent="    ", subsequent_indent="    "
        )
    return found


def checks_verb(args: argparse.Namespace) -> int:
    """Print the list; a selection without any check is a usage error."""
    found = chosen(args.prefix, args.profile)
    if not found:
        profile = f" in the profile {args.profile}" if args.profile else ""
        sys.stderr.write(
            f"mlcluster checks: no check has an id that begins with {args.prefix!r}{profile}; "
            "'mlcluster checks' lists all of them\n"
        )
    if args.json:
        sys.stdout.write(json.dumps({"schema": SCHEMA, "checks": found}, indent=1) + "\n")
    elif found:
        closing = f"{len(found)} checks; a check fails in the case below its id"
        sys.stdout.write("\n".join([*lines(found), closing]) + "\n")
    return result.EXIT_OK if found else result.EXIT_USAGE
