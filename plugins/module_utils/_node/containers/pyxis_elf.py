# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read from a SPANK plugin for which Slurm it was built, without loading it.

Loading a plugin runs its code, so its symbol table is read instead. The macro SPANK_PLUGIN of slurm/spank.h stores the
release in the variable plugin_version, and Slurm rejects a plugin of another release with a message at every step of
every user.
"""

from __future__ import annotations

import dataclasses
import re
import struct

from ..system.host import NodeError

# ELF-64 object file format: header, section header and symbol sizes, and the type of a dynamic symbol table.
_HEADER = 64
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_DYNSYM = 11

# Pyxis logs its version in slurmd since 0.9: NVIDIA/pyxis pyxis_slurmd.c.
_PYXIS_VERSION = re.compile(rb"pyxis: version v(\d+(?:\.\d+){1,3})")


class ElfError(NodeError):
    """The file is not a plugin that can be read; the message states why."""


@dataclasses.dataclass(frozen=True)
class SpankPlugin:
    """slurm_version: the Slurm it was built for, such as "23.11.10"; pyxis_version: its own, None if not reported."""

    slurm_version: str
    pyxis_version: str | None


def slurm_version_text(number: int) -> str:
    """Return 0x170b0a as "23.11.10": major, minor and micro are a byte each (slurm/slurm_version.h)."""
    return f"{number >> 16 & 255}.{number >> 8 & 255:02d}.{number & 255}"


def slurm_release(version: str | None) -> str | None:
    """Return the part that Slurm compares: "23.11" of "23.11.10".

    Slurm 22.05.8 loads a plugin built for 22.05.3 and rejects one built for 22.06 or 23.11.
    """
    found = re.match(r"(\d+\.\d+)(?:\.|\Z)", version or "")
    return found.group(1) if found else None


def read_spank_plugin(data: bytes) -> SpankPlugin:
    """Return the versions in the bytes of a plugin. Raises ElfError if it is not a 64-bit little-endian plugin."""
    if data[:4] != b"\x7fELF":
        raise ElfError("it is not an ELF file")
    if data[4:6] != b"\x02\x01":
        raise ElfError("it is not a 64-bit little-endian ELF file")
    try:
        number = _unsigned(data, "plugin_version")
    except (struct.error, IndexError, ValueError):
        raise ElfError("its symbol table is damaged") from None
    if number is None:
        raise ElfError("it has no symbol plugin_version, so it is not a Slurm plugin")
    own = _PYXIS_VERSION.search(data)
    return SpankPlugin(slurm_version_text(number), own.group(1).decode("ascii") if own else None)


def _sections(data: bytes) -> list[tuple[int, ...]]:
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    if size != _SECTION.size or offset < _HEADER:
        raise ValueError("no section headers")
    return [_SECTION.unpack_from(data, offset + index * size) for index in range(count)]


def _unsigned(data: bytes, wanted: str) -> int | None:
    """Return the value of an initialised unsigned int of that name."""
    sections = _sections(data)
    for section in sections:
        if section[1] != _SHT_DYNSYM:
            continue
        names = sections[section[6]][4]
        for place in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, _info, _other, index, value, _length = _SYMBOL.unpack_from(data, place)
            if data[names + name : data.index(b"\0", names + name)] == wanted.encode("ascii"):
                home = sections[index]
                (number,) = struct.unpack_from("<I", data, home[4] + value - home[3])
                return int(number)
    return None
