# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes a cufile.json on the node: follows its link, holds a lock, keeps a copy, replaces it in one step."""

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
# A change takes milliseconds; a minute is a run that hangs.
LOCK_SECONDS = 60
_NEW_MODE = 0o644


class FileHost(Host):
    """A host that also gives and takes files byte for byte."""

    def read_bytes(self, path: str, limit: int) -> bytes | None:
        """At most limit + 1 bytes of a plain file; None where there is none. Raises NodeError for anything else."""
        try:
            info = os.lstat(path)
            if not stat.S_ISREG(info.st_mode):
                what = "a link that leads nowhere but in a circle" if stat.S_ISLNK(info.st_mode) else "no plain file"
                raise NodeError(f"{path} is {what}: put the configuration of libcufile there, or give another path")
            with open(path, "rb") as stream:
                return stream.read(limit + 1)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise NodeError(f"{path} could not be read ({exc.strerror}): run as root (become: true)") from exc

    def copy_beside(self, path: str, data: bytes) -> str:
        """Keep data in a new file beside path, which nobody may read who may not read path; returns its name."""
        base = f"{path}.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        info = os.stat(path)
        for number in range(100):
            name = f"{base}.{number}.bak" if number else f"{base}.bak"
            with contextlib.suppress(FileExistsError):
                # Half a copy, as of a full filesystem, would pass for a whole one later.
                write_new(name, data, lambda handle: _take_over(handle, path, info))
                sync_directory(os.path.dirname(name))
                return name
        raise NodeError(f"{base}.bak and 99 more names of this second are taken: remove old copies and run again")

    def replace_bytes(self, path: str, data: bytes) -> None:
        """Replace a file in one step, durably; owner, mode and extended attributes stay. A new file gets 0644."""
        try:
            info = os.stat(path)
        except FileNotFoundError:
            replace_file(path, data, _NEW_MODE)
        else:
            replace_file(path, data, settle=lambda handle: _take_over(handle, path, info))


def _take_over(handle: int, path: str, info: os.stat_result) -> None:
    """Give an open file the owner, mode and extended attributes (SELinux, access lists) of another."""
    mine = os.fstat(handle)
    if (mine.st_uid, mine.st_gid) != (info.st_uid, info.st_gid):
        os.fchown(handle, info.st_uid, info.st_gid)
    os.fchmod(handle, stat.S_IMODE(info.st_mode))
    with contextlib.suppress(OSError):
        for name in os.listxattr(path):
            os.setxattr(handle, name, os.getxattr(path, name))


@dataclasses.dataclass(frozen=True)
class Wish:
    """What a cufile.json has to be: settings for state present, keys for state absent; see the module's options."""

    path: str = cufile.DEFAULT_PATH
    settings: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    keys: t.Sequence[str] = ()
    create: bool = False
    backup: bool = True
    allow_unknown: bool = False
    gds_version: str | None = None


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What was done, or would be: target is the file behind the link, config what it holds then, parsed."""

    target: str
    before: str
    after: str
    changes: t.Sequence[cufile.Change]
    config: t.Mapping[str, t.Any]
    backup_file: str | None = None


def change(host: FileHost, wish: Wish, dry_run: bool = False, lock: str = LOCK_PATH) -> Outcome:
    """Bring a cufile.json to what is wished; raises NodeError with one sentence, and then nothing was written."""
    cufile.check_settings(wish.settings, wish.allow_unknown, wish.gds_version)
    outcome, data = _look(host, wish)
    if dry_run or not outcome.changes:
        # What the settings name may be made by an earlier task that a dry run only foretold.
        return outcome
    problems = cufile.missing_paths(host, wish.settings)
    if problems:
        raise NodeError("; ".join(problems))
    with contextlib.ExitStack() as stack:
        _hold(host, stack, wish.path, lock)
        outcome, data = _look(host, wish)
        return _write(host, wish, outcome, data) if outcome.changes else outcome


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


def _look(host: FileHost, wish: Wish) -> tuple[Outcome, bytes | None]:
    """What would be done, and the bytes that were found."""
    target = host.realpath(wish.path)
    data = host.read_bytes(target, MAX_BYTES)
    if data is None:
        return _look_at_nothing(host, wish, target), None
    before = decode(data, wish.path)
    after, changes = before, list[cufile.Change]()
    if wish.settings:
        after, changes = cufile.merge(before, wish.settings, wish.path)
    after, gone = cufile.take_out(after, wish.keys, wish.path)
    return Outcome(target, before, after, [*changes, *gone], parse(after, wish.path).value), data


def _look_at_nothing(host: Host, wish: Wish, target: str) -> Outcome:
    if wish.keys and not wish.settings:
        return Outcome(target, "", "", [], {})
    behind = f" (it leads to {target})" if target != os.path.abspath(wish.path) else ""
    if not wish.create:
        raise NodeError(
            f"{wish.path} does not exist{behind}: install libcufile, which brings it, or set create to make one"
        )
    if not host.exists(os.path.dirname(target)):
        raise NodeError(f"{wish.path} cannot be made, since {os.path.dirname(target)} does not exist: make it first")
    after, changes = cufile.create(wish.settings)
    return Outcome(target, "", after, changes, parse(after, wish.path).value)


def _write(host: FileHost, wish: Wish, outcome: Outcome, data: bytes | None) -> Outcome:
    target, copy = outcome.target, None
    try:
        with contextlib.ExitStack() as undo:
            if data is not None and wish.backup:
                copy = host.copy_beside(target, data)
                # A copy of what was not changed would come with each try.
                undo.callback(host.remove, copy)
            if host.read_bytes(target, MAX_BYTES) != data:
                raise NodeError(
                    f"{wish.path} was changed by somebody else at the same time and was left alone: run again"
                )
            host.replace_bytes(target, outcome.after.encode("utf-8"))
            undo.pop_all()
    except OSError as exc:
        raise NodeError(
            f"{target} could not be replaced ({exc.strerror}) and is as it was: run as root (become: true) and see "
            "that its filesystem is writable and not full, and that the file itself is not a mount"
        ) from exc
    return dataclasses.replace(outcome, backup_file=copy)
