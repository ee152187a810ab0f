# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which each worker of each rank reads samples in an epoch, computed from the manifest alone.

Every process computes the same plan. So ranks need no communication, every rank makes the same number of steps, and a
run continues in the middle of an epoch without reading earlier samples. Samples have places: the first sample of a
worker's first shard has place 0. Places are shuffled in groups; a batch is a range of shuffled places.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ..errors import DataError


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Parameters of the order besides the shards; runs with equal parameters can resume from each other's state.

    ``world``: number of ranks. ``workers``: processes of each rank (1 also if the rank itself reads). ``batch``:
    samples of a batch. ``group``: places that are shuffled together (1: no shuffle). ``resampled``: batches of a rank
    in an epoch (0: no resampling).
    """

    world: int
    workers: int
    batch: int
    seed: int
    shuffle: bool
    group: int
    resampled: int

    def check(self, shards: int, tokens: int) -> None:
        """Raise DataError with the numbers if a worker would get no shard."""
        readers = self.world * self.workers
        if shards == 0:
            raise DataError("there is no shard: preprocess gave nothing to read")
        if self.resampled or shards >= readers:
            return
        advice = f"at most {shards // self.world} workers" if shards >= self.world else f"at most {shards} ranks"
        raise DataError(
            f"{shards} shards cannot feed {self.world} ranks x {self.workers} workers = {readers} readers: use "
            f"{advice}, make shards of at most {max(1, tokens // (2 * readers))} tokens (--shard-tokens), or read with "
            "resampling"
        )


def _rng(*words: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def shard_order(geometry: Geometry, shards: int, epoch: int) -> list[int]:
    """Return the order of all shards in an epoch, the same for all ranks, before they are divided."""
    if not geometry.shuffle:
        return list(range(shards))
    return [int(one) for one in _rng(geometry.seed, epoch).permutation(shards)]


def shards_of(geometry: Geometry, shards: int, epoch: int, rank: int, worker: int) -> Iterator[int]:
    """Return the shards that a worker reads, in order; endless with resampling.

    They are divided like webdataset's split_by_node and split_by_worker do: every world-th shard from the rank-th on,
    and of those every workers-th from the worker-th on.
    """
    if geometry.resampled:
        rng = _rng(geometry.seed, epoch, rank, worker)
        return (int(rng.integers(shards)) for _draw in itertools.count())
    order = shard_order(geometry, shards, epoch)
    return iter(order[rank :: geometry.world][worker :: geometry.workers])


def batches_of(geometry: Geometry, counts: Sequence[int], epoch: int, rank: int) -> list[int]:
    """Return how many batches each worker of a rank makes in an epoch; ``counts`` are the samples of each shard."""
    if geometry.resampled:
        each, more = divmod(geometry.resampled, geometry.workers)
        return [each + (worker < more) for worker in range(geometry.workers)]
    order = np.array(counts)[shard_order(geometry, len(counts), epoch)][rank :: geometry.world]
    samples = [int(order[worker :: geometry.workers].sum()) for worker in range(geometry.workers)]
    return [-(-one // geometry.batch) for one in samples]


def steps(geometry: Geometry, counts: Sequence[int], epoch: int, uneven: str) -> int:
    """Return the steps of every rank in an epoch: the most batches of a rank (``uneven`` pad), or the fewest (drop)."""
    totals = [sum(batches_of(geometry, counts, epoch, rank)) for rank in range(geometry.world)]
    return max(totals) if uneven == "pad" else min(totals)


def position(batches: Sequence[int], delivered: int) -> tuple[int, int]:
    """Return where to continue after ``delivered`` batches: (round, how many of that round are delivered).

    Workers take turns with one batch in each round; a worker without more batches is skipped.
    """
    done = 0
    for turn in range(max(batches, default=0)):
        active = sum(turn < one for one in batches)
        if done + active > delivered:
            return turn, delivered - done
        done += active
    return max(batches, default=0), delivered - done


def group_order(geometry: Geometry, epoch: int, rank: int, worker: int, group: int, size: int) -> list[int]:
    """Return the shuffled places within a group of ``size`` samples."""
    if geometry.group <= 1 or not geometry.shuffle:
        return list(range(size))
    return [int(one) for one in _rng(geometry.seed, epoch, rank, worker, group).permutation(size)]
