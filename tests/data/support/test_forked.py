# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The helper that runs ranks in forked processes."""

from __future__ import annotations

import signal

import pytest

from tests.data.support import forked


def test_ranks_end_with_timed_out_test(tmp_path, monkeypatch):
    started = []

    def time_is_up(process, pipe):
        started.append(process)
        assert pipe.recv() == ("reported", "here")
        raise TimeoutError

    def work(report):
        report("here")
        signal.pause()

    monkeypatch.setattr(forked, "_result", time_is_up)
    try:
        with pytest.raises(TimeoutError):
            forked.ranks(0, work, tmp_path)
        assert [process.exitcode for process in started] == [-signal.SIGKILL]
    finally:
        for process in started:
            process.kill()
