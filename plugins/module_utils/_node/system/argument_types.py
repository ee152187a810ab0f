# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Type errors in values: a string instead of a dictionary, a name instead of a number. Pure.

Ansible's argument check accepts a string for a list or a dictionary, and passes the string through unchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Spec = Mapping[str, Mapping[str, Any]]

CHECKS: dict[str, Callable[[Any], bool]] = {
    "a string": lambda value: isinstance(value, str),
    "an integer": lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9,
    "a number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 10**9,
    "true or false": lambda value: isinstance(value, bool),
    "a dictionary": lambda value: isinstance(value, Mapping),
    "a list": lambda value: isinstance(value, list),
    "a list of strings": lambda value: isinstance(value, list) and all(isinstance(entry, str) for entry in value),
    "a list of dictionaries": lambda value: (
        isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value)
    ),
}
# How messages name each type of an argument spec; other types are not checked.
TYPES = {
    "str": "a string",
    "path": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "dict": "a dictionary",
    "list": "a list",
}
ELEMENTS = {"str": "a list of strings", "path": "a list of strings", "dict": "a list of dictionaries"}
# Strings that Ansible's filter bool and its modules accept.
SWITCHES = {
    **dict.fromkeys(("true", "yes", "on", "1", "y", "t"), True),
    **dict.fromkeys(("false", "no", "off", "0", "n", "f"), False),
}
MAX_TEXT = 80


def spec_of(config: type, **more: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the argument spec of a dataclass: type and default of each field, and ``more`` about it by its name.

    A field of another class is no option, and None is no default.
    """
    spec: dict[str, dict[str, Any]] = {}
    for field in dataclasses.fields(config):
        option, default = _option(str(field.type)), getattr(config(), field.name)
        if option:
            found = {} if default is None else {"default": list(default) if isinstance(default, tuple) else default}
            spec[field.name] = {**option, **found, **more.get(field.name, {})}
    return spec


def _option(annotation: str) -> dict[str, Any]:
    name = annotation.partition(" | ")[0]
    if name in ("str", "int", "bool"):
        return {"type": name}
    if name.startswith("t.Mapping["):
        return {"type": "dict"}
    if name in ("list[str]", "tuple[str, ...]"):
        return {"type": "list", "elements": "str"}
    if name.startswith(("list[dict[", "tuple[t.Mapping[")):
        return {"type": "list", "elements": "dict"}
    return {}


def given(raw: Mapping[str, Any], spec: Spec) -> dict[str, Any]:
    """Return the options that are set, for a configuration; a list as a tuple."""
    values = {key: raw[key] for key in spec if raw.get(key) is not None}
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def coerce(name: str, value: Any) -> Any:
    """Return ``value`` in the type with this name (a key of ``CHECKS``); a value that has no such form is unchanged.

    ``-e KEY=VALUE`` makes a string of a number or a boolean, and YAML makes a number of a string that looks like one.
    """
    if name == "an integer" and isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii():
        return int(value)
    if name == "true or false" and isinstance(value, (str, int)):
        return SWITCHES.get(str(value).lower(), value)
    if name == "a string" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if name == "a list of strings" and isinstance(value, list):
        return [coerce("a string", entry) for entry in value]
    return value


def type_name(option: Mapping[str, Any]) -> str:
    """Return the name of an option's type, a key of ``CHECKS``; empty if the option takes any value."""
    name = TYPES.get(option.get("type", "str"), "")
    return ELEMENTS.get(option.get("elements", ""), name) if name == "a list" else name


def described(value: Any) -> str:
    """Return the beginning of a value on one line, and its type."""
    text = " ".join(str(value).split())
    text = f"{text[:MAX_TEXT]}…" if len(text) > MAX_TEXT else text
    names = (("a boolean", bool), ("a string", str), ("a number", (int, float)), ("a dictionary", Mapping))
    return f"'{text}', {next((name for name, types in names if isinstance(value, types)), 'a list')}"


def _opposite(value: Any) -> Any:
    return -value if isinstance(value, int) and not isinstance(value, bool) else value


def problems(given: Mapping[str, Any], spec: Spec, above: str = "") -> Iterator[str]:
    """Yield a sentence for each value that does not have its type in ``spec`` (options of an argument spec), and for
    each unknown key of a dictionary with ``options``. Null counts as not set. An integer is 0 or more, unless its
    option has another ``least``."""
    for name, option in spec.items():
        value, expected, inner = given.get(name), type_name(option), option.get("options")
        if value is None or not expected:
            continue
        coerced = coerce(expected, value)
        keys = ", ".join(sorted(inner or ()))
        wanted = f"{expected} with {keys}" if keys and expected == "a dictionary" else expected
        minimum = option.get("least", 0)
        is_negative = expected == "an integer" and minimum < 0 and CHECKS[expected](_opposite(coerced))
        if not CHECKS[expected](coerced) and not is_negative:
            yield f"{above}{name} is {described(value)}; use {wanted}"
        elif expected == "an integer" and coerced < minimum:
            yield f"{above}{name} is '{coerced}'; use {expected}, {minimum} at least"
        elif inner and expected == "a dictionary":
            for key in sorted(set(map(str, coerced)) - set(inner)):
                yield f"{above}{name} has the key '{key}', which does not exist; those that do are {keys}"
            yield from problems(coerced, inner, f"{above}{name}.")
