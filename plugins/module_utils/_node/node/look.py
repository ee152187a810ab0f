# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look at a node: every role's look, plan and verdicts, in parallel, each within its own limit."""

from __future__ import annotations

import dataclasses
import difflib
import typing as t

from ..system.argument_types import problems as type_problems
from ..system.host import Host
from ..system.parallel import STATE_DIRECTORY, Job, Outcome, run_jobs
from ..system.plan import Plan, file_due, refused
from ..system.role_file import role_file
from ..verdict.result import answer
from .domains import DOMAINS, Domain

# Limit for all looks together; each also has its own.
SECONDS = 3600.0
# Minimum similarity of a known name that is suggested for an unknown one (difflib's ratio).
ALIKE = 0.7

Options = t.Mapping[str, t.Any]


def look_all(
    host: Host,
    options_by_role: t.Mapping[str, Options],
    read_only: bool = False,
    domains: t.Mapping[str, Domain] = DOMAINS,
    state_directory: str = STATE_DIRECTORY,
    seconds: float = SECONDS,
) -> dict[str, dict[str, t.Any]]:
    """Return for each role: plan, results, lines, problems, info, details, facts, failed, seconds.

    ``options_by_role`` are the options of each role, with the types of its spec; missing ones have their defaults.
    ``plan`` is ``mlcluster.plan/1``; ``results`` are verdicts and ``lines`` the same for users, ``problems`` those of
    them that are neither a pass nor not applicable; ``info``, ``details`` and ``facts`` are of ``Report``. A look
    without an answer gives a plan that refuses, and ``failed`` is the reason; otherwise it is None.
    """
    jobs = [_job(domains[role], options, read_only) for role, options in options_by_role.items()]
    outcomes = run_jobs(host, jobs, seconds, state_directory)
    return {role: _answer(role, outcomes[_name(role)]) for role in options_by_role}


def _name(role: str) -> str:
    return f"look.{role}"


def complete(domain: Domain, options: Options) -> dict[str, t.Any]:
    """Return the options with the defaults of those that were not given."""
    defaults = {name: entry["default"] for name, entry in domain.spec.items() if "default" in entry}
    return {**defaults, **{name: value for name, value in options.items() if value is not None}}


def unknown_name(what: str, name: str, known: t.Iterable[str], prefix: str = "") -> str:
    """Return the sentence that rejects a name, with the most similar known one."""
    close = difflib.get_close_matches(name, sorted(known), 1, ALIKE)
    return f"unknown {what} {prefix}{name}" + (f"; the nearest is {prefix}{close[0]}" if close else "")


def option_errors(domain: Domain, options: Options) -> list[str]:
    """Return the errors in coerced options: a sentence each, with the name of the role's variable.

    The role's own ``problems`` run only if names, types and choices are valid.
    """
    prefix = f"{domain.role}_"
    unknown = sorted(set(options) - set(domain.spec))
    if unknown:
        return [unknown_name("option", name, domain.spec, prefix) for name in unknown]
    spec = {prefix + name: option for name, option in domain.spec.items()}
    given = {prefix + name: value for name, value in options.items()}
    found = list(type_problems(given, spec))
    # With the text of Ansible's own check, which runs first if a role is applied alone.
    found += [
        f"value of {name} must be one of: {', '.join(map(str, spec[name]['choices']))}, got: {value}"
        for name, value in given.items()
        if spec[name].get("choices") and not set(_each(value)) <= set(spec[name]["choices"])
    ]
    return found or list(domain.problems(options))


def _each(value: t.Any) -> list[t.Any]:
    """Return the values that must be among the choices."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _job(domain: Domain, options: Options, read_only: bool) -> Job:
    given = complete(domain, options)
    config = domain.parse({**given, **(domain.read_only if read_only else {})})
    return Job(_name(domain.key), lambda host: _look(host, domain, given, config), domain.seconds(config))


def _look(host: Host, domain: Domain, given: Options, config: t.Any) -> dict[str, t.Any]:
    facts = domain.look(host, config)
    plan = _with_role_file(host, domain, given, domain.plan(facts, config))
    results = list(domain.verify(facts, config))
    reported = domain.report(facts, config)
    return {
        "plan": plan.to_dict(),
        **answer(results),
        "info": list(reported.info),
        "details": list(reported.details),
        "facts": dict(reported.facts),
    }


def _with_role_file(host: Host, domain: Domain, given: Options, plan: Plan) -> Plan:
    """Return the plan, with the file of the role's options if it differs and the role may act."""
    if plan.refusals or not plan.concerned:
        return plan
    kept = {name: value for name, value in given.items() if name not in domain.transient}
    wanted = role_file(domain.key, kept, domain.spec)
    due = file_due(wanted, host.sha256(wanted.path), host.stat(wanted.path))
    return dataclasses.replace(plan, files=(*plan.files, *due))


def _answer(role: str, outcome: Outcome) -> dict[str, t.Any]:
    if outcome.problem is None:
        return {**outcome.answer, "failed": None, "seconds": outcome.seconds}
    hint = f": {outcome.hint}" if outcome.hint else ""
    why = f"the look of role {role} gave no answer ({outcome.problem}){hint}"
    nothing: dict[str, t.Any] = {"results": [], "lines": [], "problems": [], "info": [], "details": [], "facts": {}}
    return {"plan": refused(role, [why]).to_dict(), **nothing, "failed": why, "seconds": outcome.seconds}
