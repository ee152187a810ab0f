# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints of a training for the scripts of slurm_jobs: the last good one, and those that may be deleted.

A checkpoint is a directory whose name ends in a number. It is complete if it has the marker file, which the training
writes last, and all files that the marker lists. The number, not the time, decides which is newer. Directories whose
names differ from those of complete checkpoints belong to other programs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import errno
import functools
import hashlib
import json
import logging
import os
import posixpath
import re
import stat
import sys
import typing as t

from ..system import files
from ..system.host import Host
from ..verdict import result

LOGGER = logging.getLogger("mlcluster")
BACKED_UP = ".backed-up"
# Of a copy that was begun. Earlier versions remove a checkpoint where BACKED_UP exists, whatever its content.
BEGUN = ".backup-begun"
# End of the name of an object in S3 that claims a place for one copy.
CLAIM = ".begun"
# A checkpoint that is being removed; with this name the rest of an interrupted removal never looks complete.
REMOVING = ".removing-"
# The marker that the trainer of slurm_jobs writes is a manifest of this schema.
MANIFEST = "mlcluster.checkpoint/1"
FIELDS = frozenset(("schema", "step", "world_size", "files", "notes", "created"))
SEAL = "sha256"
# Words of such a manifest. A damaged one still has some of them.
_OWN_WORDS = ("mlcluster.checkpoint", '"schema"', '"world_size"', '"created"', '"notes"', f'"{SEAL}"')
_WORDS_LEFT = 3
# Files read in parallel to prove a checkpoint.
READERS = 4
# The shortest prefix, so that all digits at the end belong to the number.
_NAME = re.compile(r"(?!\.)(.*?)(\d+)", re.DOTALL)
# The trainer of slurm_jobs appends eight hexadecimal digits.
_REMOVED = re.compile(rf"{re.escape(REMOVING)}(?!\.)(.*?)\d+(?:-[0-9a-f]{{8}})?", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """One directory: its path, its number, whether it is complete, whether its copy was verified, its name without the
    number, the device and inode that it had when it was looked at, and whether it has a marker.
    """

    path: str
    step: int
    complete: bool
    backed_up: bool
    prefix: str = ""
    identity: tuple[int, int] | None = None
    has_marker: bool = True


def find(host: Host, directory: str, marker: str) -> list[Checkpoint]:
    """Return the checkpoints of a directory, newest first; links are ignored, since their targets are not ours.

    Names that do not fit on one line are ignored, too. Raises OSError if the file system cannot determine whether a
    file exists: a checkpoint that looks incomplete because a server is away would be deleted.
    """
    found = []
    for name in _names(directory):
        match = _NAME.fullmatch(name) if name.isprintable() else None
        path = posixpath.join(directory, name)
        if match and _is_directory(path):
            # Before reading its content: only this very directory may be removed later.
            identity = _identity(path)
            complete = _whole(host, path, marker)
            backed_up = _is_backed_up(host, path)
            has_marker = _size(posixpath.join(path, marker)) is not None
            found.append(
                Checkpoint(path, int(match.group(2)), complete, backed_up, match.group(1), identity, has_marker)
            )
    return sorted(found, key=lambda entry: (-entry.step, entry.path))


def _identity(path: str, directory: int | None = None) -> tuple[int, int]:
    state = os.stat(path, dir_fd=directory, follow_symlinks=False)
    return state.st_dev, state.st_ino


def _is_directory(path: str) -> bool:
    """Return whether a path is a directory and no link. Raises OSError if that is unknown."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []


def _whole(host: Host, path: str, marker: str) -> bool:
    """Return whether the marker exists and, if it lists files with their sizes, each file has its size.

    A checkpoint that lost a file would count among those to keep and displace a good one.
    """
    if _size(posixpath.join(path, marker)) is None:
        return False
    if host.read_text(posixpath.join(path, marker)) is None:
        # Raises the error that hides it. A directory or a pipe of that name is the marker of another training.
        os.close(os.open(posixpath.join(path, marker), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    manifest = host.read_json(posixpath.join(path, marker))
    if not isinstance(manifest, dict) or manifest.get("schema") != MANIFEST:
        return True
    files = manifest.get("files")
    return isinstance(files, dict) and all(
        isinstance(of, dict)
        and isinstance(of.get("sha256"), str)
        and _size(posixpath.join(path, posixpath.basename(name))) == of.get("size")
        for name, of in files.items()
    )


def _is_backed_up(host: Host, path: str) -> bool:
    """Return whether a verified copy has the content that the checkpoint has now."""
    mark = read_mark(host, path) or {}
    if mark.get("verified") is not True or mark.get("content") is None:
        return False
    try:
        return bool(mark["content"] == content(path))
    except OSError as exc:
        # A link has lost its target, or a file was removed meanwhile.
        if not files.is_missing(exc, exc.filename or path):
            raise
        return False


def read_mark(host: Host, path: str, name: str = BACKED_UP) -> dict[str, t.Any] | None:
    """Return a mark of a copy: target, content (``content``), and whether it is verified; None without a mark.

    Empty for a mark of another version, which proves that a copy was made, and not of which content.
    """
    if not host.exists(posixpath.join(path, name)):
        return None
    mark = host.read_json(posixpath.join(path, name))
    return mark if isinstance(mark, dict) else {}


def next_place(target: str, content: str) -> str:
    """Return the place for a copy of a later ``content`` of a checkpoint, where only files of that content are.

    Its name ends in no digit, so that a folder with all copies never has it among its checkpoints.
    """
    return f"{target}.{content[:16]}.again"


def claim(target: str, content: str) -> str:
    """Return the name of the object that claims a place in S3 for the copy of this ``content``."""
    return f"{target}.{content[:16]}{CLAIM}"


def has_copy_at(host: Host, path: str, target: str) -> bool:
    """Return whether a copy of a checkpoint to this target, or a later one beside it, was made or begun."""
    for mark in (read_mark(host, path, name) for name in (BEGUN, BACKED_UP)):
        place = target if mark is None else mark.get("target", target)
        if mark is not None and isinstance(place, str) and (place == target or place.startswith(f"{target}.")):
            return True
    return False


def has_begun_copy(host: Host, path: str, target: str, files_now: str | None) -> bool:
    """Return whether a begun copy has left nothing at this target but files of the present content of a checkpoint."""
    mark = read_mark(host, path, BEGUN) or {}
    return files_now is not None and (mark.get("target"), mark.get("content")) == (target, files_now)


def begin_copy(path: str, target: str, files_now: str | None) -> None:
    """Write the mark of a copy of this ``content`` that is begun; an earlier copy no longer counts. Raises OSError."""
    files.replace_file(posixpath.join(path, BEGUN), json.dumps({"target": target, "content": files_now}).encode())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(posixpath.join(path, BACKED_UP))


def end_copy(path: str, target: str, files_now: str | None) -> None:
    """Write the mark of a verified copy of this ``content``. Raises OSError."""
    mark = {"target": target, "content": files_now, "verified": True}
    files.replace_file(posixpath.join(path, BACKED_UP), json.dumps(mark).encode())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(posixpath.join(path, BEGUN))


def content(path: str) -> str | None:
    """Return a digest that changes when any file of a checkpoint is written, exchanged, added or removed.

    It has the name, inode, size and times of change of each file: no program can set the time of change of an inode.
    Links are followed, as by aws s3. None without files. Raises OSError if a directory or file cannot be read.
    """
    found: list[list[t.Any]] = []
    for relative in _files(path):
        at = posixpath.join(path, relative)
        # A link's own state too: it could lead to another file.
        states = [os.lstat(at), os.stat(at)] if os.path.islink(at) else [os.lstat(at)]
        found.append([relative, *([s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns] for s in states)])
    return hashlib.sha256(json.dumps(sorted(found)).encode()).hexdigest() if found else None


def _files(path: str) -> t.Iterator[str]:
    """Yield the names of all files of a checkpoint but the marks of its copy. Raises OSError."""
    seen: set[tuple[int, int]] = set()
    for folder, folders, names in os.walk(path, onerror=_reraise, followlinks=True):
        identity = _identity(posixpath.join(folder, "."))
        if identity in seen:
            folders.clear()
        seen.add(identity)
        relative = (posixpath.relpath(posixpath.join(folder, name), path) for name in names)
        yield from (name for name in relative if name not in (BACKED_UP, BEGUN))


def _reraise(error: OSError) -> None:
    raise error


def is_manifest(text: str | None) -> bool:
    """Return whether a marker lists every file with its SHA-256, so that it belongs to one content only."""
    return _manifest(text or "") is not None


def lists_every_file(host: Host, path: str, marker: str) -> bool:
    """Return whether the manifest of a checkpoint lists all its other files. Raises OSError."""
    manifest = _manifest(host.read_text(posixpath.join(path, marker)) or "")
    return manifest is not None and {marker, *map(posixpath.basename, manifest["files"])} >= set(_files(path))


def _manifest(text: str) -> dict[str, t.Any] | None:
    """Return the manifest in the text of a marker, as the trainer of slurm_jobs wrote it; None for any other text.

    Manifests of earlier versions have no seal.
    """
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(manifest, dict) or manifest.get("schema") != MANIFEST:
        return None
    seal = manifest.pop(SEAL, None)
    if set(manifest) != FIELDS or not isinstance(manifest["files"], dict):
        return None
    content = json.dumps(manifest, sort_keys=True).encode()
    return manifest if seal in (None, hashlib.sha256(content).hexdigest()) else None


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError as exc:
        if not files.is_missing(exc, path):
            raise
        return None


def latest(found: t.Sequence[Checkpoint]) -> Checkpoint | None:
    """Return the newest complete checkpoint."""
    return next((entry for entry in found if entry.complete), None)


def removable(
    found: t.Sequence[Checkpoint],
    keep: int,
    backed_up_only: bool,
    proved: t.Callable[[Checkpoint], bool],
    lists_files: t.Callable[[str], bool] = lambda prefix: False,
) -> list[Checkpoint]:
    """Return the checkpoints to remove; at least one good checkpoint stays.

    ``proved`` returns whether the content of a checkpoint is good; it is called only if something may be removed.
    Prefixes are judged separately, and a prefix without a complete checkpoint is kept: ``eval_2`` is not an older
    ``step-100``. With ``backed_up_only`` a complete checkpoint is removed only if its copy was verified.
    ``lists_files`` returns whether the markers of a prefix are manifests. Such a training renames a directory only when
    it is complete, so a directory without a marker is not its own and is kept.
    """
    leaving = []
    wanted = max(keep, 1)
    for prefix in dict.fromkeys(entry.prefix for entry in found):
        same = [entry for entry in found if entry.prefix == prefix]
        complete = [entry for entry in same if entry.complete]
        old = [entry for entry in complete[wanted:] if entry.backed_up or not backed_up_only]
        half = [entry for entry in same if complete and not entry.complete and entry.step < complete[0].step]
        if half and lists_files(prefix):
            half = [entry for entry in half if entry.has_marker]
        good: list[Checkpoint] = []
        for entry in complete if old or half else []:
            if len(good) < (wanted if old else 1) and proved(entry):
                good.append(entry)
        if len(good) == wanted:
            leaving += [entry for entry in old if complete.index(entry) > complete.index(good[-1])]
        leaving += [entry for entry in half if good and entry.step < good[0].step]
    return leaving


def has_its_content(host: Host, entry: Checkpoint, marker: str, lists_files: bool = False) -> bool:
    """Return whether every file has the SHA-256 that the marker lists, read to its last byte.

    A marker without checksums, as other trainings write it, proves all it can by its existence; a manifest that is
    damaged, of another step or of another version proves nothing. lists_files: the markers of this training are
    manifests, so that any other one is damaged.
    """
    path = posixpath.join(entry.path, marker)
    text = host.read_text(path)
    if text is None:
        return False
    if not lists_files and sum(word in text for word in _OWN_WORDS) < _WORDS_LEFT:
        return True
    manifest = _manifest(text)
    if manifest is None or manifest["step"] != entry.step:
        LOGGER.error("checkpoints: %s is not the manifest that was written, or of another version: %s does not count, "
                     "and older ones stay", path, entry.path)  # fmt: skip
        return False
    files = manifest["files"].items()
    sums = {posixpath.join(entry.path, posixpath.basename(name)): of["sha256"] for name, of in files}
    with concurrent.futures.ThreadPoolExecutor(READERS) as pool:
        other = [path for path, of in zip(sums, pool.map(host.sha256, sums)) if of != sums[path]]
    for path in other:
        LOGGER.error("checkpoints: %s has other content than was written, or cannot be read: %s does not count, and "
                     "older ones stay", path, entry.path)  # fmt: skip
    return not other


def leftovers(host: Host, directory: str, found: t.Sequence[Checkpoint]) -> list[str]:
    """Return what an interrupted removal left: directories with names like those of ``found`` apart from the number.

    Other hidden names may belong to other programs.
    """
    prefixes = {entry.prefix for entry in found}
    left = []
    for name in host.listdir(directory):
        match = _REMOVED.fullmatch(name)
        path = posixpath.join(directory, name)
        state = host.stat(path) if match and match.group(1) in prefixes else None
        if state and state["is_dir"] and not state["is_link"]:
            left.append(path)
    return left


def remove(entry: Checkpoint) -> bool:
    """Remove a checkpoint; False if another process removed it first.

    Raises OSError, also if another directory has its name now: a link in its path may have been exchanged.
    """
    directory, name = posixpath.split(entry.path)
    handle = files.open_directory(directory)
    try:
        try:
            if entry.identity not in (None, _identity(name, handle)):
                raise OSError(errno.ESTALE, "it is another directory than at the look", entry.path)
            os.rename(name, REMOVING + name, src_dir_fd=handle, dst_dir_fd=handle)
        except FileNotFoundError:
            return False
        # Before its files are removed: after a power cut a partial checkpoint must not have its name again.
        os.fsync(handle)
        files.remove_tree(handle, REMOVING + name)
    finally:
        os.close(handle)
    return True


def clear(leaving: str) -> None:
    """Empty a checkpoint that is being deleted. Raises OSError, but not if another process deletes it as well."""
    files.remove_directory(leaving)


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    verb = subparsers.add_parser("checkpoints", help="show the checkpoints of a training, or remove old ones")
    verb.add_argument("directory", metavar="DIRECTORY", help="where the training writes them")
    verb.add_argument("--marker", default="complete", help="file that marks a complete checkpoint (%(default)s)")
    what = verb.add_mutually_exclusive_group()
    what.add_argument("--latest", action="store_true", help="print the newest complete one; 2 if there is none")
    what.add_argument("--not-backed-up", action="store_true", help="print the complete ones without a verified copy")
    what.add_argument("--prune", type=int, metavar="KEEP", help="remove all but this number of complete ones")
    verb.add_argument("--backed-up-only", action="store_true", help="with --prune: only those with a verified copy")
    verb.set_defaults(handler=checkpoints)


def checkpoints(args: argparse.Namespace, host: Host | None = None) -> int:
    """Print paths, one per line; the usual exit codes, and 1 if a checkpoint could not be deleted."""
    host = host or Host()
    try:
        found = find(host, args.directory, args.marker)
    except OSError as exc:
        LOGGER.error("checkpoints: %s cannot be read (%s): its checkpoints are unknown, and none is removed",
                     exc.filename, exc.strerror)  # fmt: skip
        return result.EXIT_UNDETERMINABLE
    newest = latest(found)
    if args.latest:
        sys.stdout.write(f"{newest.path}\n" if newest else "")
        return result.EXIT_OK if newest else result.EXIT_UNDETERMINABLE
    if args.not_backed_up:
        sys.stdout.write("".join(f"{entry.path}\n" for entry in found if entry.complete and not entry.backed_up))
        return result.EXIT_OK
    if args.prune is not None:
        removed, code = prune(host, args.directory, args.marker, args.prune, args.backed_up_only, found)
        sys.stdout.write("".join(f"{path}\n" for path in removed))
        return code
    for entry in found:
        words = ["complete" if entry.complete else "incomplete"] + (["backed up"] if entry.backed_up else [])
        sys.stdout.write(f"{entry.path}: {', '.join(words)}\n")
    return result.EXIT_OK


def prune(
    host: Host, directory: str, marker: str, keep: int, backed_up_only: bool, found: t.Sequence[Checkpoint]
) -> tuple[list[str], int]:
    """Take away what ``removable`` names, and what an earlier removal left; return what went, and an exit code."""

    @functools.lru_cache(None)
    def lists_files(prefix: str) -> bool:
        """Return whether any marker of a training is a manifest."""
        same = (entry.path for entry in found if entry.prefix == prefix)
        return any(is_manifest(host.read_text(posixpath.join(path, marker))) for path in same)

    leaving = removable(
        found,
        keep,
        backed_up_only,
        lambda entry: has_its_content(host, entry, marker, lists_files(entry.prefix)),
        lists_files,
    )
    removed, code = [], result.EXIT_OK
    for path in leftovers(host, directory, found):
        try:
            clear(path)
        except OSError as exc:
            LOGGER.error("checkpoints: %s could not be taken away: %s", path, exc.strerror)
            code = result.EXIT_FAIL
    for entry in leaving:
        try:
            if remove(entry):
                removed.append(entry.path)
        except OSError as exc:
            LOGGER.error("checkpoints: %s could not be taken away: %s", entry.path, exc.strerror)
            code = result.EXIT_FAIL
    return removed, code
