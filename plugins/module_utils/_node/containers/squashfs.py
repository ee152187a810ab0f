# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check with two short reads whether a file is a complete squashfs image.

The layout is that of Documentation/filesystems/squashfs.rst and fs/squashfs/squashfs_fs.h of Linux: a superblock of 96
bytes has the length of the image and the offsets of its last tables.
"""

from __future__ import annotations

import struct
import typing as t

MAGIC = b"hsqs"
VERSION = (4, 0)
# From 4 KiB to 1 MiB.
BLOCK_LOGS = range(12, 21)
# magic, inodes, time, block size, fragments, compression, log of the block size, flags, ids, version (2), root inode,
# bytes used, start of the ids' table, and the starts of the others.
_SUPERBLOCK = struct.Struct("<4sIIIIHHHHHHQQQ40x")
SUPERBLOCK_SIZE = _SUPERBLOCK.size
_POINTER = struct.Struct("<Q")

Read = t.Callable[[int, int], bytes]


def incomplete(read: Read, size: int | None) -> str | None:
    """Return why a file is not a complete squashfs image, in a few words; None if this check finds no error.

    read(offset, count) returns bytes, fewer at the end of the file or if it is unreadable; size is the file's in bytes,
    None if it is missing. mksquashfs pads a file to 4 KiB by default, so it may be longer than the image. The table of
    ids is written last: if it is zero, the end of the file was never written.
    """
    if size is None:
        return "it is missing"
    head = read(0, SUPERBLOCK_SIZE)
    if not head.startswith(MAGIC):
        return "it has no squashfs header"
    if len(head) < SUPERBLOCK_SIZE:
        return f"it ends after {len(head)} bytes"
    found = _SUPERBLOCK.unpack(head)
    block, log, ids, version, used, table = found[3], found[6], found[8], found[9:11], found[12], found[13]
    if version != VERSION or log not in BLOCK_LOGS or block != 1 << log:
        return f"its superblock (version {version[0]}.{version[1]}, blocks of {block} bytes) is invalid"
    if size < used:
        return f"it has {size} of {used} bytes"
    if ids < 1 or not SUPERBLOCK_SIZE < table <= used - _POINTER.size:
        return "its superblock names no table of ids within the image"
    (first,) = _POINTER.unpack(read(table, _POINTER.size).ljust(_POINTER.size, b"\0"))
    return None if SUPERBLOCK_SIZE <= first < table else "its last table is empty, so its end was never written"
