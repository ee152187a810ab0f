# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archive: allowed targets and paths, and reproducible bytes."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zlib

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import archive
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle.archive import BundleError, Member

FILES = {"bin/run": Member(b"#!x\n", executable=True), "a.txt": Member(b"a\n"), "deep/er/b": Member(b"")}


@pytest.mark.parametrize("text", ["debian-py3.10", "redhat-py3.12", "amazon-py3.14"])
def test_targets(text):
    assert archive.parse_target(text).name == text


@pytest.mark.parametrize("text", ["debian", "suse-py3.12", "debian-py3.9", "debian-py3.12.1", "-py3.12", ""])
def test_unknown_target_is_rejected_with_choices(text):
    with pytest.raises(BundleError, match=r"debian, redhat, amazon .* 3\.14, such as debian-py3\.12"):
        archive.parse_target(text)


def test_file_name_contains_version_and_target():
    assert archive.file_name("1.2.3", archive.Target("amazon", "3.11")) == "mlcluster-bundle-1.2.3-amazon-py3.11.tar.gz"


def test_files_have_fixed_order_date_and_owner():
    with tarfile.open(fileobj=io.BytesIO(archive.archive(FILES, 1_700_000_000))) as packed:
        entries = packed.getmembers()
    names = [entry.name.removeprefix("mlcluster-bundle").lstrip("/") for entry in entries]
    assert names == ["", "a.txt", "bin", "bin/run", "deep", "deep/er", "deep/er/b"]
    assert {(entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname) for entry in entries} == {
        (1_700_000_000, 0, 0, "root", "root")
    }
    modes = {entry.name.rpartition("/")[2]: entry.mode for entry in entries}
    assert (modes["run"], modes["a.txt"], modes["bin"]) == (0o755, 0o644, 0o755)


@pytest.mark.parametrize("path", ["/etc/x", "../x", "site/../../x", "deep//er/b", "./a.txt", "deep/.", ""])
def test_path_outside_bundle_is_rejected(path):
    with pytest.raises(BundleError, match="would be unpacked elsewhere"):
        archive.archive({**FILES, path: Member(b"")}, 0)


@pytest.mark.parametrize("path", ["deep", "deep/er", "a.txt/x"])
def test_path_that_is_file_and_folder_is_rejected(path):
    with pytest.raises(BundleError, match="is a file and a folder of other files"):
        archive.archive({**FILES, path: Member(b"x")}, 0)


def test_order_of_input_does_not_change_archive():
    turned = dict(reversed(list(FILES.items())))
    assert archive.archive(FILES, 0) == archive.archive(turned, 0)


def test_gzip_header_has_no_time_and_no_name():
    data = archive.archive(FILES, 1_700_000_000)
    assert data[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"
    assert zlib.decompress(data, 31)


def test_tar_unpacks_long_names(tmp_path):
    path = "collections/" + "/".join(["a_rather_long_folder_name"] * 8) + "/file.py"
    (tmp_path / "b.tar.gz").write_bytes(archive.archive({path: Member(b"x")}, 0))
    subprocess.run(["tar", "-xzf", "b.tar.gz"], cwd=tmp_path, check=True)
    assert (tmp_path / "mlcluster-bundle" / path).read_bytes() == b"x"


def test_tree_checksum_changes_with_name_or_byte():
    sums = {
        archive.tree_sha256({"a": Member(b"1")}),
        archive.tree_sha256({"b": Member(b"1")}),
        archive.tree_sha256({"a": Member(b"2")}),
    }
    assert len(sums) == 3


def test_file_is_replaced_atomically(tmp_path):
    archive.write_file(tmp_path / "new" / "x", b"1")
    archive.write_file(tmp_path / "new" / "x", b"2", 0o600)
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "new").iterdir()] == [("x", b"2")]
    assert (tmp_path / "new" / "x").stat().st_mode & 0o777 == 0o600


def test_unwritable_directory_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match=r"file/x cannot be written .*name another directory"):
        archive.write_file(tmp_path / "file" / "x", b"")


def test_sums_are_those_of_unpacked_files(tmp_path):
    packed = archive.archive({**FILES, "SUMS": Member(archive.sums(FILES))}, 0)
    with tarfile.open(fileobj=io.BytesIO(packed)) as source:
        source.extractall(tmp_path, filter="data")
    check = ["sha256sum", "--check", "--strict", "--quiet", f"{archive.TOP}/SUMS"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=True).stdout == b""
    assert archive.sums(FILES).count(b"\n") == len(FILES)
