# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script of an array, started by hand: it counts the inputs and submits itself, to a stand-in for sbatch."""

from __future__ import annotations

import sys

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds import preprocess

from ..conftest import Batch

BY_HAND = {"SLURM_JOB_ID": "", "SLURM_JOB_NODELIST": ""}


@pytest.fixture
def start(tmp_path, runtime):
    """start(words, **options) starts the script of a preprocess job; largest is Slurm's MaxArraySize."""
    batch = Batch(tmp_path, runtime)

    def run(*words, largest="1001", slurm=None, **options):
        job = {"name": "p", "kind": "preprocess", "minutes": 60, "input": f"{tmp_path}/in", "output": "s3://bucket/x",
               "tokenizer": "t", **options}  # fmt: skip
        batch.program("sbatch", 'printf "%s\\n" "$@"')
        batch.program("scontrol", f"printf 'MaxArrayJobs = 5\\nMaxArraySize            = {largest}\\n'")
        return batch.start(job, settings={"data_python": sys.executable}, words=words, **(slurm or BY_HAND))

    return run


@pytest.mark.parametrize(
    ("options", "range_"),
    [({}, "0-2%16"), ({"limit": 2}, "0-2%2"), ({"tasks": 2, "limit": 1}, "0-1%1"), ({"largest": "2"}, "0-1%16")],
)
def test_script_submits_itself_with_task_for_each_input(start, tmp_path, options, range_):
    (tmp_path / "in").mkdir()
    for name in ("a.txt", "b.txt", "c.jsonl"):
        (tmp_path / "in" / name).write_text("x")
    done = start("--partition=cpu", "--comment=two words", **options)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"--array={range_}",
        "--partition=cpu",
        "--comment=two words",
        f"{tmp_path}/p.sbatch",
    ]


@pytest.mark.parametrize(
    ("wanted", "largest", "most"),
    [
        (0, "1001", 1001),
        (2, "1001", 2),
        (3, "1", 1),
        (1, "2", 1),
        # If arrays are switched off, or the controller is silent, sbatch itself reports it.
        (0, "0", 0),
        (5, "", 5),
        (0, "12345678", 0),
    ],
)
def test_array_has_at_most_as_many_tasks_as_slurm_allows(wanted, largest, most):
    assert preprocess.max_tasks(wanted, f"MaxArrayJobs = 5\nMaxArraySize            = {largest}\n") == most


def test_missing_inputs_are_reported_and_nothing_is_submitted(start, tmp_path):
    done = start()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"ERROR: {tmp_path}/in is not a folder: use the one that collect wrote to\n"


def test_task_has_files_of_its_own_and_status_of_its_step(start, tmp_path):
    (tmp_path / "in").mkdir()
    slurm = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "3", "SLURM_CPUS_PER_TASK": "2"}
    done = start(slurm=slurm)
    # The data programs, which this Python has not all modules for, or no input.
    assert done.returncode not in (0, 143), done
    assert (tmp_path / "results" / "p-5_3.exit").read_text() == f"{done.returncode}\n"
    (step,) = (tmp_path / "srun").read_text().splitlines()
    assert step.startswith("--ntasks=1 --cpus-per-task=2 --mpi=none env PYTHONUNBUFFERED=1 ")
    assert " job-exec --spool -- " in step and f" preprocess --input={tmp_path}/in --output=s3://bucket/x" in step
