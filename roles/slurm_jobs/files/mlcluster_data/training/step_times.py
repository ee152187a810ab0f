# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The durations of this rank's steps, written to a file for ``mlcluster watch`` (MLCLUSTER_STEP_FILE).

In a step all ranks wait for the slowest one, so neither the total time nor the loss shows which one it is. The time
of a rank's own work, its batch and its forward pass, shows it.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import time
import typing as t
from pathlib import Path

import torch

from ..files import durable

LOGGER = logging.getLogger("mlcluster.data")
# Seconds between two writes.
EVERY = 1.0


def file_of(variables: t.Mapping[str, str]) -> Path | None:
    """Return the file of this rank from its environment; None if no program reads it."""
    base = variables.get("MLCLUSTER_STEP_FILE")
    local = variables.get("LOCAL_RANK", "0")
    return Path(f"{base}.{local}") if base and local.isdecimal() else None


class StepTimes:
    """Steps, their seconds, and the seconds of this rank alone. A file that cannot be written ends no training."""

    def __init__(self, path: Path | None, device: torch.device) -> None:
        self.path, self.device = path, device
        self.steps, self.seconds, self.own = 0, 0.0, 0.0
        self._began = time.monotonic()
        self._written = -EVERY
        # Pairs of GPU events; their time is known once the GPU has reached them.
        self._pending: collections.deque[tuple[torch.cuda.Event, torch.cuda.Event]] = collections.deque()

    def begin(self) -> None:
        """Start to measure: the time before was not part of a step."""
        self._began = time.monotonic()

    def batch_is_there(self) -> None:
        """Record that this rank has its batch; up to here it did not wait for other ranks."""
        self.own += time.monotonic() - self._began

    @contextlib.contextmanager
    def forward(self) -> t.Iterator[None]:
        """Measure the work in the block; on a GPU by its events, without waiting for them."""
        if self.device.type == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _event in range(2))
            begin.record()
            yield
            end.record()
            self._pending.append((begin, end))
        else:
            began = time.monotonic()
            yield
            self.own += time.monotonic() - began

    def step_is_over(self) -> None:
        """Count the step, and write the numbers at intervals."""
        while self._pending and self._pending[0][1].query():
            begin, end = self._pending.popleft()
            self.own += begin.elapsed_time(end) / 1000
        now = time.monotonic()
        self.steps += 1
        self.seconds, self._began = self.seconds + now - self._began, now
        if now - self._written >= EVERY:
            self._written = now
            self._write()

    def _write(self) -> None:
        if self.path is None:
            return
        try:
            with durable.Directory.open(self.path.parent) as folder, folder.making(self.path.name, sync=False) as file:
                file.write(f"{self.steps} {self.seconds:.6f} {self.own:.6f}\n".encode())
        except OSError as exc:
            LOGGER.warning("step times cannot be written (%s): their metrics are missing", durable.reason(exc))
            self.path = None

    def close(self) -> None:
        """Remove the file, since the training has ended."""
        if self.path is not None:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
