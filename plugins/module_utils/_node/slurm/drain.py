# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps jobs off a node that is not healthy, and lets them back, without touching what a person decided."""

from __future__ import annotations

import re
import typing as t

from ..system.host import NodeError
from ..verdict.result import FAIL, UNDETERMINABLE, Result, printable, worst_severity
from .client import Slurm
from .parse import nodes

# A drain is ours where its reason begins like this; a person who drains the same node gives another reason.
PREFIX = "mlcluster health: "
LONGEST_REASON = 200
_IDS = re.compile(re.escape(PREFIX) + r"([a-z0-9_.,]+)(?: \((none|monitor|reset|reboot|isolate)\))?: ")


def drained_for(reason: str | None) -> tuple[list[str], str] | None:
    """The ids of the checks in the reason of a drain of ours, and the most drastic severity among them; None for the
    reason of somebody else. A reason of an older release has the severity none."""
    mine = _IDS.match(reason or "")
    return (mine.group(1).split(","), mine.group(2) or "none") if mine else None


def _ids(blocking: t.Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(verdict.id for verdict in blocking))


def reason_for(blocking: t.Sequence[Result], before: t.Sequence[str] = ()) -> str:
    """The reason of a drain: the ids of the checks, those of an earlier drain first, the most drastic severity of the
    new ones, and what the first of them says."""
    ids = ",".join(dict.fromkeys([*before, *_ids(blocking)]))
    first = blocking[0].message or blocking[0].reason or "it failed"
    return " ".join(printable(f"{PREFIX}{ids} ({worst_severity(blocking)}): {first}").split())[:LONGEST_REASON]


def drain(slurm: Slurm, node: str, blocking: t.Sequence[Result], seconds: float) -> str:
    """Drain the node for these verdicts and say in one sentence what was done. Raises ``NodeError``."""
    reason = reason_for(blocking)
    state = state_of(slurm, node, seconds)
    if "DRAIN" in state["flags"]:
        told = state["reason"] or ""
        # What it was drained for before is not forgotten because something else is broken now.
        before = drained_for(told)
        if before:
            reason = reason_for(blocking, before[0])
        if not before or told == reason:
            return f"{node} is drained already: {told or 'no reason is given'}"
    update(slurm, node, seconds, "State=DRAIN", f"Reason={reason}")
    return f"drained {node}: {reason}"


def undrain(slurm: Slurm, node: str, results: t.Sequence[Result], seconds: float) -> str | None:
    """End a drain of ours whose checks all answer now and do not fail; say what was done, None where nothing was.

    Raises ``NodeError``.
    """
    state = state_of(slurm, node, seconds)
    mine = drained_for(state["reason"])
    if "DRAIN" not in state["flags"] or not mine:
        return None
    ids = set(mine[0])
    judged = {verdict.id for verdict in results}
    open_still = sorted({v.id for v in results if v.id in ids and v.status in (FAIL, UNDETERMINABLE)} | (ids - judged))
    if open_still:
        return f"{node} stays drained: {', '.join(open_still)} is not proved to be well"
    update(slurm, node, seconds, "State=UNDRAIN")
    return f"{node} takes jobs again; it was drained for {', '.join(sorted(ids))}"


def state_of(slurm: Slurm, node: str, seconds: float) -> dict[str, t.Any]:
    """What Slurm says of one node. Raises ``NodeError``."""
    shown = nodes(slurm.ask("scontrol", "--oneliner", "show", "node", node, timeout=seconds))
    if len(shown) != 1:
        raise NodeError(f"asked Slurm for the node {node} and it showed {len(shown)}: set SLURMD_NODENAME to its name")
    return shown[0]


def update(slurm: Slurm, node: str, seconds: float, *what: str) -> None:
    """Change what Slurm says of one node. Raises ``NodeError``."""
    slurm.ask("scontrol", "update", f"NodeName={node}", *what, timeout=seconds)
