# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop of a training: steps, checkpoints, the request to stop, and resuming after any end.

A gradient counts every token of all ranks alike, whatever the size of their batches. If a rank is killed, the steps
since the last published checkpoint are lost, and they are made again in the same order.
"""

from __future__ import annotations

import dataclasses
import io
import json
import logging
import time
import typing as t
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

from ..checkpoints.save import Checkpointer, CheckpointError, Loaded, Outcome, pack, unpack
from ..errors import DataError
from ..files import durable
from ..files.journal import Journal
from . import model as models
from .ranks import RankSums, Step, StopRequest
from .step_times import StepTimes

LOGGER = logging.getLogger("mlcluster.data")
# Number of failed saves in a row, as on a full disk, after which the training ends.
FAILED_SAVES = 3


class Batches(t.Protocol):
    """A source of batches, such as loader.Loader.

    Each iteration yields the rest of an epoch, with the same number of steps on every rank, and then increments
    ``epoch``.
    """

    epoch: int

    def __iter__(self) -> t.Iterator[dict[str, torch.Tensor]]:
        """Yield dicts with input_ids, labels (int64 [batch, positions]) and ids (int64 [batch], below 0: no sample)."""

    def state_dict(self) -> dict[str, t.Any]:
        """Return the position as plain JSON."""

    def load_state_dict(self, state: dict[str, t.Any], on_change: str = "raise") -> None:
        """Continue at a position; with "restart", at the start of its epoch if the order has changed."""

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch."""


class Board(t.Protocol):
    """The part of TensorBoard's SummaryWriter that is used."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Record a value."""

    def close(self) -> None:
        """Write everything."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """The parameters of a training. checkpoint_steps and log_steps: intervals in steps.

    reshard: begin the epoch again if the order of the data cannot continue.
    """

    epochs: int
    learning_rate: float
    warmup_steps: int
    checkpoint_steps: int
    log_steps: int
    reshard: bool = False


@dataclasses.dataclass
class Position:
    """The progress of the training: steps and samples (of all ranks) so far."""

    step: int = 0
    samples: int = 0


class Trainer:
    """One training on this rank."""

    def __init__(
        self, plan: Plan, network: models.Model, batches: Batches, checkpointer: Checkpointer, stop: StopRequest,
        *, metrics: Journal | None = None, record: Journal | None = None, board: Board | None = None,
        step_file: Path | None = None,
    ) -> None:  # fmt: skip
        """Only rank 0 has ``metrics`` and ``board``; ``record`` stores the names of this rank's samples."""
        self.plan, self.network, self.batches = plan, network, batches
        self.checkpointer, self.stop = checkpointer, stop
        self.metrics, self.record, self.board = metrics, record, board
        self.device = next(network.parameters()).device
        self.ranks = DistributedDataParallel(network)
        self.optimizer = torch.optim.AdamW(network.parameters(), lr=plan.learning_rate)
        self.rank_sums = RankSums()
        self.position = Position()
        self.times = StepTimes(step_file, self.device)
        self._failed = 0
        self._saved: int | None = None
        self._learnt, self._since = 0, time.monotonic()
        self._loss = torch.zeros(())

    def resume(self) -> int:
        """Continue from the newest good checkpoint, or begin; return the step. Raises CheckpointError."""
        network, optimizer = get_state_dict(self.network, self.optimizer)
        state = {"model": network, "optimizer": optimizer}
        loaded = self.checkpointer.load(state)
        if loaded:
            set_state_dict(
                self.network,
                self.optimizer,
                model_state_dict=state["model"],
                optim_state_dict=state["optimizer"],
            )
            notes = loaded.manifest.notes
            self._compare(loaded.manifest.step, notes["model"])
            self.position = Position(loaded.manifest.step, int(notes["samples"]))
            self._saved = self.position.step
            self._restore_rank(loaded)
        else:
            # get_state_dict() created these, to have names to load.
            self.optimizer.state.clear()
        for journal in (self.metrics, self.record):
            if journal:
                journal.rewind(self.position.step)
        return self.position.step

    def _compare(self, step: int, made: dict[str, int]) -> None:
        """Raise CheckpointError for the checkpoint of another model, even if its weights have the same sizes."""
        now = dataclasses.asdict(self.network.config)
        other = ", ".join(f"{name} {made.get(name)} and now {now[name]}" for name in now if made.get(name) != now[name])
        if other:
            raise CheckpointError(
                f"the checkpoint of step {step} is of another model ({other}): use the options that it was made with, "
                "or another directory"
            )

    def _restore_rank(self, loaded: Loaded) -> None:
        if loaded.rank_state:
            on_change = "restart" if self.plan.reshard else "raise"
            self.batches.load_state_dict(unpack(loaded.rank_state["batches"]), on_change)
            torch.set_rng_state(loaded.rank_state["random"])
            if self.device.type == "cuda":
                torch.cuda.set_rng_state(loaded.rank_state["random_cuda"])
            return
        if not self.plan.reshard:
            raise CheckpointError(
                f"the checkpoint of step {loaded.manifest.step} was made by {loaded.manifest.world_size} ranks and "
                f"there are {self.checkpointer.world_size} now, so the order of the data cannot continue: start as "
                "many, or use --reshard to begin its epoch again"
            )
        self.batches.set_epoch(int(loaded.manifest.notes["epoch"]))

    def run(self) -> bool:
        """Train to the end or to a request to stop; return whether it is the end. The last step is published.

        Raises CheckpointError if that failed, or if too many saves failed in a row.
        """
        finished = self._epochs()
        if self._saved != self.position.step:
            self._save()
        self._handle_outcome(self.checkpointer.wait(), must=True)
        self.times.close()
        for log in (self.metrics, self.record):
            if log:
                log.close()
        self._close_board()
        return finished

    def _epochs(self) -> bool:
        while self.batches.epoch < self.plan.epochs:
            if self._epoch(self.batches.epoch):
                return False
        return True

    def _epoch(self, epoch: int) -> bool:
        """Train the rest of an epoch; return whether a request to stop ended it early."""
        self.times.begin()
        source = iter(self.batches)
        while True:
            batch = next(source, None)
            if batch is not None:
                self.times.batch_is_there()
            tokens = models.learnt(batch["labels"]) if batch else None
            samples = [number for number in batch["ids"].tolist() if number >= 0] if batch else []
            agreed = self.rank_sums.agree(tokens, len(samples), bool(self.stop))
            if batch is None:
                return False
            self._step(batch, agreed)
            if self.record and samples:
                self.record.write(self.position.step, epoch=epoch, ids=samples)
            if self.position.step % self.plan.log_steps == 0:
                self._log(epoch, agreed)
            if not agreed.stop and self.position.step % self.plan.checkpoint_steps == 0:
                self._save()
            self.times.step_is_over()
            if agreed.stop:
                return True

    def _step(self, batch: dict[str, torch.Tensor], agreed: Step) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        ids, labels = batch["input_ids"].to(self.device), batch["labels"].to(self.device)
        with self.times.forward():
            loss = models.loss_sum(self.ranks(ids), labels)
        self.optimizer.zero_grad(set_to_none=True)
        # The ranks' gradients are averaged, so this makes the mean over the tokens of all.
        (loss * (dist.get_world_size() / max(agreed.tokens, 1))).backward()
        self.optimizer.step()
        self.position.step += 1
        self.position.samples += agreed.samples
        self._learnt += agreed.tokens
        self._loss = loss.detach()

    def _rate(self) -> float:
        return self.plan.learning_rate * min(1.0, (self.position.step + 1) / max(self.plan.warmup_steps, 1))

    def _log(self, epoch: int, agreed: Step) -> None:
        loss = self.rank_sums.total(float(self._loss)) / max(agreed.tokens, 1)
        now = time.monotonic()
        speed = self._learnt / max(now - self._since, 1e-9)
        self._learnt, self._since = 0, now
        where = self.position
        values = {"loss": loss, "learning_rate": self.optimizer.param_groups[0]["lr"], "tokens_per_second": speed}
        if self.metrics:
            self.metrics.write(where.step, epoch=epoch, samples=where.samples, **values)
            LOGGER.info("step %d, epoch %d: loss %.4f, %.0f tokens/s", where.step, epoch, loss, speed)
        self._show(values)

    def _show(self, values: dict[str, float]) -> None:
        """Send the metrics to TensorBoard. If that fails, as on a full disk, the training continues without it."""
        if self.board:
            try:
                for name, value in values.items():
                    self.board.add_scalar(name, value, self.position.step)
            except OSError as exc:
                LOGGER.warning("TensorBoard's events cannot be written (%s): they end before step %d",
                               durable.reason(exc), self.position.step)  # fmt: skip
                self.board = None

    def _close_board(self) -> None:
        if self.board:
            try:
                self.board.close()
            except OSError as exc:
                LOGGER.warning("TensorBoard's last events cannot be written: %s", durable.reason(exc))

    # Checkpoints

    def _save(self) -> None:
        network, optimizer = get_state_dict(self.network, self.optimizer)
        own_state = {"batches": pack(self.batches.state_dict()), "random": torch.get_rng_state()}
        if self.device.type == "cuda":
            own_state["random_cuda"] = torch.cuda.get_rng_state()
        notes = {
            "epoch": self.batches.epoch,
            "samples": self.position.samples,
            "model": dataclasses.asdict(self.network.config),
        }
        before = self.checkpointer.save(
            self.position.step, {"model": network, "optimizer": optimizer}, own_state, notes
        )
        self._saved = self.position.step
        self._handle_outcome(before)

    def _handle_outcome(self, outcome: Outcome | None, must: bool = False) -> None:
        if outcome is None:
            return
        if self.metrics:
            self.metrics.write(outcome.step, checkpoint=dataclasses.asdict(outcome))
        if not outcome.error:
            self._failed = 0
            return
        self._failed += 1
        if must or self._failed >= FAILED_SAVES:
            raise CheckpointError(outcome.error)
        if dist.get_rank() == 0:
            LOGGER.warning("%s; the training continues and tries again at the next one", outcome.error)


def write_result(path: Path, network: models.Model) -> None:
    """Write the trained weights (a state dict, for torch.load) and beside it its sizes as JSON. Raises DataError.

    Files of other content, as of an earlier training, are kept under another name.
    """
    try:
        durable.make_directory(path.parent)
        content = io.BytesIO()
        torch.save(network.state_dict(), content)
        _write_kept(path, content.getvalue())
        _write_kept(path.with_suffix(".json"), json.dumps(dataclasses.asdict(network.config)).encode() + b"\n")
    except OSError as exc:
        raise DataError(f"the weights could not be written to {path}: {durable.reason(exc)}") from exc


def _write_kept(path: Path, content: bytes) -> None:
    with durable.Directory.open(path.parent) as folder:
        differs = folder.is_plain(path.name) and folder.read(path.name) != content
    if differs:
        LOGGER.warning("%s is of an earlier training: it is kept as %s", path, durable.keep_earlier(path))
    durable.write(path, content)
