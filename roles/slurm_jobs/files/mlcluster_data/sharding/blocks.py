# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Blocks of an input file encoded on all cores of a task, their results in the order of the file.

A block is a range of whole lines. The processes read their blocks themselves, so no text is sent between processes.
Only a few blocks are in progress at the same time, so memory does not grow with the input.
"""

from __future__ import annotations

import collections
import concurrent.futures
import concurrent.futures.process
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..corpus.text import JSON_SUFFIXES, LINE_MOST, Bad
from ..errors import DataError
from .tokenizer import Encoder, Ids

BLOCK_BYTES = 4 << 20
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class Encoded:
    """The documents of a block: all ids in order, the number of ids of each, the byte after the line of each."""

    tokens: np.ndarray
    counts: np.ndarray
    ends: np.ndarray
    end: int
    skipped: int
    replaced: int


@dataclass(frozen=True)
class Settings:
    """Settings of the processes: tokenizer.json as text, the ids, and the policy for bad documents."""

    definition: str
    ids: Ids
    whole: bool
    on_bad: str


def ranges(path: Path, start: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of whole lines from byte ``start`` on, each of about ``size`` bytes. Raises DataError, OSError."""
    with open(path, "rb") as file:
        total = os.fstat(file.fileno()).st_size
        while start < total:
            end = min(start + size, total)
            file.seek(end - 1)
            rest = file.readline(LINE_MOST)
            if len(rest) == LINE_MOST and not rest.endswith(b"\n"):
                raise DataError(
                    f"{path}: the line after byte {start} is longer than {LINE_MOST >> 20} MiB: it is not a document"
                )
            end += len(rest) - 1
            yield start, end
            start = end


def read_block(path: Path, start: int, end: int, bad: Bad) -> tuple[list[str], list[int]]:
    """Return the documents of a block, and the byte after each. Raises OSError, and DataError with file and line."""
    with open(path, "rb") as file:
        file.seek(start)
        content = file.read(end - start)
    texts: list[str] = []
    ends: list[int] = []
    is_json = path.suffix in JSON_SUFFIXES
    for raw in content.split(b"\n"):
        where = _Line(path, start)
        start += len(raw) + 1
        if not raw.strip():
            continue
        text = bad.line(where, raw)
        if text is not None and is_json:
            text = bad.text(text, where)
        if text is not None and (text := text.strip("\r\n")):
            texts.append(text)
            ends.append(min(start, end))
    return texts, ends


@dataclass(frozen=True)
class _Line:
    """The line that begins at byte ``at``; its number is counted only if needed."""

    path: Path
    at: int

    def __str__(self) -> str:
        number, left = 1, self.at
        with open(self.path, "rb") as file:
            while left > 0 and (piece := file.read(min(left, 1 << 20))):
                number += piece.count(b"\n")
                left -= len(piece)
        return f"{self.path}: line {number}"


_encoder: Encoder | None = None
_on_bad = ""


def prepare(settings: Settings, parent: int | None) -> None:
    """Prepare this process to encode; it ends with its parent, if a process ID is given."""
    global _encoder, _on_bad
    if parent is not None:
        # Otherwise the processes of a killed task would wait for work for ever.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            # Its parent ended before that, and no signal comes.
            os.kill(os.getpid(), signal.SIGKILL)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _encoder, _on_bad = Encoder(settings.definition, settings.ids, settings.whole), settings.on_bad


def encode_block(path: Path, start: int, end: int) -> Encoded:
    """Encode one block, after ``prepare`` in this process. Raises DataError."""
    if _encoder is None:
        raise RuntimeError("this process was not prepared")
    bad = Bad(_on_bad)
    texts, ends = read_block(path, start, end, bad)
    try:
        found = _encoder.encode(texts)
    except DataError as exc:
        raise DataError(f"{path}: bytes {start} to {end}: {exc}") from exc
    counts = np.array([len(one) for one in found], np.int64) // _encoder.dtype.itemsize
    tokens = np.frombuffer(b"".join(found), _encoder.dtype)
    return Encoded(tokens, counts, np.array(ends, np.int64), end, bad.skipped, bad.replaced)


class Pool:
    """The processes of a task; use as a context manager. With one process, this process does all the work."""

    def __init__(self, settings: Settings, processes: int) -> None:
        self.processes = processes
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        if processes == 1:
            prepare(settings, None)
        else:
            self._pool = concurrent.futures.ProcessPoolExecutor(
                processes, multiprocessing.get_context("spawn"), prepare, (settings, os.getpid())
            )

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def encode(self, path: Path, start: int) -> Iterator[Encoded]:
        """Yield the blocks of a file from byte ``start`` on, in order. Raises DataError, OSError."""
        if self._pool is None:
            for begin, end in ranges(path, start, BLOCK_BYTES):
                yield encode_block(path, begin, end)
            return
        waiting: collections.deque[concurrent.futures.Future[Encoded]] = collections.deque()
        try:
            for begin, end in ranges(path, start, BLOCK_BYTES):
                waiting.append(self._pool.submit(encode_block, path, begin, end))
                if len(waiting) > 2 * self.processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except concurrent.futures.process.BrokenProcessPool as exc:
            raise DataError(
                f"a process that encoded {path} was ended, most likely for lack of memory: request more with --mem, or "
                "fewer processes with --processes"
            ) from exc
