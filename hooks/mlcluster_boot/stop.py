# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions that stop a run of ansible-runner, and the cleanup after a stopped run."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

# The variable that marks the processes of one run.
MARKER = "MLCLUSTER_RUN"
# Bound of the wait for killed processes; one that waits for a disk is left behind.
KILL_SECONDS = 10


class Stop:
    """Condition to stop a run: a signal came, or its time is over by the monotonic clock.

    ansible-runner's own limit uses the time of day, which may change while a node is configured.
    """

    def __init__(self, seconds: int | None) -> None:
        self.requested = threading.Event()
        self.deadline = time.monotonic() + seconds if seconds else None
        self.late = False

    def __call__(self) -> bool:
        if not self.requested.is_set():
            self.late = self.late or (self.deadline is not None and time.monotonic() >= self.deadline)
        return self.late or self.requested.is_set()

    @contextlib.contextmanager
    def by_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM, until the end of the block."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {
            number: signal.signal(number, lambda _number, _frame: self.requested.set())
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in handlers.items():
                # None: the handler was not installed by Python, which cannot restore it.
                if handler is not None:
                    signal.signal(number, handler)


def _workers(marker: str) -> list[int]:
    """Return the processes with the marker in their environment; a zombie has none."""
    wanted = f"{MARKER}={marker}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def end_workers(marker: str) -> None:
    """Kill the processes that a stopped run left, found by the marker in their environment, and wait for their end.

    ansible-runner kills ansible-playbook's process group, but its workers have left that group and would wait for
    their dead parent for ever. The search is repeated for processes that a worker started meanwhile.
    """
    deadline = time.monotonic() + KILL_SECONDS
    while (found := _workers(marker)) and time.monotonic() < deadline:
        for number in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.05)
