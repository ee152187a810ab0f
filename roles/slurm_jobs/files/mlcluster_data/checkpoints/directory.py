# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories of checkpoints: their format, and which checkpoints are good and which may be removed. Without torch.

A checkpoint is ``step-NNNNNNNN`` with the files of torch.distributed.checkpoint and the manifest ``complete``, which
lists every file with size and SHA-256. It is written under a hidden name and renamed when it is complete, so a visible
name was complete once; ``latest`` then names it. ``mlcluster checkpoints`` and the training job read the same format.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import logging
import os
import re
import secrets
import time
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..errors import CorruptError, DataError
from ..files import durable
from ..files.durable import Directory, FileSum, Signature
from ..locks.directory import JOB_NAME, STALE_SECONDS, DirectoryLock, Owner
from ..locks.directory import NAME as LOCK

LOGGER = logging.getLogger("mlcluster.data")
SCHEMA = "mlcluster.checkpoint/1"
COMPLETE = "complete"
# torch.distributed.checkpoint's own index, without which its files cannot be read.
INDEX = ".metadata"
LATEST = "latest"
INCOMING = ".incoming-"
TORN = ".torn-"
# An entry with the name of a checkpoint that is not one. It may belong to another program, so it is never removed.
STRANGE = ".strange-"
# The name that `mlcluster checkpoints --prune` gives to checkpoints that it removes.
REMOVING = ".removing-"
# Temporary files of `latest` and of the locks.
_ASIDE = tuple(f".{name}." for name in (LATEST, LOCK, JOB_NAME))
_LOCK_ASIDE = re.compile(rf"(?:{re.escape(LOCK)}|{re.escape(JOB_NAME)})\.(?:stale-)?[0-9a-f]{{16}}")
# Resolution of the times of files. The clocks of nodes and servers may differ, so all that is younger waits for it.
FINE_SECONDS, COARSE_SECONDS, RECENT_SECONDS = 0.02, 2.0, 60.0
_NAMING = re.compile(rb"step-\d{8,}\n?")
_STEP = re.compile(r"step-(\d{8,})")
# `mlcluster checkpoints` uses the name without the hexadecimal digits.
_REMOVED = re.compile(r"step-\d{8,}(-[0-9a-f]{8})?")


class TornError(CorruptError):
    """A checkpoint differs from its manifest; the message names the file and the difference."""


class StoreError(DataError):
    """A checkpoint could not be stored; the message states what was tried, what was found and what to do."""


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Content of ``complete``: the step, the number of ranks, every file, and notes of the trainer (plain JSON)."""

    step: int
    world_size: int
    files: Mapping[str, FileSum]
    notes: Mapping[str, t.Any]
    created: str = ""

    def text(self) -> bytes:
        """Return the text of the manifest's file, with a SHA-256 of its content."""
        files = {name: dataclasses.asdict(found) for name, found in sorted(self.files.items())}
        created = self.created or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        shown = {"schema": SCHEMA, **dataclasses.asdict(self), "created": created, "files": files}
        return json.dumps({**shown, SEAL: _seal(shown)}, indent=1).encode() + b"\n"

    @classmethod
    def parse(cls, text: bytes, where: str, step: int) -> Manifest:
        """Read that of a step. Raises StoreError for one of another version, TornError for anything else."""
        try:
            found = json.loads(text)
            if found["schema"] != SCHEMA and found.get(SEAL) == _seal(found):
                raise StoreError(
                    f"{where}/{COMPLETE} has schema {found['schema']} and not {SCHEMA}, and is whole: use the version "
                    "that wrote it"
                )
            if found["schema"] != SCHEMA:
                raise TornError(f"{where}/{COMPLETE} has schema {found['schema']} and not {SCHEMA}")
            files = {str(name): FileSum(int(of["size"]), str(of["sha256"])) for name, of in found["files"].items()}
            if any("/" in name or name in ("", ".", "..") for name in files):
                raise TornError(f"{where}/{COMPLETE} names a file outside the checkpoint")
            made = cls(int(found["step"]), int(found["world_size"]), files, dict(found["notes"]), str(found["created"]))
            seal = found.pop(SEAL, None)
            # Manifests of earlier versions have no seal; a name changed by a bit error is not among the fields.
            if set(found) != FIELDS or seal not in (None, _seal(found)):
                raise TornError(f"{where}/{COMPLETE} has other content than was written")
            if made.step != step:
                raise TornError(f"{where}/{COMPLETE} is that of step {made.step}")
            return made
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
            raise TornError(f"{where}/{COMPLETE} is not a manifest of a checkpoint ({durable.reason(exc)})") from exc


SEAL = "sha256"
FIELDS = frozenset({"schema", *(field.name for field in dataclasses.fields(Manifest))})


def _seal(shown: Mapping[str, t.Any]) -> str:
    """Return the SHA-256 of a manifest's content, independent of its layout."""
    plain = json.loads(json.dumps({name: value for name, value in shown.items() if name != SEAL}))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def step_name(step: int) -> str:
    """Return the name of a checkpoint, such as step-00000120."""
    return f"step-{step:08d}"


def step_of(name: str) -> int | None:
    """Return the step in a name; None for any other name, such as step-000000120, a duplicate of step-00000120."""
    match = _STEP.fullmatch(name)
    return int(match.group(1)) if match and name == step_name(int(match.group(1))) else None


def naming(step: int) -> bytes:
    """Return the content of ``latest`` for a step."""
    return f"{step_name(step)}\n".encode()


def is_naming(content: bytes | None) -> bool:
    """Return whether ``latest`` is missing, empty or one of naming(): DeepSpeed has a file of that name, too."""
    return not content or _NAMING.fullmatch(content) is not None


def _may_name(top: Directory) -> bool:
    """Return whether ``latest`` may be written: it is missing or ours. A link, or what cannot be read, is not ours."""
    try:
        return top.state(LATEST) is None or is_naming(top.read(LATEST))
    except OSError:
        return False


def _is_aside(name: str) -> bool:
    """Return whether a killed process left this unfinished file; files of similar names belong to other programs."""
    return _LOCK_ASIDE.fullmatch(name) is not None or (name.startswith(_ASIDE) and durable.is_aside(name))


def torn_step(name: str) -> int | None:
    """Return the step of a checkpoint that was set aside; None for any other name."""
    return step_of(name.removeprefix(TORN).rpartition("-")[0]) if name.startswith(TORN) else None


def _is_left(name: str) -> bool:
    """Return whether an interrupted save or removal left this name; other hidden names may belong to other programs."""
    if name.startswith(INCOMING):
        return step_of(name.removeprefix(INCOMING).rpartition("-")[0]) is not None
    return name.startswith(REMOVING) and _REMOVED.fullmatch(name.removeprefix(REMOVING)) is not None


class Guard(t.Protocol):
    """A lock: see locks.directory.Lock. For S3 it raises S3Error instead of OSError."""

    def acquire(self) -> Owner | None:
        """Take the lock, or raise LockedError."""

    def ours(self) -> bool:
        """Return whether the lock is still held."""

    def release(self) -> None:
        """Release the lock."""


class Store(t.Protocol):
    """A store of checkpoints. ``token`` identifies the run that writes; all methods raise OSError, too."""

    url: str
    # Whether every node reads the files in place, so that checking can be shared among all ranks.
    in_place: bool

    def lock(self, stale_seconds: float | None = None) -> Guard:
        """Return the lock for one writer at a time; create the place if it is missing."""

    def prepare(self) -> None:
        """Create the place, remove unfinished files of earlier runs, and correct ``latest``. Needs the lock."""

    def put(self, step: int, token: str, source: Path) -> FileSum:
        """Store one file of an unfinished checkpoint; called on every node."""

    def publish(self, step: int, token: str, manifest: Manifest, index: Path) -> None:
        """Make the checkpoint visible: index, manifest, rename, then ``latest``. Raises StoreError for a taken name."""

    def discard(self, step: int, token: str) -> None:
        """Remove an unfinished checkpoint that will not be published."""

    def steps(self) -> list[int]:
        """Return the steps of the published checkpoints, newest first."""

    def manifest(self, step: int) -> Manifest:
        """Return the manifest of a step. Raises TornError if it is missing or not a manifest."""

    def check(self, step: int, files: Mapping[str, FileSum], copy_to: Path | None) -> list[str]:
        """Return the problems of these files, read completely; with a directory they are copied to it, too.

        Raises OSError or S3Error for a file that cannot be read now, since it may be good.
        """

    def signature(self, step: int) -> object:
        """Return a value that changes with the content of any file. Raises FileNotFoundError without a checkpoint."""

    def set_aside(self, step: int) -> None:
        """Hide a torn checkpoint, so that no run resumes from it."""

    def has_torn(self) -> bool:
        """Return whether any checkpoint was set aside."""

    def forget_torn(self, until: int) -> None:
        """Remove what was set aside of steps up to this one."""

    def remove(self, step: int) -> None:
        """Remove a checkpoint."""


def check_files(directory: Path, files: Mapping[str, FileSum]) -> list[str]:
    """Return the problems of the files of a directory: absent, of another size, of other content.

    Raises OSError for a file that exists and cannot be read, as when a server of Lustre is away: it may be good.
    """
    problems = []
    for name, wanted in files.items():
        path = directory / name
        try:
            found = durable.digest(path) if path.stat().st_size == wanted.size else FileSum(path.stat().st_size, "")
        except OSError as exc:
            if not _is_missing(exc, path):
                raise
            problems.append(f"{path} cannot be read ({exc.strerror})")
            continue
        if found.size != wanted.size:
            problems.append(f"{path} has {found.size} bytes and should have {wanted.size}")
        elif found != wanted:
            problems.append(f"{path} has other content than was written")
    return problems


def _is_missing(error: OSError, path: Path) -> bool:
    """Return whether an error proves that no file can be read at a path."""
    return durable.is_missing(error, path) or error.errno == errno.EISDIR


class DirectoryStore:
    """A directory that all nodes share, for example on FSx for Lustre."""

    in_place = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = str(path)

    def lock(self, stale_seconds: float | None = None) -> Guard:
        durable.make_directory(self.path)
        return DirectoryLock(self.path, stale_seconds or STALE_SECONDS)

    def prepare(self) -> None:
        durable.make_directory(self.path)
        for name in os.listdir(self.path):
            if _is_left(name):
                self._clear(self.path / name)
            elif _is_aside(name):
                (self.path / name).unlink(missing_ok=True)
            elif step_of(name) is not None and not durable.is_plain(self.path / name / COMPLETE):
                LOGGER.warning("%s has no %s, so it is not a checkpoint: get it back whole, or move it away",
                               self.path / name, COMPLETE)  # fmt: skip
        self._name_newest()

    def _name_newest(self) -> None:
        """Let ``latest`` name the newest checkpoint: a run may have ended before it did, or one was set aside."""
        latest, steps = self.path / LATEST, self.steps()
        try:
            named = durable.read(latest) if durable.state(latest) else None
            if not is_naming(named):
                LOGGER.warning("%s is of another program, so it stays and does not name the newest checkpoint", latest)
            elif named is not None and not steps:
                latest.unlink()
            elif steps and named != naming(steps[0]):
                durable.write(latest, naming(steps[0]))
        except OSError as exc:
            # No program of this collection depends on it, so a failure must not stop a training.
            LOGGER.warning("%s does not name the newest checkpoint: %s", latest, durable.reason(exc))

    def _clear(self, left: Path) -> None:
        """Remove unfinished files of an earlier run. If its last process still writes, the next run removes them."""
        try:
            durable.remove_tree(left)
        except OSError as exc:
            LOGGER.warning("%s stays for now: %s", left, durable.reason(exc))

    def put(self, step: int, token: str, source: Path) -> FileSum:
        with (
            Directory.open(self.path) as top,
            top.below(_incoming(step, token), make=True) as place,
            place.new(source.name) as file,
        ):
            return durable.copy(source, file)

    def publish(self, step: int, token: str, manifest: Manifest, index: Path) -> None:
        made, final = _incoming(step, token), self.path / step_name(step)
        files = {**manifest.files, INDEX: self.put(step, token, index)}
        with Directory.open(self.path) as top:
            with top.below(made) as place:
                # This syncs the names of all its files.
                place.write(COMPLETE, dataclasses.replace(manifest, files=files).text())
            if durable.is_plain(final / COMPLETE):
                raise StoreError(f"{final} is there already: resume from it, or give this run a directory of its own")
            if top.state(final.name) is not None:
                aside = f"{STRANGE}{final.name}-{time.time_ns():x}"
                top.rename(final.name, aside)
                LOGGER.warning("%s had no %s and made room for the checkpoint of its name: it is %s now", final,
                               COMPLETE, self.path / aside)  # fmt: skip
            top.rename(made, final.name)
            if _may_name(top):
                # This also syncs the name of the checkpoint.
                top.write(LATEST, naming(step))
            else:
                top.sync()

    def discard(self, step: int, token: str) -> None:
        with contextlib.suppress(OSError):
            durable.remove_tree(self.path / _incoming(step, token))

    def steps(self) -> list[int]:
        found = []
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.path):
                step = step_of(name)
                if step is not None and durable.is_plain(self.path / name / COMPLETE):
                    found.append(step)
        return sorted(found, reverse=True)

    def manifest(self, step: int) -> Manifest:
        place = self.path / step_name(step)
        try:
            text = durable.read(place / COMPLETE)
        except OSError as exc:
            if not _is_missing(exc, place / COMPLETE):
                raise
            raise TornError(f"{place / COMPLETE} cannot be read ({exc.strerror})") from exc
        return Manifest.parse(text, str(place), step)

    def check(self, step: int, files: Mapping[str, FileSum], copy_to: Path | None) -> list[str]:
        return check_files(self.path / step_name(step), files)

    def set_aside(self, step: int) -> None:
        name = step_name(step)
        os.rename(self.path / name, self.path / f"{TORN}{name}-{time.time_ns():x}")
        self._name_newest()

    def forget_torn(self, until: int) -> None:
        for name in os.listdir(self.path):
            step = torn_step(name)
            if step is not None and step <= until:
                durable.remove_tree(self.path / name)

    def remove(self, step: int) -> None:
        name = step_name(step)
        leaving = f"{REMOVING}{name}-{secrets.token_hex(4)}"
        # `mlcluster checkpoints` may have removed it already.
        with contextlib.suppress(FileNotFoundError), Directory.open(self.path) as top:
            top.rename(name, leaving)
            # Synced before its files are removed: after a power failure a partial checkpoint must not have its name
            # again.
            top.sync()
            durable.remove_tree(self.path / leaving)

    def signature(self, step: int) -> object:
        with Directory.open(self.path) as top, top.below(step_name(step)) as place:
            # Other programs leave hidden files here.
            names = [name for name in os.listdir(place.descriptor) if name == INDEX or not name.startswith(".")]
            states = {name: place.state(name) for name in names}
        return {name: Signature.of(state) for name, state in states.items() if state}

    def has_torn(self) -> bool:
        return any(torn_step(name) is not None for name in os.listdir(self.path))


def _incoming(step: int, token: str) -> str:
    return f"{INCOMING}{step_name(step)}-{token}"


def tick_of(signature: object, now: int) -> float:
    """Return the seconds in which a file of a signature may change again with the same times; 0 if that is over.

    Local file systems take the time of the kernel's last tick. Lustre has whole seconds.
    """
    values = signature.values() if isinstance(signature, dict) else ()
    changed = [of.changed for of in values if isinstance(of, Signature)]
    if not changed or now - max(changed) > RECENT_SECONDS * 1e9:
        return 0.0
    return FINE_SECONDS if any(time % 10**9 for time in changed) else COARSE_SECONDS


class Proofs:
    """The checkpoints of a store that were read completely, with the result of each and whether it still holds."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._found: dict[int, tuple[object, bool]] = {}

    def known(self, step: int) -> bool | None:
        """Return whether a checkpoint is good; None if it was not read or has changed since. Raises OSError."""
        signature, good = self._found.get(step, (None, False))
        return good if signature is not None and signature == self._signature(step) else None

    def look(self, step: int) -> object | None:
        """Return the current signature of a checkpoint, to be taken before it is read. Raises OSError.

        Any later change gives it another one. None if it has none, or is being changed.
        """
        found = self._signature(step)
        if wait := tick_of(found, time.time_ns()):
            time.sleep(wait)
            return found if found == self._signature(step) else None
        return found

    def _signature(self, step: int) -> object | None:
        try:
            return self.store.signature(step)
        except FileNotFoundError:
            return None

    def add(self, step: int, signature: object, problems: Sequence[str]) -> None:
        """Record the result of reading a checkpoint; ``signature`` was taken before."""
        self._found[step] = signature, not problems
        if problems:
            LOGGER.warning("%s/%s does not count as a good checkpoint, so older ones stay: %s", self.store.url,
                           step_name(step), joined(problems))  # fmt: skip

    def good(self, step: int) -> bool:
        """Return whether a checkpoint is good; read it unless that is known. Raises as Store.check() does."""
        known = self.known(step)
        if known is None:
            before = self.look(step)
            problems = verify(self.store, step)
            self.add(step, before, problems)
            known = not problems
        return known


def removable(steps: Sequence[int], good: t.Callable[[int], bool], keep: int) -> list[int]:
    """Return the steps (newest first) older than the newest ``keep`` good ones, which may be removed.

    ``good`` proves a step; it is called only if something may be removed. Raises ValueError for keep below 1.
    """
    if keep < 1:
        raise ValueError(f"{keep} checkpoints were to be kept: keep at least 1")
    if len(steps) <= keep:
        return []
    proved = 0
    leaving = []
    for step in steps:
        if proved >= keep:
            leaving.append(step)
        elif good(step):
            proved += 1
    return leaving


def retain(store: Store, keep: int, good: t.Callable[[int], bool] | None = None) -> list[int]:
    """Remove old checkpoints; return their steps, oldest first. Raises OSError.

    ``good`` proves a checkpoint; the default Proofs.good() reads it. Torn checkpoints that were set aside are
    removed once the training has reached their step again.
    """
    good = good or Proofs(store).good
    steps = store.steps()
    leaving = sorted(removable(steps, good, keep))
    for step in leaving:
        store.remove(step)
    if store.has_torn() and (newest := next((step for step in steps if good(step)), None)) is not None:
        store.forget_torn(newest)
    return leaving


def verify(store: Store, step: int, copy_to: Path | None = None) -> list[str]:
    """Read a checkpoint completely and return its problems. Raises as Store.check() does."""
    try:
        manifest = store.manifest(step)
    except TornError as exc:
        return [str(exc)]
    missing = [] if INDEX in manifest.files else [f"{store.url}/{step_name(step)} has no {INDEX} in its manifest"]
    return missing + store.check(step, manifest.files, copy_to)


def share(files: Mapping[str, FileSum], index: int, of: int) -> dict[str, FileSum]:
    """Return the files that reader ``index`` of ``of`` checks; bytes are divided evenly."""
    loads = [0] * of
    own_files = {}
    for name in sorted(files, key=lambda entry: (-files[entry].size, entry)):
        at = loads.index(min(loads))
        loads[at] += files[name].size + 1
        if at == index:
            own_files[name] = files[name]
    return own_files


def joined(problems: Iterable[str]) -> str:
    """Return several problems as one text."""
    return "; ".join(problems)
