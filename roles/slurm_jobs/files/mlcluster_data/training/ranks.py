# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranks of one training: their process group, and their common decision at every step."""

from __future__ import annotations

import datetime
import os
import signal
import types
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from ..errors import DataError
from ..files import durable
from ..files.s3 import S3Error

T = t.TypeVar("T")
# torch.distributed.checkpoint's background thread works on the CPU, so a group for GPUs has a CPU backend as well.
BACKENDS = {"gloo": "gloo", "nccl": "cpu:gloo,cuda:nccl"}
# A rank without an answer for this time counts as dead; the end of its process is noticed at once.
TIMEOUT_MINUTES = 20


@contextmanager
def joined(backend: str) -> Iterator[torch.device]:
    """Join the other ranks by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or run alone if they are not set.

    Yield the device of this rank. Raises DataError if the backend does not fit this machine or a variable is missing.
    """
    device = torch.device("cpu")
    if backend == "nccl":
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if not torch.cuda.is_available() or local >= torch.cuda.device_count():
            raise DataError(
                f"nccl needs a GPU for each rank, and local rank {local} has none: use --distributed-backend gloo"
            )
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    limit = datetime.timedelta(minutes=TIMEOUT_MINUTES)
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if len(missing) == 4:
        dist.init_process_group(BACKENDS[backend], store=dist.HashStore(), rank=0, world_size=1, timeout=limit)
    elif missing:
        raise DataError(f"{', '.join(missing)} is not set: start this with torchrun, or by the training job")
    else:
        dist.init_process_group(BACKENDS[backend], timeout=limit)
    try:
        yield device
    finally:
        dist.destroy_process_group()


def together(work: Callable[[], T]) -> T:
    """Do the preparations of a rank; if they fail on one rank, all ranks end at once instead of waiting for it.

    Raises the error of the work on this rank, else DataError with that of another rank.
    """
    group = dist.new_group(backend="gloo")
    failure: Exception | None = None
    try:
        made = work()
    except (DataError, S3Error, OSError) as exc:
        failure = exc
    problems: list[str | None] = [None] * dist.get_world_size()
    dist.all_gather_object(problems, durable.reason(failure) if failure else "", group=group)
    if failure:
        raise failure
    if problem := next(filter(None, problems), None):
        raise DataError(f"another rank cannot begin, so this one does not either: {problem}")
    return made


class StopRequest:
    """A request to write a checkpoint and end: by USR1, by TERM, or by a file that appears."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._requested = False
        for number in (signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: types.FrameType | None) -> None:
        self._requested = True

    def __bool__(self) -> bool:
        if not self._requested and self.file is not None and self.file.exists():
            self._requested = True
        return self._requested


class Step(t.NamedTuple):
    """The next step over all ranks: ranks with a batch, tokens to learn, samples, a request to stop."""

    batches: int
    tokens: int
    samples: int
    stop: bool


class RankSums:
    """Sums over all ranks on the CPU, in a separate process group."""

    def __init__(self) -> None:
        self._group = dist.new_group(backend="gloo")

    def agree(self, tokens: int | None, samples: int, stop: bool) -> Step:
        """Return the next step from the tokens and samples of this rank's next batch; tokens is None without a batch.

        Raises DataError if only some ranks have a batch.
        """
        sums = torch.tensor([tokens is not None, tokens or 0, samples, stop], dtype=torch.int64)
        dist.all_reduce(sums, group=self._group)
        batches, all_tokens, all_samples, stops = sums.tolist()
        if batches not in (0, dist.get_world_size()):
            raise DataError(
                f"{batches} of {dist.get_world_size()} ranks have a batch left: give them the same shards and options"
            )
        return Step(batches, all_tokens, all_samples, bool(stops))

    def total(self, value: float) -> float:
        """Return the sum of a number over all ranks."""
        sum_of_ranks = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(sum_of_ranks, group=self._group)
        return float(sum_of_ranks)
