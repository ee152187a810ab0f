# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bytes of a squashfs image: superblock and the table of ids as mksquashfs 4.5 lays them out, the rest made up."""

from __future__ import annotations

import struct


def image(content: bytes = b"", padded: bool = True) -> bytes:
    """An image that holds content where the data of files would be, rounded up to 4 KiB as mksquashfs does."""
    ids = 96 + len(content)
    table = ids + 6
    used = table + 8
    head = struct.pack("<4sIIIIHHHHHH", b"hsqs", 1, 0, 1 << 17, 0, 1, 17, 0xC0, 1, 4, 0)
    head += struct.pack("<QQQ5Q", 0, used, table, (1 << 64) - 1, 96, 96, 96, 96)
    whole = head + content + struct.pack("<HI", 0x8004, 0) + struct.pack("<Q", ids)
    return whole + bytes(-len(whole) % 4096 if padded else 0)
