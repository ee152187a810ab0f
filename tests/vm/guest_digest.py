# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest: prints as JSON the sha256 of each NVMe disk's backing file.

Blocks of zeros count like holes, so the checksum covers what a reader of the disk gets, and empty disks are fast.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile

BLOCK = 4096
ZEROS = bytes(BLOCK)


def hardware() -> str:
    for name in sorted(os.listdir("/sys/block")):
        serial = f"/sys/block/{name}/serial"
        if os.path.exists(serial):
            with open(serial, encoding="utf-8") as stream:
                if stream.read().strip() == "hw":
                    return f"/dev/{name}"
    raise SystemExit("there is no virtio disk with the serial hw")


def digest(path: str) -> str:
    total = hashlib.sha256()
    with open(path, "rb") as stream:
        size, position = os.fstat(stream.fileno()).st_size, 0
        while position < size:
            try:
                position = os.lseek(stream.fileno(), position, os.SEEK_DATA)
            except OSError:
                break
            stop = os.lseek(stream.fileno(), position, os.SEEK_HOLE)
            position -= position % BLOCK
            stream.seek(position)
            while position < stop:
                block = stream.read(BLOCK)
                if block != ZEROS[: len(block)]:
                    total.update(b"%d:" % position + block)
                position += len(block)
    return total.hexdigest()


def freeze() -> None:
    with open("/proc/mounts", encoding="utf-8") as stream:
        rows = [line.split() for line in stream]
    for source, target, *_rest in rows:
        if source.startswith(("/dev/nvme", "/dev/md", "/dev/mapper/")):
            subprocess.run(["mount", "-o", "remount,ro", target], check=True)


if sys.argv[1] == "freeze":
    freeze()
os.sync()
with tempfile.TemporaryDirectory(dir="/run") as folder:
    subprocess.run(["mount", "-t", "ext4", "-o", "noatime", hardware(), folder], check=True)
    try:
        names = [name for name in sorted(os.listdir(folder)) if name.startswith(("ebs-", "store-"))]
        print(json.dumps({name: digest(f"{folder}/{name}") for name in names}))
    finally:
        subprocess.run(["umount", folder], check=True)
