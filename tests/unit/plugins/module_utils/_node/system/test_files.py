# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import files


def plant(kind, path, victim):
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "dangling link":
        path.symlink_to(victim.parent / "nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("old", encoding="utf-8")


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "pipe"])
def test_new_file_never_takes_a_name_that_exists(tmp_path, kind):
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    plant(kind, tmp_path / "x", victim)
    with pytest.raises(FileExistsError):
        files.write_new(tmp_path / "x", b"new")
    assert victim.read_text(encoding="utf-8") == "precious"
    assert sorted(os.listdir(tmp_path)) == ["victim", "x"]


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "pipe"])
def test_replaced_file_is_never_followed(tmp_path, kind):
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    plant(kind, tmp_path / "x", victim)
    files.replace_file(tmp_path / "x", b"new", 0o640)
    assert victim.read_text(encoding="utf-8") == "precious"
    assert not (tmp_path / "x").is_symlink()
    assert (tmp_path / "x").read_bytes() == b"new"
    assert os.stat(tmp_path / "x").st_mode & 0o7777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["victim", "x"]


def test_directory_in_the_place_of_a_file_is_an_error(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(OSError, match=r"directory"):
        files.replace_file(tmp_path / "x", b"new")
    assert os.listdir(tmp_path) == ["x"]


def test_planted_name_of_the_fresh_file_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(files.secrets, "token_hex", lambda size: "guessed")
    (tmp_path / "victim").write_text("precious", encoding="utf-8")
    (tmp_path / ".x.guessed").symlink_to("victim")
    with pytest.raises(FileExistsError):
        files.replace_file(tmp_path / "x", b"new")
    assert (tmp_path / "victim").read_text(encoding="utf-8") == "precious"


def test_names_of_fresh_files_are_random(tmp_path, monkeypatch):
    seen = []
    real = os.replace
    monkeypatch.setattr(files.os, "replace", lambda one, two, **more: seen.append(one) or real(one, two, **more))
    for _twice in range(2):
        files.replace_file(tmp_path / "x", b"new")
    assert len(set(seen)) == 2


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_mode_does_not_depend_on_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        files.replace_file(tmp_path / "x", b"", 0o644)
        files.write_new(tmp_path / "y", b"")
    finally:
        os.umask(before)
    assert [os.stat(tmp_path / name).st_mode & 0o7777 for name in "xy"] == [0o644, 0o600]


def test_replaced_file_is_synced_before_its_name_and_the_directory_after(tmp_path, monkeypatch):
    order = []
    for name in ("fchmod", "fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(files.os, name, lambda *args, n=name, r=real, **more: order.append(n) or r(*args, **more))
    files.replace_file(tmp_path / "x", b"new")
    assert order == ["fchmod", "fsync", "replace", "fsync"]
    order.clear()
    files.replace_file(tmp_path / "x", b"newer", sync=False)
    assert order == ["fchmod", "replace"]


@pytest.mark.parametrize("step", ["fchmod", "fsync", "replace"])
def test_error_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    (tmp_path / "x").write_text("old", encoding="utf-8")

    def fail(*_args, **_more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        files.replace_file(tmp_path / "x", b"new")
    monkeypatch.undo()
    assert ((tmp_path / "x").read_text(encoding="utf-8"), os.listdir(tmp_path)) == ("old", ["x"])


def test_settle_takes_the_place_of_the_mode(tmp_path):
    files.replace_file(tmp_path / "x", b"new", settle=lambda handle: os.fchmod(handle, 0o400))
    assert os.stat(tmp_path / "x").st_mode & 0o7777 == 0o400


def test_relative_path_is_below_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files.replace_file("x", b"new")
    assert os.listdir(tmp_path) == ["x"]


def test_file_of_an_open_directory_stays_below_it(tmp_path):
    (tmp_path / "a").mkdir()
    handle = os.open(tmp_path / "a", files.DIRECTORY)
    try:
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "a").symlink_to("/")
        files.replace_in(handle, "x", b"new")
    finally:
        os.close(handle)
    assert os.listdir(tmp_path / "b") == ["x"]
