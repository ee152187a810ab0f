# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data programs with all packages of their lock, which docs/data.md installs on nodes and the training image has.

The environment is that of the nox session data_image. The environment of the other tests reads the results.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from importlib.metadata import distributions
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest
from mlcluster_data.checkpoints.command import store_at
from mlcluster_data.files import journal
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.build import environments
from tests.data.support.fake_s3 import BUCKET, _server, server
from tests.data.support.processes import FILES

pytestmark = pytest.mark.image
__all__ = ["_server", "server"]

PROGRAMS = environments.CHECKOUT / ".venv-image" / "bin"


@pytest.fixture(scope="module")
def image():
    """Return ``image(program, argument, …)``: it runs a program of the environment and returns its output."""
    if not (PROGRAMS.parent / environments.STAMP).is_file():
        pytest.fail("there is no .venv-image: run .build/nox/bin/nox --session data_image, which makes it")
    settings = {"HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}

    def run(program: str, *words: object) -> str:
        own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "MLCLUSTER_"))}
        done = subprocess.run(
            [PROGRAMS / program, *map(str, words)],
            cwd=FILES,
            env={**own, **settings},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    return run


@pytest.fixture(scope="module")
def prepared(image, tmp_path_factory, texts, tokenizer):
    """Return the folder of shards that the environment makes of Parquet files, and the number of samples."""
    root = tmp_path_factory.mktemp("image")
    (root / "parquet").mkdir()
    pyarrow.parquet.write_table(pyarrow.table({"text": texts}), root / "parquet" / "train-00000-of-00001.parquet")
    data = ("python", "-m", "mlcluster_data")
    image(*data, "collect", f"hf:{root / 'parquet'}", "--inputs", 3, "--output", root / "inputs")
    image(*data, "validate", root / "inputs")
    small = ("--length", 32, "--processes", 1, "--shard-tokens", 800)
    image(
        *data, "preprocess", "--input", root / "inputs", "--output", root / "shards", "--tokenizer", tokenizer, *small
    )
    image(*data, "validate", root / "shards")
    manifest = json.loads((root / "shards" / "manifest.json").read_text(encoding="utf-8"))
    return SimpleNamespace(path=root / "shards", samples=manifest["samples"])


def test_environment_is_lock_of_image(image):
    folder = image("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    found = {re.sub(r"[-_.]+", "-", entry.name).lower(): entry.version for entry in distributions(path=[folder])}
    wanted = dict(re.findall(r"(?m)^([a-z0-9._-]+)==(\S+)", environments.TRAINING_IMAGE.read_text(encoding="utf-8")))
    assert len(wanted) > 50
    assert {name: found.get(name) for name in wanted} == wanted


def test_two_ranks_train_with_tensorboard_and_checkpoints_in_s3(image, prepared, server, tmp_path):
    place = f"s3://{BUCKET}/image"
    launch = ("torchrun", "--standalone", "--nproc-per-node=2", "-m", "mlcluster_data", "train")
    folders = ("--data-dir", prepared.path, "--checkpoint-dir", place, "--local-dir", tmp_path / "local",
               "--log-dir", tmp_path / "log", "--tensorboard-dir", tmp_path / "board",
               "--output-dir", tmp_path / "output")  # fmt: skip
    small = ("--workers", 0, "--width", 16, "--layers", 1, "--heads", 2, "--batch-size", 16, "--warmup-steps", 2,
             "--learning-rate", 0.02, "--log-freq", 1, "--checkpoint-freq", 5, "--record-samples",
             "--distributed-backend", "gloo", "--model-name", "small")  # fmt: skip
    image(*launch, *folders, *small, "--epochs", 1)
    (first, *_older) = store_at(place).steps()
    # This run resumes from another process' checkpoint, which is in S3 only.
    image(*launch, *folders, *small, "--epochs", 2)
    (last, *_older) = store_at(place).steps()
    assert last > first
    rows = [row for rank in (0, 1) for row in journal.read(tmp_path / "log" / f"small-samples-0000{rank}.jsonl")]
    for epoch in (0, 1):
        seen = [number for row in rows if row["epoch"] == epoch for number in row["ids"]]
        assert len(seen) == len(set(seen)) == prepared.samples
    metrics = [row for row in journal.read(tmp_path / "log" / "small-metrics.jsonl") if "loss" in row]
    assert metrics[-1]["loss"] < metrics[0]["loss"]
    events = EventAccumulator(str(tmp_path / "board")).Reload().Scalars("loss")
    assert [event.step for event in events] == list(range(1, last + 1))
    assert [event.value for event in events] == pytest.approx([row["loss"] for row in metrics])
    assert (tmp_path / "output" / "small.pt").stat().st_size
