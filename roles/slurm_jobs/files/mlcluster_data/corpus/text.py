# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read documents from text files, with their boundaries.

A document is a unit that must not be divided: an article, a page, a conversation. ``Division`` decides where documents
end in a file; JSON lines always have one document per line.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ..errors import DataError
from ..files import durable

TEXT_SUFFIXES = (".txt", ".text", ".md")
JSON_SUFFIXES = (".jsonl", ".json", ".ndjson")
ON_BAD = ("fail", "skip", "replace")
# Longer lines do not count as text; the largest books have some 20 MB.
LINE_MOST = 256 << 20


@dataclass(frozen=True)
class Division:
    """Where documents end in plain text.

    ``kind``: ``file`` (one document a file), ``line`` (one a line), ``blank`` (an empty line ends one), ``heading`` (a
    line that matches ``heading`` begins one).
    """

    kind: str = "file"
    heading: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("file", "line", "blank", "heading"):
            raise DataError(f"documents cannot be divided by {self.kind}: use file, line, blank or heading")
        if (self.kind == "heading") != bool(self.heading):
            raise DataError("a division by heading needs a pattern, and no other does: set both or neither")
        try:
            re.compile(self.heading)
        except re.error as exc:
            raise DataError(f"--boundary {self.heading} is not a regular expression: {exc}") from exc

    def documents(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the documents in lines (with their line ends), without those that have only white space."""
        pattern = re.compile(self.heading) if self.kind == "heading" else None
        gathered: list[str] = []
        for line in lines:
            if self._begins(pattern, line):
                yield from _closed(gathered)
                gathered = []
            if self.kind != "blank" or line.strip():
                gathered.append(line)
            if self.kind == "line":
                yield from _closed(gathered)
                gathered = []
        yield from _closed(gathered)

    def _begins(self, pattern: re.Pattern[str] | None, line: str) -> bool:
        if pattern is not None:
            return bool(pattern.match(line.rstrip("\r\n")))
        return self.kind == "blank" and not line.strip()


def _closed(gathered: list[str]) -> Iterator[str]:
    text = "".join(gathered).strip("\r\n")
    if text.strip():
        yield text


@dataclass
class Bad:
    """The policy for unreadable documents (``ON_BAD``), and their number."""

    policy: str = "fail"
    skipped: int = 0
    replaced: int = 0

    def line(self, where: object, raw: bytes) -> str | None:
        """Return one line of a file as text; None if it is skipped. Raises DataError."""
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as exc:
            if self.policy == "replace":
                self.replaced += 1
                return raw.decode("utf-8", errors="replace")
            self.document(f"{where}: byte {exc.start + 1} of the line is 0x{raw[exc.start]:02x}, which is not UTF-8")
            return None

    def text(self, line: str, where: object, field: str = "text") -> str | None:
        """Return the text of one JSON line; None if it is skipped. Raises DataError."""
        try:
            return text_of(line, where, field)
        except DataError as exc:
            self.document(str(exc))
            return None

    def document(self, problem: str) -> None:
        """Count an unusable document. Raises DataError if the policy forbids it."""
        if self.policy != "skip":
            raise DataError(f"{problem}: repair the file, or pass over such documents with --on-bad skip")
        self.skipped += 1


def lines_of(file: IO[bytes] | gzip.GzipFile, name: str, bad: Bad) -> Iterator[tuple[int, str]]:
    """Yield the lines of a binary file with their numbers. Raises DataError for too long and non-UTF-8 lines."""
    number = 0
    while raw := file.readline(LINE_MOST + 1):
        number += 1
        if len(raw) > LINE_MOST:
            raise DataError(f"{name}: line {number} is longer than {LINE_MOST >> 20} MiB: split the document")
        text = bad.line(f"{name}: line {number}", raw)
        if text is not None:
            yield number, text


def text_of(line: str, where: object, field: str = "text") -> str:
    """Return the text of one JSON line. Raises DataError if it has none, or characters that UTF-8 cannot encode."""
    try:
        value = json.loads(line)
    except ValueError as exc:
        raise DataError(f"{where} is not JSON ({exc})") from exc
    except RecursionError as exc:
        raise DataError(f"{where} is nested too deeply to be read") from exc
    text = value.get(field) if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise DataError(f'{where} has no text in the field "{field}"')
    try:
        if not text.isascii():
            text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise DataError(f"{where} holds half a surrogate pair, which is not a character") from exc
    return text


def read_documents(path: Path, division: Division, bad: Bad, field: str = "text") -> Iterator[str]:
    """Yield the documents of a file: JSON lines by its name, else plain text; ``.gz`` is unpacked. Raises DataError."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if bad.policy == "skip" and path.suffix == ".gz" and (problem := _damage(path)):
        bad.document(problem)
        return
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            lines = lines_of(file, str(path), bad)
            if plain.suffix in JSON_SUFFIXES:
                for number, line in lines:
                    text = bad.text(line, f"{path}: line {number}", field) if line.strip() else None
                    if text is not None and text.strip():
                        yield text
            else:
                yield from division.documents(line for _number, line in lines)
    except (gzip.BadGzipFile, EOFError, zlib.error) as exc:
        raise DataError(f"{path} is a damaged gzip file ({exc}): get it back whole, or leave it out") from exc
    except OSError as exc:
        reason = exc.strerror or exc
        raise DataError(f"{path} cannot be read ({reason}): check that it is complete and readable") from exc


def _damage(path: Path) -> str:
    """Return the damage of a gzip file, read completely because it is skipped as a whole; empty for a good one."""
    with contextlib.suppress(OSError):
        try:
            with gzip.open(path, "rb") as file:
                while file.read(1 << 20):
                    pass
        except (gzip.BadGzipFile, EOFError, zlib.error) as exc:
            return f"{path} is a damaged gzip file ({exc})"
    return ""


def text_files(sources: Iterable[Path]) -> list[Path]:
    """Return the text files of sources: files as they are, folders by their files, sorted. Raises DataError."""
    found: list[Path] = []
    for source in sources:
        if source.is_dir():
            try:
                below = [path for path in durable.files_below(source) if _is_text(path)]
            except OSError as exc:
                raise DataError(
                    f"{source} cannot be read as a whole ({durable.reason(exc)}): fix that, or name the files and "
                    "folders in it one by one"
                ) from exc
            if not below:
                names = " ".join(TEXT_SUFFIXES + JSON_SUFFIXES)
                raise DataError(f"{source} holds no text: put files there that end in {names}, or these with .gz")
            found += below
        elif source.is_file():
            found.append(source)
        else:
            raise DataError(f"{source} is missing: use a file or a folder of text")
    return found


def _is_text(path: Path) -> bool:
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    return plain.suffix in TEXT_SUFFIXES + JSON_SUFFIXES and not path.name.startswith(".")
