# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command train on real shards: its files, its resume, and its error messages."""

from __future__ import annotations

import argparse
import json
import os
import signal

import pytest
import torch
from mlcluster_data import __main__ as command
from mlcluster_data.checkpoints.directory import DirectoryStore
from mlcluster_data.errors import DataError
from mlcluster_data.files import journal
from mlcluster_data.loading import loader
from mlcluster_data.locks.directory import TRAIN_NAME
from mlcluster_data.training import model, train
from mlcluster_data.training.ranks import StopRequest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.data.support.fake_s3 import BUCKET, _server, server
from tests.data.support.forked import ranks
from tests.data.support.processes import has

__all__ = ["_server", "server"]


class Command:
    """The command on one rank with a test's folders; every run is a new process."""

    def __init__(self, root, shards) -> None:
        self.root, self.shards = root, shards

    def __call__(self, *options: str, before=None, **folders: str) -> int:
        given = {
            "data-dir": str(self.shards.path), "checkpoint-dir": str(self.root / "kept"),
            "local-dir": str(self.root / "local"), "log-dir": str(self.root / "log"), **folders,
        }  # fmt: skip
        small = ["--workers", "0", "--width", "16", "--layers", "1", "--heads", "2", "--batch-size", "32",
                 "--warmup-steps", "2", "--learning-rate", "0.02", "--log-freq", "1", "--checkpoint-freq", "15",
                 "--distributed-backend", "gloo", "--record-samples", "--model-name", "small"]  # fmt: skip

        def work(report):
            if before:
                before()
            return command.main(
                ["train", *[f"--{name}={value}" for name, value in given.items() if value], *small, *options]
            )

        return ranks(0, work, self.root)[0]

    @property
    def metrics(self):
        return journal.read(self.root / "log" / "small-metrics.jsonl")

    def samples(self, epoch: int) -> list[int]:
        lines = journal.read(self.root / "log" / "small-samples-00000.jsonl")
        return sorted(number for line in lines if line["epoch"] == epoch for number in line["ids"])


@pytest.fixture
def run(tmp_path, shards, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "MLCLUSTER_CHECKPOINTS"):
        monkeypatch.delenv(name, raising=False)
    return Command(tmp_path, shards)


def test_training_learns_and_writes_requested_files(run, tmp_path, shards):
    folders = {"output-dir": str(tmp_path / "output"), "tensorboard-dir": str(tmp_path / "board")}
    assert run("--epochs", "2", **folders) == 0
    losses = [line["loss"] for line in run.metrics if "loss" in line]
    assert losses[-1] < losses[0]
    assert len(run.samples(0)) == len(set(run.samples(0))) == shards.samples and run.samples(1) == run.samples(0)
    saves = [line["checkpoint"] for line in run.metrics if "checkpoint" in line]
    assert all(save["error"] == "" and save["blocked"] <= save["drained"] for save in saves)
    weights = torch.load(tmp_path / "output" / "small.pt", weights_only=True)
    sizes = json.loads((tmp_path / "output" / "small.json").read_text())
    model.Model(model.ModelConfig(**sizes)).load_state_dict(weights)
    board = EventAccumulator(str(tmp_path / "board")).Reload()
    assert [event.value for event in board.Scalars("loss")] == pytest.approx(losses)


def test_training_resumes_where_it_was_stopped(run, tmp_path, monkeypatch):
    request = tmp_path / "request"
    monkeypatch.setenv("MLCLUSTER_CHECKPOINT_REQUEST", str(request))
    request.touch()
    folders = {"tensorboard-dir": str(tmp_path / "board")}
    assert run(**folders) == train.ASKED_TO_STOP == 75
    assert DirectoryStore(tmp_path / "kept").steps() == [1]
    request.unlink()
    assert run(**folders) == 0
    assert len(run.samples(0)) == len(set(run.samples(0))) == run.shards.samples
    board = EventAccumulator(str(tmp_path / "board")).Reload()
    steps = [event.step for event in board.Scalars("loss")]
    assert steps == list(range(1, len(steps) + 1))


def test_end_of_run_reports_whether_it_trained():
    assert train.end_of_run("small", 0, 46, 1) == "small: finished at step 46, the end of --epochs 1"
    assert train.end_of_run("small", 46, 46, 1) == (
        "small: had finished before, and nothing was trained, at step 46, the end of --epochs 1"
    )


def test_checkpoints_in_s3(run, server):
    assert run(**{"checkpoint-dir": f"s3://{BUCKET}/small"}) == 0
    assert run("--epochs", "2", **{"checkpoint-dir": f"s3://{BUCKET}/small"}) == 0
    assert len(run.samples(1)) == run.shards.samples


def test_broken_order_is_rejected_unless_epoch_may_restart(run, tmp_path, monkeypatch, capfd):
    request = tmp_path / "request"
    monkeypatch.setenv("MLCLUSTER_CHECKPOINT_REQUEST", str(request))
    request.touch()
    assert run() == 75
    request.unlink()
    assert run("--batch-size", "24") == 1
    assert "the order of the data cannot continue" in capfd.readouterr().err
    assert run("--batch-size", "24", "--reshard") == 0
    # The batch before the stop was used twice, and no sample was skipped.
    assert len(set(run.samples(0))) == run.shards.samples == len(run.samples(0)) - 32


@pytest.mark.parametrize(
    ("folders", "options", "message"),
    [
        ({"data-dir": "/nonexistent"}, (), "/nonexistent/manifest.json is missing"),
        ({"checkpoint-dir": ""}, (), "MLCLUSTER_CHECKPOINTS is not set"),
        ({"log-dir": ""}, (), "--record-samples needs --log-dir"),
        ({}, ("--heads", "3"), "cannot be divided among 3 heads"),
        ({"log-dir": "/proc/none"}, (), "choose another --log-dir"),
    ],
)
def test_invalid_options_are_rejected(run, capfd, folders, options, message):
    assert run(*options, **folders) == 1
    assert message in capfd.readouterr().err


def test_second_training_of_same_name_is_rejected(run, tmp_path, capfd):
    """With separate checkpoint directories, each would cut off the other's lines of the journal at its resume."""
    with has(tmp_path / "log", f"{TRAIN_NAME}.small") as process:
        assert run("--epochs", "1") == 1
        errors = capfd.readouterr().err
        assert f"ERROR: {tmp_path}/log is in use by process {process.pid} " in errors
        assert "or use a directory of this run alone, or another --model-name" in errors
        assert [path.name for path in (tmp_path / "log").iterdir()] == [f"{TRAIN_NAME}.small"]
        assert run("--model-name", "other") == 0
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == [
        "other-metrics.jsonl", "other-samples-00000.jsonl",
    ]  # fmt: skip


def test_failed_start_of_rank_ends_other_ranks(run, tmp_path):
    """Without that, the others would wait at their first synchronization."""
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    args = parser.parse_args([f"--data-dir={run.shards.path}", f"--log-dir={tmp_path}/log", "--model-name=small"])

    def work(report):
        with pytest.raises(DataError) as caught:
            train.train(args, torch.device("cpu"), StopRequest(None))
        return str(caught.value)

    with has(tmp_path / "log", f"{TRAIN_NAME}.small"):
        first, second = ranks(2, work, tmp_path)
    assert first.startswith(f"{tmp_path}/log is in use by process ")
    assert second == f"another rank cannot begin, so this one does not either: {first}"


def test_checkpoint_of_another_model_is_rejected(run, capfd):
    """With another number of heads the weights have the same sizes, and would be loaded with another meaning."""
    assert run("--epochs", "1") == 0
    assert run("--epochs", "2", "--heads", "4") == 1
    assert "is of another model (heads 2 and now 4): use the options" in capfd.readouterr().err
    assert run("--epochs", "2") == 0


def kill_workers():
    """Kill every loader process when it begins to read; a process that has finished would not be missed."""

    def end(epoch):
        os.kill(os.getpid(), signal.SIGKILL)
        yield

    loader._Epoch.__iter__ = end


def test_killed_loader_process_is_one_sentence(run, capfd):
    assert run("--workers", "1", before=kill_workers) == 1
    assert "ERROR: a process of the loader was ended (DataLoader worker (pid" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--width", str(10**9)), "and this node has"),
        (("--layers", "1000000", "--width", "2"), "the model's layers are 1000000: choose at most 10000"),
    ],
)
def test_too_large_model_is_rejected_before_it_is_made(run, capfd, options, message):
    assert run(*options) == 1
    assert message in capfd.readouterr().err


def test_incomplete_rendezvous_variables_are_rejected(run, monkeypatch, capfd):
    monkeypatch.setenv("RANK", "0")
    assert run() == 1
    assert "WORLD_SIZE, MASTER_ADDR, MASTER_PORT is not set" in capfd.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_nccl_without_gpu_is_rejected(run, capfd):
    assert run("--distributed-backend", "nccl") == 1
    assert "nccl needs a GPU for each rank" in capfd.readouterr().err
