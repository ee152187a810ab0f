# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The removal of the runtime: links, pipes and directories in its place are kept, and count as users below /etc."""

from __future__ import annotations

import os
import socket

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import remains

KINDS = ["link", "broken link", "pipe", "socket", "directory"]


def other_kind(path, kind):
    """Put something at a path that is not a plain file."""
    if kind == "link":
        (path.parent / "target").write_text("precious")
        path.symlink_to(path.parent / "target")
    elif kind == "broken link":
        path.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    else:
        path.mkdir()
        (path / "inside").write_text("precious")


@pytest.fixture
def configuration(tmp_path):
    found = tmp_path / "etc"
    (found / "roles").mkdir(parents=True)
    return found


@pytest.fixture
def runtime(tmp_path):
    """The runtime as the role writes it: {name: path}."""
    paths = {"runtime": tmp_path / "lib/mlcluster.pyz", "command": tmp_path / "bin/mlcluster"}
    for path in paths.values():
        path.parent.mkdir()
    paths["runtime"].write_text("zip")
    paths["command"].symlink_to(paths["runtime"])
    paths["cache"] = tmp_path / "lib/__pycache__"
    paths["cache"].mkdir()
    (paths["cache"] / "a.pyc").write_bytes(b"")
    state = paths["runtime"].stat()
    (paths["cache"] / f"mlcluster-{state.st_ino}-{state.st_size}-{state.st_mtime_ns}-a70d0d0a.pyz").write_bytes(b"")
    return paths


def find(runtime):
    return remains.runtime_files(str(runtime["runtime"]), str(runtime["command"]))


def test_empty_directories_are_no_users(configuration):
    assert remains.users(str(configuration)) == []
    assert remains.users(str(configuration / "none")) == []


@pytest.mark.parametrize("name", ["other", ".hidden", "roles/deep"])
@pytest.mark.parametrize("kind", ["file", *KINDS])
def test_everything_but_a_directory_is_a_user(configuration, name, kind):
    path = configuration / name
    if kind == "file":
        path.write_text("{}")
    else:
        other_kind(path, kind)
    expected = {str(path / "inside" if kind == "directory" else path)}
    if kind == "link":
        expected.add(str(path.parent / "target"))
    assert set(remains.users(str(configuration))) == expected


def test_link_to_a_directory_is_not_followed(configuration, tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far/file").write_text("")
    (configuration / "near").symlink_to(tmp_path / "far")
    assert remains.users(str(configuration)) == [str(configuration / "near")]


@pytest.mark.parametrize("kind", ["file", "link", "broken link", "pipe"])
def test_configuration_that_is_no_directory_counts_as_used(tmp_path, kind):
    path = tmp_path / "etc"
    path.write_text("") if kind == "file" else other_kind(path, kind)
    assert remains.users(str(path)) == [str(path)]


def test_directory_that_cannot_be_listed_counts_as_used(configuration, monkeypatch):
    def deny(path):
        raise PermissionError(13, "denied", path)

    monkeypatch.setattr(remains.os, "scandir", deny)
    assert remains.users(str(configuration)) == [str(configuration)]


def test_runtime_is_removed_with_command_and_cache(runtime):
    found = find(runtime)
    assert found["foreign"] == []
    remains.remove(found["own"])
    assert not any(os.path.lexists(path) for path in runtime.values())
    assert find(runtime) == {"own": [], "foreign": []}
    # A second removal finds nothing to do.
    remains.remove(found["own"])


@pytest.mark.parametrize(
    ("name", "kind"), [("runtime", kind) for kind in KINDS] + [("cache", kind) for kind in KINDS if kind != "directory"]
)
def test_other_kind_in_its_place_is_kept(runtime, tmp_path, name, kind):
    path = runtime[name]
    remains.remove([*map(str, path.iterdir()), str(path)] if name == "cache" else [str(path)])
    other_kind(path, kind)
    found = find(runtime)
    assert found["foreign"] == [str(path)]
    remains.remove(found["own"])
    assert os.path.lexists(path) and not os.path.lexists(runtime["command"])
    if kind in ("link", "directory"):
        assert (path.parent / "target" if kind == "link" else path / "inside").read_text() == "precious"


@pytest.mark.parametrize("kind", ["file", *KINDS])
def test_command_that_is_not_the_link_of_the_role_is_kept(runtime, kind):
    runtime["command"].unlink()
    if kind == "file":
        runtime["command"].write_text("#!/bin/sh\n")
    else:
        other_kind(runtime["command"], kind)
    assert find(runtime)["foreign"] == [str(runtime["command"])]


def test_relative_link_to_the_runtime_is_the_command(runtime):
    runtime["command"].unlink()
    runtime["command"].symlink_to("../lib/mlcluster.pyz")
    assert str(runtime["command"]) in find(runtime)["own"]


@pytest.mark.parametrize("kind", ["file", *KINDS])
def test_file_of_others_in_the_cache_is_kept(runtime, kind):
    path = runtime["cache"] / ("note" if kind == "file" else "b.pyc")
    path.write_text("mine") if kind == "file" else other_kind(path, kind)
    found = find(runtime)
    assert str(path) in found["foreign"] and str(runtime["cache"]) not in found["own"]
    remains.remove(found["own"])
    assert os.path.lexists(path) and not (runtime["cache"] / "a.pyc").exists()


def item(what, *paths, found=False):
    return {"what": what, "paths": [str(path) for path in paths], "found": found}


def test_only_items_that_exist_are_present(tmp_path):
    (tmp_path / "a-1").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    items = [
        item("absent", tmp_path / "none", tmp_path / "b-*"), item("pattern", tmp_path / "a-*"),
        item("second", tmp_path / "none", tmp_path / "a-1"), item("link", tmp_path / "link"), item("none"),
        item("known", found=True),
    ]  # fmt: skip
    assert remains.present(items) == ["pattern", "second", "link", "known"]
