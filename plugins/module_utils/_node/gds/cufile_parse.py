# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse JSON with comments (cufile.json) and keep the position of every value in the text.

The grammar is strict JSON (RFC 8259) plus ``//`` and ``/* */`` comments wherever white space is allowed. libcufile
1.15.1.6 rejects the whole file if it has a trailing comma or a byte order mark (seen).
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import typing as t

from ..system.host import NodeError

# cufile.json is about 11 KB with all its comments and three levels deep; the limits are far above that.
MAX_BYTES = 256 * 1024
MAX_DEPTH = 64
# The largest value that libcufile prints, 18014398509481980, has 17 digits.
MAX_NUMBER_LENGTH = 64

_SKIP = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*[\s\S]*?\*/)*")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = {"true": True, "false": False, "null": None}


@dataclasses.dataclass(frozen=True)
class Member:
    """A name and its value in an object; start is the position of the name's quote, comma that of its comma."""

    name: str
    start: int
    value: Node
    comma: int | None


@dataclasses.dataclass(frozen=True)
class Node:
    """A value, from start up to end in the text; members is None for everything but an object."""

    start: int
    end: int
    value: t.Any
    members: tuple[Member, ...] | None = None

    def member(self, name: str) -> Member | None:
        """Return the member with the name, or None."""
        return next((member for member in self.members or () if member.name == name), None)


def decode(data: bytes, path: str) -> str:
    """Return the text of a cufile.json. Raises NodeError if it is too large or not plain UTF-8."""
    if len(data) > MAX_BYTES:
        raise NodeError(_sentence(path, f"it has more than {MAX_BYTES // 1024} KiB, and a cufile.json has about 11"))
    if data.startswith(b"\xef\xbb\xbf"):
        raise NodeError(_sentence(path, "it begins with a byte order mark, with which libcufile refuses it as a whole"))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise NodeError(_sentence(path, f"line {line} holds a byte that is not UTF-8")) from None


def parse(text: str, path: str) -> Node:
    """Return the tree of a text whose outermost value is an object. Raises NodeError with the line of the error."""
    if text.startswith("\ufeff"):
        raise NodeError(_sentence(path, "it begins with a byte order mark, with which libcufile refuses it as a whole"))
    parser = _Parser(text, path)
    root = parser.value(parser.skip(0), 0)
    end = parser.skip(root.end)
    if end != len(text):
        raise parser.fault(end, "there is something behind the closing brace")
    if root.members is None:
        raise parser.fault(root.start, "the outermost value is not an object in braces")
    return root


def _sentence(path: str, problem: str) -> str:
    return f"{path} cannot be read as JSON with comments, since {problem}: correct it by hand and run again"


class _Parser:
    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = text, path

    def fault(self, position: int, problem: str) -> NodeError:
        line = self.text.count("\n", 0, position) + 1
        return NodeError(_sentence(self.path, f"in line {line} {problem}"))

    def skip(self, position: int) -> int:
        """Return the position after white space and comments."""
        found = _SKIP.match(self.text, position)
        end = found.end() if found else position
        if self.text.startswith("/*", end):
            raise self.fault(end, "a comment is opened that is never closed")
        return end

    def value(self, start: int, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.fault(start, f"values are nested more than {MAX_DEPTH} deep")
        first = self.text[start : start + 1]
        if first == "{":
            return self._object(start, depth)
        if first == "[":
            return self._array(start, depth)
        if first == '"':
            return self._string(start)
        return self._scalar(start)

    def _string(self, start: int) -> Node:
        found = _STRING.match(self.text, start)
        if not found:
            raise self.fault(start, "a string is not closed, or holds a control character")
        try:
            value = json.loads(found.group())
        except ValueError:
            raise self.fault(start, "a string holds a backslash that JSON does not know") from None
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise self.fault(start, "a string holds half of a surrogate pair")
        return Node(start, found.end(), value)

    def _scalar(self, start: int) -> Node:
        word = _WORD.match(self.text, start)
        if word:
            if word.group() not in _WORDS:
                raise self.fault(start, f"{word.group()[:40]} stands where a value has to be")
            return Node(start, word.end(), _WORDS[word.group()])
        number = _NUMBER.match(self.text, start)
        if not number:
            seen = self.text[start : start + 1]
            raise self.fault(start, f"{json.dumps(seen) if seen else 'the end'} stands where a value has to be")
        if number.end() - start > MAX_NUMBER_LENGTH:
            raise self.fault(start, f"a number has more than {MAX_NUMBER_LENGTH} characters")
        value = json.loads(number.group())
        if isinstance(value, float) and not math.isfinite(value):
            raise self.fault(start, "a number is larger than a computer can hold")
        return Node(start, number.end(), value)

    def _array(self, start: int, depth: int) -> Node:
        values: list[t.Any] = []
        position = self.skip(start + 1)
        while self.text[position : position + 1] != "]":
            item = self.value(position, depth + 1)
            values.append(item.value)
            comma = self._comma(item.end, "]")
            position = self.skip(item.end if comma is None else comma + 1)
            self._no_trailing(comma, position, "]")
        return Node(start, position + 1, values)

    def _object(self, start: int, depth: int) -> Node:
        members: list[Member] = []
        values: dict[str, t.Any] = {}
        position = self.skip(start + 1)
        while self.text[position : position + 1] != "}":
            if self.text[position : position + 1] != '"':
                raise self.fault(position, "something else stands where a name in quotes or a closing brace has to be")
            name = self._string(position)
            if name.value in values:
                raise self.fault(position, f'the name "{name.value[:80]}" stands for the second time in its object')
            colon = self.skip(name.end)
            if self.text[colon : colon + 1] != ":":
                raise self.fault(colon, f'no colon follows the name "{name.value[:80]}"')
            item = self.value(self.skip(colon + 1), depth + 1)
            comma = self._comma(item.end, "}")
            members.append(Member(name.value, position, item, comma))
            values[name.value] = item.value
            position = self.skip(item.end if comma is None else comma + 1)
            self._no_trailing(comma, position, "}")
        return Node(start, position + 1, values, tuple(members))

    def _comma(self, position: int, closing: str) -> int | None:
        end = self.skip(position)
        if self.text[end : end + 1] == ",":
            return end
        if self.text[end : end + 1] != closing:
            raise self.fault(end, f"neither a comma nor the closing {closing} follows a value")
        return None

    def _no_trailing(self, comma: int | None, position: int, closing: str) -> None:
        if comma is not None and self.text[position : position + 1] == closing:
            raise self.fault(comma, "a comma stands behind the last value, with which libcufile refuses the whole file")
