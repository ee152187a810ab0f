# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io
import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import submit_training as submit_cli
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.plan_run import InvalidPlanError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.request import NotSubmittedError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError

PLAN = {"cluster": {"nodes": 2}, "models": [{"name": "a", "nodes": 1}]}


class Fake:
    """A run of a plan with failures chosen by the test."""

    refused: tuple[Exception, ...] = ()
    failed = ()
    ended = ()

    def __init__(self, slurm, directory, progress):
        self.directory, self.progress, self.changed, self.followed = directory, progress, False, None
        Fake.last = self

    def prepare(self, plan):
        self.plan = plan
        if self.refused:
            raise self.refused[0]

    def submit(self):
        self.changed = True
        return list(self.failed)

    def follow(self, timeout):
        self.followed = timeout
        return list(self.ended)


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.setattr(submit_cli, "PlanRun", Fake)
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))

    def run(*words, **given):
        for name, value in given.items():
            monkeypatch.setattr(Fake, name, value)
        words = words or (str(tmp_path / "plan.json"),)
        outcome = tmp_path / "outcome"
        code = cli.main(["submit-training", f"--outcome={outcome}", *words], log_dir=str(tmp_path / "log"))
        return code, json.loads(outcome.read_text())

    run.plan = str(tmp_path / "plan.json")
    return run


def test_plan_is_submitted_and_followed(call):
    assert call() == (0, {"changed": True})
    assert (Fake.last.plan, Fake.last.followed, Fake.last.directory) == (PLAN, 604800, "/fsx/mlcluster/jobs")


def test_jobs_are_left_unchanged_on_request(call):
    assert call("--no-follow", call.plan)[0] == 0
    assert Fake.last.followed is None


def test_dry_run_submits_nothing(call):
    assert call("--dry-run", call.plan) == (0, {"changed": False})


def test_plan_comes_from_standard_input(call, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"plan": PLAN})))
    assert call("-", "--timeout=60")[0] == 0
    assert (Fake.last.plan, Fake.last.followed) == (PLAN, 60)


def test_failures_exit_with_1(call, capsys):
    assert call(failed=["model a: closed"], ended=["b: job 2 is FAILED"])[0] == 1
    assert capsys.readouterr().err == "submit-training: model a: closed; b: job 2 is FAILED\n"


def test_refusal_exits_with_2(call, capsys):
    assert call(refused=(NotSubmittedError(["two nodes are missing"]),)) == (2, {"changed": False})
    assert capsys.readouterr().err == "submit-training: nothing was submitted: two nodes are missing.\n"


def test_invalid_plan_exits_with_3(call, capsys):
    assert call(refused=(InvalidPlanError(["model a has no nodes"]),)) == (3, {"changed": False})
    assert capsys.readouterr().err == "submit-training: nothing was submitted: model a has no nodes.\n"


@pytest.mark.parametrize(("text", "why"), [(None, "could not be read"), ("{", "is not JSON")])
def test_invalid_plan_file_is_rejected(tmp_path, text, why):
    path = tmp_path / "plan"
    if text is not None:
        path.write_text(text)
    with pytest.raises(NodeError, match=why):
        submit_cli.read_plan(Host(), str(path))
