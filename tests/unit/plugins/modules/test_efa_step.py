# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module passes a step and check mode on, and fails with the sentence of the step."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.efa import apply
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from ansible_collections.mlcluster.aws.plugins.modules import efa_step

from tests.unit.fakes.fake_training_host import TrainingHost


@pytest.fixture
def done(monkeypatch):
    """The steps that were carried out."""
    calls = []

    def step(host, arguments, check):
        calls.append((arguments["version"], check))
        if arguments["version"] == "bad":
            raise NodeError("it was not taken and nothing was installed")
        return {"changed": True, "restarted": ["slurmd.service"]}

    monkeypatch.setattr(efa_step, "STEPS", dict.fromkeys(apply.STEPS, step))
    return calls


@pytest.mark.parametrize("step", apply.STEPS)
def test_step_is_carried_out(step, done, run_module):
    answer = run_module(efa_step, TrainingHost(), step=step, arguments={"version": "1.51.0"})
    assert (answer["changed"], answer["restarted"], answer["seconds"]) == (True, ["slurmd.service"], 0.0)
    assert done == [("1.51.0", False)]


def test_step_receives_check_mode(done, run_module):
    answer = run_module(efa_step, TrainingHost(), True, step="tests", arguments={"version": "1.51.0"})
    assert (answer["changed"], done) == (True, [("1.51.0", True)])


def test_refusal_is_message(done, run_module):
    answer = run_module(efa_step, TrainingHost(), step="tests", arguments={"version": "bad"})
    assert answer["msg"] == "it was not taken and nothing was installed"


def test_unknown_step_is_rejected(done, run_module):
    answer = run_module(efa_step, TrainingHost(), step="x", arguments={})
    assert "must be one of: idle, installer, tests, restart, remove" in answer["msg"]
