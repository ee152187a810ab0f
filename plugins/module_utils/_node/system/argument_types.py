# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Type errors in values: a string instead of a mapping, a name instead of a number. Pure.

Ansible's argument check accepts a string for a list or a mapping, and passes the string through unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Spec = Mapping[str, Mapping[str, Any]]

CHECKS: dict[str, Callable[[Any], bool]] = {
    "a text": lambda value: isinstance(value, str),
    "a whole number": lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9,
    "a number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 10**9,
    "true or false": lambda value: isinstance(value, bool),
    "a mapping": lambda value: isinstance(value, Mapping),
    "a list": lambda value: isinstance(value, list),
    "a list of texts": lambda value: isinstance(value, list) and all(isinstance(entry, str) for entry in value),
    "a list of mappings": lambda value: isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value),
}
# The kind of each type of an argument spec; other types are not checked.
TYPES = {
    "str": "a text",
    "path": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "dict": "a mapping",
    "list": "a list",
}
ELEMENTS = {"str": "a list of texts", "path": "a list of texts", "dict": "a list of mappings"}
# Strings that Ansible's filter bool and its modules accept.
SWITCHES = {
    **dict.fromkeys(("true", "yes", "on", "1", "y", "t"), True),
    **dict.fromkeys(("false", "no", "off", "0", "n", "f"), False),
}
MOST_TEXT = 80


def coerce(kind: str, value: Any) -> Any:
    """Return ``value`` in the type that ``kind`` requires; other types of values are unchanged.

    ``-e KEY=VALUE`` makes a string of a number or a switch, and YAML makes a number of a string that looks like one.
    """
    if kind == "a whole number" and isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii():
        return int(value)
    if kind == "true or false" and isinstance(value, (str, int)):
        return SWITCHES.get(str(value).lower(), value)
    if kind == "a text" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if kind == "a list of texts" and isinstance(value, list):
        return [coerce("a text", entry) for entry in value]
    return value


def kind_of(option: Mapping[str, Any]) -> str:
    """Return the kind of an option of an argument spec; empty for any value."""
    kind = TYPES.get(option.get("type", "str"), "")
    return ELEMENTS.get(option.get("elements", ""), kind) if kind == "a list" else kind


def described(value: Any) -> str:
    """Return the beginning of a value on one line, and its type."""
    text = " ".join(str(value).split())
    text = f"{text[:MOST_TEXT]}…" if len(text) > MOST_TEXT else text
    names = (("a truth value", bool), ("a text", str), ("a number", (int, float)), ("a mapping", Mapping))
    return f"'{text}', {next((name for name, types in names if isinstance(value, types)), 'a list')}"


def _opposite(value: Any) -> Any:
    return -value if isinstance(value, int) and not isinstance(value, bool) else value


def problems(given: Mapping[str, Any], spec: Spec, above: str = "") -> Iterator[str]:
    """Return a sentence for each value that does not have its type in ``spec`` (options of an argument spec), and for
    each unknown key of a mapping with ``options``; null counts as not given. A whole number is 0 or more, unless its
    option has another ``least``."""
    for name, option in spec.items():
        value, kind, inner = given.get(name), kind_of(option), option.get("options")
        if value is None or not kind:
            continue
        taken = coerce(kind, value)
        keys = ", ".join(sorted(inner or ()))
        wanted = f"{kind} with {keys}" if keys and kind == "a mapping" else kind
        least = option.get("least", 0)
        is_negative = kind == "a whole number" and least < 0 and CHECKS[kind](_opposite(taken))
        if not CHECKS[kind](taken) and not is_negative:
            yield f"{above}{name} is {described(value)}; give {wanted}"
        elif kind == "a whole number" and taken < least:
            yield f"{above}{name} is '{taken}'; give {kind}, {least} at least"
        elif inner and kind == "a mapping":
            for key in sorted(set(map(str, taken)) - set(inner)):
                yield f"{above}{name} has the key '{key}', which does not exist; those that do are {keys}"
            yield from problems(taken, inner, f"{above}{name}.")
