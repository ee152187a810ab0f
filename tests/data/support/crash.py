# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Possible states of a directory after a power failure, from the recorded changes of a program.

A file has the content of its last fsync. A directory has the names of its last fsync or later ones: each name may reach
the disk earlier, in any order, but a rename is one change. This module is independent of the programs.
"""

from __future__ import annotations

import os
import random
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Functions that change names or sync content; each is recorded right after its call.
RECORDED = ("fsync", "replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir")
Names = dict[str, int]
Key = tuple[int, str]


@dataclass
class Moment:
    """The disk after a change: files by inode, names in each directory, and the synced parts of both."""

    what: str
    root: int
    content: dict[int, bytes]
    names: dict[int, Names]
    synced_content: dict[int, bytes]
    synced_names: dict[int, Names]
    # Every directory so far, including removed ones.
    folders: frozenset[int]
    notes: tuple[str, ...] = ()


@dataclass
class Recorder:
    """Records this process' changes below a directory; ``skip``: (file, line) of fsync calls that are left out."""

    root: Path
    skip: Iterable[tuple[str, int]] = ()
    moments: list[Moment] = field(default_factory=list)
    seen: dict[int, int] = field(default_factory=dict)
    folders: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    one_change: threading.RLock = field(default_factory=threading.RLock)

    def start(self) -> None:
        """Begin to record; existing files count as synced. The recording ends with the process."""
        content, names = self._look()
        self.synced_content, self.synced_names = dict(content), dict(names)
        self._keep("start")
        for name in RECORDED:
            setattr(os, name, self._recorded(name, getattr(os, name)))

    def note(self, text: str) -> None:
        """Record a promise that holds from now on, such as that a call has returned."""
        self.notes.append(text)
        self._keep(text)

    def _recorded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **named: Any) -> Any:
            # A program may have threads: without the lock another one renames a file while this one looks.
            with self.one_change:
                result = function(*given, **named)
                if name == "fsync":
                    self._sync(given[0] if isinstance(given[0], int) else given[0].fileno())
                self._keep(name)
            return result

        return wrapped

    def _sync(self, descriptor: int) -> None:
        state = os.fstat(descriptor)
        frame: Any = sys._getframe(2)
        while frame is not None:
            if (frame.f_code.co_filename, frame.f_lineno) in self.skip:
                return
            frame = frame.f_back
        content, names = self._look()
        if stat.S_ISDIR(state.st_mode):
            if state.st_ino in names:
                self.synced_names[state.st_ino] = names[state.st_ino]
        elif state.st_ino in content:
            self.synced_content[state.st_ino] = content[state.st_ino]

    def _keep(self, what: str) -> None:
        content, names = self._look()
        self.moments.append(
            Moment(
                what,
                self.root.stat().st_ino,
                content,
                names,
                dict(self.synced_content),
                dict(self.synced_names),
                frozenset(self.folders),
                tuple(self.notes),
            )
        )

    def _look(self) -> tuple[dict[int, bytes], dict[int, Names]]:
        content: dict[int, bytes] = {}
        names: dict[int, Names] = {}
        left = [self.root]
        while left:
            folder = left.pop()
            found: Names = {}
            for entry in os.scandir(folder):
                number = entry.inode()
                if number not in self.seen:
                    # The file stays open, so that its inode number is not used again.
                    self.seen[number] = os.open(entry.path, os.O_PATH | os.O_NOFOLLOW)
                found[entry.name] = number
                if entry.is_dir(follow_symlinks=False):
                    left.append(Path(entry.path))
                else:
                    content[number] = Path(entry.path).read_bytes()
            names[folder.stat().st_ino] = found
            self.folders.add(folder.stat().st_ino)
        return content, names


Tree = dict[str, "bytes | None"]


def states(moments: list[Moment], seed: int, mixed: int = 3) -> Iterator[tuple[Moment, Tree]]:
    """Yield the possible disks after a power failure at any moment as {path: content}, None for a directory.

    For each moment these are: all synced names, all names, and ``mixed`` random choices between them. Each pair of disk
    and promises is yielded once.
    """
    rng = random.Random(seed)
    known = set()
    for moment in moments:
        groups = _groups(moment)
        choices = [dict.fromkeys(groups, True), dict.fromkeys(groups, False)]
        for _choice in range(mixed):
            drawn = {group: rng.random() < 0.5 for group in sorted(set(groups.values()))}
            choices.append({key: drawn[group] for key, group in groups.items()})
        for live in choices:
            tree = dict(sorted(_tree(moment, live).items()))
            key = (moment.notes, tuple(tree.items()))
            if key not in known:
                known.add(key)
                yield moment, tree


def _groups(moment: Moment) -> dict[Key, int]:
    """Return {name: group}: names of a group change together, as a rename is one change."""
    places: dict[int, set[Key]] = {}
    groups: dict[Key, int] = {}
    for names in (moment.synced_names, moment.names):
        for folder, found in names.items():
            for name, number in found.items():
                places.setdefault(number, set()).add((folder, name))
                groups.setdefault((folder, name), len(groups))
    for number, keys in places.items():
        was_there = any(moment.synced_names.get(folder, {}).get(name) == number for folder, name in keys)
        if was_there and len(keys) > 1:
            joined = {groups[key] for key in keys}
            groups = {key: min(joined) if group in joined else group for key, group in groups.items()}
    return groups


def _tree(moment: Moment, live: dict[Key, bool]) -> Tree:
    found: Tree = {}
    left = [("", moment.root)]
    while left:
        above, folder = left.pop()
        now, synced = moment.names.get(folder, {}), moment.synced_names.get(folder, {})
        for name in {*now, *synced}:
            number = (now if live[folder, name] else synced).get(name)
            path = f"{above}{name}"
            if number in moment.folders:
                found[path] = None
                left.append((f"{path}/", number))
            elif number is not None:
                found[path] = moment.synced_content.get(number, b"")
    return found


def lay_out(tree: Tree, place: Path) -> None:
    """Write the files of a disk state to a folder."""
    place.mkdir(parents=True)
    for path, content in tree.items():
        if content is None:
            (place / path).mkdir()
        else:
            (place / path).write_bytes(content)
