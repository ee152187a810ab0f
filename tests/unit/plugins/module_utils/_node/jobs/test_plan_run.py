# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The trainings of a plan; Slurm itself stands behind tests/integration/slurm/test_submit_training.py."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import plan_run
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.plan_run import (
    PlanRun,
    duplicate_scripts,
    scripts,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import SlurmError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.request import NotSubmittedError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError

PLAN = {
    "cluster": {"nodes": 3, "gpus_per_node": 8, "price_per_node_hour": 34.6},
    "models": [{"name": "small", "nodes": 1}, {"name": "large", "nodes": 2}],
}


class Cluster:
    host = Host()


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """A plan of two models whose scripts are there; ``wrong`` names those that Slurm refuses, and when."""
    for name in ("small", "large"):
        (tmp_path / f"{name}.sbatch").write_text("#!/bin/sh\ntrue\n")
    lines, submitted, wrong, taken = [], [], {}, {}

    def check(slurm, request):
        if wrong.get(request.options["job-name"]) == "test":
            raise SlurmError("sbatch does not take it", "no such account", "change it")

    def submit(slurm, request, progress):
        name = request.options["job-name"]
        if wrong.get(name) == "submit":
            raise SlurmError("sbatch does not take it", "closed", "wait")
        submitted.append((name, request.options["nodes"], request.exit_file))
        return len(submitted), name not in taken

    monkeypatch.setattr(plan_run, "survey", lambda slurm: {"healthy": True, "problems": []})
    monkeypatch.setattr(plan_run.slurm_job, "find", lambda slurm, request: taken.get(request.options["job-name"]))
    monkeypatch.setattr(
        plan_run.slurm_job, "problems",
        lambda slurm, request, text, facts: [] if text else [f"{request.script} is missing"],
    )  # fmt: skip
    monkeypatch.setattr(plan_run.slurm_job, "test_only", check)
    monkeypatch.setattr(plan_run.slurm_job, "submit_once", submit)
    run = PlanRun(Cluster(), str(tmp_path), lines.append)
    run.lines, run.submitted, run.wrong, run.taken = lines, submitted, wrong, taken
    return run


def test_models_are_submitted_largest_first(plan, tmp_path):
    plan.prepare(PLAN)
    assert plan.lines[0] == "the models use 3 of 3 nodes and leave 0 free"
    assert plan.lines[1].startswith("nodes 3, gpus 24, gpus_used 24, cost_per_hour 103.8")
    assert plan.submit() == []
    assert plan.submitted == [
        ("large", "2", f"{tmp_path}/results/large-%j.exit"),
        ("small", "1", f"{tmp_path}/results/small-%j.exit"),
    ]
    assert plan.changed and plan.lines[-2:] == ["large: job 1", "small: job 2"]


def test_jobs_that_are_there_change_nothing(plan):
    plan.taken.update(small=4, large=5)
    # Slurm's answer to a second submission does not matter.
    plan.wrong.update(small="test")
    plan.prepare(PLAN)
    assert plan.submit() == [] and not plan.changed


def test_all_problems_are_reported_before_submission(plan):
    absent = {**PLAN, "models": [*PLAN["models"][:1], {"name": "absent", "nodes": 1}]}
    plan.wrong.update(small="test")
    with pytest.raises(NotSubmittedError) as refused:
        plan.prepare(absent)
    assert "model absent: " in str(refused.value) and "absent.sbatch is missing" in str(refused.value)
    assert "model small: sbatch does not take it: no such account" in str(refused.value)
    with pytest.raises(NotSubmittedError, match="the models need at least 5 nodes and the cluster has 3"):
        plan.prepare({**PLAN, "models": [{"name": "small", "nodes": 5}]})
    assert plan.submitted == []


def test_script_of_two_models_is_rejected(tmp_path):
    judged = {"submissions": [{"name": "a", "script": None}, {"name": "b", "script": "/d/./a.sbatch"}]}
    assert scripts(judged, "/d") == {"a": "/d/a.sbatch", "b": "/d/./a.sbatch"}
    (problem,) = duplicate_scripts(scripts(judged, "/d"))
    assert problem.startswith("/d/a.sbatch would run twice, for the models a and b")
    assert duplicate_scripts({"a": "/d/a.sbatch", "b": "/d/b.sbatch"}) == []


def test_silent_controller_is_rejected(plan, monkeypatch):
    monkeypatch.setattr(plan_run, "survey", lambda slurm: {"healthy": False, "problems": ["none is up"]})
    with pytest.raises(NodeError, match="none is up: run this on a node that submits jobs"):
        plan.prepare(PLAN)


def test_model_that_slurm_rejects_keeps_no_other_back(plan):
    plan.wrong.update(large="submit")
    plan.prepare(PLAN)
    (failed,) = plan.submit()
    assert failed.startswith("model large: sbatch does not take it: closed")
    assert [name for name, _nodes, _file in plan.submitted] == ["small"]


def test_failed_ends_are_reported(plan, monkeypatch):
    def follow(slurm, entries, progress, timeout):
        assert timeout == 60
        for entry in entries:
            code = 3 if entry.name == "small" else 0
            entry.over, entry.job = (
                True,
                {"state": "FAILED" if code else "COMPLETED", "exit_code": code, "ok": not code},
            )

    monkeypatch.setattr(plan_run, "follow", follow)
    plan.prepare(PLAN)
    plan.submit()
    assert plan.follow(60) == ["small: job 2 is FAILED, exit status 3"]
