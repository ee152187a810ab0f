# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Save checkpoints while the training continues: first to the local NVMe, from there to the store.

    checkpointer = Checkpointer(DirectoryStore(Path("/fsx/checkpoints/model1")), Path("/data/scratch/model1"))
    loaded = checkpointer.load(state)
    checkpointer.save(step, state, rank_state)
    checkpointer.close()

Needs torch and an initialised torch.distributed with every rank calling the same methods in the same order.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import logging
import os
import secrets
import shutil
import socket
import threading
import time
import typing as t
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.distributed.checkpoint.api
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from ..errors import DataError
from ..files import durable
from ..files.durable import FileSum
from ..locks.directory import LockedError
from . import directory as checkpoint_store
from .directory import INDEX, Guard, Manifest, Store, TornError, step_name

LOGGER = logging.getLogger("mlcluster.data")
SAVING = ".saving-"
LOADING = ".loading-"
RANK = "rank"
# torch's own error is a BaseException.
FAILURES = (Exception, dcp.api.CheckpointException)
Tensors = Mapping[str, torch.Tensor]
T = t.TypeVar("T")


class CheckpointError(DataError):
    """A checkpoint could not be saved or loaded; every rank raises it with the same sentence."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of one save: whether it is published, else why not.

    Seconds: ``blocked`` in which save() blocked the training; from the call of save(), ``written`` until everything was
    on the local disks, and ``drained`` until it was published.
    """

    step: int
    error: str
    blocked: float
    written: float
    drained: float


@dataclasses.dataclass(frozen=True)
class Loaded:
    """A loaded checkpoint: its manifest, and this rank's own tensors ({} if other ranks wrote it)."""

    manifest: Manifest
    rank_state: dict[str, torch.Tensor]


def pack(value: t.Any) -> torch.Tensor:
    """Return plain JSON as a tensor of bytes (uint8, one dimension), so that no checkpoint has pickled objects."""
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).clone()


def unpack(tensor: torch.Tensor) -> t.Any:
    """Return the argument of pack()."""
    return json.loads(bytes(tensor.cpu().tolist()))


class Checkpointer:
    """Save and load the state of one training; at most one save runs at a time."""

    def __init__(
        self, store: Store, local: Path, *, keep: int = 3, stale_seconds: float | None = None,
    ) -> None:  # fmt: skip
        """Open a store for writing.

        ``local``: a directory on this node's own disk. ``keep``: the number of good checkpoints to keep.
        ``stale_seconds``: a lock without a sign of life for this time is abandoned (default: that of the store). Raises
        CheckpointError on every rank if another run writes there or the place cannot be created.
        """
        # A directory for each destination: two trainings of a node may use the same local disk.
        self.store, self.keep = store, keep
        self.local = local / hashlib.sha256(store.url.encode()).hexdigest()[:12]
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        # Each thread has its own group: collectives of two threads must not meet in one group.
        self._saving = dist.new_group(backend="gloo")
        self._draining = dist.new_group(backend="gloo")
        # Kept between saves, with the memory for the copy of the state, which is pinned if there is a GPU.
        cuda = torch.cuda.is_available()
        self._stager = DefaultStager(
            StagingOptions(
                use_pinned_memory=cuda, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=cuda
            )
        )
        self.token = self._from_first(lambda: secrets.token_hex(4), self._saving)
        self._lock: Guard | None = None
        self._together(lambda: self._open(stale_seconds), self._saving)
        # Only with the lock: the run that left these files has ended.
        self._forget_earlier_runs()
        self._proofs = checkpoint_store.Proofs(store)
        self._thread: threading.Thread | None = None
        self._outcome: Outcome | None = None

    def _open(self, stale_seconds: float | None) -> None:
        if self.rank == 0:
            self._lock = self.store.lock(stale_seconds)
            before = self._lock.acquire()
            if before:
                LOGGER.warning("%s: took over the lock of %s, which has ended", self.store.url, before)
            self.store.prepare()
        durable.own_directory(self.local)

    def _forget_earlier_runs(self) -> None:
        for path in self.local.iterdir():
            if path.name.startswith((SAVING, LOADING)) and not path.name.endswith(self.token):
                durable.discard_tree(path)

    # Saving

    def save(
        self, step: int, state: Mapping[str, t.Any], rank_state: Tensors, notes: Mapping[str, t.Any] | None = None
    ) -> Outcome | None:
        """Start to save; return as soon as the state may change again, with the outcome of the previous save.

        ``step``: the finished steps, 0 or more. ``state``: nested dicts of tensors under names that all ranks agree on
        (a name that several ranks have is stored once). ``rank_state``: tensors of this rank alone. ``notes``: plain
        JSON of rank 0. Failures of the save are reported by the next save(), wait() or close().
        """
        begin = time.monotonic()
        before = self.wait()
        target = self.local / f"{SAVING}{step_name(step)}-{self.token}"
        whole = {**state, RANK: {str(self.rank): dict(rank_state)}}
        future = dcp.async_save(
            whole,
            storage_writer=dcp.FileSystemWriter(target, single_file_per_rank=True, sync_files=True),
            process_group=self._saving,
            async_stager=self._stager,
        )
        blocked = time.monotonic() - begin
        self._thread = threading.Thread(
            target=self._finish,
            args=(t.cast("t.Any", future), step, target, dict(notes or {}), begin, blocked),
            name="checkpoint-drain",
        )
        self._thread.start()
        return before

    def wait(self) -> Outcome | None:
        """Wait for the running save and return its outcome, once. None without a save."""
        if self._thread:
            self._thread.join()
            self._thread = None
        outcome, self._outcome = self._outcome, None
        return outcome

    def close(self) -> Outcome | None:
        """Wait for the running save, and release the lock."""
        outcome = self.wait()
        self._stager.close()
        if self._lock:
            self._lock.release()
        return outcome

    def _finish(
        self, future: t.Any, step: int, target: Path, notes: dict[str, t.Any], begin: float, blocked: float
    ) -> None:
        """Finish the save in the background: write it, drain it to the store, remove the local copy."""
        written = 0.0

        def drain() -> dict[str, FileSum]:
            nonlocal written
            self._written(future)
            written = time.monotonic() - begin
            own_files = sorted(target.glob(f"__{self.rank}_*.distcp"))
            return {path.name: self.store.put(step, self.token, path) for path in own_files}

        def publish(files: Mapping[str, FileSum]) -> None:
            if self._lock and not self._lock.ours():
                raise CheckpointError(
                    "another run has taken the lock: this run gave no sign of life for too long and must end"
                )
            self.store.publish(step, self.token, Manifest(step, self.world_size, files, notes), target / INDEX)

        error = ""
        try:
            parts = self._together(drain, self._draining)
            merged = {name: found for part in parts for name, found in part.items()}
            self._together(lambda: publish(merged) if self.rank == 0 else None, self._draining)
        except FAILURES as exc:  # any error is reported to the training, which can continue
            error = f"checkpoint of step {step} was not published in {self.store.url}: {durable.reason(exc)}"
        durable.discard_tree(target)
        self._remove_outdated(step, bool(error))
        self._outcome = Outcome(step, error, blocked, written, time.monotonic() - begin)

    def _written(self, future: t.Any) -> None:
        try:
            future.result()
        except FAILURES as exc:
            # For a full disk torch reports positions in a file.
            free = shutil.disk_usage(self.local).free
            raise CheckpointError(f"{_first_line(exc)} ({self.local} has {free} bytes free)") from exc

    def _still_ours(self) -> bool:
        """Return whether the lock is still held; otherwise another run may write the same names."""
        try:
            return self._lock is None or self._lock.ours()
        except Exception as exc:
            LOGGER.warning("%s: old checkpoints are kept, since the lock cannot be read: %s", self.store.url,
                           durable.reason(exc))  # fmt: skip
            return False

    def _remove_outdated(self, step: int, failed: bool) -> None:
        """Remove a failed save, or old checkpoints after the remaining ones were read completely."""
        try:
            if not failed:
                self._prove_newest()
            if self.rank == 0 and self._still_ours():
                if failed:
                    self.store.discard(step, self.token)
                else:
                    checkpoint_store.retain(self.store, self.keep, lambda of: bool(self._proofs.known(of)))
        except Exception as exc:
            LOGGER.warning("%s: old checkpoints could not be removed: %s", self.store.url, durable.reason(exc))

    def _prove_newest(self) -> None:
        """Read enough checkpoints, the newest first, for older ones to be removed; each rank reads its share."""
        steps, wanted = self._from_first(self._to_prove, self._draining)
        for step in steps:
            if not wanted:
                return
            known = self._from_first(functools.partial(self._proofs.known, step), self._draining)
            wanted -= self._prove(step) if known is None else known

    def _to_prove(self) -> tuple[list[int], int]:
        """Return the steps, newest first, and how many of them have to be good before anything is removed."""
        steps = self.store.steps() if self._still_ours() else []
        return steps, self.keep if len(steps) > self.keep else int(bool(steps) and self.store.has_torn())

    def _prove(self, step: int) -> bool:
        """Read a checkpoint completely; return whether it is good, the same on every rank. Raises CheckpointError."""

        def look() -> list[str]:
            try:
                files = self.store.manifest(step).files
            except TornError as exc:
                return [str(exc)]
            own_files = checkpoint_store.share(files, self.rank, self.world_size)
            return ([] if INDEX in files else [f"{step_name(step)} has no {INDEX}"]) + self.store.check(
                step, own_files, None
            )

        before = self._from_first(functools.partial(self._proofs.look, step), self._draining)
        problems = sorted({problem for part in self._together(look, self._draining) for problem in part})
        if self.rank == 0:
            self._proofs.add(step, before, problems)
        return not problems

    # Loading

    def load(self, state: dict[str, t.Any]) -> Loaded | None:
        """Load the newest good checkpoint into ``state``, in place, after reading it completely; None without one.

        A bad checkpoint is set aside, and the next older one is tried. Raises CheckpointError if a good one does not
        fit the state (other model or optimizer), if one cannot be read now and so may be good, and if a bad one cannot
        be set aside, since it would count as one of those to keep.
        """
        for step in self._from_first(self.store.steps, self._saving):
            place = self.store_place(step)
            before = self._from_first(functools.partial(self._proofs.look, step), self._saving)
            try:
                problems = self._problems(step, place)
            except CheckpointError as exc:
                if not self.store.in_place:
                    durable.discard_tree(place)
                raise CheckpointError(
                    f"the checkpoint of step {step} cannot be read now, so none is loaded or set aside "
                    f"({exc}): fix that and start again, or move it away to resume from the one before"
                ) from exc
            if not problems:
                if self.rank == 0:
                    self._proofs.add(step, before, problems)
                try:
                    return self._read(step, place, state)
                finally:
                    self._after_reading(place)
            self._after_reading(place)
            if self.rank == 0:
                LOGGER.warning("step %d is torn, an older one is taken: %s", step, checkpoint_store.joined(problems))
            self._from_first(functools.partial(self.store.set_aside, step), self._saving)
        return None

    def store_place(self, step: int) -> Path:
        """Return the directory from which this node reads the files of a checkpoint."""
        if self.store.in_place:
            return Path(self.store.url) / step_name(step)
        return self.local / f"{LOADING}{step_name(step)}-{self.token}"

    def _problems(self, step: int, place: Path) -> list[str]:
        """Return a checkpoint's problems; one of the ranks that see a file (all, or those of a node) reads it."""
        hosts = self._gather(socket.gethostname(), self._saving)
        peers = [rank for rank, host in enumerate(hosts) if self.store.in_place or host == hosts[self.rank]]

        def look() -> list[str]:
            try:
                manifest = self.store.manifest(step)
            except TornError as exc:
                return [str(exc)]
            found = [] if INDEX in manifest.files else [f"{step_name(step)} has no {INDEX} in its manifest"]
            files = checkpoint_store.share(manifest.files, peers.index(self.rank), len(peers))
            if not self.store.in_place:
                durable.make_directory(place)
            return found + self.store.check(step, files, None if self.store.in_place else place)

        # A checkpoint that cannot be read now (no room for a copy, a server that is away, a storage class that needs
        # a restore) may be good: if it counted as torn, it and all older ones would be lost.
        return sorted({problem for part in self._together(look, self._saving) for problem in part})

    def _read(self, step: int, place: Path, state: dict[str, t.Any]) -> Loaded:
        manifest = self.store.manifest(step)
        reader = dcp.FileSystemReader(place)
        prefix = f"{RANK}.{self.rank}."
        own = {
            name.removeprefix(prefix): torch.empty(of.size, dtype=of.properties.dtype)
            for name, of in reader.read_metadata().state_dict_metadata.items()
            if name.startswith(prefix) and manifest.world_size == self.world_size
        }
        whole = {**state, **({RANK: {str(self.rank): own}} if own else {})}
        try:
            dcp.load(whole, storage_reader=reader, process_group=self._saving)
        except FAILURES as exc:
            raise CheckpointError(
                f"{place} is whole and does not fit this model or optimizer ({_first_line(exc)}): "
                "use the options that it was made with, or another directory"
            ) from exc
        for name in state:
            state[name] = whole[name]
        return Loaded(manifest, own)

    def _after_reading(self, place: Path) -> None:
        if not self.store.in_place:
            dist.barrier(group=self._saving)
            durable.discard_tree(place)

    # All ranks together

    def _gather(self, own: T, group: dist.ProcessGroup | None) -> list[T]:
        found: list[t.Any] = [None] * self.world_size
        dist.all_gather_object(found, own, group=group)
        return found

    def _from_first(self, work: Callable[[], T], group: dist.ProcessGroup | None) -> T:
        return t.cast("T", self._together(lambda: work() if self.rank == 0 else None, group)[0])

    def _together(self, work: Callable[[], T], group: dist.ProcessGroup | None) -> list[T]:
        """Call a function on every rank and return all results; if one rank fails, all raise CheckpointError."""
        value: t.Any = None
        error = ""
        try:
            value = work()
        except LockedError as exc:
            error = str(exc)
        except FAILURES as exc:
            error = f"rank {self.rank} on {socket.gethostname()}: {_first_line(exc)}"
        parts = self._gather((value, error), group)
        errors = list(dict.fromkeys(of for _value, of in parts if of))
        if errors:
            raise CheckpointError(checkpoint_store.joined(errors))
        return [of for of, _error in parts]


def _first_line(error: BaseException) -> str:
    """Return the cause of an error in one line; an error of torch.distributed.checkpoint has those of all ranks."""
    failures = getattr(error, "failures", None)
    if failures:
        error = next(iter(failures.values()))[0]
    with contextlib.suppress(IndexError):
        return durable.reason(error).strip().splitlines()[0]
    return type(error).__name__


def default_local() -> Path:
    """Return this node's own disk: the job's scratch directory, else the directory for temporary files."""
    return Path(os.environ.get("MLCLUSTER_SCRATCH") or os.environ.get("TMPDIR") or "/tmp") / "checkpoints"  # noqa: S108
