# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data path from documents to a trained model and its backup on a real Slurm, with a killed task and a requeue."""

from __future__ import annotations

import hashlib
import os

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import slurm_info

from tests.integration.slurm.data_path import S3, DataPath
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.spec import Spec

pytestmark = needs_slurm


@pytest.fixture(scope="module")
def cluster():
    """Yield a cluster of two nodes for this file, whose controller remembers ended jobs for minutes."""
    own = Cluster(f"pytest-data-{os.getpid()}")
    yield own.up(Spec(gpus=2), owned=True)
    own.down()


@pytest.fixture
def data_path(cluster, run_module, runtime, tmp_path):
    """Return ``data_path(nodes, epochs)``, which returns an empty data path."""
    return lambda nodes, epochs: DataPath(cluster, tmp_path, runtime, run_module(slurm_info, cluster), nodes, epochs)


@pytest.fixture
def s3():
    server = S3()
    yield server
    server.close()


def content(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in (".mlcluster-sums.json", ".backed-up")
    }


@pytest.mark.timeout(400)
def test_single_node_trains_stops_and_sees_each_sample_once(data_path, tmp_path):
    path = data_path(nodes=1, epochs=3)
    path.prepare(documents=40)
    path.collect(inputs=2)
    array = path.preprocess()
    results = tmp_path / "results"
    assert {file.name: file.read_text() for file in results.glob("pre-*.exit")} == {
        f"pre-{array}_{task}.exit": "0\n" for task in (0, 1)
    }
    logs = [(results / f"pre-{array}_{task}.out").read_text() for task in (0, 1)]
    assert ["task 0 of 2: 1 of 2 inputs, 1 processes" in logs[0], "task 1 of 2" in logs[1]] == [True, True], logs
    stopped_at = path.train()
    assert f"resumes from {tmp_path}/checkpoints/step-{stopped_at:08d}" in path.events
    path.check_samples()
    losses = path.losses()
    assert len(losses) == path.published()[-1] and sum(losses[-5:]) < sum(losses[:5])
    assert (tmp_path / "output" / "small.pt").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_path_on_two_nodes_with_killed_task_and_restore(data_path, tmp_path, s3):
    path = data_path(nodes=2, epochs=2)
    path.prepare(documents=120)
    path.collect(inputs=3)
    path.preprocess_with_a_killed_task(1)
    assert "fail" not in path.job("validate", str(tmp_path / "shards"))
    stopped_at = path.train()
    assert f"restart 1: starts on n1 n2, resumes from {tmp_path}/checkpoints/step-{stopped_at:08d}" in path.events
    path.check_samples()
    losses = path.losses()
    assert len(losses) == path.published()[-1] and sum(losses[-10:]) < 0.9 * sum(losses[:10])

    kept, restored = tmp_path / "checkpoints", tmp_path / "restored"
    place = "s3://bucket/checkpoints"
    assert "0 problems" in path.job("backup", "push", str(kept), place, environment=s3.environment)
    assert " 0 files sent" in " " + path.job("backup", "push", str(kept), place, environment=s3.environment)
    path.job("backup", "verify", place, "--deep", environment=s3.environment)
    path.job("backup", "restore", place, str(restored), environment=s3.environment)
    assert content(restored) == content(kept)
    assert path.job("checkpoint", "verify", str(restored), "--all").count(": good") == len(path.published())
