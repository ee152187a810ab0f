# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests: the files of a folder of inputs or shards, each with its size and SHA-256.

A manifest is written last, so a folder with a manifest is complete. Names are relative to the folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

from ..errors import DataError
from ..files import durable
from .text import JSON_SUFFIXES

INPUTS = "inputs.json"
INPUTS_SCHEMA = "mlcluster.inputs/1"
PLAN = "plan.json"
PLAN_SCHEMA = "mlcluster.shard_plan/1"
DATASET = "manifest.json"
DATASET_SCHEMA = "mlcluster.dataset/1"
PART_SCHEMA = "mlcluster.dataset_part/1"

SEAL = "seal"
TEXTS = frozenset({"name", "sha256"})
Entry = TypeVar("Entry", bound="Input | Shard")


@dataclasses.dataclass(frozen=True)
class Input:
    """One file of documents: their number, bytes, SHA-256."""

    name: str
    documents: int
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Shard:
    """One tar of samples: numbers of samples, tokens and documents, bytes, SHA-256, and the input it was made of."""

    name: str
    samples: int
    tokens: int
    documents: int
    bytes: int
    sha256: str
    input: int


def dump(content: dict[str, Any]) -> bytes:
    """Return a manifest as the bytes of its file: the same content gives the same bytes."""
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def sealed(content: dict[str, Any]) -> bytes:
    """Return a manifest with a SHA-256 of its content, as the bytes of its file."""
    return dump({**content, SEAL: _seal(content)})


def _seal(content: dict[str, Any]) -> str:
    return hashlib.sha256(dump(content)).hexdigest()


def parse_sealed(raw: bytes, name: str, schema: str) -> dict[str, Any]:
    """Parse a manifest made by ``sealed``. Raises DataError if it is not one, or differs from the written text.

    A manifest of an earlier version has no seal.
    """
    content = parse(raw, name, schema)
    if SEAL in content and content.pop(SEAL) != _seal(content):
        raise DataError(f"{name} is damaged or was changed: remove it, and its shards are made again")
    return content


def parse(raw: bytes, name: str, schema: str) -> dict[str, Any]:
    """Read a manifest. Raises DataError if it does not have this schema."""
    try:
        content = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as exc:
        raise DataError(f"{name} is not JSON ({exc}): make it again") from exc
    found = content.get("schema") if isinstance(content, dict) else None
    if found != schema:
        raise DataError(f"{name} is of the schema {found}, and {schema} was expected: check that the folder is right")
    return dict(content)


def entries(kind: type[Entry], content: dict[str, Any], key: str, name: str) -> list[Entry]:
    """Return the files that a manifest lists. Raises DataError for missing and invalid fields."""
    wanted = [field.name for field in dataclasses.fields(kind)]
    found = []
    for row in content.get(key) or []:
        if not isinstance(row, dict) or set(row) != set(wanted):
            raise DataError(f"{name}: an entry of {key} does not have just {', '.join(wanted)}: make it again")
        if not all(isinstance(row[field], str if field in TEXTS else int) for field in wanted):
            raise DataError(f"{name}: the entry {row['name']} of {key} has text and numbers confused: make it again")
        found.append(kind(**row))
    return found


def rows(files: list[Any]) -> list[dict[str, Any]]:
    """Return entries in the form of a manifest."""
    return [dataclasses.asdict(file) for file in files]


def inputs_of(folder: Path) -> list[Input]:
    """Return the inputs of a folder from its manifest, else its .jsonl and .txt files, sorted. Raises DataError."""
    listed = folder / INPUTS
    if durable.exists(listed):
        content = parse(durable.read(listed), str(listed), INPUTS_SCHEMA)
        return entries(Input, content, "files", str(listed))
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder: use the one that collect wrote to")
    names = sorted(path.name for path in folder.iterdir() if path.suffix in (*JSON_SUFFIXES, ".txt"))
    if strange := [name for name in names if (folder / name).is_dir()]:
        raise DataError(f"{folder / strange[0]}: Is a directory and has the name of an input: move it away")
    if not names:
        raise DataError(f"{folder} holds no input: put .jsonl or .txt files there, or call collect first")
    return [Input(name, 0, (folder / name).stat().st_size, "") for name in names]
