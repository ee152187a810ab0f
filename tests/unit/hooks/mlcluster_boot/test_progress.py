# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from hooks.mlcluster_boot.progress import Progress


def run(progress, hosts, outcome="ok", changed=False):
    for host in hosts:
        progress.start(host)
    for host in hosts:
        progress.result(host, outcome, changed)


def test_each_role_has_one_line_when_it_is_over():
    progress = Progress(0.0)
    assert progress.task("nvme_raid0", "Look", 0.0) == []
    run(progress, ["n1", "n2"])
    assert progress.task("nvme_raid0", "Configure", 1.0) == []
    run(progress, ["n1"], changed=True)
    assert progress.task("efa_nccl", "Look", 4.25) == ["nvme_raid0       2 nodes, 1 changed, 4.2 s"]


def test_role_without_nodes_has_no_line():
    progress = Progress(0.0)
    progress.task("nvme_raid0", "Look", 0.0)
    assert progress.task("", "Something", 1.0) == []
    run(progress, ["n1"], changed=True)
    assert progress.end_part(2.0) == ["other tasks      1 node, 1 changed, 1.0 s"]
    assert progress.end_part(2.0) == []


def test_unchanged_tasks_outside_roles_have_no_line():
    progress = Progress(0.0)
    progress.task("", "Look", 0.0)
    run(progress, ["n1"])
    assert progress.end_part(2.0) == []


def test_failures_are_named():
    progress = Progress(0.0)
    progress.task("efa_nccl", "Install", 0.0)
    run(progress, [f"n{at}" for at in range(1, 8)], "failed")
    run(progress, ["m1"], "unreachable")
    assert progress.end_part(1.0) == [
        "efa_nccl         8 nodes, 0 changed, 8 FAILED (m1, n1, n2, n3, n4 and 3 more), 1.0 s"
    ]


def test_current_line_names_last_few_nodes():
    progress = Progress(0.0)
    assert progress.line() == ""
    progress.task("efa_nccl", "Install", 0.0)
    for at in range(10):
        progress.start(f"n{at}")
    assert progress.line() == "efa_nccl: Install (0 done, 10 running)"
    for at in range(8):
        progress.result(f"n{at}", "failed" if at == 3 else "ok")
    assert progress.line() == "efa_nccl: Install (8 done, 1 FAILED, 2 running: n8, n9)"


def test_end():
    counts = {"n1": {"ok": 3, "changed": 1}, "n2": {"failed": 1}, "n3": {"unreachable": 1}}
    assert Progress(0.0).verdict(counts, 9.0) == "2 of 3 nodes FAILED: n2, n3; 1 changed; 9.0 s"
    assert Progress(0.0).verdict({"n1": {"ok": 1}}, 2.0) == "the node is done; 0 changed; 2.0 s"
    assert Progress(0.0).verdict({}, 2.0) == "no node took part; 0 changed; 2.0 s"


def test_interleaved_roles_have_one_line_each_at_end():
    progress = Progress(0.0)
    progress.interleaved = True
    shown = []
    for now, (host, role) in enumerate([("a", "nvme"), ("b", "nvme"), ("a", "gds"), ("b", "nvme"), ("a", "gds")], 1):
        shown += progress.task(role, "task", float(now))
        progress.start(host)
        progress.result(host, "ok", changed=role == "gds", role=role, now=now + 0.5)
    # The result of a task that began before the last one did.
    progress.result("b", "failed", role="nvme", now=7.0)
    assert shown == []
    assert progress.end_part(60.0) == [
        "nvme             2 nodes, 0 changed, 1 FAILED (b), 6.0 s",
        "gds              1 node, 1 changed, 2.5 s",
    ]
    assert progress.end_part(61.0) == []
