# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict at the end of a run: nodes by roles, folded, as lines and as ``mlcluster.report/1``. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run.journal import Entry
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run.names import ROLES

PROVED, CHANGED, NOT_APPLICABLE = "proved", "changed", "not applicable"
NOT_PROVED, FAILED = "not proved", "failed"
NO_ROLE = "-"
# Ids of hardware that is in the inventory and missing on the node: they count even if the role is not required.
INVENTORY = "inventory."
# Maximum number of node names in a message.
NAMES = 3
UNREACHED = "the run ended on this node before; its message is above"
ENDED = "the run ended on this node; its message is above"
NO_VERDICT = "the role gave no verdict, as on a machine that builds an image"
# Roles without verdicts: an empty plan is their proof.
WITHOUT_VERDICTS = ("slurm_jobs", "slurm_jobs_checks", "slurm_jobs_tools")


@dataclasses.dataclass(frozen=True)
class Cell:
    """The state of one role on one node; ``texts`` are the reasons.

    ``counts``: it fails the run. ``uncounted`` is why a failure does not: the role is not required, or check mode.
    """

    state: str
    texts: tuple[str, ...] = ()
    counts: bool = False
    uncounted: str = ""
    results: tuple[dict[str, Any], ...] = ()


NOT_REQUIRED, CHECK_MODE = "not required", "check mode"
Table = Mapping[str, Mapping[str, Cell]]


def table(entries: Iterable[Entry], hosts: Sequence[str], ended: Collection[str] = ()) -> dict[str, dict[str, Cell]]:
    """Return host to role to cell; ``ended`` are the hosts on which the run has stopped.

    A host without roles is only in the table if the run has stopped on it.
    """
    found: dict[str, dict[str, list[Entry]]] = {host: {} for host in hosts}
    latest: dict[str, str] = {}
    for entry in entries:
        found.setdefault(entry.host, {}).setdefault(entry.role, []).append(entry)
        if entry.begun or entry.host not in latest:
            latest[entry.host] = entry.role
    return {
        host: _with_end(
            {role: cell(by_role[role], host in ended) for role in by_role}, latest.get(host) if host in ended else None
        )
        for host, by_role in found.items()
        if by_role or host in ended
    }


def _with_end(cells: Mapping[str, Cell], last: str | None) -> dict[str, Cell]:
    """Return the cells of a node in the order of roles.

    ``last`` is the role that began last on a node where the run stopped: if no role counts as a failure, this one
    does, because the failure came after its judgement.
    """
    ordered = {role: cells[role] for role in sorted(cells, key=_order)}
    if last and not any(found.counts for found in ordered.values()):
        ordered[last] = dataclasses.replace(ordered[last], state=NOT_PROVED, texts=(ENDED,), counts=True)
    return ordered


def _order(role: str) -> tuple[int, str]:
    return (ROLES.index(role) if role in ROLES else len(ROLES), role)


def cell(entries: Sequence[Entry], ended: bool = False) -> Cell:
    """Return the cell for the entries of one role on one node; the last entry by the role itself counts."""
    # A role that began again after its judgement may have changed what was judged.
    last = next((entry for entry in reversed(entries) if entry.begun), entries[-1])
    statuses = {str(found.get("status")) for found in last.results}
    results = tuple(last.results)
    problems = tuple(last.problems) or tuple(map(_line, filter(_is_bad, last.results)))
    missing = any(str(found["id"]).startswith(INVENTORY) for found in last.results)
    counts = (last.required or missing) and not last.check
    if last.failure or problems:
        is_unknown = bool(last.results) and not last.failure and result.FAIL not in statuses
        state = NOT_PROVED if is_unknown and result.UNDETERMINABLE in statuses else FAILED
        counts = counts or bool(last.failure)
        uncounted = "" if counts else CHECK_MODE if last.required or missing else NOT_REQUIRED
        return Cell(state, problems or (str(last.failure),), counts, uncounted, results)
    if not last.final:
        return _unjudged(last, ended)
    if not last.concerned:
        return Cell(NOT_APPLICABLE, (last.reason,), results=results)
    if not statuses and last.role not in WITHOUT_VERDICTS:
        return Cell(NOT_PROVED, (NO_VERDICT,))
    if statuses and result.PASS not in statuses:
        return Cell(NOT_APPLICABLE, tuple(dict.fromkeys(_reason(found) for found in last.results)), results=results)
    return Cell(CHANGED if any(entry.differs for entry in entries) else PROVED, results=results)


def _is_bad(found: Mapping[str, Any]) -> bool:
    return found.get("status") not in (result.PASS, result.NOT_APPLICABLE)


def _line(found: Mapping[str, Any]) -> str:
    return result.Result.from_dict(found).line()


def _reason(found: Mapping[str, Any]) -> str:
    return str(found.get("message") or found.get("reason"))


def _unjudged(last: Entry, ended: bool) -> Cell:
    """Return the cell of a role that did not reach its verification."""
    if last.check and last.begun:
        return Cell(NOT_PROVED, (last.reason or "check mode does not prove what it would change",))
    if not last.verified:
        return Cell(NOT_PROVED, ("--tags leave its verification out",))
    if ended:
        return Cell(FAILED, (ENDED,), True) if last.begun else Cell(NOT_PROVED, (UNREACHED,), True)
    return Cell(NOT_PROVED, ("the role did not reach its verification",), True)


def is_good(cells: Mapping[str, Cell]) -> bool:
    """Return whether a node has nothing that fails the run."""
    return bool(cells) and not any(cell.counts for cell in cells.values())


def lines(cells: Table) -> list[str]:
    """Return the table, with one line for nodes with the same cells, followed by the reasons."""
    if not cells:
        return []
    roles = sorted({role for by_role in cells.values() for role in by_role}, key=_order)
    rows: dict[tuple[str, ...], list[str]] = {}
    for host, by_role in cells.items():
        states = tuple(by_role[role].state if role in by_role else NO_ROLE for role in roles)
        rows.setdefault(states, []).append(host)
    proved_rows = [states for states in rows if set(states) <= {PROVED, NO_ROLE} and PROVED in states]
    # With the roles: --tags leaves some of them out, and groups differ.
    output = []
    for states in proved_rows:
        names = ", ".join(role for role, state in zip(roles, states) if state == PROVED)
        output.append(f"verdict: {_count(len(rows.pop(states)))}: all proved ({names})")
    if not rows:
        return output
    hosts_by_states = {states: _hosts_text(hosts) for states, hosts in rows.items()}
    first = max(map(len, [*hosts_by_states.values(), "verdict"]))
    widths = [max(len(role), *(len(states[index]) for states in rows)) for index, role in enumerate(roles)]
    output.append(_row("verdict", roles, first, widths))
    output += [_row(hosts_by_states[states], states, first, widths) for states in sorted(rows, key=_sort_key)]
    return output + _reason_lines(cells)


def _sort_key(states: Sequence[str]) -> tuple[int, ...]:
    order = (FAILED, NOT_PROVED, CHANGED, NOT_APPLICABLE, PROVED, NO_ROLE)
    # A node without any role was not reached.
    found = [order.index(NOT_PROVED) if set(states) == {NO_ROLE} else order.index(state) for state in states]
    return tuple(sorted(found))


def _row(first: str, rest: Sequence[str], width: int, widths: Sequence[int]) -> str:
    return "  ".join([first.ljust(width), *(text.ljust(size) for text, size in zip(rest, widths))]).rstrip()


def _count(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


def _hosts_text(hosts: Sequence[str]) -> str:
    return result.first_of(hosts, NAMES) if len(hosts) <= NAMES else f"{_count(len(hosts))} ({hosts[0]} to {hosts[-1]})"


def _reason_lines(cells: Table) -> list[str]:
    """Return a line for each reason, the worst first, with its roles and nodes."""
    hosts: dict[tuple[str, str, str], list[str]] = {}
    for host, by_role in cells.items():
        if not by_role:
            hosts.setdefault((NOT_PROVED, "", UNREACHED), []).append(host)
        for role, found in by_role.items():
            for text in found.texts:
                suffix = f" ({found.uncounted})" if found.state == FAILED and found.uncounted else ""
                hosts.setdefault((found.state + suffix, role, text), []).append(host)
    roles_by_reason: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for state, role, text in sorted(hosts, key=lambda key: (_sort_key([key[0].partition(" (")[0]]), _order(key[1]))):
        roles_by_reason.setdefault((state, text, tuple(hosts[state, role, text])), []).append(role)
    return [
        f"  {result.first_of(names, NAMES)}: {', '.join(named) + ' ' if any(named) else ''}{state}: {text}"
        for (state, text, names), named in roles_by_reason.items()
    ]


def sentence(cells: Table, report: str = "") -> str:
    """Return why the run fails, in one sentence; empty if it does not."""
    bad = {host: by_role for host, by_role in cells.items() if not is_good(by_role)}
    if not bad:
        return ""
    names = []
    for host, by_role in bad.items():
        states = ", ".join(f"{role} {found.state}" for role, found in by_role.items() if found.counts)
        names.append(f"{host} ({states or 'not reached'})")
    where = f", and {report} has every verdict" if report else ""
    return (
        f"{len(bad)} of {_count(len(cells))} failed or not proved: {result.first_of(names, NAMES)}; the table above "
        f"has the reasons{where}"
    )


def reports(cells: Table, time: str, versions: Mapping[str, str]) -> str:
    """Return a line of ``mlcluster.report/1`` for each node: the verdicts of its roles, and ``run.ROLE`` for each."""
    collected = []
    for host, by_role in cells.items():
        scope = result.Scope(node=host)
        found = [
            dataclasses.replace(entry, scope=dataclasses.replace(entry.scope, node=host))
            for one in by_role.values()
            for entry in map(result.Result.from_dict, one.results)
        ]
        found += [_of_role(role, one, scope) for role, one in by_role.items()]
        if not by_role:
            found = [result.undeterminable("run.node", "not_reached", message=UNREACHED, scope=scope)]
        collected.append(result.Report(host, time, dict(versions), tuple(found)))
    return "".join(json.dumps(report.to_dict(), sort_keys=True) + "\n" for report in collected)


def _of_role(role: str, found: Cell, scope: result.Scope) -> result.Result:
    check, text = f"run.{role}", "; ".join(found.texts)
    if found.state in (PROVED, CHANGED):
        return result.passed(check, found.state, scope=scope)
    if found.state == NOT_APPLICABLE:
        return result.not_applicable(check, text or "nothing to judge", scope=scope)
    if found.state == NOT_PROVED:
        return result.undeterminable(check, "not_proved", message=text, scope=scope)
    return result.failed(check, text, scope=scope)
