# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copy files to the node's local disks; every rank calls it before the first step. The first rank of a node copies, the
others wait. The source is a file, a folder, or an s3:// prefix. A staged file is copied again if the source or its
size has changed; its SHA-256 is checked once in each job. .staged.json is written last.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..cli import arguments
from ..cli.progress import Progress, amount
from ..errors import PASS, DataError
from ..locks.directory import STAGE_NAME, myself, only_writer
from . import durable, s3
from .durable import Directory, FileSum, Signature

MARK = ".staged.json"
SCHEMA = "mlcluster.staged/1"
# The names of all files that were staged here, or will be; other files are never replaced.
NAMES = ".staged-names.json"
# A folder for unfinished files; each staging creates it and removes it at its end, else the next one does.
ASIDE = ".staging-"
# The names that Directory.private() makes. Another name, such as .staging-area, belongs to another program.
_ASIDE = re.compile(re.escape(ASIDE) + r"[0-9a-f]{16}")
PARALLEL = 4
Listing = dict[str, list[object]]


@dataclasses.dataclass(frozen=True)
class Staged:
    """A staged file: its state at the source, its checksum, and its signature here."""

    source: list[object]
    sum: FileSum
    signature: Signature


def listing_of(source: str) -> Listing:
    """Return the files of a source: {name: size, and time of change or entity tag}.

    Files of the staging itself are left out. Raises DataError, S3Error.
    """
    if s3.is_url(source):
        listed = s3.Prefix(source).list().items()
        # The console of S3 makes an object with a slash at its end for each folder.
        found: Listing = {
            name: [remote.size, remote.etag] for name, remote in listed if name and not name.endswith("/")
        }
    else:
        path = Path(source)
        files = [path] if path.is_file() else durable.files_below(path)
        top = path.parent if path.is_file() else path
        states = ((str(file.relative_to(top)), file.stat()) for file in files)
        found = {name: [state.st_size, state.st_mtime_ns] for name, state in states}
    found = {name: about for name, about in found.items() if not _is_own(name)}
    if not found:
        raise DataError(f"{source} holds no file: use the file, folder or s3:// prefix to stage")
    for problem in _problems(found):
        raise DataError(f"{source} has the name {problem}: rename it there")
    return found


def _is_own(name: str) -> bool:
    first = name.partition("/")[0]
    return first in (MARK, NAMES, STAGE_NAME) or _ASIDE.fullmatch(first) is not None


def _problems(names: Collection[str]) -> Iterator[str]:
    """Yield the names that cannot be paths of files in one folder, shortened, each with the reason."""
    folders = {"/".join(parts[:end]) for name in names for parts in [name.split("/")] for end in range(1, len(parts))}
    for name in sorted(names):
        short_name = name if len(name) <= 300 else f"{name[:300]}..."
        try:
            durable.parts_of(name)
        except ValueError as exc:
            yield f"{short_name!r}, which {exc}"
        if name in folders:
            yield f"{short_name!r}, which is a file and a folder of other files"


@contextlib.contextmanager
def _only_one(folder: Directory) -> Iterator[None]:
    # A local disk: the kernel's own lock ends with its holder, and waiting for it is right.
    descriptor = folder.lock_file(STAGE_NAME)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def this_run() -> str:
    """Return the identity of this run of a job: the job and its restart, else the process that started it."""
    me = myself()
    if me.job:
        return f"{me.cluster}/{me.job}/{me.restart}"
    with contextlib.suppress(OSError, IndexError):
        stat = Path(f"/proc/{os.getppid()}/stat").read_text(encoding="utf-8", errors="replace")
        return f"{me.boot}/{os.getppid()}/{stat.rpartition(')')[2].split()[19]}"
    return me.token


def _marked(folder: Directory) -> tuple[str, dict[str, Staged]]:
    """Return the content of .staged.json: the run that checked the sums last, and the files; empty if invalid."""
    try:
        content = json.loads(folder.read(MARK))
        if content["schema"] != SCHEMA or content.pop("sha256") != _seal(content):
            return "", {}
        files = {
            name: Staged(entry["source"], FileSum(**entry["sum"]), Signature(**entry["signature"]))
            for name, entry in content["files"].items()
        }
        return str(content["run"]), files
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "", {}


def _staged_earlier(folder: Directory) -> dict[str, Staged]:
    """Return the content of an earlier version's .staged.json, which has sizes only, with the sums of present files."""
    found = {}
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        for name, size_and_time in json.loads(folder.read(MARK)).items():
            place, last = _open_folder(folder, name)
            with place:
                state, (size, _changed) = place.state(last), size_and_time
                if state is not None and state.st_size == size:
                    found[name] = Staged(size_and_time, place.digest(last), Signature.of(state))
    return found


def _staged_names(folder: Directory) -> set[str]:
    """Return the names of all files that were staged here, from both lists, also those of an earlier version."""
    found: set[str] = set()
    for name in (NAMES, MARK):
        with contextlib.suppress(OSError, ValueError, AttributeError, TypeError, RecursionError):
            content = json.loads(folder.read(name))
            found.update(content.get("files", content))
    return found


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _mark(folder: Directory, run: str, files: Mapping[str, Staged]) -> None:
    content = {
        "schema": SCHEMA,
        "run": run,
        "files": {name: dataclasses.asdict(entry) for name, entry in files.items()},
    }
    folder.write(MARK, json.dumps({**content, "sha256": _seal(content)}).encode())


def _open_folder(folder: Directory, name: str, make: bool = False) -> tuple[Directory, str]:
    """Return the opened directory of a file, and its name there."""
    *folders, last = durable.parts_of(name)
    return folder.below(*folders, make=make), last


def _is_good(folder: Directory, name: str, staged: Staged, read: bool) -> bool:
    """Return whether a file is unchanged since it was staged; with ``read`` its sum is checked, too."""
    try:
        place, last = _open_folder(folder, name)
        with place:
            state = place.state(last)
            if state is None or Signature.of(state) != staged.signature:
                return False
            return not read or place.digest(last) == staged.sum
    except OSError:
        return False


def staged(folder: Directory, wanted: Listing) -> dict[str, Staged]:
    """Return the files of a listing that are here and unchanged; their sums are checked once a run."""
    run, marked = _marked(folder)
    marked = marked or _staged_earlier(folder)
    known = {name: entry for name, entry in marked.items() if wanted.get(name) == entry.source}
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        read = run != this_run()
        good = pool.map(lambda name: _is_good(folder, name, known[name], read), known)
        return {name: entry for (name, entry), is_good in zip(known.items(), good) if is_good}


def stage(source: str, folder: Path) -> int:
    """Copy a source to a local folder; return how many files were copied.

    Raises DataError, S3Error, and LockedError if a program other than a staging writes there.
    """
    try:
        wanted = listing_of(source)
    except OSError as exc:
        raise DataError(f"{source} cannot be read ({durable.reason(exc)}): use one that this user may read") from exc
    try:
        durable.make_directory(folder)
        with Directory.open(folder) as top, _only_one(top):
            _remove_asides(top)
            unchanged = staged(top, wanted)
            missing = [name for name in wanted if name not in unchanged]
            if missing:
                with only_writer(folder):
                    _copy(source, top, wanted, unchanged, missing)
            elif _marked(top)[0] != this_run():
                _mark(top, this_run(), unchanged)
            return len(missing)
    except OSError as exc:
        advice = "make room there" if exc.errno in (errno.ENOSPC, errno.EDQUOT) else "fix that"
        raise DataError(
            f"{source} could not be staged in {folder} ({durable.reason(exc)}): {advice}, or choose another folder"
        ) from exc


def _copy(source: str, folder: Directory, wanted: Listing, unchanged: dict[str, Staged], missing: list[str]) -> None:
    staged_earlier = _staged_names(folder)
    _refuse_obstacles(folder, missing, staged_earlier)
    # Written before the first file has its name here, so that the next staging may replace the files of a killed one.
    folder.write(NAMES, json.dumps({"files": sorted(staged_earlier.union(wanted))}).encode())
    # The old list has files that will be replaced. After a power failure it would not match their signatures.
    folder.remove(MARK)
    size = sum(int(str(wanted[name][0])) for name in missing)
    _check_space(folder.path, size)
    staging = folder.private(ASIDE)
    try:
        with Progress("stage", size) as progress, concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            work = {
                pool.submit(_fetch, source, name, wanted[name], folder, staging, f"{number:08d}"): name
                for number, name in enumerate(missing)
            }
            for done in concurrent.futures.as_completed(work):
                unchanged[work[done]] = done.result()
                progress.advance(int(str(wanted[work[done]][0])), work[done])
        _mark(folder, this_run(), unchanged)
    finally:
        staging.close()
        _remove_asides(folder)


def _refuse_obstacles(folder: Directory, names: Collection[str], staged_earlier: Collection[str]) -> None:
    """Raise DataError, before anything is written, for entries in the place of a file or folder of the source.

    Files in ``staged_earlier`` were staged and may be replaced.
    """
    for name in names:
        place, last = folder, name
        try:
            place, last = _open_folder(folder, name)
        except FileNotFoundError:
            continue
        except OSError as exc:
            raise DataError(f"{durable.reason(exc)}, but {name} belongs there: move it away") from exc
        with place:
            if place.state(last) is not None and not place.is_plain(last):
                raise DataError(f"{place.path / last} is not a plain file, but {name} belongs there: move it away")
            if place.state(last) is not None and name not in staged_earlier:
                raise DataError(
                    f"{place.path / last} was not staged, and {name} of the source would replace it: move it away, or "
                    "choose another folder"
                )


def _fetch(source: str, name: str, expected: list[object], folder: Directory, staging: Directory, part: str) -> Staged:
    """Copy one file to its place, and return its entry."""
    with staging.new(part, 0o644) as file:
        if s3.is_url(source):
            copied = s3.Prefix(source).fetch(name, file, folder.path / name)
        else:
            path = Path(source)
            copied = durable.copy(path if path.is_file() else path / name, file)
        if copied.size != expected[0]:
            raise DataError(f"{source} changed while {name} was read: stage it again once no program writes there")
    place, last = _open_folder(folder, name, make=True)
    with place:
        staging.rename(part, last, place)
        place.sync()
        state = place.state(last)
        if state is None:
            raise DataError(f"{folder.path / name} was removed: see which program does that, and stage it again")
        return Staged(expected, copied, Signature.of(state))


def _remove_asides(folder: Directory) -> None:
    """Remove the temporary files of killed runs; links of such names are kept."""
    for name in os.listdir(folder.descriptor):
        if name.startswith((f".{MARK}.", f".{NAMES}.")) and durable.is_aside(name):
            folder.remove(name)
        elif _ASIDE.fullmatch(name) and not (folder.path / name).is_symlink():
            with contextlib.suppress(OSError):
                durable.remove_tree(folder.path / name)


def _check_space(folder: Path, size: int) -> None:
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if size > free:
        raise DataError(f"{folder} has {amount(free)}B free, and {amount(size)}B are to be staged: make room there")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("source", type=arguments.place, help="file, folder or s3://BUCKET/PREFIX")
    parser.add_argument("--to", type=arguments.path, required=True, help="folder on the local disks")


def run(args: argparse.Namespace) -> int:
    """Stage, and print the result."""
    copied = stage(args.source, args.to)
    print(f"{args.to}: {copied} files copied" if copied else f"{args.to}: all files are there already")
    return PASS
