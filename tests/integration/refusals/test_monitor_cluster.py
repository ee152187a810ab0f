# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Invalid settings of monitor_cluster.yml: all are reported at once, before a node is changed."""

from __future__ import annotations

import pytest

from tests.rig import controller


@pytest.mark.parametrize(
    ("given", "sentences"),
    [
        (
            {
                "state": "gone",
                "exporter": "artifact",
                "exporter_url": "https://mirror.example/node_exporter.tar.gz",
                "exporter_sha256": "abc",
                "dcgm_image": "nvcr.io/nvidia/k8s/dcgm-exporter:latest",
                "period": 1,
                "heal": {"actions": ["reboot", "explode"]},
                "ec2": {"region": "us-east-1"},
            },
            [
                "monitor_cluster.state is gone: use present or absent",
                "monitor_cluster.exporter is artifact: set exporter_url, and its exporter_sha256 of 64 hexadecimal",
                "dcgm_image is nvcr.io/nvidia/k8s/dcgm-exporter:latest: use NAME@sha256: and 64 digits",
                "monitor_cluster.period is 1: use 5 to 3600 seconds",
                "monitor_cluster.heal.actions has explode: use reset, reboot, replace",
                "monitor_cluster.ec2 has region or filters alone: set both, or neither",
            ],
        ),
        (
            {"perod": 30, "heal": {"most": ["1"]}},
            ["monitor_cluster has the key 'perod', which does not exist", "monitor_cluster.heal.most is "],
        ),
    ],
)
def test_all_setting_errors_are_reported_at_once(run_playbook, given, sentences):
    status, output = run_playbook("playbooks/monitor_cluster.yml", {"compute": {"n1": {}}}, monitor_cluster=given)
    assert status == 2, output
    for sentence in sentences:
        assert sentence in output, output
    assert "Gather facts of the node" not in output


def test_inventory_without_nodes_is_refused(run_playbook):
    status, output = run_playbook("playbooks/monitor_cluster.yml", {"others": {"n1": {}}})
    assert status == 2 and "no node is monitored: the inventory has no host in head:login:compute" in output


def test_dry_run_downloads_no_exporter(run_playbook):
    # No server listens there.
    url = "https://127.0.0.1:9/node_exporter.tar.gz"
    given = {"exporter": "artifact", "exporter_url": url, "exporter_sha256": "a" * 64}
    status, output = run_playbook("playbooks/monitor_cluster.yml", {"compute": {"n1": {}}}, monitor_cluster=given)
    assert status == 0 and f"n1: would download {url}" in output, output


@pytest.mark.parametrize("others", [[], ["site.rules.yml"], [".hidden"]])
def test_removal_keeps_files_of_site(run_playbook, tmp_path, others):
    folder = tmp_path / "mlcluster"
    folder.mkdir()
    for name in ("mlcluster.rules.yml", "node.json", *others):
        (folder / name).touch()
    play = tmp_path / "play.yml"
    tasks = controller.ROOT / "playbooks/tasks/monitor_server_absent.yml"
    values = controller.ROOT / "playbooks/vars/monitor_cluster.yml"
    play.write_text(
        f"- {{hosts: n1, gather_facts: false, vars_files: ['{values}'], tasks: [{{include_tasks: '{tasks}'}}]}}\n"
    )
    given = {"prometheus_config": str(tmp_path / "prometheus.yml")}
    status, output = run_playbook(play, {"compute": {"n1": {}}}, monitor_cluster=given)
    assert status == 0 and len(list(folder.iterdir())) == 2 + len(others), output
    status, output = run_playbook(play, {"compute": {"n1": {}}}, check=False, monitor_cluster=given)
    assert status == 0, output
    assert sorted(path.name for path in folder.rglob("*")) == others
    assert folder.exists() == bool(others)
