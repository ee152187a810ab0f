# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules as Ansible packs and runs them, with all imported files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.slurm.fixture import needs_slurm

pytestmark = needs_slurm
CHECKOUT = Path(__file__).parents[3]


@pytest.mark.newer
def test_play_plans_submits_and_follows_job(slurm, script, tmp_path):
    conf = {"conf": f"{slurm.root}/etc/slurm.conf"}
    plan = {"cluster": {"nodes": 2, "instance_type": "p5e.48xlarge"}, "models": [{"name": "both", "nodes": 2}]}
    submission = "{{ (plan | mlcluster.aws.slurm_plan).submissions[0] }}"
    job = {**conf, "script": script("srun hostname"), "options": "{{ submission.options }}"}
    tasks = [
        {"mlcluster.aws.slurm_info": conf, "register": "info"},
        {"mlcluster.aws.slurm_job": job, "register": "run", "vars": {"submission": submission}},
        {"ansible.builtin.copy": {"dest": str(tmp_path / "result"), "content": "{{ [info, run] | to_json }}"}},
    ]
    play = [{"hosts": "localhost", "gather_facts": False, "vars": {"plan": plan}, "tasks": tasks}]
    (tmp_path / "play.json").write_text(json.dumps(play), encoding="utf-8")
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "-c", "local"]
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / ".collections"),
        "ANSIBLE_HOME": str(tmp_path),
    }
    done = subprocess.run(
        [*command, "-e", f"ansible_python_interpreter={sys.executable}", str(tmp_path / "play.json")],
        env=environment,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    info, run = json.loads((tmp_path / "result").read_text(encoding="utf-8"))
    assert [node["name"] for node in info["nodes"]] == ["n1", "n2"]
    assert (run["changed"], run["job"]["ok"], sorted(run["job"]["stdout_tail"].split())) == (True, True, ["n1", "n2"])
    assert {"--nodes=2", "--gpus-per-node=8", "--exclusive", "--job-name=both"} <= set(run["argv"])
