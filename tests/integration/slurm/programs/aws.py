# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for `aws s3 sync` of the AWS CLI 2, with a folder for S3. Grammar: its command reference, `aws s3 sync`.

It has no other command. A file LOSSY in the program's folder makes it lose its input and report success. A file SLOW
makes it wait until that file is removed.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import shutil
import sys
import time
import typing as t
from pathlib import Path

HERE = Path(sys.argv[0]).parent
# Exit codes of the AWS CLI 2 (its user guide, return codes): wrong usage, and a failed command.
USAGE, FAILED = 252, 255


class Parser(argparse.ArgumentParser):
    """A parser with the exit code of the AWS CLI."""

    def error(self, message: str) -> t.NoReturn:
        self.exit(USAGE, f"\naws: error: {message}\n")


def parser() -> argparse.ArgumentParser:
    made = Parser(prog="aws", allow_abbrev=False, add_help=False)
    commands = made.add_subparsers(dest="service", required=True).add_parser("s3", add_help=False)
    sync = commands.add_subparsers(dest="command", required=True).add_parser("sync", allow_abbrev=False, add_help=False)
    sync.add_argument("source")
    sync.add_argument("target")
    sync.add_argument("--exclude", action="append", default=[])
    for flag in ("--dryrun", "--only-show-errors"):
        sync.add_argument(flag, action="store_true")
    return made


def main() -> int:
    args = parser().parse_args()
    if not re.fullmatch(r"s3://[a-z0-9.-]{3,63}(/.*)?", args.target):
        parser().error(f"Invalid argument type: {args.target}")
    source, target = Path(args.source), HERE / "s3" / args.target.removeprefix("s3://")
    if not source.is_dir():
        print(f"The user-provided path {args.source} does not exist.", file=sys.stderr)
        return FAILED
    while (HERE / "SLOW").exists():
        (HERE / "BEGAN").touch()
        time.sleep(0.05)
    for file in sorted(source.rglob("*")):
        name = str(file.relative_to(source))
        copy = target / name
        if file.is_dir() or any(fnmatch.fnmatchcase(name, pattern) for pattern in args.exclude):
            continue
        if copy.exists() and copy.read_bytes() == file.read_bytes():
            continue
        if args.dryrun:
            print(f"(dryrun) upload: {file} to {args.target}/{name}")
            continue
        if not args.only_show_errors:
            print(f"upload: {file} to {args.target}/{name}")
        if not (HERE / "LOSSY").exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
