# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stripe layouts: the commands of lfs that set them, and its output. Pure functions.

A layout is a list of components {end, count, size}. end: where the component ends (100M; empty for the rest of the
file). count: the number of OSTs (-1 for all). size: the bytes written to one OST at a time (empty: the file system's
default).
"""

from __future__ import annotations

import re
import typing as t

_SIZE = re.compile(r"[1-9][0-9]{0,8}[KMGT]?")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# LOV_MAX_STRIPE_COUNT of Lustre.
MAX_STRIPES = 2000
# Lustre stripes by multiples of 64 KiB.
STRIPE_UNIT = 65536
_FIELD = re.compile(r"(lcme_extent\.e_end|l?m?m?_?stripe_count|l?m?m?_?stripe_size):\s*(\S+)")
_COMPONENT = re.compile(r"^\s*(?:-\s+)?lcme_id:", re.MULTILINE)


def size_bytes(text: str) -> int:
    """Return 16M as 16777216."""
    unit = text[-1] if text[-1] in "KMGT" else ""
    return int(text[: len(text) - len(unit)]) * _UNITS[unit]


def stripe_problem(components: t.Sequence[t.Any]) -> str:
    """Return why components are not a layout; empty if they are one."""
    last = 0
    for index, part in enumerate(components):
        if not isinstance(part, dict) or set(part) - {"end", "count", "size"}:
            return f"stripe has {part!r}: set end, count and size"
        end, size, count = str(part.get("end") or ""), str(part.get("size") or ""), part.get("count")
        if isinstance(count, bool) or not isinstance(count, int) or not (count == -1 or 1 <= count <= MAX_STRIPES):
            return f"stripe has a count of {count!r}: use 1 to {MAX_STRIPES}, or -1 for all OSTs"
        for name, value in (("end", end), ("size", size)):
            if value and not _SIZE.fullmatch(value):
                return f"stripe has {name} {value!r}: use a size such as 16M"
        if size and size_bytes(size) % STRIPE_UNIT:
            return f"stripe has size {size}: Lustre accepts multiples of 64K"
        if bool(end) == (index == len(components) - 1):
            return "stripe must have an end in every component but the last, which is for the rest of the file"
        if end and size_bytes(end) <= last:
            return f"stripe has end {end} after an end that is not smaller: list them in ascending order"
        last = size_bytes(end) if end else last
    return ""


def setstripe(components: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the command that sets the current directory's default layout."""
    argv = ["lfs", "setstripe"]
    for part in components:
        if len(components) > 1:
            argv += ["-E", str(part.get("end") or "-1")]
        argv += ["-c", str(part["count"])]
        if part.get("size"):
            argv += ["-S", str(part["size"])]
    return [*argv, "."]


def wanted_layout(components: t.Sequence[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the components in numbers: {end: bytes or None, count, size: bytes or None for any}."""
    return [
        {
            "end": size_bytes(str(part["end"])) if part.get("end") else None,
            "count": int(part["count"]),
            "size": size_bytes(str(part["size"])) if part.get("size") else None,
        }
        for part in components
    ]


def parse_getstripe(text: str) -> list[dict[str, t.Any]]:
    """Return the output of 'lfs getstripe -d' in the form of ``wanted_layout``; empty for unknown output.

    Lines have one field or several; a single component without an end is a plain layout.
    """
    found: list[dict[str, t.Any]] = []
    pieces = _COMPONENT.split(text)
    for piece in pieces[1:] if len(pieces) > 1 else pieces:
        fields = {name.rsplit(".", 1)[-1].replace("lmm_", ""): value for name, value in _FIELD.findall(piece)}
        count = fields.get("stripe_count", "")
        if not re.fullmatch(r"-?[0-9]+", count):
            continue
        end, size = fields.get("e_end", "EOF"), fields.get("stripe_size", "")
        found.append(
            {
                "end": int(end) if end.isdigit() else None,
                # Older clients show -1 as an unsigned number of 16 or 32 bits.
                "count": -1 if int(count) in (-1, 0xFFFF, 0xFFFFFFFF) else int(count),
                "size": int(size) if size.isdigit() else None,
            }
        )
    return found


def same_layout(wanted: t.Sequence[t.Mapping[str, t.Any]], found: t.Sequence[t.Mapping[str, t.Any]]) -> bool:
    """Return whether the layout found is the wanted one; an unset size matches any."""
    return len(wanted) == len(found) and all(
        want["end"] == have["end"] and want["count"] == have["count"] and want["size"] in (None, have["size"])
        for want, have in zip(wanted, found)
    )


def show_layout(layout: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return a layout in one line, such as 'to 104857600: 1 OST; rest: 8 OSTs of 16777216'."""
    words = []
    for part in layout:
        where = "" if len(layout) == 1 else f"to {part['end']}: " if part["end"] else "rest: "
        count = "all OSTs" if part["count"] == -1 else f"{part['count']} OST{'s' if part['count'] != 1 else ''}"
        words.append(f"{where}{count}{f' of {part_size}' if (part_size := part['size']) else ''}")
    return "; ".join(words) or "the file system's default"
