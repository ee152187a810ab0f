# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a Lustre that is linked to S3: where their data is, and restoring, releasing and archiving them.

A released file has its name and size here and its data in S3; its first reader waits for S3. Requests to Lustre cover
many files at a time and run in parallel, since each one waits for the network.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import stat
import typing as t

from ..system import files
from ..system.ask import ask
from ..system.host import Host, NodeError
from ..system.shared_place import demand_answer
from .parse import parse_hsm_state

# Names in one command: far below the kernel's limit even for the longest paths.
BATCH = 100
# Seconds between two reads of the state; restoring a file takes less than a second to minutes.
POLL_SECONDS = 2.0
COMMAND_SECONDS = 120

ACTIONS = {"hydrate": "hsm_restore", "release": "hsm_release", "archive": "hsm_archive"}


@dataclasses.dataclass
class Tally:
    """The result of an action: numbers of files, bytes of those done, and a sentence for each failure.

    done: changed by the action; already: needed no change; passed_over: must not be changed (dirty or not archived for
    a release, lost for a restore, lost or marked noarchive for an archive); waiting: requested, not yet done.
    """

    files: int = 0
    done: int = 0
    already: int = 0
    passed_over: int = 0
    waiting: int = 0
    bytes_done: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)

    def as_dict(self) -> dict[str, t.Any]:
        """Return the fields as plain types."""
        return dataclasses.asdict(self)


def files_below(path: str) -> list[str]:
    """Return every plain file at or below a path, sorted by directory; links and other mounts are skipped.

    Raises ``NodeError`` if the path is unreadable or is neither file nor directory (an action on a link would do
    nothing and look done), or if a name has control characters, which the output of lfs cannot contain.
    """
    try:
        top = os.lstat(path)
        if not (stat.S_ISREG(top.st_mode) or stat.S_ISDIR(top.st_mode)):
            what = f"a link to {os.path.realpath(path)}" if stat.S_ISLNK(top.st_mode) else "not a plain file"
            raise NodeError(f"{path} is {what}: use the file or directory itself")
        found = [path] if stat.S_ISREG(top.st_mode) else []
        waiting = [path] if stat.S_ISDIR(top.st_mode) else []
        while waiting:
            directory = waiting.pop()
            with os.scandir(directory) as entries:
                for entry in sorted(entries, key=lambda one: one.name):
                    if entry.is_file(follow_symlinks=False):
                        found.append(entry.path)
                    elif entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_dev == top.st_dev:
                        waiting.append(entry.path)
    except OSError as exc:
        raise NodeError(f"{exc.filename or path} could not be read: {exc.strerror}; fix that and run again") from exc
    invalid = [name for name in found if not name.isprintable()]
    if invalid:
        raise NodeError(f"{invalid[0]!r} has a name with control characters, which lfs does not support: rename it")
    return found


def states(host: Host, paths: t.Sequence[str], parallel: int) -> dict[str, dict[str, t.Any]]:
    """Return Lustre's state of each file by path, without files that were deleted meanwhile, such as old checkpoints.

    Raises ``NodeError`` if lfs reports no state of an existing file.
    """

    def of(batch: t.Sequence[str]) -> dict[str, dict[str, t.Any]]:
        output, problem = ask(host, ["lfs", "hsm_state", *batch], timeout=COMMAND_SECONDS)
        existing = [path for path in batch if files.may_exist(path)] if problem else batch
        if len(existing) < len(batch):
            return of(existing) if existing else {}
        if problem:
            # The error of lfs is at the end, after up to a hundred paths.
            raise NodeError(f"the state of {batch[0]} and {len(batch) - 1} more is unknown: {problem[-300:]}")
        parsed = [parse_hsm_state(row) for row in output.splitlines()]
        return {state["path"]: state for state in parsed if state}

    found: dict[str, dict[str, t.Any]] = {}
    for part in _in_parallel(of, _batches(paths), parallel):
        found.update(part)
    missing = [path for path in paths if path not in found and files.may_exist(path)]
    if missing:
        raise NodeError(
            f"lfs hsm_state reported no state of {missing[0]}: check with 'lfs hsm_state' that it is on Lustre"
        )
    return found


def count(host: Host, path: str, parallel: int = 8) -> dict[str, t.Any]:
    """Count the files of a tree by state: files, bytes, local, released, archived, dirty, lost.

    exported: all files have a copy in S3; False for an empty tree, which proves nothing.
    """
    demand_answer(host, path)
    seen = states(host, files_below(path), parallel)
    paths = list(seen)
    words = [set(state["states"]) for state in seen.values()]
    archived = sum("archived" in one and not one & {"dirty", "lost"} for one in words)
    return {
        "path": path,
        "files": len(paths),
        "bytes": sum(_size(one) for one in paths),
        "local": sum("released" not in one for one in words),
        "released": sum("released" in one for one in words),
        "archived": archived,
        "dirty": sum("dirty" in one for one in words),
        "lost": sum("lost" in one for one in words),
        "exported": bool(paths) and archived == len(paths),
    }


def run(
    host: Host,
    action: str,
    path: str,
    parallel: int = 8,
    timeout: float = 3600,
    progress: t.Callable[[Tally], None] = lambda tally: None,
) -> Tally:
    """Hydrate, release or archive all files below a path; files already in that state are skipped.

    Waits until Lustre reports the new state, at most timeout seconds from the start; the remaining files are waiting.
    progress is called after every read of the states. Raises ``NodeError`` if the tree or its states are unreadable.
    """
    if action not in ACTIONS:
        raise NodeError(f"the action is {action!r}: it must be one of {', '.join(ACTIONS)}")
    deadline = host.monotonic() + timeout
    demand_answer(host, path)
    found = states(host, files_below(path), parallel)
    tally = Tally(files=len(found))
    due = []
    for name, state in found.items():
        verdict = _verdict(action, set(state["states"]))
        tally.already += verdict == "already"
        tally.passed_over += verdict == "passed over"
        if verdict == "due":
            due.append(name)
    tally.waiting = len(due)
    progress(tally)
    refused = _request(host, ACTIONS[action], due, parallel, tally, deadline)
    waiting = [name for name in due if name not in refused]
    while waiting:
        seen = states(host, waiting, parallel)
        tally.files -= len(waiting) - len(seen)
        waiting = [name for name in waiting if name in seen]
        done = [name for name in waiting if _verdict(action, set(seen[name]["states"])) == "already"]
        tally.done += len(done)
        tally.bytes_done += sum(_size(name) for name in done)
        finished = set(done)
        waiting = [name for name in waiting if name not in finished]
        tally.waiting = len(waiting)
        progress(tally)
        if not waiting or host.monotonic() >= deadline:
            break
        host.sleep(POLL_SECONDS)
    return tally


def _verdict(action: str, words: set[str]) -> str:
    """Return what the action does with a file in that state: already, due, or passed over."""
    if action == "hydrate":
        if "released" not in words:
            return "already"
        return "passed over" if "lost" in words else "due"
    if action == "release":
        if "released" in words:
            return "already"
        # Its only copy is here: a release would lose it, and Lustre rejects it too.
        return "due" if "archived" in words and not words & {"dirty", "lost", "norelease"} else "passed over"
    # A released file that is lost in S3 has no copy; a local file that is lost in S3 must be archived again.
    if "lost" in words:
        return "passed over" if words & {"released", "noarchive"} else "due"
    if "archived" in words and "dirty" not in words:
        return "already"
    return "passed over" if "noarchive" in words else "due"


def _request(
    host: Host, command: str, paths: t.Sequence[str], parallel: int, tally: Tally, deadline: float
) -> set[str]:
    """Request the action for all files until the deadline; return the rejected ones.

    A failed batch is requested again file by file.
    """

    def asked(words: t.Sequence[str]) -> str | None:
        """Return the problem; None after the deadline, because Lustre or the next run may still finish the files."""
        left = deadline - host.monotonic()
        if left <= 0:
            return None
        problem = ask(host, ["lfs", command, *words], timeout=min(COMMAND_SECONDS, left))[1]
        return problem if host.monotonic() < deadline else None

    def one(path: str) -> tuple[str, str | None]:
        return path, asked([path])

    def many(batch: t.Sequence[str]) -> list[str]:
        return list(batch) if asked(batch) else []

    again = [path for batch in _in_parallel(many, _batches(paths), parallel) for path in batch]
    # A file that was deleted meanwhile is missing in the next states.
    answers = _in_parallel(one, again, parallel)
    refused = [(path, problem) for path, problem in answers if problem and files.may_exist(path)]
    tally.failures += [f"{path}: {problem}" for path, problem in refused]
    tally.waiting -= len(refused)
    return {path for path, _problem in refused}


def _in_parallel(work: t.Callable[[t.Any], t.Any], pieces: t.Sequence[t.Any], parallel: int) -> list[t.Any]:
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        return list(pool.map(work, pieces))


def _batches(paths: t.Sequence[str]) -> list[t.Sequence[str]]:
    return [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
