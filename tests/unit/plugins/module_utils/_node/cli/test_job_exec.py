# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""job-exec by itself and as a verb of the command; what the task gets is tested with jobs/execute.py."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import job_exec
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime

WORDS = ["job-exec", "--ranks", "--without", "A=1", "--", "train", "--epochs=3"]


@pytest.fixture
def task(monkeypatch):
    """Record the command and the variables of the program that replaces the process."""
    became = []
    for name, value in (("SLURM_PROCID", "3"), ("SLURM_LOCALID", "1"), ("SLURM_NTASKS", "8"), ("A", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(job_exec, "replace_process", lambda argv, variables: became.append((argv, variables)) or 127)
    return became


@pytest.mark.parametrize("whole", [False, True])
def test_program_gets_arguments_and_variables(task, tmp_path, whole):
    code = cli.main(WORDS, log_dir=str(tmp_path)) if whole else job_exec.main(WORDS)
    ((argv, variables),) = task
    assert (code, argv) == (127, ["train", "--epochs=3"])
    assert (variables["RANK"], variables["LOCAL_RANK"], variables["WORLD_SIZE"]) == ("3", "1", "8")
    assert "A" not in variables


def test_job_exec_outside_step_is_usage_error(task, monkeypatch, capsys):
    monkeypatch.delenv("SLURM_PROCID")
    assert job_exec.main(WORDS) == 3
    assert (
        capsys.readouterr().err
        == "job-exec: SLURM_PROCID is not set, so this is not a task of Slurm: start it with srun\n"
    )
    with pytest.raises(SystemExit) as ended:
        job_exec.main(["job-exec", "--rank"])
    assert ended.value.code == 3 and task == []


@pytest.mark.parametrize(("task_number", "volume", "made"), [
    ("0", True, False), ("0", True, True), ("1", True, False), ("0", False, False),
])  # fmt: skip
def test_job_without_its_directory_is_warned_once(task, monkeypatch, capsys, tmp_path, task_number, volume, made):
    """The program starts nevertheless."""
    for name, value in (("SLURM_JOB_ID", "7"), ("SLURM_LOCALID", task_number), ("SLURMD_NODENAME", "n1")):
        monkeypatch.setenv(name, value)
    base = tmp_path / "volume" / "jobs"
    if volume:
        base.mkdir(parents=True)
    if made:
        (base / "job-7" / "tmp").mkdir(parents=True)
    assert job_exec.main(["job-exec", "--scratch", str(base), "--", "train"]) == 127
    warned = capsys.readouterr().err
    assert bool(warned) is (task_number == "0" and volume and not made)
    assert not warned or warned.startswith(f"job-exec: node n1 has no directory for job 7 in {base}, so TMPDIR is not")
    assert task[0][1].get("TMPDIR") == (str(base / "job-7" / "tmp") if made else os.environ.get("TMPDIR"))


def test_job_exec_imports_no_other_verb(tmp_path):
    """In a container Python compiles what is loaded from the archive, in each rank."""
    runtime = tmp_path / "mlcluster.pyz"
    runtime.write_bytes(_runtime.archive(_runtime.collection_root(), "0"))
    started = [sys.executable, "-I", "-X", "importtime", str(runtime), "job-exec", "--", "true"]
    done = subprocess.run(started, capture_output=True, text=True, check=True)
    names = [line.rpartition("|")[2].strip().split(".") for line in done.stderr.splitlines()]
    rooms = {name[2] for name in names if name[:2] == ["mlcluster", "_node"] and len(name) > 2}
    assert "jobs" in rooms
    assert rooms & {"storage", "gds", "containers", "lustre", "health", "nccl", "node"} == set()
