# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read samples from shards: fetch them from a folder or S3, cache them on the local NVMe, check their SHA-256."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import webdataset
import webdataset.tariterators

from ..corpus.manifest import Shard
from ..errors import CorruptError, DataError
from ..files import durable, s3
from ..sharding import tar as shards

# The space that a cache without a limit leaves free on its disk.
LEFT_FREE = 0.1
# Names of a cache's files, unfinished ones included. Other files in its folder are not its own.
_KEPT = re.compile(r"\.?[0-9a-f]{24}-.+")


class Source:
    """The place of the shards; each process creates its own client for S3, which does not survive a fork."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._prefix: s3.Prefix | None = None
        self._pid = 0

    def read(self, name: str) -> bytes:
        """Return a whole file. Raises DataError, S3Error."""
        if not s3.is_url(self.where):
            path = Path(self.where) / name
            try:
                return path.read_bytes()
            except OSError as exc:
                raise DataError(f"{path} cannot be read ({exc.strerror}): repair it, or make it again") from exc
        if self._prefix is None or self._pid != os.getpid():
            self._prefix, self._pid = s3.Prefix(self.where), os.getpid()
        content = self._prefix.get(name)
        if content is None:
            raise DataError(f"{self._prefix.url_of(name)} is missing: check the prefix, or make it again")
        return content


class Cache:
    """A cache of shards on the local NVMe; the longest unused ones are removed for new ones."""

    def __init__(self, folder: Path, max_bytes: int = 0) -> None:
        """Keep at most ``max_bytes`` bytes (0: nine tenths of the disk). Raises DataError."""
        try:
            durable.make_directory(folder)
        except OSError as exc:
            raise DataError(f"{folder} cannot keep shards ({exc.strerror}): use a folder on the local disks") from exc
        self.folder = folder
        self.max_bytes = max_bytes
        self.full = False

    def path(self, shard: Shard) -> Path:
        """Return the path of a shard, named by its content: a rebuilt data set is never mistaken for the old one."""
        return self.folder / f"{shard.sha256[:24]}-{Path(shard.name).name}"

    def read(self, shard: Shard) -> bytes | None:
        """Return a cached shard, None without one; a damaged one is removed."""
        path = self.path(shard)
        try:
            content = path.read_bytes()
            if is_whole(content, shard):
                os.utime(path, follow_symlinks=False)
                return content
            path.unlink()
        except OSError:
            return None
        return None

    def keep(self, shard: Shard, content: bytes) -> None:
        """Store a shard if there is space; a full disk is logged once and is not an error."""
        try:
            self._make_room(len(content))
            # Another process may remove it to get space. Not synced, because it is only used if its checksum is right.
            with (
                contextlib.suppress(FileNotFoundError),
                durable.Directory.open(self.folder) as here,
                here.making(self.path(shard).name, 0o600, sync=False) as file,
            ):
                file.write(content)
        except OSError as exc:
            if exc.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
                raise
            if not self.full:
                print(f"{self.folder}: {exc.strerror}, shards are read without caching them here", file=sys.stderr)
            self.full = True

    def _make_room(self, size: int) -> None:
        disk = os.statvfs(self.folder)
        max_bytes = self.max_bytes or int(disk.f_blocks * disk.f_frsize * (1 - LEFT_FREE))
        kept = []
        for path in self.folder.iterdir():
            if not _KEPT.fullmatch(path.name):
                continue
            with contextlib.suppress(FileNotFoundError):
                state = path.lstat()
                kept.append((state.st_mtime_ns, state.st_size, path))
        total = sum(one[1] for one in kept)
        for _used, taken, path in sorted(kept):
            if total + size <= max_bytes:
                return
            # A process that reads it has it open, or fetches it again.
            path.unlink(missing_ok=True)
            total -= taken


def is_whole(content: bytes, shard: Shard) -> bool:
    """Return whether these bytes have the size and SHA-256 of the manifest."""
    return len(content) == shard.bytes and hashlib.sha256(content).hexdigest() == shard.sha256


class Reader:
    """Reads shards of one data set."""

    def __init__(self, source: Source, cache: Cache | None = None) -> None:
        self.source = source
        self.cache = cache

    def load(self, shard: Shard) -> bytes:
        """Return a shard's bytes after checking them. Raises CorruptError, DataError, S3Error."""
        if self.cache and (content := self.cache.read(shard)) is not None:
            return content
        content = self.source.read(shard.name)
        if not is_whole(content, shard):
            raise CorruptError(
                f"{self.source.where}/{shard.name} is corrupt: its {len(content)} bytes do not have the manifest's "
                "SHA-256; remove it and run its preprocess task again, or read on without it (on_corrupt skip)"
            )
        if self.cache:
            self.cache.keep(shard, content)
        return content

    def samples(self, shard: Shard) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the samples of a shard in order: (number, ids). Raises CorruptError, DataError, S3Error."""
        opened = [{"url": shard.name, "stream": io.BytesIO(self.load(shard))}]
        try:
            files = webdataset.tariterators.tar_file_expander(iter(opened))
            for group in webdataset.tariterators.group_by_keys(files):
                yield from shards.samples_of(group, shard.name)
        except (tarfile.TarError, ValueError, EOFError) as exc:
            raise CorruptError(f"{self.source.where}/{shard.name} is not a tar of samples ({exc}): remake it") from exc
