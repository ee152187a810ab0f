# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for fio 3.33. Grammar: its HOWTO (fio.readthedocs.io); output: its JSON, cut to what is read.

It accepts the options below as --NAME=VALUE, like fio's job options on its command line. The figures depend on them:
direct I/O has the speed of the disks, buffered I/O that of memory. The file STAND_IN_SLOW in the program's folder names
a host with slow disks.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path

DISK, SLOW_DISK, MEMORY = 8e9, 1e9, 5e10
ENGINES = ("libaio", "io_uring", "sync", "psync", "posixaio", "mmap")
PATTERNS = ("read", "write", "trim", "randread", "randwrite", "randtrim", "rw", "readwrite", "randrw", "trimwrite")
UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def size(text: str) -> int:
    found = re.fullmatch(r"(\d+)([kmgt]?)(?:i?b)?", text, re.IGNORECASE)
    if not found or not int(found.group(1)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size")
    return int(found.group(1)) << UNITS[found.group(2).lower()]


def count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: min value out of range")
    return int(text)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="fio", allow_abbrev=False)
    made.add_argument("--name", required=True)
    made.add_argument("--directory", required=True)
    made.add_argument("--direct", type=int, choices=(0, 1), default=0)
    made.add_argument("--ioengine", choices=ENGINES, default="psync")
    made.add_argument("--iodepth", type=count, default=1)
    made.add_argument("--size", type=size, required=True)
    made.add_argument("--numjobs", type=count, default=1)
    made.add_argument("--time_based", action="store_true")
    made.add_argument("--runtime", type=int, default=0)
    made.add_argument("--group_reporting", action="store_true")
    made.add_argument("--output-format", choices=("normal", "terse", "json", "json+"), default="normal")
    made.add_argument("--rw", choices=PATTERNS, default="read")
    made.add_argument("--bs", type=size, default=4096)
    return made


def main() -> int:
    args = parser().parse_args()
    if args.time_based and args.runtime <= 0:
        parser().error("time_based requires a runtime/timeout setting")
    if args.size < args.bs:
        parser().error(f"{args.name}: size {args.size} is smaller than the block size {args.bs}")
    folder, host = Path(args.directory), os.uname().nodename
    if not folder.is_dir():
        print(f"fio: pid=0, err=2/file:filesetup.c:174, error=No such file or directory: {folder}", file=sys.stderr)
        return 1
    (folder / f"{args.name}.0.{host}").write_text("x")
    slow = Path(sys.argv[0]).with_name("STAND_IN_SLOW")
    speed = SLOW_DISK if slow.exists() and slow.read_text() == host else DISK
    speed = speed if args.direct else MEMORY
    figures = {"write": {"bw_bytes": 0, "iops": 0.0}, "read": {"bw_bytes": 0, "iops": 0.0}}
    figures["write" if args.rw.endswith("write") else "read"] = {"bw_bytes": int(speed), "iops": speed / args.bs}
    if args.output_format != "json":
        print(f"{args.name}: (groupid=0, jobs={args.numjobs}): err= 0")
        return 0
    print("fio: a warning that is not JSON")
    # One entry per process, unless group_reporting is set.
    jobs = [{"jobname": args.name, "error": 0, **figures}] * (1 if args.group_reporting else args.numjobs)
    print(json.dumps({"fio version": "fio-3.33", "jobs": jobs}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
