# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""POSIX access control lists in the kernel's format, so that a list is set on an open directory.

setfacl needs a path, which the owner of the directory above could replace with a link before setfacl opens it.
"""

from __future__ import annotations

import re
import struct
import typing as t

from ..system.host import Host, NodeError

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
# include/uapi/linux/posix_acl.h and posix_acl_xattr.h of the kernel.
_VERSION = 2
_NO_ID = 0xFFFFFFFF
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_ENTRY = re.compile(
    r"(?P<default>default:)?(?P<kind>user|group):(?P<name>[A-Za-z0-9_][A-Za-z0-9_.@-]*):(?P<rights>[r-][w-][x-])"
)
_BITS = {"r": 4, "w": 2, "x": 1}

Entry = tuple[int, int, int]


def acl_problem(entries: t.Iterable[t.Any]) -> str:
    """Return why entries are invalid; empty if they are valid."""
    invalid = [repr(entry) for entry in entries if not _ENTRY.fullmatch(str(entry))]
    if invalid:
        return f"acl has {', '.join(invalid)}: use entries such as group:ml:rwx or default:group:ml:r-x"
    return ""


def attributes(host: Host, entries: t.Sequence[str], mode: int) -> dict[str, bytes]:
    """Return the extended attributes for the entries on a directory of that mode; empty without entries.

    Owner, group and others come from the mode; the mask has all rights of the entries. Raises ``NodeError`` with the
    name of an account that the node does not have.
    """
    found: dict[str, bytes] = {}
    for name, is_default in ((ACCESS, False), (DEFAULT, True)):
        named = [_parsed(host, entry) for entry in entries if entry.startswith("default:") == is_default]
        if named:
            found[name] = encode(_complete(named, mode))
    return found


def encode(entries: t.Iterable[Entry]) -> bytes:
    """Return the value of the attribute: the version, then tag, rights and id of each entry, in the kernel's order."""
    return struct.pack("<I", _VERSION) + b"".join(struct.pack("<HHI", *entry) for entry in sorted(entries))


def decode(value: bytes) -> list[Entry]:
    """Return the entries that ``encode`` wrote; raise ``NodeError`` for anything else."""
    if len(value) % 8 != 4 or struct.unpack_from("<I", value)[0] != _VERSION:
        raise NodeError("an access control list has an unknown format: check it with getfacl")
    return [struct.unpack_from("<HHI", value, start) for start in range(4, len(value), 8)]


def _parsed(host: Host, text: str) -> Entry:
    fields = _ENTRY.fullmatch(text)
    if fields is None:
        raise NodeError(acl_problem([text]))
    kind, name = fields.group("kind"), fields.group("name")
    number = host.uid(name) if kind == "user" else host.gid(name)
    if number is None:
        raise NodeError(f"the acl {text} names a {kind} that this node does not have: create it, or remove the entry")
    rights = sum(_BITS[letter] for letter in fields.group("rights") if letter != "-")
    return (USER if kind == "user" else GROUP, rights, number)


def _complete(named: t.Sequence[Entry], mode: int) -> list[Entry]:
    group = mode >> 3 & 7
    mask = group
    for entry in named:
        mask |= entry[1]
    return [
        (USER_OBJ, mode >> 6 & 7, _NO_ID),
        *named,
        (GROUP_OBJ, group, _NO_ID),
        (MASK, mask, _NO_ID),
        (OTHER, mode & 7, _NO_ID),
    ]
