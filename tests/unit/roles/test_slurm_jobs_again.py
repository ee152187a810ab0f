# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scripts whose job number, directory for checkpoints or port is taken; most of what they call is a stand-in."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig.slurm.scripts import ROLE, Role

SMOKE = {"name": "smoke", "kind": "node_smoke"}
NUMBER = 7
# Answers as the runtime does where a script asks for a verdict, and runs the real programs for data.
PYTHON = f"""#!/bin/sh
case "$*" in
*mlcluster_data*) exec {sys.executable} "$@" ;;
*job-verdict*) for last; do :; done; echo new >"$last/report.json"; exit 0 ;;
esac
"""
STAND_INS = {"scontrol": '[ "$1" = show ] && echo n1; exit 0', "srun": 'echo "$*" >>"$JOBS/srun"', "python": ""}


@pytest.fixture
def start(tmp_path):
    """start(job, **environment) runs the script of a job as Slurm would, as job 7.

    With output, the file that Slurm would open for what it prints, the end of which it is to write to.
    """
    (tmp_path / "results").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "mlcluster_data").symlink_to(ROLE / "files" / "mlcluster_data")
    for name, body in STAND_INS.items():
        program = tmp_path / "bin" / name
        program.write_text(PYTHON if name == "python" else f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)

    def run(job, output=None, **environment):
        ((path, text),) = Role(jobs=[job], dir=str(tmp_path), python=f"{tmp_path}/bin/python").scripts().items()
        Path(path).write_text(text)
        given = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "MLCLUSTER_"))}
        opened = output.open("a") if output else None
        streams = {"stdout": opened or subprocess.PIPE, "stderr": subprocess.STDOUT if opened else subprocess.PIPE}
        return subprocess.run(
            ["bash", path], **streams, text=True, check=False,
            env={**given, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SLURM_JOB_ID": str(NUMBER),
                 "SLURM_JOB_NODELIST": "n1", "SLURM_NTASKS": "1", "JOBS": str(tmp_path), **environment},
        )  # fmt: skip

    return run


@pytest.fixture
def training(tmp_path):
    """A training of one process that ends at once."""
    return {"name": "t", "kind": "training", "minutes": 60, "command": ["x"], "checkpoints": f"{tmp_path}/c",
            "launcher": "srun", "monitor_seconds": 0, "notice_seconds": 0}  # fmt: skip


def left_behind(results: Path, text: str, name: str = "smoke") -> None:
    """What a job of the same number left: its directory and its exit file."""
    (results / f"{name}-{NUMBER}").mkdir()
    (results / f"{name}-{NUMBER}" / "report.json").write_text(text)
    (results / f"{name}-{NUMBER}.exit").write_text(f"{text}\n")


def content(results: Path) -> dict[str, str]:
    return {str(path.relative_to(results)): path.read_text().strip() for path in results.rglob("*") if path.is_file()}


def test_a_number_that_comes_again_loses_and_mixes_nothing(start, tmp_path):
    results = tmp_path / "results"
    left_behind(results, "first")
    done = start(SMOKE)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"what an earlier job of this number left is kept in {results}/smoke-7.earlier-1" in done.stdout
    left_behind_by_first = {"smoke-7.earlier-1/report.json": "first", "smoke-7.earlier-1.exit": "first"}
    assert content(results) == {"smoke-7/report.json": "new", "smoke-7.exit": "0", **left_behind_by_first}
    # And a third one, which was put back into the queue.
    assert start(SMOKE, SLURM_RESTART_COUNT="1").returncode == 0
    assert content(results) == {
        "smoke-7/report.json": "new",
        "smoke-7.exit": "0",
        "smoke-7.earlier-2/report.json": "new",
        "smoke-7.earlier-2.exit": "0",
        **left_behind_by_first,
    }


def test_an_exit_file_alone_is_not_taken_for_that_of_this_job(start, tmp_path):
    (tmp_path / "results" / "smoke-7.exit").write_text("0\n")
    (tmp_path / "bin" / "python").write_text(
        f"#!/bin/sh\ntest ! -e {tmp_path}/results/smoke-7.exit || exit 9\nexit 1\n"
    )
    assert start(SMOKE).returncode == 1
    assert content(tmp_path / "results") == {"smoke-7.exit": "1", "smoke-7.earlier-1.exit": "0"}


def test_what_an_earlier_job_printed_is_kept_and_this_job_has_a_file_of_its_own(start, tmp_path):
    results = tmp_path / "results"
    left_behind(results, "first")
    output = results / f"smoke-{NUMBER}.out"
    output.write_text("of the first\n")
    file = output.stat().st_ino
    assert start(SMOKE, output).returncode == 0
    kept = f"smoke: what an earlier job of this number left is kept in {results}/smoke-7.earlier-1\n"
    # Slurm has the file open, so it is still the same one.
    assert (output.read_text(), output.stat().st_ino) == (kept, file)
    assert (results / "smoke-7.earlier-1.out").read_text() == "of the first\n"
    assert (results / "smoke-7.earlier-1.out").stat().st_mode & 0o777 == 0o644
    assert start(SMOKE, output).returncode == 0
    assert output.read_text() == kept.replace("earlier-1", "earlier-2")
    assert (results / "smoke-7.earlier-2.out").read_text() == kept


def test_what_was_printed_and_nothing_else_is_parted_from_what_this_job_prints(start, tmp_path):
    """By an earlier job that died before its script began, or by a program of the site in front of this very script."""
    output = tmp_path / "results" / f"smoke-{NUMBER}.out"
    output.write_text("slurmstepd: error\n")
    assert start(SMOKE, output).returncode == 0
    assert output.read_text() == "slurmstepd: error\nsmoke: what stands above was there before this script began\n"
    assert not list((tmp_path / "results").glob("*earlier*"))


def test_a_training_that_comes_back_goes_on_in_its_output(start, tmp_path, training):
    output = tmp_path / "results" / f"t-{NUMBER}.out"
    assert start(training, output).returncode == 0
    first = output.read_text()
    assert start(training, output, SLURM_RESTART_COUNT="1").returncode == 0
    assert output.read_text().startswith(first) and "restart 1: starts on" in output.read_text()
    assert not list((tmp_path / "results").glob("*earlier*"))


def test_output_that_goes_elsewhere_leaves_that_of_the_earlier_job_as_it_is(start, tmp_path):
    results = tmp_path / "results"
    left_behind(results, "first")
    (results / f"smoke-{NUMBER}.out").write_text("of the first\n")
    assert start(SMOKE, tmp_path / "elsewhere").returncode == 0
    assert (results / "smoke-7.earlier-1.out").read_text() == "of the first\n"
    assert not (results / f"smoke-{NUMBER}.out").exists()


def test_earlier_results_that_cannot_be_moved_are_left_and_said(start, tmp_path):
    left_behind(tmp_path / "results", "first")
    (tmp_path / "bin" / "mv").write_text('#!/bin/sh\ncase "$*" in *earlier*) exit 1 ;; esac\nexec /bin/mv "$@"\n')
    (tmp_path / "bin" / "mv").chmod(0o755)
    done = start(SMOKE)
    assert (done.returncode, "could not be given another name: let them move it" in done.stderr) == (2, True)
    assert (tmp_path / "results" / "smoke-7" / "report.json").read_text() == "first"


def test_a_training_that_comes_back_goes_on_in_its_directory_and_a_new_one_does_not(start, tmp_path, training):
    left_behind(tmp_path / "results", "first", "t")
    assert start(training, SLURM_RESTART_COUNT="1").returncode == 0
    assert (tmp_path / "results" / "t-7" / "report.json").exists()
    assert start(training).returncode == 0
    assert (tmp_path / "results" / "t-7.earlier-1" / "report.json").exists()
    assert not (tmp_path / "results" / "t-7" / "report.json").exists()


def test_of_two_trainings_with_one_directory_the_second_does_not_start(start, tmp_path, training):
    (tmp_path / "c").mkdir()
    command = [sys.executable, "-m", "mlcluster_data", "hold", str(tmp_path / "c")]
    environment = {**os.environ, "SLURM_JOB_ID": "6", "SLURM_RESTART_COUNT": "0", "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as holder:
        assert holder.stdout.readline() == f"holds {tmp_path}/c\n".encode()
        done = start(training)
        assert done.returncode == 1
        assert f"ERROR: {tmp_path}/c is in use by process {holder.pid} of job 6 on " in done.stderr
        assert "did not start" in (tmp_path / "results" / "t-7" / "events.log").read_text()
        assert not (tmp_path / "srun").exists()
        holder.stdin.close()
    assert holder.returncode == 0
    assert start(training).returncode == 0
    assert (tmp_path / "srun").exists()
    assert list((tmp_path / "c").iterdir()) == []


def test_a_job_that_comes_back_is_not_kept_out_by_its_earlier_run(start, tmp_path, training):
    """Not even while the last process of that run is still there."""
    (tmp_path / "c").mkdir()
    command = [sys.executable, "-m", "mlcluster_data", "hold", str(tmp_path / "c")]
    environment = {**os.environ, "SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "0", "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as holder:
        holder.stdout.readline()
        assert start(training, SLURM_RESTART_COUNT="1").returncode == 0
        holder.stdin.close()
    assert "which process" in (tmp_path / "results" / "t-7" / "events.log").read_text()


@pytest.fixture
def taken():
    """A job number whose port something listens on, while nothing does on the next one that the job would try."""
    for number in range(NUMBER, NUMBER + 3000):
        try:
            with (
                socket.create_server(("127.0.0.1", 20000 + number + 3163)),
                socket.create_server(("127.0.0.1", 20000 + number)),
            ):
                pass
            server = socket.create_server(("127.0.0.1", 20000 + number))
        except OSError:
            continue
        with server:
            yield number
        return


def test_a_port_on_which_something_listens_is_passed_over(start, tmp_path, training, taken):
    assert start(training, SLURM_JOB_ID=str(taken)).returncode == 0
    assert f" MASTER_PORT={20000 + taken + 3163} " in (tmp_path / "srun").read_text()


def test_nothing_is_written_through_what_others_put_where_results_go(start, tmp_path, training):
    """The directory of results is open to all, and the numbers of jobs can be foretold."""
    results, victim = tmp_path / "results", tmp_path / "victim"
    for job in (SMOKE, training):
        at = results / f"{job['name']}-{NUMBER}"
        victim.write_text("precious")
        at.with_name(f"{at.name}.exit.part").symlink_to(victim)
        at.with_name(f"{at.name}.exit").symlink_to(tmp_path / "made")
        at.symlink_to(tmp_path / "nowhere")
        done = start(job)
        assert done.returncode == 0, done.stderr
        assert victim.read_text() == "precious" and not (tmp_path / "made").exists()
        assert not (tmp_path / "nowhere").exists() and at.is_dir() and not at.is_symlink()
        status = at.with_name(f"{at.name}.exit")
        assert status.read_text() == "0\n" and not status.is_symlink() and status.stat().st_mode & 0o777 == 0o644


def test_a_directory_where_the_exit_status_goes_is_put_aside(start, tmp_path):
    results = tmp_path / "results"
    (results / f"smoke-{NUMBER}.exit").mkdir()
    assert start(SMOKE).returncode == 0
    assert content(results) == {"smoke-7/report.json": "new", "smoke-7.exit": "0"}
    assert (results / "smoke-7.earlier-1.exit").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_a_training_that_starts_again_writes_nothing_into_results_of_another_user(start, tmp_path, training):
    place = tmp_path / "results" / f"t-{NUMBER}"
    place.mkdir()
    os.chown(place, 1001, 1001)
    done = start(training, SLURM_RESTART_COUNT="1")
    assert (done.returncode, list(place.iterdir())) == (2, [])
    assert f"t: {place} is not of root: let it be moved away" in done.stderr
