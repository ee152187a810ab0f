# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scratch directory of a job on a real Slurm: the Prolog makes it, the Epilog removes it."""

from __future__ import annotations

import os

import pytest

from tests.integration.slurm.health_rig import DAEMON, USER, as_user, checked_cluster
from tests.rig.slurm import jobs
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import wait_for

pytestmark = needs_slurm


@pytest.fixture(scope="module")
def rig():
    """Yield a cluster of two nodes, and its scripts."""
    with checked_cluster(f"scratch-{os.getpid()}") as found:
        yield found


@pytest.fixture
def cluster(rig):
    return rig[0]


def left(cluster, node="n1"):
    """Return the jobs' directories on a node, and the content of the trash."""
    base = cluster.local_of(node) / "jobs"
    return sorted(path.name for path in [*base.glob("job-*"), *base.glob(".trash/*")])


def gone(cluster, number, node="n1"):
    wait_for(f"the directory of job {number} to go", lambda: f"job-{number}" not in left(cluster, node))


@pytest.mark.newer
def test_job_has_tmpdir_until_its_epilog(cluster):
    script = """
        #SBATCH --nodes=2
        srun bash -c 'stat -c "%a %u" $TMPDIR; echo $SLURM_JOB_ID > $TMPDIR/mine; cat $TMPDIR/mine; echo $TMPDIR'
        echo batch $TMPDIR
    """.replace("\n        ", "\n").strip()
    job = jobs.finish(cluster, script, *as_user(cluster, USER))
    own = f"{cluster.local}/jobs/job-{job.number}/tmp"
    assert job.state == "COMPLETED"
    assert sorted(job.output.splitlines()) == sorted(2 * [f"700 {USER}", str(job.number), own] + [f"batch {own}"])
    for node in ("n1", "n2"):
        gone(cluster, job.number, node)
        wait_for("an empty trash", lambda node=node: left(cluster, node) == [])


def test_jobs_have_private_directories(cluster):
    hold = f"touch $TMPDIR/here; until [ -e {cluster.root}/open/go ]; do sleep 0.1; done; ls $TMPDIR"
    first, second = (jobs.submit(cluster, hold, *as_user(cluster, USER, "--nodelist=n1")) for _time in range(2))
    base = cluster.local_of("n1") / "jobs"
    for number in (first, second):
        wait_for("the job's file", (base / f"job-{number}/tmp/here").exists)
    spy = f"ls {cluster.local}/jobs; ls {cluster.local}/jobs/job-{first}/tmp; mkdir {cluster.local}/jobs/job-{first}/x"
    seen = jobs.finish(cluster, f"({spy}) 2>&1; true", *as_user(cluster, DAEMON, "--nodelist=n1")).output
    (cluster.root / "open/go").touch()
    assert seen.count("Permission denied") == 3
    for number in (first, second):
        assert jobs.wait(cluster, number).output == "here\n"
        gone(cluster, number)


def test_each_array_task_has_own_directory(cluster):
    script = "echo $SLURM_ARRAY_TASK_ID > $TMPDIR/task; cat $TMPDIR/*"
    options = as_user(cluster, USER, "--array=1-3", f"--output={cluster.root}/open/array-%a")
    jobs.submit(cluster, script, *options)
    outputs = [cluster.root / f"open/array-{task}" for task in (1, 2, 3)]
    wait_for("the three tasks", lambda: all(path.exists() and path.read_text() for path in outputs))
    assert [path.read_text() for path in outputs] == ["1\n", "2\n", "3\n"]
    for node in ("n1", "n2"):
        wait_for("an empty base", lambda node=node: left(cluster, node) == [])


@pytest.mark.parametrize("how", ["cancel", pytest.param("timeout", marks=pytest.mark.slow), "crash", "full"])
def test_directory_is_removed_for_every_end_of_job(cluster, how):
    body = {
        "cancel": "sleep 60",
        "timeout": "trap '' TERM; sleep 600 & wait; wait",
        "crash": "kill -9 $$",
        "full": "ulimit -f 1000; head -c 100M /dev/zero > $TMPDIR/big",
    }[how]
    script = f"mkdir -p $TMPDIR/a/b/c; touch $TMPDIR/a/b/c/file; chmod 0 $TMPDIR/a; {body}"
    number = jobs.submit(cluster, script, *as_user(cluster, USER, "--nodelist=n1"))
    if how in ("cancel", "timeout"):
        wait_for("its files", (cluster.local_of("n1") / f"jobs/job-{number}/tmp/a").exists)
        # Slurm's shortest time limit is a minute, which it checks every 30 seconds.
        end = (
            ["scancel", str(number)] if how == "cancel" else ["scontrol", "update", f"JobId={number}", "EndTime=now+5"]
        )
        cluster.run(*end)
    states = {"cancel": "CANCELLED", "timeout": "TIMEOUT", "crash": "FAILED", "full": "FAILED"}
    assert jobs.wait(cluster, number).state == states[how]
    gone(cluster, number)
    assert "n1" in cluster.nodes_in("idle", "allocated", "mixed", "completing")


def test_requeued_job_gets_new_directory(cluster):
    script = "ls $TMPDIR; touch $TMPDIR/run-$SLURM_RESTART_COUNT; echo run ${SLURM_RESTART_COUNT:-0}; sleep 60"
    options = as_user(cluster, USER, "--nodelist=n1", "--requeue", "--open-mode=append")
    number = jobs.submit(cluster, script, *options)
    wait_for("the first run", lambda: "run 0" in jobs.look(cluster, number).output)
    cluster.run("scontrol", "requeue", str(number))
    jobs.wait(cluster, number, "PENDING")
    gone(cluster, number)
    # slurmd runs no Prolog for a job that returns within two seconds; by default Slurm waits two minutes.
    cluster.run("scontrol", "update", f"JobId={number}", "StartTime=now+4")
    wait_for("the second run", lambda: "run 1" in jobs.look(cluster, number).output)
    output = jobs.look(cluster, number).output
    assert [line for line in output.splitlines() if not line.startswith("slurmstepd")] == ["run 0", "run 1"]
    cluster.run("scancel", str(number))
    gone(cluster, number)


@pytest.mark.slow
def test_dead_nodes_files_are_swept_and_running_jobs_are_kept(rig):
    cluster, scripts = rig
    number = jobs.submit(cluster, "touch $TMPDIR/left; sleep 600", *as_user(cluster, USER, "-wn2", "--no-requeue"))
    base = cluster.local_of("n2") / "jobs"
    wait_for("its file", (base / f"job-{number}/tmp/left").exists)
    cluster.power_off("n2")
    jobs.wait(cluster, number, "NODE_FAIL")
    assert left(cluster, "n2") == [f"job-{number}"]
    cluster.configure(HealthCheckProgram=scripts["health_check"], HealthCheckInterval="600")
    cluster.power_on("n2")
    gone(cluster, number, "n2")
    wait_for("n2 to be idle", lambda: "n2" in cluster.nodes_in("idle"))
    alive = jobs.submit(cluster, "touch $TMPDIR/mine; sleep 600", *as_user(cluster, USER, "--nodelist=n2"))
    wait_for("its file", (base / f"job-{alive}/tmp/mine").exists)
    sweep = [scripts["command"], "scratch", "sweep", "--base", str(base)]
    done = cluster.run("env", "SLURMD_NODENAME=n2", *sweep)
    assert "leftovers of jobs: none" in done.stdout
    assert (base / f"job-{alive}/tmp/mine").exists()
    cluster.run("scancel", str(alive))
    gone(cluster, alive, "n2")
