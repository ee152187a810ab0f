# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The meaning of each state and flag of a node for jobs. Pure.

This is the only list of node states. An unlisted word proves nothing: a newer Slurm may have added it.
"""

from __future__ import annotations

import dataclasses
import typing as t

# Jobs start on the node, at once or when others end, or Slurm powers it up for them.
TAKES = "takes"
# No job starts now. Slurm ends this by itself.
RETURNS = "returns"
# No job starts until a person acts.
CLOSED = "closed"
# The state has a word that is not in this table, or Slurm does not know the state.
UNKNOWN = "unknown"

_SINFO = "sinfo(1), NODE STATE CODES"
_SCONTROL = "scontrol(1), State of a node"
_REBOOT = "scontrol(1), reboot"
_CONF = "slurm.conf(5), State of a node"
_NAMES = "src/common/slurm_protocol_defs.c, node_state_flags"


@dataclasses.dataclass(frozen=True)
class State:
    """The ``effect`` of a word, its text for messages, and where Slurm documents it.

    ``lifts``: words that Slurm removes when this one ends. ``up``: slurmd is running and registered.
    """

    effect: str
    text: str
    source: str
    lifts: frozenset[str] = frozenset()
    up: bool = False


_DRAINS = frozenset({"DRAIN", "DRAINED", "DRAINING"})
_DOWN = frozenset({"DOWN"})
_UNRESPONSIVE = frozenset({"NOT_RESPONDING"})

STATES: dict[str, State] = {
    "IDLE": State(TAKES, "idle", _SINFO, up=True),
    "ALLOCATED": State(TAKES, "allocated", _SINFO, up=True),
    "MIXED": State(TAKES, "partly allocated", _SINFO, up=True),
    "COMPLETING": State(TAKES, "completing a job", _SINFO, up=True),
    "PLANNED": State(TAKES, "planned for a job", _SINFO, up=True),
    "CLOUD": State(TAKES, "a cloud node", _CONF, up=True),
    "DYNAMIC_FUTURE": State(TAKES, "a dynamic node", _NAMES, up=True),
    "DYNAMIC_NORM": State(TAKES, "a dynamic node", _NAMES, up=True),
    # A reservation is for some jobs, which start on the node.
    "RESERVED": State(TAKES, "reserved", _SINFO, up=True),
    "POWERED_DOWN": State(TAKES, "powered down", "slurm.schedmd.com/power_save.html", _UNRESPONSIVE),
    "POWER_UP": State(TAKES, "to be powered up", _SCONTROL),
    "POWERING_UP": State(TAKES, "powering up", _SINFO, _DOWN | _UNRESPONSIVE),
    # A reboot that is requested without ASAP keeps no job away.
    "REBOOT_REQUESTED": State(TAKES, "to be rebooted", _REBOOT, _DOWN | _UNRESPONSIVE),
    # The name before Slurm 21.08.
    "REBOOT": State(TAKES, "to be rebooted", _REBOOT, _DOWN | _UNRESPONSIVE),
    "REBOOT_ISSUED": State(RETURNS, "rebooting", _SINFO, _DOWN | _UNRESPONSIVE),
    # POWER_DOWN_ASAP drains the node, and Slurm ends that drain itself (src/slurmctld/power_save.c).
    "POWER_DOWN": State(RETURNS, "to be powered down", _SCONTROL, _DRAINS | _DOWN | _UNRESPONSIVE),
    "POWERING_DOWN": State(RETURNS, "powering down", _SINFO, _DOWN | _UNRESPONSIVE),
    "MAINTENANCE": State(RETURNS, "in a maintenance reservation", _SINFO, up=True),
    "MAINT": State(RETURNS, "in a maintenance reservation", _SINFO, up=True),
    "PERFCTRS": State(RETURNS, "in use by network counters", _SINFO, up=True),
    "BLOCKED": State(RETURNS, "blocked by a job with exclusive topology", _SINFO, up=True),
    "NOT_RESPONDING": State(RETURNS, "not responding", _SINFO),
    "DRAIN": State(CLOSED, "drained", _SCONTROL, up=True),
    "DRAINED": State(CLOSED, "drained", _SINFO, up=True),
    "DRAINING": State(CLOSED, "draining", _SINFO, up=True),
    "FAIL": State(CLOSED, "failing", _SINFO),
    "FAILING": State(CLOSED, "failing", _SINFO),
    "DOWN": State(CLOSED, "down", _SINFO),
    "ERROR": State(CLOSED, "in an error state", _NAMES),
    "FUTURE": State(CLOSED, "defined for the future only", _SINFO),
    "INVAL": State(CLOSED, "registered with less than slurm.conf states", _SINFO),
    "INVALID_REG": State(CLOSED, "registered with less than slurm.conf states", _NAMES),
    "UNKNOWN": State(UNKNOWN, "in a state that Slurm does not know yet", _SINFO),
}
_REBOOTS = frozenset({"REBOOT_REQUESTED", "REBOOT", "REBOOT_ISSUED"})
# scontrol(1), reboot: ASAP sets RESUME (Slurm 22.05) or UNDRAIN (25.05), and such a reboot ends the drain.
_NEXT_LIFTS = frozenset({"RESUME", "UNDRAIN"})
# Marks behind a state (sinfo(1), NODE STATE CODES).
MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}


def split(text: str) -> tuple[str, list[str]]:
    """Return the base state and the flags: ``IDLE*+DRAIN`` gives ``IDLE``, ``[DRAIN, NOT_RESPONDING]``."""
    base, *flags = text.upper().split("+")
    marks = {MARKS[mark] for mark in base if mark in MARKS}
    return base.rstrip("".join(MARKS)), sorted(marks | set(flags))


def is_up(state: str, flags: t.Iterable[str]) -> bool:
    """Return whether slurmd is running on the node and registered, whether or not jobs start there."""
    return all(word in STATES and STATES[word].up for word in (state, *flags))


def is_drained(state: str, flags: t.Iterable[str]) -> bool:
    """Return whether a drain keeps new jobs away from the node."""
    return bool(_DRAINS & {state, *flags})


def availability(state: str, flags: t.Iterable[str], next_state: t.Optional[str] = None) -> tuple[str, str]:
    """Return the availability of a node for jobs (TAKES, RETURNS, CLOSED or UNKNOWN) and the reason.

    ``next_state``: the NextState of a node that will be rebooted. A closing word outweighs an unknown one.
    """
    words = [state, *flags]
    known = [word for word in words if word in STATES]
    lifted = frozenset().union(*(STATES[word].lifts for word in known))
    reboots = _REBOOTS & set(known)
    if reboots and next_state in _NEXT_LIFTS:
        lifted |= _DRAINS
    closing = [word for word in known if STATES[word].effect == CLOSED]
    for word in closing:
        if word not in lifted:
            return CLOSED, STATES[word].text
    if reboots and next_state == "DOWN":
        return CLOSED, "to be down after its reboot"
    unlisted = [word for word in words if word not in STATES]
    if unlisted:
        return UNKNOWN, f"in the state {unlisted[0]!r}, which is not known here" if unlisted[0] else "without a state"
    if any(STATES[word].effect == UNKNOWN for word in known):
        return UNKNOWN, STATES["UNKNOWN"].text
    rest = [STATES[word] for word in known if word not in lifted]
    if closing or any(state.effect == RETURNS for state in rest):
        # The word that returns the node, or that Slurm ends by itself.
        return RETURNS, next(state.text for state in rest if state.effect == RETURNS or state.lifts)
    return TAKES, STATES[words[0]].text
