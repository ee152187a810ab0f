# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib
import types

import pytest

from hooks.mlcluster_boot import events, tracker

START = 1_800_000_000.0
PLUGIN = "ansible_collections.mlcluster.aws.plugins.callback.cluster_progress"


def runner(kind, **data):
    return events.from_runner({"event": kind, "created": "2027-01-15T08:00:02+00:00", "event_data": data}, START)


def test_event_has_its_own_time_or_latest():
    assert runner("playbook_on_play_start", name="x").time == START + 2
    assert events.from_runner({"event": "playbook_on_play_start", "created": "soon"}, START).time == START


@pytest.mark.parametrize(
    "kind, data, expected",
    [
        (
            "playbook_on_play_start",
            {"name": "Configure", "strategy": "free"},
            {"name": "Configure", "interleaved": True},
        ),
        ("playbook_on_task_start", {"task": "Look", "role": "gds"}, {"title": "gds : Look", "role": "gds"}),
        ("playbook_on_handler_task_start", {"name": "Reload"}, {"title": "Reload", "kind": "task"}),
        ("runner_on_start", {"host": "n1"}, {"kind": "start", "host": "n1"}),
        ("runner_on_ok", {"host": "n1", "res": {"changed": True}}, {"outcome": "ok", "changed": True}),
        ("runner_on_skipped", {"host": "n1"}, {"outcome": "skipped", "changed": False}),
        ("runner_on_failed", {"ignore_errors": True, "res": {"changed": True}}, {"ignored": True, "changed": False}),
        ("runner_on_unreachable", {"ignore_errors": True}, {"outcome": "unreachable", "ignored": False}),
        ("runner_item_on_ok", {"host": "n1"}, {"kind": ""}),
        ("runner_on_async_poll", {"host": "n1"}, {"kind": ""}),
        ("playbook_on_stats", {"ok": {"n1": 2}, "dark": {"n2": 1}}, {"kind": "stats", "host": ""}),
    ],
)
def test_event_of_runner(kind, data, expected):
    event = runner(kind, **data)
    assert {name: getattr(event, name) for name in expected} == expected


def test_closing_counts_are_by_host_and_complete():
    counts = events.closing_counts({"ok": {"n2": 2}, "dark": {"n1": 1}, "failures": None})
    assert list(counts) == ["n1", "n2"]
    assert counts["n1"] == dict.fromkeys(events.COUNTS, 0) | {"unreachable": 1}


@pytest.mark.parametrize("strategy", ["free", "ansible.builtin.free", "host_pinned"])
def test_free_strategies_interleave(strategy):
    assert events.is_interleaved(strategy)
    assert not events.is_interleaved("linear") and not events.is_interleaved(None)


def named(shown, **more):
    return types.SimpleNamespace(get_name=lambda: shown, **more)


def callback_events(callback):
    """Return the events of the callback for a run with a role, a failure and an unreachable node."""
    role = named("mlcluster.aws.nvme_raid0")
    task = named("mlcluster.aws.nvme_raid0 : Build", name="Build", action="command", _role=role)

    def result(host, **content):
        return types.SimpleNamespace(_host=named(host), _task=task, _result=content)

    callback.v2_playbook_on_play_start(named("Configure", strategy="linear"))
    callback.v2_playbook_on_task_start(task, False)
    for host in ("n1", "n2", "n3"):
        callback.v2_runner_on_start(named(host), task)
    callback.v2_runner_on_ok(result("n1", changed=True))
    callback.v2_runner_on_failed(result("n2", msg="no disks"))
    callback.v2_runner_on_unreachable(result("n3", msg="timed out"))
    tables = {"ok": {"n1": 1}, "changed": {"n1": 1}, "failures": {"n2": 1}, "dark": {"n3": 1}, "processed": {"n1": 1}}
    empty: dict[str, dict[str, int]] = {key: {} for key in ("skipped", "rescued", "ignored")}
    callback.v2_playbook_on_stats(types.SimpleNamespace(**tables, **empty))


def runner_events():
    """Yield the same run as ansible-runner reports it."""
    where = {"task": "Build", "role": "nvme_raid0", "task_action": "command"}
    yield runner("playbook_on_play_start", name="Configure", strategy="linear")
    yield runner("playbook_on_task_start", **where)
    for host in ("n1", "n2", "n3"):
        yield runner("runner_on_start", host=host, **where)
    yield runner("runner_on_ok", host="n1", res={"changed": True}, **where)
    yield runner("runner_on_failed", host="n2", res={"msg": "no disks"}, **where)
    yield runner("runner_on_unreachable", host="n3", res={"msg": "timed out"}, **where)
    yield runner("playbook_on_stats", ok={"n1": 1}, changed={"n1": 1}, failures={"n2": 1}, dark={"n3": 1})


def test_callback_and_runner_give_same_run(capsys):
    callback = importlib.import_module(PLUGIN).CallbackModule()
    callback_events(callback)
    hook = tracker.Tracker("", START)
    shown = [line for event in runner_events() for line in hook.handle(event)]

    def state(of):
        whole = of.snapshot(0.0)
        timed = ("started", "updated", "elapsed", "roles", "tasks")
        return {**{name: whole[name] for name in whole if name not in timed}, "tasks": len(whole["tasks"])}

    assert state(callback.tracker) == state(hook)
    lines = capsys.readouterr().out.splitlines()
    for kind, text in shown:
        if kind in ("failure", "role", "end"):
            # Without the seconds.
            assert any(line.startswith(text.splitlines()[0].rpartition(",")[0]) for line in lines), text
    assert lines[0] == "== Configure" and "FAILED n2 | nvme_raid0 : Build" in lines


@pytest.mark.parametrize(
    "res, message",
    [
        ({"msg": "mdadm failed"}, "mdadm failed"),
        ({"msg": "non-zero return code", "rc": 3, "stderr": "a\nb\n", "stdout": "c"}, "the command ended with 3\na\nb"),
        ({"msg": "non-zero return code", "rc": 3, "stderr": "", "stdout": "c"}, "the command ended with 3\nc"),
        (
            {"msg": "MODULE FAILURE: No start of json char found", "module_stderr": "Traceback\nKeyError: 'x'"},
            "MODULE FAILURE: No start of json char found\nTraceback\nKeyError: 'x'",
        ),
        ({"msg": {"a": 1}}, '{"a": 1}'),
        ({}, "the task failed and gave no message"),
        ("text", "text"),
        ({"msg": "\n".join(str(n) for n in range(9))}, "0\n1\n2\n3\n4\n5"),
        ({"msg": "x" * 1000}, "x" * 1000),
        ({"msg": "x" * 1001}, "x" * 999 + "…"),
        (
            {
                "msg": "One or more items failed",
                "results": [{"failed": True, "item": n, "msg": f"bad {n}"} for n in range(5)] + [{"item": 9}],
            },
            "0: bad 0\n1: bad 1\n2: bad 2\nand 2 more items",
        ),
        ({"censored": "hidden due to no_log"}, "the task failed and gave no message"),
    ],
)
def test_message_of_module(res, message):
    assert events.failure_message(res) == message
