# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verbs of jobs: job, job-node, job-exec, job-task and job-verdict."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import job_exec
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli

from tests.unit.fakes.fake_job_work import spec_of

NODES = ("n1", "n2")


def asked(**fields):
    return {"kind": "node_smoke", "name": "x", "tasks_per_node": 2, "gpus_per_node": 2, **fields}


def task(rank):
    return {"rank": rank, "local": rank % 2, "node": NODES[rank // 2], "host": NODES[rank // 2], "gpus": ["0", "1"]}


def call(capsys, tmp_path, *words):
    try:
        code = cli.main([str(word) for word in words], "0.1.0", str(tmp_path / "log"))
    except SystemExit as ended:
        code = ended.code
    return code, capsys.readouterr()


def test_verb_writes_and_prints_report(tmp_path, capsys):
    for rank in range(4):
        (tmp_path / f"task-{rank}.json").write_text(json.dumps(task(rank)))
    words = ["job-verdict", tmp_path, "--asked", json.dumps(asked()), "--nodes", "n1 n2"]
    code, printed = call(capsys, tmp_path, *words)
    assert (code, printed.out.splitlines()[-1].partition(": ")[2]) == (0, "4 pass")
    assert json.loads((tmp_path / "report.json").read_text())["schema"] == "mlcluster.report/1"


@pytest.mark.parametrize(
    ("given", "nodes"),
    [("{", "n1"), ('{"kind": "dance", "name": "x"}', "n1"), ('{"kind": "nccl", "name": "x"}', "n1"),
     (json.dumps(asked()), " ")],
)  # fmt: skip
def test_invalid_job_is_usage_error(tmp_path, capsys, given, nodes):
    assert call(capsys, tmp_path, "job-verdict", tmp_path, "--asked", given, "--nodes", nodes)[0] == 3
    assert not (tmp_path / "report.json").exists()


def test_task_records_its_place(tmp_path, capsys, monkeypatch):
    for name, value in {"SLURM_PROCID": "9", "SLURM_LOCALID": "1", "SLURMD_NODENAME": "n2"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert call(capsys, tmp_path, "job-task", tmp_path)[0] == 0
    found = json.loads((tmp_path / "task-9.json").read_text())
    assert (found["node"], found["local"], found["gpus"]) == ("n2", 1, ["0", "1"])
    assert call(capsys, tmp_path, "job-task", tmp_path / "missing")[0] == 3
    assert not (tmp_path / "missing").exists()
    monkeypatch.delenv("SLURM_PROCID")
    assert call(capsys, tmp_path, "job-task", tmp_path)[0] == 3


@pytest.fixture
def job(tmp_path):
    """The file of a job of one task, whose program is this Python's."""
    spec = dataclasses.replace(spec_of("node_smoke", tasks=1), dir=str(tmp_path), nodes=1)
    path = tmp_path / "x.json"
    path.write_text(spec.text())
    return str(path)


def test_dry_run_prints_steps(tmp_path, capsys, job):
    code, printed = call(capsys, tmp_path, "job", "--dry-run", "--nodes", "a b", job)
    assert (code, printed.err) == (0, "")
    assert printed.out.splitlines() == [
        "# x: Do the nodes start tasks in the right places, with the shared directory?",
        "# nodes: a b",
        f"# results: {tmp_path}/results/x-JOBID, exit status: {tmp_path}/results/x-JOBID.exit",
        (
            f"srun --ntasks=2 --ntasks-per-node=1 --mpi=none python3 {tmp_path}/mlcluster.pyz job-task "
            f"{tmp_path}/results/x-JOBID"
        ),
        f"# verdict: the judge of kind node_smoke, into {tmp_path}/results/x-JOBID/report.json",
    ]
    assert not (tmp_path / "results").exists()


def test_job_outside_slurm_or_invalid_is_usage_error(tmp_path, capsys, job, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    code, printed = call(capsys, tmp_path, "job", job)
    assert code == 3 and printed.err.startswith(
        "job: SLURM_JOB_ID are not set, so this is not a job of Slurm: submit the"
    )
    (tmp_path / "x.json").write_text("{}")
    code, printed = call(capsys, tmp_path, "job", "--dry-run", job)
    assert code == 3 and "has the schema None and not mlcluster.job/1: render it again" in printed.err
    assert call(capsys, tmp_path, "job", tmp_path / "absent.json")[0] == 3


def test_kind_without_node_part_is_usage_error(tmp_path, capsys, job):
    code, printed = call(capsys, tmp_path, "job-node", job, "0")
    assert code == 3 and printed.err == (
        "job-node: jobs of the kind node_smoke have no per-node part: start the job with its script\n"
    )


@pytest.mark.parametrize(("rw", "size"), [("write", "1M"), ("read", "1M"), ("randread", "4k")])
def test_node_part_measures_and_leaves_nothing(tmp_path, capsys, monkeypatch, rw, size):
    fio = tmp_path / "fio"
    fio.write_text('#!/bin/sh\necho "$*"; for word; do [ "$word" = --rw=randread ] && exit 5; done; exit 0\n')
    fio.chmod(0o755)
    spec = dataclasses.replace(spec_of("local_io"), dir=str(tmp_path), tools={"fio": str(fio)})
    (tmp_path / "x.json").write_text(spec.text())
    (tmp_path / "results" / "x-7").mkdir(parents=True)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURMD_NODENAME", "n2")
    before = os.umask(0o022)
    try:
        # Of the last one.
        assert call(capsys, tmp_path, "job-node", tmp_path / "x.json", "0", tmp_path / "place")[0] == 5
    finally:
        os.umask(before)
    printed = (tmp_path / "results" / "x-7" / f"fio-0-{rw}-n2.json").read_text()
    assert printed.endswith(f" --rw={rw} --bs={size}\n") and f" --directory={tmp_path}/place " in printed
    assert not (tmp_path / "place").exists() and not (tmp_path / "results" / "x-7.exit").exists()


def test_task_program_gets_task_variables(tmp_path, capsys, monkeypatch):
    started = []
    monkeypatch.setattr(job_exec, "replace_process", lambda argv, variables: started.append((argv, variables)) or 0)
    for name, value in {"SLURM_PROCID": "9", "SLURM_LOCALID": "1", "SLURM_NTASKS": "16", "SLURM_NODEID": "1",
                        "SLURM_JOB_ID": "7"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    (tmp_path / "job-7" / "tmp").mkdir(parents=True)
    options = ("--scratch", tmp_path, "--ranks", "--node-rank", "--spool")
    assert call(capsys, tmp_path, "job-exec", *options, "--", "torchrun", "--nnodes=2", "--", "-x")[0] == 0
    ((argv, variables),) = started
    assert argv == ["torchrun", "--node-rank=1", "--nnodes=2", "--", "-x"]
    assert (variables["RANK"], variables["MLCLUSTER_SPOOL"]) == ("9", f"{tmp_path}/job-7/tmp")
    monkeypatch.delenv("SLURM_NODEID")
    assert call(capsys, tmp_path, "job-exec", "--node-rank", "--", "torchrun")[0] == 3
