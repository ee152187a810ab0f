# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Access to the machine for containers, in addition to ``system.host``."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import typing as t

from ..system import files
from ..system.host import Host, NodeError, make_directories

# A SPANK plugin has a few hundred KiB; a larger file is not a plugin and is not read into memory.
PLUGIN_LIMIT = 64 << 20


class EnrootHost(Host):
    """The machine this process runs on."""

    def read_bytes(self, path: str, limit: int = PLUGIN_LIMIT) -> bytes | None:
        """Return the content of a plain file of at most limit bytes; None if it is unreadable or larger."""
        if not os.path.isfile(path):
            return None
        try:
            with open(path, "rb") as stream:
                data = stream.read(limit + 1)
        except OSError:
            return None
        return data if len(data) <= limit else None

    def machine(self) -> str:
        """Return the architecture from uname: x86_64, aarch64."""
        return os.uname().machine

    def read_exact(self, path: str) -> str | None:
        """Return the text of a file, decoded so that write_text writes the same bytes; None as in read_bytes."""
        data = self.read_bytes(path)
        return None if data is None else data.decode("utf-8", "surrogateescape")

    def is_dir(self, path: str) -> bool:
        """Return whether the path is a directory or a link to one."""
        return os.path.isdir(path)

    def free_bytes(self, path: str) -> int | None:
        """Return the free bytes for ordinary users on the filesystem of the path, or None."""
        try:
            info = os.statvfs(path)
        except OSError:
            return None
        return info.f_frsize * info.f_bavail

    def link_target(self, path: str) -> str | None:
        """Return the target of a symbolic link as written; None for anything else."""
        try:
            return os.readlink(path)
        except OSError:
            return None

    def make_link(self, target: str, path: str) -> None:
        """Make path a symbolic link to target, atomically. Raises NodeError if path is a directory."""
        directory = os.path.dirname(path)
        make_directories(directory)
        if os.path.isdir(path) and not os.path.islink(path):
            raise NodeError(f"{path} is a directory where a link to {target} belongs: move it away and run again")
        with self.private_directory(directory, ".mlcluster-link.") as inner:
            os.symlink(target, os.path.join(inner, "link"))
            os.replace(os.path.join(inner, "link"), path)

    def is_trusted(self, path: str) -> bool:
        """Return whether a path is owned by root or this user, and is a link or a file that no other user may write to.

        A link is not followed.
        """
        try:
            info = os.lstat(path)
        except OSError:
            return False
        plain = stat.S_ISREG(info.st_mode) and not info.st_mode & 0o022
        return info.st_uid in (0, os.geteuid()) and (plain or stat.S_ISLNK(info.st_mode))

    def is_open_to_all(self, directory: str) -> bool:
        """Return whether any user may replace the files of others in a directory."""
        mode = os.stat(directory).st_mode
        return bool(mode & stat.S_IWOTH and not mode & stat.S_ISVTX)

    def may_replace(self, path: str) -> bool:
        """Return whether this user may replace the path, also in a sticky directory."""
        above = os.stat(os.path.dirname(path))
        if os.geteuid() in (0, above.st_uid) or not above.st_mode & stat.S_ISVTX:
            return True
        try:
            return os.lstat(path).st_uid == os.geteuid()
        except FileNotFoundError:
            return True

    def size_and_time(self, path: str) -> tuple[int, float] | None:
        """Return the size in bytes and the modification time of a file, or None."""
        try:
            info = os.stat(path)
        except OSError:
            return None
        return info.st_size, info.st_mtime

    @contextlib.contextmanager
    def private_directory(self, parent: str, prefix: str) -> t.Iterator[str]:
        """Create a directory for this process alone and remove it afterwards with its content."""
        path = tempfile.mkdtemp(dir=parent, prefix=prefix)
        try:
            yield path
        finally:
            files.discard_directory(path)

    def remove_own_tree(self, path: str, only: str) -> None:
        """Remove a directory that ``private_directory`` made for this user and a killed process left with a file.

        It has the mode of such a directory and nothing in it but a plain file ``only``, or nothing. Anything else at
        the path is kept: a user may have a directory of that name.
        """
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                info, names = os.fstat(handle), os.listdir(handle)
                plain = all(stat.S_ISREG(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode) for name in names)
                if info.st_uid == os.geteuid() and info.st_mode & 0o777 == 0o700 and plain and {*names} <= {only}:
                    for name in names:
                        os.unlink(name, dir_fd=handle)
                    os.rmdir(path)
            finally:
                os.close(handle)

    def copy_file(self, source: str, target: str) -> None:
        """Copy the content of a file."""
        shutil.copyfile(source, target)

    def set_time_to_now(self, path: str) -> None:
        """Set the modification time of a file to now, if this user may."""
        with contextlib.suppress(PermissionError):
            os.utime(path)

    def settle(self, path: str, mode: int) -> None:
        """Set the mode of a file and sync it to disk."""
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fchmod(handle, mode)
            os.fsync(handle)
        finally:
            os.close(handle)

    def read_piece(self, path: str, offset: int, count: int) -> bytes:
        """Return up to count bytes of a plain file from an offset; fewer at its end, none if it is unreadable."""
        if not os.path.isfile(path):
            return b""
        try:
            with open(path, "rb") as stream:
                stream.seek(offset)
                return stream.read(count)
        except OSError:
            return b""

    def capabilities(self, path: str) -> bytes | None:
        """Return the file capabilities as the kernel stores them (security.capability), or None."""
        try:
            return os.getxattr(path, "security.capability")
        except OSError:
            return None
