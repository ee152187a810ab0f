# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are whole or absent, whatever ends the process: written aside, synced, renamed, the directory synced."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import os
import shutil
import stat
import tempfile
import typing as t
from pathlib import Path

CHUNK = 8 << 20


@dataclasses.dataclass(frozen=True)
class FileSum:
    """What tells one content from another: its size in bytes and its SHA-256 in hexadecimal digits."""

    size: int
    sha256: str


def sync_directory(path: Path) -> None:
    """Make the names in a directory outlast a power failure. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_plain(path: Path) -> int:
    """A descriptor to read a plain file by. Raises OSError, also for a pipe or a device, which might never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        number, why = (errno.EISDIR, "Is a directory") if stat.S_ISDIR(mode) else (errno.EINVAL, "not a plain file")
        raise OSError(number, why, str(path))
    return descriptor


def read(path: Path) -> bytes:
    """A plain file as a whole. Raises OSError."""
    with os.fdopen(open_plain(path), "rb") as file:
        return file.read()


def digest(path: Path) -> FileSum:
    """Read a file in pieces of 8 MiB. Raises OSError."""
    found = hashlib.sha256()
    size = 0
    with open(path, "rb") as file:
        while piece := file.read(CHUNK):
            found.update(piece)
            size += len(piece)
    return FileSum(size, found.hexdigest())


def write(path: Path, content: bytes) -> None:
    """Put a file in place of what has its name, mode 0644 less the umask. Raises OSError, and then leaves no half."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644 & ~_umask())
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    sync_directory(path.parent)


def copy(source: Path, target: Path) -> FileSum:
    """Copy to a name that is not taken, synced; what is returned is of the bytes that were written.

    Raises OSError (FileExistsError for a taken name), and then leaves no half.
    """
    found = hashlib.sha256()
    size = 0
    with open(source, "rb") as reader, open(target, "xb") as writer:
        try:
            while piece := reader.read(CHUNK):
                writer.write(piece)
                found.update(piece)
                size += len(piece)
            writer.flush()
            os.fsync(writer.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(target)
            raise
    return FileSum(size, found.hexdigest())


def remove_tree(path: Path) -> None:
    """Remove a directory and all in it, also where another process does the same. Raises OSError."""
    shutil.rmtree(path, onerror=_unless_gone)


def _unless_gone(_function: t.Any, _path: str, about: t.Any) -> None:
    if not isinstance(about[1], FileNotFoundError):
        raise about[1]


def reason(error: BaseException) -> str:
    """An error in a few words, with the path and the advice that fit it."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return str(error) or type(error).__name__


def _umask() -> int:
    # Linux tells it without changing it, which os.umask() would do for every thread.
    with contextlib.suppress(OSError, StopIteration, ValueError), open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("Umask:"))
        return int(line.split()[1], 8)
    return 0o022


def pieces(path: Path, size: int) -> t.Iterator[bytes]:
    """The content of a file in pieces of `size` bytes, the last one shorter. Raises OSError."""
    with open(path, "rb") as file:
        while piece := file.read(size):
            yield piece
