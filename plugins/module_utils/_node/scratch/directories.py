# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A directory for each job on the local volume: created before the job, removed after it with any content.

    BASE/            root, 0711: only root can add, rename or list anything here
    BASE/job-4711/   root, 0711, with job.json, which names the owner
    BASE/job-4711/tmp  the user's, 0700: the value of TMPDIR
    BASE/.trash/     root, 0700: directories that are being removed

A user owns nothing above tmp, so the user cannot replace anything with a link. A directory is removed by one rename, so
the next job never waits for a large tree; ``trash`` empties it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import re
import secrets
import stat
import typing as t

from ..storage.config import CONFIG_PATH
from ..storage.record import RECORD_PATH, read_document
from ..system.files import replace_in
from ..system.host import Host, NodeError
from ..system.mounts import read_mounts
from .trash import TrashResult, empty

SUBDIRECTORY = "jobs"
TRASH = ".trash"
# Begin of the new name of an entry that has the name of a job's directory and is of another program.
FOREIGN = "foreign-"
# The directory of the user inside that of the job.
OWN = "tmp"
SCHEMA = "mlcluster.scratch/1"
LOCK_SECONDS = 5
_NAME = re.compile(r"job-([0-9]{1,10})")
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclasses.dataclass(frozen=True)
class JobDirectory:
    """One directory of a job: boot_id and made (seconds since 1970) are of its creation; renewal changes mark."""

    job_id: int
    uid: int
    boot_id: str
    made: float
    mark: tuple[int, int]

    @property
    def name(self) -> str:
        """The name of the directory below the base."""
        return f"job-{self.job_id}"


@dataclasses.dataclass(frozen=True)
class SweepResult:
    """The result of a sweep: jobs whose directories were removed, jobs whose leftovers were kept, and problems."""

    taken: list[int]
    kept: list[int]
    problems: list[str]


def default_base(host: Host) -> str | None:
    """Return the path of the jobs' directories on the local volume; None on a node without a volume."""
    path = (read_document(host, RECORD_PATH) or {}).get("path")
    return f"{path.rstrip('/')}/{SUBDIRECTORY}" if isinstance(path, str) and path.startswith("/") else None


def no_volume(host: Host, base: str) -> str | None:
    """Return why a node has no jobs' directories: their volume is missing, and local storage is not configured.

    None if the volume exists or is configured.
    """
    volume = os.path.dirname(base) or "/"
    if host.exists(volume) or host.exists(CONFIG_PATH):
        return None
    return f"there is no {volume} for the jobs' directories, and this node is to have no local storage"


def unmounted_volume(host: Host, base: str) -> str | None:
    """Return why no job may use base now: the local volume of base is not mounted.

    Its mount point is still a directory, and files of jobs there would fill the root disk.
    """
    record = read_document(host, RECORD_PATH) or {}
    if record.get("state") == "none":
        return None
    targets = {mount["target"] for mount in read_mounts(host)}
    paths = [str(volume["path"]) for volume in record.get("volumes") or []]
    away = [path for path in paths if base.startswith(f"{path.rstrip('/')}/") and path not in targets]
    if not away:
        return None
    return (
        f"the local volume is not mounted on {away[0]}, and jobs would write to the disk below it: run 'systemctl "
        "restart mlcluster-storage' on the node"
    )


def tmp_path(base: str, job_id: int) -> str:
    """Return the value of TMPDIR for a job."""
    return f"{base}/job-{job_id}/{OWN}"


@contextlib.contextmanager
def opened_base(base: str, make: bool = False, or_above: bool = False) -> t.Iterator[int]:
    """Open the base without following links, and check that only root can change it.

    or_above: if only the base itself is missing, its parent is opened. Raises ``NodeError`` if the base is missing (and
    make is false), a link is in its path, or another user could replace it.
    """
    if not base.startswith("/") or base.startswith("//") or os.path.normpath(base) != base or base == "/":
        raise NodeError(f"the path of the jobs' directories is {base!r}: use an absolute path without . and ..")
    handle = os.open("/", _OPEN)
    at, made = "", False
    try:
        for part in base[1:].split("/"):
            at = f"{at}/{part}"
            if make and at == base:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o711, dir_fd=handle)
                    made = True
            if or_above and at == base and not _exists(handle, part):
                break
            inner = os.open(part, _OPEN, dir_fd=handle)
            os.close(handle)
            handle = inner
            _check_owner(handle, at, last=at == base)
        if made:
            # Set the mode despite the umask; an existing directory keeps its mode.
            os.fchmod(handle, 0o711)
        yield handle
    except OSError as exc:
        why = "a link or a file is in its place" if exc.errno in (errno.ELOOP, errno.ENOTDIR) else exc.strerror
        raise NodeError(f"could not use {at} for the jobs' directories: {why}") from exc
    finally:
        os.close(handle)


def _check_owner(handle: int, path: str, last: bool) -> None:
    info = os.fstat(handle)
    others = info.st_mode & 0o022
    # In a sticky directory only its owner and root can rename a directory of root.
    if info.st_uid != 0 or (others and (last or not info.st_mode & stat.S_ISVTX)):
        mode = stat.S_IMODE(info.st_mode)
        raise NodeError(
            f"{path} has owner {info.st_uid} and mode {mode:04o}, so users other than root could replace it: change "
            "its owner to root and its mode to 0755 (or 1777 above the jobs' directories)"
        )


def free_percent(where: int | str) -> dict[str, float]:
    """Return the free space and the free inodes of a filesystem for users, in percent.

    Raises ``NodeError`` if it reports no size, as Lustre without its servers.
    """
    info = os.statvfs(where)
    if not info.f_blocks:
        raise NodeError(
            "queried the file system for its free space and it reports a size of 0: look with 'df' and 'mount'"
        )
    # XFS and ext4 count inodes; filesystems that allocate them on demand report 0.
    inodes = 100.0 * info.f_favail / info.f_files if info.f_files else 100.0
    space = 100.0 * info.f_bavail / info.f_blocks
    return {"bytes": round(space, 1), "inodes": round(inodes, 1)}


def make(host: Host, base: str, job_id: int, uid: int, gid: int) -> str:
    """Create the directory of a job and return the path for TMPDIR.

    A directory of the same job, user and boot is kept: its job may be running. One of an earlier job is removed, and
    anything that this module did not make is renamed to ``FOREIGN`` and that name.
    """
    boot = _boot_id(host)
    with opened_base(base, make=True) as handle, _locked(host, handle), _trash(handle) as trash:
        known = _read(handle, f"job-{job_id}")
        if known and (known.uid, known.boot_id) == (uid, boot):
            with _inside(handle, known.name) as inner:
                _write_record(inner, known.job_id, uid, boot)
            return tmp_path(base, job_id)
        if known:
            _move_to_trash(handle, trash, f"job-{job_id}")
        elif _exists(handle, f"job-{job_id}"):
            # A site may have used such names before; job ids begin again with another head node.
            foreign = f"{FOREIGN}job-{job_id}-{secrets.token_hex(8)}"
            os.rename(f"job-{job_id}", foreign, src_dir_fd=handle, dst_dir_fd=handle)
        fresh = f"new-{secrets.token_hex(8)}"
        os.mkdir(fresh, 0o711, dir_fd=trash)
        with _inside(trash, fresh) as inner:
            os.fchmod(inner, 0o711)
            _write_record(inner, job_id, uid, boot)
            os.mkdir(OWN, 0o700, dir_fd=inner)
            with _inside(inner, OWN) as own:
                os.fchmod(own, 0o700)
                os.fchown(own, uid, gid)
        os.rename(fresh, f"job-{job_id}", src_dir_fd=trash, dst_dir_fd=handle)
    return tmp_path(base, job_id)


def remove(host: Host, base: str, job_id: int, seconds: float) -> TrashResult:
    """Move the directory of a job to the trash, then empty the trash for at most seconds. It may be missing.

    One that this module did not make is kept.
    """
    with opened_base(base) as handle, _trash(handle) as trash:
        with _locked(host, handle):
            if _read(handle, f"job-{job_id}"):
                _move_to_trash(handle, trash, f"job-{job_id}")
        return empty(trash, host.monotonic() + seconds, host.monotonic)


def survey(base: str) -> list[JobDirectory]:
    """Return the existing jobs' directories, oldest first, without directories that this module did not create."""
    with opened_base(base) as handle:
        found = [_read(handle, name) for name in os.listdir(handle) if _NAME.fullmatch(name)]
    return sorted((one for one in found if one), key=lambda one: one.made)


def sweep(
    host: Host,
    base: str,
    known: t.Sequence[JobDirectory],
    live: t.AbstractSet[int] | None,
    now: float,
    keep_seconds: float = 0,
    least_percent: int = 0,
) -> SweepResult:
    """Remove directories of ended jobs. known is a ``survey`` from before live was read.

    live are the jobs on this node, None if Slurm did not report them: then only directories of earlier boots are
    leftovers. A leftover is kept for keep_seconds, unless less than least_percent is free; then the oldest go first.
    """
    boot = _boot_id(host)
    left = [one for one in known if one.boot_id != boot or (live is not None and one.job_id not in live)]
    swept = SweepResult([], [], [])
    with opened_base(base) as handle, _trash(handle) as trash:
        for one in left:
            scarce = min(free_percent(handle).values()) < least_percent
            # After the clock was set back, an age would be negative.
            if not scarce and max(now - one.made, 0) < keep_seconds:
                swept.kept.append(one.job_id)
                continue
            try:
                with _locked(host, handle):
                    # A different record means that the job came back to this node after the survey.
                    if _read(handle, one.name) == one:
                        _move_to_trash(handle, trash, one.name)
                        swept.taken.append(one.job_id)
            except OSError as exc:
                swept.problems.append(f"{base}/{one.name}: {exc.strerror}")
            if scarce:
                empty(trash, host.monotonic() + LOCK_SECONDS, host.monotonic)
    return swept


def empty_trash(host: Host, base: str, seconds: float) -> TrashResult:
    """Empty the trash for at most seconds."""
    with opened_base(base) as handle, _trash(handle) as trash:
        return empty(trash, host.monotonic() + seconds, host.monotonic)


def _boot_id(host: Host) -> str:
    """Return the kernel's id of this boot. Raises ``NodeError`` without one: each directory would look left behind."""
    boot = (host.read_text("/proc/sys/kernel/random/boot_id") or "").strip()
    if not boot:
        raise NodeError("read /proc/sys/kernel/random/boot_id and found no boot id: mount /proc, then run again")
    return boot


def _locked(host: Host, handle: int) -> contextlib.AbstractContextManager[None]:
    """Lock the base itself; only root can open it, so only root can hold the lock."""
    return host.hold(handle, LOCK_SECONDS, "the jobs' directories: another process changes them")


@contextlib.contextmanager
def _inside(handle: int, name: str) -> t.Iterator[int]:
    inner = os.open(name, _OPEN, dir_fd=handle)
    try:
        yield inner
    finally:
        os.close(inner)


@contextlib.contextmanager
def _trash(handle: int) -> t.Iterator[int]:
    with contextlib.suppress(FileExistsError):
        os.mkdir(TRASH, 0o700, dir_fd=handle)
    with _inside(handle, TRASH) as trash:
        yield trash


def _exists(handle: int, name: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        os.lstat(name, dir_fd=handle)
        return True
    return False


def _move_to_trash(handle: int, trash: int, name: str) -> None:
    os.rename(name, f"{name}-{secrets.token_hex(8)}", src_dir_fd=handle, dst_dir_fd=trash)


def _write_record(inner: int, job_id: int, uid: int, boot: str) -> None:
    text = json.dumps({"schema": SCHEMA, "job_id": job_id, "uid": uid, "boot_id": boot}, sort_keys=True) + "\n"
    replace_in(inner, "job.json", text.encode(), 0o644)


def _torn(name: str) -> dict[str, t.Any]:
    return {"job_id": int(name.rpartition("-")[2]), "uid": -1, "boot_id": ""}


def _read(handle: int, name: str) -> JobDirectory | None:
    """Return the record of one directory; None if it is missing or was not created here."""
    try:
        with _inside(handle, name) as inner:
            descriptor = os.open("job.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inner)
            with os.fdopen(descriptor, encoding="utf-8", errors="replace") as stream:
                info = os.fstat(stream.fileno())
                text = stream.read(4096)
            # The file is replaced atomically; it is empty only if the machine failed before the data was on disk.
            document = json.loads(text) if text.strip("\0") else _torn(name)
    except (OSError, ValueError, RecursionError):
        return None
    numbers = [document.get(key) if isinstance(document, dict) else None for key in ("job_id", "uid")]
    if not all(isinstance(number, int) for number in numbers) or f"job-{numbers[0]}" != name:
        return None
    job_id, uid = t.cast("list[int]", numbers)
    mark = (info.st_ino, info.st_mtime_ns)
    return JobDirectory(job_id, uid, str(document.get("boot_id")), info.st_mtime, mark)
