# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes files in directories that others may write to, on a node and on the controller.

A file is new under a random name in the same directory, is synced, and takes its place in one step; the directory is
synced after that. A link, pipe or device under either name is never followed or opened.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import typing as t

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
AnyPath = t.Union[str, "os.PathLike[str]"]


def open_new(path: AnyPath, mode: int = 0o600, directory: int | None = None) -> int:
    """Return a descriptor of a file that did not exist; raises ``FileExistsError`` for a taken name, a link's too.

    directory is an open directory that path is relative to.
    """
    return os.open(path, NEW, mode, dir_fd=directory)


def write_new(
    path: AnyPath,
    data: bytes,
    settle: t.Callable[[int], None] | None = None,
    directory: int | None = None,
    sync: bool = True,
) -> None:
    """Write a new file of mode 0600 and sync it; nothing is left of it after an error.

    settle is called with the descriptor once the data is written, to set owner and mode. sync: whether it has to
    survive a power cut.
    """
    handle = open_new(path, directory=directory)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            if settle:
                settle(stream.fileno())
            if sync:
                os.fsync(stream.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path, dir_fd=directory)
        raise


def replace_file(
    path: AnyPath,
    data: bytes,
    mode: int = 0o644,
    settle: t.Callable[[int], None] | None = None,
    sync: bool = True,
) -> None:
    """Replace a file, durably: a reader sees the old data or the new, also after a power cut.

    mode does not depend on the umask; settle takes its place, see ``write_new``. A link at path is replaced itself.
    Without sync a power cut may leave the file empty: for progress that is written several times a second.
    """
    folder, name = os.path.split(os.fspath(path))
    handle = os.open(folder or ".", DIRECTORY)
    try:
        replace_in(handle, name, data, mode, settle, sync)
    finally:
        os.close(handle)


def replace_in(
    directory: int,
    name: str,
    data: bytes,
    mode: int = 0o644,
    settle: t.Callable[[int], None] | None = None,
    sync: bool = True,
) -> None:
    """Replace a file of an open directory, as ``replace_file`` does."""
    fresh = f".{name}.{secrets.token_hex(8)}"
    write_new(fresh, data, settle or (lambda handle: os.fchmod(handle, mode)), directory, sync)
    try:
        os.replace(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh, dir_fd=directory)
        raise
    if sync:
        os.fsync(directory)


def sync_directory(path: AnyPath) -> None:
    """Let what was made, renamed or removed in a directory survive a power cut."""
    handle = os.open(path, DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
