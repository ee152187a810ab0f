# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which files are backed up, so that no incomplete checkpoint in the bucket looks complete."""

from __future__ import annotations

import contextlib
import hashlib
import typing as t
from collections.abc import Container, Iterable, Mapping
from pathlib import Path, PurePosixPath

from ..files import durable, s3
from ..files.durable import FileSum
from . import directory as checkpoint_store
from .directory import COMPLETE, LATEST, DirectoryStore, StoreError, TornError


class Listed(t.Protocol):
    """A file in the manifest of a backup."""

    @property
    def sum(self) -> FileSum:
        """Size and SHA-256."""

    def is_current(self, name: str, objects: Mapping[str, s3.Remote]) -> bool:
        """Return whether the object of the file ``name`` still has the entity tag of the manifest."""


Files = dict[str, t.Any]


def rounds(names: Iterable[str]) -> list[list[str]]:
    """Return names in the order of copying: files, then the manifests of checkpoints, then ``latest``."""
    order: list[list[str]] = [[], [], []]
    for name in names:
        last = PurePosixPath(name).name
        order[2 if last == LATEST else 1 if last == COMPLETE else 0].append(name)
    return order


def places(
    directory: Path,
    names: Iterable[str],
    prefix: s3.Prefix,
    objects: Mapping[str, s3.Remote],
    listed: Mapping[str, FileSum],
) -> dict[str, str]:
    """Return the folder in the bucket for each checkpoint among the names, by its own folder. Raises OSError, S3Error.

    A folder in the bucket gets files of one checkpoint only: sending another one over it would leave neither if it is
    cut short, and another program may be sending that one just now. The other one gets a folder beside it, with digits
    of its manifest in the name, so that all who write there write the same. ``listed``: the sums of the files.
    """
    found = {}
    for name in rounds(names)[1]:
        folder = str(PurePosixPath(name).parent)
        if checkpoint_store.step_of(PurePosixPath(folder).name) is None:
            continue
        # Retention may remove it meanwhile. Its remaining files must not go to the folder of another one.
        found[folder] = f"{folder}.gone.again"
        with contextlib.suppress(FileNotFoundError):
            manifest = durable.read(directory / name)
            if name in objects:
                taken = prefix.get(name) != manifest
            else:
                taken = _has_other_files(directory, folder, prefix, objects, listed)
            again = f".{hashlib.sha256(manifest).hexdigest()[:16]}.again" if taken else ""
            found[folder] = f"{folder}{again}"
    return found


def _has_other_files(
    directory: Path, folder: str, prefix: s3.Prefix, objects: Mapping[str, s3.Remote], listed: Mapping[str, FileSum]
) -> bool:
    """Return whether a folder without a manifest has objects that are not proved to be the files of a checkpoint."""
    ours = [name for name in listed if name.startswith(f"{folder}/") and name in objects]
    return any(
        objects[name].size != listed[name].size
        or prefix.holding(name, s3.measure(directory / name, prefix.part)) is None
        for name in ours
    )


def current(before: Files, proved: Files, objects: Mapping[str, s3.Remote]) -> tuple[Files, list[str]]:
    """Return the files that may be listed now that the objects are these, and those that another program replaced.

    A file is replaced after it was sent. A checkpoint with such a file is not listed, but the earlier one of its name.
    """
    replaced = sorted(
        name for name, of in proved.items() if before.get(name) != of and not of.is_current(name, objects)
    )
    folders = _folders(before, proved)
    found = dict(proved)
    for name in replaced:
        folder = checkpoint_of(name, folders)
        for other in [other for other in {**before, **proved} if other == name or _is_in(other, folder)]:
            found.pop(other, None)
            if other in before and before[other].is_current(other, objects):
                found[other] = before[other]
    return found, replaced


def merged(before: Files, proved: Files, now: Files) -> Files:
    """Return the files of the new manifest: the changes since ``before``, and those that others wrote meanwhile.

    Of two checkpoints of one name, the files of one are listed: of the one that this run sent, else of the others'.
    """
    changed = {name: of for name, of in proved.items() if before.get(name) != of}
    kept = {name: of for name, of in now.items() if name in proved or of != before.get(name)}
    found = {**kept, **changed}
    for folder in _folders(before, proved, now):
        sums = [_sum(files.get(f"{folder}/{COMPLETE}")) for files in (before, proved, now)]
        is_ours, is_theirs = (of not in (None, sums[0]) for of in sums[1:])
        if sums[1] != sums[2] and (is_ours or is_theirs):
            whole = proved if is_ours else now
            found = {name: of for name, of in found.items() if not _is_in(name, folder)}
            found |= {name: of for name, of in whole.items() if _is_in(name, folder)}
    return found


def possible(files: Files, own: Container[str]) -> Files:
    """Return the files that can exist together with those of this run, whose names are ``own``.

    A folder may have the name of an earlier file, or a file that of an earlier folder: the later one replaces it.
    """
    names = {name for name in files if name in own}
    folders = {above for name in names for above in _above(name)}
    return {
        name: of
        for name, of in files.items()
        if name in names or not (name in folders or any(above in names for above in _above(name)))
    }


def _above(name: str) -> list[str]:
    """Return the folders above a file."""
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _sum(copy: Listed | None) -> FileSum | None:
    return copy.sum if copy else None


def _folders(*lists: Files) -> set[str]:
    """Return the folders of the checkpoints in lists of files."""
    wholes = {PurePosixPath(name) for files in lists for name in files if PurePosixPath(name).name == COMPLETE}
    return {str(whole.parent) for whole in wholes if checkpoint_store.step_of(whole.parent.name) is not None}


def _is_in(name: str, folder: str) -> bool:
    return bool(folder) and name.startswith(f"{folder}/")


def checkpoint_of(name: str, folders: Container[str]) -> str:
    """Return the folder of the checkpoint that a file belongs to, empty for any other file."""
    return next((str(above) for above in PurePosixPath(name).parents if str(above) in folders), "")


def sound(directory: Path, names: list[str]) -> tuple[list[str], dict[str, FileSum], list[str]]:
    """Return the names without damaged checkpoints, the other manifests and the files that they list, and problems.

    A damaged checkpoint would replace its good copy. If there is one, ``latest`` is left out too, since it may name it.
    Content is not read here. Raises OSError.
    """
    damaged: set[str] = set()
    listed: dict[str, FileSum] = {}
    problems = []
    sent = set(names)
    for name in rounds(names)[1]:
        folder = str(PurePosixPath(name).parent)
        place = directory / folder
        step = checkpoint_store.step_of(place.name)
        if step is None:
            continue
        try:
            # Before it is read: one that is written again meanwhile would stand beside files of the earlier checkpoint.
            itself = durable.digest(place / COMPLETE)
            files = DirectoryStore(place.parent).manifest(step).files
            if other := sorted(file for file, of in files.items() if _size(place / file) != of.size):
                raise TornError(f"{place / other[0]} is gone or of another size than its manifest lists")
            # Links are passed over, and without such a file the copy would look complete.
            if unsent := sorted(file for file in files if str(PurePosixPath(folder, file)) not in sent):
                raise TornError(f"{place / unsent[0]} is a link or has a name that is never sent")
        except (TornError, StoreError, FileNotFoundError) as exc:
            # A checkpoint that retention removes meanwhile is not a failure.
            if durable.state(place / COMPLETE):
                damaged.add(folder)
                problems.append(f"{exc}: this checkpoint was not sent, and an existing copy is kept")
            continue
        listed |= {name: itself, **{str(PurePosixPath(folder, file)): of for file, of in files.items()}}
    kept = [name for order in rounds(names)[: 2 if damaged else 3] for name in order]
    return [name for name in kept if str(PurePosixPath(name).parent) not in damaged], listed, problems


def _size(path: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return path.stat().st_size
    return None
