# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The exit file of scripts that a signal ends, at whatever moment it comes; what they call are stand-ins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.rig.slurm.scripts import ROLE, Role

TRAP = "trap 'finish \"$?\"' EXIT\n"


@pytest.fixture
def run(tmp_path):
    """run(kind, srun, changed) runs a script of that kind in which srun is those lines of shell; gives its end and
    what is in its exit file, None where there is none. changed gets its text and gives another."""

    def start(kind, srun, changed=lambda text: text, **environment):
        training = {"command": ["x"], "checkpoints": f"{tmp_path}/c", "launcher": "srun", "monitor_seconds": 0,
                    "notice_seconds": 0, "minutes": 60}  # fmt: skip
        job = {"name": "t", "kind": kind, **(training if kind == "training" else {})}
        (text,) = Role(jobs=[job], dir=str(tmp_path), python="python-stand-in").scripts().values()
        script, programs = tmp_path / "t.sbatch", tmp_path / "bin"
        script.write_text(changed(text))
        (tmp_path / "results").mkdir()
        programs.mkdir()
        bodies = {
            "python-stand-in": 'case "$*" in *" hold "*) echo holds it; exec cat >/dev/null ;; esac',
            "scontrol": "echo n1",
            "srun": f"script=$(cat {tmp_path}/pid)\n{srun}",
        }
        for name, body in bodies.items():
            (programs / name).write_text(f"#!/bin/sh\n{body}\n")
            (programs / name).chmod(0o755)
        kept = tmp_path / "results" / "t-7.exit"
        if "SLURM_RESTART_COUNT" in environment:
            kept.write_text("0\n")
        done = subprocess.run(
            ["bash", "-c", f"echo $$ >{tmp_path}/pid; exec bash {script}"],
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "SLURM_JOB_ID": "7",
                 "SLURM_JOB_NODELIST": "n1", "SLURM_NTASKS": "1", **environment},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done, kept.read_text() if kept.exists() else None

    return start


ENDS = ("HUP", "QUIT", "USR2", "ALRM", "TERM", "XCPU")


@pytest.mark.parametrize(
    ("kind", "name"),
    # USR1 asks a training for a checkpoint.
    [*(("training", name) for name in ENDS), *(("node_smoke", name) for name in (*ENDS, "USR1"))],
)
def test_a_signal_that_ends_a_script_is_its_status(run, kind, name):
    """Not that of the last command, which is 0."""
    done, kept = run(kind, f"kill -{name} $script")
    status = 128 + signal.Signals[f"SIG{name}"]
    assert (done.returncode, kept) == (status, f"{status}\n"), done


@pytest.mark.parametrize("kind", ["node_smoke", "training"])
def test_an_order_to_end_that_comes_as_the_script_ends_costs_no_status(run, kind):
    def told_then(text):
        assert text.count(TRAP) == 1
        return text.replace(TRAP, "trap 'kill -TERM $$; finish \"$?\"' EXIT\n")

    done, kept = run(kind, "exit 0", told_then)
    assert (done.returncode, kept) == ((0, "0\n") if kind == "training" else (143, "143\n")), done


@pytest.mark.parametrize("kind", ["node_smoke", "training"])
def test_a_process_that_still_has_the_traps_of_the_script_keeps_no_status(run, kind):
    """As one that bash has just forked: the order to end goes to all processes of a job."""

    def forks(text):
        at = text.index("# What there is already") if kind == "node_smoke" else text.index("\nrequest_checkpoint()")
        return f"{text[:at]}(finish 0)\nkill -KILL $$\n{text[at:]}"

    done, kept = run(kind, "exit 0", forks)
    assert (done.returncode, kept) == (-signal.SIGKILL, None), done


def test_a_start_that_is_killed_does_not_have_the_status_of_an_earlier_one(run):
    done, kept = run("training", "kill -KILL $script", SLURM_RESTART_COUNT="1")
    assert (done.returncode, kept) == (-signal.SIGKILL, None), done


def test_a_holder_that_is_ended_as_it_gets_the_directory_leaves_no_lock(tmp_path):
    program = f"""
import os, signal
from mlcluster_data import __main__
from mlcluster_data.locks import directory
directory.Lock._sweep = lambda self, here: os.kill(os.getpid(), signal.SIGTERM)
__main__.main(["hold", {str(tmp_path)!r}])
"""
    environment = {**os.environ, "PYTHONPATH": str(ROLE / "files")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    assert (done.returncode, list(tmp_path.iterdir())) == (143, [])
