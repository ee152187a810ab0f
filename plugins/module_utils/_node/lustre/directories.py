# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories on a shared file system: missing ones are created once, existing ones are kept unchanged.

Every step goes from the mount point downwards over open directories, so that no link is ever followed. A directory is
created under a temporary name, set up, and then renamed: no other program sees it incomplete, and a killed run leaves
nothing that the next one would take for complete.
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
    """Return for each wanted directory: path, state (missing, there, refused, unknown), differences and why.

    mounts are the mount points proved to be the wanted file systems; a directory below any other is unknown. Missing
    parents of a wanted directory have their own rows before it.
    """
    rows = []
    for entry in with_parents(config):
        mount = below(entry.path, [system.path for system in config.file_systems])
        row: dict[str, t.Any] = {"path": entry.path, "state": "unknown", "differences": [], "why": None}
        if mount is None or mount not in mounts:
            row["why"] = (
                f"{mount or entry.path} is not proved to be its Lustre file system, so nothing is done below it"
            )
        else:
            row.update(_directory_state(host, entry, mount, config.timeout))
        rows.append(row)
    return rows


def with_parents(config: LustreConfig) -> list[Directory]:
    """Return the wanted directories with their parents, each once, from the top down."""
    tops = [system.path for system in config.file_systems]
    known = {entry.path: entry for entry in config.directories}
    found: dict[str, Directory] = {}
    for entry in config.directories:
        mount = below(entry.path, tops) or os.path.dirname(entry.path)
        parts = entry.path[len(mount) + 1 :].split("/")
        for depth in range(1, len(parts)):
            above = "/".join([mount, *parts[:depth]])
            # An unlisted parent gets the rights of the first directory that needs it, without layout and access list.
            found.setdefault(
                above, known.get(above, Directory(above, entry.owner, entry.group, entry.mode, purpose=entry.purpose))
            )
        found.setdefault(entry.path, entry)
    return list(found.values())


def make(host: Host, config: LustreConfig, rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Create the directories that ``look`` found missing; return the paths. Raises ``NodeError``; created ones stay."""
    missing = [row["path"] for row in rows if row["state"] == "missing"]
    wanted = {entry.path: entry for entry in with_parents(config)}
    # Before the first directory: an unknown account stops the run before anything is created.
    accounts = {path: _accounts(host, wanted[path]) for path in missing}
    made: list[str] = []
    if not missing:
        return made
    with host.locked(LOCK_PATH, LOCK_SECONDS):
        for path in missing:
            mount = below(path, [system.path for system in config.file_systems])
            if mount is None:
                raise NodeError(f"{path} is not below any file system of file_systems: add its file system there")
            with _top(mount) as top, _lock_mount(host, top, mount):
                if _make_one(host, top, mount, wanted[path], accounts[path], config.timeout):
                    made.append(path)
    return made


def _directory_state(host: Host, entry: Directory, mount: str, timeout: float) -> dict[str, t.Any]:
    try:
        with _top(mount) as top, _inside(top, entry.path[len(mount) + 1 :]) as handle:
            return {"state": "there", "differences": _differences(host, handle, entry, timeout)}
    except FileNotFoundError:
        return {"state": "missing"}
    except OSError as exc:
        what = "a link or a file is in its place" if exc.errno in (errno.ELOOP, errno.ENOTDIR) else exc.strerror
        return {"state": "refused", "why": f"{what}: check with 'namei -l {entry.path}'"}


def _differences(host: Host, handle: int, entry: Directory, timeout: float) -> list[str]:
    """Return how an existing directory differs, one phrase each."""
    found, info = [], os.fstat(handle)
    for kind, name, number in (("owner", entry.owner, info.st_uid), ("group", entry.group, info.st_gid)):
        wanted = host.uid(name) if kind == "owner" else host.gid(name)
        if wanted is None:
            found.append(f"{kind} {name} is unknown on this node")
        elif wanted != number:
            found.append(f"{kind} is {number} instead of {name}")
    mode = int(entry.mode, 8)
    # With an access list, the bits of the group are the mask.
    if stat.S_IMODE(info.st_mode) & ~0o070 != mode & ~0o070 or (not entry.acl and stat.S_IMODE(info.st_mode) != mode):
        found.append(f"mode is {stat.S_IMODE(info.st_mode):04o} instead of {mode:04o}")
    found += _acl_differences(host, handle, entry, mode)
    if entry.stripe:
        output, problem = _run_inside(host, handle, ["lfs", "getstripe", "-d", "."], timeout)
        wanted_stripe, seen = wanted_layout(entry.stripe), parse_getstripe(output)
        if problem or not seen:
            found.append(f"its stripe layout could not be read: {problem or 'unknown output of lfs'}")
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
            raise NodeError(
                f"{entry.path} is to belong to {kind} {name}, which this node does not have: create it first"
            )
    return t.cast("int", uid), t.cast("int", gid), acl.attributes(host, entry.acl, int(entry.mode, 8))


def _make_one(
    host: Host, top: int, mount: str, entry: Directory, accounts: tuple[int, int, dict[str, bytes]], timeout: float
) -> bool:
    """Create a directory and return whether it was created; false if another node was first."""
    above, _slash, name = entry.path[len(mount) + 1 :].rpartition("/")
    temporary = f"{UNFINISHED}{name}"
    try:
        with _inside(top, above) as parent:
            if _exists(parent, name):
                return False
            # Left by a killed run; no other program uses it.
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(temporary, dir_fd=parent)
            os.mkdir(temporary, 0o700, dir_fd=parent)
            try:
                with _inside(parent, temporary) as handle:
                    _set_up(host, handle, entry, accounts, timeout)
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.rmdir(temporary, dir_fd=parent)
                raise
            os.fsync(parent)
    except OSError as exc:
        raise NodeError(f"{entry.path} could not be created: {exc.strerror}; fix that and run again") from exc
    return True


def _set_up(
    host: Host, handle: int, entry: Directory, accounts: tuple[int, int, dict[str, bytes]], timeout: float
) -> None:
    uid, gid, attributes = accounts
    if entry.stripe:
        _output, problem = _run_inside(host, handle, setstripe(entry.stripe), timeout)
        if problem:
            raise NodeError(f"{entry.path} was not created, since its stripe layout could not be set: {problem}")
    for name, value in attributes.items():
        os.setxattr(handle, name, value)
    os.fchown(handle, uid, gid)
    if acl.ACCESS in attributes:
        # The bits of the group are the mask now, which chmod would reduce.
        os.fchmod(handle, int(entry.mode, 8) & ~0o070 | stat.S_IMODE(os.fstat(handle).st_mode) & 0o070)
    else:
        os.fchmod(handle, int(entry.mode, 8))


def _run_inside(host: Host, handle: int, argv: t.Sequence[str], timeout: float) -> tuple[str, str | None]:
    """Run a program in an open directory, since its path could have changed."""
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
    """Open a directory below an open one without following links; an empty path is the open one itself."""
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
def _lock_mount(host: Host, top: int, mount: str) -> t.Iterator[None]:
    """Lock the mount point against other nodes, if its file system has such locks (the mount option flock)."""
    try:
        fcntl.flock(top, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(top, fcntl.LOCK_UN)
    except BlockingIOError:
        pass
    except OSError:
        # ENOSYS without the mount option: only this node's lock is held.
        yield
        return
    with host.hold(top, LOCK_SECONDS, f"{mount}: another node is creating its directories"):
        yield
