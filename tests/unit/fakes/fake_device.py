# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated block device for reading: zeros, except in the given ranges of bytes."""

from __future__ import annotations

import errno
import functools
import os
import typing as t


class FakeDevice:
    """In place of ``host.DeviceReader``. content: (offset, bytes) ranges that hold data; blocks: data by offset, over
    them; bad: every read fails.
    """

    def __init__(
        self,
        size: int,
        content: t.Iterable[tuple[int, int]] = (),
        number: str = "259:0",
        bad: bool = False,
        blocks: t.Mapping[int, bytes] | None = None,
        logs: t.Mapping[int, bytes] | None = None,
    ) -> None:
        self.size, self.number = size, number
        self._content, self._bad = list(content), bad
        self._blocks, self.logs = blocks or {}, logs or {}
        self.reads: list[tuple[int, int]] = []

    def nvme_log(self, page: int, length: int) -> bytes | None:
        assert length > 0 and length % 4 == 0, length
        return self.logs[page].ljust(length, b"\0") if page in self.logs else None

    def read(self, offset: int, length: int) -> bytes:
        assert offset >= 0 and length > 0 and offset + length <= self.size, (offset, length, self.size)
        self.reads.append((offset, length))
        if self._bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        piece: bytearray | None = None
        for start, size in self._content:
            begin, end = max(start, offset), min(start + size, offset + length)
            if begin < end:
                piece = piece or bytearray(length)
                piece[begin - offset : end - offset] = b"\xa5" * (end - begin)
        for start, data in self._blocks.items():
            if offset <= start and start + len(data) <= offset + length:
                piece = piece or bytearray(length)
                piece[start - offset : start - offset + len(data)] = data
        return bytes(piece) if piece else _zeros(length)


@functools.lru_cache
def _zeros(length: int) -> bytes:
    return bytes(length)
