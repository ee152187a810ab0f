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


@pytest.mark.parametrize("tags", ["always", "untagged"])
def test_tags_that_select_no_role_are_rejected(run_playbook, tags):
    status, output = run_playbook("site.yml", CLUSTER, "--tags", tags)
    assert status == 2 and f"--tags {tags}: no role would run; use the tag of a role (nvme_raid0" in output, output


def test_tags_of_create_cluster_are_its_own(run_playbook):
    status, output = run_playbook("playbooks/create_cluster.yml", {}, "--tags", "cluster_instal")
    assert status == 2 and "cluster_instal: no task has that tag; did you mean cluster_install?" in output, output


def test_configure_node_without_roles_fails(run_playbook):
    status, output = run_playbook("playbooks/configure_node.yml", {}, "--tags", "build")
    assert status == 2 and "nothing was configured: configure_node_roles lists no role" in output, output
    status, output = run_playbook("playbooks/configure_node.yml", {}, configure_node_role=[])
    assert status == 2 and "-e configure_node_role: nothing reads that variable; did you mean" in output, output
    roles = [{"name": "mlcluster.aws.efa_nccl", "key": "efa_nccl", "required": True}]
    status, output = run_playbook(
        "playbooks/configure_node.yml", {}, "--tags", "nvme_raid0", configure_node_roles=roles
    )
    assert status == 2 and "--tags nvme_raid0: no task has that tag; the tags are all" in output, output


@pytest.mark.parametrize(
    ("playbook", "given", "meant"),
    [
        ("upgrade_nodes", "upgrade_nodes_metod", "upgrade_nodes_method"),
        ("check_nodes", "traget", "target"),
        ("build_bundle", "build_bundle_bukcet", "build_bundle_bucket"),
        ("site", "nvme_raid0_mount_pont", "nvme_raid0_mount_point"),
        ("stage_data", "cluster_regoin", "cluster_region"),
    ],
)
def test_misspelt_variable_of_command_line_is_rejected(run_playbook, playbook, given, meant):
    status, output = run_playbook(f"playbooks/{playbook}.yml", CLUSTER, **{given: "x"})
    assert status == 2 and f"-e {given}: nothing reads that variable; did you mean {meant}?" in output, output


@pytest.mark.parametrize("display", ["ansible.builtin.default", "mlcluster.aws.cluster_progress"])
def test_misspelt_variables_and_groups_are_warnings(run_playbook, tmp_path, display):
    groups = {**CLUSTER, "instance_stores": {"n1": {"nvme_raid0_mount_pont": "/x", "nvme_raid0_mine": 1}}}
    groups["head"] = {"h1": {"slurm_jobs_jbos": "{{ undefined }}"}}
    path = tmp_path / "mine.yml"
    path.write_text("- import_playbook: mlcluster.aws.site\n", encoding="utf-8")
    status, output = run_playbook(
        str(path),
        groups,
        "--tags",
        "never",
        display=display,
        efa_nccl_hlod=True,
        mlcluster_own_variables=["*_mine"],
    )
    assert status == 0, output
    assert "no role reads the variable nvme_raid0_mount_pont (of n1); did you mean nvme_raid0_mount_point?" in output
    assert "slurm_jobs_jbos (of h1)" in output
    assert "-e efa_nccl_hlod: nothing reads that variable; did you mean efa_nccl_hold?" in output
    assert "the inventory has no group instance_store, but one called instance_stores" in output
    assert "nvme_raid0_mine" not in output


def test_unknown_tag_of_own_playbook_is_warning(run_playbook, tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text("- import_playbook: mlcluster.aws.site\n", encoding="utf-8")
    status, output = run_playbook(str(path), CLUSTER, "--tags", "my_own,nvme_riad0")
    assert status == 0, output
    assert "--tags nvme_riad0: mlcluster.aws has no such tag; did you mean nvme_raid0?" in output
    assert "my_own" not in output
