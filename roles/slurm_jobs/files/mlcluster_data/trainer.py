# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop of a training: steps, checkpoints, the request to stop, and going on after any end.

Each sample is learnt once an epoch: ranks whose data end before the others' take part with nothing until all are done,
and a gradient counts every token of all ranks alike.
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

from . import durable
from . import model as models
from .checkpoint import Checkpointer, CheckpointError, Loaded, Outcome, pack, unpack
from .errors import DataError
from .journal import Journal
from .ranks import Council, Step, StopRequest

LOGGER = logging.getLogger("mlcluster.data")
# So many saves may fail in a row, a full disk for example, before the training ends for it.
FAILED_SAVES = 3


class Batches(t.Protocol):
    """What gives the batches: iterated once an epoch, and able to go on in the middle of one."""

    def __iter__(self) -> t.Iterator[dict[str, t.Any]]:
        """Dicts with input_ids, labels (int64 [batch, positions]) and ids (the samples' names)."""

    def state_dict(self) -> dict[str, t.Any]:
        """Where it is, as plain JSON."""

    def load_state_dict(self, state: dict[str, t.Any]) -> None:
        """Go on from there."""


class Board(t.Protocol):
    """The part of TensorBoard's SummaryWriter that is used."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Record a value."""

    def close(self) -> None:
        """Write everything."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be done; checkpoint_steps and log_steps: so many steps apart; reshard: made by other ranks is fine."""

    epochs: int
    learning_rate: float
    warmup_steps: int
    checkpoint_steps: int
    log_steps: int
    reshard: bool = False


@dataclasses.dataclass
class Position:
    """Where the training is: the epoch that the data are in (from 0), steps and samples (of all ranks) so far."""

    epoch: int = 0
    step: int = 0
    samples: int = 0


class Trainer:
    """One training on this rank."""

    def __init__(
        self, plan: Plan, network: models.Model, batches: Batches, checkpointer: Checkpointer, stop: StopRequest,
        *, metrics: Journal | None = None, record: Journal | None = None, board: Board | None = None,
    ) -> None:  # fmt: skip
        """metrics and board are those of rank 0; record takes the names of this rank's samples."""
        self.plan, self.network, self.batches = plan, network, batches
        self.checkpointer, self.stop = checkpointer, stop
        self.metrics, self.record, self.board = metrics, record, board
        self.device = next(network.parameters()).device
        self.ranks = DistributedDataParallel(network)
        self.optimizer = torch.optim.AdamW(network.parameters(), lr=plan.learning_rate)
        self.council = Council()
        self.position = Position()
        self._failed = 0
        self._saved: int | None = None
        self._learnt, self._since = 0, time.monotonic()

    def resume(self) -> int:
        """Go on from the newest good checkpoint, or begin; gives the step. Raises CheckpointError."""
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
            self.position = Position(int(notes["epoch"]), loaded.manifest.step, int(notes["samples"]))
            self._saved = self.position.step
            self._restore_rank(loaded)
        else:
            # get_state_dict() filled it in, to have names to load.
            self.optimizer.state.clear()
        for journal in (self.metrics, self.record):
            if journal:
                journal.rewind(self.position.step)
        return self.position.step

    def _restore_rank(self, loaded: Loaded) -> None:
        if loaded.rank_state:
            self.batches.load_state_dict(unpack(loaded.rank_state["batches"]))
            torch.set_rng_state(loaded.rank_state["random"])
            if self.device.type == "cuda":
                torch.cuda.set_rng_state(loaded.rank_state["random_cuda"])
            return
        if not self.plan.reshard:
            raise CheckpointError(
                f"the checkpoint of step {loaded.manifest.step} was made by {loaded.manifest.world_size} ranks and "
                f"there are {self.checkpointer.world_size} now, so the order of the data cannot go on: start as many, "
                "or give --reshard to begin its epoch again"
            )

    def run(self) -> bool:
        """Train to the end, or to a request to stop; gives whether it is the end. The last step is published then.

        Raises CheckpointError when that could not be done, or saves failed again and again.
        """
        finished = self._epochs()
        if self._saved != self.position.step:
            self._save()
        self._heed(self.checkpointer.wait(), must=True)
        for log in (self.metrics, self.record, self.board):
            if log:
                log.close()
        return finished

    def _epochs(self) -> bool:
        while not self._epoch():
            if self.position.epoch + 1 >= self.plan.epochs:
                return True
            self.position.epoch += 1
        return False

    def _epoch(self) -> bool:
        """Learn what the epoch has left; gives whether it ended before that, as was asked for."""
        source = iter(self.batches)
        while True:
            batch = next(source, None)
            tokens = models.learnt(batch["labels"]) if batch else None
            agreed = self.council.agree(tokens, len(batch["ids"]) if batch else 0, bool(self.stop))
            if not agreed.batches:
                return agreed.stop and self.position.epoch + 1 < self.plan.epochs
            self._step(batch, agreed)
            if agreed.stop:
                return True
            if self.position.step % self.plan.checkpoint_steps == 0:
                self._save()

    def _step(self, batch: dict[str, t.Any] | None, agreed: Step) -> None:
        rate = self._rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if batch:
            ids, labels = batch["input_ids"].to(self.device), batch["labels"].to(self.device)
        else:
            ids = torch.zeros((1, 2), dtype=torch.int64, device=self.device)
            labels = torch.full_like(ids, models.IGNORED)
        loss = models.loss_sum(self.ranks(ids), labels)
        self.optimizer.zero_grad(set_to_none=True)
        # The ranks' gradients are averaged, so this makes the mean over the tokens of all.
        (loss * (dist.get_world_size() / max(agreed.tokens, 1))).backward()
        self.optimizer.step()
        self.position.step += 1
        self.position.samples += agreed.samples
        self._learnt += agreed.tokens
        if self.record and batch:
            self.record.write(self.position.step, epoch=self.position.epoch, ids=list(batch["ids"]))
        if self.position.step % self.plan.log_steps == 0:
            self._log(self.council.total(float(loss.detach())) / max(agreed.tokens, 1), rate)

    def _rate(self) -> float:
        return self.plan.learning_rate * min(1.0, (self.position.step + 1) / max(self.plan.warmup_steps, 1))

    def _log(self, loss: float, rate: float) -> None:
        now = time.monotonic()
        speed = self._learnt / max(now - self._since, 1e-9)
        self._learnt, self._since = 0, now
        where = self.position
        values = {"loss": loss, "learning_rate": rate, "tokens_per_second": speed}
        if self.metrics:
            self.metrics.write(where.step, epoch=where.epoch, samples=where.samples, **values)
            LOGGER.info("step %d, epoch %d: loss %.4f, %.0f tokens/s", where.step, where.epoch, loss, speed)
        if self.board:
            for name, value in values.items():
                self.board.add_scalar(name, value, where.step)

    # Checkpoints

    def _save(self) -> None:
        network, optimizer = get_state_dict(self.network, self.optimizer)
        mine = {"batches": pack(self.batches.state_dict()), "random": torch.get_rng_state()}
        if self.device.type == "cuda":
            mine["random_cuda"] = torch.cuda.get_rng_state()
        notes = {
            "epoch": self.position.epoch,
            "samples": self.position.samples,
            "model": dataclasses.asdict(self.network.config),
        }
        before = self.checkpointer.save(self.position.step, {"model": network, "optimizer": optimizer}, mine, notes)
        self._saved = self.position.step
        self._heed(before)

    def _heed(self, outcome: Outcome | None, must: bool = False) -> None:
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
            LOGGER.warning("%s; the training goes on and tries again at the next one", outcome.error)


def write_result(path: Path, network: models.Model) -> None:
    """Write the trained weights (a state dict, for torch.load) and beside it its sizes as JSON. Raises DataError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        torch.save(network.state_dict(), content)
        durable.write(path, content.getvalue())
        durable.write(path.with_suffix(".json"), json.dumps(dataclasses.asdict(network.config)).encode() + b"\n")
    except OSError as exc:
        raise DataError(f"the weights could not be written to {path}: {durable.reason(exc)}") from exc
