# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Standard streams that are closed, full, or have lost their reader.

The exit code is the verdict, and a failed write of the lines must not change it: a broken node is drained even if the
disk of the log is full.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import typing as t


def open_missing() -> None:
    """Redirect closed standard streams to /dev/null; otherwise the next opened file would take their number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one, since those below it are open.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", errors="replace", closefd=False))


class Output(io.TextIOBase):
    """Standard output that accepts everything and reports a failed write at the end."""

    def __init__(self, stream: t.TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._problem: OSError | None = None
        if isinstance(stream, io.TextIOWrapper):
            # A path is printed with its original bytes.
            stream.reconfigure(errors="surrogateescape")

    def write(self, text: str) -> int:
        """Write, unless a write has failed before."""
        if self._problem is None:
            try:
                self._stream.write(text)
            except OSError as exc:
                self._problem = exc
        return len(text)

    def flush(self) -> None:
        """Write buffered text."""
        if self._problem is None:
            try:
                self._stream.flush()
            except OSError as exc:
                self._problem = exc

    def lost(self) -> str | None:
        """Return why output was lost; None if all was written, or if its reader closed the pipe."""
        self.flush()
        problem = self._problem
        if problem is None:
            return None
        with contextlib.suppress(OSError, ValueError):
            # The interpreter would try to write buffered text again at its end, and exit with 120.
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self._stream.flush()
        return None if isinstance(problem, BrokenPipeError) else problem.strerror or str(problem)
