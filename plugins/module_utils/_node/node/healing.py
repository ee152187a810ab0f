# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Healing of nodes that the health check has drained: the policy, and decisions by it. Pure.

The state of a healing is the reason of the node's drain in Slurm, visible to users and every host:

    mlcluster health: gpu.xid (reboot): …   drained by the health check; a decision is due
    mlcluster heal: reboot (gpu.xid): …     the action is under way; the node resumes only by the full check
    mlcluster heal: isolated (gpu.xid): …   given up; a user decides

Any other reason is a user's, and such a node is skipped.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..slurm.drain import checks_to_prove, drained_for, shortened
from ..slurm.states import TAKES
from ..verdict.result import SEVERITIES

PREFIX = "mlcluster heal: "
SCHEMA = "mlcluster.heal/1"
RESET, REBOOT, REPLACE, ISOLATED = "reset", "reboot", "replace", "isolated"
WAIT, AGAIN, RESUMED = "wait", "again", "resumed"
ACTIONS = (RESET, REBOOT, REPLACE)
# The action of each severity. Monitoring is not an action, and an undeterminable verdict causes none.
BY_SEVERITY = {"reset": RESET, "reboot": REBOOT, "isolate": REPLACE}
DAY = 86400.0
_REASON = re.compile(re.escape(PREFIX) + r"(reset|reboot|replace|isolated) \(([a-z0-9_.,]+)\): ")
_SHARE = re.compile(r"([1-9][0-9]?|100)%")
BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})

Node = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Policy:
    """The policy of healing.

    actions: those that are allowed; without any, a node stays drained. most: the limit of nodes that are healed at
    once, a number or a share of all nodes. times, days: instead of action number ``times`` within ``days``, the node is
    isolated. minutes: the time limit of a healing.
    """

    actions: frozenset[str] = frozenset()
    most: str = "1"
    times: int = 3
    days: int = 7
    minutes: int = 60

    def limit(self, nodes: int) -> int:
        """Return the limit of nodes healed at once, of all nodes; a share is rounded down, and is at least one."""
        share = _SHARE.fullmatch(self.most)
        return max(1, nodes * int(share.group(1)) // 100) if share else int(self.most)


@dataclasses.dataclass(frozen=True)
class Event:
    """A line of the journal: action, node, time (seconds since 1970) and reason."""

    at: float
    node: str
    action: str
    ids: tuple[str, ...]
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Decision:
    """action: one of ``ACTIONS``, isolated, resumed (the full check passed), again (it failed), or wait."""

    node: str
    action: str
    ids: tuple[str, ...]
    text: str

    @property
    def reason(self) -> str:
        """The reason of the drain during this action."""
        return reason_for(self.action, self.ids, self.text)


def reason_for(action: str, ids: t.Sequence[str], text: str) -> str:
    """Return the reason of the drain of a node that is being healed, or was given up."""
    return shortened(f"{PREFIX}{action} ({','.join(ids)}): ", text)


def healed_by(reason: str | None) -> tuple[str, tuple[str, ...]] | None:
    """Return the action and the ids in the reason of a node that is being healed; None for any other reason."""
    matched = _REASON.match(reason or "")
    return (matched.group(1), tuple(matched.group(2).split(","))) if matched else None


def parse_policy(document: t.Any) -> tuple[Policy, list[str]]:
    """Return the policy in a document ``{"schema": "mlcluster.heal/1", …}``, and its errors, a sentence each."""
    if document is None:
        return Policy(), ["no policy could be read: write it with monitor_cluster.yml"]
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        return Policy(), [f"the policy has no schema {SCHEMA}: write it again with monitor_cluster.yml"]
    problems = [
        f"{key} is not a key of the policy: use actions, most, times, days, minutes" for key in _unknown(document)
    ]
    actions = document.get("actions", [])
    if not isinstance(actions, list) or not all(action in ACTIONS for action in actions):
        problems.append(f"actions is {actions!r}: use a list of {', '.join(ACTIONS)}, or []")
        actions = []
    most = str(document.get("most", Policy.most))
    if not _SHARE.fullmatch(most) and not re.fullmatch(r"[1-9][0-9]{0,3}", most):
        problems.append(f"most is {most!r}: use a number of nodes, or a share such as 10%")
        most = Policy.most
    numbers = {}
    for key, limit in (("times", 100), ("days", 366), ("minutes", 1440)):
        value = numbers[key] = document.get(key, getattr(Policy, key))
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
            problems.append(f"{key} is {value!r}: use a number from 1 to {limit}")
            numbers[key] = getattr(Policy, key)
    return Policy(frozenset(actions), most, **numbers), problems


def _unknown(document: t.Mapping[str, t.Any]) -> list[str]:
    known = {"schema", *(field.name for field in dataclasses.fields(Policy))}
    return sorted(str(key) for key in document if key not in known)


def decide(
    policy: Policy,
    nodes: t.Sequence[Node],
    history: t.Sequence[Event],
    now: float,
    supported_actions: t.Collection[str],
) -> list[Decision]:
    """Return the decisions that are due, the highest severity first.

    nodes are all of the cluster, from ``slurm.parse.nodes``; supported_actions: those for which Slurm is set up.
    """
    decisions, under_way = [], 0
    for node in nodes:
        current = healed_by(reason_of(node))
        if current and is_under_way(node):
            under_way += 1
            if _overdue(policy, node["name"], history, now):
                text = f"it is not back {policy.minutes} minutes after its {current[0]}"
                decisions.append(Decision(node["name"], ISOLATED, current[1], text))
        else:
            decisions += _outcome(node, history)
    free_places = policy.limit(len(nodes)) - under_way
    for node, ids, severity in _due(nodes):
        decision = _choose(policy, node, ids, severity, history, now, supported_actions)
        if decision and decision.action in ACTIONS:
            if free_places < 1:
                text = f"{decision.action} has to wait: {under_way} of at most {policy.most} nodes are being healed"
                decision = dataclasses.replace(decision, action=WAIT, text=text)
            else:
                free_places, under_way = free_places - 1, under_way + 1
        decisions += [decision] if decision else []
    return decisions


def _due(nodes: t.Sequence[Node]) -> list[tuple[Node, tuple[str, ...], str]]:
    """Return the nodes that the health check has drained, with the ids and the severity."""
    found = []
    for node in nodes:
        matched = drained_for(node["reason"])
        if matched and "DRAIN" in node["flags"]:
            found.append((node, checks_to_prove(node["reason"]), matched[1]))
    return sorted(found, key=lambda one: (-SEVERITIES.index(one[2]), one[0]["name"]))


def _choose(
    policy: Policy,
    node: Node,
    ids: tuple[str, ...],
    severity: str,
    history: t.Sequence[Event],
    now: float,
    supported_actions: t.Collection[str],
) -> Decision | None:
    action, name = BY_SEVERITY.get(severity), node["name"]
    if action is None or action not in policy.actions:
        return None
    if action not in supported_actions:
        return Decision(name, WAIT, ids, f"{action} is switched on and {_MISSING_SETTING[action]}")
    if action == REPLACE and "CLOUD" not in node["flags"]:
        return Decision(name, WAIT, ids, "replace is for nodes that Slurm powers up and down (State=CLOUD)")
    # If the clock was set back, actions with a later time count too.
    before = [one for one in history if one.node == name and one.action in ACTIONS and now - one.at < policy.days * DAY]
    if len(before) >= policy.times - 1:
        text = f"this would be action {len(before) + 1} in {policy.days} days"
        return Decision(name, ISOLATED, ids, text)
    if node["state"] in BUSY or BUSY & set(node["flags"]):
        return Decision(name, WAIT, ids, f"{action} has to wait: a job is on the node")
    return Decision(name, action, ids, f"severity {severity}")


_MISSING_SETTING = {
    REBOOT: "slurm.conf has no RebootProgram: set one",
    REPLACE: "slurm.conf has no SuspendProgram: nothing would start another instance",
}


def _last(name: str, history: t.Sequence[Event]) -> Event | None:
    return next((one for one in reversed(history) if one.node == name), None)


def _overdue(policy: Policy, name: str, history: t.Sequence[Event], now: float) -> bool:
    last = _last(name, history)
    return last is not None and last.action in ACTIONS and now - last.at > policy.minutes * 60


def reason_of(node: Node) -> str | None:
    """Return the reason why a node takes no jobs, None if it takes them.

    Slurm 24.11 keeps the reason of an ended drain, and every release that of a node that it powered down.
    """
    return None if node["availability"] == TAKES else node["reason"]


def is_under_way(node: Node) -> bool:
    """Return whether a healing of this node is under way: its action or its proof is due."""
    current = healed_by(reason_of(node))
    return current is not None and current[0] != ISOLATED


def _outcome(node: Node, history: t.Sequence[Event]) -> list[Decision]:
    """Return the outcome of an ended healing that is still under way in the journal."""
    last = _last(node["name"], history)
    if last is None or last.action not in ACTIONS:
        return []
    if drained_for(reason_of(node)):
        return [Decision(node["name"], AGAIN, last.ids, f"drained again after its {last.action}: {node['reason']}")]
    if node["availability"] == TAKES:
        return [Decision(node["name"], RESUMED, last.ids, f"it takes jobs after its {last.action}")]
    return []
