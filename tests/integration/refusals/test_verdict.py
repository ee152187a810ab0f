# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict at the end of site.yml and verify_nodes, on nodes without NVMe disks, EFA and GPUs."""

from __future__ import annotations

import json

import pytest

BARE = {"n1": {}, "n2": {}}
NO_EFA = {name: {"efa_nccl_expected_devices": 0} for name in BARE}
GROUPS = {"instance_store": BARE, "efa": NO_EFA, "gpu": BARE}


@pytest.mark.parametrize("playbook", ["verify_nodes", pytest.param("site", marks=pytest.mark.slow)])
def test_unexpected_hardware_is_not_applicable(run_playbook, tmp_path, playbook):
    report = tmp_path / "verdict.jsonl"
    status, output = run_playbook(
        f"playbooks/{playbook}.yml", GROUPS, check=False, mlcluster_verdict_report=str(report)
    )
    assert status == 0, output
    assert "verdict nvme_raid0 efa_nccl nvidia_gds n1, n2 not applicable not applicable not applicable" in output
    assert "n1, n2: nvidia_gds not applicable: no NVIDIA driver is loaded on this node" in output
    nodes = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    assert {node["host"]: {one["status"] for one in node["results"]} for node in nodes} == {
        "n1": {"not_applicable"},
        "n2": {"not_applicable"},
    }


def test_group_efa_without_type_and_device_is_undeterminable(run_playbook):
    status, output = run_playbook("playbooks/verify_nodes.yml", {"efa": {"n1": {}}}, check=False)
    sentence = (
        "???? inventory.efa: the node is in the group efa, its instance type is unknown, and no EFA device was found"
    )
    assert status == 2 and sentence in output, output


def test_missing_hardware_of_known_instance_type_fails(run_playbook, tmp_path):
    """The run fails although no role requires a GPU by default."""
    groups = {"gpu": {"n1": {"ec2_instance_type": "g5.48xlarge"}, "n2": {}}}
    report = tmp_path / "made" / "verdict.jsonl"
    status, output = run_playbook(
        "playbooks/verify_nodes.yml", groups, check=False, mlcluster_verdict_report=str(report)
    )
    assert status == 2, output
    assert "verdict nvidia_gds n1 failed n2 not applicable" in output
    assert "1 of 2 nodes failed or not proved: n1 (nvidia_gds failed); the table above has the reasons" in output
    assert "a g5.48xlarge with 8 GPUs, and no NVIDIA driver is loaded" in output


def test_verdict_is_shown_when_no_node_is_left(run_playbook):
    """Ansible skips the last play when no host is left; the callback shows the verdict."""
    groups = {"instance_store": {"n1": {"ec2_instance_type": "p5.48xlarge"}}, "gpu": {"n1": {}}}
    progress = "mlcluster.aws.cluster_progress"
    status, output = run_playbook("playbooks/verify_nodes.yml", groups, check=False, display=progress)
    assert status == 2 and "verdict nvme_raid0 nvidia_gds n1 failed not proved" in output, output


def test_check_mode_does_not_fail_for_unproved_nodes(run_playbook, tmp_path):
    groups = {"gpu": {"n1": {"ec2_instance_type": "g5.48xlarge"}}}
    report = tmp_path / "verdict.jsonl"
    status, output = run_playbook("site.yml", groups, mlcluster_verdict_report=str(report))
    assert status == 0 and "n1 failed" in output, output
    assert not report.exists()


def test_unreachable_node_does_not_fail_others(run_playbook):
    """The controller reports the verdict and does not count as a node."""
    lost = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    groups = {"gpu": {"n1": {}, "lost": lost}}
    progress = "mlcluster.aws.cluster_progress"
    status, output = run_playbook("playbooks/verify_nodes.yml", groups, check=False, display=progress)
    assert status != 0 and "verdict nvidia_gds lost - n1 not applicable" in output, output
    assert (
        "FAILED localhost | Show the verdicts and fail if one is missing" in output and "lost (not reached)" in output
    )
    assert "1 of 2 nodes FAILED: lost; 0 changed;" in output
    assert "the run FAILED on the controller; its message is above" in output
