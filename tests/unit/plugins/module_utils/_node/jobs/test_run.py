# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A job from its script to its exit status: earlier results, signals, directories of others, the steps' variables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import types
import zipfile

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import run
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.spec import Spec
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result

from tests.unit.fakes.fake_job_work import spec_of

from .conftest import NUMBER

SMOKE = {"name": "smoke", "kind": "node_smoke"}
NEW = "a new report"


def left_behind(results, text, name="smoke"):
    """Make the directory and the exit file that a job of the same number left."""
    (results / f"{name}-{NUMBER}").mkdir()
    (results / f"{name}-{NUMBER}" / "report.json").write_text(text)
    (results / f"{name}-{NUMBER}.exit").write_text(f"{text}\n")


def content(results):
    """Return the content of the files, without those of tasks."""
    found = {str(path.relative_to(results)): path.read_text().strip() for path in results.rglob("*") if path.is_file()}
    return {
        name: NEW if '"schema": "mlcluster.report/1"' in text else text
        for name, text in found.items()
        if "task-" not in name
    }


def test_job_that_passes_has_report_and_its_exit_status(batch):
    done = batch.start(SMOKE)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert content(batch.results) == {"smoke-7/report.json": NEW, "smoke-7.exit": "0"}
    assert done.stdout.splitlines()[-1].endswith("3 pass, 1 not_applicable")
    report = json.loads((batch.results / "smoke-7/report.json").read_text())
    assert {entry["id"] for entry in report["results"]} >= {"smoke.tasks", "smoke.placement"}


def test_number_that_comes_again_loses_and_mixes_nothing(batch):
    results = batch.results
    left_behind(results, "first")
    done = batch.start(SMOKE)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"smoke: what an earlier job of this number left is kept in {results}/smoke-7.earlier-1" in done.stdout
    left_behind_by_first = {"smoke-7.earlier-1/report.json": "first", "smoke-7.earlier-1.exit": "first"}
    assert content(results) == {"smoke-7/report.json": NEW, "smoke-7.exit": "0", **left_behind_by_first}
    # And a third one, which was put back into the queue.
    assert batch.start(SMOKE, SLURM_RESTART_COUNT="1").returncode == 0
    assert content(results) == {
        "smoke-7/report.json": NEW,
        "smoke-7.exit": "0",
        "smoke-7.earlier-2/report.json": NEW,
        "smoke-7.earlier-2.exit": "0",
        **left_behind_by_first,
    }


def test_exit_file_alone_is_not_taken_for_that_of_this_job(batch):
    (batch.results / "smoke-7.exit").write_text("0\n")
    batch.program("srun", f"test ! -e {batch.results}/smoke-7.exit || touch {batch.folder}/seen")
    assert batch.start(SMOKE).returncode == 1
    assert not (batch.folder / "seen").exists()
    assert content(batch.results) == {"smoke-7/report.json": NEW, "smoke-7.exit": "1", "smoke-7.earlier-1.exit": "0"}


def test_results_directory_that_cannot_be_made_is_one_sentence(batch):
    batch.install(SMOKE)
    batch.results.rmdir()
    batch.results.write_text("")
    script = batch.folder / "smoke.sbatch"
    variables = {**os.environ, "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1"}
    done = subprocess.run(["sh", script], env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"smoke: {batch.results}/smoke-7 could not be made (Not a directory): check that ")


def test_training_that_comes_back_continues_in_its_output(batch, training):
    output = batch.results / f"t-{NUMBER}.out"
    assert batch.start(training, output).returncode == 0, output.read_text()
    first = output.read_text()
    assert batch.start(training, output, SLURM_RESTART_COUNT="1").returncode == 0
    assert output.read_text().startswith(first) and "restart 1: starts on" in output.read_text()
    assert not list(batch.results.glob("*earlier*"))


def test_requeued_training_resumes_in_its_directory(batch, training):
    left_behind(batch.results, "first", "t")
    assert batch.start(training, SLURM_RESTART_COUNT="1").returncode == 0
    assert (batch.results / "t-7" / "report.json").exists()
    assert batch.start(training).returncode == 0
    assert (batch.results / "t-7.earlier-1" / "report.json").exists()
    assert not (batch.results / "t-7" / "report.json").exists()


def test_nothing_is_written_through_foreign_entries(batch, training):
    """The directory of results is open to all, and the numbers of jobs can be foretold."""
    results, victim = batch.results, batch.folder / "victim"
    for job in (SMOKE, training):
        at = results / f"{job['name']}-{NUMBER}"
        victim.write_text("precious")
        at.with_name(f"{at.name}.exit.part").symlink_to(victim)
        at.with_name(f"{at.name}.exit").symlink_to(batch.folder / "made")
        at.symlink_to(batch.folder / "nowhere")
        done = batch.start(job)
        assert done.returncode == 0, done.stderr
        assert victim.read_text() == "precious" and not (batch.folder / "made").exists()
        assert not (batch.folder / "nowhere").exists() and at.is_dir() and not at.is_symlink()
        status = at.with_name(f"{at.name}.exit")
        assert status.read_text() == "0\n" and not status.is_symlink() and status.stat().st_mode & 0o777 == 0o644


ENDS = ("HUP", "QUIT", "USR2", "ALRM", "TERM", "XCPU")


@pytest.mark.parametrize(
    ("kind", "name"),
    # USR1 requests a checkpoint of a training.
    [*(("training", name) for name in ENDS), *(("node_smoke", name) for name in (*ENDS, "USR1"))],
)
def test_signal_that_ends_job_is_its_status(batch, training, kind, name):
    """Not that of the last step, which is 0."""
    batch.program("srun", f"kill -{name} $(cat {batch.folder}/pid)")
    done = batch.start(training if kind == "training" else SMOKE)
    status = 128 + signal.Signals[f"SIG{name}"]
    assert (done.returncode, batch.status) == (status, f"{status}\n"), done


def test_killed_start_has_no_status_of_earlier_one(batch, training):
    (batch.results / f"t-{NUMBER}.exit").write_text("0\n")
    batch.program("srun", f"kill -KILL $(cat {batch.folder}/pid)")
    done = batch.start(training, SLURM_RESTART_COUNT="1")
    assert (done.returncode, batch.status) == (-signal.SIGKILL, None), done


def test_step_that_does_not_end_keeps_no_status_back(batch):
    """The status is there while the step is still at work; its end is waited for."""
    waits = f"until [ -e {batch.results}/smoke-7.exit ]; do sleep 0.05; done; touch {batch.folder}/seen"
    batch.program("srun", f"trap '' TERM; kill -TERM $(cat {batch.folder}/pid); {waits}")
    done = batch.start(SMOKE)
    assert (done.returncode, batch.status, (batch.folder / "seen").exists()) == (143, "143\n", True)


def test_signal_before_runtime_is_loaded_is_not_lost(batch):
    """It comes with the first module of the runtime that is imported."""
    batch.install(SMOKE)
    sources = batch.folder / "sources"
    with zipfile.ZipFile(batch.folder / "mlcluster.pyz") as archive:
        archive.extractall(sources)
    (sources / "mlcluster" / "__init__.pyc").unlink()
    first = sources / "mlcluster" / "__init__.py"
    first.write_text(f"import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n{first.read_text()}")
    variables = {**os.environ, "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1"}
    command = [sys.executable, sources, "job", batch.folder / "smoke.json"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, batch.status) == (143, "143\n"), done


def test_steps_have_no_variables_of_submitting_job(batch):
    batch.program("srun", f"env >{batch.folder}/variables")
    inherited = {"SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "x", "SLURM_CPU_BIND": "x", "SLURM_MEM_PER_CPU": "1",
                 "SLURM_CPUS_PER_TASK": "3", "SLURM_DISTRIBUTION": "cyclic"}  # fmt: skip
    batch.start({**SMOKE, "options": {"distribution": "block"}}, **inherited)
    found = dict(line.split("=", 1) for line in (batch.folder / "variables").read_text().splitlines() if "=" in line)
    assert set(found) & set(inherited) == {"SLURM_DISTRIBUTION"}
    # Only the step sets the variables of a task.
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "CUDA_VISIBLE_DEVICES"} & set(found) - set(os.environ)


def test_unexpected_error_is_no_pass_and_has_exit_file(tmp_path, monkeypatch):
    spec = Spec("x", "node_smoke", str(tmp_path), "python3", 1, 1, 0, "none", {}, None, "", (), {}, {}, {})
    (tmp_path / "results").mkdir()

    def broken(*_words):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(run, "_run", broken)
    before = os.umask(0o022)
    try:
        with pytest.raises(RuntimeError):
            run.run_job(spec, Host(), {"SLURM_JOB_ID": "7"}, "0")
    finally:
        os.umask(before)
    assert (tmp_path / "results/x-7.exit").read_text() == "2\n"


def test_outside_of_slurm_job_does_not_run():
    with pytest.raises(NodeError, match="SLURM_JOB_ID are not set, so this is not a job of Slurm"):
        run.job_number(False, {})
    assert run.job_number(True, {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "0"}) == "5_0"


def test_file_that_is_missing_is_one_sentence(tmp_path):
    with pytest.raises(NodeError, match=r"x.json could not be read: use the file NAME.json beside the script"):
        run.load(Host(), str(tmp_path / "x.json"))


def test_verdict_knows_all_options_of_job(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(run, "judge_job", lambda job, host: seen.append(job) or [])
    monkeypatch.setattr(run, "write_report", lambda *_words: result.Report("n1", "2026-11-28T12:00:00Z", {}, ()))
    work = types.SimpleNamespace(
        spec=spec_of("nccl", smallest="1K", largest="4K"), nodes=("n1",), results=str(tmp_path), started=1, host=Host(),
        version="0",
    )  # fmt: skip
    run.verdict(work)
    assert (seen[0].asked["smallest"], seen[0].asked["largest"], seen[0].asked["factor"]) == ("1K", "4K", 2)
    assert seen[0].asked["kind"] == "nccl"
