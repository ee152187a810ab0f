# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A script that Slurm rejects after slurm_jobs has its verdict: the verdict at the end of the run has the failure."""

from __future__ import annotations

import pytest

from tests.rig import controller

PLAY = """\
- name: The end of the role, after its judgement
  hosts: all
  gather_facts: false
  tasks:
    - name: Keep a judgement that is good
      mlcluster.aws.run_verdict:
        role: slurm_jobs
    - name: Ask Slurm
      block:
        - name: Ask
          ansible.builtin.include_tasks: ROOT/roles/slurm_jobs/tasks/asked.yml
          vars:
            __slurm_jobs_shown: [{name: lost, path: /nowhere/lost.sbatch}]
            __slurm_jobs_end: {problems: []}
      rescue:
        - name: Go on
          ansible.builtin.debug:
            msg: "rescued: {{ ansible_failed_result.msg }}"
    - name: Show the verdict
      mlcluster.aws.run_verdict:
      run_once: true
"""


@pytest.mark.parametrize(("required", "status", "state"), [(True, 2, "failed:"), (False, 0, "failed (not required):")])
def test_script_rejected_by_slurm_is_in_verdict(run_playbook, tmp_path, required, status, state):
    play = tmp_path / "play.yml"
    play.write_text(PLAY.replace("ROOT", str(controller.ROOT)), encoding="utf-8")
    prefix = {"slurm_jobs_required": required, "slurm_jobs_slurm_prefix": "/nowhere"}
    found, output = run_playbook(play, {"head": {"n1": {}}}, check=False, **prefix)
    assert found == status, output
    assert f"n1: slurm_jobs {state} looked for scontrol in /nowhere/bin" in output
    assert ("rescued: n1: looked for scontrol" in output) is required
