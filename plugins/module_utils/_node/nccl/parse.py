# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read an output of nccl-tests or nccom-test with NCCL's log in it, line by line, in bounded memory."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import stat
import typing as t

from ..system.host import NodeError
from .log import NCCL_LINE, PREFIX, NcclLog
from .table import Run, Tables

# A longer line is read in pieces: no line of a test or of NCCL comes near it.
MAX_LINE = 65536
MAX_TABLE_LINE = 4096

# Prefixes of srun --label and mpirun --tag-output; Open MPI 5 begins it with [prterun-HOST-PID@1,0].
_LABEL = re.compile(r"(?:\[(?:prterun-[\w.@-]{1,300}|\d{1,9}),\d{1,9}\]<std(?:out|err)>: ?|\s{0,6}\d{1,6}: )")
# Sequences of a terminal (ECMA-48): colours, erased lines, titles.
_COLOUR = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
# The first lines of an output, after any prefix of a launcher, scheduler or log collector.
_ANCHOR = re.compile(r"# (?:nccl-tests version \S|Collective test starting: \w|nThread \d+ nGpus \d+ minBytes \d)")
MAX_DECORATION = 200
MAX_DECORATIONS = 8
_PART = re.compile(r"\d+|[A-Za-z]+|\s+|.", re.DOTALL)
# Characters that must not reach a terminal or a report: controls, and those that reverse or hide text.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@dataclasses.dataclass
class Output:
    """All runs of an output, in order; log has NCCL's lines outside of a run."""

    runs: list[Run]
    log: NcclLog


class _Decorations:
    """The prefix of each line of an output, known from its first lines."""

    def __init__(self) -> None:
        self._shapes: dict[str, re.Pattern[str]] = {}

    def strip(self, line: str) -> str:
        """Return a line without its decoration."""
        found = _ANCHOR.search(line[: MAX_DECORATION + 40]) if "# " in line else None
        if found and found.start() and found.start() <= MAX_DECORATION and len(self._shapes) < MAX_DECORATIONS:
            shape = _shape(line[: found.start()])
            self._shapes.setdefault(shape, re.compile(shape))
        for pattern in self._shapes.values():
            if matched := pattern.match(line):
                return line[matched.end() :]
        return line


def _shape(prefix: str) -> str:
    """Return a pattern for decorations like this one: numbers, words and blanks may differ from line to line."""
    parts = []
    for part in _PART.findall(prefix):
        if part[0].isdigit() and part.isascii():
            parts.append(r"\d{1,19}")
        elif part[0].isalpha() and part.isascii():
            parts.append(r"[A-Za-z]{1,60}")
        else:
            parts.append(r"\s{1,20}" if part.isspace() else re.escape(part))
    # Only one of the last blanks belongs to the prefix; the others may be part of the test's line.
    return "".join(parts[:-1]) + (r"\s?" if parts[-1].startswith(r"\s") else parts[-1])


def parse(lines: t.Iterable[str]) -> Output:
    """Parse an output. Never raises: an unreadable part is skipped, or marks a run as broken or tangled."""
    tables, decorations = Tables(), _Decorations()
    for raw in lines:
        line = raw.rstrip("\r\n")
        if not line.isprintable():
            line = _CONTROL.sub("", _COLOUR.sub("", line))
        if line[:1] in "[ 0123456789" and (label := _LABEL.match(line)):
            line = line[label.end() :]
        line = decorations.strip(line)
        start, mark, _rest = line.partition(" NCCL ")
        found = NCCL_LINE.search(line, max(0, len(start) - PREFIX)) if mark else None
        if found is None:
            text = line.lstrip()
            # A comment of the test never means that a task ended.
            if text.startswith("#"):
                line = text
            elif tables.log.plain(text):
                continue
            if line and len(line) <= MAX_TABLE_LINE:
                tables.feed(line)
            continue
        before, host = line[: found.start()], found.group("host")
        if before.strip():
            before, host = _parted(before, host, tables)
            tables.fragment(before[-MAX_TABLE_LINE:])
        # An incomplete line proves nothing, and one about a channel has to.
        text = found.group("text")
        kept = found.end() == len(line) or found.group("level") == "WARN" or text.startswith(("Channel ", "Ring "))
        tables.log.feed(host, found.group("level"), text if kept else "", tables.where)
    return Output(tables.runs, tables.log)


def _parted(before: str, host: str, tables: Tables) -> tuple[str, str]:
    """Remove the end of a row from the host name that was written right after it."""
    hosts, short = tables.hosts, host.partition(".")[0]
    if short not in hosts and (known := max(filter(short.endswith, hosts), key=len, default="")):
        cut = len(short) - len(known)
        return before + host[:cut], host[cut:]
    return before, host


def read_lines(stream: t.BinaryIO) -> t.Iterator[str]:
    """Yield the lines of a file, each at most ``MAX_LINE`` bytes; invalid UTF-8 is replaced."""
    for block in iter(lambda: stream.readline(MAX_LINE), b""):
        yield block.decode("utf-8", "replace")


def parse_file(path: str) -> Output:
    """Read the output in a file. Raises ``NodeError`` if the file cannot be read, or is a pipe or device."""
    try:
        # A pipe is opened without waiting for a writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "it is a directory, pipe or device")
        with open(handle, "rb") as stream:
            return parse(read_lines(stream))
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else exc
        raise NodeError(f"could not read the output {path} ({why}): use the file that holds the output") from exc
