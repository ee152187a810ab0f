# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checksums that Amazon S3 keeps with an object, computed from a file.

SHA-256 of an object of several parts is the sum over the sums of its parts, with their number behind it; CRC-64/NVME is
one sum over the whole (Amazon S3 User Guide, Checking object integrity).
"""

from __future__ import annotations

import base64
import hashlib
import typing as t

# NVM Command Set Specification: CRC-64/NVME, reflected polynomial 0x9A6C9329AC4BC9B5; its check value over "123456789"
# is 0xAE8B14860A799888.
POLYNOMIAL = 0x9A6C9329AC4BC9B5
ALL_ONES = 0xFFFFFFFFFFFFFFFF
MIB = 1 << 20
# Amazon S3: most parts of an upload.
MAX_PARTS = 10000
READ_BYTES = 4 * MIB


def _table() -> tuple[int, ...]:
    values = []
    for byte in range(256):
        value = byte
        for _bit in range(8):
            value = (value >> 1) ^ (POLYNOMIAL if value & 1 else 0)
        values.append(value)
    return tuple(values)


TABLE = _table()


def _slow_crc64(data: bytes, before: int = 0) -> int:
    value, table = before ^ ALL_ONES, TABLE
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ ALL_ONES


def crc64_of() -> t.Callable[[bytes, int], int]:
    """Return the fastest available CRC-64/NVME: that of awscrt, or the one here, which takes 0.1 s for a MiB."""
    try:
        from awscrt.checksums import crc64nvme
    except ImportError:
        return _slow_crc64
    return t.cast("t.Callable[[bytes, int], int]", crc64nvme)


def part_bytes(size: int, part_mib: int) -> int:
    """Return the bytes of a part: as requested, or more if the file would have too many parts."""
    wanted = part_mib * MIB
    while wanted * MAX_PARTS < size:
        wanted *= 2
    return wanted


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


class Sums:
    """Checksums of one file. ``parts`` has one string a part, ``whole`` is the checksum that S3 reports."""

    def __init__(self, algorithm: str, parts: list[str], whole: str, size: int) -> None:
        self.field = "ChecksumSHA256" if algorithm == "sha256" else "ChecksumCRC64NVME"
        self.algorithm = "SHA256" if algorithm == "sha256" else "CRC64NVME"
        self.kind = "COMPOSITE" if algorithm == "sha256" and len(parts) > 1 else "FULL_OBJECT"
        self.parts, self.whole, self.size = parts, whole, size


def sums(stream: t.BinaryIO, algorithm: str, step: int) -> Sums:
    """Compute the checksums of ``stream`` in parts of ``step`` bytes; an empty file has one empty part."""
    digests: list[bytes] = []
    whole, size, crc64 = 0, 0, crc64_of() if algorithm == "crc64nvme" else None
    while True:
        digest, part, read = hashlib.sha256(), 0, 0
        while read < step:
            data = stream.read(min(READ_BYTES, step - read))
            if not data:
                break
            read += len(data)
            if crc64:
                part, whole = crc64(data, part), crc64(data, whole)
            else:
                digest.update(data)
        if not read and digests:
            break
        digests.append(part.to_bytes(8, "big") if crc64 else digest.digest())
        size += read
        if read < step:
            break
    if crc64:
        total = _text(whole.to_bytes(8, "big"))
    elif len(digests) == 1:
        total = _text(digests[0])
    else:
        total = f"{_text(hashlib.sha256(b''.join(digests)).digest())}-{len(digests)}"
    return Sums(algorithm, [_text(digest) for digest in digests], total, size)
