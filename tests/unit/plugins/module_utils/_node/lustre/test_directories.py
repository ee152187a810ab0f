# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories of a file system that several nodes create at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import directories as lustre_directories
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import FileSystem
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

from tests.unit.fakes.fake_lustre_host import ME, MY_GROUP, LustreHost
from tests.unit.plugins.modules.test_lustre_directories import mode_of


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(lustre_directories, "LOCK_PATH", str(tmp_path / "lock" / "lustre.lock"))
    return LustreHost(tmp_path)


def test_directory_of_faster_node_is_not_an_error(host, tmp_path):
    mount = host.mount("fsx")
    config = lustre_directories.LustreConfig(
        file_systems=(FileSystem(mount),),
        directories=(lustre_directories.Directory(f"{mount}/a", ME, MY_GROUP),),
    )
    rows = lustre_directories.look(host, config, [mount])
    os.mkdir(f"{mount}/a", 0o711)
    assert lustre_directories.make(host, config, rows) == []
    assert mode_of(f"{mount}/a") == 0o711


def test_held_lock_is_named_after_wait(host, monkeypatch):
    mount = host.mount("fsx")
    config = lustre_directories.LustreConfig(
        file_systems=(FileSystem(mount),),
        directories=(lustre_directories.Directory(f"{mount}/a", ME, MY_GROUP),),
    )
    rows = lustre_directories.look(host, config, [mount])
    other = LustreHost(Path(mount).parent)
    with (
        other.locked(lustre_directories.LOCK_PATH, 0),
        pytest.raises(NodeError, match="another mlcluster run holds it"),
    ):
        lustre_directories.make(host, config, rows)
    assert os.listdir(mount) == []


def test_created_directory_is_synced(host, synced):
    mount = host.mount("fsx")
    config = lustre_directories.LustreConfig(
        file_systems=(FileSystem(mount),),
        directories=(lustre_directories.Directory(f"{mount}/a", ME, MY_GROUP),),
    )
    lustre_directories.make(host, config, lustre_directories.look(host, config, [mount]))
    assert os.listdir(mount) == ["a"] and synced == [str(mount)]


@pytest.mark.parametrize("path", ["link", "team/link"])
def test_link_below_mount_is_not_entered(tmp_path, path):
    (tmp_path / "mount/team").mkdir(parents=True)
    (tmp_path / "victim").mkdir()
    (tmp_path / "mount" / path).symlink_to(tmp_path / "victim")
    with (
        lustre_directories._top(str(tmp_path / "mount")) as top,
        pytest.raises(NotADirectoryError),
        lustre_directories._inside(top, path),
    ):
        pass
    with lustre_directories._top(str(tmp_path / "mount")) as top, lustre_directories._inside(top, "team") as inner:
        assert os.fstat(inner).st_ino == (tmp_path / "mount/team").stat().st_ino
