# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""On wheels that the test makes; that they hold dotted names between NULs is what the real ones show."""

from __future__ import annotations

import zipfile

import pytest

from tests.data_tables import check_cufile_keys

LONG = "properties.compat_odirect_unaligned_read_split_min_size_kb"


def wheel(folder, version: str, *names: str):
    path = folder / f"nvidia_cufile_cu12-{version}.1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nvidia/cufile/lib/libcufile.so.0", b"\x7fELF\0" + "\0".join(names).encode() + b"\0%s\0")
        archive.writestr("nvidia/cufile/lib/libcufile_rdma.so.1", b"\0rdma.other\0")
    return path


def key(name: str, since: str, until: str | None = None) -> dict[str, str | None]:
    return {"name": name, "since": since, "until": until}


def differences(folder, keys, **releases):
    wheels = {version.replace("v", "").replace("_", "."): names for version, names in releases.items()}
    tables = {version: check_cufile_keys.names(wheel(folder, version, *names)) for version, names in wheels.items()}
    return check_cufile_keys.differences(keys, tables)


def test_names_that_agree_are_no_difference(tmp_path):
    keys = [key("logging.dir", "1.9"), key("profile.nvtx", "1.9", "1.15"), key(LONG, "1.19")]
    old, new = ["logging.dir", "profile.nvtx"], ["logging.dir", LONG[:50]]
    assert differences(tmp_path, keys, v1_11=old, v1_19=new) == []


def test_early_or_missing_name_is_reported(tmp_path):
    keys = [key("logging.dir", "1.11"), key("profile.nvtx", "1.13")]
    assert differences(tmp_path, keys, v1_11=["profile.nvtx"]) == [
        "logging.dir is not in libcufile 1.11, and the table has since 1.11, until now",
        "profile.nvtx is in libcufile 1.11, and the table has since 1.13, until now",
    ]


def test_word_inside_string_is_not_name(tmp_path):
    assert "logging.dir" not in check_cufile_keys.names(wheel(tmp_path, "1.11", "no logging.dir was given"))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "no wheel was given"),
        (["x.whl"], "x.whl is not a wheel of nvidia-cufile"),
        (["nvidia_cufile-1.2.3-x.whl"], "No such file"),
    ],
)
def test_unreadable_files_are_reported(names, words, capsys):
    assert check_cufile_keys.main(names) == 2
    assert words in capsys.readouterr().err


def test_table_is_compared_as_whole(tmp_path, capsys):
    assert check_cufile_keys.main([str(wheel(tmp_path, "1.11", "logging.dir"))]) == 1
    assert "logging.level is not in libcufile 1.11" in capsys.readouterr().out
