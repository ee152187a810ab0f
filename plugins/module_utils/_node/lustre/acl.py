# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""POSIX access control lists as the kernel keeps them, so that one is set on an open directory and nowhere else.

setfacl takes a path, which whoever owns the directory above could turn into a link before it is opened.
"""

from __future__ import annotations

import re
import struct
import typing as t

from ..system.host import Host, NodeError

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
# include/uapi/linux/posix_acl.h and posix_acl_xattr.h of the kernel.
_VERSION = 2
_NOBODY = 0xFFFFFFFF
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_ENTRY = re.compile(
    r"(?P<default>default:)?(?P<kind>user|group):(?P<name>[A-Za-z0-9_][A-Za-z0-9_.@-]*):(?P<rights>[r-][w-][x-])"
)
_BITS = {"r": 4, "w": 2, "x": 1}

Entry = tuple[int, int, int]


def acl_problem(entries: t.Iterable[t.Any]) -> str:
    """Why entries are none; empty where they are sound."""
    strange = [repr(entry) for entry in entries if not _ENTRY.fullmatch(str(entry))]
    if strange:
        return f"acl has {', '.join(strange)}: give entries such as group:ml:rwx or default:group:ml:r-x"
    return ""


def attributes(host: Host, entries: t.Sequence[str], mode: int) -> dict[str, bytes]:
    """The extended attributes that stand for the entries on a directory of that mode; none for no entries.

    Owner, group and others come from the mode, the mask is what all entries together need. Raises ``NodeError`` that
    names an account which the node does not have.
    """
    found: dict[str, bytes] = {}
    for name, is_default in ((ACCESS, False), (DEFAULT, True)):
        named = [_parsed(host, entry) for entry in entries if entry.startswith("default:") == is_default]
        if named:
            found[name] = encode(_whole(named, mode))
    return found


def encode(entries: t.Iterable[Entry]) -> bytes:
    """The value of the attribute: the version, then tag, rights and id of each entry, in the order of the kernel."""
    return struct.pack("<I", _VERSION) + b"".join(struct.pack("<HHI", *entry) for entry in sorted(entries))


def decode(value: bytes) -> list[Entry]:
    """What ``encode`` wrote; raises ``NodeError`` for anything else."""
    if len(value) % 8 != 4 or struct.unpack_from("<I", value)[0] != _VERSION:
        raise NodeError("an access control list has a form that is not known: look with getfacl")
    return [struct.unpack_from("<HHI", value, start) for start in range(4, len(value), 8)]


def _parsed(host: Host, text: str) -> Entry:
    fields = _ENTRY.fullmatch(text)
    if fields is None:
        raise NodeError(acl_problem([text]))
    kind, name = fields.group("kind"), fields.group("name")
    number = host.uid(name) if kind == "user" else host.gid(name)
    if number is None:
        raise NodeError(f"the acl {text} names a {kind} that this node does not have: make it, or take the entry out")
    rights = sum(_BITS[letter] for letter in fields.group("rights") if letter != "-")
    return (USER if kind == "user" else GROUP, rights, number)


def _whole(named: t.Sequence[Entry], mode: int) -> list[Entry]:
    group = mode >> 3 & 7
    mask = group
    for entry in named:
        mask |= entry[1]
    return [
        (USER_OBJ, mode >> 6 & 7, _NOBODY),
        *named,
        (GROUP_OBJ, group, _NOBODY),
        (MASK, mask, _NOBODY),
        (OTHER, mode & 7, _NOBODY),
    ]
