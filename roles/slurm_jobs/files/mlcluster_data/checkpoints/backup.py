# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Back up a directory to S3 and restore it. Only new content is sent, and every checksum is checked.

A manifest beside the objects has the SHA-256 and the entity tag of each. An object is up to date only if both agree,
so an object that was changed or lost in the bucket is sent again. Nothing is ever deleted, in either place. Only
complete checkpoints are sent, the manifest of each after its files, and ``latest`` last. A checkpoint that was written
again never replaces objects of the earlier one: it gets a folder of its own, which the manifest names once it is whole.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import logging
import os
import stat
import sys
import threading
import time
import typing as t
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path, PurePosixPath

from ..cli import arguments
from ..errors import FAIL, PASS, DataError, one_line
from ..files import durable, s3
from ..files.durable import Directory, FileSum, Signature
from ..locks.directory import JOB_NAME as JOB_LOCK
from ..locks.directory import NAME as LOCK
from ..locks.directory import STAGE_NAME as STAGE_LOCK
from ..locks.directory import TRAIN_NAME as TRAIN_LOCK
from ..locks.directory import Lock, LockedError, check_below, only_writer
from . import directory as checkpoint_store
from .backup_order import checkpoint_of, current, merged, places, possible, rounds, sound
from .directory import COMPLETE, INCOMING, REMOVING, STRANGE, TORN

URL = "s3://BUCKET/PREFIX"
LOGGER = logging.getLogger("mlcluster.data")
SCHEMA = "mlcluster.backup/1"
MANIFEST = ".mlcluster-backup.json"
SUMS = ".mlcluster-sums.json"
BACKUP_LOCK = ".backup-lock"
_PASSED_OVER = (INCOMING, REMOVING, TORN, STRANGE)
_LOCKS = (LOCK, JOB_LOCK, STAGE_LOCK, TRAIN_LOCK, BACKUP_LOCK)
# Other runs may write the same manifest between our read and our write.
MANIFEST_TRIES = 20
AGAIN = ": wait for the end of the other backup, and back up again"


class BackupError(DataError):
    """The backup failed; the message states what was tried, what was found and what to do next."""


@dataclasses.dataclass(frozen=True)
class Copy:
    """One file in the manifest: size, SHA-256, entity tag of its object, mode bits, time of change in ns.

    ``key``: the name of its object, empty if it is that of the file.
    """

    size: int
    sha256: str
    etag: str
    mode: int
    changed: int
    key: str = ""

    def object_name(self, name: str) -> str:
        """Return the name of the object of the file ``name``."""
        return self.key or name

    def is_current(self, name: str, objects: Mapping[str, s3.Remote]) -> bool:
        """Return whether the object of the file ``name`` has this entity tag."""
        key = self.object_name(name)
        return key in objects and objects[key].etag == self.etag

    @property
    def sum(self) -> FileSum:
        """Size and SHA-256."""
        return FileSum(self.size, self.sha256)

    @property
    def is_sound(self) -> bool:
        """Return whether every value is of its type."""
        numbers, texts = (self.size, self.mode, self.changed), (self.sha256, self.etag, self.key)
        # bool is a subclass of int.
        whole = all(isinstance(value, int) and not isinstance(value, bool) for value in numbers)
        return whole and all(isinstance(value, str) for value in texts)


@dataclasses.dataclass
class Report:
    """Names of files that were copied, already stored, or removed meanwhile, and a sentence for each problem."""

    copied: list[str] = dataclasses.field(default_factory=list)
    same: list[str] = dataclasses.field(default_factory=list)
    gone: list[str] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)
    bytes: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every existing file is proved to be copied."""
        return not self.problems

    def line(self, verb: str) -> str:
        """Return one line about a push, restore or verify, for users."""
        problems = f"{len(self.problems)} problems"
        if verb == "verify":
            return f"{len(self.same)} objects agree with the manifest, {problems} ({self.seconds:.1f} s)"
        rate = f", {self.bytes / self.seconds / 1e6:.0f} MB/s" if self.bytes and self.seconds else ""
        return (
            f"{len(self.copied)} files {'sent' if verb == 'push' else 'restored'} ({self.bytes} bytes, "
            f"{self.seconds:.1f} s{rate}), {len(self.same)} were there, {len(self.gone)} went meanwhile, {problems}"
        )


def walk(source: Path) -> tuple[dict[str, Signature], list[str]]:
    """Return the files to back up, with their signatures by name, and the skipped ones with the reason.

    Skipped are links, special files, unfinished and torn checkpoints, and this package's own files.
    """
    found: dict[str, Signature] = {}
    notes: list[str] = []
    if not source.is_dir():
        raise BackupError(f"{source} is not a directory: use the directory that is to be backed up")
    try:
        _walk(source, found, notes)
    except OSError as exc:
        _refuse(exc)
    return dict(sorted(found.items())), sorted(notes)


def _walk(source: Path, found: dict[str, Signature], notes: list[str]) -> None:
    for folder, folders, files in os.walk(source, onerror=_refuse):
        here = Path(folder)
        for name in list(folders):
            unfinished = checkpoint_store.step_of(name) is not None and not durable.is_plain(here / name / COMPLETE)
            if name.startswith(_PASSED_OVER) or (here / name).is_symlink() or unfinished:
                folders.remove(name)
                if not name.startswith(_PASSED_OVER):
                    notes.append(f"{here / name} is skipped: {'not complete' if unfinished else 'a link'}")
        for name in files:
            path = here / name
            if _is_own(name):
                continue
            state = durable.state(path)
            # Retention may remove it meanwhile.
            if state and not stat.S_ISREG(state.st_mode):
                notes.append(f"{path} is skipped: not a plain file")
            elif state:
                found[path.relative_to(source).as_posix()] = Signature.of(state)


def _is_own(name: str) -> bool:
    """Return whether a file belongs to this package itself, or is half written; both are hidden."""
    return (
        name in (SUMS, MANIFEST)
        or name.startswith(_PASSED_OVER)
        or any(name == lock or name.startswith(f"{lock}.") for lock in _LOCKS)
        or durable.is_aside(name)
    )


def _remove_unfinished(top: Directory, names: Iterable[str]) -> None:
    """Remove the unfinished files that killed restores of these names left; the lock excludes a running one.

    Files of other users and of other names are kept. Folders of links are not entered.
    """
    by_folder: dict[tuple[str, ...], set[str]] = {}
    for name in names:
        *above, last = durable.parts_of(name)
        # Cut off as in the name of its unfinished file.
        by_folder.setdefault(tuple(above), set()).add(durable.unfinished(durable.aside_of(last)) or last)
    for folders, lasts in by_folder.items():
        with contextlib.suppress(OSError), top.below(*folders) as folder:
            for entry in os.listdir(folder.descriptor):
                state = folder.state(entry) if durable.unfinished(entry) in lasts else None
                if state is not None and stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid():
                    folder.remove(entry)


def _is_of_another(folder: Directory, whole: Copy | None) -> bool:
    """Return whether a folder has the manifest of another checkpoint than ``whole``, the one in the backup."""
    if whole is None or checkpoint_store.step_of(folder.path.name) is None or folder.state(COMPLETE) is None:
        return False
    # Another file of the checkpoint may take it away meanwhile.
    with contextlib.suppress(FileNotFoundError):
        return not folder.is_plain(COMPLETE) or folder.digest(COMPLETE) != whole.sum
    return False


def _without(copies: dict[str, Copy], names: Container[str]) -> dict[str, Copy]:
    return {name: of for name, of in copies.items() if name not in names}


def _refuse(error: OSError) -> t.NoReturn:
    raise BackupError(f"{error.filename} cannot be read ({error.strerror}): run this as a user who may") from error


class Backup:
    """One directory and its copy."""

    def __init__(self, directory: Path, prefix: s3.Prefix, workers: int = 4) -> None:
        self.directory, self.prefix, self.workers = directory, prefix, workers
        self.report = Report()
        self._guard = threading.Lock()
        # Files as they were a tick of their clock before they are read: one that still has this signature gets another
        # one with any change. The clocks of this node and of a server may differ.
        self._walked: dict[str, Signature] = {}
        # The checksums of files, from the manifests of the checkpoints in the directory.
        self._listed: dict[str, FileSum] = {}
        # The folder of each checkpoint in the bucket, and its copies that no manifest has yet.
        self._places: dict[str, str] = {}
        self._waiting: dict[str, dict[str, Copy]] = {}
        # Whether objects are only replaced if no other program wrote them meanwhile.
        self._has_conditions = True

    def push(self, rehash: bool = False) -> Report:
        """Copy new and changed files. ``rehash`` reads every file again instead of trusting size and time of change.

        Raises BackupError and S3Error if nothing can be done; errors of single files are problems in the report.
        """
        begin = time.monotonic()
        self._walked, notes = walk(self.directory)
        names = list(self._walked)
        for note in notes:
            LOGGER.warning("%s", note)
        names, self._listed, self.report.problems = sound(self.directory, names)
        now = time.time_ns()
        ticks = (checkpoint_store.tick_of({name: of}, now) for name, of in self._walked.items())
        if wait := max(ticks, default=0.0):
            time.sleep(wait)
        with self._locked():
            copies = self.manifest()
            there = self.prefix.list()
            self._places = places(self.directory, names, self.prefix, there, self._listed)
            sums = {} if rehash else self._sums()
            proved = {name: of for name, of in copies.items() if of.is_current(name, there)}
            gone = {name: of for name, of in copies.items() if not durable.state(self.directory / name)}
            proved |= self._copied_by_others(_without(gone, proved), there)
            missing = _without(copies, proved)
            self.report.problems += self._lost(missing)
            try:
                self._rounds(rounds(names), lambda name: self._push_or_gone(name, there, proved, sums))
                left = _without(missing, proved)
                listed = {name: of for name, of in left.items() if self._is_listed(name, copies, proved)}
                with contextlib.suppress(s3.S3Error):
                    proved |= self._copied_by_others(listed, there)
            finally:
                # Proved files are recorded even if the run was interrupted.
                self._write(copies, proved)
                self._keep_sums(sums)
        self.report.seconds = time.monotonic() - begin
        return self.report

    def restore(self, overwrite: bool = False) -> Report:
        """Restore every file of the manifest, each completely or not at all.

        An existing file that differs is a problem, unless ``overwrite``. Raises BackupError without a backup,
        LockedError while another process writes there or below, OSError if the directory cannot be written.
        """
        begin = time.monotonic()
        copies = self._backed_up()
        durable.make_directory(self.directory)
        with only_writer(self.directory), Directory.open(self.directory) as top:
            check_below(self.directory)
            self._rounds(rounds(sorted(copies)), lambda name: self._restore(top, name, copies, overwrite))
            _remove_unfinished(top, copies)
        self.report.seconds = time.monotonic() - begin
        return self.report

    def verify(self, deep: bool = False) -> Report:
        """Compare the bucket with the manifest; ``deep`` reads every object completely."""
        begin = time.monotonic()
        copies = self._backed_up()
        there = self.prefix.list()
        self._rounds([sorted(copies)], lambda name: self._verify(name, copies[name], there, deep))
        self.report.seconds = time.monotonic() - begin
        return self.report

    def manifest(self) -> dict[str, Copy]:
        """Return the content of the manifest in S3; empty if it is missing. Raises BackupError if it is unreadable."""
        text = self.prefix.get(MANIFEST)
        return {} if text is None else self._parsed(text)

    def _parsed(self, text: bytes) -> dict[str, Copy]:
        where = self.prefix.url_of(MANIFEST)
        try:
            found = json.loads(text)
            if found["schema"] != SCHEMA:
                raise BackupError(f"{where} has schema {found['schema']} and not {SCHEMA}: use a newer version")
            copies = {str(name): Copy(**of) for name, of in found["files"].items()}
            if not all(copy.is_sound for copy in copies.values()):
                raise ValueError("an entry has text and numbers confused")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            raise BackupError(f"{where} is not a manifest of a backup: move it away, and back up again") from exc
        for name in copies:
            try:
                durable.parts_of(name)
            except ValueError as exc:
                raise BackupError(f"{where} names {name[:300]!r}, which {exc}: do not trust it") from exc
        return copies

    def _backed_up(self) -> dict[str, Copy]:
        copies = self.manifest()
        if not copies:
            raise BackupError(f"{self.prefix.url} holds no backup: use the prefix that it was sent to")
        return copies

    def _rounds(self, order: list[list[str]], work: Callable[[str], str]) -> None:
        """Do the work on each name, in parallel within a round; ``work`` returns copied, same or gone.

        A checkpoint's manifest waits for its files, and ``latest`` for everything. They are left out if a file failed.
        """
        failed: set[str] = set()
        for at, names in enumerate(order):
            if at == 1:
                names = [name for name in names if str(PurePosixPath(name).parent) not in failed]
            if at == 2 and failed:
                names = []
            with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
                for name, found in zip(names, pool.map(lambda name: self._attempt(work, name), names), strict=True):
                    if found in ("failed", "gone"):
                        failed.add(str(PurePosixPath(name).parent))

    def _attempt(self, work: Callable[[str], str], name: str) -> str:
        problem = ""
        try:
            found = work(name)
        except (OSError, s3.S3Error, BackupError) as exc:
            found, problem = "failed", durable.reason(exc)
        with self._guard:
            if problem:
                self.report.problems.append(problem)
            else:
                getattr(self.report, found).append(name)
        return found

    def _copied_by_others(self, copies: dict[str, Copy], there: dict[str, s3.Remote]) -> dict[str, Copy]:
        """Return the copies that have their content under another entity tag, as in a bucket that was moved.

        Their files are gone here or damaged, so nothing can be sent again, and each object is read. Raises S3Error.
        """
        found = {name: of for name, of in copies.items() if of.object_name(name) in there}
        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            sums = dict(zip(found, pool.map(self.prefix.measure, [of.object_name(name) for name, of in found.items()])))
        return {
            name: dataclasses.replace(of, etag=there[of.object_name(name)].etag)
            for name, of in found.items()
            if sums[name] == of.sum
        }

    def _is_listed(self, name: str, copies: dict[str, Copy], proved: dict[str, Copy]) -> bool:
        """Return whether the manifest still lists the checkpoint of a file, and not a later one of its name."""
        whole = f"{checkpoint_of(name, self._places)}/{COMPLETE}"
        return whole not in proved or (whole in copies and proved[whole].sum == copies[whole].sum)

    def _lost(self, names: Iterable[str]) -> list[str]:
        """Return a problem for each object that was changed or lost in the bucket and whose file is also gone here.

        Only this run reports it, because the manifest lists existing objects only.
        """
        return [
            f"{self.prefix.url_of(name)} was changed or lost after the backup, and {self.directory / name} is missing, "
            "too: check whether the bucket keeps older versions; the manifest does not list it any more"
            for name in sorted(names)
            if not durable.state(self.directory / name)
        ]

    def _push_or_gone(
        self, name: str, there: Mapping[str, s3.Remote], proved: dict[str, Copy], sums: dict[str, list[t.Any]]
    ) -> str:
        # Retention may remove a file meanwhile; nothing may be missing after a restore.
        try:
            return self._push(name, there, proved, sums)
        except FileNotFoundError:
            return "gone"

    def _push(
        self, name: str, there: Mapping[str, s3.Remote], proved: dict[str, Copy], sums: dict[str, list[t.Any]]
    ) -> str:
        path = self.directory / name
        if any("\ud800" <= letter <= "\udfff" for letter in name):
            raise BackupError(f"{str(path)!r} has a name that is not UTF-8, as no object in S3 can have: rename it")
        # Before its content is read.
        state = path.stat()
        # Also the inode's time of change: tar, rsync and other programs can reset that of the content.
        signature = list(dataclasses.astuple(Signature.of(state)))
        parts = None
        known = sums.get(name)
        if known and known[:4] != signature:
            known = None
        if known:
            found = FileSum(state.st_size, known[4])
        else:
            parts = s3.measure(path, self.prefix.part)
            found = parts.whole
        self._refuse_damaged(name, path, found)
        folder = checkpoint_of(name, self._places)
        object_name = f"{self._places[folder]}{name[len(folder) :]}" if folder else name
        before, etag = proved.get(name), None
        if before and before.sum == found and before.object_name(name) == object_name:
            etag = before.etag
        elif object_name in there:
            # Of a run that was killed before it wrote the manifest.
            parts = parts or s3.measure(path, self.prefix.part)
            etag = self.prefix.holding(object_name, parts) if parts.whole == found else None
        result = "same"
        if etag is None:
            # The sum of an earlier run does not show a bit that a failing disk has flipped since.
            parts = parts or s3.measure(path, self.prefix.part)
            self._refuse_damaged(name, path, parts.whole)
            if known and parts.whole != found:
                raise BackupError(
                    f"{path} has other content than at the last backup, but the same times, as from a failing disk: it "
                    "was not sent; get it back, or send it as it is with --rehash"
                )
            found, etag = self._send(object_name, path, parts, there)
            with self._guard:
                self.report.bytes += found.size
            result = "copied"
        key = object_name if object_name != name else ""
        with self._guard:
            copy = Copy(found.size, found.sha256, etag, state.st_mode & 0o777, state.st_mtime_ns, key)
            self._record(name, folder, copy, proved)
            if self._walked.get(name) == Signature.of(state):
                sums[name] = [*signature, found.sha256]
        return result

    def _send(
        self, object_name: str, path: Path, parts: s3.Parts, there: Mapping[str, s3.Remote]
    ) -> tuple[FileSum, str]:
        """Send a file; never replace an object that another program wrote after this one listed the bucket."""
        if self._has_conditions:
            only = s3.having(there[object_name].etag) if object_name in there else s3.MISSING
            try:
                return self.prefix.put_file(object_name, path, parts, only)
            except s3.ConditionError as exc:
                self._warn_unconditional(exc)
        return self.prefix.put_file(object_name, path, parts)

    def _warn_unconditional(self, lack: object) -> None:
        with self._guard:
            is_first, self._has_conditions = self._has_conditions, False
        if is_first:
            LOGGER.warning("%s: check that no other backup writes at the same time (%s)", self.prefix.url, lack)

    def _refuse_damaged(self, name: str, path: Path, found: FileSum) -> None:
        if self._listed.get(name, found) != found:
            raise BackupError(f"{path} differs from its manifest: it was not sent, and an existing copy is kept")

    def _record(self, name: str, folder: str, copy: Copy, proved: dict[str, Copy]) -> None:
        """Add a copy to those that the manifest will list, those of a checkpoint together with its own manifest.

        Files of a checkpoint beside those of an earlier one of that name would be neither.
        """
        if not folder:
            proved[name] = copy
            return
        waiting = self._waiting.setdefault(folder, {})
        waiting[name] = copy
        if name == f"{folder}/{COMPLETE}":
            before = proved.get(name)
            if before is None or before.sum != copy.sum:
                for other in [other for other in proved if other.startswith(f"{folder}/")]:
                    del proved[other]
            proved |= self._waiting.pop(folder)

    def _restore(self, top: Directory, name: str, copies: dict[str, Copy], overwrite: bool) -> str:
        *folders, last = durable.parts_of(name)
        copy = copies[name]
        target, key = self.directory / name, copy.object_name(name)
        with top.below(*folders, make=True) as folder:
            state = folder.state(last)
            if folder.is_plain(last) and state and state.st_size == copy.size and folder.digest(last) == copy.sum:
                return "same"
            mixes = last != COMPLETE and _is_of_another(folder, copies.get(f"{'/'.join(folders)}/{COMPLETE}"))
            if state is not None and stat.S_ISDIR(state.st_mode):
                raise BackupError(f"{target} is a folder and was a file when it was backed up: move it away")
            taken = target if state is not None else target.with_name(COMPLETE) if mixes else None
            if taken and not overwrite:
                raise BackupError(f"{taken} is there and differs from the backup: move it away, or allow overwriting")
            with folder.making(last, copy.mode) as file:
                if self.prefix.fetch(key, file, target) != copy.sum:
                    raise BackupError(
                        f"{self.prefix.url_of(key)} has other content than was backed up: it is not restored; "
                        "check whether the bucket keeps older versions of it"
                    )
                file.flush()
                os.utime(file.fileno(), ns=(copy.changed, copy.changed))
                if mixes:
                    # Before the first of its files is replaced: a mixture of the same sizes would look whole.
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(COMPLETE, dir_fd=folder.descriptor)
                    folder.sync()
        with self._guard:
            self.report.bytes += copy.size
        return "copied"

    def _verify(self, name: str, copy: Copy, there: dict[str, s3.Remote], deep: bool) -> str:
        key = copy.object_name(name)
        where, remote = self.prefix.url_of(key), there.get(key)
        if remote is None:
            raise BackupError(f"{where} no longer exists: back up again while the file exists")
        if (remote.size, remote.etag) != (copy.size, copy.etag):
            raise BackupError(f"{where} was changed after the backup: back up again, which sends it again")
        if deep and self.prefix.measure(key) != copy.sum:
            raise BackupError(f"{where} has other content than was backed up: back up again while the file exists")
        return "same"

    def _write(self, before: dict[str, Copy], proved: dict[str, Copy]) -> None:
        """Add the changes of this run to the manifest, and keep those that another run wrote meanwhile."""
        proved = possible(proved, self._walked)
        if proved == before:
            return
        for _try in range(MANIFEST_TRIES):
            found = self.prefix.get_tagged(MANIFEST)
            now = self._parsed(found[0]) if found else {}
            # After the manifest was read: who replaces an object later, replaces its entry later, too.
            listed, replaced = current(before, proved, self.prefix.list())
            result = possible(merged(before, listed, now), self._walked)
            files = {name: dataclasses.asdict(of) for name, of in sorted(result.items())}
            text = json.dumps({"schema": SCHEMA, "files": files}).encode()
            if self._write_manifest(text, found[1] if found else None):
                urls = (self.prefix.url_of(proved[name].object_name(name)) for name in replaced)
                self.report.problems += [
                    f"{url} was replaced by another program after it was sent{AGAIN}" for url in urls
                ]
                return
        raise BackupError(
            f"{self.prefix.url_of(MANIFEST)} was changed by others {MANIFEST_TRIES} times in a row: back up again"
        )

    def _write_manifest(self, text: bytes, etag: str | None) -> bool:
        """Write the manifest if it still has this entity tag (None: if it is still missing); return whether it did."""
        try:
            made = self.prefix.create(MANIFEST, text)
            if made and etag:
                self._warn_unconditional("the server ignores If-None-Match")
            return bool(made or (etag and self.prefix.replace(MANIFEST, text, etag)))
        except s3.ConditionError as exc:
            self._warn_unconditional(exc)
            self.prefix.put(MANIFEST, text)
            return True

    def _sums(self) -> dict[str, list[t.Any]]:
        # The file only saves time, so an unusable one is replaced.
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(durable.read(self.directory / SUMS))
            if isinstance(found, dict):
                return {name: of for name, of in found.items() if isinstance(of, list) and len(of) == 5}
        return {}

    def _keep_sums(self, sums: dict[str, list[t.Any]]) -> None:
        try:
            durable.write(self.directory / SUMS, json.dumps(sums).encode())
        except OSError as exc:
            LOGGER.warning("%s: sums are not kept, the next run reads all files again (%s)", self.directory, exc)

    @contextlib.contextmanager
    def _locked(self) -> t.Iterator[None]:
        lock = Lock(self.directory, name=BACKUP_LOCK)
        try:
            lock.acquire()
        except LockedError as exc:
            raise BackupError(str(exc)) from exc
        except OSError as exc:
            LOGGER.warning("%s: continues without a lock (%s), check that no other backup runs", self.directory, exc)
        try:
            yield
        finally:
            lock.release()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    common = argparse.ArgumentParser(add_help=False)
    count = arguments.at_least_one
    common.add_argument(
        "--workers", type=arguments.workers, default=4, metavar="N", help="files in parallel (%(default)s)"
    )
    common.add_argument(
        "--attempts", type=count, default=s3.ATTEMPTS, metavar="N", help="tries of each request (%(default)s)"
    )
    common.add_argument("--json", action="store_true", help="print the report as JSON")
    verbs = parser.add_subparsers(dest="verb", required=True)
    push = verbs.add_parser("push", parents=[common], help="send new and changed files")
    push.add_argument("directory", type=arguments.path, metavar="DIRECTORY", help="what to back up")
    push.add_argument("url", type=arguments.place, metavar=URL, help="where the backup is")
    push.add_argument("--rehash", action="store_true", help="read every file again, regardless of its time of change")
    restore = verbs.add_parser("restore", parents=[common], help="get everything back")
    restore.add_argument("url", type=arguments.place, metavar=URL, help="where the backup is")
    restore.add_argument("directory", type=arguments.path, metavar="DIRECTORY", help="where the files go")
    restore.add_argument("--overwrite", action="store_true", help="replace files that differ from the backup")
    verify = verbs.add_parser("verify", parents=[common], help="compare the bucket with the manifest of the backup")
    verify.add_argument("url", type=arguments.place, metavar=URL, help="where the backup is")
    verify.add_argument("--deep", action="store_true", help="read every object completely")


def run(args: argparse.Namespace) -> int:
    """Run the verb and return its exit code."""
    try:
        prefix = s3.Prefix(args.url, attempts=args.attempts)
        work = Backup(getattr(args, "directory", Path()), prefix, args.workers)
        if args.verb == "push":
            report = work.push(args.rehash)
        elif args.verb == "restore":
            report = work.restore(args.overwrite)
        else:
            report = work.verify(args.deep)
    except OSError as exc:
        sys.stderr.write(f"ERROR: {one_line(durable.reason(exc))}\n")
        return FAIL
    for problem in report.problems:
        sys.stderr.write(f"ERROR: {one_line(problem)}\n")
    line = json.dumps(dataclasses.asdict(report)) if args.json else report.line(args.verb)
    sys.stdout.write(f"{line}\n")
    return PASS if report.ok else FAIL
