# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write files that are complete or absent, whatever ends the process, also in directories that others may write.

Only this module opens a file for writing. A file is created under a random name (O_EXCL, O_NOFOLLOW) in an open
directory, synced and renamed, and the directory is synced. Links below an open directory are rejected, never followed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import itertools
import os
import re
import secrets
import stat
import typing as t
from pathlib import Path

# Limit of nested directories that are removed: each stays open, and a process may open 1024 files.
DEEPEST = 200
CHUNK = 8 << 20
# The longest name that a file system allows, in bytes (NAME_MAX of Linux).
NAME_MOST = 255
PART = ".part"
_TOKEN_BYTES = 8
_UNFINISHED = re.compile(rf"\.(.*)\.[0-9a-f]{{{2 * _TOKEN_BYTES}}}{re.escape(PART)}", re.DOTALL)
_ASIDE = re.compile(rf"\..*[.-][0-9a-f]{{{2 * _TOKEN_BYTES}}}{re.escape(PART)}", re.DOTALL)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclasses.dataclass(frozen=True)
class FileSum:
    """The identity of content: its size in bytes and its SHA-256 in hexadecimal digits."""

    size: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Signature:
    """Values that change with the content of a file, unless its disk fails: inode, size, times of change in ns."""

    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, state: os.stat_result) -> Signature:
        """Return the signature in a result of stat()."""
        return cls(state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


class Directory:
    """An open directory. Its methods raise OSError, also for a link where a file or directory is expected."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self.descriptor = path, descriptor

    @classmethod
    def open(cls, path: Path) -> Directory:
        """Open a directory by a path of the user, in which links are followed."""
        return cls(path, os.open(path, _FOLDER))

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_about: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory; all other methods fail after that."""
        os.close(self.descriptor)

    def sync(self) -> None:
        """Sync the directory, so that its names survive a power failure."""
        os.fsync(self.descriptor)

    def below(self, *names: str, make: bool = False) -> Directory:
        """Open a directory below this one, name by name; ``make`` creates what is missing, each name synced."""
        found = Directory(self.path, os.dup(self.descriptor))
        for name in names:
            with found as parent:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=parent.descriptor)
                        parent.sync()
                found = Directory(parent.path / name, parent._open(name, _FOLDER | os.O_NOFOLLOW))
        return found

    def private(self, begin: str) -> Directory:
        """Create a directory for this user alone, with a random name after this prefix, and open it."""
        name = begin + secrets.token_hex(_TOKEN_BYTES)
        os.mkdir(name, 0o700, dir_fd=self.descriptor)
        return self.below(name)

    def state(self, name: str) -> os.stat_result | None:
        """Return the lstat() of a name; None if it is missing."""
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def is_plain(self, name: str) -> bool:
        """Return whether a name is a plain file and no link to one."""
        state = self.state(name)
        return state is not None and stat.S_ISREG(state.st_mode)

    def read(self, name: str) -> bytes:
        """Read a plain file as a whole."""
        with self.reading(name) as file:
            return file.read()

    def digest(self, name: str) -> FileSum:
        """Return the sum of a plain file."""
        with self.reading(name) as file:
            return _sum_of(file)

    def reading(self, name: str) -> t.BinaryIO:
        """Open a plain file to read."""
        return os.fdopen(_only_plain(self._open(name, _READ | os.O_NOFOLLOW), self.path / name), "rb")

    def write(self, name: str, content: bytes) -> None:
        """Write a file, mode 0644 less the umask; an existing file of that name is replaced."""
        with self.making(name) as file:
            file.write(content)

    @contextlib.contextmanager
    def making(self, name: str, mode: int | None = None, sync: bool = True) -> t.Iterator[t.BinaryIO]:
        """Yield a file to write with a random name, which replaces ``name`` if the block succeeds.

        Otherwise it is removed. ``mode``: that of the file, by default 0644 less the umask. ``sync``: whether it must
        survive a power failure.
        """
        aside = aside_of(name)
        # pylint overlooks that new() handles BaseException, of which GeneratorExit is one.
        with self.new(aside, mode, sync) as file:  # pylint: disable=contextmanager-generator-missing-cleanup
            yield file
        try:
            os.replace(aside, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except BaseException:
            self.remove(aside)
            raise
        if sync:
            self.sync()

    @contextlib.contextmanager
    def new(self, name: str, mode: int | None = None, sync: bool = True) -> t.Iterator[t.BinaryIO]:
        """Yield a new file to write; it is removed unless the block succeeds.

        The name itself is not synced: see sync(). Raises FileExistsError, also for a link.
        """
        descriptor = os.open(name, os.O_WRONLY | _NEW, 0o600, dir_fd=self.descriptor)
        try:
            with os.fdopen(descriptor, "wb", buffering=1 << 20) as file:
                yield file
                file.flush()
                os.fchmod(descriptor, 0o644 & ~_umask() if mode is None else mode & 0o777)
                if sync:
                    os.fsync(descriptor)
        except BaseException:
            self.remove(name)
            raise

    def rename(self, name: str, to: str, other: Directory | None = None) -> None:
        """Rename a file, also into another directory; an existing file of the new name is replaced."""
        os.replace(name, to, src_dir_fd=self.descriptor, dst_dir_fd=(other or self).descriptor)

    def move(self, name: str, to: str, other: Directory) -> None:
        """Move a file into another directory, under a name that nothing has there. Raises FileExistsError."""
        # Unlike a rename, a link never replaces what is there.
        os.link(name, to, src_dir_fd=self.descriptor, dst_dir_fd=other.descriptor, follow_symlinks=False)
        os.unlink(name, dir_fd=self.descriptor)

    def link(self, name: str, to: str) -> None:
        """Give a file a second name. Raises FileExistsError if that exists."""
        fd = self.descriptor
        os.link(name, to, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)

    def remove(self, name: str) -> None:
        """Remove a file, or a link itself; do nothing if it is missing or cannot be removed."""
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self.descriptor)

    def remove_tree(self, name: str, deepest: int = DEEPEST) -> None:
        """Remove a directory and its content; links are not followed, and a mounted file system is not entered.

        Raises OSError, also for a mount point inside and if it is not a directory.
        """
        if not deepest:
            raise OSError(errno.ENAMETOOLONG, "has too many directories in each other", str(self.path / name))
        try:
            os.rmdir(name, dir_fd=self.descriptor)
            return
        except OSError as exc:
            # POSIX allows both for a directory that is not empty; EBUSY is a mount point.
            if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                exc.filename = str(self.path / name)
                raise
        with self.below(name) as place:
            for entry in os.listdir(place.descriptor):
                with contextlib.suppress(FileNotFoundError):
                    state = place.state(entry)
                    if state is not None and stat.S_ISDIR(state.st_mode):
                        place.remove_tree(entry, deepest - 1)
                    else:
                        os.unlink(entry, dir_fd=place.descriptor)
        os.rmdir(name, dir_fd=self.descriptor)

    def lock_file(self, name: str) -> int:
        """Open a file for the kernel's lock, created if it is missing; return its descriptor.

        A file of another user is rejected, since its lock may be held for ever.
        """
        try:
            descriptor = self._open(name, os.O_RDWR | _NEW, 0o644)
        except FileExistsError:
            descriptor = self._open(name, _READ | os.O_NOFOLLOW)
        return self._own(_only_plain(descriptor, self.path / name), name)

    def appending(self, name: str) -> int:
        """Open a file to append to, created if it is missing; return its descriptor.

        A file of another user, or one with a second name, is rejected.
        """
        try:
            descriptor = self._open(name, os.O_WRONLY | os.O_APPEND | _NEW, 0o644)
        except FileExistsError:
            descriptor = self._open(name, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        found = self._own(_only_plain(descriptor, self.path / name), name)
        if os.fstat(found).st_nlink > 1:
            os.close(found)
            raise OSError(errno.EMLINK, "has a second name, so it is not appended to", str(self.path / name))
        return found

    def _own(self, descriptor: int, name: str) -> int:
        """Reject a file that belongs neither to this user, nor to root, nor to the owner of the directory."""
        if os.fstat(descriptor).st_uid not in (os.geteuid(), 0, os.fstat(self.descriptor).st_uid):
            os.close(descriptor)
            raise OSError(errno.EPERM, "belongs to another user, so it is not used", str(self.path / name))
        return descriptor

    def _open(self, name: str, flags: int, mode: int = 0) -> int:
        try:
            return os.open(name, flags, mode, dir_fd=self.descriptor)
        except OSError as exc:
            where = str(self.path / name)
            state = self.state(name) if exc.errno in (errno.ELOOP, errno.ENOTDIR) else None
            if state is not None and stat.S_ISLNK(state.st_mode):
                raise OSError(errno.ELOOP, "is a symbolic link, which is not followed", where) from None
            exc.filename = where
            raise


_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def aside_of(name: str) -> str:
    """Return a random hidden name for the unfinished file ``name``: it begins with that name and is not too long."""
    end = f".{secrets.token_hex(_TOKEN_BYTES)}{PART}"
    begin = os.fsencode(name)[: NAME_MOST - len(end) - 1]
    return f".{os.fsdecode(begin)}{end}"


def is_aside(name: str) -> bool:
    """Return whether a name is one of aside_of(), left by a killed process. Other programs may own other names."""
    return _ASIDE.fullmatch(name) is not None


def unfinished(name: str) -> str | None:
    """Return the name that a file of aside_of() was made for, cut off if it was too long; None for any other name."""
    found = _UNFINISHED.fullmatch(name)
    return found.group(1) if found else None


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of a relative path. Raises ValueError with the reason if it cannot be the path of a file."""
    parts = tuple(name.split("/"))
    if "\0" in name:
        raise ValueError("has a null byte in it")
    if ".." in parts or name.startswith("/"):
        raise ValueError("leads out of the folder")
    if not {"", "."}.isdisjoint(parts):
        raise ValueError("has an empty part")
    if longest := [part for part in parts if len(os.fsencode(part)) > NAME_MOST]:
        raise ValueError(f"has a part of {len(os.fsencode(longest[0]))} bytes, and {NAME_MOST} are allowed")
    return parts


def files_below(folder: Path) -> list[Path]:
    """Return the plain files in a folder and in those below it, sorted; a link to a file is one.

    Raises OSError for what would be missing without a notice: a folder that cannot be read, a link to a folder, and a
    link that leads nowhere.
    """
    found = []
    for place, folders, names in os.walk(folder, onerror=_raise):
        for path in (Path(place, name) for name in folders):
            if path.is_symlink():
                raise OSError(errno.ELOOP, "is a link to a folder, which is not followed", str(path))
        for path in (Path(place, name) for name in names):
            try:
                mode = path.stat().st_mode
            except FileNotFoundError:
                if not path.is_symlink():
                    raise
                raise OSError(errno.ENOENT, "is a link that leads nowhere", str(path)) from None
            if stat.S_ISREG(mode):
                found.append(path)
    return sorted(found)


def _raise(error: OSError) -> t.NoReturn:
    raise error


def make_directory(path: Path) -> None:
    """Create a missing directory and its missing parents, with each name synced. Raises OSError."""
    try:
        os.mkdir(path)
    except FileNotFoundError:
        make_directory(path.parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    sync_directory(path.parent)


def own_directory(path: Path) -> None:
    """Create a missing directory for this user alone. Raises OSError, also for a directory of another user.

    It may be in a directory that all users may write but not rename in, such as /tmp, but not in that of another user.
    """
    make_directory(path.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    with Directory.open(path.parent) as parent, parent.below(path.name) as own:
        above, state = os.fstat(parent.descriptor), os.fstat(own.descriptor)
        if above.st_uid not in (0, os.geteuid()):
            raise OSError(errno.EPERM, "belongs to another user, who could exchange its content", str(path.parent))
        if state.st_uid != os.geteuid() or state.st_mode & 0o022:
            raise OSError(errno.EPERM, "is not for this user alone (mode 0700): remove it", str(path))


def sync_directory(path: Path) -> None:
    """Sync a directory, so that its names survive a power failure. Raises OSError."""
    with Directory.open(path) as directory:
        directory.sync()


def is_missing(error: OSError, path: Path) -> bool:
    """Return whether an error proves that no file is at a path. Any other one, as of a server that is away, does not.

    ELOOP alone is no proof: an automounter whose server does not answer reports it, too.
    """
    return error.errno in (errno.ENOENT, errno.ENOTDIR) or (error.errno == errno.ELOOP and _is_loop(path))


def _is_loop(path: Path) -> bool:
    """Return whether a link leads back to itself over links alone; False also if that is unknown."""
    seen: set[Path] = set()
    while path not in seen:
        seen.add(path)
        try:
            target = os.readlink(path)
        except OSError:
            return False
        # The parent of a folder that is a link is elsewhere.
        if ".." in target.split("/"):
            return False
        path = path.parent / target
    return True


def state(path: Path) -> os.stat_result | None:
    """Return the lstat() of a path, None if nothing has this name. Unlike os.path.lexists(), raises other OSErrors."""
    return _looked(path, follow=False)


def exists(path: Path) -> bool:
    """Return whether a path leads to anything. Unlike os.path.exists(), raises OSError if that is unknown."""
    return _looked(path, follow=True) is not None


def is_plain(path: Path) -> bool:
    """Return whether a plain file or a link to one exists. Unlike Path.is_file(), raises OSError if that is unknown."""
    found = _looked(path, follow=True)
    return found is not None and stat.S_ISREG(found.st_mode)


def _looked(path: Path, follow: bool) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=follow)
    except OSError as exc:
        if not is_missing(exc, path):
            raise
        return None


def open_plain(path: Path) -> int:
    """Open a plain file to read; return its descriptor. Raises OSError, also for a pipe or a device."""
    return _only_plain(os.open(path, _READ), path)


def _only_plain(descriptor: int, path: Path) -> int:
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        number, why = (errno.EISDIR, "Is a directory") if stat.S_ISDIR(mode) else (errno.EINVAL, "not a plain file")
        raise OSError(number, why, str(path))
    return descriptor


def read(path: Path) -> bytes:
    """Read a plain file as a whole. Raises OSError."""
    with os.fdopen(open_plain(path), "rb") as file:
        return file.read()


def digest(path: Path) -> FileSum:
    """Return the sum of a plain file. Raises OSError."""
    with os.fdopen(open_plain(path), "rb") as file:
        return _sum_of(file)


def _sum_of(file: t.BinaryIO) -> FileSum:
    found = hashlib.sha256()
    size = 0
    while piece := file.read(CHUNK):
        found.update(piece)
        size += len(piece)
    return FileSum(size, found.hexdigest())


def write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, mode 0644 less the umask; an existing file is replaced. Raises OSError."""
    with Directory.open(path.parent) as directory:
        directory.write(path.name, content)


def keep_earlier(path: Path) -> str:
    """Give a file, whose name is about to go to a new one, a second name that nothing has; return that.

    Raises OSError.
    """
    with Directory.open(path.parent) as folder:
        for number in itertools.count(1):
            name = f"{path.name}.earlier-{number}"
            with contextlib.suppress(FileExistsError):
                folder.link(path.name, name)
                return name
    raise AssertionError("there is always one more number")


def copy(source: Path, file: t.BinaryIO) -> FileSum:
    """Copy a plain file into an open one; return the sum of the bytes that were written. Raises OSError."""
    found = hashlib.sha256()
    size = 0
    with os.fdopen(open_plain(source), "rb") as reader:
        while piece := reader.read(CHUNK):
            file.write(piece)
            found.update(piece)
            size += len(piece)
    return FileSum(size, found.hexdigest())


def remove_tree(path: Path) -> None:
    """Remove a directory and all in it, also where another process does the same.

    Raises OSError, also if it is not a directory: shutil.rmtree() would wait for ever for a pipe of that name.
    """
    with contextlib.suppress(FileNotFoundError), Directory.open(path.parent) as parent:
        parent.remove_tree(path.name)


def discard_tree(path: Path) -> None:
    """Remove a directory as remove_tree() does, and report no error: the rest stays, and a mounted file system, too."""
    with contextlib.suppress(OSError):
        remove_tree(path)


def reason(error: BaseException) -> str:
    """Return an error in a few words, with its path and advice."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return str(error) or type(error).__name__


def _umask() -> int:
    # Linux reports the umask here; os.umask() would change it for every thread.
    with contextlib.suppress(OSError, StopIteration, ValueError), open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("Umask:"))
        return int(line.split()[1], 8)
    return 0o022


def pieces(path: Path, size: int) -> t.Iterator[bytes]:
    """Read a file in pieces of ``size`` bytes, the last one shorter. Raises OSError."""
    with open(path, "rb") as file:
        while piece := file.read(size):
            yield piece
