# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock for one writer at a time on a directory that many nodes share; the lock of a killed writer is taken over.

The lock is a file that names its owner. The owner touches it regularly, and a waiting process watches for that. So no
two clocks are compared, and the file system needs no flock. It is made by link(2), which is atomic on the servers of
NFS and Lustre.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import errno
import json
import logging
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ..errors import DataError
from ..files import durable

LOGGER = logging.getLogger("mlcluster.data")
NAME = ".lock"
# The lock of a whole job with all its programs; each program also has its own.
JOB_NAME = ".job-lock"
# The lock of a training on its journals and weights, followed by the name of its model: several models may share a
# directory.
TRAIN_NAME = ".train-lock"
# The kernel's lock on which the ranks of a node wait for the one that stages; unlike the others it is not removed.
STAGE_NAME = ".stage-lock"
# Seconds without a sign of life after which a lock is taken from its owner, who gives one six times as often.
STALE_SECONDS = 30.0
# Locks that are watched at the same time, so that several abandoned ones cost no more time than one.
WATCHED = 32
# Errors of ``durable`` if the lock is a link, a directory, a pipe or a device.
NOT_A_LOCK = (errno.ELOOP, errno.EISDIR, errno.EINVAL)


class LockedError(DataError):
    """Another process holds the lock; the message names it and what to do."""


class NoLockError(LockedError):
    """A file with the name of a lock is not one."""


@dataclasses.dataclass(frozen=True)
class Owner:
    """A process: host, boot, PID namespace, pid, start time in clock ticks; its Slurm job, restarts and cluster."""

    token: str
    host: str
    boot: str
    namespace: str
    pid: int
    started: int
    job: str
    restart: str
    cluster: str = ""

    def is_running(self, other: Owner) -> bool | None:
        """Return whether ``other`` runs, seen from this process; None if that is unknown, as on another node.

        An earlier run of the same Slurm job counts as ended, also while its last process is being ended.
        """
        if self.same_job(other) and self.restart != other.restart:
            return False
        if (self.host, self.boot, self.namespace) == (other.host, other.boot, other.namespace):
            return _started(other.pid) == other.started
        return None

    def same_job(self, other: Owner) -> bool:
        """Return whether both are of one Slurm job, in any of its runs."""
        return bool(self.job) and (self.cluster, self.job) == (other.cluster, other.job)

    def __str__(self) -> str:
        of = f" of job {self.job}" if self.job else ""
        return f"process {self.pid}{of} on {self.host}"


def _started(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def myself() -> Owner:
    """Return this process."""
    return Owner(
        secrets.token_hex(8),
        socket.gethostname(),
        Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
        os.readlink("/proc/self/ns/pid"),
        os.getpid(),
        _started(os.getpid()) or 0,
        os.environ.get("SLURM_JOB_ID", ""),
        os.environ.get("SLURM_RESTART_COUNT", "0"),
        os.environ.get("SLURM_CLUSTER_NAME", ""),
    )


class Lock:
    """The lock of a directory."""

    def __init__(self, directory: Path, stale_seconds: float = STALE_SECONDS, name: str = NAME) -> None:
        self.path = directory / name
        self.stale_seconds = stale_seconds
        self.owner = myself()
        self._released = threading.Event()
        self._renewer: threading.Thread | None = None
        # Open while the lock is requested or held, so that a changed path does not lead elsewhere.
        self._here: durable.Directory | None = None

    def acquire(self) -> Owner | None:
        """Take the lock; return the ended owner that it was taken from, if any.

        Raises LockedError if another living process holds it: at once if that is visible, otherwise after at most
        ``stale_seconds``. Raises OSError if the directory cannot be written.
        """
        self._here = durable.Directory.open(self.path.parent)
        try:
            before = self._acquire(self._here)
        except BaseException:
            # A signal may arrive after the lock was made.
            self.release()
            raise
        self._renewer = threading.Thread(
            target=self._renew_repeatedly, args=(self._here,), name="checkpoint-lock", daemon=True
        )
        self._renewer.start()
        return before

    def _acquire(self, here: durable.Directory) -> Owner | None:
        before = None
        while not self._make(here):
            found = self._read(here)
            if found is None:
                continue
            if self._is_alive(here, found):
                raise self._refusal(found)
            if self._take_away(here, found):
                before = found
        self._sweep(here)
        return before

    def check(self) -> None:
        """Raise LockedError if another living process holds the lock; remove the lock of a dead one."""
        with self._folder() as here:
            found = self._read(here) if here else None
            if here and found is not None:
                if self._is_alive(here, found):
                    raise self._refusal(found)
                self._take_away(here, found)

    def ours(self) -> bool:
        """Return whether it is still held."""
        found = self._found()
        return found is not None and found.token == self.owner.token

    def release(self) -> None:
        """Release the lock if it is still ours; otherwise it counts as abandoned soon."""
        self._released.set()
        if self._renewer:
            self._renewer.join()
        try:
            if self._here and self.ours():
                os.unlink(self.path.name, dir_fd=self._here.descriptor)
        except FileNotFoundError:
            pass
        except (OSError, LockedError) as exc:
            # The error that ended the run has to be reported.
            LOGGER.warning("%s was not released (%s)", self.path, durable.reason(exc))
        finally:
            self._close()

    def of_this_job(self) -> bool:
        """Return whether the Slurm job of this process holds it."""
        found = self._found()
        return found is not None and self.owner.same_job(found)

    @contextlib.contextmanager
    def _folder(self) -> Iterator[durable.Directory | None]:
        """Return the opened directory; None if it is missing."""
        if self._here:
            yield self._here
            return
        try:
            here = durable.Directory.open(self.path.parent)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        with here:
            yield here

    def _close(self) -> None:
        if self._here:
            self._here.close()
            self._here = None

    def _found(self) -> Owner | None:
        with self._folder() as here:
            return self._read(here) if here else None

    def _is_alive(self, here: durable.Directory, found: Owner) -> bool:
        alive = self.owner.is_running(found)
        return self._is_renewed(here, found) if alive is None else alive

    def _refusal(self, found: Owner) -> LockedError:
        return LockedError(
            f"{self.path.parent} is in use by {found}: wait for its end, or use a directory of this run alone"
        )

    def _make(self, here: durable.Directory) -> bool:
        # Written under another name and linked, so that it is never visible while empty.
        own = f"{self.path.name}.{self.owner.token}"
        try:
            try:
                # Synced: after a power failure an empty lock would have no owner and would never be removed.
                with here.new(own) as file:
                    file.write(json.dumps(dataclasses.asdict(self.owner)).encode())
                here.link(own, self.path.name)
            finally:
                here.remove(own)
        except (FileExistsError, FileNotFoundError):
            # The directory was removed: os.listdir() of its descriptor is empty, and no file can be made in it.
            if not os.fstat(here.descriptor).st_nlink:
                raise
            # Another process took the lock, or its owner removed this file with those of killed runs.
            return False
        return True

    def _sweep(self, here: durable.Directory) -> None:
        """Remove unfinished locks of killed processes.

        Keep a lock that is being returned after it was taken by mistake: see _take_away().
        """
        pattern = re.compile(rf"{re.escape(self.path.name)}\.[0-9a-f]{{16}}")
        for name in os.listdir(here.descriptor):
            if pattern.fullmatch(name):
                here.remove(name)

    def _is_renewed(self, here: durable.Directory, found: Owner) -> bool:
        """Return whether the file is touched, changed or removed within the time after which it counts as abandoned."""
        first = self._mark(here)
        deadline = time.monotonic() + self.stale_seconds
        while time.monotonic() < deadline:
            if self._mark(here) != first:
                return self._read(here) == found
            time.sleep(min(0.2, self.stale_seconds / 20))
        return False

    def _take_away(self, here: durable.Directory, abandoned: Owner) -> bool:
        stale_name = f"{self.path.name}.stale-{self.owner.token}"
        try:
            here.rename(self.path.name, stale_name)
        except FileNotFoundError:
            return False
        mistaken = self._read(here, stale_name) != abandoned
        if mistaken:
            # Another process was faster and this is its new lock: return it.
            with contextlib.suppress(FileExistsError):
                here.link(stale_name, self.path.name)
        os.unlink(stale_name, dir_fd=here.descriptor)
        return not mistaken

    def _mark(self, here: durable.Directory) -> tuple[int, int] | None:
        # An NFS client may answer stat() from its cache for a minute; opening a file makes it ask the server.
        try:
            with here.reading(self.path.name) as file:
                state = os.fstat(file.fileno())
        except FileNotFoundError:
            return None
        return state.st_ino, state.st_mtime_ns

    def _renew_repeatedly(self, here: durable.Directory) -> None:
        while not self._released.wait(self.stale_seconds / 6):
            # Renewal continues even if the server does not answer for a while.
            with contextlib.suppress(OSError, LockedError):
                found = self._read(here)
                if found is not None and found.token != self.owner.token:
                    return
                # It may be missing for a moment, if it was taken by mistake and is being returned: see _take_away().
                os.utime(self.path.name, dir_fd=here.descriptor, follow_symlinks=False)

    def _read(self, here: durable.Directory, name: str = "") -> Owner | None:
        name = name or self.path.name
        try:
            return Owner(**json.loads(here.read(name)))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, RecursionError) as exc:
            raise NoLockError(
                f"{here.path / name} is not a lock of this program: see what it is, and move it away"
            ) from exc
        except OSError as exc:
            if exc.errno not in NOT_A_LOCK:
                raise
            raise NoLockError(
                f"{durable.reason(exc)}, and no lock of this program: see what it is, and move it away"
            ) from exc


class DirectoryLock:
    """Both locks of a directory, that of the program and that of the job, with the methods of Lock.

    If this process is part of the job that holds the directory, the lock of the job stays with the job.
    """

    def __init__(self, directory: Path, stale_seconds: float = STALE_SECONDS) -> None:
        self._program = Lock(directory, stale_seconds)
        self._job = Lock(directory, stale_seconds, JOB_NAME)
        self._has_job = False

    def acquire(self) -> Owner | None:
        """As Lock.acquire()."""
        before = self._program.acquire()
        try:
            if not self._job.of_this_job():
                self._job.acquire()
                self._has_job = True
        except BaseException:
            self._program.release()
            raise
        return before

    def ours(self) -> bool:
        """Return whether it is still held."""
        return self._program.ours()

    def release(self) -> None:
        """Release the locks that are still ours."""
        if self._has_job:
            self._job.release()
        self._program.release()


@contextlib.contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Hold a directory against other programs of this package and other jobs. Raises LockedError, OSError."""
    lock = DirectoryLock(directory)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def check(directory: Path) -> None:
    """Raise LockedError if a program or another job holds the directory. Raises OSError.

    Files of that name that are no locks do not count: some programs have them in their own folders.
    """
    job = Lock(directory, name=JOB_NAME)
    with contextlib.suppress(NoLockError):
        Lock(directory).check()
    with contextlib.suppress(NoLockError):
        if not job.of_this_job():
            job.check()


def check_below(directory: Path) -> None:
    """Raise LockedError if a program or another job holds a directory below this one. Raises OSError."""
    held = [
        Path(folder)
        for folder, _folders, files in os.walk(directory)
        if Path(folder) != directory and {NAME, JOB_NAME} & set(files)
    ]
    with concurrent.futures.ThreadPoolExecutor(min(len(held), WATCHED) or 1) as pool:
        for done in [pool.submit(check, folder) for folder in held]:
            done.result()
