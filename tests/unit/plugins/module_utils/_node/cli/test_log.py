# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import log


@pytest.fixture(autouse=True)
def silence_afterwards():
    yield
    logger = log.logging.getLogger(log.LOGGER_NAME)
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()


def test_messages_go_to_file_and_standard_error(tmp_path, capsys):
    directory = tmp_path / "log" / "mlcluster"
    old = os.umask(0o077)
    try:
        logger, path = log.setup("storage-boot", str(directory))
        logger.info("array %s assembled", "md0")
    finally:
        os.umask(old)
    assert path == str(directory / "storage-boot.log")
    text = (directory / "storage-boot.log").read_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO \[\d+\] array md0 assembled\n", text)
    assert capsys.readouterr().err == "array md0 assembled\n"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
    assert stat.S_IMODE(directory.stat().st_mode) == 0o755


def test_traceback_is_only_in_file(tmp_path, capsys):
    logger, path = log.setup("x", str(tmp_path))
    try:
        raise ValueError("inner detail")
    except ValueError:
        logger.exception("it failed")
    assert capsys.readouterr().err == "it failed\n"
    with open(path, encoding="utf-8") as handle:
        assert "ValueError: inner detail" in handle.read()


def test_verb_name_cannot_leave_directory(tmp_path):
    logger, path = log.setup("../../etc/passwd", str(tmp_path / "log"))
    logger.info("x")
    assert os.path.dirname(path) == str(tmp_path / "log")


def test_link_in_place_of_log_is_not_followed(tmp_path, capsys):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    directory = tmp_path / "log"
    directory.mkdir()
    (directory / "x.log").symlink_to(victim)
    logger, _path = log.setup("x", str(directory))
    logger.info("message")
    assert victim.read_text() == "kept"
    assert "cannot write the log" in capsys.readouterr().err


@pytest.mark.parametrize("has_reader", [True, False])
def test_pipe_in_place_of_log_is_not_waited_for(tmp_path, capsys, has_reader):
    os.mkfifo(tmp_path / "x.log")
    reader = os.open(tmp_path / "x.log", os.O_RDONLY | os.O_NONBLOCK)
    if not has_reader:
        os.close(reader)
    logger, _path = log.setup("x", str(tmp_path))
    logger.info("message")
    assert "cannot write the log" in capsys.readouterr().err
    if has_reader:
        assert os.read(reader, 100) == b""
        os.close(reader)


def test_files_are_rotated_and_old_ones_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "MAX_BYTES", 200)
    monkeypatch.setattr(log, "BACKUPS", 2)
    logger, _path = log.setup("x", str(tmp_path))
    for number in range(30):
        logger.info("line %02d", number)
    names = sorted(entry.name for entry in tmp_path.iterdir())
    assert names == ["x.log", "x.log.1", "x.log.2"]
    assert "line 29" in (tmp_path / "x.log").read_text()
    assert stat.S_IMODE((tmp_path / "x.log").stat().st_mode) == 0o640


def test_full_disk_is_reported_once(tmp_path, monkeypatch, capsys):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log._SafeFile, "_open", lambda self: Full())
    logger, path = log.setup("x", str(tmp_path))
    logger.info("first")
    logger.info("second")
    err = capsys.readouterr().err
    assert err.count(f"cannot write the log {path} (No space left on device)") == 1
    assert "first\n" in err
    assert "second\n" in err


def test_unwritable_directory_leaves_standard_error(tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    logger, path = log.setup("x", str(tmp_path / "file" / "log"))
    logger.warning("still shown")
    err = capsys.readouterr().err
    assert path is None
    assert err.count("cannot write the log") == 1
    assert err.endswith("still shown\n")


def test_ordinary_user_gets_no_log_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda *args: False)
    logger, path = log.setup("x", str(tmp_path))
    logger.warning("hello")
    assert path is None
    assert capsys.readouterr().err == "hello\n"
    assert list(tmp_path.iterdir()) == []


def test_closed_standard_error_is_ignored(tmp_path, monkeypatch):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    logger, path = log.setup("x", str(tmp_path))
    logger.info("message")
    with open(path, encoding="utf-8") as handle:
        assert handle.read().endswith("message\n")


def test_second_setup_replaces_first(tmp_path, capsys):
    log.setup("one", str(tmp_path))
    logger, _path = log.setup("two", str(tmp_path))
    logger.info("once")
    assert capsys.readouterr().err == "once\n"
    assert not (tmp_path / "one.log").exists()
