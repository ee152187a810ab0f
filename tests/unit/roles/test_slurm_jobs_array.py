# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script of an array, started by hand: it counts the inputs and submits itself, to a stand-in for sbatch."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.rig.slurm.scripts import ROLE, Role


@pytest.fixture
def start(tmp_path):
    """start(words, **options) starts the script of a preprocess job; largest is MaxArraySize as Slurm tells it."""

    def run(*words, largest="1001", **options):
        job = {
            "name": "p",
            "kind": "preprocess",
            "minutes": 60,
            "input": f"{tmp_path}/in",
            "output": "s3://bucket/x",
            "tokenizer": "t",
        }
        role = Role(jobs=[{**job, **options}], dir=str(tmp_path), data_python=sys.executable)
        ((path, text),) = role.scripts().items()
        (tmp_path / "p.sbatch").write_text(text)
        (tmp_path / "mlcluster_data").symlink_to(ROLE / "files" / "mlcluster_data")
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "sbatch").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (tmp_path / "bin" / "scontrol").write_text(
            f"#!/bin/sh\nprintf 'MaxArrayJobs = 5\\nMaxArraySize            = {largest}\\n'\n"
        )
        for name in ("sbatch", "scontrol"):
            (tmp_path / "bin" / name).chmod(0o755)
        given = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        return subprocess.run(
            ["bash", path, *words],
            env={**given, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


@pytest.mark.parametrize(
    ("options", "range_"),
    [
        ({}, "0-2%16"),
        ({"limit": 2}, "0-2%2"),
        ({"tasks": 2, "limit": 1}, "0-1%1"),
        ({"largest": "2"}, "0-1%16"),
        ({"largest": "1", "tasks": 3}, "0-0%16"),
        ({"largest": "2", "tasks": 1}, "0-0%16"),
        # Where arrays are switched off, or nobody answers, sbatch itself says so.
        ({"largest": "0"}, "0-2%16"),
        ({"largest": ""}, "0-2%16"),
    ],
)
def test_it_submits_itself_with_a_task_for_each_input(start, tmp_path, options, range_):
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


def test_without_inputs_it_says_so_and_submits_nothing(start, tmp_path):
    done = start()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"ERROR: {tmp_path}/in is no folder: give the one that collect wrote to\n"
