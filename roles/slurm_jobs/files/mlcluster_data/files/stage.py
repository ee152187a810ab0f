# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Call it before the training's first step, from every rank: the first one on a node copies, the others wait, and all
find the files whole. The source is a file, a folder, or an s3:// prefix. What was staged before and has not changed at
the source is not copied again. The copy is complete when .staged.json is there, which comes last.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from ..cli import arguments
from ..cli.progress import Progress, amount
from ..errors import PASS, DataError
from ..locks.directory import STAGE_NAME, only_writer
from . import durable, s3

MARK = ".staged.json"
PARALLEL = 4
_HALF = re.compile(r"\.(.+)\.[0-9a-z_]{8}\.part", re.DOTALL)
Listing = dict[str, list[object]]


def listing_of(source: str) -> Listing:
    """The files of a source: name to size and what changes with the content (time of change, entity tag).

    Raises DataError, S3Error.
    """
    if s3.is_url(source):
        there = s3.Prefix(source).list().items()
        # The console of S3 makes an object with a slash at its end for each folder.
        found: Listing = {name: [one.size, one.etag] for name, one in there if name and not name.endswith("/")}
    else:
        path = Path(source)
        files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
        top = path.parent if path.is_file() else path
        states = ((str(file.relative_to(top)), file.stat()) for file in files)
        found = {name: [state.st_size, state.st_mtime_ns] for name, state in states}
    if outside := sorted(name for name in found if ".." in Path(name).parts or Path(name).is_absolute()):
        raise DataError(f"{source} has the name {outside[0]}, which leads out of the folder: rename it there")
    if not found:
        raise DataError(f"{source} holds no file: name the file, folder or s3:// prefix to stage")
    return found


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    # A local disk: the kernel's own lock ends with its holder, and waiting is what is wanted.
    with open(folder / STAGE_NAME, "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(source: str, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        if s3.is_url(source):
            s3.Prefix(source).fetch(name, aside)
        else:
            path = Path(source)
            durable.copy(path if path.is_file() else path / name, aside)
        os.replace(aside, target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def staged(folder: Path) -> Listing:
    """What was staged here and is here still, in full length."""
    try:
        marked: Listing = json.loads((folder / MARK).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    if not isinstance(marked, dict) or not all(
        isinstance(about, list) and len(about) == 2 for about in marked.values()
    ):
        return {}
    there = {name: folder / name for name in marked}
    return {
        name: about
        for name, about in marked.items()
        if there[name].is_file() and there[name].stat().st_size == about[0]
    }


def stage(source: str, folder: Path) -> int:
    """Bring a source to a local folder; returns how many files were copied.

    Raises DataError, LockedError where a program other than a staging writes there, and S3Error.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one(folder):
            wanted, have = listing_of(source), staged(folder)
            missing = [name for name in wanted if wanted[name] != have.get(name)]
            if missing:
                with only_writer(folder):
                    _copy(source, folder, wanted, missing)
            return len(missing)
    except OSError as exc:
        raise DataError(
            f"{source} could not be staged in {folder} ({durable.reason(exc)}): make room there, or name a folder that "
            "can be written"
        ) from exc


def _copy(source: str, folder: Path, wanted: Listing, missing: list[str]) -> None:
    (folder / MARK).unlink(missing_ok=True)
    _remove_halves(folder, {*wanted, MARK})
    size = sum(int(str(wanted[name][0])) for name in missing)
    _room(folder, size)
    with Progress("stage", size) as progress, concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        work = {pool.submit(_fetch, source, name, folder / name): name for name in missing}
        for done in concurrent.futures.as_completed(work):
            done.result()
            progress.advance(int(str(wanted[work[done]][0])), work[done])
    durable.write(folder / MARK, json.dumps(wanted).encode())


def _remove_halves(folder: Path, wanted: set[str]) -> None:
    """Those of these files alone: other programs write theirs below the same folder at this moment."""
    for half in folder.rglob(".*.part"):
        name = _HALF.fullmatch(half.name)
        if name and str(half.with_name(name[1]).relative_to(folder)) in wanted:
            half.unlink(missing_ok=True)


def _room(folder: Path, size: int) -> None:
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if size > free:
        raise DataError(f"{folder} has {amount(free)}B free, and {amount(size)}B are to be staged: make room there")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("source", type=arguments.place, help="file, folder or s3://BUCKET/PREFIX")
    parser.add_argument("--to", type=arguments.path, required=True, help="folder on the local disks")


def run(args: argparse.Namespace) -> int:
    """Stage, and say what was done."""
    copied = stage(args.source, args.to)
    print(f"{args.to}: {copied} files copied" if copied else f"{args.to}: all files are there already")
    return PASS
