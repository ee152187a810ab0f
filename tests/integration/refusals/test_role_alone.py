# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A role that plans on the node, applied by a user's playbook and by site.yml."""

from __future__ import annotations

import pytest

PLAY = """\
- name: Somebody else's play
  hosts: all
  gather_facts: false
  tasks:
    - name: Apply a role
      ansible.builtin.include_role:
        name: mlcluster.aws.nvidia_gds
      vars:
        nvidia_gds_mode: "{{ mode }}"
        nvidia_gds_required: false
"""
CONTAINERS = """\
- name: Somebody else's play
  hosts: all
  gather_facts: false
  tasks:
    - name: Apply a role
      ansible.builtin.include_role:
        name: mlcluster.aws.enroot_pyxis
      vars:
        enroot_pyxis_plugstack_mode: required
        enroot_pyxis_slurm_prefix: /opt/no-slurm
"""
# This machine has no GPU: the role reports that and does nothing.
NOTHING = "no NVIDIA driver is loaded on this node: nothing is done"


@pytest.fixture
def play(tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text(PLAY, encoding="utf-8")
    return path


def test_role_in_foreign_play_looks_at_node_itself(run_playbook, play):
    status, output = run_playbook(play, {"any": {"n1": {}, "n2": {}}}, mode="compat")
    assert status == 0, output
    assert f"n1: {NOTHING}" in output and f"n2: {NOTHING}" in output
    assert "act.yml" not in output


def test_container_role_alone_does_nothing_without_slurm(run_playbook, tmp_path):
    path = tmp_path / "containers.yml"
    path.write_text(CONTAINERS, encoding="utf-8")
    status, output = run_playbook(path, {"any": {"n1": {}}})
    assert status == 0, output
    assert "n1: there is no Slurm on this node, so nothing would start a container: nothing is done" in output
    assert "act.yml" not in output


def test_invalid_variable_is_named(run_playbook, play):
    status, output = run_playbook(play, {"any": {"n1": {}}}, mode="nvfs", nvidia_gds_cuda_version="13")
    assert status == 2, output
    assert "nvidia_gds_cuda_version is '13': use a release of CUDA in quotes" in output


def test_site_looks_once_for_all_roles(run_playbook):
    status, output = run_playbook("site.yml", {"gpu": {"n1": {}}})
    assert status == 0, output
    assert output.count("TASK [Look for all roles at once]") == 1
    assert output.count(f"n1: nvidia_gds: {NOTHING}") == 1
    assert f"n1: {NOTHING}" not in output


def test_site_lets_role_reject_its_own_variable(run_playbook):
    nodes = {"n1": {"nvidia_gds_mode": "fast"}, "n2": {}}
    status, output = run_playbook("site.yml", {"gpu": nodes})
    assert status == 2, output
    assert "value of nvidia_gds_mode must be one of: compat, nvfs, p2pdma, got: fast" in output
    assert f"n2: nvidia_gds: {NOTHING}" in output


def test_head_outside_target_has_role_that_looks_itself(run_playbook, tmp_path):
    groups = {"gpu": {"n1": {}}, "head": {"h1": {"slurm_jobs_dir": str(tmp_path / "jobs")}}}
    given = {"enroot_pyxis_slurm_prefix": "/opt/no-slurm", "slurm_jobs_slurm_prefix": "/opt/no-slurm"}
    _status, output = run_playbook("site.yml", groups, target="n1", **given)
    assert "is undefined" not in output
    assert "Look at the cluster and decide] [CHECK MODE] ***" in output and "h1: " in output
    assert output.count("TASK [Look for all roles at once]") == 1


def test_run_that_starts_after_the_look_has_role_look(run_playbook):
    status, output = run_playbook("site.yml", {"gpu": {"n1": {}}}, "--start-at-task", "Apply the role nvidia_gds")
    assert status == 0, output
    assert f"n1: {NOTHING}" in output and "Look for all roles at once" not in output
