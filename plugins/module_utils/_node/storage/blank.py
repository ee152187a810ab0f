# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prove that a disk is blank: sampled blocks are zero, or nothing was written since the instance started.

A missing signature proves nothing: raw data has none, and a filesystem without its first superblock has none either.
"""

from __future__ import annotations

import random
import re
import struct
import typing as t

from ..system.host import DeviceReader, Host
from .first_boot import is_first_boot

# The two proofs. ZEROS: every sampled block is zero. NEVER_WRITTEN: the kernel has written no sector in this boot,
# and this boot is the first since the instance started, at which EC2 gives out blank instance-store disks.
ZEROS = "zeros"
NEVER_WRITTEN = "never_written"

# EC2's statistics of an instance-store disk, a separate log page: the magic number, then from byte 8 on the counters
# of reads, writes, bytes read and bytes written. They last as long as the instance runs, over reboots, and begin again
# with a stop and start (EC2 User Guide, "detailed performance statistics for instance store volumes"; page and layout
# as in the amazon-cloudwatch-agent).
STATISTICS_PAGE, STATISTICS_BYTES, STATISTICS_MAGIC = 0xD0, 4096, 0xEC2C0D7E
# Number of sectors that erasing signatures and partition tables writes. Beyond that, data can lie between the samples.
WRITTEN_LIMIT = (16 << 20) // 512

# By then the kernel has shown every disk that existed at boot.
APPEARED_SECONDS = 120

KIB, MIB, TIB = 1 << 10, 1 << 20, 1 << 40
BLOCK = 4 * KIB
# Where an md superblock of format 1.1 or 1.2 and its bad-block log end, at the latest.
SUPERBLOCK_END = MIB

# Both ends: partition tables and GPT's second header, ext, XFS, LVM labels, LUKS, bcache, ZFS labels, md of every
# format (0.90 and 1.0 lie at the end), imsm, ddf, drbd.
_START_BYTES, _END_BYTES = 256 * KIB, 512 * KIB
# Backup superblocks of ext: groups 1, 3, 5, 7 and 9 with 4 KiB blocks, the first ones with 1 and 2 KiB blocks.
_EXT = [
    *(group * 128 * MIB for group in (1, 3, 5, 7, 9)),
    *((group * 8192 + 1) * KIB for group in (1, 3, 5)),
    *(group * 32 * MIB for group in (1, 3)),
]
# Where the content of a partition, a logical volume, a LUKS container or an old array begins. 129 MiB is mdadm's
# offset on large disks.
_CONTENT = [number * MIB for number in (1, 2, 4, 8, 16, 64, 129)]
_SPREAD = 30
_SPREAD_BYTES = 16 * KIB


def places(size: int, seed: str) -> list[tuple[int, int]]:
    """Return (offset, bytes) of every sample of a device of size bytes, in ascending order.

    seed spreads the last ones: one place in each of 30 equal parts of the device.
    """
    wanted = [(0, _START_BYTES), (size - _END_BYTES, _END_BYTES)]
    # The third of the four ZFS labels, which are aligned to 256 KiB.
    wanted.append((size // (256 * KIB) * 256 * KIB - 496 * KIB, BLOCK))
    wanted += [(offset, BLOCK) for offset in [*_EXT, *_CONTENT]]
    # XFS has four allocation groups up to 4 TiB, and beyond that some of 1 TiB less one block each.
    wanted += [(size * part // 4 // BLOCK * BLOCK - BLOCK, 6 * BLOCK) for part in (1, 2, 3)]
    wanted += [(part * (TIB - BLOCK) - BLOCK, 3 * BLOCK) for part in (1, 2, 3)]
    spread = random.Random(seed)  # noqa: S311 - not a secret: the places only have to differ
    step = size // _SPREAD
    wanted += [
        ((part * step + spread.randrange(max(step, 1))) // BLOCK * BLOCK, _SPREAD_BYTES) for part in range(_SPREAD)
    ]
    return sorted({_inside(offset, length, size) for offset, length in wanted if offset < size and size})


def _inside(offset: int, length: int, size: int) -> tuple[int, int]:
    start = max(0, offset)
    return start, min(length, size - start)


def prove(
    host: Host, reader: DeviceReader, disk: t.Mapping[str, t.Any] | None, seed: str, skip: int = 0
) -> dict[str, t.Any]:
    """Return {proof, offset, reads, bytes, written}; proof is ZEROS, NEVER_WRITTEN or None.

    offset is that of the first sampled byte that is not zero, written the number of sectors written to the disk since
    the start of the instance if the disk counts them, else since boot (None: not counted). disk is the {kname, serial}
    of a whole disk; with None, as for an array, only ZEROS is a proof. skip leaves out the bytes before it. Raises
    OSError if the device cannot be read.
    """
    since_boot = written_sectors(host, disk["kname"]) if disk else None
    counted = _statistics(reader) if disk else None
    since_start = counted[1] // 512 if counted else None
    written = max((count for count in (since_boot, since_start) if count is not None), default=None)
    result: dict[str, t.Any] = {"proof": None, "offset": None, "reads": 0, "bytes": 0, "written": written}
    for offset, length in places(reader.size, seed):
        if offset < skip:
            continue
        piece = reader.read(offset, length)
        result["reads"] += 1
        result["bytes"] += len(piece)
        if piece != bytes(len(piece)):
            result["offset"] = offset + len(piece) - len(piece.lstrip(b"\0"))
            break
    if result["offset"] is None and result["reads"]:
        result["proof"] = ZEROS
    elif disk and since_boot == 0 and is_first_boot(host, disk["serial"], counted == (0, 0)):
        result["proof"] = NEVER_WRITTEN
    return result


def _statistics(reader: DeviceReader) -> tuple[int, int] | None:
    """Return writes and bytes written in the disk's own statistics; None if it has none."""
    page = reader.nvme_log(STATISTICS_PAGE, STATISTICS_BYTES) or bytes(STATISTICS_BYTES)
    (magic,) = struct.unpack_from("<I", page)
    _reads, writes, _bytes_read, bytes_written = struct.unpack_from("<4Q", page, 8)
    return (writes, bytes_written) if magic == STATISTICS_MAGIC else None


def written_sectors(host: Host, kname: str) -> int | None:
    """Return the number of sectors that the kernel has written to a disk since boot; None if they are not counted.

    A disk without a counted read has its counters off: the kernel itself reads every new disk.
    A disk that appeared long after boot may have been here before, with other counters: SPDK takes disks from
    the kernel and gives them back.
    """
    if not _appeared_at_boot(host, kname):
        return None
    if (host.read_text(f"/sys/class/block/{kname}/queue/iostats") or "").strip() != "1":
        return None
    fields = (host.read_text(f"/sys/class/block/{kname}/stat") or "").split()
    if len(fields) < 11 or not all(field.isdigit() for field in fields) or int(fields[2]) == 0:
        return None
    return int(fields[6])


def _appeared_at_boot(host: Host, kname: str) -> bool:
    """Return whether udev first saw a disk in the first moments of this boot."""
    number = (host.read_text(f"/sys/class/block/{kname}/dev") or "").strip()
    seen = re.search(r"^I:([0-9]+)$", host.read_text(f"/run/udev/data/b{number}") or "", re.MULTILINE)
    return seen is not None and int(seen.group(1)) <= APPEARED_SECONDS * 1_000_000
