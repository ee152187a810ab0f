# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Locks of directories: their owner, the owner's death, and protection of a live owner."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest
from mlcluster_data.files.durable import Directory
from mlcluster_data.locks import directory as locks
from mlcluster_data.locks.directory import DirectoryLock, Lock, LockedError

from tests.data.support.forked import ranks, small_disk
from tests.data.support.planted import PLANTED, plant


def held_by(folder: Path, **changes) -> locks.Owner:
    """Write a lock of an owner, by default a process of another node, and return the owner."""
    owner = dataclasses.replace(locks.myself(), **{"host": "n7", "boot": "other", **changes})
    (folder / locks.NAME).write_text(json.dumps(dataclasses.asdict(owner)))
    return owner


def test_lock_is_taken_and_released(tmp_path):
    first = Lock(tmp_path)
    assert first.acquire() is None and first.ours()
    with pytest.raises(LockedError, match=f"{tmp_path} is in use by process {os.getpid()}"):
        Lock(tmp_path).acquire()
    first.release()
    assert list(tmp_path.iterdir()) == []
    second = Lock(tmp_path)
    second.acquire()
    second.release()


def test_dead_process_of_this_node_is_detected_at_once(tmp_path):
    before = held_by(tmp_path, **dataclasses.asdict(locks.myself()) | {"started": 1})
    lock = Lock(tmp_path, stale_seconds=600)
    assert lock.acquire() == before
    lock.release()


def test_earlier_run_of_same_job_is_over(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    before = held_by(tmp_path, job="12", restart="0")
    lock = Lock(tmp_path, stale_seconds=600)
    assert lock.acquire() == before
    lock.release()


def test_earlier_run_of_job_is_over_while_its_process_ends(tmp_path, monkeypatch):
    """This holds on the same node, too, where the process still exists."""
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    before = held_by(tmp_path, **dataclasses.asdict(locks.myself()) | {"restart": "0"})
    lock = Lock(tmp_path, stale_seconds=600)
    assert lock.acquire() == before
    lock.release()


def test_same_job_number_of_other_cluster_is_other_job(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "one")
    other = dataclasses.replace(locks.myself(), host="n7", restart="0", cluster="two")
    assert locks.myself().is_running(other) is None


def test_other_node_without_sign_of_life_loses_lock(tmp_path):
    before = held_by(tmp_path)
    lock = Lock(tmp_path, stale_seconds=0.1)
    assert lock.acquire() == before
    assert [path.name for path in tmp_path.iterdir()] == [locks.NAME]
    lock.release()


def test_other_node_with_sign_of_life_keeps_lock(tmp_path):
    held_by(tmp_path, job="4")
    ended = threading.Event()

    def touch():
        while not ended.wait(0.02):
            os.utime(tmp_path / locks.NAME)

    toucher = threading.Thread(target=touch)
    toucher.start()
    try:
        with pytest.raises(LockedError, match="of job 4 on n7"):
            Lock(tmp_path, stale_seconds=600).acquire()
    finally:
        ended.set()
        toucher.join()


def test_lock_released_meanwhile_is_acquired(tmp_path):
    held_by(tmp_path)
    lock = Lock(tmp_path, stale_seconds=600)
    mark, looks = lock._mark, []

    def and_then_it_is_given_back(here):
        looks.append(mark(here))
        lock.path.unlink(missing_ok=True)
        return looks[-1]

    lock._mark = and_then_it_is_given_back
    lock.acquire()
    assert looks[0] and lock.ours()
    lock.release()


def test_stale_lock_is_taken_by_only_one_of_two(tmp_path):
    stale = held_by(tmp_path)
    slow, fast = Lock(tmp_path, stale_seconds=0.1), Lock(tmp_path, stale_seconds=0.1)
    fast.acquire()
    # The slow process read the lock before the fast one acquired it, and acts afterwards.
    with Directory.open(tmp_path) as here:
        assert not slow._take_away(here, stale)
    assert fast.ours()
    fast.release()


def sign_of_life(lock):
    """Wait for the next sign of life."""
    first = lock.path.stat().st_mtime_ns
    while lock.path.stat().st_mtime_ns == first:
        assert lock._renewer.is_alive()
        time.sleep(0.01)


def test_lock_gives_signs_of_life(tmp_path):
    lock = Lock(tmp_path, stale_seconds=0.06)
    lock.acquire()
    sign_of_life(lock)
    lock.release()


def test_signs_of_life_continue_after_lock_was_put_back(tmp_path):
    """Another process moved the lock away by an outdated view, and put it back during a sign of life."""
    lock = Lock(tmp_path, stale_seconds=0.06)
    lock.acquire()
    read, missed = lock._read, threading.Event()

    def look(here):
        found = read(here)
        if found is None:
            missed.set()
        return found

    lock._read = look
    os.rename(lock.path, tmp_path / "aside")
    missed.wait()
    os.rename(tmp_path / "aside", lock.path)
    sign_of_life(lock)
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_lost_lock_is_not_released(tmp_path):
    lock = Lock(tmp_path)
    lock.acquire()
    held_by(tmp_path)
    assert not lock.ours()
    lock.release()
    assert (tmp_path / locks.NAME).exists()


def test_file_that_is_not_lock_is_left_unchanged(tmp_path):
    (tmp_path / locks.NAME).write_text("notes")
    with pytest.raises(LockedError, match="is not a lock of this program"):
        Lock(tmp_path).acquire()


def test_unremovable_lock_does_not_hide_other_error(tmp_path):
    """The lock stays, and the error that ended the run is reported."""
    if os.geteuid():
        pytest.skip("mounting a small disk needs root")

    def work(report):
        small_disk(tmp_path / "disk", 100_000)
        lock = DirectoryLock(tmp_path / "disk")
        lock.acquire()
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "disk")], check=True)
        lock.release()
        subprocess.run(["mount", "-o", "remount,rw", str(tmp_path / "disk")], check=True)
        return sorted(path.name for path in (tmp_path / "disk").iterdir())

    assert ranks(0, work, tmp_path) == [[locks.JOB_NAME, locks.NAME]]


@pytest.mark.parametrize("what", PLANTED)
def test_planted_entry_is_rejected_and_not_touched(tmp_path, what):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    before = victim.stat()
    (tmp_path / "kept").mkdir()
    plant(tmp_path / "kept" / locks.NAME, what, victim)
    lock = Lock(tmp_path / "kept", stale_seconds=0.2)
    with pytest.raises(locks.NoLockError, match=f"{tmp_path}/kept/{locks.NAME}.* (no|not a) lock of this program"):
        lock.acquire()
    lock.release()
    assert victim.read_bytes() == b"precious" and victim.stat().st_mtime_ns == before.st_mtime_ns
    assert not (tmp_path / "absent").exists()


def test_sign_of_life_does_not_follow_planted_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    os.utime(victim, (1, 1))
    lock = Lock(tmp_path, stale_seconds=0.3)
    lock.acquire()
    try:
        lock.path.rename(tmp_path / "aside")
        lock.path.symlink_to(victim)
        time.sleep(0.3)
        assert victim.stat().st_mtime == 1
        lock.path.unlink()
        (tmp_path / "aside").rename(lock.path)
        before = lock.path.stat().st_mtime_ns
        deadline = time.monotonic() + 20
        while lock.path.stat().st_mtime_ns == before:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        lock.release()
    assert not lock.path.exists()


def test_link_planted_during_sign_of_life_is_not_followed(tmp_path, monkeypatch):
    """The link replaces the lock between its check and the sign of life."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    os.utime(victim, (1, 1))
    (tmp_path / "kept").mkdir()
    lock = Lock(tmp_path / "kept", stale_seconds=0.3)
    lock.acquire()
    read = Lock._read

    def swapped(self, here):
        found = read(self, here)
        self.path.unlink()
        self.path.symlink_to(victim)
        monkeypatch.undo()
        return found

    monkeypatch.setattr(Lock, "_read", swapped)
    deadline = time.monotonic() + 20
    while not lock.path.is_symlink():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.3)
    lock.release()
    assert victim.stat().st_mtime == 1


@pytest.mark.parametrize("by", ["link", "directory"])
def test_held_lock_stays_in_its_opened_directory(tmp_path, by):
    """Lock, signs of life and release use the directory in which the lock was acquired."""
    kept, moved, other = tmp_path / "kept", tmp_path / "moved", tmp_path / "other"
    kept.mkdir()
    other.mkdir()
    lock = Lock(kept, stale_seconds=0.3)
    lock.acquire()
    kept.rename(moved)
    (other / locks.NAME).write_bytes((moved / locks.NAME).read_bytes())
    os.utime(other / locks.NAME, (1, 1))
    if by == "link":
        kept.symlink_to(other)
    else:
        other = other.rename(kept)
    before = (moved / locks.NAME).stat().st_mtime_ns
    deadline = time.monotonic() + 20
    while (moved / locks.NAME).stat().st_mtime_ns == before:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert lock.ours()
    lock.release()
    assert not (moved / locks.NAME).exists()
    assert (other / locks.NAME).stat().st_mtime == 1


def test_released_lock_closes_its_directory(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    lock = Lock(tmp_path)
    lock.acquire()
    with pytest.raises(LockedError):
        Lock(tmp_path).acquire()
    Lock(tmp_path, name=locks.JOB_NAME).check()
    lock.release()
    assert len(os.listdir("/proc/self/fd")) == before


def test_directory_removed_during_wait_is_error(tmp_path, monkeypatch):
    place = tmp_path / "kept"
    place.mkdir()
    lock = Lock(place)
    make = Lock._make

    def removed(self, here):
        if place.exists():
            place.rmdir()
        return make(self, here)

    monkeypatch.setattr(Lock, "_make", removed)
    with pytest.raises(FileNotFoundError):
        lock.acquire()
