# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action run_verdict, as a task calls it; the output of whole runs is in tests/integration/refusals."""

from __future__ import annotations

import json
import types

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.action import run_verdict
from ansible_collections.mlcluster.aws.plugins.modules import run_verdict as documented
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import journal

PASS = {"schema": "mlcluster.result/1", "id": "efa.devices", "status": "pass", "found": 4}


@pytest.fixture
def end(monkeypatch, tmp_path):
    """end(options, check_mode=..., hosts=..., left=...) gives the result of the task; lines are in end.printed."""
    printed = []
    monkeypatch.setattr(journal, "path", lambda: tmp_path / "journal")
    monkeypatch.setattr(run_verdict.display, "display", printed.append)
    monkeypatch.setattr(run_verdict.display, "warning", printed.append)

    def run(options=None, check_mode=False, hosts=("n1", "localhost"), left=None):
        task = types.SimpleNamespace(args=options or {}, check_mode=check_mode, async_val=0, action="run_verdict")
        connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="none"))
        action = run_verdict.ActionModule(task, connection, None, None, None, None)
        there = [host for host in hosts if host != "localhost"]
        variables = {"ansible_play_hosts_all": list(hosts), "ansible_play_hosts": list(hosts if left is None else left)}
        return action.run(task_vars={**variables, "inventory_hostname": "n1", "groups": {"all": there}})

    run.printed = printed
    return run


def test_every_option_is_documented(end):
    names = {"report", "role", "results", "problems", "reason", "required"}
    assert set(yaml.safe_load(documented.DOCUMENTATION)["options"]) == names


def test_findings_of_role_are_reported_at_end(end, tmp_path):
    assert end({"role": "efa_nccl", "results": [PASS]}) == {"changed": False}
    report = tmp_path / "folder" / "verdict.jsonl"
    result = end({"report": str(report)})
    assert (result["nodes"], result["lines"]) == (
        {"n1": {"efa_nccl": "proved"}},
        ["verdict: 1 node: all proved (efa_nccl)"],
    )
    assert not result.get("failed") and end.printed == result["lines"]
    assert json.loads(report.read_text(encoding="utf-8"))["host"] == "n1"
    assert journal.read(journal.path()) == []


def test_inapplicable_role_reports_reason(end):
    end({"role": "slurm_jobs", "reason": "this machine has no Slurm"})
    assert end()["lines"][-1] == "  n1: slurm_jobs not applicable: this machine has no Slurm"


@pytest.mark.parametrize("check_mode", [True, False])
def test_problems_fail_except_in_check_mode(end, tmp_path, check_mode):
    end({"role": "efa_nccl", "problems": ["gone"]}, check_mode)
    result = end({"report": str(tmp_path / "verdict.jsonl")}, check_mode)
    assert bool(result.get("failed")) is not check_mode
    assert (tmp_path / "verdict.jsonl").exists() is not check_mode
    if not check_mode:
        assert result["msg"].startswith("1 of 1 node failed or not proved: n1 (efa_nccl failed)")


def test_node_that_ended_early_fails_run(end):
    result = end(left=["localhost"])
    assert result["failed"] and "n1 (not reached)" in result["msg"]


def test_run_without_findings_is_silent(end, tmp_path):
    result = end({"report": str(tmp_path / "verdict.jsonl")})
    assert not result.get("failed") and end.printed == [] and list(tmp_path.iterdir()) == []


def test_unwritable_report_is_warning(end, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    end({"role": "efa_nccl", "results": [PASS]})
    assert not end({"report": str(tmp_path / "file" / "verdict.jsonl")}).get("failed")
    assert end.printed[-1].startswith("the verdict cannot be written to")
