# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was typed wrong is told before any node is asked."""

from __future__ import annotations

import pytest

CLUSTER = {"head": {"h1": {}}, "compute": {"n1": {}}}


@pytest.mark.parametrize("playbook", ["site.yml", "playbooks/verify_nodes.yml"])
@pytest.mark.parametrize("option", ["--tags", "--skip-tags"])
def test_tag_that_no_task_has_is_refused(said, playbook, option):
    status, words = said(playbook, CLUSTER, option, "nvme_riad0")
    assert status == 2, words
    assert f"{option} nvme_riad0: no task has that tag; did you mean nvme_raid0?" in words


@pytest.mark.parametrize("display", ["ansible.builtin.default", "mlcluster.aws.cluster_progress"])
def test_variables_and_groups_of_nearly_name_are_warnings(said, display):
    groups = {**CLUSTER, "instance_stores": {"n1": {"nvme_raid0_mount_pont": "/x", "nvme_raid0_mine": 1}}}
    status, words = said(
        "site.yml",
        groups,
        "--tags",
        "never",
        display=display,
        slurm_jobs_jbos="{{ undefined }}",
        mlcluster_own_variables=["*_mine"],
    )
    assert status == 0, words
    assert "variable nvme_raid0_mount_pont (of n1) is read by nothing; did you mean nvme_raid0_mount_point?" in words
    assert "slurm_jobs_jbos (of h1, n1)" in words
    assert "the inventory has no group instance_store and one called instance_stores" in words
    assert "nvme_raid0_mine" not in words


def test_playbook_of_ones_own_has_tags_of_its_own(said, tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text("- import_playbook: mlcluster.aws.site\n", encoding="utf-8")
    status, words = said(str(path), CLUSTER, "--tags", "my_own,nvme_riad0")
    assert status == 0, words
    assert "--tags nvme_riad0: mlcluster.aws has no such tag; did you mean nvme_raid0?" in words
    assert "my_own" not in words
