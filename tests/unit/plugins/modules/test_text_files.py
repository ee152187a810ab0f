# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""On the real filesystem, below a folder of the test's own."""

from __future__ import annotations

import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.modules import text_files


@pytest.fixture
def apply(run_module):
    """apply(files, check) gives the module's answer."""
    return lambda files, check=False: run_module(text_files, Host(), check, files=files)


def test_files_are_written_with_their_directories(apply, tmp_path):
    path = tmp_path / "conf.d" / "own.conf"
    result = apply([{"path": str(path), "text": "a\n"}])
    assert (result["changed"], result["written"]) == (True, [str(path)])
    assert path.read_text() == "a\n"
    assert path.stat().st_mode & 0o7777 == 0o644
    assert path.parent.stat().st_mode & 0o7777 == 0o755


def test_second_run_changes_nothing(apply, tmp_path):
    files = [{"path": str(tmp_path / "a"), "text": "a\n", "mode": "0600"}]
    apply(files)
    result = apply(files)
    assert (result["changed"], result["written"], result["diff"]) == (False, [], [])


def test_check_mode_reports_and_writes_nothing(apply, tmp_path):
    path = tmp_path / "new" / "a"
    result = apply([{"path": str(path), "text": "a\n"}], check=True)
    assert result["changed"]
    assert result["diff"] == [
        {"before": "", "after": "a\n", "before_header": str(path), "after_header": str(path)},
    ]
    assert list(tmp_path.iterdir()) == []


def test_diff_of_large_file_has_size_and_checksum(apply, tmp_path):
    path = tmp_path / "large"
    path.write_text("a" * 200_000)
    (shown,) = apply([{"path": str(path), "text": "b" * 200_000}])["diff"]
    assert shown["before"].startswith("200000 characters, sha256 ") and len(shown["before"]) < 120
    assert shown["before"] != shown["after"]
    assert path.read_text() == "b" * 200_000


def test_other_mode_is_corrected(apply, tmp_path):
    path = tmp_path / "a"
    path.write_text("a\n")
    path.chmod(0o666)
    assert apply([{"path": str(path), "text": "a\n"}])["changed"]
    assert path.stat().st_mode & 0o7777 == 0o644


def test_link_is_replaced_and_target_kept(apply, tmp_path):
    target, path = tmp_path / "target", tmp_path / "a"
    target.write_text("theirs\n")
    path.symlink_to(target)
    assert apply([{"path": str(path), "text": "theirs\n"}])["changed"]
    assert not path.is_symlink()
    assert target.read_text() == "theirs\n"


def test_overwritten_file_is_kept_on_request(apply, tmp_path):
    path = tmp_path / "nccl.conf"
    path.write_text("theirs\n")
    result = apply([{"path": str(path), "text": "ours\n", "backup": True}])
    (kept,) = [entry for entry in tmp_path.iterdir() if entry != path]
    assert result["backups"] == {str(path): str(kept)}
    assert kept.read_text() == "theirs\n"


def test_files_are_removed(apply, tmp_path):
    path = tmp_path / "a"
    path.write_text("a\n")
    files = [{"path": str(path), "state": "absent"}]
    assert apply(files, check=True)["removed"] == [str(path)]
    assert path.exists()
    assert apply(files)["removed"] == [str(path)]
    assert not path.exists()
    assert not apply(files)["changed"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"path": "relative"}, "use an absolute path"),
        ({"path": "/etc/../a"}, "use an absolute path without '..'"),
        ({"path": "//a"}, "path is '//a': use an absolute path without '..', doubled slashes"),
        ({"path": "/a\nb"}, "and control characters"),
        ({"path": "/a\0b"}, "and control characters"),
        ({"path": "/a", "mode": 0o644}, "the mode of /a is '420': use an octal mode in quotes"),
        ({"path": "/a", "mode": "0777"}, "all users could change the file"),
        ({"path": "/a", "mode": "4755"}, "use an octal mode in quotes"),
        ({"path": "/"}, "/ is a directory"),
        ({"path": "/a", "mode": "u=rw"}, "use an octal mode in quotes"),
        ({"path": "/a", "mode": "0666"}, "all users could change the file"),
        ({"path": "/etc"}, "/etc is a directory: only files are written and removed"),
        ({"path": "/etc", "state": "absent"}, "/etc is a directory"),
    ],
)
def test_invalid_entry_is_rejected(apply, entry, words):
    result = apply([{"text": "x", **entry}])
    assert result["failed"]
    assert words in result["msg"]


def test_duplicate_file_is_rejected(apply, tmp_path):
    entry = {"path": str(tmp_path / "a"), "text": "x"}
    assert "is there twice" in apply([entry, entry])["msg"]
    assert list(tmp_path.iterdir()) == []


def test_pipe_is_neither_read_nor_replaced(apply, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for entry in ({"text": "x"}, {"text": "x", "backup": True}, {"state": "absent"}):
        assert "is not a plain file" in apply([{"path": str(path), **entry}])["msg"]
    assert path.is_fifo()


@pytest.mark.parametrize(("there", "wanted"), [(b"a\r\n", "a\n"), (b"a\n", "a\r\n"), (b"\xff", "\ufffd")])
def test_files_are_compared_as_bytes(apply, tmp_path, there, wanted):
    path = tmp_path / "a"
    path.write_bytes(there)
    path.chmod(0o644)
    files = [{"path": str(path), "text": wanted}]
    assert apply(files)["changed"]
    assert path.read_bytes() == wanted.encode()
    assert not apply(files)["changed"]


def test_file_below_linked_directory_follows_link(apply, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    files = [{"path": str(tmp_path / "link" / "a"), "text": "x"}]
    assert apply(files)["changed"]
    assert (tmp_path / "real" / "a").read_text() == "x"
    assert (tmp_path / "link").is_symlink()
    assert not apply(files)["changed"]


def test_new_directories_are_readable_with_any_umask(apply, tmp_path):
    before = os.umask(0o077)
    try:
        apply([{"path": str(tmp_path / "new" / "a"), "text": "x"}])
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o7777 == 0o755


def test_system_error_is_one_sentence(apply, tmp_path):
    (tmp_path / "a").write_text("")
    result = apply([{"path": str(tmp_path / "a" / "b"), "text": "x"}])
    assert result["msg"] == f"{tmp_path}/a/b could not be changed: Not a directory; correct that and run again"
