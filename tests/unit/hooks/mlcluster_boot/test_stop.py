# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import subprocess
import threading
import types

import pytest

from hooks.mlcluster_boot import stop


@pytest.fixture
def clock(monkeypatch):
    clock = types.SimpleNamespace(now=100.0, monotonic=lambda: clock.now, sleep=lambda seconds: None)
    monkeypatch.setattr(stop, "time", clock)
    return clock


def test_stop_is_late_from_its_deadline_on(clock):
    limit = stop.Stop(10)
    clock.now = 109.9
    assert limit() is False and limit.late is False
    clock.now = 110.0
    assert limit() is True and limit.late is True


def test_stop_without_seconds_has_no_deadline(clock):
    limit = stop.Stop(None)
    clock.now = 1e9
    assert limit() is False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_in_time_and_handler_is_restored(clock, number):
    before = signal.getsignal(number)
    limit = stop.Stop(10)
    with limit.by_signals():
        os.kill(os.getpid(), number)
        assert limit() is True
    # The first cause is the reason, even after the deadline.
    clock.now = 1000.0
    assert limit() is True and limit.late is False
    assert signal.getsignal(number) is before


def test_signals_are_left_unchanged_outside_main_thread():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work() -> None:
        with stop.Stop(None).by_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_end_workers_kills_those_with_marker_alone(tmp_path):
    mine, other = (
        subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"], stop.MARKER: str(tmp_path / name)})
        for name in ("mine", "other")
    )
    try:
        stop.end_workers(str(tmp_path / "mine"))
        assert mine.wait() == -signal.SIGKILL
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
