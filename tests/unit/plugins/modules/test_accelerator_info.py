# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._data.checklists import CHECKLISTS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.accelerator.verify import GPU_CHECKS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health.checklist import PARAMETERS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import Result
from ansible_collections.mlcluster.aws.plugins.modules import accelerator_info

from tests.unit.fakes.fake_training_host import TrainingHost, good_node, hanging


@pytest.mark.parametrize("check", [False, True])
def test_good_node_has_no_problems(run_module, check):
    result = run_module(accelerator_info, good_node(), check=check)
    assert (result["changed"], result["problems"], len(result["smi"]["gpus"])) == (False, [], 8)
    assert [Result.from_dict(entry).line() for entry in result["results"]] == result["lines"]


def test_checklist_with_values_of_site(run_module):
    parameters = {"checklist.gpus": {"expected": 4}, "checklist.scratch": {"skip": True}}
    result = run_module(accelerator_info, good_node(), checklist="compute", checklist_parameters=parameters)
    found = {entry["id"]: entry["status"] for entry in result["results"] if entry["id"].startswith("checklist.")}
    assert found == {
        "checklist.driver": "pass",
        "checklist.efa": "pass",
        "checklist.gpus": "fail",
        "checklist.docker": "fail",
        "checklist.enroot": "fail",
        "checklist.slurm": "pass",
    }


def test_hanging_tool_is_reported_without_failure(run_module):
    host = good_node()
    host.commands["nvidia-smi -q -x"] = hanging("nvidia-smi -q -x", 5)
    result = run_module(accelerator_info, host, timeout=5)
    assert result["smi"]["problem"] == "nvidia-smi -q -x: no answer within 5 seconds"
    assert len(result["problems"]) == len(GPU_CHECKS) - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout is 0: use 1 to 600 seconds"),
        ({"xid_since": "yesterday"}, "xid_since is 'yesterday': use a time like"),
        ({"xid_since": "2026-01-31 12:00:00\n"}, "xid_since is '2026-01-31 12:00:00\\n'"),
        ({"checklist_parameters": {"checklist.gpus": {}}}, "checklist_parameters are given without a checklist"),
        ({"checklist": "head", "checklist_parameters": {"x": {}}}, "the checklist head does not know check x"),
    ],
)
def test_invalid_option_fails_with_one_sentence(run_module, options, message):
    result = run_module(accelerator_info, good_node(), **options)
    assert result["failed"]
    assert result["msg"].startswith(message)


@pytest.mark.parametrize("host", [good_node(), TrainingHost()])
def test_every_return_value_is_documented(run_module, host):
    documented = set(yaml.safe_load(accelerator_info.RETURN))
    assert set(run_module(accelerator_info, host)) - {"changed", "invocation"} == documented


def test_checklists_are_documented():
    options = yaml.safe_load(accelerator_info.DOCUMENTATION)["options"]
    assert sorted(options["checklist"]["choices"]) == sorted(CHECKLISTS)
    assert all(f"C({name})" in " ".join(options["checklist_parameters"]["description"]) for name in PARAMETERS)
