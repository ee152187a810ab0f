# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check the settings of a cufile.json, and merge them into its text or remove them from it.

libcufile rejects the whole file for a single wrong value, and then every program that uses cuFile fails, so nothing is
written that it would reject. Pure, except missing_paths, which looks at the node.
"""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import math
import re
import typing as t

from ..._data.cufile_keys import INSTEAD, KEYS, OLDEST
from ..system.host import Host, NodeError
from .cufile_edit import Path, find_path, leaves, new_text, remove_value, set_value
from .cufile_parse import parse

DEFAULT_PATH = "/etc/cufile.json"

_BY_NAME = {entry["name"]: entry for entry in KEYS}
_SECTIONS = {name[:dot] for name in _BY_NAME for dot in range(len(name)) if name[dot] == "."}
_HEX32 = re.compile(r"0[xX][0-9a-fA-F]{1,8}")
_RELEASE = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})(\.[0-9.]{1,20})?")
# libcufile 1.15 rejects the whole file if one of these does not exist.
_MUST_EXIST = ("logging.dir", "denylist.mounts", "denylist.devices")
# GDS 1.15 and older.
_FEW_THREADS = 32
# The default of libcufile 1.15 for both sizes is 1 MiB.
_BUILT_IN_KIB = 1024
_MAX_SETTINGS = 200


@dataclasses.dataclass(frozen=True)
class Change:
    """One setting that differs: its dotted name and its value before and after, None if it does not exist."""

    key: str
    before: t.Any
    after: t.Any


def check_settings(
    settings: t.Mapping[str, t.Any], allow_unknown: bool = False, gds_version: str | None = None
) -> None:
    """Raise NodeError with all problems in one sentence if libcufile would reject or ignore a setting.

    gds_version is the release on the node, such as 1.15.1.6; None checks against every known release.
    """
    release = _release(gds_version) if gds_version else None
    if not isinstance(settings, dict):
        raise NodeError(f"the settings are {settings!r}: use a dictionary, in the nesting of cufile.json")
    found = [(tuple(map(str, path)), value) for path, value in leaves(settings)]
    if len(found) > _MAX_SETTINGS:
        raise NodeError(
            f"settings has {len(found)} values, and a cufile.json has about 60: set only values that differ"
        )
    problems = []
    for path, value in found:
        problem = _problem(path, value, allow_unknown, release)
        if problem:
            problems.append(problem)
    if problems:
        raise NodeError("; ".join(problems))


def merge(text: str, settings: t.Mapping[str, t.Any], origin: str) -> tuple[str, list[Change]]:
    """Return the text with the settings, and the changes. Raises NodeError if the result contradicts itself."""
    changes = []
    for path, value in leaves(settings):
        before = parse(text, origin).value
        merged = set_value(text, path, value, origin)
        if merged != text:
            changes.append(Change(".".join(path), _lookup(before, path), value))
            text = merged
    if changes:
        _check_together(parse(text, origin).value, origin)
    return text, changes


def create(settings: t.Mapping[str, t.Any]) -> tuple[str, list[Change]]:
    """Return the text of a new file that contains only the settings, and the changes."""
    _check_together(settings, "the new file")
    return new_text(settings), [Change(".".join(path), None, value) for path, value in leaves(settings)]


def remove_settings(text: str, keys: t.Sequence[str], origin: str) -> tuple[str, list[Change]]:
    """Return the text without the settings of these dotted names, and the changes; missing ones are skipped."""
    changes = []
    for key in keys:
        root = parse(text, origin)
        path = find_path(root, key)
        if path is not None:
            changes.append(Change(key, _lookup(root.value, path), None))
            text = remove_value(text, path, origin)
    if changes:
        _check_together(parse(text, origin).value, origin)
    return text, changes


def missing_paths(host: Host, settings: t.Mapping[str, t.Any]) -> list[str]:
    """Return a problem for each directory, mount point or device among the settings that the node does not have."""
    problems = []
    for path, value in leaves(settings):
        key = ".".join(path)
        if key in _MUST_EXIST:
            for name in value if isinstance(value, list) else [value]:
                if not host.exists(str(name)):
                    problems.append(
                        f"{key} names {name}, which does not exist, so that libcufile would refuse the whole file: "
                        "create it first"
                    )
    return problems


def _release(version: str) -> tuple[int, int]:
    found = _RELEASE.fullmatch(version)
    if not found:
        raise NodeError(f"gds_version is {version!r}: use the version of libcufile, such as 1.15.1.6")
    return int(found.group(1)), int(found.group(2))


def _problem(path: Path, value: t.Any, allow_unknown: bool, release: tuple[int, int] | None) -> str:
    key = ".".join(path)
    if not _is_json((path, value)):
        return f"{key!r} has {value!r}: JSON has no such number or text"
    if key in _SECTIONS:
        return f"{key} is {value!r}, and it is a section: set keys below it, or leave it out"
    entry, below = _entry(path)
    if entry is not None and any("." in name for name in path[: len(path) - len(below)]):
        return f"{key} is written with dots in one name, which libcufile would ignore: nest it as the file does"
    if entry is None:
        return "" if allow_unknown else _unknown(key)
    if below:
        return _table_problem(key, below, value)
    if release is not None and not allow_unknown:
        node_has = f"and this node has {release[0]}.{release[1]}"
        if entry["since"] != OLDEST and release < _release(entry["since"]):
            return f"{key} is known from GDS {entry['since']} on {node_has}: leave it out"
        if entry["until"] and release > _release(entry["until"]):
            instead = f"use {INSTEAD[key]}" if key in INSTEAD else "leave it out"
            return f"{key} is known up to GDS {entry['until']} {node_has}: {instead}"
    return _value_problem(key, entry, value, release)


def _is_json(value: t.Any) -> bool:
    """Return whether it can be written as JSON in UTF-8 at all: not with nan, infinity or half of a surrogate pair."""
    if isinstance(value, dict):
        return all(_is_json(item) for item in value.items())
    if isinstance(value, (list, tuple)):
        return all(_is_json(item) for item in value)
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, (int, type(None)))


def _entry(path: Path) -> tuple[dict[str, t.Any] | None, Path]:
    """Return the entry of a path, and the rest of the path for an entry below a mount_table."""
    for length in range(len(path), 0, -1):
        entry = _BY_NAME.get(".".join(path[:length]))
        if entry and (length == len(path) or entry["kind"] == "table"):
            return entry, path[length:]
    return None, ()


def _unknown(key: str) -> str:
    if key in INSTEAD:
        return f"{key} is not a setting of cufile.json: it is called {INSTEAD[key]} there"
    last = key.rsplit(".", 1)[-1]
    close = [name for name in _BY_NAME if name.endswith(f".{last}")] or difflib.get_close_matches(key, _BY_NAME, 1)
    hint = f"do you mean {' or '.join(close[:3])}" if close else "look it up in NVIDIA's configuration guide"
    return f"{key} is a setting that libcufile does not know and would ignore: {hint}, or set allow_unknown"


def _value_problem(key: str, entry: dict[str, t.Any], value: t.Any, release: tuple[int, int] | None) -> str:
    kind = entry["kind"]
    if kind == "int":
        high = entry["high"]
        if key == "execution.max_io_threads" and release is not None and release < (1, 16):
            high = _FEW_THREADS
        return _number_problem(key, entry, value, high)
    if kind == "numbers":
        return _numbers_problem(key, entry, value)
    if kind == "bool":
        return "" if isinstance(value, bool) else f"{key} is {value!r}: use true or false"
    if kind == "text":
        return _text_problem(key, entry, value)
    if kind == "path":
        sound = isinstance(value, str) and value.startswith("/") and "\0" not in value
        return "" if sound else f"{key} is {value!r}: use an absolute path"
    if kind == "hex32":
        sound = isinstance(value, str) and bool(_HEX32.fullmatch(value))
        return "" if sound else f'{key} is {value!r}: use 0x and at most eight digits in quotes, such as "0x1f"'
    if kind == "table":
        return "" if value == {} else f"{key} is {value!r}: use a dictionary of mount points"
    return _texts_problem(key, entry, value)


def _number_problem(key: str, entry: dict[str, t.Any], value: t.Any, high: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{key} is {value!r}: use an integer"
    multiple = entry["multiple"]
    if not entry["low"] <= value <= high or (multiple and value % multiple):
        step = f" that is a multiple of {multiple}" if multiple else ""
        return f"{key} is {value}: libcufile takes a number from {entry['low']} to {high}{step}"
    return ""


def _numbers_problem(key: str, entry: dict[str, t.Any], value: t.Any) -> str:
    if not isinstance(value, list) or not value:
        return f"{key} is {value!r}: use a list of integers"
    problems = [_number_problem(key, entry, item, entry["high"]) for item in value]
    if not any(problems) and entry["multiple"] and value != sorted(set(value)):
        return f"{key} is {value}: use the sizes in ascending order"
    return next((problem for problem in problems if problem), "")


def _text_problem(key: str, entry: dict[str, t.Any], value: t.Any) -> str:
    choices = entry["of"]
    if not isinstance(value, str) or (choices and value not in choices):
        return f"{key} is {value!r}: use {'one of ' + ', '.join(choices) if choices else 'a string'}"
    return ""


def _texts_problem(key: str, entry: dict[str, t.Any], value: t.Any) -> str:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return f"{key} is {value!r}: use a list of strings"
    if entry["kind"] == "addresses":
        wrong = [item for item in value if not _is_address(item)]
        return f"{key} has {wrong[0]!r}: use IPv4 addresses" if wrong else ""
    wrong = [item for item in value if entry["of"] and item not in entry["of"]]
    return f"{key} has {wrong[0]!r}: libcufile knows {', '.join(entry['of'])}" if wrong else ""


def _table_problem(key: str, below: Path, value: t.Any) -> str:
    if not below[0].startswith("/"):
        return f"{key} is not an entry of a mount_table: its names are absolute mount points"
    if len(below) == 1 and value == {}:
        return ""
    if below[1:] != ("rdma_dev_addr_list",):
        return f"{key} is not an entry of a mount_table: a mount point has rdma_dev_addr_list and nothing else"
    return _texts_problem(key, {"kind": "addresses", "of": None}, value)


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _lookup(document: t.Any, path: Path) -> t.Any:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return None
        document = document[name]
    return document


def _check_together(document: t.Mapping[str, t.Any], origin: str) -> None:
    """Raise NodeError if two settings of one file contradict each other for libcufile."""
    properties = document.get("properties")
    if not isinstance(properties, dict):
        return
    # libcufile's default has three of each.
    sizes = properties.get("posix_pool_slab_size_kb", _BY_NAME["properties.posix_pool_slab_size_kb"]["default"])
    counts = properties.get("posix_pool_slab_count", _BY_NAME["properties.posix_pool_slab_count"]["default"])
    if isinstance(sizes, list) and isinstance(counts, list) and len(sizes) != len(counts):
        raise NodeError(
            f"{origin} would have {len(sizes)} entries in properties.posix_pool_slab_size_kb and {len(counts)} in "
            "properties.posix_pool_slab_count, with which libcufile refuses the whole file: set both with the same "
            "length"
        )
    direct = properties.get("max_direct_io_size_kb", _BUILT_IN_KIB)
    buffer = properties.get("per_buffer_cache_size_kb", _BUILT_IN_KIB)
    if isinstance(direct, int) and isinstance(buffer, int) and buffer > direct:
        raise NodeError(
            f"{origin} would have properties.per_buffer_cache_size_kb {buffer} above properties.max_direct_io_size_kb "
            f"{direct}, with which libcufile refuses the whole file: set both, the second at least as large"
        )
