# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Change plugstack.conf so that it lists Pyxis once, as wanted, and keep everything else in it.

The files are shared by every node of a cluster and read at every step. So a change is planned from the whole stack and
made under a lock, and each file is replaced atomically: a reader sees the old text or the new one. Lines of others are
kept byte for byte, with any line ending and in any encoding.
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
class PluginRequest:
    """The wanted line: its keyword, the plugin's path, the options (by name), and how it is included.

    include is "glob" for ``plugstack.conf.d/*.conf``, or "file" for the one file by name: in a configless cluster
    slurmd does not get the files of a pattern. duplicates is "report" or "remove".
    """

    plugin: str
    keyword: str = "optional"
    options: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    include: str = "glob"
    duplicates: str = "report"

    @property
    def line(self) -> str:
        """The line as it is written into the file."""
        return " ".join([self.keyword, self.plugin, *option_words(self.options)])


def own_path(path: str) -> str:
    """Return the file for the line if no file has one yet."""
    return posixpath.join(path + ".d", OWN_NAME)


def plan_changes(stack: Stack, wanted: PluginRequest) -> dict[str, str]:
    """Return the new text of each file that must change, included files before the files that include them."""
    changes: dict[str, str] = {}
    entries = stack.pyxis
    if entries:
        _replace_line(stack, changes, entries[0], wanted.line)
        if wanted.duplicates == "remove":
            first = (entries[0].file, entries[0].number)
            # The same line can appear twice through two includes; changing it would remove Pyxis.
            for entry in [other for other in entries if (other.file, other.number) != first]:
                _replace_line(stack, changes, entry, f"# removed, since it is listed already: {_text_of(stack, entry)}")
    else:
        own = own_path(stack.path)
        changes[own] = f"{OWN_COMMENT}\n{wanted.line}\n"
    add_include = _with_include(stack, wanted, bool(entries))
    # The lines of the main file may have changed above; the include line keeps its number.
    if add_include is not None:
        changes[stack.path] = add_include(changes.get(stack.path, stack.texts.get(stack.path, "")))
    return {path: text for path, text in changes.items() if text != stack.texts.get(path)}


def plan_removal(stack: Stack) -> dict[str, str | None]:
    """Return the new texts without Pyxis; None for the role's own file if it had only that line."""
    changes: dict[str, str] = {}
    for entry in stack.pyxis:
        _replace_line(stack, changes, entry, None)
    kept = {path: [line for line in lines_of(text) if words_of(line)] for path, text in changes.items()}
    own = own_path(stack.path)
    return {path: None if path == own and not kept[path] else text for path, text in changes.items()}


def apply_changes(host: EnrootHost, path: str, wanted: PluginRequest | None, dry: bool = False) -> dict[str, t.Any]:
    """Write the wanted line, or remove Pyxis if wanted is None; return {"before", "after"}: texts of changed files."""
    directory = posixpath.dirname(path)
    if not host.is_dir(directory):
        raise NodeError(
            f"looked for {directory}, the directory of slurm.conf, and did not find it: set enroot_pyxis_slurm_conf_dir"
        )
    if dry:
        return _change(host, path, wanted, dry)
    try:
        # Beside the files: the nodes may share no other directory.
        with host.locked(posixpath.join(directory, ".plugstack.lock"), LOCK_SECONDS):
            return _change(host, path, wanted, dry)
    except OSError as exc:
        raise NodeError(f"could not write {path} or a file that it includes: {exc.strerror or exc}") from exc


def _change(host: EnrootHost, path: str, wanted: PluginRequest | None, dry: bool) -> dict[str, t.Any]:
    stack = read_stack(host, path)
    changes: t.Mapping[str, str | None] = plan_changes(stack, wanted) if wanted else plan_removal(stack)
    before = {name: stack.texts.get(name) for name in changes}
    # The main file last: an include line must never name a missing file.
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


def _with_include(stack: Stack, wanted: PluginRequest, listed: bool) -> t.Callable[[str], str] | None:
    """Return the change of the main file that includes the line safely; None if it is included already."""
    own = own_path(stack.path)
    pattern = own if wanted.include == "file" else posixpath.join(posixpath.dirname(own), "*.conf")
    bare = posixpath.join(posixpath.dirname(own), "*")
    bare_includes = [item for item in stack.includes if item.file == stack.path and item.pattern == bare]
    if bare_includes:
        return lambda text: _set_lines(
            text, bare_includes[0].number, _safe_includes(stack, wanted, bare_includes[0].found)
        )
    covered = any(_covers(item.pattern, own, wanted.include) for item in stack.includes)
    if listed or covered:
        return None
    return lambda text: f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}include {pattern}\n"


def _covers(pattern: str, path: str, include: str) -> bool:
    if include == "file":
        return pattern == path
    same = posixpath.dirname(pattern) == posixpath.dirname(path)
    return same and fnmatch.fnmatchcase(posixpath.basename(path), posixpath.basename(pattern))


def _safe_includes(stack: Stack, wanted: PluginRequest, found: t.Sequence[str]) -> list[str]:
    """Return includes for the files that a bare star matched, without stray files that list no plugin."""
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
