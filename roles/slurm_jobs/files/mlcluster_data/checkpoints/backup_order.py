# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which files are backed up, so that no incomplete checkpoint in the bucket looks complete."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Container, Iterable
from pathlib import Path, PurePosixPath

from ..files import durable, s3
from ..files.durable import FileSum
from . import directory as checkpoint_store
from .directory import COMPLETE, LATEST, DirectoryStore, StoreError, TornError


def rounds(names: Iterable[str]) -> list[list[str]]:
    """Return names in the order of copying: files, then the manifests of checkpoints, then ``latest``."""
    order: list[list[str]] = [[], [], []]
    for name in names:
        last = PurePosixPath(name).name
        order[2 if last == LATEST else 1 if last == COMPLETE else 0].append(name)
    return order


def places(directory: Path, names: Iterable[str], prefix: s3.Prefix, objects: Container[str]) -> dict[str, str]:
    """Return the folder in the bucket for each checkpoint among the names, by its own folder. Raises OSError, S3Error.

    A folder in the bucket gets the manifest of one checkpoint only: sending another one over it would leave neither if
    it is cut short. The other one gets a folder beside it, with digits of its manifest in the name.
    """
    found = {}
    for name in rounds(names)[1]:
        folder = str(PurePosixPath(name).parent)
        if checkpoint_store.step_of(PurePosixPath(folder).name) is None:
            continue
        # Retention may remove it meanwhile.
        with contextlib.suppress(FileNotFoundError):
            manifest = durable.read(directory / name)
            taken = name in objects and prefix.get(name) != manifest
            again = f".{hashlib.sha256(manifest).hexdigest()[:16]}.again" if taken else ""
            found[folder] = f"{folder}{again}"
    return found


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
            # Before it is read: one that is written anew meanwhile would stand beside files of the earlier checkpoint.
            itself = durable.digest(place / COMPLETE)
            files = DirectoryStore(place.parent).manifest(step).files
            if other := sorted(file for file, of in files.items() if _size(place / file) != of.size):
                raise TornError(f"{place / other[0]} is gone or of another size than its manifest lists")
            # Links are passed over, and without such a file the copy would look complete.
            if unsent := sorted(file for file in files if str(PurePosixPath(folder, file)) not in sent):
                raise TornError(f"{place / unsent[0]} is a link or has a name that is never sent")
        except (TornError, StoreError, FileNotFoundError) as exc:
            # A checkpoint that retention removes meanwhile is not a failure.
            if (place / COMPLETE).exists():
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
