# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes plugstack.conf so that it names Pyxis once, in the way that is wanted, and keeps all else that it says.

The files are shared by every node of a cluster and read at every step. So a change is decided from the whole stack,
made under a lock, and each file is replaced in one step; who reads meanwhile sees the old text or the new one. What
others wrote stays to the last byte, whatever ends its lines and in whatever encoding it is.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import posixpath
import typing as t

from ..system.host import NodeError
from .host import EnrootHost
from .plugstack import Entry, Stack, lines_of, read_stack, words_of
from .pyxis_options import option_words

OWN_NAME = "pyxis.conf"
OWN_COMMENT = "# Written by the role mlcluster.aws.enroot_pyxis."
LOCK_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The line that is wanted: its word, the plugin's path, the options (by name), and how it is included.

    include is "glob" for ``plugstack.conf.d/*.conf``, or "file" for the one file by name: slurmd of a configless
    cluster does not get what a pattern finds. duplicates is "report" or "remove".
    """

    plugin: str
    word: str = "optional"
    options: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    include: str = "glob"
    duplicates: str = "report"

    @property
    def line(self) -> str:
        """The line as it stands in the file."""
        return " ".join([self.word, self.plugin, *option_words(self.options)])


def own_path(path: str) -> str:
    """The file that holds the line where nobody has written one yet."""
    return posixpath.join(path + ".d", OWN_NAME)


def plan_changes(stack: Stack, wanted: Wanted) -> dict[str, str]:
    """The new text of each file that has to change, included files before the files that include them."""
    changes: dict[str, str] = {}
    entries = stack.pyxis
    if entries:
        _replace_line(stack, changes, entries[0], wanted.line)
        if wanted.duplicates == "remove":
            first = (entries[0].file, entries[0].number)
            # The same line met again comes of two includes; to change it would take Pyxis away.
            for entry in [other for other in entries if (other.file, other.number) != first]:
                _replace_line(stack, changes, entry, f"# removed, for it is listed already: {_text_of(stack, entry)}")
    else:
        own = own_path(stack.path)
        changes[own] = f"{OWN_COMMENT}\n{wanted.line}\n"
    main = _with_include(stack, wanted, bool(entries))
    # The lines of the main file may have changed above; the include is a line of its own and keeps its number.
    if main is not None:
        changes[stack.path] = main(changes.get(stack.path, stack.texts.get(stack.path, "")))
    return {path: text for path, text in changes.items() if text != stack.texts.get(path)}


def plan_removal(stack: Stack) -> dict[str, str | None]:
    """What takes Pyxis out of the stack: the new texts, None for a file of ours that only held the line."""
    changes: dict[str, str] = {}
    for entry in stack.pyxis:
        _replace_line(stack, changes, entry, None)
    kept = {path: [line for line in lines_of(text) if words_of(line)] for path, text in changes.items()}
    own = own_path(stack.path)
    return {path: None if path == own and not kept[path] else text for path, text in changes.items()}


def apply_changes(host: EnrootHost, path: str, wanted: Wanted | None, dry: bool = False) -> dict[str, t.Any]:
    """Bring the stack to what is wanted, None to take Pyxis out; {"before": texts, "after": texts} of what changed."""
    directory = posixpath.dirname(path)
    if not host.is_dir(directory):
        raise NodeError(
            f"looked for {directory}, the directory of slurm.conf, and did not find it: set enroot_pyxis_slurm_conf_dir"
        )
    if dry:
        return _change(host, path, wanted, dry)
    try:
        # Beside the files, since the directory may be shared by nodes that have no other place in common.
        with host.locked(posixpath.join(directory, ".plugstack.lock"), LOCK_SECONDS):
            return _change(host, path, wanted, dry)
    except OSError as exc:
        raise NodeError(f"could not write {path} or a file that it includes: {exc.strerror or exc}") from exc


def _change(host: EnrootHost, path: str, wanted: Wanted | None, dry: bool) -> dict[str, t.Any]:
    stack = read_stack(host, path)
    changes: t.Mapping[str, str | None] = plan_changes(stack, wanted) if wanted else plan_removal(stack)
    before = {name: stack.texts.get(name) for name in changes}
    # The main file last: an include line must never name what is not there yet.
    for name in sorted(changes, key=lambda name: name == path) if not dry else ():
        text = changes[name]
        if text is None:
            host.remove(name)
        else:
            host.write_text(name, text)
    return {"before": before, "after": dict(changes)}


def _replace_line(stack: Stack, changes: dict[str, str], entry: Entry, line: str | None) -> None:
    lines = lines_of(changes.get(entry.file, stack.texts[entry.file]))
    old = lines[entry.number - 1]
    if line is None:
        line = (
            f"# removed by the role mlcluster.aws.enroot_pyxis: {old.strip()}"
            if entry.file != own_path(stack.path)
            else ""
        )
    if line.startswith("#") or words_of(old) != words_of(line):
        lines[entry.number - 1] = line + ("\r" if old.endswith("\r") else "")
    changes[entry.file] = "\n".join(lines)


def _text_of(stack: Stack, entry: Entry) -> str:
    return lines_of(stack.texts[entry.file])[entry.number - 1].strip()


def _with_include(stack: Stack, wanted: Wanted, listed: bool) -> t.Callable[[str], str] | None:
    """What the main file needs so that the line is read, and safely; None where it is so already."""
    own = own_path(stack.path)
    pattern = own if wanted.include == "file" else posixpath.join(posixpath.dirname(own), "*.conf")
    bare = posixpath.join(posixpath.dirname(own), "*")
    loose = [item for item in stack.includes if item.file == stack.path and item.pattern == bare]
    if loose:
        return lambda text: _set_lines(text, loose[0].number, _safe_includes(stack, wanted, loose[0].found))
    covered = any(_covers(item.pattern, own, wanted.include) for item in stack.includes)
    if listed or covered:
        return None
    return lambda text: f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}include {pattern}\n"


def _covers(pattern: str, path: str, include: str) -> bool:
    if include == "file":
        return pattern == path
    same = posixpath.dirname(pattern) == posixpath.dirname(path)
    return same and fnmatch.fnmatchcase(posixpath.basename(path), posixpath.basename(pattern))


def _safe_includes(stack: Stack, wanted: Wanted, found: t.Sequence[str]) -> list[str]:
    """Includes that read what a bare star found, less what lists no plugin: a stray file."""
    own = own_path(stack.path)
    listed = stack.pyxis[:1]
    keep = {
        entry.file for entry in stack.entries if entry.file in found and (not entry.is_pyxis or entry in listed)
    } | (set() if listed else {own})
    if wanted.include == "file":
        return [f"include {path}" for path in sorted(keep)]
    pattern = posixpath.join(posixpath.dirname(own), "*.conf")
    return [f"include {pattern}", *(f"include {path}" for path in sorted(keep) if not path.endswith(".conf"))]


def _set_lines(text: str, number: int, lines: list[str]) -> str:
    old = lines_of(text)
    end = "\r" if old[number - 1].endswith("\r") else ""
    return "\n".join([*old[: number - 1], *(line + end for line in lines), *old[number:]])
