# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shards: tar archives of samples, complete or absent, that webdataset reads.

A sample is a row of at most ``length`` token ids. In the compact form a member of the tar has many samples, as three
.npy files with the same key: ``tokens`` (all ids, one sample after the other), ``lengths`` (the number of ids of each
sample, uint32) and ``ids`` (the number of each sample, int64). In the JSON form each sample is a separate file,
KEY.json, with ``id`` and ``input_ids``.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import CorruptError, DataError
from ..files import durable

# A sample's number: 15 bits for the input, 30 for the document in the input, 18 for the row in the document.
INPUT_BITS, DOCUMENT_BITS, ROW_BITS = 15, 30, 18
BLOCK_SAMPLES = 256
FORMS = ("npy", "json")


def sample_name(number: int) -> str:
    """Return the readable form of a sample's number: INPUT-DOCUMENT-ROW, each counted from 0."""
    rest, row = divmod(int(number), 1 << ROW_BITS)
    at, document = divmod(rest, 1 << DOCUMENT_BITS)
    return f"{at}-{document}-{row}"


def sample_numbers(at: int, documents: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the numbers of samples of input ``at``, int64 [n]. Raises DataError if they need more bits."""
    for what, maximum, bits in (
        ("inputs", at, INPUT_BITS),
        ("documents in an input", documents.max(initial=0), DOCUMENT_BITS),
        ("rows in a document", rows.max(initial=0), ROW_BITS),
    ):
        if maximum >= 1 << bits:
            raise DataError(f"there are more than {1 << bits} {what}: divide the text into more inputs or documents")
    head = np.int64(at) << np.int64(DOCUMENT_BITS + ROW_BITS)
    return head | (documents.astype(np.int64) << ROW_BITS) | rows.astype(np.int64)


@dataclass(frozen=True)
class Rows:
    """Samples of one shard: ``tokens`` [total], ``lengths`` uint32 [n], ``ids`` int64 [n]."""

    tokens: np.ndarray
    lengths: np.ndarray
    ids: np.ndarray


def rows_of(at: int, first: int, tokens: np.ndarray, counts: np.ndarray, length: int, packed: bool) -> Rows:
    """Cut documents into samples of at most ``length`` ids and return them.

    ``counts`` [documents] is the number of ``tokens`` of each document; ``first`` is the number of the first one in
    input ``at``. Packed, documents follow each other in full rows; otherwise each document begins a new row.
    """
    begins = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
    if packed:
        starts = np.arange(0, begins[-1], length, dtype=np.int64)
        lengths = np.minimum(length, begins[-1] - starts)
        documents = np.searchsorted(begins, starts, side="right") - 1
    else:
        per_document = -(-counts.astype(np.int64) // length)
        documents = np.repeat(np.arange(len(counts), dtype=np.int64), per_document)
        within = np.arange(len(documents)) - np.repeat(np.cumsum(per_document) - per_document, per_document)
        lengths = np.minimum(length, counts.astype(np.int64)[documents] - within * length)
    # Rows that begin in the same document are counted from 0.
    _unique, where, inverse = np.unique(documents, return_index=True, return_inverse=True)
    rows = np.arange(len(documents)) - where[inverse]
    return Rows(tokens, lengths.astype(np.uint32), sample_numbers(at, documents + first, rows))


class _Hashed:
    """A file whose SHA-256 is computed while it is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.sha256 = hashlib.sha256()
        self.size = 0

    def write(self, piece: bytes) -> int:
        self.sha256.update(piece)
        self.size += len(piece)
        return self.file.write(piece)


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=(1, 0), allow_pickle=False)
    return stream.getvalue()


def members(rows: Rows, form: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a shard: name and content."""
    ends = np.cumsum(rows.lengths, dtype=np.int64)
    step = BLOCK_SAMPLES if form == "npy" else 1
    for begin in range(0, len(rows.lengths), step):
        end = min(begin + step, len(rows.lengths))
        tokens = rows.tokens[ends[begin] - rows.lengths[begin] : ends[end - 1]]
        if form == "json":
            number = int(rows.ids[begin])
            yield f"{sample_name(number)}.json", json.dumps({"id": number, "input_ids": tokens.tolist()}).encode()
            continue
        key = f"{begin:08d}"
        for name, array in (("tokens", tokens), ("lengths", rows.lengths[begin:end]), ("ids", rows.ids[begin:end])):
            yield f"{key}.{name}.npy", _npy(array)


def write_shard(folder: Path, name: str, rows: Rows, form: str) -> tuple[Path, int, str]:
    """Write a shard under a hidden name in ``folder``, synced; return (path, bytes, SHA-256). Raises OSError."""
    aside = durable.aside_of(name)
    with durable.Directory.open(folder) as here, here.new(aside, 0o644) as file:
        hashed = _Hashed(file)
        with tarfile.open(fileobj=hashed, mode="w|", format=tarfile.USTAR_FORMAT) as tar:  # type: ignore[call-overload]
            for member, content in members(rows, form):
                info = tarfile.TarInfo(member)
                info.size, info.mode = len(content), 0o644
                tar.addfile(info, io.BytesIO(content))
    return folder / aside, hashed.size, hashed.sha256.hexdigest()


def read_array(content: bytes, name: str) -> np.ndarray:
    """Return the array in a .npy file. Raises CorruptError, also if the header lists more than the file holds."""
    try:
        stream = io.BytesIO(content)
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("it is not of version 1.0")
        shape, _order, kind = np.lib.format.read_array_header_1_0(stream)
        if math.prod(shape) * kind.itemsize > len(content):
            raise ValueError(f"its header lists {shape} and it has {len(content)} bytes")
        return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as exc:
        raise CorruptError(f"{name} holds no array ({exc})") from exc


def samples_of(group: dict[str, Any], name: str) -> list[tuple[int, np.ndarray]]:
    """Yield (number, ids [n]) of the samples in one group of files, as webdataset returns it. Raises CorruptError."""
    if "json" in group:
        try:
            content = json.loads(group["json"])
            return [(int(content["id"]), np.array(content["input_ids"], np.int64))]
        except (ValueError, KeyError, TypeError) as exc:
            raise CorruptError(f"{name}: {group['__key__']}.json is not a sample ({exc})") from exc
    if missing := {"tokens.npy", "lengths.npy", "ids.npy"} - set(group):
        raise CorruptError(f"{name}: {group['__key__']} lacks {', '.join(sorted(missing))}")
    tokens, lengths, ids = (read_array(group[f"{part}.npy"], name) for part in ("tokens", "lengths", "ids"))
    ends = np.cumsum(lengths, dtype=np.int64)
    if len(ids) != len(lengths) or (len(ends) and ends[-1] != len(tokens)):
        raise CorruptError(f"{name}: {group['__key__']} has arrays that do not fit each other")
    return list(zip(ids.tolist(), np.split(tokens, ends[:-1])))
