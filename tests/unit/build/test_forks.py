# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal

import pytest

from tests.build import forks


def child(work):
    pid = os.fork()
    if not pid:
        os.setsid()
        work()
        os._exit(0)
    return pid


@pytest.mark.parametrize(
    ("work", "status"),
    [(lambda: None, 0), (lambda: os._exit(3), 3), (lambda: os.kill(os.getpid(), signal.SIGKILL), -signal.SIGKILL)],
)
def test_exit_status_of_fork(work, status):
    assert forks.wait(child(work), 60) == status


def test_fork_that_hangs_is_killed_and_counts_as_failure():
    assert forks.wait(child(signal.pause), 0) == 1


def test_written_module_has_no_bytecode_of_before(tmp_path):
    module = tmp_path / "small.py"
    cache = tmp_path / "__pycache__"
    cache.mkdir()
    for name in ("small.cpython-39.pyc", "small.cpython-311.pyc", "smaller.cpython-311.pyc"):
        (cache / name).write_bytes(b"old")
    forks.write(module, "x = 1\n")
    assert module.read_text() == "x = 1\n"
    assert [one.name for one in cache.iterdir()] == ["smaller.cpython-311.pyc"]
