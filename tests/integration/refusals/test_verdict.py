# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict at the end of site.yml and verify_nodes, on nodes without any of the hardware."""

from __future__ import annotations

import json

import pytest

BARE = {"n1": {}, "n2": {}}
GROUPS = {"instance_store": BARE, "efa": BARE, "gpu": BARE}


@pytest.mark.parametrize("playbook", ["verify_nodes", pytest.param("site", marks=pytest.mark.slow)])
def test_hardware_that_nobody_expects_does_not_apply(said, tmp_path, playbook):
    report = tmp_path / "verdict.jsonl"
    status, words = said(f"playbooks/{playbook}.yml", GROUPS, check=False, mlcluster_verdict_report=str(report))
    assert status == 0, words
    assert "verdict nvme_raid0 efa_nccl nvidia_gds n1, n2 not applicable not applicable not applicable" in words
    assert "n1, n2: nvidia_gds not applicable: no NVIDIA driver is loaded on this node" in words
    nodes = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    assert {node["host"]: {one["status"] for one in node["results"]} for node in nodes} == {
        "n1": {"not_applicable"},
        "n2": {"not_applicable"},
    }


def test_hardware_that_inventory_knows_is_failure(said, tmp_path):
    """No role is required to have a GPU by default, and yet the run fails."""
    groups = {"gpu": {"n1": {"ec2_instance_type": "g5.48xlarge"}, "n2": {}}}
    report = tmp_path / "made" / "verdict.jsonl"
    status, words = said("playbooks/verify_nodes.yml", groups, check=False, mlcluster_verdict_report=str(report))
    assert status == 2, words
    assert "verdict nvidia_gds n1 failed n2 not applicable" in words
    assert (
        "1 of 2 nodes did not get what was asked for: n1 (nvidia_gds failed); the table above has the reasons" in words
    )
    assert "a g5.48xlarge with 8 GPUs, and no NVIDIA driver is loaded" in words


def test_verdict_comes_though_no_node_is_left(said):
    """Ansible ends such a run before its last play."""
    groups = {"instance_store": {"n1": {"ec2_instance_type": "p5.48xlarge"}}, "gpu": {"n1": {}}}
    progress = "mlcluster.aws.cluster_progress"
    status, words = said("playbooks/verify_nodes.yml", groups, check=False, display=progress)
    assert status == 2 and "verdict nvme_raid0 nvidia_gds n1 failed not proved" in words, words


def test_check_mode_fails_for_nothing_that_it_cannot_prove(said, tmp_path):
    groups = {"gpu": {"n1": {"ec2_instance_type": "g5.48xlarge"}}}
    report = tmp_path / "verdict.jsonl"
    status, words = said("site.yml", groups, mlcluster_verdict_report=str(report))
    assert status == 0 and "n1 failed" in words, words
    assert not report.exists()


def test_node_that_does_not_answer_fails_no_other(said):
    """The controller tells the verdict, and is not a node."""
    lost = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    groups = {"gpu": {"n1": {}, "lost": lost}}
    progress = "mlcluster.aws.cluster_progress"
    status, words = said("playbooks/verify_nodes.yml", groups, check=False, display=progress)
    assert status != 0 and "verdict nvidia_gds lost - n1 not applicable" in words, words
    assert "FAILED localhost | Show the verdicts and fail if one is missing" in words and "lost (not reached)" in words
    assert "1 of 2 nodes FAILED: lost; 0 changed;" in words
    assert "the run FAILED on the controller; its message is above" in words
