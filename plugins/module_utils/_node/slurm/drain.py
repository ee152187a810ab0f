# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drain an unhealthy node and end that drain; a drain by a person is kept."""

from __future__ import annotations

import re
import typing as t

from ..system.host import NodeError
from ..verdict.result import FAIL, PASS, UNDETERMINABLE, Result, printable, worst_severity
from .client import Slurm
from .parse import nodes

# Prefix of the reason of our drains; a person who drains the same node gives another reason.
PREFIX = "mlcluster health: "
LONGEST_REASON = 200
# Checks of the domain that Prolog makes for a job: once the job has ended, there is none to prove.
ENDS_WITH_JOB = frozenset({"imex.domain", "imex.channel"})
# Checks that do not apply to a good node without that part. One of them that was undeterminable, as in a check that ran
# out of time, does not prove that it applied.
MAY_NOT_APPLY = frozenset({"imex.service", "storage.record", "scratch.space"})
# Begins the text of a drain for nothing but such checks.
NOT_PROVED = "not proved: "
_IDS = re.compile(re.escape(PREFIX) + r"([a-z0-9_.,]+)(?: \((none|monitor|reset|reboot|isolate)\))?: ")
_UNPROVED = re.compile(re.escape(PREFIX) + r"[a-z0-9_.,]+ \(none\): " + re.escape(NOT_PROVED))


def drained_for(reason: str | None) -> tuple[list[str], str] | None:
    """Return the check ids and the most drastic severity in the reason of our drain; None for another reason.

    A reason of an older release has the severity none.
    """
    mine = _IDS.match(reason or "")
    return (mine.group(1).split(","), mine.group(2) or "none") if mine else None


def _ids(blocking: t.Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(verdict.id for verdict in blocking))


def reason_for(blocking: t.Sequence[Result], before: t.Sequence[str] = (), start: str = "") -> str:
    """Return the reason of a drain: check ids, earlier ones first, most drastic new severity and first message."""
    ids = ",".join(dict.fromkeys([*before, *_ids(blocking)]))
    first = blocking[0].message or blocking[0].reason or "it failed"
    return " ".join(printable(f"{PREFIX}{ids} ({worst_severity(blocking)}): {start}{first}").split())[:LONGEST_REASON]


def vanished(ids: t.Collection[str], results: t.Sequence[Result]) -> list[str]:
    """Return the checks that no longer apply: they did when they drained the node, so it lacks something.

    Whether that is intended, as with a volume whose role was taken off the node, no check can prove.
    """
    proved = {verdict.id for verdict in results if verdict.status == PASS}
    judged = {verdict.id for verdict in results if verdict.id in ids}
    return sorted(judged - proved - ENDS_WITH_JOB)


def drain(slurm: Slurm, node: str, blocking: t.Sequence[Result], seconds: float) -> str:
    """Drain the node for these verdicts; return one sentence on what was done. Raises ``NodeError``."""
    lasting = [one for one in blocking if one.status != UNDETERMINABLE or one.id not in MAY_NOT_APPLY]
    reason = reason_for(lasting) if lasting else reason_for(blocking, start=NOT_PROVED)
    state = state_of(slurm, node, seconds)
    if "DRAIN" in state["flags"]:
        current = state["reason"] or ""
        ours = drained_for(current)
        # Keep the checks of an earlier drain in the new reason.
        before = [] if not ours or _UNPROVED.match(current) else ours[0]
        if before and lasting:
            reason = reason_for(lasting, before)
        if not ours or current == reason or (before and not lasting):
            return f"{node} is drained already: {current or 'no reason is given'}"
    update(slurm, node, seconds, "State=DRAIN", f"Reason={reason}")
    return f"drained {node}: {reason}"


def undrain(slurm: Slurm, node: str, results: t.Sequence[Result], seconds: float) -> str | None:
    """End our drain if each of its checks passes; those of ``ENDS_WITH_JOB`` may also no longer apply.

    So may those of ``MAY_NOT_APPLY``, if nothing but them drained the node, and none had failed.
    Returns what was done, None if nothing. Raises ``NodeError``.
    """
    state = state_of(slurm, node, seconds)
    mine = drained_for(state["reason"])
    if "DRAIN" not in state["flags"] or not mine:
        return None
    ids = set(mine[0])
    lost = set(vanished(ids, results))
    if _UNPROVED.match(state["reason"]):
        lost -= MAY_NOT_APPLY
    judged = {verdict.id for verdict in results}
    unhealthy = {v.id for v in results if v.id in ids and v.status in (FAIL, UNDETERMINABLE)}
    open_still = sorted(unhealthy | (ids - judged) | lost)
    if open_still:
        return f"{node} stays drained: {', '.join(open_still)} is not proved to be healthy"
    update(slurm, node, seconds, "State=UNDRAIN")
    return f"{node} takes jobs again; it was drained for {', '.join(sorted(ids))}"


def state_of(slurm: Slurm, node: str, seconds: float) -> dict[str, t.Any]:
    """Return Slurm's record of one node. Raises ``NodeError``."""
    shown = nodes(slurm.ask("scontrol", "--oneliner", "show", "node", node, timeout=seconds))
    if len(shown) != 1:
        raise NodeError(f"asked Slurm for the node {node} and it showed {len(shown)}: set SLURMD_NODENAME to its name")
    return shown[0]


def update(slurm: Slurm, node: str, seconds: float, *what: str) -> None:
    """Update one node in Slurm. Raises ``NodeError``."""
    slurm.ask("scontrol", "update", f"NodeName={node}", *what, timeout=seconds)
