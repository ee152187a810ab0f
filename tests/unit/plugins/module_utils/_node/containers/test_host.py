# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories on hardened nodes, whose umask is not that of others: users read what is configured there too."""

from __future__ import annotations

import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.host import EnrootHost


@pytest.mark.parametrize("umask", [0o027, 0o077])
def test_directories_that_are_made_on_way_can_be_read(tmp_path, umask):
    host = EnrootHost()
    before = os.umask(umask)
    try:
        host.write_text(str(tmp_path / "a/b/file"), "text\n")
        host.make_mount_point(str(tmp_path / "c/d"))
        with host.locked(str(tmp_path / "e/f/lock"), 0):
            pass
        host.make_link("target", str(tmp_path / "g/h/link"))
    finally:
        # It is as it was, for whatever else is made.
        assert os.umask(before) == umask
    for name in ("a", "a/b", "c", "c/d", "e", "e/f", "g", "g/h"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o755, name


def test_file_that_is_settled_is_on_disk(tmp_path, synced):
    (tmp_path / "image").write_bytes(b"x")
    EnrootHost().settle(str(tmp_path / "image"), 0o640)
    assert synced == [str(tmp_path / "image")]
    assert (tmp_path / "image").stat().st_mode & 0o777 == 0o640
