# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Change a cufile.json on the node: follow its link, hold a lock, keep a copy, replace it atomically."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import stat
import time
import typing as t

from ..system.files import replace_file, sync_directory, write_new
from ..system.host import Host, NodeError
from . import cufile_plan as cufile
from .cufile_parse import MAX_BYTES, decode, parse

LOCK_PATH = "/run/mlcluster/cufile.lock"
# A change takes milliseconds; after a minute the other run hangs.
LOCK_SECONDS = 60
_NEW_MODE = 0o644


class FileHost(Host):
    """A host that also reads and writes files as bytes."""

    def read_bytes(self, path: str, limit: int) -> bytes | None:
        """Return at most limit + 1 bytes of a plain file; None if it is missing. Raises NodeError for anything else."""
        try:
            info = os.lstat(path)
            if not stat.S_ISREG(info.st_mode):
                what = "a circular link" if stat.S_ISLNK(info.st_mode) else "not a plain file"
                raise NodeError(f"{path} is {what}: put the configuration of libcufile there, or use another path")
            with open(path, "rb") as stream:
                return stream.read(limit + 1)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise NodeError(f"{path} could not be read ({exc.strerror}): run as root (become: true)") from exc

    def copy_beside(self, path: str, data: bytes) -> str:
        """Save data in a new file beside path, with the permissions of path. Returns its name."""
        base = f"{path}.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        info = os.stat(path)
        for number in range(100):
            name = f"{base}.{number}.bak" if number else f"{base}.bak"
            with contextlib.suppress(FileExistsError):
                # A partial copy (full filesystem) would later look like a complete one.
                write_new(name, data, lambda handle: _copy_metadata(handle, path, info))
                sync_directory(os.path.dirname(name))
                return name
        raise NodeError(f"{base}.bak and 99 more names of this second are taken: remove old copies and run again")

    def replace_bytes(self, path: str, data: bytes) -> None:
        """Replace a file atomically and durably; owner, mode and extended attributes stay. A new file gets 0644."""
        try:
            info = os.stat(path)
        except FileNotFoundError:
            replace_file(path, data, _NEW_MODE)
        else:
            replace_file(path, data, settle=lambda handle: _copy_metadata(handle, path, info))


def _copy_metadata(handle: int, path: str, info: os.stat_result) -> None:
    """Copy owner, mode and extended attributes (SELinux, access lists) of a file to an open file."""
    current = os.fstat(handle)
    if (current.st_uid, current.st_gid) != (info.st_uid, info.st_gid):
        os.fchown(handle, info.st_uid, info.st_gid)
    os.fchmod(handle, stat.S_IMODE(info.st_mode))
    with contextlib.suppress(OSError):
        for name in os.listxattr(path):
            os.setxattr(handle, name, os.getxattr(path, name))


@dataclasses.dataclass(frozen=True)
class Request:
    """The requested content of a cufile.json: settings for state present, keys for state absent."""

    path: str = cufile.DEFAULT_PATH
    settings: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    keys: t.Sequence[str] = ()
    create: bool = False
    backup: bool = True
    allow_unknown: bool = False
    gds_version: str | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of a change or a dry run: target is the file behind the link, config its parsed content afterwards."""

    target: str
    before: str
    after: str
    changes: t.Sequence[cufile.Change]
    config: t.Mapping[str, t.Any]
    backup_file: str | None = None


def change(host: FileHost, request: Request, dry_run: bool = False, lock: str = LOCK_PATH) -> Outcome:
    """Apply a request to a cufile.json. Raises NodeError with one sentence if nothing was written."""
    cufile.check_settings(request.settings, request.allow_unknown, request.gds_version)
    outcome, data = _look(host, request)
    if dry_run or not outcome.changes:
        # In a dry run an earlier task may not have created the paths that the settings name.
        return outcome
    problems = cufile.missing_paths(host, request.settings)
    if problems:
        raise NodeError("; ".join(problems))
    with contextlib.ExitStack() as stack:
        _hold(host, stack, request.path, lock)
        outcome, data = _look(host, request)
        return _write(host, request, outcome, data) if outcome.changes else outcome


def _hold(host: Host, stack: contextlib.ExitStack, path: str, lock: str) -> None:
    try:
        stack.enter_context(host.locked(lock, LOCK_SECONDS))
    except NodeError as exc:
        if isinstance(exc.__cause__, OSError):
            raise
        raise NodeError(
            f"{path} was not changed, since another run has held {lock} for {LOCK_SECONDS} seconds: let it end (ps "
            "shows it) and run again"
        ) from None


def _look(host: FileHost, request: Request) -> tuple[Outcome, bytes | None]:
    """Return the outcome that a change would have, and the bytes of the file."""
    target = host.realpath(request.path)
    data = host.read_bytes(target, MAX_BYTES)
    if data is None:
        return _look_at_missing_file(host, request, target), None
    before = decode(data, request.path)
    after, changes = before, list[cufile.Change]()
    if request.settings:
        after, changes = cufile.merge(before, request.settings, request.path)
    after, removals = cufile.remove_settings(after, request.keys, request.path)
    return Outcome(target, before, after, [*changes, *removals], parse(after, request.path).value), data


def _look_at_missing_file(host: Host, request: Request, target: str) -> Outcome:
    if request.keys and not request.settings:
        return Outcome(target, "", "", [], {})
    link_note = f" (it leads to {target})" if target != os.path.abspath(request.path) else ""
    if not request.create:
        raise NodeError(
            f"{request.path} does not exist{link_note}: install libcufile, which contains it, or set create to true"
        )
    if not host.exists(os.path.dirname(target)):
        raise NodeError(
            f"{request.path} cannot be created, since {os.path.dirname(target)} does not exist: create it first"
        )
    after, changes = cufile.create(request.settings)
    return Outcome(target, "", after, changes, parse(after, request.path).value)


def _write(host: FileHost, request: Request, outcome: Outcome, data: bytes | None) -> Outcome:
    target, copy = outcome.target, None
    try:
        with contextlib.ExitStack() as undo:
            if data is not None and request.backup:
                copy = host.copy_beside(target, data)
                # Without a change each try would leave another copy.
                undo.callback(host.remove, copy)
            if host.read_bytes(target, MAX_BYTES) != data:
                raise NodeError(
                    f"{request.path} was changed by another program at the same time and was not written: run again"
                )
            host.replace_bytes(target, outcome.after.encode("utf-8"))
            undo.pop_all()
    except OSError as exc:
        raise NodeError(
            f"{target} could not be replaced ({exc.strerror}) and is unchanged: run as root (become: true) and check "
            "that its filesystem is writable and not full, and that the file itself is not a mount"
        ) from exc
    return dataclasses.replace(outcome, backup_file=copy)
