# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Misspelt tags, variables and groups: reported before any node is contacted."""

from __future__ import annotations

import pytest

CLUSTER = {"head": {"h1": {}}, "compute": {"n1": {}}}


@pytest.mark.parametrize("option", ["--tags", "--skip-tags"])
def test_unknown_tag_is_rejected(run_playbook, option):
    status, output = run_playbook("site.yml", CLUSTER, option, "nvme_riad0")
    assert status == 2, output
    assert f"{option} nvme_riad0: no task has that tag; did you mean nvme_raid0?" in output


@pytest.mark.parametrize("playbook", ["preflight", "check_nodes", "verify_nodes", "run_validation", "create_network"])
def test_tag_of_playbook_without_tags_is_rejected(run_playbook, playbook):
    status, output = run_playbook(f"playbooks/{playbook}.yml", CLUSTER, "--tags", "nvme_raid0")
    assert status == 2 and "--tags nvme_raid0: this playbook has no tags" in output, output


@pytest.mark.parametrize("display", ["ansible.builtin.default", "mlcluster.aws.cluster_progress"])
def test_misspelt_variables_and_groups_are_warnings(run_playbook, display):
    groups = {**CLUSTER, "instance_stores": {"n1": {"nvme_raid0_mount_pont": "/x", "nvme_raid0_mine": 1}}}
    status, output = run_playbook(
        "site.yml",
        groups,
        "--tags",
        "never",
        display=display,
        slurm_jobs_jbos="{{ undefined }}",
        mlcluster_own_variables=["*_mine"],
    )
    assert status == 0, output
    assert "no role reads the variable nvme_raid0_mount_pont (of n1); did you mean nvme_raid0_mount_point?" in output
    assert "slurm_jobs_jbos (of h1, n1)" in output
    assert "the inventory has no group instance_store, but one called instance_stores" in output
    assert "nvme_raid0_mine" not in output


def test_unknown_tag_of_own_playbook_is_warning(run_playbook, tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text("- import_playbook: mlcluster.aws.site\n", encoding="utf-8")
    status, output = run_playbook(str(path), CLUSTER, "--tags", "my_own,nvme_riad0")
    assert status == 0, output
    assert "--tags nvme_riad0: mlcluster.aws has no such tag; did you mean nvme_raid0?" in output
    assert "my_own" not in output
