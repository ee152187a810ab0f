# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import detached

PYTHON = sys.executable
KEEPER = [PYTHON, "-c", (
    "import sys; sys.path[:0] = sys.argv[1:2]; "
    "from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import detached; "
    "sys.exit(detached.keep(sys.argv[2], sys.argv[4:]))"
), str(Path(__file__).parents[6] / ".collections")]  # fmt: skip


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Return start(code, stdin), which runs Python under a keeper and returns its directory."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def begin(code, stdin=""):
        return detached.begin(lambda place: [PYTHON, "-u", "-c", code, place], KEEPER, stdin)

    return begin


def to_the_end(directory, offset=0):
    text = ""
    for _look in range(200):
        seen = detached.read(directory, offset, 5)
        text, offset = text + seen.text, seen.offset
        if seen.over:
            return text, seen
    pytest.fail(f"no end was seen; so far: {text!r}")


def test_lines_are_seen_while_command_runs(start, tmp_path):
    waits = f"while not os.path.exists('{tmp_path}/go'): time.sleep(.05)"
    directory = start(f"import os, time; print('one'); print('tw', end='')\n{waits}\nprint('o')")
    seen = detached.read(directory, 0, 20)
    while not seen.text:
        seen = detached.read(directory, 0, 20)
    # A partial line is held back.
    assert (seen.text, seen.over, seen.rc) == ("one\n", False, None)
    (tmp_path / "go").touch()
    text, end = to_the_end(directory, seen.offset)
    assert (text, end.rc, end.errors) == ("two\n", 0, "")


def test_end_has_status_errors_and_input(start):
    text, end = to_the_end(start("import sys; print(sys.stdin.read(), end=''); sys.exit('no disk')", "given\n"))
    assert (text, end.rc, end.errors) == ("given\n", 1, "no disk\n")


def test_last_line_without_end_is_shown(start):
    assert to_the_end(start("print('x', end='')"))[0] == "x"


def test_command_that_is_killed_with_its_keeper_is_over(start, tmp_path):
    directory = start("import os; print(os.getpid(), os.getppid(), flush=True); import time; time.sleep(60)")
    seen = detached.read(directory, 0, 20)
    while not seen.text:
        seen = detached.read(directory, 0, 20)
    own, keeper = map(int, seen.text.split())
    os.kill(keeper, signal.SIGKILL)
    # The command itself continues, and so does the wait.
    assert not detached.read(directory, seen.offset, 0).over
    os.kill(own, signal.SIGKILL)
    _text, end = to_the_end(directory, seen.offset)
    assert (end.over, end.rc) == (True, None)


def test_keeper_ends_command_without_requests(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "input").touch()
    os.utime(tmp_path / "input", (time.time() - 3600, time.time() - 3600))
    sleeps = [PYTHON, "-c", "import time; time.sleep(60)"]
    assert detached.keep(str(tmp_path), sleeps, patience=600, poll=0.05) == 0
    assert (tmp_path / "status").read_text() == f"{-signal.SIGTERM}\n"


def test_look_keeps_command_running(start):
    directory = start("print('x')")
    os.utime(f"{directory}/input", (0, 0))
    detached.read(directory, 0, 0)
    assert os.stat(f"{directory}/input").st_mtime > 1e9
    to_the_end(directory)


def test_only_directories_of_ours_are_removed(start, tmp_path):
    directory = start("pass")
    to_the_end(directory)
    other = tmp_path / "other"
    other.mkdir()
    link = tmp_path / f"{detached.PREFIX}link"
    link.symlink_to(other)
    for path in (str(other), str(link), f"{tmp_path}/{detached.PREFIX}none", "/", f"{other}/{detached.PREFIX}x"):
        assert not detached.is_ours(path)
        detached.forget(path)
    assert other.is_dir() and link.is_symlink()
    assert detached.is_ours(directory)
    detached.forget(directory)
    assert not os.path.exists(directory)


def test_much_output_comes_in_pieces(start, monkeypatch):
    monkeypatch.setattr(detached, "MAX_BYTES", 10)
    text, end = to_the_end(start("print('0123456789' * 3)"))
    assert (text, end.rc) == ("0123456789" * 3 + "\n", 0)
