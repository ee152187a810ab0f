# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file of JSON lines that a resumed run takes up where its checkpoint was, not where the killed run stopped."""

from __future__ import annotations

import contextlib
import json
import typing as t
from pathlib import Path

from . import durable


class Journal:
    """One file; every line is an object with `step`. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: t.TextIO | None = None

    def rewind(self, step: int) -> None:
        """Forget what comes after a step, and a line that was cut off."""
        self.close()
        kept = [line for line in read(self.path) if line["step"] <= step]
        durable.write(self.path, "".join(f"{json.dumps(line)}\n" for line in kept).encode())

    def write(self, step: int, **values: t.Any) -> None:
        """Add a line, at once."""
        if self._file is None:
            self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 closed by close()
        self._file.write(f"{json.dumps({'step': step, **values})}\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file; the next write opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read(path: Path) -> list[dict[str, t.Any]]:
    """The lines of a journal that are whole; none where there is no file."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                if isinstance(value, dict) and isinstance(value.get("step"), int):
                    found.append(value)
    return found
