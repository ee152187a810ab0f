# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A role that decides on the node, applied from somebody else's playbook with a variable or two, and by site.yml."""

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
# Tests have no GPU; the role says so and does nothing.
NOTHING = "no NVIDIA driver is loaded on this node: nothing is done"


@pytest.fixture
def play(tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text(PLAY, encoding="utf-8")
    return path


def test_role_looks_by_itself_in_play_of_somebody_else(said, play):
    status, words = said(play, {"any": {"n1": {}, "n2": {}}}, mode="compat")
    assert status == 0, words
    assert f"n1: {NOTHING}" in words and f"n2: {NOTHING}" in words
    assert "act.yml" not in words


def test_containers_need_slurm_and_nothing_else_of_collection(said, tmp_path):
    path = tmp_path / "containers.yml"
    path.write_text(CONTAINERS, encoding="utf-8")
    status, words = said(path, {"any": {"n1": {}}})
    assert status == 0, words
    assert "n1: there is no Slurm on this node, so nothing would start a container: nothing is done" in words
    assert "act.yml" not in words


def test_variable_that_nothing_can_come_of_is_named(said, play):
    status, words = said(play, {"any": {"n1": {}}}, mode="nvfs", nvidia_gds_cuda_version="13")
    assert status == 2, words
    assert "nvidia_gds_cuda_version is '13': give a release of CUDA in quotes" in words


def test_site_takes_answer_of_one_look(said):
    status, words = said("site.yml", {"gpu": {"n1": {}}})
    assert status == 0, words
    assert words.count("TASK [Look for all roles at once]") == 1
    assert words.count(f"n1: {NOTHING}") == 1


def test_site_leaves_refusal_to_role_that_it_is_of(said):
    nodes = {"n1": {"nvidia_gds_mode": "fast"}, "n2": {}}
    status, words = said("site.yml", {"gpu": nodes})
    assert status == 2, words
    assert "value of nvidia_gds_mode must be one of: compat, nvfs, p2pdma, got: fast" in words
    assert f"n2: {NOTHING}" in words
