# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A full or failing disk at any change or sync: a program ends with one sentence, and nothing is lost.

Kinds of failure, each from the Nth call on: "full" (ENOSPC for whatever needs space), "dead" (EIO for every change and
sync), "sync" (EIO for one sync, after which the disk works again, as with a page that could not be written back).
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import subprocess

import pytest
from mlcluster_data.errors import DataError
from mlcluster_data.files import durable
from mlcluster_data.files.s3 import S3Error
from mlcluster_data.locks.directory import LockedError

from tests.data.support.fake_s3 import _server, server
from tests.data.support.forked import ranks, small_disk, watch_changes
from tests.data.support.programs import LostError, Program
from tests.data.test_killed import PROGRAMS, no_job, program

__all__ = ["_server", "no_job", "program", "server"]
# The command turns these into one sentence; the last one is that of a program that reports its exit status.
SENTENCES = (DataError, S3Error, LockedError, OSError, LostError)
# Training with a full disk is tested in tests/data/training; it continues, and lines of its journal are missing.
NAMES = sorted(set(PROGRAMS) - {"train"})
LONG = {"preprocess"}
NEEDS_SPACE = {"open", "os.mkdir", "mkdir", "os.link", "link"}
KINDS = ("full", "dead", "sync")


def break_disk(kind: str, number: int, below) -> list[str]:
    """Let the disk below a folder fail in this process from the ``number``-th call on; return the calls that failed."""
    left, failed = [number], []
    sync = os.fsync

    def count(call: str, path: str) -> None:
        left[0] -= 1
        if left[0] == 0 or (left[0] < 0 and kind != "sync"):
            failed.append(f"{call} {path}")
            code = errno.ENOSPC if kind == "full" else errno.EIO
            raise OSError(code, os.strerror(code), path)

    def watch(change, paths):
        if kind == "dead" or (kind == "full" and change in NEEDS_SPACE):
            for path in paths[:1]:
                if path.startswith(f"{below}/"):
                    count(change, path)

    def synced(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if kind != "full" and path.startswith(str(below)):
            count("fsync", path)
        sync(descriptor)

    os.fsync = synced
    watch_changes(watch)
    return failed


def outcome(program: Program, disk, kind: str, number: int, folder) -> tuple[list[str], list[str], str]:
    """Run a program on such a disk; return its promises, the failed calls, and the error that it ended with.

    Raises any error that would be a traceback of the command.
    """
    notes: list[str] = []

    def work(_report):
        failed = break_disk(kind, number, disk)
        try:
            program.run(disk, notes.append)
        except SENTENCES as exc:
            return notes, failed, durable.reason(exc) or type(exc).__name__
        return notes, failed, ""

    return ranks(0, work, folder)[0]


def made_again(program: Program, folder):
    shutil.rmtree(folder / "work", ignore_errors=True)
    disk = folder / "work" / "disk"
    disk.mkdir(parents=True)
    program.before(disk)
    return disk


def check_every(program: Program, kind: str, folder, step: int = 1) -> int:
    """Check the program with a failure at every ``step``-th call; return how many runs ended with an error."""
    errors = 0
    for number in itertools.count(1, step):
        disk = made_again(program, folder)
        notes, failed, error = outcome(program, disk, kind, number, folder)
        errors += bool(error)
        assert "\n" not in error, error
        program.judge(disk, tuple(notes))
        if not failed:
            break
    return errors


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", sorted(set(NAMES) - LONG), indirect=True)
def test_failing_disk_loses_nothing(program, tmp_path, kind, step, request):
    failed = check_every(program, kind, tmp_path, step)
    # Objects in S3 are on no disk, and a push only keeps its sums and its lock there.
    assert failed or request.node.callspec.params["program"] in ("push", "checkpoints in S3")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", sorted(LONG), indirect=True)
def test_failing_disk_of_long_program_loses_nothing(program, tmp_path, kind):
    assert check_every(program, kind, tmp_path, step=4)


@pytest.mark.parametrize("pages", [2, *(pytest.param(pages, marks=pytest.mark.slow) for pages in (1, *range(3, 9)))])
@pytest.mark.parametrize("program", sorted(set(NAMES) - LONG - {"checkpoints in S3"}), indirect=True)
def test_disk_that_is_full_at_any_byte_loses_nothing(program, tmp_path, pages):
    """A tmpfs of some pages of 4 KiB; once it has room, the program continues."""
    if os.geteuid():
        pytest.skip("only root mounts a file system")
    notes: list[str] = []

    def work(_report):
        disk = tmp_path / "work" / "disk"
        small_disk(disk.parent, 64 << 20)
        disk.mkdir()
        program.before(disk)
        used = os.statvfs(disk)
        size = (used.f_blocks - used.f_bfree) * used.f_frsize + pages * 4096
        subprocess.run(["mount", "-o", f"remount,size={size}", str(disk.parent)], check=True)
        try:
            program.run(disk, notes.append)
        except SENTENCES as exc:
            assert "\n" not in durable.reason(exc)
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk.parent)], check=True)
        program.judge(disk, tuple(notes))

    ranks(0, work, tmp_path)
