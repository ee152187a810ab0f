# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for mdtest 4.0.0, one process of many. Grammar: mdtest(1), and src/mdtest.c of IOR 4.0.0.

The table depends on the options: rows of files, and of directories unless -F is set; tasks that share one directory
(without -u) are slower. It rejects -n 0, with which mdtest measures nothing and prints zeros.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

RATE, SHARED = 845203.634, 0.1


def items(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: use the number of items of each task, from 1")
    return int(text)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="mdtest", allow_abbrev=False, add_help=False)
    made.add_argument("-n", type=items, required=True)
    made.add_argument("-d", required=True)
    made.add_argument("-i", type=int, default=1)
    for flag in "FDuCTErL":
        made.add_argument(f"-{flag}", action="store_true")
    return made


def main() -> int:
    args = parser().parse_args()
    if args.F and args.D:
        parser().error("-D and -F exclude each other")
    # mdtest makes the directory, but not its parents.
    if not Path(args.d).parent.is_dir():
        parser().error(f"unable to create test directory path {args.d}")
    if os.environ["SLURM_PROCID"] != "0":
        return 0
    Path(args.d).mkdir(exist_ok=True)
    tasks = int(os.environ["SLURM_NTASKS"])
    print("-- started at 01/31/2026 12:00:00 --\n")
    print(f"mdtest-4.0.0 was launched with {tasks} total task(s) on {os.environ['SLURM_NNODES']} node(s)")
    print(f"Command line used: {' '.join(sys.argv)}\n")
    what = "files" if args.F else "directories" if args.D else "files/directories"
    print(f"{tasks} tasks, {tasks * args.n} {what}\n")
    print(f"SUMMARY rate: (of {args.i} iterations)")
    print("   Operation                     Max            Min           Mean        Std Dev")
    rate = RATE if args.u else RATE * SHARED
    for of, shown in (("Directory", not args.F), ("File", not args.D)):
        for name in ("creation", "stat", "read", "removal") if shown else ():
            print(f"   {f'{of} {name}':<26}{rate:12.3f} {rate:12.3f} {rate:12.3f} {0:12.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
