# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Change single values in the text of a cufile.json and keep every other byte.

Pure functions. An existing value is replaced in place; a new name is added after the last one of its object, below a
comment on the same line; a removed member takes its line along if the line holds nothing else.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..system.host import NodeError
from .cufile_parse import Member, Node, parse

Path = tuple[str, ...]

_BLANK = re.compile(r"[ \t]*")
_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_REST = re.compile(r"(?:[ \t]+|//[^\r\n]*|/\*[\s\S]*?\*/)*")
_DEFAULT_UNIT = "    "


def set_value(text: str, path: Path, value: t.Any, origin: str) -> str:
    """Return the text with the value at path (not empty); an empty mapping accepts an object with any content.

    Raises NodeError if a value on the path is not an object. ``origin`` is the file's name, for the message.
    """
    node = parse(text, origin)
    unit = _unit(text, node)
    for depth, name in enumerate(path):
        if node.members is None:
            raise NodeError(
                f"{origin} has a value that is not an object at {'.'.join(path[:depth])}, so {'.'.join(path)} cannot "
                "be set below it: correct it by hand, or remove it with state absent first"
            )
        member = node.member(name)
        if member is None:
            return _insert(text, node, name, _nested(path[depth + 1 :], value), unit)
        node = member.value
    if same(node.value, value) or (value == {} and node.members is not None):
        return text
    return text[: node.start] + json.dumps(value, ensure_ascii=False) + text[node.end :]


def remove_value(text: str, path: Path, origin: str) -> str:
    """Return the text without the member at path; unchanged if there is none. Comments stay."""
    node = parse(text, origin)
    for name in path[:-1]:
        member = node.member(name)
        if member is None:
            return text
        node = member.value
    found = node.member(path[-1])
    return text if found is None else _remove(text, node, found)


def new_text(settings: t.Mapping[str, t.Any]) -> str:
    """Return the text of a new file with the settings, indented as NVIDIA's file."""
    return json.dumps(settings, indent=len(_DEFAULT_UNIT), ensure_ascii=False) + "\n"


def same(one: t.Any, other: t.Any) -> bool:
    """Return whether two JSON values are equal in type as well: true is not 1, and 1 is not 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def leaves(settings: t.Mapping[str, t.Any], above: Path = ()) -> t.Iterator[tuple[Path, t.Any]]:
    """Yield each (path, value) of nested mappings, in their order; an empty mapping is a leaf."""
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*above, name))
        else:
            yield (*above, name), value


def find_path(node: Node, dotted: str) -> Path | None:
    """Return the path of a dotted name in a document whose names may contain dots; None if it is missing.

    The longest name wins at each level: mount points such as /data/v1.2 are names in a mount_table.
    """
    for member in sorted(node.members or (), key=lambda member: -len(member.name)):
        if dotted == member.name:
            return (member.name,)
        if dotted.startswith(member.name + "."):
            below = find_path(member.value, dotted[len(member.name) + 1 :])
            if below is not None:
                return (member.name, *below)
    return None


def _nested(path: Path, value: t.Any) -> t.Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _line_start(text: str, position: int) -> int:
    return max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1


def _indent(text: str, position: int) -> str:
    """Return the white space that begins the line of a position."""
    found = _BLANK.match(text, _line_start(text, position), position)
    return found.group() if found else ""


def _newline(text: str) -> str:
    found = _LINE_BREAK.search(text)
    return found.group() if found else "\n"


def _unit(text: str, root: Node) -> str:
    """Return the indentation of the file: that of its first name at the beginning of a line."""
    outer = _indent(text, root.start)
    for member in root.members or ():
        inner = _indent(text, member.start)
        if _line_start(text, member.start) + len(inner) == member.start and len(inner) > len(outer):
            return inner[len(outer) :]
    return _DEFAULT_UNIT


def _rest_of_line(text: str, position: int) -> tuple[int, bool]:
    """Return the end of the rest of the line, comments included, and whether the line ends there."""
    found = _REST.match(text, position)
    end = found.end() if found else position
    if text[end : end + 1] in ("\r", "\n"):
        return end, True
    return position + len(text[position:end].rstrip(" \t")), False


def _shown(name: str, value: t.Any, indent: str, unit: str, newline: str) -> str:
    """Return a member as text: nested objects over several lines, everything else on one."""
    if not isinstance(value, dict) or not value:
        return f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
    inner = indent + unit
    lines = [inner + _shown(key, below, inner, unit, newline) for key, below in value.items()]
    body = f",{newline}".join(lines)
    return f"{json.dumps(name, ensure_ascii=False)}: {{{newline}{body}{newline}{indent}}}"


def _insert(text: str, owner: Node, name: str, value: t.Any, unit: str) -> str:
    newline = _newline(text)
    on_one_line = f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
    if not owner.members:
        return _insert_first(text, owner, name, value, unit)
    last = owner.members[-1]
    behind = last.value.end
    end, breaks = _rest_of_line(text, behind)
    if not breaks:
        return f"{text[:behind]},{text[behind:end]} {on_one_line}{text[end:]}"
    indent = _indent(text, last.start)
    if _line_start(text, last.start) == _line_start(text, owner.start):
        indent += unit
    member_text = _shown(name, value, indent, unit, newline)
    return f"{text[:behind]},{text[behind:end]}{newline}{indent}{member_text}{text[end:]}"


def _insert_first(text: str, owner: Node, name: str, value: t.Any, unit: str) -> str:
    """Insert a member into an object that is empty or contains only comments."""
    newline = _newline(text)
    outer = _indent(text, owner.start)
    shown = _shown(name, value, outer + unit, unit, newline)
    start, end = owner.start + 1, owner.end - 1
    if not text[start:end].strip(" \t\r\n"):
        return f"{text[:start]}{newline}{outer}{unit}{shown}{newline}{outer}{text[end:]}"
    after, breaks = _rest_of_line(text, start)
    if breaks:
        return f"{text[:after]}{newline}{outer}{unit}{shown}{text[after:]}"
    on_one_line = f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
    return f"{text[:after]} {on_one_line}{text[after:]}"


def _remove(text: str, owner: Node, gone: Member) -> str:
    members = owner.members or ()
    start, end = gone.start, gone.value.end
    cuts = []
    if gone.comma is None:
        index = members.index(gone)
        for comma in (before.comma for before in members[:index][-1:] if before.comma is not None):
            if text[comma + 1 : start].strip(" \t"):
                cuts.append((comma, comma + 1))
                start -= len(text[:start]) - len(text[:start].rstrip(" \t"))
            else:
                start = comma
    elif text[end : gone.comma].strip(" \t"):
        cuts.append((gone.comma, gone.comma + 1))
    else:
        end = gone.comma + 1
    begin = _line_start(text, start)
    found = _BLANK.match(text, end)
    stop = found.end() if found else end
    broken = _LINE_BREAK.match(text, stop)
    if broken and not text[begin:start].strip(" \t"):
        start, end = begin, broken.end()
    elif gone.comma is not None:
        end = stop
    cuts.append((start, end))
    for left, right in sorted(cuts, reverse=True):
        text = text[:left] + text[right:]
    return text
