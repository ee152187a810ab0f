# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for IOR 4.0.0, one process of many. Grammar: its src/parse_options.c and user guide (ior.readthedocs.io).

The figures of the JSON summary depend on the options. A write without -e, which ends before the data are on the
servers, has the speed of memory. So has a read of data in the node's memory, that is of the task's own file or that of
a task on the same node. Tasks that share one file (without -F) are slower.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path

WRITE, READ, MEMORY, SHARED = 900.5, 1800.0, 50000.0, 0.5
UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def size(text: str) -> int:
    found = re.fullmatch(r"(\d+)([kmgt]?)", text, re.IGNORECASE)
    if not found or not int(found.group(1)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size")
    return int(found.group(1)) << UNITS[found.group(2).lower()]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="ior", allow_abbrev=False, add_help=False)
    made.add_argument("-a", choices=("POSIX", "MPIIO", "MMAP", "DUMMY"), default="POSIX")
    made.add_argument("-b", type=size, default=1 << 20)
    made.add_argument("-t", type=size, default=1 << 18)
    made.add_argument("-o", required=True)
    made.add_argument("-Q", type=int, default=1)
    made.add_argument("-O", action="append", default=[])
    for flag in "wreFCk":
        made.add_argument(f"-{flag}", action="store_true")
    return made


def directives(words: list[str]) -> dict[str, str]:
    found = dict(word.partition("=")[::2] for word in words)
    known = {"summaryFormat", "summaryFile"}
    if set(found) - known or found.get("summaryFormat", "default") not in {"default", "JSON"}:
        parser().error(f'Unrecognized parameter "{words}"')
    return found


def memory() -> int:
    (line,) = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:")]
    return int(line.split()[1]) * 1024


def main() -> int:
    args = parser().parse_args()
    given = directives(args.O)
    if args.b % args.t:
        parser().error("block size must be a multiple of transfer size")
    folder = Path(args.o).parent
    if not folder.is_dir():
        parser().error(f"cannot open {args.o}: No such file or directory")
    if not (args.w or args.r):
        args.w = args.r = True
    tasks, rank = int(os.environ["SLURM_NTASKS"]), int(os.environ["SLURM_PROCID"])
    on_node = max(tasks // int(os.environ["SLURM_NNODES"]), 1)
    share = 1.0 if args.F else SHARED
    write = WRITE * share if args.e else MEMORY
    # With -C, a task reads the data of the task Q ranks before it.
    elsewhere = args.C and on_node <= args.Q and tasks > on_node
    read = READ * share
    if not elsewhere:
        size = args.b * on_node
        read = MEMORY if size <= memory() else min(read * size / (size - memory()), MEMORY)
    wanted = [("write", write)] * args.w + [("read", read)] * args.r
    if rank == 0:
        Path(f"{args.o}.00000000" if args.F else args.o).write_text("x")
        counts = {"numTasks": tasks, "tasksPerNode": on_node}
        summary = [{"operation": name, "API": args.a, **counts, "bwMaxMIB": speed} for name, speed in wanted]
        document = {"Version": "4.0.0", "Command line": " ".join(sys.argv), "summary": summary}
        if given.get("summaryFormat") == "JSON":
            Path(given.get("summaryFile", "/dev/stdout")).write_text(json.dumps(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
