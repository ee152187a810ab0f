# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where shards and manifests are kept: a folder (Lustre, NVMe) or a prefix in S3, with the same few operations."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path
from typing import Protocol

from ..errors import DataError
from . import durable, s3


class Store(Protocol):
    """Files by name. Every method raises DataError, S3Error or OSError."""

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None where there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Put a small file in place, whole or not at all."""

    def create(self, name: str, content: bytes) -> bytes:
        """Put a small file in place unless there is one; gives what stands there then."""

    def put(self, name: str, path: Path) -> None:
        """Move a finished, synced file in place, whole or not at all."""

    def names(self) -> list[str]:
        """The files, sorted."""

    def clean(self, beginning: str) -> None:
        """Remove what writers that were killed left of files whose names begin so."""

    def place(self, name: str) -> str:
        """The whole path or URL, for people."""


class Folder:
    """A folder of a file system."""

    def __init__(self, path: Path) -> None:
        """Makes the folder where it is missing. Raises OSError."""
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

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
        aside = self.path / f".{name}.{secrets.token_hex(4)}.part"
        durable.write(aside, content)
        try:
            # Unlike a rename, a link never takes the place of what another writer was faster with.
            with contextlib.suppress(FileExistsError):
                os.link(aside, self.path / name)
        finally:
            aside.unlink()
        durable.sync_directory(self.path)
        return durable.read(self.path / name)

    def put(self, name: str, path: Path) -> None:
        """See Store."""
        if path.parent != self.path:
            aside = self.path / f".{name}.{secrets.token_hex(4)}.part"
            durable.copy(path, aside)
            path.unlink()
            path = aside
        os.replace(path, self.path / name)
        durable.sync_directory(self.path)

    def names(self) -> list[str]:
        """See Store."""
        return sorted(path.name for path in self.path.iterdir() if path.is_file() and not path.name.startswith("."))

    def clean(self, beginning: str) -> None:
        """See Store."""
        for path in self.path.glob(f".{beginning}*.part"):
            path.unlink()

    def place(self, name: str) -> str:
        """See Store."""
        return str(self.path / name)


class Bucket:
    """A prefix in S3; an object is whole or absent by itself."""

    def __init__(self, prefix: s3.Prefix) -> None:
        self.prefix = prefix

    def read(self, name: str) -> bytes | None:
        """See Store."""
        return self.prefix.get(name)

    def write(self, name: str, content: bytes) -> None:
        """See Store."""
        self.prefix.put(name, content)

    def create(self, name: str, content: bytes) -> bytes:
        """See Store; of two at the same moment the later one stays, and the other one sees it when it looks again."""
        if (found := self.prefix.get(name)) is not None:
            return found
        self.prefix.put(name, content)
        return self.prefix.get(name) or b""

    def put(self, name: str, path: Path) -> None:
        """See Store."""
        self.prefix.put_file(name, path)
        path.unlink()

    def names(self) -> list[str]:
        """See Store."""
        return sorted(name for name in self.prefix.list() if "/" not in name)

    def clean(self, beginning: str) -> None:
        """See Store."""

    def place(self, name: str) -> str:
        """See Store."""
        return self.prefix.under(name)


def at(where: str) -> Store:
    """The store of a path or an s3:// URL. Raises DataError, S3Error."""
    if s3.is_url(where):
        return Bucket(s3.Prefix(where))
    return _folder(where)


def _folder(where: str) -> Folder:
    try:
        return Folder(Path(where))
    except OSError as exc:
        raise DataError(f"{where} cannot be used ({durable.reason(exc)}): name a folder that can be written") from exc


def spool(where: str, store: Store) -> Path:
    """The folder where files are written first: `where`, else the store itself, else the one for temporary files.

    Raises DataError.
    """
    if where:
        return _folder(where).path
    return store.path if isinstance(store, Folder) else Path(tempfile.gettempdir())
