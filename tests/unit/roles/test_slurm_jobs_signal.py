# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script of a training that is signalled before its training runs; what it calls are stand-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
import time

import pytest

from tests.rig.slurm.scripts import Role

HEARS = 'until [ -e "{folder}/c/checkpoint-now" ]; do sleep 0.05; done\nexit 75'
# Slurm's srun ends its step for TERM, whatever the training does.
DEAF = "exec sleep 600"
# Seconds that are not over before the script is: who hears may take its time.
GRACE = 77


@pytest.fixture
def signalled(tmp_path):
    """signalled(program, training) runs the script, which that program signals when it is first called.

    Without a program nothing signals it but itself. Further variables come from Slurm; values are those of the job.
    """

    def run(program, training, environment=None, requeue="exit 0", **values):
        job = {"name": "t", "kind": "training", "minutes": 60, "command": ["x"], "checkpoints": f"{tmp_path}/c",
               "launcher": "srun", "monitor_seconds": 0, "notice_seconds": 0, "grace_seconds": GRACE,
               **values}  # fmt: skip
        (text,) = Role(jobs=[job], dir=str(tmp_path), python="python-stand-in").scripts().values()
        script, programs = tmp_path / "t.sbatch", tmp_path / "bin"
        script.write_text(text)
        (tmp_path / "results").mkdir()
        programs.mkdir()
        bodies = {
            "mkdir": 'exec /bin/mkdir "$@"',
            "python-stand-in": 'case "$*" in *" hold "*) echo holds it; exec cat >/dev/null ;; '
            f"*--not-backed-up) [ ! -e {tmp_path}/unsaved ] || exec cat {tmp_path}/unsaved ;; esac",
            "scontrol": f'echo "$*" >>{tmp_path}/scontrol; [ "$1" = show ] && echo n1; '
            f'[ "$1" = requeue ] || exit 0; {requeue}',
            # Not with the script's output, for that is at an end only once nobody has it any more.
            "sleep": f"case $1 in 5) exit 0 ;; {GRACE}) exec >/dev/null 2>&1\n"
            f"while kill -0 $(cat {tmp_path}/pid); do /bin/sleep 0.1; done\nexit 1 ;; esac\n"
            'exec /bin/sleep "$@"',
            "srun": training.format(folder=tmp_path),
            "aws": "exit 0",
        }
        once = f"[ -e {tmp_path}/sent ] || {{ : >{tmp_path}/sent; kill -USR1 $(cat {tmp_path}/pid); }}\n"
        for name, body in bodies.items():
            (programs / name).write_text(f"#!/bin/sh\n{once if name == program else ''}{body}\n")
            (programs / name).chmod(0o755)
        done = subprocess.run(
            ["bash", "-c", f"echo $$ >{tmp_path}/pid; exec bash {script}"],
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "SLURM_JOB_ID": "7",
                 "SLURM_JOB_NODELIST": "n1", "SLURM_NTASKS": "1", **(environment or {})},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (tmp_path / "sent").exists() == bool(program), done
        return done

    return run


@pytest.mark.parametrize("program", ["mkdir", "python-stand-in", "scontrol", "srun"])
def test_a_signal_that_comes_before_the_training_is_not_lost(signalled, tmp_path, program):
    done = signalled(program, HEARS)
    assert (done.returncode, (tmp_path / "results" / "t-7.exit").read_text()) == (75, "75\n"), done
    events = (tmp_path / "results" / "t-7" / "events.log").read_text()
    assert events.count("asks for a checkpoint") == 1 and "goes back into the queue" in events
    assert "requeue 7\n" in (tmp_path / "scontrol").read_text()
    assert "unbound" not in done.stderr


def test_a_controller_that_is_silent_for_a_while_costs_a_training_no_requeue(signalled, tmp_path):
    down = "slurm_requeue error: Unable to contact slurm controller (connect failure)"
    requeue = f'[ $(grep -c requeue {tmp_path}/scontrol) -ge 3 ] || {{ echo "{down}" >&2; exit 1; }}'
    done = signalled("srun", HEARS, requeue=requeue)
    assert done.returncode == 75, done
    assert (tmp_path / "scontrol").read_text().count("requeue 7\n") == 3
    events = (tmp_path / "results" / "t-7" / "events.log").read_text()
    assert events.count(f"is not in the queue: {down}\n") == 2 and events.count("ends with 75") == 1


def test_a_controller_that_refuses_a_requeue_is_asked_once(signalled, tmp_path):
    done = signalled("srun", HEARS, requeue='echo "Requested operation is presently disabled for job 7" >&2; exit 1')
    assert done.returncode == 75, done
    assert (tmp_path / "scontrol").read_text().count("requeue 7\n") == 1
    events = (tmp_path / "results" / "t-7" / "events.log").read_text()
    assert "is not in the queue: Requested operation is presently disabled for job 7\n" in events


def test_the_order_to_end_that_comes_with_a_requeue_leaves_the_status_of_the_training(signalled, tmp_path):
    done = signalled("srun", HEARS, requeue=f"kill -TERM $(cat {tmp_path}/pid); exit 0")
    assert (done.returncode, (tmp_path / "results" / "t-7.exit").read_text()) == (75, "75\n"), done


def test_a_training_that_does_not_hear_such_a_signal_is_ended(signalled, tmp_path):
    done = signalled("python-stand-in", DEAF, grace_seconds=1)
    assert done.returncode == 143, done
    assert "training ended with 143" in (tmp_path / "results" / "t-7" / "events.log").read_text()
    assert "requeue 7\n" in (tmp_path / "scontrol").read_text()


def test_an_end_that_is_past_is_ignored_and_said(signalled, tmp_path):
    done = signalled(None, "exit 3", ends_at="2001-02-03T04:05:06Z")
    assert done.returncode == 3, done
    events = (tmp_path / "results" / "t-7" / "events.log").read_text()
    assert "ignores ends_at, for 2001-02-03T04:05:06Z is past" in events
    assert "asks for a checkpoint" not in events and "queue" not in events


def soon(seconds):
    """So many seconds from now, as ends_at takes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def test_an_end_that_is_near_is_heeded_once_and_not_again_after_the_requeue(signalled, tmp_path):
    """Seconds enough for the slowest machine, and fewer than signal_seconds."""
    first = signalled(None, HEARS, ends_at=soon(500))
    log = tmp_path / "results" / "t-7" / "events.log"
    assert first.returncode == 75 and "goes back into the queue" in log.read_text(), first
    (tmp_path / "c" / "checkpoint-now").unlink(missing_ok=True)
    log.unlink()
    shutil.rmtree(tmp_path / "bin")
    shutil.rmtree(tmp_path / "results")
    again = signalled(None, "exit 3", {"SLURM_RESTART_COUNT": "1"}, ends_at=soon(500))
    assert again.returncode == 3, again
    assert "restart 1: goes on until the nodes go" in log.read_text()
    assert "asks for a checkpoint" not in log.read_text() and "queue" not in log.read_text()


@pytest.mark.parametrize(("on_node", "processes"), [(None, 8), ("4", 4), ("8", 8), ("16", 8), ("0", 1)])
def test_a_training_that_shares_its_nodes_starts_a_process_for_each_gpu_it_has(signalled, tmp_path, on_node, processes):
    told = f'echo "$*" >{tmp_path}/srun-words'
    given = {} if on_node is None else {"SLURM_GPUS_ON_NODE": on_node}
    done = signalled(None, told, given)
    assert done.returncode == 0, done
    assert f"--ntasks-per-node={processes} --ntasks={processes} " in (tmp_path / "srun-words").read_text()


def test_the_newest_checkpoint_goes_to_s3_first(signalled, tmp_path):
    """Slurm may end the script before all are there; `mlcluster checkpoints` names the newest first."""
    for step in (30, 20, 10):
        (tmp_path / f"step-{step}").mkdir()
    (tmp_path / "unsaved").write_text("".join(f"{tmp_path}/step-{step}\n" for step in (30, 20, 10)))
    signalled("", "exit 0", backup="s3://bucket/runs")
    events = (tmp_path / "results" / "t-7" / "events.log").read_text().splitlines()
    told = [line.rpartition("step-")[2] for line in events if "backed up" in line]
    assert told == ["30", "20", "10"], events
