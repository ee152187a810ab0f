# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/submit_training.yml with a real Slurm: a plan of two models is submitted once and followed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.slurm import scripts
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import wait_for

pytestmark = needs_slurm
CHECKOUT = Path(__file__).parents[3]
NODE = {"gpus_per_node": 8, "vcpus_per_node": 8, "memory_mib_per_node": 1000}
# Prints the number of GPUs that Slurm gave the task.
CUDA = "echo $CUDA_VISIBLE_DEVICES | tr , '\\n' | wc -l"
MODELS = [{"name": "small", "nodes": 1}, {"name": "other", "nodes": 1}]


@pytest.fixture
def submit(slurm, facts, runtime, tmp_path):
    """Return ``submit(models, **settings)``: it runs the playbook for a plan of short trainings on two nodes."""
    common = {"kind": "training", "minutes": 9, "launcher": "srun", "signal_seconds": 60, "grace_seconds": 30,
              "monitor_seconds": 0, "nodes": 1}  # fmt: skip
    hold = f"while [ ! -e {tmp_path}/go ]; do sleep 0.2; done"
    wanted = [
        {
            **common,
            "name": model["name"],
            "checkpoints": str(tmp_path / model["name"]),
            "command": [
                "/bin/sh",
                "-c",
                f"{CUDA} >{tmp_path}/{model['name']}/gpus; {hold}",
            ],
        }
        for model in MODELS
    ]
    role = scripts.Role(facts, jobs=wanted, dir=str(tmp_path), gpus_per_node=1)
    assert role.problems == []
    role.install(runtime)

    def run(models, **settings):
        given = {
            "plan": {"cluster": {"nodes": 2, **NODE}, "models": models},
            "ansible_python_interpreter": sys.executable,
            "slurm_jobs_slurm_conf": f"{slurm.root}/etc/slurm.conf",
            "slurm_jobs_dir": str(tmp_path),
            "head": "localhost",
            **settings,
        }
        playbook = str(Path(sys.executable).with_name("ansible-playbook"))
        return subprocess.run(
            [playbook, "-i", "localhost,", "-c", "local", "-e", json.dumps(given), "playbooks/submit_training.yml"],
            env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(CHECKOUT / ".collections")},
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )

    yield run
    slurm.run("scancel", "--user=root", check=False)


def queued(slurm):
    """Return the names of the plan's pending and running jobs."""
    return slurm.run("squeue", "--noheader", "--name=small,other,absent", "--format=%j").stdout.split()


@pytest.mark.newer
def test_plan_is_submitted_once_and_followed(submit, slurm, tmp_path):
    first = submit(MODELS, follow=False)
    assert first.returncode == 0, first.stdout
    assert sorted(queued(slurm)) == ["other", "small"]
    again = submit(MODELS, follow=False)
    assert "changed=0" in again.stdout, again.stdout
    assert sorted(queued(slurm)) == ["other", "small"]
    (tmp_path / "go").touch()
    followed = submit(MODELS)
    assert followed.returncode == 0, followed.stdout
    assert queued(slurm) == []
    for name in ("small", "other"):
        assert re.search(rf"^\d\d:\d\d:\d\d {name}: job \d+ COMPLETED on n[12]", followed.stdout, re.MULTILINE)


def test_models_that_share_run_on_one_node_at_once(submit, slurm, tmp_path):
    """The scripts request whole nodes; the options of the plan's submissions override that."""
    half = {"nodes": 1, "gpus_per_node": 4, "exclusive": False, "options": {"nodelist": "n1"}}
    done = submit([{"name": "small", **half}, {"name": "other", **half}], follow=False)
    assert done.returncode == 0, done.stdout
    ask = ("squeue", "--noheader", "--name=small,other", "--states=RUNNING", "--format=%j %N")
    wait_for("both on n1", lambda: sorted(slurm.run(*ask).stdout.splitlines()) == ["other n1", "small n1"])
    (tmp_path / "go").touch()
    wait_for("both to end", lambda: queued(slurm) == [])
    assert [(tmp_path / name / "gpus").read_text() for name in ("small", "other")] == ["4\n", "4\n"]


def test_all_problems_are_reported_before_submission(submit, slurm, tmp_path):
    many = submit([{"name": "small", "nodes": 3}])
    assert many.returncode == 2 and "the models need at least 3 nodes and the cluster has 2" in many.stdout
    absent = submit([*MODELS[:1], {"name": "absent", "nodes": 1}])
    assert absent.returncode == 2 and "absent.sbatch does not exist or cannot be read" in " ".join(
        absent.stdout.split()
    )
    assert queued(slurm) == []
    twice = submit([{"name": "small", "nodes": 1}, {"name": "b", "nodes": 1, "script": f"{tmp_path}/small.sbatch"}])
    assert twice.returncode == 2 and "small.sbatch would run twice" in " ".join(twice.stdout.split())
    assert queued(slurm) == []
