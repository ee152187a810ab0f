# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.mlcluster.aws.plugins.filter.monitoring import FilterModule, prometheus_config
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _prometheus

# Forms in Debian's file: items at the key's own indentation, and only comments below a key.
TEXT = """\
# Mine.
global: {scrape_interval: 15s}
alerting:
  alertmanagers:
  - static_configs:
    - targets: ['localhost:9093']
rule_files:
  # - "first_rules.yml"

scrape_configs:  # all of them
- job_name: prometheus
  static_configs:
  - targets: ['localhost:9090']
"""
JOBS = _prometheus.scrape_jobs("/etc/prometheus/mlcluster", {"node": 9100, "dcgm": 9400})


def merge(text=TEXT, rule_file="/x/mlcluster.rules.yml", jobs=None):
    return _prometheus.merged(text, rule_file, JOBS if jobs is None else jobs)


def test_file_keeps_its_lines_and_gets_ours():
    text = merge()
    assert [line for line in text.splitlines() if line in TEXT.splitlines()] == TEXT.splitlines()
    read = yaml.safe_load(text)
    assert read["rule_files"] == ["/x/mlcluster.rules.yml"]
    assert [job["job_name"] for job in read["scrape_configs"]] == ["mlcluster_node", "mlcluster_dcgm", "prometheus"]
    assert read["scrape_configs"][0]["file_sd_configs"] == [{"files": ["/etc/prometheus/mlcluster/node.json"]}]


def test_promtool_accepts_configuration(tmp_path):
    (tmp_path / "rules.yml").write_text("groups: []\n")
    (tmp_path / "prometheus.yml").write_text(merge(rule_file="rules.yml"))
    done = subprocess.run(
        ["promtool", "check", "config", "prometheus.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_second_run_is_idempotent_and_removal_restores_file():
    assert merge(merge()) == merge()
    assert merge(merge(), "", []) == TEXT
    bare = "global: {scrape_interval: 15s}\n"
    assert yaml.safe_load(merge(bare))["scrape_configs"][1]["job_name"] == "mlcluster_dcgm"
    assert merge(merge(bare), "", []) == bare
    assert merge(merge(bare)) == merge(bare)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("scrape_configs: []\n", "scrape_configs is not a list with an entry a line"),
        ("rule_files: [a.yml]\n", "rule_files is not a list"),
        ("rule_files:\n- a\nrule_files:\n- b\n", "rule_files is not a list"),
        (f"{_prometheus.BEGIN}\nx\n", "has no # END"),
        (f"{_prometheus.END}\n", "line 1 is # END mlcluster.aws at an odd place"),
        (f"{_prometheus.BEGIN}\n{_prometheus.BEGIN}\n", "line 2 is # BEGIN"),
    ],
)
def test_file_of_another_shape_is_left_unchanged(text, why):
    with pytest.raises(AnsibleFilterError, match=f"prometheus.yml was not changed: .*{why}"):
        prometheus_config(text, "/x", JOBS)


def test_targets_have_address_and_name_of_their_host():
    hostvars = {
        "b": {"ec2_private_ip_address": "10.0.0.2", "ansible_host": "x", "ec2_queue_name": "gpu"},
        "a": {"ansible_facts": {"default_ipv4": {"address": "10.0.0.1"}}, "ansible_host": "bastion"},
        "c": {"ansible_host": "fd00::1", "ansible_facts": {"default_ipv4": {}}},
    }
    assert _prometheus.targets(["b", "a", "c", "d"], hostvars, 9100) == [
        {"targets": ["10.0.0.1:9100"], "labels": {"instance": "a"}},
        {"targets": ["10.0.0.2:9100"], "labels": {"instance": "b", "queue": "gpu"}},
        {"targets": ["[fd00::1]:9100"], "labels": {"instance": "c"}},
        {"targets": ["d:9100"], "labels": {"instance": "d"}},
    ]


def test_ec2_finds_running_instances_by_their_tags(tmp_path):
    ec2 = {"region": "us-east-1", "filters": {"tag:parallelcluster:cluster-name": ["train"]}}
    (job,) = _prometheus.scrape_jobs("/x", {"node": 9100}, ec2)
    assert job["ec2_sd_configs"][0]["filters"][-1] == {"name": "instance-state-name", "values": ["running"]}
    (tmp_path / "p.yml").write_text(merge(rule_file="", jobs=[job]))
    subprocess.run(["promtool", "check", "config", tmp_path / "p.yml"], check=True, stdout=subprocess.DEVNULL)


def test_journal_lines_are_readable():
    line = '{"action": "reset", "at": 5, "ids": ["gpu.xid"], "node": "n1", "text": "x"}'
    assert FilterModule().filters()["heal_journal"](line + "\n[]\n") == ["1970-01-01T00:00:05Z n1: reset (gpu.xid): x"]


def test_filters_are_registered():
    assert set(FilterModule().filters()) == {
        "heal_journal",
        "prometheus_config",
        "prometheus_jobs",
        "prometheus_targets",
    }
