# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interface between node logic and the operating system.

All commands and all files of the node go through ``Host``; tests replace it by a recorded host.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import fcntl
import grp
import hashlib
import json
import os
import pwd
import shutil
import socket
import stat
import struct
import subprocess
import tempfile
import time
import typing as t

from . import command, files

# Far above any configuration or kernel table that is read here.
READ_LIMIT = 64 << 20
# Seconds between two tries for a lock.
HOLD_POLL = 0.05
# From linux/nvme_ioctl.h: an admin command for an NVMe disk, and its time limit.
NVME_ADMIN_COMMAND = 0xC0484E41
NVME_TIMEOUT_MS = 10_000
# From linux/loop.h: the status of a loop device, struct loop_info64.
LOOP_GET_STATUS = 0x4C05
LOOP_STATUS_BYTES = 232
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class NodeError(Exception):
    """A failure with a message for the user: what was tried, what was found, what to do."""


class CommandError(NodeError):
    """A command that failed, was missing, or ran past its limit.

    argv is the command, rc its exit status (None if it did not run to its end, or printed too much), problem the kind
    of failure without the output; stdout and stderr are complete, or their ends if they are too long to keep.
    """

    def __init__(self, argv: t.Sequence[str], rc: int | None, stdout: str, stderr: str, problem: str) -> None:
        self.argv = list(argv)
        self.rc = rc
        self.stdout = stdout
        self.stderr = stderr
        self.problem = problem
        detail = command.shortened(stderr.strip() or stdout.strip())
        super().__init__(f"{' '.join(argv)}: {problem}" + (f": {detail}" if detail else ""))


@dataclasses.dataclass(frozen=True)
class CommandResult:
    """The exit status and the complete output of a finished command."""

    rc: int
    stdout: str
    stderr: str


def _open_lock(directory: int, name: str, mode: int) -> int:
    """Open or create the file of a lock in an open directory. Raises OSError for anything but a plain file."""
    # Without blocking, since a pipe may never get another end.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(name, flags, mode, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a plain file", name)
    return handle


def _open_plain(path: str, flags: int) -> int:
    """Open a plain file. Raises OSError for a pipe or a device, which might block or never end."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a plain file", path)
    return handle


def _open_no_link(path: str, flags: int) -> int:
    """Open a plain file that is not a link, or raise OSError."""
    return _open_plain(path, flags | os.O_NOFOLLOW)


def _pieces(stream: t.TextIO, limit: int) -> t.Iterator[str]:
    """Read up to limit characters, a MiB at a time: a file of /proc/sys fails for 4 MiB with ENOMEM."""
    while limit > 0:
        piece = stream.read(min(limit, 1 << 20))
        if not piece:
            return
        limit -= len(piece)
        yield piece


def make_directories(path: str) -> None:
    """Create a directory and its missing parents, readable for all with any umask."""
    os.close(files.open_directory(path, make=True, last=files.STEP))


class DeviceReader:
    """An open block device: number is its "major:minor" (empty for anything else), size its length in bytes."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        info = os.fstat(handle)
        is_block = stat.S_ISBLK(info.st_mode)
        self.number = f"{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}" if is_block else ""
        self.size = os.lseek(handle, 0, os.SEEK_END)
        for advice in (os.POSIX_FADV_RANDOM, os.POSIX_FADV_DONTNEED):
            # Cached pages could be older than the disk; reading ahead would multiply the bytes read.
            os.posix_fadvise(handle, 0, 0, advice)

    def read(self, offset: int, length: int) -> bytes:
        """Return length bytes from offset. Raises OSError if they cannot all be read."""
        pieces = []
        while length > 0:
            piece = os.pread(self._handle, length, offset)
            if not piece:
                raise OSError(errno.EIO, "the device ends before its size")
            pieces.append(piece)
            offset, length = offset + len(piece), length - len(piece)
        return b"".join(pieces)

    def nvme_log(self, page: int, length: int) -> bytes | None:
        """Return the first length bytes (a multiple of 4) of a log page of an NVMe disk; None if it has none."""
        data = ctypes.create_string_buffer(length)
        # struct nvme_passthru_cmd of linux/nvme_ioctl.h: opcode 2 is Get Log Page, namespace all; dwords less one.
        words = (length // 4 - 1) << 16 | page
        request = struct.pack(
            "=BBHIIIQQIIIIIIIIII",
            *(2, 0, 0, 0xFFFFFFFF, 0, 0, 0, ctypes.addressof(data), 0, length),
            *(words, 0, 0, 0, 0, 0, NVME_TIMEOUT_MS, 0),
        )
        try:
            # A status above 0 is from the disk: it does not have the page.
            return data.raw if fcntl.ioctl(self._handle, NVME_ADMIN_COMMAND, bytearray(request)) == 0 else None
        except OSError:
            return None


class Host:
    """The machine of this process."""

    def run(
        self, argv: t.Sequence[str], timeout: float = 120, check: bool = True, stdin: str | None = None
    ) -> CommandResult:
        """Run argv without a shell, in the C locale, for at most timeout seconds.

        Raises ``CommandError`` if the program is missing, overruns or prints more than command.OUTPUT_LIMIT, and, with
        check, if it exits non-zero.
        """
        env = {**os.environ, "LC_ALL": "C", "LANGUAGE": "C", "PATH": SYSTEM_PATH}
        try:
            ended = command.run(argv, env, stdin or "", timeout)
        except FileNotFoundError:
            raise CommandError(argv, None, "", "", "the program is not installed") from None
        except OSError as exc:
            raise CommandError(argv, None, "", exc.strerror or str(exc), "could not be started") from None
        stdout, stderr = ended.stdout.text(), ended.stderr.text()
        if ended.rc is None:
            raise CommandError(argv, None, stdout, stderr, f"no answer within {timeout:g} seconds")
        if ended.stdout.cut or ended.stderr.cut:
            # Truncated output might contradict the complete output.
            raise CommandError(
                argv, None, stdout, stderr, f"no answer within {command.OUTPUT_LIMIT >> 20} MiB of output"
            )
        if check and ended.rc != 0:
            raise CommandError(argv, ended.rc, stdout, stderr, f"failed with status {ended.rc}")
        return CommandResult(ended.rc, stdout, stderr)

    def start(
        self,
        argv: t.Sequence[str],
        env: t.Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start argv without a shell, in exactly this environment, and return the running process.

        The streams are descriptors or the constants of subprocess; None is that of this process. A program without a
        slash is looked for on the PATH of env. Raises ``CommandError`` when it cannot be started.
        """
        try:
            return command.start(argv, env, stdin=stdin, stdout=stdout, stderr=stderr)
        except FileNotFoundError:
            raise CommandError(argv, None, "", "", "the program is not installed") from None
        except OSError as exc:
            raise CommandError(argv, None, "", exc.strerror or str(exc), "could not be started") from None

    def which(self, program: str, path: str = SYSTEM_PATH) -> str | None:
        """Return the full path of a program on the system path, or on another one, or None."""
        return shutil.which(program, path=path)

    def variable(self, name: str) -> str | None:
        """Return a variable of this process's environment, or None."""
        return os.environ.get(name)

    def read_text(self, path: str) -> str | None:
        """Return the text of a file up to READ_LIMIT; None if it is missing, unreadable, or not a plain file."""
        try:
            with open(path, encoding="utf-8", errors="replace", opener=_open_plain) as stream:
                return "".join(_pieces(stream, READ_LIMIT))
        except OSError:
            return None

    def read_owned(self, path: str, uid: int | None, max_characters: int) -> str | None:
        """Return the text of a plain file of a user, of at most so many characters; None for any other, and for a link.

        For names that other users may have taken: in the directory, users must not be able to rename files of others.
        """
        try:
            with open(path, encoding="utf-8", errors="replace", opener=_open_no_link) as stream:
                text = stream.read(max_characters + 1) if os.fstat(stream.fileno()).st_uid == uid else None
        except OSError:
            return None
        return text if text is not None and len(text) <= max_characters else None

    def read_json(self, path: str) -> t.Any:
        """Return the parsed JSON of a file; None if it is missing, empty or not JSON."""
        text = self.read_text(path)
        if not text:
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None

    def listdir(self, path: str) -> list[str]:
        """Return the sorted names in a directory; empty if it does not exist."""
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Return whether the path exists (a broken link does not); True also where an error hides that."""
        return files.may_exist(path, follow=True)

    def realpath(self, path: str) -> str:
        """Return the path with every link resolved."""
        return os.path.realpath(path)

    def stat(self, path: str) -> dict[str, t.Any] | None:
        """Return {"mode": "0755", "uid": 0, "gid": 0, "is_dir": bool, "is_link": bool} of the path itself, or None."""
        try:
            info = os.lstat(path)
        except OSError:
            return None
        return {
            "mode": f"{stat.S_IMODE(info.st_mode):04o}",
            "uid": info.st_uid,
            "gid": info.st_gid,
            "is_dir": stat.S_ISDIR(info.st_mode),
            "is_link": stat.S_ISLNK(info.st_mode),
        }

    def identity(self, path: str) -> tuple[int, int, int] | None:
        """Return device, inode and time of the last change in nanoseconds, which differ once the file is replaced;
        None without a file."""
        try:
            info = os.lstat(path)
        except OSError:
            return None
        return info.st_dev, info.st_ino, info.st_mtime_ns

    def file_size(self, path: str) -> int | None:
        """Return the size of a plain file in bytes; None without one."""
        try:
            info = os.stat(path)
        except OSError:
            return None
        return info.st_size if stat.S_ISREG(info.st_mode) else None

    def character_device(self, path: str) -> tuple[int, int, int] | None:
        """Return the major and minor number and mode of a character device; None for anything else."""
        try:
            info = os.lstat(path)
        except OSError:
            return None
        if not stat.S_ISCHR(info.st_mode):
            return None
        return os.major(info.st_rdev), os.minor(info.st_rdev), stat.S_IMODE(info.st_mode)

    def make_character_device(self, path: str, major: int, minor: int, mode: int) -> None:
        """Create a character device, and its directory; replaces an existing file. Raises OSError."""
        make_directories(os.path.dirname(path))
        fresh = f"{path}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        os.mknod(fresh, stat.S_IFCHR | 0o600, os.makedev(major, minor))
        # With any umask; and the device never has another mode.
        os.chmod(fresh, mode)
        os.replace(fresh, path)

    def addresses_of(self, name: str) -> list[str]:
        """Return the sorted IPv4 addresses of a name; empty if it does not resolve."""
        try:
            found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            return []
        return sorted({str(entry[4][0]) for entry in found})

    def sha256(self, path: str) -> str | None:
        """Return the sha256 of a file in hex, or None if it cannot be read."""
        digest = hashlib.sha256()
        try:
            with open(path, "rb", opener=_open_plain) as stream:
                for block in iter(lambda: stream.read(1 << 20), b""):
                    digest.update(block)
        except OSError:
            return None
        return digest.hexdigest()

    def filesystem_size(self, path: str) -> int | None:
        """Return the size in bytes of the filesystem that holds the path, or None."""
        try:
            info = os.statvfs(path)
        except OSError:
            return None
        return info.f_frsize * info.f_blocks

    def claimed(self, device: str, number: str) -> bool | None:
        """Return whether the kernel refuses an exclusive open: a mount, md, device-mapper or swap holds the device.

        number is the device's "major:minor". None if the device cannot be opened, or if the path leads to something
        else (a file that a copy to a missing disk left in /dev), which proves nothing.
        """
        try:
            handle = os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
        except OSError as exc:
            return True if exc.errno == errno.EBUSY else None
        info = os.fstat(handle)
        os.close(handle)
        found = f"{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}"
        return False if stat.S_ISBLK(info.st_mode) and found == number else None

    @contextlib.contextmanager
    def opened_device(self, device: str, exclusive: bool = False) -> t.Iterator[DeviceReader]:
        """Open a block device to read it, for the length of a with statement.

        exclusive: nothing can mount, map or use the device meanwhile. Raises OSError, EBUSY if the device is already
        in use.
        """
        handle = os.open(device, os.O_RDONLY | os.O_CLOEXEC | (os.O_EXCL if exclusive else 0))
        try:
            yield DeviceReader(handle)
        finally:
            os.close(handle)

    def loop_backing(self, name: str) -> str | None:
        """Return the "major:minor" of the block device behind a loop device, independent of its device node.

        None if it shows a file, or gives no answer.
        """
        status = bytearray(LOOP_STATUS_BYTES)
        try:
            handle = os.open(f"/dev/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.ioctl(handle, LOOP_GET_STATUS, status)
        except OSError:
            return None
        finally:
            os.close(handle)
        around, _inode, number = struct.unpack_from("=QQQ", status)
        # For a file the kernel gives the file system's device twice.
        return None if number == around else f"{os.major(number)}:{os.minor(number)}"

    def is_root(self) -> bool:
        """Return whether this process may open the devices of the node."""
        return os.geteuid() == 0

    def own_uid(self) -> int:
        """Return the numeric id of this process's user."""
        return os.geteuid()

    def uid(self, name: str) -> int | None:
        """Return the numeric id of a user given by name or number; None if there is no such user."""
        with contextlib.suppress(KeyError, ValueError):
            return _account_id(name) if _is_number(name) else pwd.getpwnam(name).pw_uid
        return None

    def gid(self, name: str) -> int | None:
        """Return the numeric id of a group given by name or number; None if there is no such group."""
        with contextlib.suppress(KeyError, ValueError):
            return _account_id(name) if _is_number(name) else grp.getgrnam(name).gr_gid
        return None

    def primary_gid(self, name: str) -> int | None:
        """Return the numeric id of the primary group of a user given by name or number; None for an unknown user."""
        with contextlib.suppress(KeyError, ValueError):
            return (pwd.getpwuid(int(name)) if _is_number(name) else pwd.getpwnam(name)).pw_gid
        return None

    def write_text(self, path: str, text: str, mode: int = 0o644) -> None:
        """Replace a file atomically and durably: a reader sees the old text or the new, also after a power cut.

        Surrogates that stand for bytes outside UTF-8 (PEP 383) are written as those bytes.
        """
        make_directories(os.path.dirname(path))
        files.replace_file(path, text.encode("utf-8", "surrogateescape"), mode)

    def remove(self, path: str) -> None:
        """Remove a file durably; a missing one is fine."""
        folder, name = os.path.split(path)
        with contextlib.suppress(FileNotFoundError):
            handle = files.open_directory(folder)
            try:
                os.unlink(name, dir_fd=handle)
                os.fsync(handle)
            finally:
                os.close(handle)

    def rename(self, old: str, new: str) -> None:
        """Rename a file; an existing file of that name is replaced."""
        os.replace(old, new)

    def make_mount_point(self, path: str) -> None:
        """Create a missing directory and its parents as a mount point."""
        make_directories(path)

    def make_directory(self, path: str, uid: int, gid: int, mode: int) -> None:
        """Make one directory (not its parents) and set its owner and mode; links anywhere in the path are refused."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open("/", flags)
        parts = [part for part in path.split("/") if part]
        try:
            for index, part in enumerate(parts):
                if index == len(parts) - 1:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=handle)
                # One step at a time: the owner of a directory could replace a directory below it by a link.
                inner = os.open(part, flags, dir_fd=handle)
                os.close(handle)
                handle = inner
            os.fchown(handle, uid, gid)
            os.fchmod(handle, mode)
        finally:
            os.close(handle)

    def write_probe(self, directory: str, size: int = 1 << 20) -> None:
        """Write size bytes into a nameless file of the directory's filesystem, sync, read back and compare.

        Raises OSError if the filesystem fails. Nothing is left behind, even if the process is killed.
        """
        payload = os.urandom(4096) * (size // 4096)
        try:
            handle = os.open(directory, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            if exc.errno not in (errno.EOPNOTSUPP, errno.EISDIR):
                raise
            handle, name = tempfile.mkstemp(dir=directory, prefix=".mlcluster-probe.")
            os.unlink(name)
        with os.fdopen(handle, "w+b") as stream:
            stream.write(payload)
            stream.flush()
            os.fsync(stream.fileno())
            with contextlib.suppress(OSError):
                # Without this the read below would come from memory and prove nothing about the disks.
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            stream.seek(0)
            if stream.read() != payload:
                raise OSError(errno.EIO, "the data read back differ from the data written", directory)

    def monotonic(self) -> float:
        """Return the seconds of a clock that never jumps."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait between two looks of a bounded poll."""
        time.sleep(seconds)

    def now(self) -> str:
        """Return the time in UTC, ISO 8601."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

    @contextlib.contextmanager
    def locked(self, path: str, timeout: float, mode: int = 0o600) -> t.Iterator[None]:
        """Hold an exclusive lock file, so that a play and the boot unit never change the disks at the same time.

        mode is that of the file, with any umask: users without write access cannot hold it.
        """
        folder, name = os.path.split(path)
        try:
            directory = files.open_directory(folder, make=True, last=files.STEP)
            try:
                handle = _open_lock(directory, name, mode)
            finally:
                os.close(directory)
        except OSError as exc:
            raise NodeError(
                f"could not open the lock {path} ({exc.strerror}): run as a user who may write there (become: true), "
                "and let nothing but a plain file have that name"
            ) from exc
        try:
            with contextlib.suppress(PermissionError):
                # Another user's file is not changed.
                os.fchmod(handle, mode)
            with self.hold(handle, timeout, f"{path}: another mlcluster run holds it"):
                yield
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def hold(self, handle: int, timeout: float, what: str) -> t.Iterator[None]:
        """Lock an open file or directory for this process, for the length of a with statement.

        Raises ``NodeError`` with the name of the lock after timeout seconds.
        """
        deadline = self.monotonic() + timeout
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if self.monotonic() >= deadline:
                    raise NodeError(
                        f"waited {timeout:g} seconds for {what}; wait until it ends (see ps) and run again"
                    ) from None
                self.sleep(HOLD_POLL)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _account_id(digits: str) -> int | None:
    """Return a user or group id; None beyond the kernel's limit, whose last value means "unchanged"."""
    return int(digits) if len(digits) <= 10 and int(digits) < 0xFFFFFFFF else None
