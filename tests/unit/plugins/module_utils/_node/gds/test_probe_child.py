# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The child process of the probe: its file, and leftovers of an earlier one."""

from __future__ import annotations

import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import probe_child as gds_child


def test_files_of_crashed_machine_are_swept(tmp_path):
    old, new, other = (tmp_path / name for name in (gds_child.PREFIX + "1", gds_child.PREFIX + "2", "precious"))
    for path in (old, new, other):
        path.write_text("x")
    for path in (old, other):
        os.utime(path, (1, 1))
    gds_child.sweep(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [new.name, other.name]


def test_sweep_survives_probes_of_other_nodes(tmp_path, monkeypatch):
    for number in range(3):
        path = tmp_path / f"{gds_child.PREFIX}{number}"
        path.write_text("x")
        os.utime(path, (1, 1))
    real = os.unlink

    def late(path):
        real(path)
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(gds_child.os, "unlink", late)
    gds_child.sweep(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    gds_child.sweep(str(tmp_path / "missing"))


def test_file_is_private_and_new(tmp_path):
    path = str(tmp_path / "file")
    handle = gds_child.create(path)
    assert os.fstat(handle).st_mode & 0o777 == 0o600
    os.close(handle)
    with pytest.raises(FileExistsError):
        gds_child.create(path)
    assert os.path.exists(path)


def test_filesystem_without_direct_io_gets_ordinary_file(tmp_path, monkeypatch):
    real = os.open

    def no_direct(path, flags, *more, **fields):
        handle = real(path, flags & ~gds_child.DIRECT, *more, **fields)
        if flags & gds_child.DIRECT:
            os.close(handle)
            raise OSError(22, "Invalid argument")
        return handle

    monkeypatch.setattr(gds_child.os, "open", no_direct)
    handle = gds_child.create(str(tmp_path / "file"))
    os.write(handle, b"x")
    os.close(handle)
    assert (tmp_path / "file").read_text() == "x"
