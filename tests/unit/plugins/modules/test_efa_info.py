# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import Result
from ansible_collections.mlcluster.aws.plugins.modules import efa_info

from tests.unit.fakes.fake_training_host import PLUGIN, TrainingHost, good_node


@pytest.mark.parametrize("check", [False, True])
def test_good_node_has_no_problems(run_module, check):
    result = run_module(efa_info, good_node(), check=check, files=[PLUGIN], packages=["bash"])
    assert (result["changed"], result["problems"], result["instance_type"]) == (False, [], "p5.48xlarge")
    assert [Result.from_dict(entry).line() for entry in result["results"]] == result["lines"]
    assert (result["files"][PLUGIN], result["packages"]["bash"]) == ("0" * 64, "5.2")


def test_options_reach_look(run_module):
    host = good_node(31)
    result = run_module(efa_info, host, wait_seconds=5, counters=True, units=["slurmd.service"], plugin_dirs=["/site"])
    assert (result["waited_seconds"], result["devices"][0]["counters"]) == (5.0, {"tx_bytes": 4096})
    assert sorted(result["units"]) == ["slurmd.service"]
    assert [line.split()[:2] for line in result["problems"]] == [["FAIL", "efa.devices:"]]


@pytest.mark.parametrize("seconds", [-1, 601])
def test_endless_wait_is_rejected(run_module, seconds):
    assert run_module(efa_info, good_node(), wait_seconds=seconds)["msg"] == f"wait_seconds is {seconds}: use 0 to 600"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expected_devices": -1}, "expected_devices is -1: use 0 to 1000"),
        ({"peers": ["a", "b\0c"]}, "peers has 'b\\x00c': a name has no NUL in it"),
        (
            {"wait_seconds": 601, "files": ["/\0"]},
            "wait_seconds is 601: use 0 to 600; files has '/\\x00': a name has no NUL in it",
        ),
    ],
)
def test_invalid_options_are_one_sentence(run_module, options, message):
    assert run_module(efa_info, good_node(), **options)["msg"] == message


@pytest.mark.parametrize("host", [good_node(), TrainingHost()])
def test_every_return_value_is_documented(run_module, host):
    documented = set(yaml.safe_load(efa_info.RETURN))
    assert set(run_module(efa_info, host)) - {"changed", "invocation"} == documented
