# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write files safely in directories that are writable for others, on a node and on the controller.

A file is created under a random name in the same directory, synced, and renamed atomically; the directory is synced
after that. A link, pipe or device under either name is never followed or opened, and the path of the directory may
contain only trusted links.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import typing as t

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# A step on the way to a directory: it may be accessible but not readable.
STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
LINKS_MOST = 40
# Limit of nested directories that are removed: each stays open, and a process may have 1024 open files.
DEEPEST = 200
AnyPath = t.Union[str, "os.PathLike[str]"]


def open_directory(path: AnyPath, make: bool = False, last: int = DIRECTORY) -> int:
    """Return a descriptor of a directory that was reached step by step, over trusted links only.

    make: create missing directories, readable for all with any umask. last: the flags for the directory itself. A link
    is trusted if it is of root or of this user; for a user who is not root, also in a directory that not all users may
    write, and of the directory's owner. Raises OSError.
    """
    text = os.fspath(path)
    if not hasattr(os, "O_PATH"):
        # A controller that is not a Linux.
        return os.open(text or ".", last)
    left = _parts(text)
    handle = os.open("/" if text.startswith("/") else ".", STEP if left else last)
    links = 0
    try:
        while left:
            part = left.pop(0)
            try:
                inner = _entered(handle, part, make, last if not left else None)
            except OSError as exc:
                if exc.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
                target = _trusted_link(handle, part)
                links += 1
                if links > LINKS_MOST:
                    raise
                left = [*_parts(target), *left]
                inner = os.open("/" if target.startswith("/") else ".", STEP if left else last, dir_fd=handle)
            os.close(handle)
            handle = inner
    except OSError as exc:
        os.close(handle)
        exc.filename = text
        raise
    return handle


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _entered(parent: int, name: str, make: bool, last: int | None) -> int:
    """Open the next directory of a path; last: the flags for the last one."""
    if make:
        # Umasks of hardened nodes are 027 or 077, and jobs of users read the configuration.
        before = os.umask(0o022)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
        finally:
            os.umask(before)
    try:
        return os.open(name, (DIRECTORY if last is None else last) | os.O_NOFOLLOW, dir_fd=parent)
    except PermissionError:
        if last is not None:
            raise
        # Only now: opening for reading triggers an automount, this open does not.
        return os.open(name, STEP | os.O_NOFOLLOW, dir_fd=parent)


def _trusted_link(parent: int, name: str) -> str:
    """Return the target of a link that only trusted users can have made. Raises OSError."""
    handle = os.open(name, STEP & ~os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        found, around = os.fstat(handle), os.fstat(parent)
        if not stat.S_ISLNK(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
        known = {0, os.geteuid()}
        if os.geteuid() != 0:
            known.add(around.st_uid)
        if found.st_uid not in known and (os.geteuid() == 0 or around.st_mode & stat.S_IWOTH):
            raise OSError(errno.ELOOP, f"{name} is a link of another user, which is not followed", name)
        # From the handle, so that the link cannot be exchanged in between.
        return os.readlink("", dir_fd=handle)
    finally:
        os.close(handle)


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
    """Write a new file of mode 0600 and sync it; it is removed after an error.

    settle is called with the descriptor after the data is written, to set owner and mode. sync: whether it must
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
    """Replace a file durably: a reader sees the old data or the new, also after a power cut.

    mode does not depend on the umask; settle takes its place, see ``write_new``. A link at path is replaced itself.
    Without sync a power cut may leave the file empty: for progress that is written several times a second.
    """
    folder, name = os.path.split(os.fspath(path))
    handle = open_directory(folder)
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


def remove_tree(directory: int, name: str, deepest: int = DEEPEST, ignored: type[OSError] = FileNotFoundError) -> None:
    """Remove a directory of an open one with its content, also if another process does the same.

    Nothing is followed or waited for: shutil.rmtree() would open a pipe of that name. A file system that is mounted
    inside is never entered. Raises OSError, also for such a mount point and if it is not a directory, unless it is
    ``ignored``: then the rest is removed.
    """
    with contextlib.suppress(ignored):
        if not deepest:
            raise OSError(errno.ENAMETOOLONG, "has too many directories in each other", name)
        if _is_gone(directory, name):
            return
        handle = os.open(name, DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
        try:
            for entry in os.listdir(handle):
                with contextlib.suppress(ignored):
                    if stat.S_ISDIR(os.stat(entry, dir_fd=handle, follow_symlinks=False).st_mode):
                        remove_tree(handle, entry, deepest - 1, ignored)
                    else:
                        os.unlink(entry, dir_fd=handle)
        finally:
            os.close(handle)
        os.rmdir(name, dir_fd=directory)


def _is_gone(directory: int, name: str) -> bool:
    """Remove a directory if it is empty; return whether it was. Raises OSError with EBUSY for a mount point."""
    try:
        os.rmdir(name, dir_fd=directory)
    except OSError as exc:
        # POSIX allows both.
        if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def remove_directory(path: AnyPath) -> None:
    """Remove a directory with its content, as ``remove_tree`` does. Raises OSError."""
    folder, name = os.path.split(os.fspath(path))
    handle = open_directory(folder)
    try:
        remove_tree(handle, name)
    finally:
        os.close(handle)


def is_missing(error: OSError, path: AnyPath) -> bool:
    """Return whether an error proves that nothing is at a path. Any other one, as of a server that is away, does not.

    ELOOP alone is no proof: an automounter whose server does not answer reports it, too.
    """
    return error.errno in (errno.ENOENT, errno.ENOTDIR) or (error.errno == errno.ELOOP and _is_loop(os.fspath(path)))


def _is_loop(path: str) -> bool:
    """Return whether a link leads back to itself over links alone; False also if that is unknown."""
    seen: set[str] = set()
    while path not in seen:
        seen.add(path)
        try:
            target = os.readlink(path)
        except OSError:
            return False
        # The parent of a folder that is a link is elsewhere.
        if ".." in target.split("/"):
            return False
        path = os.path.join(os.path.dirname(path), target)
    return True


def may_exist(path: AnyPath, follow: bool = False) -> bool:
    """Return whether anything has a name, or may have it: False only if that is proved.

    os.path.exists() and os.path.lexists() are False for every error. ``follow``: whether a broken link counts as
    missing.
    """
    try:
        os.stat(path, follow_symlinks=follow)
    except OSError as exc:
        return not is_missing(exc, path)
    except ValueError:
        # A name with a null character.
        return False
    return True


def discard_directory(path: AnyPath) -> None:
    """Remove a directory with its content as far as possible, and report no error.

    Unlike shutil.rmtree() it never enters a file system that is mounted inside, a bind mount included.
    """
    folder, name = os.path.split(os.fspath(path))
    with contextlib.suppress(OSError):
        handle = open_directory(folder or ".")
        try:
            remove_tree(handle, name, ignored=OSError)
        finally:
            os.close(handle)


def sync_directory(path: AnyPath) -> None:
    """Sync a directory, so that created, renamed or removed entries survive a power cut."""
    handle = open_directory(path)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
