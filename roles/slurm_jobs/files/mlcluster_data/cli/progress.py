# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress of long work: a bar on a terminal, a line every 30 seconds in a log."""

from __future__ import annotations

import sys
import time
from typing import TextIO

BAR_WIDTH = 30
LINE_SECONDS = 30.0
BAR_SECONDS = 0.2


def amount(number: float) -> str:
    """Return a count in at most five characters: 950, 12.3k, 4.56M."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.0f}"


class Progress:
    """Progress of work with ``total`` units (bytes, shards); use as a context manager.

    On a terminal one line is updated; elsewhere a line is printed every 30 s, and one at the end.
    """

    def __init__(self, title: str, total: int, stream: TextIO | None = None) -> None:
        self.title = title
        self.total = total
        self.stream = sys.stderr if stream is None else stream
        self.terminal = self.stream.isatty()
        self.done = 0
        self.note = ""
        self.begin = self._shown = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        print(f"\r{self.line()}" if self.terminal else self.line(), file=self.stream, flush=True)

    def advance(self, units: int, note: str = "") -> None:
        """Add ``units`` to the finished ones, and print the progress if due; ``note`` follows the figures."""
        self.done += units
        self.note = note or self.note
        now = time.monotonic()
        if now - self._shown < (BAR_SECONDS if self.terminal else LINE_SECONDS):
            return
        self._shown = now
        end = "" if self.terminal else "\n"
        print(f"\r{self.line()}" if self.terminal else self.line(), end=end, file=self.stream, flush=True)

    def line(self) -> str:
        """Return the line: title, bar, share, seconds used and left, note."""
        used = time.monotonic() - self.begin
        share = min(1.0, self.done / self.total) if self.total else 1.0
        left = f", {used / share - used:.0f} s left" if 0 < share < 1 else ""
        full = round(share * BAR_WIDTH)
        drawn = f" [{'#' * full}{'.' * (BAR_WIDTH - full)}]" if self.terminal else ""
        return f"{self.title}:{drawn} {share:4.0%} of {amount(self.total)}, {used:.0f} s{left} {self.note}".rstrip()
