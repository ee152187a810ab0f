# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for ``aws s3`` sync, ls and cp of the AWS CLI 2, with a folder for S3. Grammar: its command reference.

cp from - writes its input, empty or not, and cp to - prints an object. As documented, sync copies a file whose object
is missing, of another size, or older; with --size-only, not one that is older. A file LOSSY in the program's folder
makes it lose its input and report success. A file SLOW makes it wait until that file is removed. A file CUT has the
number of objects after which it is killed.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import shutil
import signal
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
    verbs = commands.add_subparsers(dest="command", required=True)
    verbs.add_parser("ls", allow_abbrev=False, add_help=False).add_argument("target")
    copy = verbs.add_parser("cp", allow_abbrev=False, add_help=False)
    for verb in (copy, verbs.add_parser("sync", allow_abbrev=False, add_help=False)):
        verb.add_argument("source")
        verb.add_argument("target")
        verb.add_argument("--exclude", action="append", default=[])
        for flag in ("--dryrun", "--only-show-errors"):
            verb.add_argument(flag, action="store_true")
    verbs.choices["sync"].add_argument("--size-only", action="store_true")
    return made


def object_path(place: str) -> Path:
    if not re.fullmatch(r"s3://[a-z0-9.-]{3,63}(/.*)?", place):
        parser().error(f"Invalid argument type: {place}")
    return HERE / "s3" / place.removeprefix("s3://")


def is_current(file: os.stat_result, copy: os.stat_result, size_only: bool) -> bool:
    """Return whether sync leaves an object as it is; it does not read content."""
    return copy.st_size == file.st_size and (size_only or copy.st_mtime >= file.st_mtime)


def be_cut() -> None:
    """Kill this program before the object that CUT does not allow any more."""
    if (HERE / "CUT").exists():
        left = int((HERE / "CUT").read_text(encoding="ascii"))
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        (HERE / "CUT").write_text(str(left - 1), encoding="ascii")


def is_left_out(file: Path, source: Path, patterns: t.Sequence[str]) -> bool:
    """Return whether a pattern is for this file. As in the CLI's filters.py, the path of the folder is part of it."""
    whole = [os.path.join(os.path.abspath(source), pattern) for pattern in patterns]
    return any(fnmatch.fnmatchcase(os.path.abspath(file), pattern) for pattern in whole)


def list_objects(target: Path, folder: bool) -> int:
    """End with 1 where no object has a name that begins so."""
    above = target if folder else target.parent
    begin = "" if folder else target.name
    found = sorted(path for path in above.iterdir() if path.name.startswith(begin)) if above.is_dir() else []
    for path in found:
        print(f"                           PRE {path.name}/" if path.is_dir() else f"{path.stat().st_size} {path.name}")
    return 0 if found else 1


def show(target: Path, place: str) -> int:
    """Print an object."""
    if not target.is_file():
        print(
            "fatal error: An error occurred (404) when calling the HeadObject operation: Key "
            f'"{place.partition("//")[2].partition("/")[2]}" does not exist',
            file=sys.stderr,
        )
        return 1
    sys.stdout.write(target.read_text(encoding="utf-8"))
    return 0


def write_input(target: Path) -> int:
    """Write the standard input as an object."""
    if not (HERE / "LOSSY").exists():
        be_cut()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(sys.stdin.buffer.read())
    return 0


def upload(args: argparse.Namespace) -> int:
    """Copy what is not current of a directory; or one file."""
    source, target = Path(args.source), object_path(args.target)
    whole = args.command == "sync"
    if not (source.is_dir() if whole else source.is_file()):
        print(f"The user-provided path {args.source} does not exist.", file=sys.stderr)
        return FAILED
    while (HERE / "SLOW").exists():
        (HERE / "BEGAN").touch()
        time.sleep(0.05)
    for file in sorted(source.rglob("*")) if whole else [source]:
        name = str(file.relative_to(source)) if whole else ""
        copy = target / name
        if file.is_dir() or is_left_out(file, source, args.exclude):
            continue
        if whole and copy.exists() and is_current(file.stat(), copy.stat(), args.size_only):
            continue
        if args.dryrun:
            print(f"(dryrun) upload: {file} to {args.target}/{name}")
            continue
        if not args.only_show_errors:
            print(f"upload: {file} to {args.target}/{name}")
        if not (HERE / "LOSSY").exists():
            be_cut()
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
    return 0


def main() -> int:
    args = parser().parse_args()
    if args.command == "ls":
        return list_objects(object_path(args.target), args.target.endswith("/"))
    if args.command == "cp" and args.target == "-":
        return show(object_path(args.source), args.source)
    if args.command == "cp" and args.source == "-":
        return write_input(object_path(args.target))
    return upload(args)


if __name__ == "__main__":
    sys.exit(main())
