# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slurm's plugstack.conf as Slurm reads it: lines, includes, and errors that would stop every job of the cluster.

A line is ``required PLUGIN OPTIONS``, ``optional PLUGIN OPTIONS`` or ``include PATTERN``. An included file that a user
cannot open, or a required plugin that does not start, stops every step of every user, also steps without a container.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import posixpath
import shlex
import typing as t

from .host import EnrootHost

PLUGIN_NAME = "spank_pyxis.so"

# Includes can form a cycle. A file that is included twice counts twice, as it does for Slurm.
_DEPTH = 3


@dataclasses.dataclass(frozen=True)
class Entry:
    """One plugin line: its file and number (from 1), ``required`` or ``optional``, the plugin's path and options."""

    file: str
    number: int
    keyword: str
    plugin: str
    options: tuple[str, ...]

    @property
    def is_pyxis(self) -> bool:
        """Whether the line lists Pyxis."""
        return posixpath.basename(self.plugin) == PLUGIN_NAME


@dataclasses.dataclass(frozen=True)
class Include:
    """One include line and the files it matches, without hidden files, as in glob(3)."""

    file: str
    number: int
    pattern: str
    found: tuple[str, ...]


@dataclasses.dataclass
class Stack:
    """All lines that Slurm reads, in its order. problems are sentences; texts has the exact content of each file."""

    path: str
    entries: list[Entry] = dataclasses.field(default_factory=list)
    includes: list[Include] = dataclasses.field(default_factory=list)
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    problems: list[str] = dataclasses.field(default_factory=list)

    @property
    def pyxis(self) -> list[Entry]:
        """The lines that list Pyxis."""
        return [entry for entry in self.entries if entry.is_pyxis]

    def as_dict(self) -> dict[str, t.Any]:
        """Return the stack as plain JSON types, without the texts."""
        return {
            "path": self.path,
            "files": sorted(self.texts),
            "entries": [{**dataclasses.asdict(entry), "options": list(entry.options)} for entry in self.entries],
            "includes": [{**dataclasses.asdict(item), "found": list(item.found)} for item in self.includes],
            "problems": list(self.problems),
        }


def lines_of(text: str) -> list[str]:
    """Return the lines as Slurm counts them: only a line feed ends a line, a carriage return is white space."""
    return text.split("\n")


def shown(text: str) -> str:
    """Return a text from read_exact for display, with replacement characters for bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def words_of(line: str) -> list[str]:
    """Return the words of a line without its comment; quotes keep a word together."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split("#", 1)[0].split()


def read_stack(host: EnrootHost, path: str) -> Stack:
    """Return the stack of plugstack.conf and its includes. A missing file is an empty stack, as it is for Slurm.

    Every path in the stack is resolved, so that two names of a directory count as one.
    """
    stack = Stack(host.realpath(path))
    if host.exists(path):
        _read(host, stack, stack.path, 0)
        _find_problems(stack)
    return stack


def readable_by_all(host: EnrootHost, path: str) -> bool:
    """Return whether an ordinary user can open the file: srun reads it as the user who runs it."""
    place = host.realpath(path)
    info = host.stat(place)
    if info is None or not int(info["mode"], 8) & 0o004:
        return False
    while place not in ("/", ""):
        place = posixpath.dirname(place)
        info = host.stat(place)
        if info is None or not int(info["mode"], 8) & 0o001:
            return False
    return True


def matching_files(host: EnrootHost, pattern: str) -> list[str]:
    """Return the files that an include pattern matches; wildcards work in the last component only."""
    directory, name = posixpath.split(pattern)
    if not any(sign in name for sign in "*?["):
        return [host.realpath(pattern)] if host.exists(pattern) else []
    return [
        host.realpath(posixpath.join(directory, other))
        for other in host.listdir(directory)
        if fnmatch.fnmatchcase(other, name) and (name.startswith(".") or not other.startswith("."))
    ]


def _read(host: EnrootHost, stack: Stack, path: str, depth: int) -> None:
    if host.is_dir(path):
        return
    text = host.read_exact(path)
    if text is None or not readable_by_all(host, path):
        stack.problems.append(
            f"{path} cannot be opened by ordinary users, so every srun of theirs fails: remove it, or set its mode "
            "to 0644 in directories of mode 0755"
        )
    if text is None:
        return
    stack.texts[path] = text
    for number, line in enumerate(lines_of(text), 1):
        words = words_of(line)
        if not words:
            continue
        kind = words[0].lower()
        if kind == "include" and len(words) == 2:
            directory, name = posixpath.split(posixpath.join(posixpath.dirname(path), words[1]))
            pattern = posixpath.join(host.realpath(directory), name)
            found = matching_files(host, pattern)
            stack.includes.append(Include(path, number, pattern, tuple(found)))
            for other in found if depth < _DEPTH else ():
                _read(host, stack, other, depth + 1)
        elif kind in ("required", "optional") and len(words) >= 2:
            stack.entries.append(Entry(path, number, kind, words[1], tuple(words[2:])))
        else:
            content = shown(line.strip())
            stack.problems.append(f"line {number} of {path} is neither required, optional nor include: {content}")


def _find_problems(stack: Stack) -> None:
    for item in stack.includes:
        if posixpath.basename(item.pattern) == "*":
            stack.problems.append(
                f"line {item.number} of {item.file} includes {item.pattern}: a temporary file of an editor in that "
                f"directory stops every job; use {item.pattern}.conf"
            )
    if len(stack.pyxis) > 1:
        places = ", ".join(f"{entry.file}:{entry.number}" for entry in stack.pyxis)
        stack.problems.append(
            f"{PLUGIN_NAME} is listed {len(stack.pyxis)} times ({places}), so each job prints a warning for each "
            "option: keep one "
            "of the lines, or set enroot_pyxis_duplicates: remove"
        )
