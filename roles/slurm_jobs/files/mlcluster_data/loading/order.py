# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which samples each worker of each rank reads in an epoch, in which order, computed from the manifest alone.

Every process computes the same plan, so ranks agree without talking, every rank makes the same number of steps, and a
run goes on in the middle of an epoch without reading what is behind it. Samples have places: the first sample of a
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
    """Parameters of the order besides the shards; runs with equal ones can resume from each other's state.

    `world` ranks with `workers` processes each (1 also where the rank reads by itself), batches of `batch` samples,
    places shuffled in groups of `group` (1: not at all), `resampled` as many batches a rank and epoch (0: not).
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
    """Return the shards that a worker reads, in order; without end when resampled.

    Divided as webdataset's split_by_node and split_by_worker do it: every world-th from the rank-th on, and of those
    every workers-th from the worker-th on.
    """
    if geometry.resampled:
        rng = _rng(geometry.seed, epoch, rank, worker)
        return (int(rng.integers(shards)) for _draw in itertools.count())
    order = shard_order(geometry, shards, epoch)
    return iter(order[rank :: geometry.world][worker :: geometry.workers])


def batches_of(geometry: Geometry, counts: Sequence[int], epoch: int, rank: int) -> list[int]:
    """Return how many batches each worker of a rank makes in an epoch; `counts` are the samples of each shard."""
    if geometry.resampled:
        each, more = divmod(geometry.resampled, geometry.workers)
        return [each + (worker < more) for worker in range(geometry.workers)]
    order = np.array(counts)[shard_order(geometry, len(counts), epoch)][rank :: geometry.world]
    samples = [int(order[worker :: geometry.workers].sum()) for worker in range(geometry.workers)]
    return [-(-one // geometry.batch) for one in samples]


def steps(geometry: Geometry, counts: Sequence[int], epoch: int, uneven: str) -> int:
    """Steps of every rank in an epoch: of the rank with the most batches (`uneven` pad) or the fewest (drop)."""
    totals = [sum(batches_of(geometry, counts, epoch, rank)) for rank in range(geometry.world)]
    return max(totals) if uneven == "pad" else min(totals)


def position(batches: Sequence[int], delivered: int) -> tuple[int, int]:
    """Return where to go on after `delivered` batches: (round, how many of that round are delivered).

    Workers are asked in turn, one batch each a round; one that has no more is passed over.
    """
    done = 0
    for turn in range(max(batches, default=0)):
        there = sum(turn < one for one in batches)
        if done + there > delivered:
            return turn, delivered - done
        done += there
    return max(batches, default=0), delivered - done


def group_order(geometry: Geometry, epoch: int, rank: int, worker: int, group: int, size: int) -> list[int]:
    """Return the shuffled places within a group of `size` samples."""
    if geometry.group <= 1 or not geometry.shuffle:
        return list(range(size))
    return [int(one) for one in _rng(geometry.seed, epoch, rank, worker, group).permutation(size)]
