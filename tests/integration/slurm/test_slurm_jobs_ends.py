# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ends of rendered jobs on a real Slurm by outside causes: time limits, full disks, dead nodes, failed chains."""

from __future__ import annotations

import os
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import validation as _slurm_jobs_report
from ansible_collections.mlcluster.aws.plugins.modules import slurm_info, slurm_job

from tests.integration.slurm.ran import Ran
from tests.integration.slurm.test_slurm_jobs_training import Training
from tests.rig.slurm import jobs, scripts
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import wait_for
from tests.rig.slurm.spec import FAST_FAILURE, Spec

pytestmark = needs_slurm
SMOKE = {"name": "smoke", "kind": "node_smoke", "nodes": 1}
BROKEN = {"name": "broken", "kind": "node_smoke", "options": {"distribution": "cyclic"}}


@pytest.fixture
def rendered(runtime, tmp_path):
    """Return ``rendered(facts, job, …, **settings)``: it writes the jobs' scripts and returns {name: path}."""

    def render(facts, *wanted, **settings):
        role = scripts.Role(facts, jobs=list(wanted), dir=str(tmp_path), **{"gpus_per_node": 2, **settings})
        assert role.problems == []
        role.install(runtime)
        return {job["name"]: str(tmp_path / f"{job['name']}.sbatch") for job in wanted}

    return render


def submit(cluster, path, *options):
    return int(cluster.run("sbatch", "--parsable", *options, path).stdout)


@pytest.mark.newer
def test_array_tasks_have_own_results_and_bad_verdict_ends_chain(slurm, facts, rendered, run_module, tmp_path):
    paths = rendered(facts, SMOKE, BROKEN)
    # The job is held until the others depend on it, as a controller soon forgets an ended job.
    broken = submit(slurm, paths["broken"], "--hold")
    never = submit(slurm, paths["smoke"], f"--dependency=afterok:{broken}")
    anyway = submit(slurm, paths["smoke"], f"--dependency=afterany:{broken}")
    slurm.run("scontrol", "release", str(broken))
    array = run_module(slurm_job, slurm, script=paths["smoke"], options={"array": "0-1"}, timeout=120)
    assert array["job"]["ok"], array
    for task in array["job"]["tasks"]:
        found = tmp_path / "results" / f"smoke-{task['job_id']}"
        assert (found / "report.json").exists() and found.with_name(f"{found.name}.exit").read_text() == "0\n"
    status = tmp_path / "results" / f"smoke-{anyway}.exit"
    wait_for("the job that runs anyway", lambda: status.exists() and status.read_text() == "0\n")
    assert (tmp_path / "results" / f"broken-{broken}.exit").read_text() == "1\n"
    try:
        waiting = run_module(slurm_job, slurm, job_id=never, timeout=60)
    finally:
        slurm.run("scancel", str(never))
    assert waiting["failed"] and "DependencyNeverSatisfied" in waiting["msg"]
    gone = run_module(slurm_job, slurm, script=paths["smoke"], options={"dependency": "afterok:999999"})
    assert gone["problems"] == [
        "dependency names job 999999 and Slurm does not know it, so this job would not wait: choose an existing job"
    ]


def test_output_of_earlier_job_is_kept_and_not_quoted(slurm, facts, rendered, run_module, tmp_path):
    """A new head node counts jobs from 1 again, so that files of the same numbers exist."""
    path = rendered(facts, SMOKE)["smoke"]
    last = submit(slurm, path, "--hold")
    slurm.run("scancel", str(last))
    for number in range(last + 1, last + 4):
        earlier = tmp_path / "results" / f"smoke-{number}"
        earlier.mkdir()
        earlier.with_name(f"{earlier.name}.exit").write_text("0\n")
        earlier.with_name(f"{earlier.name}.out").write_text("of the first\n" * 100)
    done = run_module(slurm_job, slurm, script=path, timeout=90)["job"]
    results = tmp_path / "results" / f"smoke-{done['job_id']}"
    assert done["ok"] and results.with_name(f"{results.name}.earlier-1.out").read_text() == "of the first\n" * 100
    kept = f"smoke: what an earlier job of this number left is kept in {results}.earlier-1\n"
    assert done["stdout_tail"].startswith(kept) and "of the first" not in done["stdout_tail"]
    # The earlier output has left no hole.
    assert results.with_name(f"{results.name}.out").read_text() == done["stdout_tail"]


def test_accounting_has_exit_codes_of_scripts(slurm_accounting, rendered, run_module, tmp_path):
    paths = rendered(run_module(slurm_info, slurm_accounting), SMOKE, BROKEN)
    numbers = {name: submit(slurm_accounting, path) for name, path in paths.items()}
    for name, number in numbers.items():
        wait_for(f"the end of {name}", (tmp_path / "results" / f"{name}-{number}.exit").exists)
    query = ("sacct", "-X", "-n", "-P", "-j", ",".join(map(str, numbers.values())), "-o", "JobName,State,ExitCode")

    def rows():
        """Return both rows once they are complete.

        If the end of a job arrives before its start, slurmdbd has only the name "allocation"; slurmctld reports starts
        every five seconds.
        """
        found = slurm_accounting.run(*query).stdout.split()
        early = ("RUNNING", "COMPLETING", "PENDING", "allocation|")
        return found if len(found) == 2 and not any(word in row for row in found for word in early) else None

    assert wait_for("both in the accounting", rows) == ["smoke|COMPLETED|0:0", "broken|FAILED|1:0"]


def test_end_of_time_saves_training_and_is_no_pass(slurm, slow_to_kill, facts, runtime, rendered, run_module, tmp_path):
    """Waits once for all three jobs, as Slurm checks time limits twice a minute."""
    (tmp_path / "reduce_perf").write_text("#!/bin/sh\nsleep 300\n")
    (tmp_path / "reduce_perf").chmod(0o755)
    test = {"name": "test", "kind": "nccl", "layout": "single", "nodes": 1, "collectives": ["reduce"]}
    settings = {"nccl_tests_dir": str(tmp_path), "mpi": "none", "gpus_per_node": 1}
    save = 'mkdir "$MLCLUSTER_CHECKPOINTS/step-20" && touch "$MLCLUSTER_CHECKPOINTS/step-20/complete" && sleep 300'
    options = {"nodes": 1, "gpus_per_node": 1, "signal_seconds": 0, "command": ["/bin/sh", "-c", save]}
    training = Training(slow_to_kill, tmp_path, runtime, facts, **options)
    training.waits_for_a_checkpoint()
    # Slurm rejects an end time in the past.
    slurm.run("scontrol", "update", f"JobId={training.number}", "EndTime=now+5")
    validation = submit(slurm, rendered(facts, test, **settings)["test"])
    over = jobs.ended(slurm, validation)
    wait_for("the test to start", lambda: list(tmp_path.glob("results/test-*/*.reduce.out")), over=over)
    slurm.run("scontrol", "update", f"JobId={validation}", "EndTime=now+5")
    ended = run_module(slurm_job, slurm, job_id=validation, timeout=120)
    assert (ended["failed"], ended["job"]["state"]) == (True, "TIMEOUT")
    judged = _slurm_jobs_report.collect([{"name": "test", "job": ended["job"], "report": None, "message": None}])
    assert judged["status"] == "fail"
    # The exit file is read, as the controller may have forgotten the job already.
    wait_for("its status", training.ended)
    assert (training.exit_status(), training.saved()) == ("143\n", ["step-20"])


@pytest.fixture
def small_disk(tmp_path):
    """Yield a cluster of one node and a shared disk of half a MiB, mounted before the node started."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk], check=True)
    cluster = Cluster(f"pytest-full-{os.getpid()}")
    try:
        yield cluster.up(Spec(nodes=1, gpus=1), owned=True), disk
    finally:
        try:
            cluster.down()
        finally:
            subprocess.run(["umount", disk], check=True)


def leave_free(disk, pages):
    """Fill a tmpfs except for some pages of 4 KiB."""
    free = os.statvfs(disk)
    (disk / f"filler-{pages}").write_bytes(bytes(max(0, free.f_bavail - pages) * free.f_bsize))


def test_full_disk_is_no_pass_and_keeps_complete_checkpoints(small_disk, run_module, runtime, tmp_path):
    cluster, disk = small_disk
    found = run_module(slurm_info, cluster)
    # The training is held while the test fills the disk, so that it does not write meanwhile.
    words, where = (3000, 0, str(tmp_path / "go")), str(disk / "checkpoints")
    training = Training(cluster, tmp_path, runtime, found, *words, nodes=1, gpus_per_node=1, checkpoints=where)
    training.checkpoints = disk / "checkpoints"
    training.waits_for_a_checkpoint()
    leave_free(disk, 2)
    (tmp_path / "go").touch()
    ended = jobs.wait(cluster, training.number)
    assert (ended.state, ended.exit_code, training.exit_status()) == ("FAILED", 1, "1\n")
    assert "goes back" not in training.events
    torn = {path.name for path in training.checkpoints.glob("step-*")} - set(training.complete())
    assert len(torn) == 1 and not torn & set(training.saved())
    assert set(training.complete()) <= set(training.saved())
    # Now the results are on a disk without a free byte.
    (tmp_path / "results").rename(tmp_path / "before")
    (disk / "results").mkdir()
    (tmp_path / "results").symlink_to(disk / "results")
    scripts.Role(found, jobs=[SMOKE], dir=str(tmp_path), gpus_per_node=1).install(runtime)
    leave_free(disk, 0)
    (tmp_path / "logs").mkdir()
    number = submit(cluster, str(tmp_path / "smoke.sbatch"), f"--output={tmp_path}/logs/%j")
    job = jobs.wait(cluster, number)
    assert (job.state, job.exit_code) == ("FAILED", 2), job
    run = {
        "name": "smoke",
        "job": {"job_id": number, "state": job.state, "exit_code": 2},
        "report": None,
        "message": None,
    }
    assert _slurm_jobs_report.collect([run])["status"] == "undeterminable"


@pytest.mark.slow
def test_validation_on_dead_node_does_not_pass(rendered, run_module, tmp_path):
    (tmp_path / "reduce_perf").write_text("#!/bin/sh\nsleep 300\n")
    (tmp_path / "reduce_perf").chmod(0o755)
    cluster = Cluster(f"pytest-dies-{os.getpid()}")
    cluster.up(Spec(nodes=2, gpus=1, settings=FAST_FAILURE), owned=True)
    try:
        job = {"name": "test", "kind": "nccl", "layout": "single", "nodes": 2, "collectives": ["reduce"]}
        settings = {"nccl_tests_dir": str(tmp_path), "mpi": "none", "gpus_per_node": 1}
        number = submit(cluster, rendered(run_module(slurm_info, cluster), job, **settings)["test"])
        over = jobs.ended(cluster, number)
        wait_for("the test to start", lambda: list(tmp_path.glob("results/test-*/n2.reduce.out")), over=over)
        cluster.power_off("n2")
        ended = run_module(slurm_job, cluster, job_id=number, timeout=120)
        assert ended["job"]["state"] == "NODE_FAIL"
        judged = _slurm_jobs_report.collect([{"name": "test", "job": ended["job"], "report": None, "message": None}])
        assert judged["status"] == "fail"
        assert Ran(jobs.look(cluster, number), tmp_path, "test").results == []
    finally:
        cluster.down()
