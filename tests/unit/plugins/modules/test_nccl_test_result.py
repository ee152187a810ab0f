# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module gives the verdicts of the runtime, and writes nothing but a baseline."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.modules import nccl_test_result

from tests.unit.fakes.fake_nccl_output import Plan, output, snapshots

FOUR = {"ranks": 8, "nodes": 4, "instance_type": "p5.48xlarge"}


@pytest.fixture
def judge(run_module, tmp_path):
    """judge(lines, **options) gives what the module returns about an output of these lines."""

    def call(lines, check=False, **options):
        path = tmp_path / "test.out"
        path.write_text("\n".join(lines) + "\n")
        return run_module(nccl_test_result, Host(), check, path=str(path), **options)

    return call


def test_good_run_passes(judge):
    result = judge(output(), **FOUR)
    assert result["verdicts"] == {"correct": "pass", "fabric": "pass", "bandwidth": "undeterminable"}
    assert result["changed"] is False
    assert [line[:19] for line in result["problems"]] == ["???? nccl.bandwidth"]
    assert len(result["lines"]) == 3
    assert result["facts"]["gpudirect_rdma"] == "all"
    assert (result["recorded"], result["record_problem"]) == (None, None)


def test_bad_run_is_verdict_without_failure(judge):
    result = judge(output(network="Socket"), **FOUR)
    assert result["verdicts"]["fabric"] == "fail"
    assert not result.get("failed")


def test_baseline_is_written_once_except_in_check_mode(judge, tmp_path):
    path = tmp_path / "nccl.json"
    options = {**FOUR, "record_baseline": str(path)}
    assert judge(output(), check=True, **options)["changed"] is True
    assert not path.exists()
    assert judge(output(), **options)["recorded"] == 6
    assert judge(output(), **options)["changed"] is False
    assert judge(output(), **FOUR, baseline=str(path))["verdicts"]["bandwidth"] == "pass"
    refused = judge(output()[:-8], **options)
    assert (refused["changed"], refused["recorded"]) == (False, 0)
    assert "not a baseline" in refused["record_problem"]


def test_counters_are_read_from_node(judge, tmp_path):
    options = {}
    for when, sent in (("before", 0), ("after", 10)):
        path = tmp_path / when
        entries = snapshots(Plan().hosts, sent).items()
        path.write_text("".join(json.dumps({"host": host, "devices": devices}) + "\n" for host, devices in entries))
        options[f"counters_{when}"] = str(path)
    assert judge(output(), **FOUR, **options)["verdicts"]["fabric"] == "fail"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ranks": 0, "nodes": -1}, "ranks is 0: use at least 1; nodes is -1"),
        ({"tolerance_percent": 100}, "tolerance_percent is 100"),
        ({"baseline": "/does/not/exist"}, "looked for the baseline"),
        ({"counters_before": "/does/not/exist"}, "looked for the counters"),
    ],
)
def test_invalid_options_are_one_sentence(judge, options, sentence):
    result = judge(output(), **options)
    assert result["failed"]
    assert sentence in result["msg"]


def test_path_with_nul_is_one_sentence(run_module, monkeypatch):
    # With core 2.21 the line that a module writes to syslog ends it first, in one sentence of Ansible's own.
    monkeypatch.setattr(AnsibleModule, "_log_invocation", lambda module: None)
    result = run_module(nccl_test_result, Host(), path="/a\0b", baseline="/\0")
    assert (
        result["msg"] == "path has '/a\\x00b': a path has no NUL in it; baseline has '/\\x00': a path has no NUL in it"
    )


def test_missing_file_is_one_sentence(run_module):
    result = run_module(nccl_test_result, Host(), path="/does/not/exist")
    assert result["msg"].startswith("could not read the output /does/not/exist")
