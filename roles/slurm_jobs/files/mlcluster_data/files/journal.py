# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file of JSON lines that a resumed run continues at the step of its checkpoint, not where the killed run ended."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import typing as t
from pathlib import Path

from . import durable

LOGGER = logging.getLogger("mlcluster.data")


class Journal:
    """One file; every line is an object with ``step``."""

    def __init__(self, path: Path) -> None:
        """Raises OSError where its folder cannot be made."""
        self.path = path
        durable.make_directory(path.parent)
        self._file: t.BinaryIO | None = None
        self._missing = 0

    def rewind(self, step: int) -> None:
        """Forget what comes after a step, and a line that was cut off. Raises OSError.

        At the begin of a training, the lines of an earlier one that published a checkpoint are kept in a file of
        another name: with another directory for checkpoints, this is another training.
        """
        self.close()
        found = read(self.path)
        kept = [line for line in found if line["step"] <= step]
        if not step and any(_is_published(line) for line in found):
            LOGGER.warning("%s is of an earlier training: it is kept as %s", self.path, durable.keep_earlier(self.path))
            kept = []
        durable.write(self.path, "".join(f"{json.dumps(line)}\n" for line in kept).encode())

    def write(self, step: int, **values: t.Any) -> None:
        """Write a line at once. An error, as on a full disk, is only logged, and the line is missing."""
        try:
            self._add(f"{json.dumps({'step': step, **values})}\n".encode())
        except OSError as exc:
            self.close()
            if not self._missing:
                LOGGER.warning("%s cannot be written (%s): lines from step %d on are missing", self.path,
                               durable.reason(exc), step)  # fmt: skip
            self._missing += 1
            return
        if self._missing:
            LOGGER.warning("%s is written again from step %d on, %d lines are missing", self.path, step, self._missing)
            self._missing = 0

    def _add(self, line: bytes) -> None:
        if self._file is None:
            with durable.Directory.open(self.path.parent) as folder:
                self._file = os.fdopen(folder.appending(self.path.name), "ab", buffering=0)
        end = os.fstat(self._file.fileno()).st_size
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError:
            # A line after an incomplete one would be lost with it.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), end)
            raise

    def close(self) -> None:
        """Close the file; the next write opens it again."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def _is_published(line: dict[str, t.Any]) -> bool:
    about = line.get("checkpoint")
    return isinstance(about, dict) and not about.get("error")


def read(path: Path) -> list[dict[str, t.Any]]:
    """Return the complete lines of a journal; none if there is no file, or if it is a link or a pipe."""
    found = []
    for line in _content(path).decode("utf-8", "replace").splitlines():
        with contextlib.suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict) and isinstance(value.get("step"), int):
                found.append(value)
    return found


def _content(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError), durable.Directory.open(path.parent) as folder:
        if folder.is_plain(path.name):
            return folder.read(path.name)
    return b""
