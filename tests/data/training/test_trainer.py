# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The training loop on several ranks: each sample is used once an epoch, also with kills and stops in between."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from mlcluster_data.checkpoints.directory import DirectoryStore
from mlcluster_data.checkpoints.save import Checkpointer, CheckpointError
from mlcluster_data.errors import DataError
from mlcluster_data.files import journal
from mlcluster_data.training import trainer
from mlcluster_data.training.model import Model, ModelConfig, learnt, loss_sum
from mlcluster_data.training.ranks import StopRequest
from torch.utils.tensorboard import SummaryWriter

from tests.data.support.forked import RankDiedError, ranks, small_disk

CONFIG = ModelConfig(vocabulary=16, length=12, width=16, layers=1, heads=2)
STEPS = 6


def name(rank: int, number: int, row: int) -> int:
    return 1000 * rank + 10 * number + row


class Data:
    """Batches in memory: ``counts`` has their number per rank in an epoch; each epoch has another order."""

    def __init__(self, counts=(STEPS, STEPS), samples: int = 2) -> None:
        self.rank, self.count, self.samples = dist.get_rank(), counts[dist.get_rank()], samples
        self.epoch = self.done = 0

    def __iter__(self):
        while self.done < self.count:
            order = torch.randperm(self.count, generator=torch.Generator().manual_seed(self.epoch)).tolist()
            batch = self.batch(order[self.done])
            self.done += 1
            yield batch
        self.epoch, self.done = self.epoch + 1, 0

    def batch(self, number: int):
        rows = [[(number + row + at) % 4 + 1 for at in range(12)] for row in range(self.samples)]
        ids = torch.tensor(rows)
        labels = ids.clone()
        # The number of labels differs between ranks.
        labels[:, : 3 * self.rank] = -100
        names = torch.tensor([name(self.rank, number, row) for row in range(self.samples)])
        return {"input_ids": ids, "labels": labels, "attention_mask": torch.ones_like(ids), "ids": names}

    def state_dict(self):
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state, on_change="raise"):
        self.epoch, self.done = state["epoch"], state["done"]

    def set_epoch(self, epoch):
        self.epoch, self.done = epoch, 0


class Run:
    """A training below a folder, which a test can start repeatedly."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def go(self, count: int = 2, *, epochs: int = 2, during=None, counts=(STEPS, STEPS), every: int = 4, **plan):
        """Run it; return for each rank (whether training is finished, first step, sum of the weights)."""

        def work(report):
            torch.manual_seed(1)
            network = Model(CONFIG)
            checkpointer = Checkpointer(DirectoryStore(self.root / "kept"), self.root / "local")
            stop = StopRequest(self.root / "request")
            rank = dist.get_rank()
            training = trainer.Trainer(
                trainer.Plan(epochs, 0.03, 2, every, 1, **plan), network, Data(counts), checkpointer, stop,
                metrics=journal.Journal(self.root / "metrics.jsonl") if rank == 0 else None,
                record=journal.Journal(self.root / f"samples-{rank}.jsonl"),
            )  # fmt: skip
            try:
                began = training.resume()
                if during:
                    during(training)
                return training.run(), began, [float(value.detach().sum()) for value in network.parameters()]
            finally:
                checkpointer.close()

        return ranks(count, work, self.root)

    def samples(self, epoch: int) -> list[int]:
        lines = [line for rank in (0, 1) for line in journal.read(self.root / f"samples-{rank}.jsonl")]
        return sorted(number for line in lines if line["epoch"] == epoch for number in line["ids"])

    def losses(self) -> list[float]:
        return [line["loss"] for line in journal.read(self.root / "metrics.jsonl") if "loss" in line]


def all_samples(counts=(STEPS, STEPS)) -> list[int]:
    return sorted(name(rank, number, row) for rank in (0, 1) for number in range(counts[rank]) for row in (0, 1))


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    run = Run(tmp_path_factory.mktemp("undisturbed"))
    return run.go(), run.losses()


def at_step(number: int, action):
    """Return a hook that runs ``action`` at a step on every rank."""

    def during(training):
        step = training._step

        def stepped(batch, agreed):
            step(batch, agreed)
            if training.position.step == number:
                action(training)

        training._step = stepped

    return during


def test_training_lowers_loss(undisturbed):
    results, losses = undisturbed
    assert [result[:2] for result in results] == [(True, 0), (True, 0)]
    assert len(losses) == 2 * STEPS and losses[-1] < 0.6 * losses[0]
    assert results[0][2] == results[1][2]


def test_each_sample_is_used_once_per_epoch(run):
    run.go()
    assert [run.samples(epoch) for epoch in (0, 1)] == [all_samples()] * 2


def test_ranks_with_different_ends_are_reported(run):
    with pytest.raises(DataError, match="1 of 2 ranks have a batch left"):
        run.go(counts=(5, 2))


def test_stopped_training_resumes_to_same_result(run, undisturbed):
    asked = at_step(5, lambda training: (run.root / "request").touch())
    assert [result[:2] for result in run.go(during=asked)] == [(False, 0), (False, 0)]
    (run.root / "request").unlink()
    again = run.go()
    # All ranks notice the request of one rank at most one step later.
    assert again[0][0] and again[0][1] in (5, 6)
    assert again[0][2] == undisturbed[0][0][2]
    assert [run.samples(epoch) for epoch in (0, 1)] == [all_samples()] * 2
    assert run.losses() == undisturbed[1]


def test_signal_to_one_rank_stops_all(run):
    def kill_one(training):
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGUSR1)

    assert [result[0] for result in run.go(during=at_step(3, kill_one))] == [False, False]


@pytest.mark.parametrize("step", [2, 4, 7, 11])
def test_killed_training_loses_only_unpublished_steps(run, undisturbed, step):
    def kill(training):
        if training.position.step == step and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises((RankDiedError, RuntimeError)):
        run.go(during=at_step(step, kill), every=2)
    kept = DirectoryStore(run.root / "kept").steps()
    again = run.go(every=2)
    assert again[0][:2] == (True, max(kept, default=0))
    # All saves before the last started one are published.
    assert step - again[0][1] <= 4
    assert again[0][2] == undisturbed[0][0][2]
    assert [run.samples(epoch) for epoch in (0, 1)] == [all_samples()] * 2
    assert run.losses() == undisturbed[1]


def test_finished_training_can_be_extended(run):
    run.go(epochs=1)
    again = run.go(epochs=1)
    assert again[0][:2] == (True, STEPS) and len(run.losses()) == STEPS
    longer = run.go(epochs=2)
    assert longer[0][:2] == (True, STEPS) and len(run.losses()) == 2 * STEPS
    assert [run.samples(epoch) for epoch in (0, 1)] == [all_samples()] * 2


def test_another_rank_count_is_rejected_unless_requested(run):
    run.go(epochs=1, during=at_step(3, lambda training: (run.root / "request").touch()))
    (run.root / "request").unlink()
    with pytest.raises(CheckpointError, match="made by 2 ranks and there are 1 now"):
        run.go(1, epochs=1)
    assert run.go(1, epochs=1, reshard=True)[0][0]


def failing(times: int):
    """Make the store fail this many times."""

    def during(training):
        put, left = training.checkpointer.store.put, [times]

        def refused(step, token, source):
            if left[0] > 0:
                left[0] -= 1
                raise OSError(28, "No space left on device")
            return put(step, token, source)

        training.checkpointer.store.put = refused

    return during


def test_failed_save_is_reported_and_training_continues(run):
    assert run.go(during=failing(1), every=2)[0][0]
    saves = [line["checkpoint"] for line in journal.read(run.root / "metrics.jsonl") if "checkpoint" in line]
    assert "No space left on device" in saves[0]["error"] and all(not save["error"] for save in saves[1:])


def test_repeatedly_failed_saves_end_training(run):
    with pytest.raises(CheckpointError, match="No space left on device"):
        run.go(during=failing(100), every=2)
    # Each failure is reported at the start of the next save: the third at step 8. The last save would be at step 12.
    assert len(run.losses()) == 8


def test_last_save_must_succeed(run):
    with pytest.raises(CheckpointError, match="No space left on device"):
        run.go(during=failing(100), every=100)


def test_gradient_weighs_tokens_of_all_ranks_equally(tmp_path):
    def work(report):
        torch.manual_seed(1)
        network = Model(CONFIG)
        checkpointer = Checkpointer(DirectoryStore(tmp_path / "kept"), tmp_path / "local")
        training = trainer.Trainer(
            trainer.Plan(1, 0.1, 0, 100, 100), network, Data((1, 1)), checkpointer, StopRequest(None)
        )
        training.resume()
        training.run()
        checkpointer.close()
        return network.blocks[0].attention_out.weight.grad.tolist()

    found = ranks(2, work, tmp_path)

    def alone(report):
        torch.manual_seed(1)
        network = Model(CONFIG)
        batches = []
        for rank in (0, 1):
            data = Data.__new__(Data)
            data.rank, data.samples = rank, 2
            batches.append(data.batch(0))
        ids, labels = (torch.cat([batch[name] for batch in batches]) for name in ("input_ids", "labels"))
        (loss_sum(network(ids), labels) / learnt(labels)).backward()
        return network.blocks[0].attention_out.weight.grad.tolist()

    (expected,) = ranks(0, alone, tmp_path)
    assert found[0] == found[1]
    assert torch.allclose(torch.tensor(found[0]), torch.tensor(expected), atol=1e-6)


def test_journal_is_cut_back_to_checkpoint(tmp_path):
    log = journal.Journal(tmp_path / "deep" / "log.jsonl")
    for step in (1, 2, 3):
        log.write(step, value=step)
    log.close()
    with open(log.path, "a", encoding="utf-8") as file:
        file.write('{"step": 4, "val')
    log.rewind(2)
    log.write(3, value="again")
    assert [(line["step"], line["value"]) for line in journal.read(log.path)] == [(1, 1), (2, 2), (3, "again")]


def fill(disk: Path) -> None:
    """Fill the disk completely."""
    with open(disk / "ballast", "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_journal_on_full_disk_is_reported_and_continues(tmp_path):
    def work(report):
        messages = []
        handler = logging.Handler()
        handler.emit = lambda record: messages.append(record.getMessage())
        journal.LOGGER.addHandler(handler)
        small_disk(tmp_path / "disk", 16_384)
        log = journal.Journal(tmp_path / "disk" / "log.jsonl")
        # The rest of this line's page has space for half of the next line.
        log.write(1, value="x" * 2500)
        fill(tmp_path / "disk")
        for step in (2, 3):
            log.write(step, value="x" * 2500)
        (tmp_path / "disk" / "ballast").unlink()
        log.write(4, value="there")
        log.close()
        return messages, [line["step"] for line in journal.read(log.path)], log.path.read_bytes().count(b"\n")

    messages, steps, lines = ranks(0, work, tmp_path)[0]
    where = f"{tmp_path}/disk/log.jsonl"
    assert messages == [
        f"{where} cannot be written (No space left on device): lines from step 2 on are missing",
        f"{where} is written again from step 4 on, 2 lines are missing",
    ]
    assert (steps, lines) == ([1, 4], 2)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_full_log_disk_does_not_end_training(run):
    """An end would lose hours of training for a line of a log."""

    def on_a_full_disk(training):
        disk = run.root / "full"
        small_disk(disk, 16_384)
        training.metrics = journal.Journal(disk / "metrics.jsonl")
        training.board = SummaryWriter(str(disk / "board"))
        fill(disk)

    assert run.go(during=on_a_full_disk)[0][0]
    assert DirectoryStore(run.root / "kept").steps()[0] == 2 * STEPS


def test_weights_of_earlier_training_are_kept(tmp_path):
    networks = []
    for seed in (1, 2, 2):
        torch.manual_seed(seed)
        networks.append(Model(CONFIG))
        trainer.write_result(tmp_path / "out" / "small.pt", networks[-1])
    assert sorted(os.listdir(tmp_path / "out")) == ["small.json", "small.pt", "small.pt.earlier-1"]
    for name, network in (("small.pt.earlier-1", networks[0]), ("small.pt", networks[1])):
        weights = torch.load(tmp_path / "out" / name, weights_only=True)
        assert all(torch.equal(weights[key], value) for key, value in network.state_dict().items())
