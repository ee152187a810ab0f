# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for gdsio 1.12. Grammar: NVIDIA's GPUDirect Storage guides. Its line: NVIDIA/gds-nvidia-fs issue 78.

The start of a run takes as long as 2 MiB do, so that the throughput depends on the size.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

SPEED_GIB, START_MIB = 10.0, 2
UNITS = {"K": 10, "M": 20, "G": 30}
TRANSFERS = {0: "GPUD", 1: "CPUONLY", 2: "CPU_GPU"}


def size(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG])", text)
    if not found or not int(found.group(1)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size")
    return int(found.group(1)) << UNITS[found.group(2)]


def count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: use a number from 1")
    return int(text)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="gdsio", allow_abbrev=False, add_help=False)
    made.add_argument("-f", required=True)
    made.add_argument("-d", type=int, required=True)
    made.add_argument("-w", type=count, required=True)
    made.add_argument("-s", type=size, required=True)
    made.add_argument("-i", type=size, required=True)
    made.add_argument("-x", type=int, choices=sorted(TRANSFERS), required=True)
    made.add_argument("-I", type=int, choices=(0, 1, 2, 3), required=True)
    return made


def main() -> int:
    args = parser().parse_args()
    file, writes = Path(args.f), args.I % 2 == 1
    if args.s < args.i:
        parser().error(f"file size {args.s} is smaller than the IO size {args.i}")
    if not (file.parent.is_dir() if writes else file.is_file() and file.stat().st_size >= args.s):
        print(f"file open or size failed: {file}")
        return 1
    if writes:
        with file.open("wb") as stream:
            stream.truncate(args.s)
    mib = args.s / (1 << 20)
    speed = SPEED_GIB * mib / (mib + START_MIB)
    kind = f"{'RAND' if args.I > 1 else ''}{'WRITE' if writes else 'READ'}"
    kib = args.s >> 10
    print(
        f"IoType: {kind} XferType: {TRANSFERS[args.x]} Threads: {args.w} DataSetSize: {kib}/{kib}(KiB) "
        f"IOSize: {args.i >> 10}(KiB) Throughput: {speed:.6f} GiB/sec, Avg_Latency: 100.000000 usecs "
        f"ops: {args.s // args.i} total_time {mib / 1024 / speed:.6f} secs"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
