# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import threading
import time
import types
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import slurm_job

from tests.rig.slurm import jobs
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.processes import wait_for
from tests.rig.slurm.spec import FAST_FAILURE, Spec

pytestmark = needs_slurm


@pytest.fixture
def run(slurm, run_module):
    return lambda check=False, **options: run_module(slurm_job, slurm, check, **options)


def later(action, *arguments):
    thread = threading.Thread(target=action, args=arguments)
    thread.start()
    return thread


@pytest.mark.newer
def test_arguments_are_passed_without_shell(run, script, tmp_path):
    path = script("#SBATCH --nodes=2", 'echo "$1|$(pwd)|$LC_ALL"')
    options = {"gres": "gpu:8", "output": str(tmp_path / "%j.out")}
    # The second argument looks like scontrol's output for the job.
    looks_like = "StdOut=/x UserId=5 JobState=FAILED WorkDir=/y"
    result = run(script=path, arguments=["$(touch /tmp/x); 'y", looks_like], options=options)
    job = result["job"]
    assert (result["changed"], job["ok"], job["state"], job["exit_code"], job["nodes"]) == (
        True,
        True,
        "COMPLETED",
        0,
        "n[1-2]",
    )
    assert job["stdout_tail"] == f"$(touch /tmp/x); 'y|{tmp_path}|\n"
    assert job["stdout"] == str(tmp_path / f"{job['job_id']}.out")


# Slurm's own reason for a batch script that a signal ended: of 22.05, and of 24.11.
KILLED = r"\((JobLaunchFailure|RaisedSignal:9\(Killed\))\)"


@pytest.mark.newer
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("echo oh no >&2; exit 3", ("FAILED", 3, 0, "ended FAILED with exit status 3 on n1; it last wrote: oh no")),
        ("kill -KILL $$", ("FAILED", 0, 9, f"ended FAILED by signal 9 on n1 {KILLED}; it wrote nothing")),
    ],
)
def test_failed_job_has_its_status_and_output(run, script, line, expected):
    result = run(script=script(line), options={"nodelist": "n1"})
    job = result["job"]
    assert result["failed"] and not job["ok"]
    assert (job["state"], job["exit_code"], job["signal"]) == expected[:3]
    assert re.fullmatch(f"job {job['job_id']} {expected[3]}", result["msg"]), result["msg"]


def test_expected_failure_passes(run, script):
    result = run(script=script("exit 3"), fail_on_error=False)
    assert ("failed" in result, result["job"]["exit_code"]) == (False, 3)


def test_timed_out_wait_keeps_or_cancels_job(run, slurm, script):
    number = run(state="submitted", script=script("sleep 600"))["job"]["job_id"]
    jobs.wait(slurm, number, "RUNNING")
    result = run(job_id=number, timeout=1, poll=0.2)
    assert result["msg"] == (
        f"waited 1 seconds for the end of job {number} and it is RUNNING: it continues, and job_id follows it further"
    )
    result = run(job_id=number, timeout=1, cancel_on_timeout=True)
    assert (result["failed"], result["changed"], result["job"]["state"]) == (True, True, "CANCELLED")


def test_cancelling_twice_changes_once(run, script):
    number = run(state="submitted", script=script("sleep 600"))["job"]["job_id"]
    cancelled = run(check=True, state="cancelled", job_id=number)
    assert (cancelled["changed"], cancelled["job"]["state"] in ("PENDING", "RUNNING")) == (True, True)
    first, second = (run(state="cancelled", job_id=number) for _time in range(2))
    assert (first["changed"], first["job"]["state"]) == (True, "CANCELLED")
    assert (second["changed"], second["job"]["state"]) == (False, "CANCELLED")


def test_unique_finds_same_running_job_only(run, script):
    path = script("sleep 600")
    ask = {"state": "submitted", "script": path, "unique": True, "options": {"job_name": "train"}}
    first, second, other = run(**ask), run(**ask), run(**ask, key="another")
    numbers = [result["job"]["job_id"] for result in (first, second, other)]
    try:
        assert (first["changed"], second["changed"], other["changed"]) == (True, False, True)
        assert numbers[0] == numbers[1] != numbers[2]
        assert run(check=True, **ask)["changed"] is False
    finally:
        for number in set(numbers):
            run(state="cancelled", job_id=number)
    assert run(check=True, **ask)["changed"] is True


def test_concurrent_unique_submissions_leave_one_job(run, slurm, script, monkeypatch):
    path = script("sleep 600")
    ask = {"state": "submitted", "script": path, "unique": True, "options": {"job_name": "train"}}
    find, looks, warnings = slurm_job.slurm_job.find, [], []
    # The first query of each finds no job, as if both ran at the same moment; the second query follows sbatch.
    monkeypatch.setattr(
        slurm_job.slurm_job, "find", lambda *words: looks.append(words) if len(looks) in (0, 2) else seen(*words)
    )
    monkeypatch.setattr(slurm_job.AnsibleModule, "warn", lambda _module, text: warnings.append(text))

    def seen(*words):
        looks.append(words)
        return find(*words)

    first, second = run(**ask), run(**ask)
    number = first["job"]["job_id"]
    try:
        assert "existing" not in first and (second["existing"], second["job"]["job_id"]) == (True, number)
        words = (
            f"job {number}, train, is the same and has not ended, so job {number + 1} was cancelled and job {number}"
        )
        assert len(warnings) == 1 and warnings[0].startswith(words)
        queue = slurm.run("squeue", "--noheader", "--name=train", "--states=PENDING,RUNNING", "--format=%A").stdout
        assert queue.split() == [str(number)]
    finally:
        run(state="cancelled", job_id=number)


def test_check_mode_tests_job_and_submits_nothing(run, slurm, script):
    result = run(check=True, script=script("true"), options={"nodes": 2})
    assert (result["changed"], "job" in result) == (True, False)
    assert "processors on nodes n[1-2] in partition main" in result["forecast"]
    assert slurm.run("squeue", "--noheader", "--states=PENDING,RUNNING").stdout == ""


def test_all_option_errors_are_reported_at_once(run):
    options = {
        "nodes": 3,
        "gpus_per_node": 9,
        "output": "/no/such/%j",
        "time": "120",
        "constraint": "p9",
        "container_image": "/no/image.sqsh",
    }
    result = run(script="/no/script", options=options)
    none = "and 0 nodes of partition main have that many"
    assert [problem.split(":")[0] for problem in result["problems"]] == [
        "the script /no/script does not exist or cannot be read",
        "3 nodes were requested and partition main gives at most 2",
        f"9 GPUs a node were requested on 3 nodes, {none} (there are nodes with 8)",
        "a time of 120 was requested and partition main allows 60 minutes",
        "no node has the feature p9",
        "the directory /no/such for output does not exist, and the job would end without a message",
        "a container image was requested and Slurm offers no --container-image here",
        "the container image /no/image.sqsh does not exist",
    ]
    assert (result["failed"], result["changed"]) == (True, False)
    assert result["msg"].count(". ") == 7


def test_rejection_by_sbatch_has_its_message(run, script):
    result = run(script=script("true"), options={"mem": "1000G"})
    assert result["msg"].startswith("sbatch rejected ") and "Memory specification can not be satisfied" in result["msg"]


def test_reservation_is_checked_before_submission(run, slurm, script):
    """Only Slurm knows who may use a reservation and when, so ``sbatch --test-only`` decides."""
    none = run(check=True, script=script("true"), options={"reservation": "nosuch"})
    assert none["failed"] and "reservation" in none["msg"] and none["msg"].startswith("sbatch rejected ")
    made = ("ReservationName=maint", "StartTime=now", "Duration=10", "Nodes=n1", "Flags=IGNORE_JOBS")
    slurm.run("scontrol", "create", "reservation", *made, "Users=root")
    try:
        options = {"reservation": "maint", "nodes": 1, "time": "5"}
        assert "n1" in run(check=True, script=script("true"), options=options)["forecast"]
        # More nodes than the reservation has.
        more = run(check=True, script=script("true"), options={**options, "nodes": 2})
        assert more["failed"], more
        assert slurm.run("squeue", "--noheader").stdout == ""
    finally:
        slurm.run("scontrol", "delete", "ReservationName=maint")


@pytest.mark.newer
def test_array_has_state_of_its_worst_task(run, script, tmp_path):
    path = script("exit $((SLURM_ARRAY_TASK_ID == 2 ? 7 : 0))")
    result = run(script=path, options={"array": "0-3%2", "output": str(tmp_path / "%A_%a.out")})
    job = result["job"]
    assert [(task["array_task_id"], task["exit_code"]) for task in job["tasks"]] == [
        ("0", 0),
        ("1", 0),
        ("2", 7),
        ("3", 0),
    ]
    assert (result["failed"], job["state"], job["exit_code"]) == (True, "FAILED", 7)
    assert job["stdout"] == str(tmp_path / f"{job['job_id']}_2.out")


def test_array_with_long_task_list_is_read(run, script):
    tasks = "0-9,13,17,20-400:20"
    number = run(state="submitted", script=script("true"), options={"array": tasks, "hold": True})["job"]["job_id"]
    held = run(job_id=number, timeout=60)
    assert held["failed"] and "never starts (JobHeldUser)" in held["msg"]
    result = run(state="cancelled", job_id=number)
    assert (result["changed"], result["job"]["state"]) == (True, "CANCELLED")


def test_chain_runs_in_order_until_failure(run, script):
    first = run(state="submitted", script=script("sleep 1", "touch first"))["job"]["job_id"]
    then = run(script=script("[ -e first ]", name="b"), options={"dependency": f"afterok:{first}"})
    assert then["job"]["ok"], then
    fails = run(state="submitted", script=script("exit 1", name="c"))["job"]["job_id"]
    never = run(script=script("true", name="d"), options={"dependency": [f"afterok:{fails}"]})
    assert never["failed"] and "never starts (DependencyNeverSatisfied): a job that it depends on" in never["msg"]
    run(state="cancelled", job_id=never["job"]["job_id"])


@pytest.fixture
def forgetful(slurm, slurm_accounting):
    """Yield both clusters, which forget a job two seconds after its end; other tests need a longer time."""
    both = (slurm, slurm_accounting)
    for cluster in both:
        cluster.configure(MinJobAge="2")
    yield both
    for cluster in both:
        cluster.configure(MinJobAge="300")


def test_forgotten_job_is_found_in_accounting_or_exit_file(run, forgetful, run_module, script, tmp_path):
    """Waits once for both clusters, as a controller forgets a job some seconds after MinJobAge."""
    slurm, slurm_accounting = forgetful
    lines = ("trap 'echo $? > exit-$SLURM_JOB_ID' EXIT", "exit 4")
    number = run(state="submitted", script=script(*lines))["job"]["job_id"]
    ask = {"script": script("exit 5", name="b"), "state": "submitted", "options": {"account": "root"}}
    accounted = run_module(slurm_job, slurm_accounting, **ask)["job"]["job_id"]
    for cluster, of in ((slurm, number), (slurm_accounting, accounted)):
        wait_for(
            "the controller to forget the job",
            lambda cluster=cluster, of=of: cluster.run("scontrol", "show", "job", str(of), check=False).returncode,
        )
    lost = run(job_id=number)
    assert (lost["failed"], lost["job"]["state"], lost["job"]["source"]) == (True, "LOST", "none")
    assert f"looked for job {number} and neither the controller" in lost["msg"]
    found = run(job_id=number, exit_file=str(tmp_path / "exit-%j"))
    assert (found["job"]["state"], found["job"]["exit_code"], found["job"]["source"]) == ("FAILED", 4, "exit_file")
    job = run_module(slurm_job, slurm_accounting, job_id=accounted)["job"]
    assert (job["state"], job["exit_code"], job["source"]) == ("FAILED", 5, "sacct")
    # A job may depend on a job that only the accounting knows, as that one is over.
    after = {**ask, "state": "completed", "options": {"account": "root", "dependency": f"afterany:{accounted}"}}
    assert "problems" not in run_module(slurm_job, slurm_accounting, check=True, **after)


def test_unknown_account_and_qos_are_reported(slurm_accounting, run_module, script):
    options = {"account": "none", "qos": "fast"}
    wrong = run_module(slurm_job, slurm_accounting, script=script("true"), state="submitted", options=options)
    assert [problem.split(":")[0] for problem in wrong["problems"]] == [
        "account none does not exist",
        "quality of service fast does not exist",
    ]


def test_restarted_controller_does_not_end_wait(run, slurm, script, tmp_path):
    def restart() -> None:
        wait_for("the job to run", (tmp_path / "started").exists)
        slurm.stop("slurmctld")
        (tmp_path / "go").touch()
        time.sleep(2)
        slurm.start("slurmctld")

    thread = later(restart)
    result = run(script=script("touch started", "until [ -e go ]; do sleep 0.1; done", "exit 6"), timeout=90)
    thread.join()
    assert (result["job"]["state"], result["job"]["exit_code"]) == ("FAILED", 6)


def test_stopped_controller_does_not_count_as_end(run, run_module, slurm, script, tmp_path):
    number = run(state="submitted", script=script("sleep 600"))["job"]["job_id"]
    # A configuration for clients of the same cluster, with a timeout of two seconds instead of a minute.
    (tmp_path / "etc").mkdir()
    text = Path(f"{slurm.root}/etc/slurm.conf").read_text(encoding="utf-8")
    (tmp_path / "etc/slurm.conf").write_text(
        re.sub("^MessageTimeout=.*$", "MessageTimeout=2", text, flags=re.MULTILINE), encoding="utf-8"
    )
    impatient = types.SimpleNamespace(root=tmp_path)
    slurm.stop("slurmctld")
    try:
        result = run_module(slurm_job, impatient, job_id=number, timeout=1)
        refused = run_module(slurm_job, impatient, script=script("true"))
    finally:
        slurm.start("slurmctld")
        run(state="cancelled", job_id=number)
    assert f"queried job {number} for 1 seconds and the controller did not answer" in result["msg"]
    assert refused["msg"].startswith("looked for a running controller and found none")


@pytest.mark.slow
def test_job_of_dead_node_runs_again(run_module, script):
    cluster = Cluster(f"pytest-nodes-{time.time_ns()}"[:31])
    cluster.up(Spec(nodes=2, settings=FAST_FAILURE), owned=True)
    try:
        path = script('echo "run $SLURM_RESTART_COUNT" >> runs', '[ -n "$SLURM_RESTART_COUNT" ] || sleep 60')

        def fail() -> None:
            runs = Path(path).with_name("runs")
            wait_for("the job to run", runs.exists)
            cluster.power_off("n1")
            number = int(cluster.run("squeue", "--noheader", "--format=%A").stdout)
            jobs.wait(cluster, number, "PENDING")

        thread = later(fail)
        options = {"requeue": True, "nodelist": "n1", "open_mode": "append"}
        first = run_module(slurm_job, cluster, script=path, options=options, timeout=5)
        thread.join()
        assert first["failed"]
        cluster.power_on("n1")
        # An earlier release would let the controller's messages about the first run end the second.
        jobs.release(cluster, first["job"]["job_id"])
        job = run_module(slurm_job, cluster, job_id=first["job"]["job_id"], timeout=120)["job"]
        assert (job["ok"], job["restarts"], Path(path).with_name("runs").read_text()) == (True, 1, "run \nrun 1\n")

        again = run_module(slurm_job, cluster, state="submitted", script=script("sleep 600"))["job"]["job_id"]
        jobs.wait(cluster, again, "RUNNING")
        assert run_module(slurm_job, cluster, state="requeued", job_id=again)["changed"]
        wait_for("the requeue", lambda: "Restarts=1" in cluster.run("scontrol", "show", "job", str(again)).stdout)

        lost = run_module(
            slurm_job,
            cluster,
            state="submitted",
            script=script("sleep 600"),
            options={"no_requeue": True, "nodelist": "n2"},
        )["job"]["job_id"]
        cluster.run("scancel", str(again))
        jobs.wait(cluster, lost, "RUNNING")
        cluster.power_off("n2")
        result = run_module(slurm_job, cluster, job_id=lost, timeout=120)
        assert (result["failed"], result["job"]["state"]) == (True, "NODE_FAIL")
    finally:
        cluster.down()
