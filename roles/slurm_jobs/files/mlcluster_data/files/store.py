# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stores of shards and manifests: a folder (Lustre, NVMe) or a prefix in S3, with the same operations."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Protocol

from ..errors import DataError
from . import durable, s3
from .durable import Directory, FileSum, Signature


class Store(Protocol):
    """Files by name. Every method raises DataError, S3Error or OSError."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file; None if it is missing."""

    def write(self, name: str, content: bytes) -> None:
        """Write a small file, completely or not at all."""

    def create(self, name: str, content: bytes) -> bytes:
        """Write a small file unless it exists; return the content that is there then."""

    def put(self, name: str, path: Path, wanted: FileSum) -> object:
        """Move a finished, synced file to its place, completely or not at all; return its signature.

        Raises DataError if the file has another sum.
        """

    def proof(self, name: str, wanted: FileSum) -> object | None:
        """Read a file; return its signature, None if it is missing or has another sum."""

    def signatures(self) -> dict[str, object]:
        """Return a value for each file that changes when the file is written; a failing disk does not change it."""

    def clean(self, beginning: str) -> None:
        """Remove unfinished files of killed writers whose names begin with this prefix."""

    def place(self, name: str) -> str:
        """Return the full path or URL, for messages."""


class Folder:
    """A folder of a file system."""

    def __init__(self, path: Path) -> None:
        """Make the folder if it is missing. Raises OSError."""
        self.path = path
        durable.make_directory(path)

    def read(self, name: str) -> bytes | None:
        """See Store."""
        try:
            return durable.read(self.path / name)
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """See Store."""
        durable.write(self.path / name, content)

    def create(self, name: str, content: bytes) -> bytes:
        """See Store."""
        aside = durable.aside_of(name)
        with Directory.open(self.path) as here:
            with here.new(aside) as file:
                file.write(content)
            try:
                # Unlike a rename, a link never replaces the file of a faster writer.
                with contextlib.suppress(FileExistsError):
                    here.link(aside, name)
            finally:
                here.remove(aside)
            here.sync()
            return here.read(name)

    def put(self, name: str, path: Path, wanted: FileSum) -> object:
        """See Store."""
        with Directory.open(self.path) as here:
            if path.parent == self.path:
                here.rename(path.name, name)
                here.sync()
            else:
                with here.making(name, 0o644) as file:
                    _compare(path, durable.copy(path, file), wanted)
                path.unlink()
            state = here.state(name)
            return state and Signature.of(state)

    def proof(self, name: str, wanted: FileSum) -> object | None:
        """See Store."""
        with Directory.open(self.path) as here:
            before = here.state(name)
            if before is None or before.st_size != wanted.size or here.digest(name) != wanted:
                return None
            return Signature.of(before)

    def signatures(self) -> dict[str, object]:
        """See Store."""
        found: dict[str, object] = {}
        with Directory.open(self.path) as here:
            for name in os.listdir(here.descriptor):
                if not name.startswith(".") and here.is_plain(name) and (state := here.state(name)):
                    found[name] = Signature.of(state)
        return found

    def clean(self, beginning: str) -> None:
        """See Store."""
        for path in self.path.glob(f".{beginning}*{durable.PART}"):
            if durable.is_aside(path.name):
                path.unlink()

    def place(self, name: str) -> str:
        """See Store."""
        return str(self.path / name)


class Bucket:
    """A prefix in S3, where an object is complete or absent."""

    def __init__(self, prefix: s3.Prefix) -> None:
        self.prefix = prefix

    def read(self, name: str) -> bytes | None:
        """See Store."""
        return self.prefix.get(name)

    def write(self, name: str, content: bytes) -> None:
        """See Store."""
        self.prefix.put(name, content)

    def create(self, name: str, content: bytes) -> bytes:
        """See Store. Of two concurrent writes the later one stays, and the other writer sees it when it reads again."""
        if (found := self.prefix.get(name)) is not None:
            return found
        self.prefix.put(name, content)
        return self.prefix.get(name) or b""

    def put(self, name: str, path: Path, wanted: FileSum) -> object:
        """See Store."""
        found, etag = self.prefix.put_file(name, path)
        _compare(path, found, wanted)
        path.unlink()
        return s3.Remote(found.size, etag)

    def proof(self, name: str, wanted: FileSum) -> object | None:
        """See Store."""
        before = self.prefix.list(name).get(name)
        try:
            return before if before and before.size == wanted.size and self.prefix.measure(name) == wanted else None
        except s3.AbsentError:
            return None

    def signatures(self) -> dict[str, object]:
        """See Store."""
        return {name: remote for name, remote in self.prefix.list().items() if "/" not in name}

    def clean(self, beginning: str) -> None:
        """See Store."""

    def place(self, name: str) -> str:
        """See Store."""
        return self.prefix.url_of(name)


def _compare(path: Path, found: FileSum, wanted: FileSum) -> None:
    if found != wanted:
        raise DataError(f"{path} has other content than was written to it, so it is not used: start the task again")


def at(where: str) -> Store:
    """Return the store of a path or an s3:// URL. Raises DataError, S3Error."""
    if s3.is_url(where):
        return Bucket(s3.Prefix(where))
    return _folder(where)


def _folder(where: str) -> Folder:
    try:
        return Folder(Path(where))
    except OSError as exc:
        raise DataError(f"{where} cannot be used ({durable.reason(exc)}): use a folder that can be written") from exc


def spool(where: str, store: Store) -> Path:
    """Return the folder where files are written first: ``where``, else the store, else the temporary directory.

    Raises DataError.
    """
    if where:
        return _folder(where).path
    return store.path if isinstance(store, Folder) else Path(tempfile.gettempdir())
