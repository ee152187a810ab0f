# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import healing
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.healing import Decision, Event, Policy

NOW = 1_800_000_000.0
ALL = frozenset(healing.ACTIONS)


def node(name, severity="reboot", ids="gpu.xid", reason=None, state="IDLE", flags=("DRAIN",), availability="closed"):
    if reason is None:
        reason = f"mlcluster health: {ids} ({severity}): Xid 79"
    return {"name": name, "reason": reason, "state": state, "flags": list(flags), "availability": availability}


def idle(name):
    return node(name, reason="", flags=(), availability="takes")


def decide(*nodes, actions=ALL, history=(), supported_actions=ALL, **policy):
    return healing.decide(Policy(frozenset(actions), **policy), nodes, history, NOW, supported_actions)


def event(action, days=0.0, name="n1"):
    return Event(NOW - days * healing.DAY, name, action, ("gpu.xid",), "")


@pytest.mark.parametrize(
    ("severity", "action"),
    [("reset", "reset"), ("reboot", "reboot"), ("isolate", "replace"), ("monitor", None), ("none", None)],
)
def test_severity_has_its_action(severity, action):
    found = decide(node("n1", severity, flags=("DRAIN", "CLOUD")))
    assert [one.action for one in found] == ([action] if action else [])


def test_without_switch_node_stays_drained():
    assert decide(node("n1"), actions=()) == []
    assert decide(node("n1", "isolate", flags=("DRAIN", "CLOUD")), actions=("reset", "reboot")) == []
    assert Policy() == Policy(frozenset(), "1", 3, 7, 60)


@pytest.mark.parametrize(
    "other",
    [
        node("n1", reason="disk swap on Monday"),
        node("n1", reason="Prolog error"),
        node("n1", reason=""),
        node("n1", flags=()),
        node("n1", reason="mlcluster heal: isolated (gpu.xid): given up"),
    ],
)
def test_drain_of_another_owner_is_skipped(other):
    assert decide(other) == []


def test_reason_of_healing_is_parsed_again():
    (decision,) = decide(node("n1", ids="gpu.xid,efa.devices"))
    assert decision.reason == "mlcluster heal: reboot (gpu.xid,efa.devices): severity reboot"
    # Slurm's suffix.
    assert healing.healed_by(decision.reason + " : reboot issued") == ("reboot", ("gpu.xid", "efa.devices"))
    assert healing.healed_by("mlcluster heal: dance (gpu.xid): x") is None
    assert len(healing.reason_for("reset", ["a"], "x\n" * 500)) <= 200
    many = tuple(f"gpu.check_{number}" for number in range(60))
    assert healing.healed_by(healing.reason_for("reset", many, "x")) == ("reset", many)


def test_node_is_decided_on_once():
    (decision,) = decide(node("n1"))
    assert decide(node("n1", reason=decision.reason), history=[event("reboot")]) == []


def test_no_more_than_budget_are_healed_at_once_worst_first():
    nodes = [node("n1", "reset"), node("n2", "reboot"), node("n3", "reboot"), *map(idle, "abcdefg")]
    assert [(one.node, one.action) for one in decide(*nodes, most="1")] == [
        ("n2", "reboot"),
        ("n3", "wait"),
        ("n1", "wait"),
    ]
    assert [one.action for one in decide(*nodes, most="20%")] == ["reboot", "reboot", "wait"]
    under_way = node("n4", reason="mlcluster heal: reset (gpu.xid): x")
    found = decide(*nodes, under_way, most="1", history=[event("reset", name="n4")])
    assert {one.action for one in found} == {"wait"}
    assert found[0].text == "reboot has to wait: 1 of at most 1 nodes are being healed"


@pytest.mark.parametrize(
    ("most", "nodes", "limit"), [("1", 100, 1), ("10%", 100, 10), ("10%", 5, 1), ("100%", 3, 3), ("7", 3, 7)]
)
def test_share_is_rounded_down_and_one_at_least(most, nodes, limit):
    assert Policy(most=most).limit(nodes) == limit


def test_third_time_in_week_isolates():
    twice = [event("reboot", 6), event("resumed", 6), event("reset", 1), event("again", 1)]
    (decision,) = decide(node("n1"), history=twice)
    assert decision == Decision("n1", "isolated", ("gpu.xid",), "this would be action 3 in 7 days")
    assert [one.action for one in decide(node("n2"), history=twice)] == ["reboot"]
    old = [event("reboot", 8), event("resumed", 8), event("reset", 1), event("again", 1)]
    assert [one.action for one in decide(node("n1"), history=old)] == ["reboot"]


def test_earlier_actions_count_after_clock_set_back():
    future = [event("reboot", -30), event("resumed", -30), event("reset", -30), event("again", -30)]
    assert [one.action for one in decide(node("n1"), history=future)] == ["isolated"]


@pytest.mark.parametrize(("state", "flags"), [("ALLOCATED", ()), ("MIXED", ()), ("IDLE", ("COMPLETING",))])
def test_job_is_waited_for(state, flags):
    (decision,) = decide(node("n1", state=state, flags=("DRAIN", *flags)))
    assert (decision.action, decision.text) == ("wait", "reboot has to wait: a job is on the node")


def test_unsupported_action_waits_and_names_setting():
    (decision,) = decide(node("n1"), supported_actions={"reset"})
    assert (decision.action, "RebootProgram" in decision.text) == ("wait", True)
    (decision,) = decide(node("n1", "isolate"), supported_actions={"reset", "reboot"})
    assert "SuspendProgram" in decision.text
    (decision,) = decide(node("n1", "isolate"))
    assert (decision.action, "State=CLOUD" in decision.text) == ("wait", True)


def test_healing_that_never_ends_is_given_up():
    stuck = node("n1", reason="mlcluster heal: reboot (gpu.xid): x : reboot issued", state="DOWN")
    assert decide(stuck, history=[event("reboot", 0.01)]) == []
    (decision,) = decide(stuck, history=[event("reboot", 0.1)])
    assert (decision.action, decision.text) == ("isolated", "it is not back 60 minutes after its reboot")


def test_end_of_healing_is_reported_once():
    (resumed,) = decide(idle("n1"), history=[event("reboot")])
    assert (resumed.action, resumed.text) == ("resumed", "it takes jobs after its reboot")
    assert decide(idle("n1"), history=[event("reboot"), event("resumed")]) == []
    again, _reboot = decide(node("n1"), history=[event("reboot")])
    assert again.action == "again"
    down = node("n1", reason="Not responding", state="DOWN", flags=())
    assert decide(down, history=[event("reboot")]) == []


def test_replaced_node_needs_no_proof_of_old_one():
    reason = "mlcluster heal: replace (gpu.xid): x"
    going = node("n1", reason=reason, flags=("CLOUD", "DRAIN", "POWER_DOWN"), availability="returns")
    assert decide(going, history=[event("replace")]) == []
    gone = node("n1", reason=reason, flags=("CLOUD", "POWERED_DOWN"), availability="takes")
    assert [one.action for one in decide(gone, history=[event("replace")])] == ["resumed"]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"actions": ["reset", "explode"]}, "actions is ['reset', 'explode']: use a list of reset, reboot, replace"),
        ({"actions": "reset"}, "actions is 'reset'"),
        ({"most": 0}, "most is '0': use a number of nodes"),
        ({"most": "110%"}, "most is '110%'"),
        ({"times": True}, "times is True: use a number from 1 to 100"),
        ({"days": 0}, "days is 0"),
        ({"minutes": "60"}, "minutes is '60'"),
        ({"budget": 1}, "budget is not a key of the policy: use actions, most"),
    ],
)
def test_invalid_policy_is_reported(more, problem):
    _policy, (found,) = healing.parse_policy({"schema": "mlcluster.heal/1", **more})
    assert problem in found


def test_policy():
    document = {"schema": "mlcluster.heal/1", "actions": ["reboot"], "most": "10%", "times": 2, "days": 1, "minutes": 5}
    assert healing.parse_policy(document) == (Policy(frozenset({"reboot"}), "10%", 2, 1, 5), [])
    assert healing.parse_policy(None)[1] == ["no policy could be read: write it with monitor_cluster.yml"]
    assert healing.parse_policy([])[1] == [
        "the policy has no schema mlcluster.heal/1: write it again with monitor_cluster.yml"
    ]


def kept(reason):
    """Return a node that takes jobs and still has the reason of an ended drain, as in Slurm 24.11."""
    return node("n1", reason=reason, flags=(), availability="takes")


@pytest.mark.parametrize("action", ["reset", "reboot", "replace"])
def test_healed_node_has_resumed_with_any_kept_reason(action):
    healed = kept(f"mlcluster heal: {action} (gpu.xid): x")
    assert not healing.is_under_way(healed)
    long_ago = event(action, days=1)
    assert [one.action for one in decide(healed, history=[long_ago])] == ["resumed"]
    assert decide(healed, history=[long_ago, event("resumed")]) == []


def test_kept_reason_of_health_check_is_no_new_drain():
    found = decide(kept("mlcluster health: gpu.xid (reboot): x"), history=[event("reboot")])
    assert [one.action for one in found] == ["resumed"]


def test_healed_node_leaves_room_for_next():
    healed = kept("mlcluster heal: reset (gpu.xid): x")
    found = decide(healed, node("n2", "reset"), most="1", history=[event("reset"), event("resumed")])
    assert [(one.node, one.action) for one in found] == [("n2", "reset")]
