# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import os
import subprocess

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
def test_new_file_never_takes_name_that_exists(tmp_path, kind):
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


def test_directory_in_place_of_file_is_error(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(OSError, match=r"directory"):
        files.replace_file(tmp_path / "x", b"new")
    assert os.listdir(tmp_path) == ["x"]


def test_planted_name_of_fresh_file_is_error(tmp_path, monkeypatch):
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
def test_mode_does_not_depend_on_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        files.replace_file(tmp_path / "x", b"", 0o644)
        files.write_new(tmp_path / "y", b"")
    finally:
        os.umask(before)
    assert [os.stat(tmp_path / name).st_mode & 0o7777 for name in "xy"] == [0o644, 0o600]


def test_replaced_file_is_synced_before_rename(tmp_path, monkeypatch):
    order = []
    for name in ("fchmod", "fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(files.os, name, lambda *args, n=name, r=real, **more: order.append(n) or r(*args, **more))
    files.replace_file(tmp_path / "x", b"new")
    assert order == ["fchmod", "fsync", "replace", "fsync"]
    order.clear()
    files.replace_file(tmp_path / "x", b"newer", sync=False)
    assert order == ["fchmod", "replace"]


def test_content_is_in_file_before_it_is_synced(tmp_path, monkeypatch):
    sizes, real = [], os.fsync
    monkeypatch.setattr(files.os, "fsync", lambda handle: sizes.append(os.fstat(handle).st_size) or real(handle))
    files.write_new(tmp_path / "x", b"content")
    assert sizes == [7]


@pytest.mark.parametrize("write", ["new", "replaced", "replaced in"])
def test_file_is_synced_and_readable_unless_asked_otherwise(tmp_path, monkeypatch, write):
    synced, real = [], os.fsync
    monkeypatch.setattr(files.os, "fsync", lambda handle: synced.append(handle) or real(handle))
    handle = files.open_directory(tmp_path)
    try:
        if write == "new":
            files.write_new(tmp_path / "x", b"")
        elif write == "replaced":
            files.replace_file(tmp_path / "x", b"")
        else:
            files.replace_in(handle, "x", b"")
    finally:
        os.close(handle)
    mode = os.stat(tmp_path / "x").st_mode & 0o7777
    assert (len(synced), mode) == ((1, 0o600) if write == "new" else (2, 0o644))


@pytest.mark.parametrize("step", ["fchmod", "fsync", "replace"])
def test_error_leaves_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    (tmp_path / "x").write_text("old", encoding="utf-8")

    def fail(*_args, **_more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        files.replace_file(tmp_path / "x", b"new")
    monkeypatch.undo()
    assert ((tmp_path / "x").read_text(encoding="utf-8"), os.listdir(tmp_path)) == ("old", ["x"])


def test_settle_takes_place_of_mode(tmp_path):
    files.replace_file(tmp_path / "x", b"new", settle=lambda handle: os.fchmod(handle, 0o400))
    assert os.stat(tmp_path / "x").st_mode & 0o7777 == 0o400


def test_relative_path_is_below_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files.replace_file("x", b"new")
    assert os.listdir(tmp_path) == ["x"]


def test_file_of_open_directory_stays_below_it(tmp_path):
    (tmp_path / "a").mkdir()
    handle = os.open(tmp_path / "a", files.DIRECTORY)
    try:
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "a").symlink_to("/")
        files.replace_in(handle, "x", b"new")
    finally:
        os.close(handle)
    assert os.listdir(tmp_path / "b") == ["x"]


def entered(path, **options):
    """Return where a directory was found."""
    handle = files.open_directory(path, **options)
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)


@pytest.fixture
def way(tmp_path):
    """Return a directory, and a function that creates a user's link beside it."""
    (tmp_path / "there" / "inner").mkdir(parents=True)

    def link(target, user=0):
        (tmp_path / "link").symlink_to(target)
        os.chown(tmp_path / "link", user, user, follow_symlinks=False)
        return tmp_path / "link"

    return link


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives links away")


@needs_root
@pytest.mark.parametrize("target", ["there", "../{}/there", "{}/there", "./there//."])
def test_directory_is_reached_over_links_of_root(tmp_path, way, target):
    name = tmp_path if target.startswith("{") else tmp_path.name
    assert entered(way(target.format(name)) / "inner") == str(tmp_path / "there" / "inner")


@needs_root
@pytest.mark.parametrize("below", ["", "inner"])
def test_directory_is_not_reached_over_link_of_another(tmp_path, way, below):
    with pytest.raises(OSError, match="link is a link of another user, which is not followed") as raised:
        entered(way("there", 4242) / below)
    assert raised.value.filename == str(tmp_path / "link" / below)


@needs_root
def test_root_follows_no_link_of_owner_of_directory(tmp_path, way):
    path = way("there", 4242)
    os.chown(tmp_path, 4242, 4242)
    with pytest.raises(OSError, match="link is a link of another user, which is not followed"):
        entered(path)


@needs_root
@pytest.mark.parametrize("write", [files.replace_file, files.sync_directory, files.open_directory])
def test_nothing_is_written_over_link_of_another(tmp_path, way, write):
    way("there", 4242)
    arguments = (b"new",) if write is files.replace_file else ()
    with pytest.raises(OSError, match="not followed"):
        write(tmp_path / "link" / "inner", *arguments)
    assert os.listdir(tmp_path / "there" / "inner") == []


@needs_root
@pytest.mark.parametrize(
    ("mode", "owner", "link", "followed"),
    [
        (0o1777, 0, 4242, True),
        (0o1777, 0, 4343, False),
        (0o1777, 4343, 4343, True),
        (0o2775, 0, 4343, True),
        (0o777, 0, 0, True),
        (0o777, 4343, 0, True),
        (0o777, 0, 4343, False),
    ],
)
def test_users_follow_links_in_protected_directories(tmp_path, way, monkeypatch, mode, owner, link, followed):
    path = way("there", link)
    tmp_path.chmod(mode)
    os.chown(tmp_path, owner, owner)
    monkeypatch.setattr(files.os, "geteuid", lambda: 4242)
    if followed:
        assert entered(path) == str(tmp_path / "there")
    else:
        with pytest.raises(OSError, match="not followed"):
            entered(path)


@needs_root
def test_directory_is_reached_through_unreadable_parent(tmp_path):
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o111)
    (tmp_path / "closed" / "open").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o711)
    os.seteuid(4242)
    try:
        assert entered(tmp_path / "closed" / "open") == str(tmp_path / "closed" / "open")
        assert entered(tmp_path / "closed", last=files.STEP) == str(tmp_path / "closed")
        with pytest.raises(PermissionError):
            entered(tmp_path / "closed")
    finally:
        os.seteuid(0)


def test_links_that_lead_to_each_other_end(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match=os.strerror(errno.ENOTDIR)):
        entered(tmp_path / "a")


@pytest.mark.parametrize(("links", "followed"), [(40, True), (41, False)])
def test_chain_of_links_has_limit_of_kernel(tmp_path, links, followed):
    (tmp_path / "0").mkdir()
    for number in range(links):
        (tmp_path / str(number + 1)).symlink_to(str(number))
    if followed:
        assert entered(tmp_path / str(links)) == str(tmp_path / "0")
    else:
        with pytest.raises(OSError, match=os.strerror(errno.ENOTDIR)):
            entered(tmp_path / str(links))


def test_way_to_directory_leaves_nothing_open(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    before = os.listdir("/proc/self/fd")
    for path in ("a/b", "link/b"):
        os.close(files.open_directory(tmp_path / path))
    for path in ("a/missing/b", "link/missing"):
        with pytest.raises(FileNotFoundError):
            files.open_directory(tmp_path / path)
    assert os.listdir("/proc/self/fd") == before


def test_missing_directories_are_readable_for_all(tmp_path):
    before = os.umask(0o077)
    try:
        assert entered(tmp_path / "one" / "two", make=True) == str(tmp_path / "one" / "two")
    finally:
        os.umask(before)
    assert [os.stat(tmp_path / name).st_mode & 0o777 for name in ("one", "one/two")] == [0o755, 0o755]
    with pytest.raises(FileNotFoundError):
        entered(tmp_path / "three")


def test_file_on_way_is_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for path in ("file", "file/below"):
        with pytest.raises(NotADirectoryError):
            entered(tmp_path / path, make=True)


def test_root_and_working_directory_are_directories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [entered(path) for path in ("/", "", ".", "./")] == ["/", *[str(tmp_path)] * 3]


def test_controller_without_handles_of_paths_opens_by_path(tmp_path, monkeypatch):
    monkeypatch.delattr(files.os, "O_PATH")
    assert entered(tmp_path) == str(tmp_path)
    # Links are that machine's own affair.
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        entered(tmp_path / "link")


def test_directory_is_synced(tmp_path, synced):
    files.sync_directory(tmp_path)
    assert synced == [str(tmp_path)]


def test_tree_is_removed_without_following_links(tmp_path):
    (tmp_path / "tree" / "deep" / "er").mkdir(parents=True)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(b"precious")
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "kept")
    os.mkfifo(tmp_path / "tree" / "deep" / "pipe")
    handle = files.open_directory(tmp_path)
    try:
        with pytest.raises(OSError, match="too many directories in each other"):
            files.remove_tree(handle, "tree", 2)
        files.remove_tree(handle, "tree")
        files.remove_tree(handle, "tree")
    finally:
        os.close(handle)
    assert os.listdir(tmp_path) == ["kept"] and os.listdir(tmp_path / "kept") == ["file"]


@pytest.mark.parametrize("mounted", ["tree", "tree/deep"])
def test_removed_tree_keeps_what_is_mounted_in_it(tmp_path, mounted):
    """A bind mount of the same file system, which has the device number of its place."""
    (tmp_path / mounted).mkdir(parents=True)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_bytes(b"precious")
    subprocess.run(["mount", "--bind", tmp_path / "theirs", tmp_path / mounted], check=True)
    try:
        with pytest.raises(OSError, match="busy"):
            files.remove_directory(tmp_path / "tree")
        assert (tmp_path / "theirs" / "file").read_bytes() == b"precious"
    finally:
        subprocess.run(["umount", tmp_path / mounted], check=True)
    files.remove_directory(tmp_path / "tree")
    assert os.listdir(tmp_path) == ["theirs"]


def test_link_over_links_to_itself_is_missing(tmp_path):
    for name, target in (("a", "b"), ("b", tmp_path / "a"), ("up", "../up"), ("on", "on/x"), ("broken", "absent")):
        (tmp_path / name).symlink_to(target)
    follow = {name: files.may_exist(tmp_path / name, follow=True) for name in ("a", "b", "broken", "none", "a/x", "up")}
    assert follow == {"a": False, "b": False, "broken": False, "none": False, "a/x": True, "up": False}
    assert files.may_exist(tmp_path / "a") and files.may_exist(tmp_path / "broken")
    assert not files.may_exist(tmp_path / "none") and not files.may_exist("a\0b")
    error = OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    assert [files.is_missing(error, tmp_path / name) for name in ("a", "up", "on", "none")] == [True, *[False] * 3]


@pytest.mark.parametrize("mounted", ["tree", "tree/deep", "tree/deep/inner"])
def test_discarded_tree_keeps_what_is_mounted_in_it(tmp_path, mounted):
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / mounted).mkdir(parents=True, exist_ok=True)
    for name in ("a", "z", "deep/a", "deep/z"):
        (tmp_path / "tree" / name).write_bytes(b"")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "file").write_bytes(b"precious")
    subprocess.run(["mount", "--bind", tmp_path / "theirs", tmp_path / mounted], check=True)
    try:
        files.discard_directory(tmp_path / "tree")
        assert (tmp_path / "theirs" / "file").read_bytes() == b"precious"
        left = {path.name for path in (tmp_path / "tree").rglob("*") if path.is_file() and path.name != "file"}
        assert not left or mounted == "tree"
    finally:
        subprocess.run(["umount", tmp_path / mounted], check=True)
    files.discard_directory(tmp_path / "tree")
    assert os.listdir(tmp_path) == ["theirs"]


def test_discard_follows_no_link_and_reports_nothing(tmp_path, monkeypatch):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "kept")
    for name in ("link", "absent", "kept/file", "absent/tree", ""):
        files.discard_directory(tmp_path / name if name else "")
    monkeypatch.chdir(tmp_path)
    files.discard_directory("tree")
    assert sorted(os.listdir(tmp_path)) == ["kept", "link"] and os.listdir(tmp_path / "kept") == ["file"]


@pytest.mark.parametrize(("depth", "removed"), [(200, True), (201, False)])
def test_tree_of_two_hundred_directories_is_removed(tmp_path, depth, removed):
    os.makedirs(tmp_path.joinpath(*["d"] * depth))
    handle = files.open_directory(tmp_path)
    try:
        if removed:
            files.remove_tree(handle, "d")
        else:
            with pytest.raises(OSError, match="too many directories in each other"):
                files.remove_tree(handle, "d")
    finally:
        os.close(handle)
    assert os.listdir(tmp_path) == ([] if removed else ["d"])


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "pipe"])
def test_tree_that_is_no_directory_is_error_at_once(tmp_path, kind):
    (tmp_path / "victim").mkdir()
    plant(kind, tmp_path / "x", tmp_path / "victim")
    handle = files.open_directory(tmp_path)
    try:
        with pytest.raises(NotADirectoryError):
            files.remove_tree(handle, "x")
    finally:
        os.close(handle)
    assert sorted(os.listdir(tmp_path)) == ["victim", "x"]
