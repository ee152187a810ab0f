# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drain an unhealthy node and end that drain; a drain by a person is kept."""

from __future__ import annotations

import re
import typing as t

from ..system.host import NodeError
from ..verdict.result import FAIL, NOT_APPLICABLE, PASS, UNDETERMINABLE, Result, printable, worst_severity
from .client import Slurm
from .parse import nodes

# Prefix of the reason of our drains; a person who drains the same node gives another reason.
PREFIX = "mlcluster health: "
LONGEST_REASON = 200
# Characters of a message that remain beside many ids.
MIN_TEXT = 60
# The values of expected and found in the proof that a check does not apply.
NONE = (0, 0)
# Checks of the domain that Prolog makes for a job: once the job has ended, there is none to prove.
ENDS_WITH_JOB = frozenset({"imex.domain", "imex.channel"})
# Checks whose subject may be gone because of the fault: a lost GPU, a device of EFA, a mount. A later verdict that they
# do not apply ends their drain only with its proof (``is_proof``), even if they were only undeterminable.
NEEDS_PROOF = frozenset({"efa.devices", "gpu.count", "gpu.xid", "mounts.answer", "neuron.count"})
# Behind an id in a reason: the check was undeterminable, never failed, and may turn out not to apply.
UNPROVED = "?"
_IDS = re.compile(re.escape(PREFIX) + r"([a-z0-9_.,?]+)(?: \((none|monitor|reset|reboot|isolate)\))?: ")


def drained_for(reason: str | None) -> tuple[list[str], str] | None:
    """Return the check ids and the most drastic severity in the reason of our drain; None for another reason.

    A reason of an older release has the severity none.
    """
    match = _IDS.match(reason or "")
    return (match.group(1).replace(UNPROVED, "").split(","), match.group(2) or "none") if match else None


def _marked(reason: str | None) -> list[str]:
    """Return the check ids in the reason of our drain, with their marks ``UNPROVED``."""
    match = _IDS.match(reason or "")
    return match.group(1).split(",") if match else []


def checks_to_prove(reason: str | None) -> tuple[str, ...]:
    """Return the checks of our drain that a healing has to prove: those that failed, all if none did."""
    words = _marked(reason)
    return tuple(name for name in words if not name.endswith(UNPROVED)) or tuple(w.rstrip(UNPROVED) for w in words)


def _mark(verdict: Result) -> str:
    """Return the mark of a check that may turn out not to apply: for example it ended late and found nothing at all."""
    nothing = verdict.status == UNDETERMINABLE and verdict.found is None
    # A check of a job ends with it anyway.
    return UNPROVED if nothing and verdict.id not in NEEDS_PROOF | ENDS_WITH_JOB else ""


def _ids(blocking: t.Sequence[Result], before: t.Sequence[str] = ()) -> list[str]:
    """Return the ids for a reason, earlier ones first; one that ever failed has no mark."""
    words = [*before, *(f"{verdict.id}{_mark(verdict)}" for verdict in blocking)]
    return [f"{name}{'' if name in words else UNPROVED}" for name in dict.fromkeys(w.rstrip(UNPROVED) for w in words)]


def reason_for(blocking: t.Sequence[Result], before: t.Sequence[str] = ()) -> str:
    """Return the reason of a drain: check ids, earlier ones first, most drastic new severity and first message.

    before: the ids of an earlier reason, with their marks.
    """
    first = blocking[0].message or blocking[0].reason or "it failed"
    return shortened(f"{PREFIX}{','.join(_ids(blocking, before))} ({worst_severity(blocking)}): ", first)


def _with_more(current: str, blocking: t.Sequence[Result]) -> str:
    """Return the reason of a drain with more undeterminable checks: its severity and text are those of the failure."""
    start, colon, text = current.partition(": ")[2].partition(": ")
    severity = start.partition(" ")[2] or "(none)"
    return shortened(f"{PREFIX}{','.join(_ids(blocking, _marked(current)))} {severity}{colon}", text)


def shortened(head: str, text: str) -> str:
    """Return a reason of at most ``LONGEST_REASON`` characters, but never cut its ids: the drain would not be ours."""
    return head + " ".join(printable(text).split())[: max(MIN_TEXT, LONGEST_REASON - len(head))]


def is_proof(verdict: Result) -> bool:
    """Return whether a verdict proves that its check does not apply: none is expected, by its source, or there."""
    return verdict.status == NOT_APPLICABLE and verdict.source is not None and (verdict.expected, verdict.found) == NONE


def vanished(ids: t.Collection[str], results: t.Sequence[Result]) -> list[str]:
    """Return the checks that no longer apply, without proof: they did when they drained the node.

    Whether that is intended, as with a volume whose role was taken off the node, no check can prove.
    """
    proved = {verdict.id for verdict in results if verdict.status == PASS or is_proof(verdict)}
    judged = {verdict.id for verdict in results if verdict.id in ids}
    return sorted(judged - proved - ENDS_WITH_JOB)


def drain(slurm: Slurm, node: str, blocking: t.Sequence[Result], seconds: float) -> str:
    """Drain the node for these verdicts; return one sentence on what was done. Raises ``NodeError``."""
    reason = reason_for(blocking)
    state = state_of(slurm, node, seconds)
    if "DRAIN" in state["flags"]:
        current = state["reason"] or ""
        # Keep the checks of an earlier drain in the new reason.
        before = _marked(current)
        if before:
            reason = (
                reason_for(blocking, before)
                if FAIL in {one.status for one in blocking}
                else _with_more(current, blocking)
            )
        if not before or current == reason:
            return f"{node} is drained already: {current or 'no reason is given'}"
    update(slurm, node, seconds, "State=DRAIN", f"Reason={reason}")
    return f"drained {node}: {reason}"


def undrain(slurm: Slurm, node: str, results: t.Sequence[Result], seconds: float) -> str | None:
    """End our drain if each of its checks passes, or does not apply.

    That has to be proved (``is_proof``), except for those of ``ENDS_WITH_JOB`` and those that never failed. Returns
    what was done, None if nothing. Raises ``NodeError``.
    """
    state = state_of(slurm, node, seconds)
    drained = drained_for(state["reason"])
    if "DRAIN" not in state["flags"] or not drained:
        return None
    ids = set(drained[0])
    marked = {name for name in ids if f"{name}{UNPROVED}" in _marked(state["reason"])}
    lost = set(vanished(ids, results)) - marked
    judged = {verdict.id for verdict in results}
    unhealthy = {v.id for v in results if v.id in ids and v.status in (FAIL, UNDETERMINABLE)}
    open_still = sorted(unhealthy | (ids - judged) | lost)
    if open_still:
        return f"{node} stays drained: {', '.join(open_still)} is not proved to be healthy"
    update(slurm, node, seconds, "State=UNDRAIN")
    return f"{node} takes jobs again; it was drained for {', '.join(sorted(ids))}"


def state_of(slurm: Slurm, node: str, seconds: float) -> dict[str, t.Any]:
    """Return Slurm's record of one node. Raises ``NodeError``."""
    records = nodes(slurm.ask("scontrol", "--oneliner", "show", "node", node, timeout=seconds))
    if len(records) != 1:
        raise NodeError(
            f"queried Slurm for the node {node} and it showed {len(records)}: set SLURMD_NODENAME to its name"
        )
    return records[0]


def update(slurm: Slurm, node: str, seconds: float, *what: str) -> None:
    """Update one node in Slurm. Raises ``NodeError``."""
    slurm.ask("scontrol", "update", f"NodeName={node}", *what, timeout=seconds)
