# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from hooks.mlcluster_boot import tracker as run_tracker
from hooks.mlcluster_boot.events import from_runner

START = 1_800_000_000.0


def event(kind, after=0.0, stdout="", **data):
    created = run_tracker.datetime.datetime.fromtimestamp(START + after, run_tracker.datetime.timezone.utc)
    return from_runner({"event": kind, "created": created.isoformat(), "stdout": stdout, "event_data": data}, START)


def tracked(*events):
    tracker = run_tracker.Tracker("site.yml", START)
    shown = [line for one in events for line in tracker.handle(one)]
    return tracker, shown


def stats(after=9.0, **counts):
    return event("playbook_on_stats", after, **counts)


def test_seconds_per_task_and_role_are_wall_clock_between_starts():
    tracker, shown = tracked(
        event("playbook_on_play_start", 0, name="Configure"),
        event("playbook_on_task_start", 1, task="Gather", role=None),
        event("runner_on_ok", 2, host="n1", res={"changed": False}),
        event("playbook_on_task_start", 3, task="Look", role="nvme_raid0"),
        event("runner_on_ok", 4, host="n1", res={"changed": True}),
        event("runner_on_ok", 7, host="n2", res={"changed": False}),
        event("playbook_on_handler_task_start", 7.5, task="Reload", role="nvme_raid0"),
        event("runner_on_ok", 8, host="n1", res={"changed": True}),
        stats(8.5, ok={"n1": 3, "n2": 1}, changed={"n1": 2}, processed={"n1": 1, "n2": 1}),
    )
    tracker.close("successful", 0)
    status = tracker.snapshot(START + 10)
    assert status["roles"] == {"": 2.0, "nvme_raid0": 5.5}
    assert [(t["task"], t["seconds"], t["changed"]) for t in status["tasks"]] == [
        ("Gather", 2.0, 0),
        ("Look", 4.5, 1),
        ("Reload", 1.0, 1),
    ]
    assert status["hosts"]["n1"] == {
        "ok": 3,
        "changed": 2,
        "failed": 0,
        "unreachable": 0,
        "skipped": 0,
        "rescued": 0,
        "ignored": 0,
    }
    assert (status["state"], status["elapsed"], status["rc"], status["task"]) == ("successful", 10.0, 0, "")
    assert shown == [
        ("play", "Configure"),
        ("task", "Gather"),
        ("task", "nvme_raid0 : Look"),
        ("task", "nvme_raid0 : Reload"),
        ("role", "nvme_raid0       2 nodes, 1 changed, 5.5 s"),
        ("end", "all 2 nodes are done; 1 changed; 8.5 s"),
    ]


def test_shared_tasks_count_for_current_role():
    tracker, shown = tracked(
        event("playbook_on_task_start", 1, task="Look", role="nvme_raid0"),
        event("runner_on_ok", 2, host="n1", task="Look", role="nvme_raid0"),
        event("playbook_on_task_start", 2, task="Packages | Install", role="plan"),
        event("runner_on_ok", 5, host="n1", task="Packages | Install", role="plan", res={"changed": True}),
        event("runner_on_failed", 5, host="n1", task="Packages | Install", role="plan", res={"msg": "no mirror"}),
        event("playbook_on_task_start", 6, task="Look", role="efa_nccl"),
    )
    assert tracker.roles() == {"nvme_raid0": 5.0, "efa_nccl": 0.0}
    assert [(task.title(), task.changed) for task in tracker.tasks][1] == ("nvme_raid0 : Packages | Install", 1)
    assert tracker.failures[0]["role"] == "nvme_raid0"
    assert ("role", "nvme_raid0       1 node, 1 changed, 1 FAILED (n1), 5.0 s") in shown
    # One without main tasks has no turn of its own.
    roles = Path(run_tracker.__file__).parents[2] / "roles"
    assert {path.name for path in roles.iterdir() if not (path / "tasks/main.yml").is_file()} >= run_tracker.SHARED


def test_status_of_run_in_progress_names_role_and_task():
    tracker, _shown = tracked(
        event("playbook_on_play_start", 0, name="Configure"),
        event("playbook_on_task_start", 1, task="Look", role="nvme_raid0"),
        event("runner_on_skipped", 2, host="n1"),
    )
    status = tracker.snapshot(START + 3)
    assert (status["state"], status["play"], status["role"], status["task"]) == (
        "running",
        "Configure",
        "nvme_raid0",
        "Look",
    )
    assert status["hosts"]["n1"]["skipped"] == 1
    assert status["started"] == "2027-01-15T08:00:00Z"


def outcome(after, role, state):
    fact = {run_tracker.OUTCOME: {"role": role, "state": state}}
    return event("runner_on_ok", after, host="localhost", task="Record", res={"ansible_facts": fact})


def test_outcome_of_role_has_its_last_failure():
    tracker, _shown = tracked(
        event("playbook_on_task_start", 1, task="Try", role="motd"),
        event("runner_on_failed", 2, host="localhost", task="Try", role="motd", res={"msg": "mended by the role"}),
        event("playbook_on_task_start", 2, task="Make", role="motd"),
        event("runner_on_failed", 3, host="localhost", task="Make", role="motd", res={"msg": "no room"}),
    )
    assert tracker.snapshot(START + 3)["outcomes"] == {}
    assert tracker.handle(outcome(4, "site.own.motd", "failed")) == [("outcome", "role site.own.motd failed")]
    tracker.handle(outcome(5, "mark", "configured"))
    # An unknown state is not a success, and a failure without an event has no message.
    other = run_tracker.Tracker("site.yml", START)
    other.handle(event("playbook_on_task_start", 1, task="Record", role=""))
    other.handle(outcome(2, "mark", "good"))
    assert tracker.snapshot(START + 6)["outcomes"] == {
        "site.own.motd": {"state": "failed", "task": "Make", "message": "no room"},
        "mark": {"state": "configured", "task": "", "message": ""},
    }
    assert other.outcomes == {
        "mark": {"state": "failed", "task": "a task without a name", "message": "the task gave no message"}
    }


def test_failure_gives_host_task_and_message():
    tracker, shown = tracked(
        event("playbook_on_task_start", 1, task="Build", role="nvme_raid0"),
        event("runner_on_failed", 2, host="n1", task="Build", role="nvme_raid0", res={"msg": "no disks"}),
        event("runner_on_unreachable", 2, host="n2", task="Build", role="nvme_raid0", res={"msg": "ssh: timed out"}),
        stats(failures={"n1": 1}, dark={"n2": 1}, processed={"n1": 1, "n2": 1}),
    )
    tracker.close("failed", 2)
    assert shown[1:] == [
        ("failure", "FAILED n1 | nvme_raid0 : Build\n    no disks"),
        ("failure", "UNREACHABLE n2 | nvme_raid0 : Build\n    ssh: timed out"),
        ("role", "nvme_raid0       2 nodes, 0 changed, 2 FAILED (n1, n2), 8.0 s"),
        ("end", "2 of 2 nodes FAILED: n1, n2; 0 changed; 9.0 s"),
    ]
    assert tracker.state == "failed"
    assert [(f["host"], f["rescued"], f["unreachable"]) for f in tracker.failures] == [
        ("n1", False, False),
        ("n2", False, True),
    ]


def test_ignored_and_rescued_failures_do_not_fail_run():
    tracker, shown = tracked(
        event("playbook_on_task_start", 1, task="Try"),
        event("runner_on_failed", 2, host="n1", task="Try", ignore_errors=True, res={"msg": "x"}),
        event("playbook_on_task_start", 3, task="Boom"),
        event("runner_on_failed", 4, host="n1", task="Boom", res={"msg": "y"}),
        stats(ok={"n1": 2}, ignored={"n1": 1}, rescued={"n1": 1}),
    )
    tracker.close("successful", 0)
    assert tracker.state == "successful"
    assert [kind for kind, _text in shown] == ["task", "task", "failure", "role", "end"]
    assert [(f["task"], f["rescued"]) for f in tracker.failures] == [("Boom", True)]


def test_last_failure_counts_if_earlier_one_was_rescued():
    tracker, _shown = tracked(
        event("playbook_on_task_start", 1, task="a"),
        event("runner_on_failed", 2, host="n1", task="a", res={"msg": "x"}),
        event("playbook_on_task_start", 3, task="b"),
        event("runner_on_failed", 4, host="n1", task="b", res={"msg": "y"}),
        stats(failures={"n1": 1}, rescued={"n1": 1}),
    )
    assert [(f["task"], f["rescued"]) for f in tracker.failures] == [("a", True), ("b", False)]


@pytest.mark.parametrize(
    "events, status, rc, state",
    [
        ([stats(ok={"n1": 1})], "successful", 0, "successful"),
        ([stats(ok={"n1": 1})], "failed", 1, "error"),
        ([stats(dark={"n1": 1})], "failed", 4, "unreachable"),
        ([stats()], "successful", 0, "no_hosts"),
        ([], "failed", 1, "error"),
        ([], "successful", 0, "error"),
        ([stats(ok={"n1": 1})], "timeout", 254, "timeout"),
        ([], "canceled", 254, "canceled"),
    ],
)
def test_closing_state(events, status, rc, state):
    tracker, _shown = tracked(*events)
    tracker.close(status, rc)
    assert tracker.state == state


def test_error_before_any_host_keeps_end_of_output():
    tracker, _shown = tracked()
    tracker.close("failed", 4, "[ERROR]: couldn't resolve module\nOrigin: x.yml")
    assert tracker.failures[-1]["message"] == "[ERROR]: couldn't resolve module\nOrigin: x.yml"
    silent, _shown = tracked()
    silent.close("failed", 4)
    assert silent.failures[-1]["message"] == "ansible-playbook gave no output"


def test_events_of_unknown_kinds_and_shapes_do_no_harm():
    tracker, shown = tracked(from_runner({}, START), event("verbose", stdout=None), event("runner_on_start"))
    assert (tracker.state, shown, tracker.hosts) == ("starting", [], {})


def test_play_without_hosts_is_shown():
    _tracker, shown = tracked(event("playbook_on_play_start", name="No nodes"), event("playbook_on_no_hosts_matched"))
    assert shown == [("play", "No nodes"), ("no_hosts", "no node is in its groups")]
