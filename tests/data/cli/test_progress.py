# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io

import pytest
from mlcluster_data.cli import progress


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_terminal_shows_one_updated_line(clock):
    screen = Screen()
    with progress.Progress("work", 200, screen) as shown:
        for _step in range(4):
            clock[0] += 1
            shown.advance(50, "a.txt")
    lines = screen.getvalue().split("\r")
    assert lines[1] == "work: [########......................]  25% of 200, 1 s, 3 s left a.txt"
    assert lines[-1] == "work: [##############################] 100% of 200, 4 s a.txt\n"
    assert screen.getvalue().count("\n") == 1


def test_log_gets_line_at_intervals(clock):
    log = io.StringIO()
    with progress.Progress("work", 100, log) as shown:
        for _step in range(100):
            clock[0] += 1
            shown.advance(1)
    assert log.getvalue().splitlines() == [
        "work:  30% of 100, 30 s, 70 s left",
        "work:  60% of 100, 60 s, 40 s left",
        "work:  90% of 100, 90 s, 10 s left",
        "work: 100% of 100, 100 s",
    ]


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0"), (950, "950"), (12_345, "12.3k"), (4.56e6, "4.56M"), (2e12, "2T")]
)
def test_amounts_are_short(number, expected):
    assert progress.amount(number) == expected
