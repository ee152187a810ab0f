# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Metrics of a node that runs jobs of a real Slurm: the Prolog writes job labels, which end with the job."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.slurm.health_rig import USER, as_user, checked_cluster, state_of
from tests.rig.slurm import jobs
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import wait_for

pytestmark = needs_slurm
LABEL = re.compile(
    r'^mlcluster_job_gpu\{gpu="(\d+)",hpc_job="(\d+)",user="([^"]*)",job_name="([^"]*)"\} 1$', re.MULTILINE
)


@pytest.fixture(scope="module")
def rig():
    with checked_cluster(f"watch-{os.getpid()}") as found:
        yield found


def inside(cluster, *words, **options):
    """Run a command on n1, in its namespaces."""
    spaces = ["nsenter", f"--target={cluster._init('n1')}", "--mount", "--uts", "--pid", "--"]
    return cluster.run(*spaces, *words, **options)


def labels(rig):
    """Return (GPU, job, user, name) of each label after a run on n1."""
    cluster, scripts = rig
    conf = f"{cluster.root}/etc/slurm.conf"
    inside(cluster, scripts["command"], "watch", "--directory", f"{cluster.local}/textfile", "--slurm-conf", conf)
    return LABEL.findall((cluster.local_of("n1") / "textfile/mlcluster.prom").read_text(encoding="utf-8"))


def running(cluster, name):
    number = jobs.submit(
        cluster, "echo up; sleep 600", *as_user(cluster, USER, "-wn1", "--gres=gpu:2", f"--job-name={name}")
    )
    wait_for("the job itself", lambda: "up" in jobs.look(cluster, number).output)
    return number


def end(cluster, number):
    cluster.run("scancel", str(number))
    jobs.wait(cluster, number)


def test_job_is_in_labels_of_its_gpus_until_its_epilog(rig):
    cluster, _scripts = rig
    number = running(cluster, "llama 70b")
    found = labels(rig)
    assert found == [(gpu, str(number), "nobody", "llama 70b") for gpu, *_rest in found]
    assert len({gpu for gpu, *_rest in found}) == 2
    end(cluster, number)
    wait_for("the Epilog", lambda: not list(state_of(cluster, "n1", "/run/mlcluster/jobs").glob("*.json")))
    assert labels(rig) == []


@pytest.mark.newer
def test_step_times_of_job_are_metrics_until_its_epilog(rig):
    cluster, _scripts = rig
    # A training writes this file by MLCLUSTER_STEP_FILE; another user's file for the same job is ignored.
    text = 'echo "120 96.5 31.25" > /dev/shm/mlcluster-steps.$SLURM_JOB_ID.0; echo up; sleep 600'
    number = jobs.submit(cluster, text, *as_user(cluster, USER, "-wn1", "--gres=gpu:1"))
    wait_for("the job itself", lambda: "up" in jobs.look(cluster, number).output)
    planted = Path(f"/dev/shm/mlcluster-steps.{number}.1")
    planted.write_text("9 9 9")
    try:
        assert labels(rig)
        found = (cluster.local_of("n1") / "textfile/mlcluster.prom").read_text(encoding="utf-8")
        assert re.findall(r"^mlcluster_job_step.*$", found, re.MULTILINE) == [
            f'mlcluster_job_steps_total{{hpc_job="{number}",process="0"}} 120',
            f'mlcluster_job_step_seconds_total{{hpc_job="{number}",process="0",part="all"}} 96.5',
            f'mlcluster_job_step_seconds_total{{hpc_job="{number}",process="0",part="own"}} 31.25',
        ]
        end(cluster, number)
        wait_for("the Epilog", lambda: not list(Path("/dev/shm").glob(f"mlcluster-steps.{number}.*")))
    finally:
        planted.unlink(missing_ok=True)


@pytest.mark.slow
def test_label_ends_without_epilog(rig):
    cluster, scripts = rig
    cluster.configure(Epilog="/bin/true")
    try:
        number = running(cluster, "x")
        assert {job for _gpu, job, *_rest in labels(rig)} == {str(number)}
        end(cluster, number)
        assert list(state_of(cluster, "n1", "/run/mlcluster/jobs").glob("*.json"))
        assert labels(rig) == []
        assert not list(state_of(cluster, "n1", "/run/mlcluster/jobs").glob("*.json"))
    finally:
        cluster.configure(Epilog=scripts["epilog"])


@pytest.mark.slow
def test_prolog_waits_for_metrics_run(rig):
    cluster, _scripts = rig
    lock = state_of(cluster, "n1", "/run/mlcluster/watch.lock")
    with subprocess.Popen(
        ["flock", "--exclusive", lock, "sh", "-c", "echo held; sleep 2"], stdout=subprocess.PIPE
    ) as run:
        assert run.stdout.readline() == b"held\n"
        job = jobs.finish(cluster, "true", *as_user(cluster, USER, "-wn1"))
        assert run.poll() == 0, "the job began beside the run"
    assert job.state == "COMPLETED"
