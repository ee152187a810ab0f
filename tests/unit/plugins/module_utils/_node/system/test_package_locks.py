# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Holders of package manager locks, and the wait until none is held."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import package_locks

from tests.unit.fakes.fake_training_host import TrainingHost


def test_holder_of_lock_is_named(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    table = f"1: POSIX  ADVISORY  WRITE {os.getpid()} 08:01:{path.stat().st_ino} 0 EOF\n"
    assert package_locks.lock_holder(path, table).endswith(f"(process {os.getpid()})")
    assert package_locks.lock_holder(path, "1: FLOCK ADVISORY READ 1 08:01:1 0 EOF\n") == "another process"


def test_no_lock_is_held_where_there_is_none(tmp_path):
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/lock").touch()
    assert package_locks.held_lock(tmp_path) == ""


def test_link_in_place_of_lock_is_not_followed(tmp_path, monkeypatch):
    def held(_handle, _how):
        raise BlockingIOError(errno.EAGAIN, "held")

    monkeypatch.setattr(package_locks.fcntl, "lockf", held)
    place = tmp_path / "var/lib/dpkg"
    place.mkdir(parents=True)
    (place / "other").touch()
    (place / "lock").symlink_to("other")
    assert package_locks.held_lock(tmp_path) == ""
    (place / "lock").unlink()
    (place / "lock").touch()
    assert "/var/lib/dpkg/lock is held" in package_locks.held_lock(tmp_path)


@pytest.mark.parametrize("name", package_locks.DNF_LOCKS)
@pytest.mark.parametrize("text, held", [("4711", True), ("4711\n", True), ("4712", False), ("", False), ("dnf", False)])
def test_dnf_lock_counts_while_its_process_lives(tmp_path, name, text, held):
    (tmp_path / "proc/4711").mkdir(parents=True)
    (tmp_path / "proc/4711/comm").write_text("amazon-ssm-agen\n")
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text)
    found = package_locks.held_dnf_lock(tmp_path, tmp_path / "proc")
    assert found == (f"/{name} is held by amazon-ssm-agen (process 4711)" if held else "")


def test_dnf_lock_is_one_of_package_locks(tmp_path):
    lock = tmp_path / package_locks.DNF_LOCKS[0]
    lock.parent.mkdir(parents=True)
    lock.write_text(str(os.getpid()))
    assert f"(process {os.getpid()})" in package_locks.held_lock(tmp_path)
    lock.unlink()
    assert package_locks.held_lock(tmp_path) == ""


@pytest.mark.parametrize("polls, found", [(0, ""), (3, ""), (99, "it is held")])
def test_wait_ends_with_lock_or_with_its_limit(polls, found):
    host, asked = TrainingHost(), []

    def held(root):
        asked.append(root)
        return "it is held" if len(asked) <= polls else ""

    assert package_locks.wait_for_locks(host, 2.0, held) == found
    assert asked == [Path("/")] * (polls + 1 if not found else 5)
