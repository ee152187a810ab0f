# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import profiles as health
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import Result
from ansible_collections.mlcluster.aws.plugins.modules import node_health_info

from tests.unit.fakes.fake_training_host import TrainingHost, good_node


@pytest.mark.parametrize("check", [False, True])
def test_good_node_is_ready(run_module, check):
    host = good_node()
    for number in range(8):
        host.files[f"/proc/driver/nvidia/gpus/{number}/information"] = ""
    result = run_module(node_health_info, host, check=check, profile="prolog", gate="closed")
    assert (result["changed"], result["ready"], result["problems"]) == (False, True, [])
    assert result["instance_type"] == "p5.48xlarge"
    assert [Result.from_dict(entry).line() for entry in result["results"]] == result["lines"]


def test_gate_decides_about_undeterminable_checks(run_module):
    opened = run_module(node_health_info, TrainingHost(), profile="prolog")
    closed = run_module(node_health_info, TrainingHost(), profile="prolog", gate="closed")
    assert (opened["ready"], closed["ready"], opened["problems"]) == (True, False, closed["problems"])
    assert closed["blocking"] == closed["problems"] != []


def test_required_version_may_be_number(run_module):
    result = run_module(node_health_info, TrainingHost(), profile="container", require={"pytorch": 2.5, "nccl": ""})
    found = {entry["id"]: entry["status"] for entry in result["results"]}
    assert found["container.nccl"] == "fail"
    assert result["profile"] == "container"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0}, "seconds is 0: use 1 to 3600"),
        ({"seconds": 1, "expected_efa": -1}, "expected_efa is -1: use 0 to 1000"),
        ({"least_free_percent": 101}, "least_free_percent is 101: use 0 to 100"),
        ({"require": {"jax": ""}}, "require has 'jax': choose from cuda, nccl, plugin"),
        ({"scratch": "a", "host_facts": "b"}, "scratch has 'a': use an absolute path; host_facts has 'b'"),
    ],
)
def test_invalid_options_fail_with_one_sentence_each(run_module, options, message):
    result = run_module(node_health_info, TrainingHost(), **options)
    assert result["failed"]
    assert result["msg"].startswith(message)


def test_documentation_names_limits_and_profiles():
    documented = yaml.safe_load(node_health_info.DOCUMENTATION)["options"]
    assert documented["profile"]["choices"] == list(health.PROFILES)
    text = " ".join(documented["seconds"]["description"])
    assert all(f"{health.LIMITS[profile][1]:g} for V({profile})" in text for profile in health.PROFILES)
