# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Batches for the ranks of a training: each sample once an epoch, the same number of steps on every rank.

    loader = make_loader(LoaderConfig("/fsx/shards", batch_size=8))
    for batch in loader:  # one epoch; the next loop is the next one
        ...
        checkpoint["loader"] = loader.state_dict()

A batch is a dict of tensors with B rows (the last batch of a worker may have fewer) of L places:

- ``input_ids`` int64 [B, L], filled up with the padding's own id;
- ``labels`` int64 [B, L], equal to input_ids where there is a token, the end of text included, and -100 elsewhere. They
  are not shifted: the model or the loss compares place i with labels[i + 1], as transformers' models do;
- ``attention_mask`` bool [B, L], true where there is a token;
- ``ids`` int64 [B], the number of each sample (shards.sample_name returns its name), -1 for a filler row.

A rank that has fewer batches than another gets batches at the end whose labels are all -100. So sum the loss and divide
by the number of labels of all ranks (at least 1), instead of taking the mean of each rank. Rank and world come from
RANK and WORLD_SIZE or torch.distributed, as webdataset finds them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils.data
import webdataset

from ..corpus import manifest
from ..corpus.manifest import Shard
from ..errors import CorruptError, DataError
from ..files import s3
from ..locks.directory import LockedError
from . import order as loader_order
from .order import Geometry
from .shard_reader import Cache, Reader, Source

STATE_SCHEMA = "mlcluster.loader_state/1"
IGNORED = -100  # torch.nn.functional.cross_entropy(ignore_index)
FILLER = -1
Batch = dict[str, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class LoaderConfig:
    """Settings of the loader.

    shards: folder or s3:// prefix with the shards and their manifest.json.
    batch_size: samples in a batch of one rank.
    workers: processes that read for a rank; 0: the rank reads itself. prefetch: batches that each prepares.
    seed, shuffle: the order, which differs in each epoch. buffer: samples that are shuffled together (1: none).
    uneven: "pad" (every sample is seen, ranks with fewer get batches without labels) or "drop" (the epoch ends with
    the rank that has the fewest).
    resampled: shards are drawn with replacement, ``epoch_batches`` batches a rank make an epoch.
    pad_multiple: L is the longest sample rounded up to a multiple of this, at most the length of the longest
        sample.
    cache, cache_bytes: folder on the local NVMe where shards are kept, and how much of it (0: nine tenths).
    on_corrupt: "raise" or "skip" (the shard is named on stderr and its samples are missing).
    """

    shards: str
    batch_size: int
    workers: int = 2
    prefetch: int = 4
    seed: int = 0
    shuffle: bool = True
    buffer: int = 10_000
    uneven: str = "pad"
    resampled: bool = False
    epoch_batches: int = 0
    pad_multiple: int = 8
    cache: str = ""
    cache_bytes: int = 0
    on_corrupt: str = "raise"

    def __post_init__(self) -> None:
        for name, minimum in (("batch_size", 1), ("workers", 0), ("prefetch", 1), ("buffer", 1), ("pad_multiple", 1)):
            if getattr(self, name) < minimum:
                raise DataError(f"the loader's {name} is {getattr(self, name)}: it must be {minimum} or more")
        for name, allowed in (("uneven", ("pad", "drop")), ("on_corrupt", ("raise", "skip"))):
            if getattr(self, name) not in allowed:
                raise DataError(f"the loader's {name} is {getattr(self, name)}: it must be {' or '.join(allowed)}")
        if self.resampled != (self.epoch_batches > 0):
            raise DataError("resampling needs epoch_batches, and only it: set both or neither")


@dataclasses.dataclass(frozen=True)
class Dataset:
    """The data set, from its manifest."""

    shards: tuple[Shard, ...]
    length: int
    pad: int
    eos: int
    vocabulary: int
    tokens: int
    key: str

    @property
    def counts(self) -> list[int]:
        """Return the number of samples of each shard."""
        return [shard.samples for shard in self.shards]


def open_dataset(where: str) -> Dataset:
    """Read the manifest of a folder or prefix of shards. Raises DataError, S3Error."""
    place = f"{where.rstrip('/')}/{manifest.DATASET}"
    if not s3.is_url(where) and not Path(place).exists():
        raise DataError(f"{place} is missing: the shards are not finished, or the folder is another one")
    raw = Source(where).read(manifest.DATASET)
    content = manifest.parse(raw, place, manifest.DATASET_SCHEMA)
    shards = tuple(shard for shard in manifest.entries(Shard, content, "shards", place) if shard.samples)
    integers: dict[str, Any] = {name: content.get(name) for name in ("length", "pad", "eos", "vocabulary", "tokens")}
    if invalid := [name for name, value in integers.items() if not isinstance(value, int) or value < 0]:
        raise DataError(f"{place} has no integer for {', '.join(invalid)}: make the shards again, or get it back")
    return Dataset(shards, **integers, key=hashlib.sha256(raw).hexdigest())


def collate(rows: list[tuple[int, np.ndarray]], dataset: Dataset, multiple: int) -> Batch:
    """Return samples as a batch; without samples, one row of padding."""
    longest = max((len(ids) for _number, ids in rows), default=1)
    width = min(-(-longest // multiple) * multiple, max(dataset.length, longest))
    tokens = np.full((max(1, len(rows)), width), dataset.pad, np.int64)
    lengths = np.array([len(ids) for _number, ids in rows] or [0])
    for row, (_number, ids) in zip(tokens, rows):
        row[: len(ids)] = ids
    input_ids = torch.from_numpy(tokens)
    is_token = torch.from_numpy(np.arange(width)[None, :] < lengths[:, None])
    labels = input_ids.masked_fill(~is_token, IGNORED)
    if not rows:
        # A row without any place to attend to would make softmax divide by zero.
        is_token[:, 0] = True
    numbers = torch.tensor([number for number, _ids in rows] or [FILLER], dtype=torch.int64)
    return {"input_ids": input_ids, "labels": labels, "attention_mask": is_token, "ids": numbers}


class _Epoch(torch.utils.data.IterableDataset[Any]):
    """The batches of one worker in an epoch from round ``first`` on: one per round, None after the last.

    An error is an item, so that it reaches the training as it was raised.
    """

    def __init__(self, config: LoaderConfig, dataset: Dataset, geometry: Geometry, epoch: int, first: int) -> None:
        self.config, self.dataset, self.geometry = config, dataset, geometry
        self.epoch, self.first = epoch, first
        self.rank = webdataset.utils.pytorch_worker_info()[0]

    def __iter__(self) -> Iterator[Batch | Exception | None]:
        try:
            yield from self._batches()
        except (DataError, s3.S3Error, LockedError, OSError) as exc:
            yield exc

    def _batches(self) -> Iterator[Batch | None]:
        worker = webdataset.utils.pytorch_worker_info()[2]
        batches = loader_order.batches_of(self.geometry, self.dataset.counts, self.epoch, self.rank)
        size = self.geometry.batch
        pipeline = webdataset.DataPipeline(
            lambda: self._urls(worker), *self._splitters(), lambda source: self._shuffled(source, worker)
        )
        stream = iter(pipeline)
        for turn in range(self.first, max(batches)):
            if turn >= batches[worker]:
                yield None
                continue
            rows = [row for row in itertools.islice(stream, size) if row is not None]
            yield collate(rows, self.dataset, self.config.pad_multiple)

    def _urls(self, worker: int) -> Iterator[int]:
        """Return the shards before they are divided; with resampling each worker draws its own."""
        if self.geometry.resampled:
            return loader_order.shards_of(self.geometry, len(self.dataset.shards), self.epoch, self.rank, worker)
        return iter(loader_order.shard_order(self.geometry, len(self.dataset.shards), self.epoch))

    def _splitters(self) -> tuple[Any, ...]:
        return () if self.geometry.resampled else (webdataset.split_by_node, webdataset.split_by_worker)

    def _shuffled(self, source: Iterator[int], worker: int) -> Iterator[tuple[int, np.ndarray] | None]:
        """Yield the samples from round ``first`` on, shuffled within each group."""
        start = self.first * self.geometry.batch
        group, skipped = divmod(start, self.geometry.group)
        rows = self._rows(source, group * self.geometry.group)
        while samples := list(itertools.islice(rows, self.geometry.group)):
            order = loader_order.group_order(self.geometry, self.epoch, self.rank, worker, group, len(samples))
            for place in order[skipped:]:
                yield samples[place]
            group, skipped = group + 1, 0

    def _rows(self, source: Iterator[int], start: int) -> Iterator[tuple[int, np.ndarray] | None]:
        """Yield the samples from place ``start`` on, None for a missing one; whole shards before it are not read."""
        cache = Cache(Path(self.config.cache), self.config.cache_bytes) if self.config.cache else None
        reader = Reader(Source(self.config.shards), cache)
        for number in source:
            shard = self.dataset.shards[number]
            if start >= shard.samples:
                start -= shard.samples
                continue
            yielded = start
            with self._skip_corrupt():
                for row in itertools.islice(reader.samples(shard), start, shard.samples):
                    yield row
                    yielded += 1
                if yielded < shard.samples:
                    raise CorruptError(f"{shard.name} holds {yielded} samples, and the manifest lists {shard.samples}")
            yield from itertools.repeat(None, shard.samples - yielded)
            start = 0

    @contextlib.contextmanager
    def _skip_corrupt(self) -> Iterator[None]:
        try:
            yield
        except CorruptError as exc:
            if self.config.on_corrupt == "raise":
                raise
            print(f"WARNING: {exc}; its samples are left out of this epoch", file=sys.stderr, flush=True)


class _Identity:
    """Pass the rank to its workers with every start method."""

    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world

    def __call__(self, _worker: int) -> None:
        os.environ.update(RANK=str(self.rank), WORLD_SIZE=str(self.world))
        torch.set_num_threads(1)


class Loader:
    """Batches of a rank: each iteration is an epoch, and ``state_dict`` is where the next run continues."""

    def __init__(self, config: LoaderConfig, dataset: Dataset) -> None:
        """Prepare the order. Raises DataError if there are too few shards."""
        self.config, self.dataset = config, dataset
        self.rank, world, _worker, _workers = webdataset.utils.pytorch_worker_info()
        self.geometry = Geometry(
            world=world,
            workers=max(1, config.workers),
            batch=config.batch_size,
            seed=config.seed,
            shuffle=config.shuffle,
            group=config.buffer if config.shuffle else 1,
            resampled=config.epoch_batches,
        )
        self.geometry.check(len(dataset.shards), dataset.tokens)
        self.epoch = self.batches = self.samples = 0

    def __len__(self) -> int:
        """Return the steps of every rank in the current epoch, including finished ones."""
        return loader_order.steps(self.geometry, self.dataset.counts, self.epoch, self.config.uneven)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the rest of the current epoch. Raises DataError, CorruptError, S3Error."""
        steps = len(self)
        batches = loader_order.batches_of(self.geometry, self.dataset.counts, self.epoch, self.rank)
        first, behind = loader_order.position(batches, self.batches)
        items: Any = (item for item in self._items(first) if item is not None)
        try:
            for item in itertools.islice(items, behind, max(behind, behind + steps - self.batches)):
                if isinstance(item, Exception):
                    raise item
                yield self._count(item)
        finally:
            # A stored error would keep this frame and its workers alive, which then end only after seconds.
            items.close()
            del items
        while self.batches < steps:
            yield self._count(collate([], self.dataset, self.config.pad_multiple))
        self.set_epoch(self.epoch + 1)

    def _items(self, first: int) -> Iterator[Batch | Exception | None]:
        epoch = _Epoch(self.config, self.dataset, self.geometry, self.epoch, first)
        if self.config.workers == 0:
            return iter(epoch)
        return iter(
            torch.utils.data.DataLoader(
                epoch,
                batch_size=None,
                num_workers=self.config.workers,
                prefetch_factor=self.config.prefetch,
                pin_memory=torch.cuda.is_available(),
                worker_init_fn=_Identity(self.rank, self.geometry.world),
            )
        )

    def _count(self, batch: Batch) -> Batch:
        # Counted before it is yielded: a state that is saved in the loop's body counts this batch as done.
        self.batches += 1
        self.samples += int((batch["ids"] != FILLER).sum())
        return batch

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch from its start."""
        self.epoch, self.batches, self.samples = epoch, 0, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the position as plain JSON: epoch, its yielded batches and samples, parameters of the order."""
        return {
            "schema": STATE_SCHEMA,
            "epoch": self.epoch,
            "batches": self.batches,
            "samples": self.samples,
            "dataset": self.dataset.key,
            "geometry": dataclasses.asdict(self.geometry),
        }

    def load_state_dict(self, state: dict[str, Any], on_change: str = "raise") -> None:
        """Continue where a state was saved.

        With other shards, ranks, workers or batches the order differs. Then raise DataError, or begin the state's epoch
        from its start if ``on_change`` is "restart".
        """
        if state.get("schema") != STATE_SCHEMA:
            raise DataError(f"the loader's state is of the schema {state.get('schema')}, not {STATE_SCHEMA}")
        current = self.state_dict()
        changed = ["dataset"] if state["dataset"] != current["dataset"] else []
        changed += [
            f"{name} {state['geometry'].get(name)} to {value}"
            for name, value in current["geometry"].items()
            if state["geometry"].get(name) != value
        ]
        self.set_epoch(state["epoch"])
        if not changed:
            self.batches, self.samples = state["batches"], state["samples"]
        elif on_change != "restart":
            raise DataError(
                f"the order of the data cannot continue, since something changed ({', '.join(changed)}): set it back, "
                f"or begin epoch {state['epoch']} again from its start"
            )


def make_loader(config: LoaderConfig) -> Loader:
    """Return the loader of this rank. Raises DataError, S3Error."""
    return Loader(config, open_dataset(config.shards))
