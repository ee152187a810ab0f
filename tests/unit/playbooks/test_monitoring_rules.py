# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules for Prometheus, judged by promtool; ``mlcluster.rules.test.yml`` has the cases."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.heal import METRICS as HEAL_METRICS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.metrics import METRICS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.formats import _METRICS as CHECK_METRICS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import SEVERITIES

from tests.docs_check.docs_markdown import read_file

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "playbooks/files/monitoring/mlcluster.rules.yml"
CASES = Path(__file__).with_name("mlcluster.rules.test.yml")
# Metrics of other exporters that the rules use.
FOREIGN = {"node_time_seconds", "node_boot_time_seconds", "up", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"}


def rules():
    return [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]


def alerts():
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def test_promtool_finds_each_alert_for_its_fault(tmp_path):
    for path in (RULES, CASES):
        shutil.copy(path, tmp_path)
    done = subprocess.run(
        ["promtool", "test", "rules", CASES.name], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_in_some_case_and_each_severity_has_one():
    cases = yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]
    fired = {case["alertname"] for test in cases for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert fired == set(alerts())
    selected = [re.search(r'severity=~?"([^"]+)"', rule["expr"]) for rule in alerts().values()]
    assert {word for found in selected if found for word in found.group(1).split("|")} == set(SEVERITIES)


@pytest.mark.parametrize("name", alerts())
def test_each_runbook_is_heading_of_page(name):
    link = alerts()[name]["annotations"]["runbook_url"]
    page, _hash, anchors = link.removeprefix("https://github.com/mlcluster/mlcluster.aws/blob/main/").partition("#")
    # The anchor of a verdict depends on its check.
    wanted = re.findall(r"\}\}([a-z-]+)\{\{", anchors) if "{{" in anchors else [anchors] if anchors else []
    assert set(wanted) <= read_file(ROOT / page).anchors


def test_each_metric_in_rule_is_written_by_something():
    known = {
        *METRICS,
        *HEAL_METRICS,
        *CHECK_METRICS,
        *FOREIGN,
        *(rule["record"] for rule in rules() if "record" in rule),
    }
    for rule in rules():
        used = set(
            re.findall(r"(?<![\w:\"|])((?:[a-z_]+:)?(?:mlcluster|node|DCGM)_[\w:]+|up)(?=[\s{)\[]|\Z)", rule["expr"])
        )
        assert used and used <= known, f"{used - known} in {rule}"
