# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verbs job-task and job-verdict."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli

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


def test_the_verb_writes_and_prints_a_report(tmp_path, capsys):
    for rank in range(4):
        (tmp_path / f"task-{rank}.json").write_text(json.dumps(task(rank)))
    words = ["job-verdict", tmp_path, "--asked", json.dumps(asked()), "--nodes", "n1 n2"]
    code, said = call(capsys, tmp_path, *words)
    assert (code, said.out.splitlines()[-1].partition(": ")[2]) == (0, "4 pass")
    assert json.loads((tmp_path / "report.json").read_text())["schema"] == "mlcluster.report/1"


@pytest.mark.parametrize(
    ("given", "nodes"),
    [("{", "n1"), ('{"kind": "dance", "name": "x"}', "n1"), ('{"kind": "nccl", "name": "x"}', "n1"),
     (json.dumps(asked()), " ")],
)  # fmt: skip
def test_what_is_no_job_is_a_matter_of_usage(tmp_path, capsys, given, nodes):
    assert call(capsys, tmp_path, "job-verdict", tmp_path, "--asked", given, "--nodes", nodes)[0] == 3
    assert not (tmp_path / "report.json").exists()


def test_a_task_writes_where_it_is(tmp_path, capsys, monkeypatch):
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
