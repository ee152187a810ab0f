# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories on a shared file system: what is missing is made, once and whole, and what exists is left alone.

Every step goes from the mount point downwards over open directories, so that no link is ever followed. A directory is
made under a name of its own, furnished, and then given its name: nobody sees it half made, and a run that died leaves
nothing that the next one would take for finished.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import typing as t

from ..system.ask import ask
from ..system.host import Host, NodeError
from . import acl
from .config import Directory, LustreConfig, below
from .stripe import parse_getstripe, same_layout, setstripe, show_layout, wanted_layout

LOCK_PATH = "/run/lock/mlcluster/lustre.lock"
LOCK_SECONDS = 120
UNFINISHED = ".mlcluster-new."
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def look(host: Host, config: LustreConfig, mounts: t.Collection[str]) -> list[dict[str, t.Any]]:
    """Each wanted directory: path, state (missing, there, refused, unknown), differences and why.

    mounts are the mount points that were proved to be what they should; a directory below another is unknown.
    Directories above a wanted one that are missing too are rows of their own, before it.
    """
    rows = []
    for entry in whole(config):
        mount = below(entry.path, [system.path for system in config.file_systems])
        row: dict[str, t.Any] = {"path": entry.path, "state": "unknown", "differences": [], "why": None}
        if mount is None or mount not in mounts:
            row["why"] = f"{mount or entry.path} is not proved to be Lustre, and nothing is done below it"
        else:
            row.update(_seen(host, entry, mount, config.timeout))
        rows.append(row)
    return rows


def whole(config: LustreConfig) -> list[Directory]:
    """The wanted directories with those above them, each once, from the top down."""
    tops = [system.path for system in config.file_systems]
    known = {entry.path: entry for entry in config.directories}
    found: dict[str, Directory] = {}
    for entry in config.directories:
        mount = below(entry.path, tops) or os.path.dirname(entry.path)
        parts = entry.path[len(mount) + 1 :].split("/")
        for depth in range(1, len(parts)):
            above = "/".join([mount, *parts[:depth]])
            # What is not named gets the rights of the first that needs it, and no layout and no list of its own.
            found.setdefault(
                above, known.get(above, Directory(above, entry.owner, entry.group, entry.mode, purpose=entry.purpose))
            )
        found.setdefault(entry.path, entry)
    return list(found.values())


def make(host: Host, config: LustreConfig, rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Make what ``look`` found missing; returns the paths. Raises ``NodeError``, with what was made kept."""
    missing = [row["path"] for row in rows if row["state"] == "missing"]
    wanted = {entry.path: entry for entry in whole(config)}
    # Before the first is made: a name that is unknown stops all of it, not the half.
    accounts = {path: _accounts(host, wanted[path]) for path in missing}
    made: list[str] = []
    if not missing:
        return made
    with host.locked(LOCK_PATH, LOCK_SECONDS):
        for path in missing:
            mount = below(path, [system.path for system in config.file_systems])
            if mount is None:
                raise NodeError(f"{path} is below no file system: name its file system in file_systems")
            with _top(mount) as top, _alone(host, top, mount):
                if _make_one(host, top, mount, wanted[path], accounts[path], config.timeout):
                    made.append(path)
    return made


def _seen(host: Host, entry: Directory, mount: str, timeout: float) -> dict[str, t.Any]:
    try:
        with _top(mount) as top, _inside(top, entry.path[len(mount) + 1 :]) as handle:
            return {"state": "there", "differences": _differences(host, handle, entry, timeout)}
    except FileNotFoundError:
        return {"state": "missing"}
    except OSError as exc:
        what = "a link or no directory is in its way" if exc.errno in (errno.ELOOP, errno.ENOTDIR) else exc.strerror
        return {"state": "refused", "why": f"{what}: look with 'namei -l {entry.path}'"}


def _differences(host: Host, handle: int, entry: Directory, timeout: float) -> list[str]:
    """How a directory that exists differs, a part of a sentence each."""
    found, info = [], os.fstat(handle)
    for kind, name, number in (("owner", entry.owner, info.st_uid), ("group", entry.group, info.st_gid)):
        wanted = host.uid(name) if kind == "owner" else host.gid(name)
        if wanted is None:
            found.append(f"{kind} {name} is not known on this node")
        elif wanted != number:
            found.append(f"{kind} is {number} instead of {name}")
    mode = int(entry.mode, 8)
    # With a list the bits of the group show the mask.
    if stat.S_IMODE(info.st_mode) & ~0o070 != mode & ~0o070 or (not entry.acl and stat.S_IMODE(info.st_mode) != mode):
        found.append(f"mode is {stat.S_IMODE(info.st_mode):04o} instead of {mode:04o}")
    found += _acl_differences(host, handle, entry, mode)
    if entry.stripe:
        told, problem = _run_inside(host, handle, ["lfs", "getstripe", "-d", "."], timeout)
        wanted_stripe, seen = wanted_layout(entry.stripe), parse_getstripe(told)
        if problem or not seen:
            found.append(f"its stripe layout could not be read: {problem or 'the answer is not understood'}")
        elif not same_layout(wanted_stripe, seen):
            found.append(f"layout is {show_layout(seen)} instead of {show_layout(wanted_stripe)}")
    return found


def _acl_differences(host: Host, handle: int, entry: Directory, mode: int) -> list[str]:
    try:
        wanted = acl.attributes(host, entry.acl, mode)
    except NodeError as exc:
        return [str(exc)]
    found = []
    for name, value in wanted.items():
        try:
            have = acl.decode(os.getxattr(handle, name))
        except (OSError, NodeError):
            have = []
        missing = [one for one in acl.decode(value) if one[0] in (acl.USER, acl.GROUP) and one not in have]
        if missing:
            found.append(f"{'default ' if name == acl.DEFAULT else ''}acl lacks {len(missing)} wanted entries")
    return found


def _accounts(host: Host, entry: Directory) -> tuple[int, int, dict[str, bytes]]:
    uid, gid = host.uid(entry.owner), host.gid(entry.group)
    for kind, name, number in (("user", entry.owner, uid), ("group", entry.group, gid)):
        if number is None:
            raise NodeError(f"{entry.path} is to belong to {kind} {name}, which this node does not have: make it first")
    return t.cast("int", uid), t.cast("int", gid), acl.attributes(host, entry.acl, int(entry.mode, 8))


def _make_one(
    host: Host, top: int, mount: str, entry: Directory, accounts: tuple[int, int, dict[str, bytes]], timeout: float
) -> bool:
    """Whether it was made; false where another node was first."""
    above, _slash, name = entry.path[len(mount) + 1 :].rpartition("/")
    temporary = f"{UNFINISHED}{name}"
    try:
        with _inside(top, above) as parent:
            if _exists(parent, name):
                return False
            # Of a run that died; nobody else has anything in it.
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(temporary, dir_fd=parent)
            os.mkdir(temporary, 0o700, dir_fd=parent)
            try:
                with _inside(parent, temporary) as handle:
                    _furnish(host, handle, entry, accounts, timeout)
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.rmdir(temporary, dir_fd=parent)
                raise
            os.fsync(parent)
    except OSError as exc:
        raise NodeError(f"{entry.path} could not be made: {exc.strerror}; mend that and run again") from exc
    return True


def _furnish(
    host: Host, handle: int, entry: Directory, accounts: tuple[int, int, dict[str, bytes]], timeout: float
) -> None:
    uid, gid, attributes = accounts
    if entry.stripe:
        _told, problem = _run_inside(host, handle, setstripe(entry.stripe), timeout)
        if problem:
            raise NodeError(f"{entry.path} was not made, since its stripe layout could not be set: {problem}")
    for name, value in attributes.items():
        os.setxattr(handle, name, value)
    os.fchown(handle, uid, gid)
    if acl.ACCESS in attributes:
        # The bits of the group are the mask now, and a chmod would narrow it.
        os.fchmod(handle, int(entry.mode, 8) & ~0o070 | stat.S_IMODE(os.fstat(handle).st_mode) & 0o070)
    else:
        os.fchmod(handle, int(entry.mode, 8))


def _run_inside(host: Host, handle: int, argv: t.Sequence[str], timeout: float) -> tuple[str, str | None]:
    """Run a program with an open directory as its own, since a path could lead elsewhere by then."""
    before = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fchdir(handle)
        return ask(host, argv, timeout=timeout)
    finally:
        os.fchdir(before)
        os.close(before)


@contextlib.contextmanager
def _top(mount: str) -> t.Iterator[int]:
    handle = os.open(mount, _FLAGS)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def _inside(top: int, path: str) -> t.Iterator[int]:
    """Open a directory below an open one, one step at a time and over no link; an empty path is that one itself."""
    handle = os.open(".", _FLAGS, dir_fd=top)
    try:
        for part in path.split("/") if path else ():
            inner = os.open(part, _FLAGS, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _exists(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextlib.contextmanager
def _alone(host: Host, top: int, mount: str) -> t.Iterator[None]:
    """Hold the mount point against other nodes, where its file system has such locks (the mount option flock)."""
    try:
        fcntl.flock(top, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(top, fcntl.LOCK_UN)
    except BlockingIOError:
        pass
    except OSError:
        # ENOSYS without the mount option; the lock of this node has to do.
        yield
        return
    with host.hold(top, LOCK_SECONDS, f"{mount}: another node makes its directories"):
        yield
