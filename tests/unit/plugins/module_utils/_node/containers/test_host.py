# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories on hardened nodes with a strict umask: users can read the configuration there too."""

from __future__ import annotations

import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.host import EnrootHost


@pytest.mark.parametrize("umask", [0o027, 0o077])
def test_created_directories_are_readable_with_any_umask(tmp_path, umask):
    host = EnrootHost()
    before = os.umask(umask)
    try:
        host.write_text(str(tmp_path / "a/b/file"), "text\n")
        host.make_mount_point(str(tmp_path / "c/d"))
        with host.locked(str(tmp_path / "e/f/lock"), 0):
            pass
        host.make_link("target", str(tmp_path / "g/h/link"))
    finally:
        # The umask is restored for later files.
        assert os.umask(before) == umask
    for name in ("a", "a/b", "c", "c/d", "e", "e/f", "g", "g/h"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o755, name


def test_settled_file_is_synced(tmp_path, synced):
    (tmp_path / "image").write_bytes(b"x")
    EnrootHost().settle(str(tmp_path / "image"), 0o640)
    assert synced == [str(tmp_path / "image")]
    assert (tmp_path / "image").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("is_link", [False, True])
def test_only_own_directory_is_removed_and_no_link_is_followed(tmp_path, is_link):
    path = tmp_path / "private"
    path.mkdir(mode=0o700)
    (path / "only").touch()
    if is_link:
        path.rename(tmp_path / "victim")
        path.symlink_to("victim")
    EnrootHost().remove_own_tree(str(path), "only")
    assert os.path.lexists(path) == is_link
    assert (tmp_path / "victim/only").exists() == is_link
