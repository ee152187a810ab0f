# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rig's cache in the user's home: each entry is built once, under a lock, and appears only when it is complete."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from .command import RigError, progress, run, wait_for

MANIFEST = "complete.json"
# A guest's disk is a layer above its image, so this has to be longer than any guest runs.
KEEP_SECONDS = 30 * 86400


def root() -> Path:
    """Return the rig's folder in the user's cache directory, made private to the user."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(base) / "mlcluster" / "rig"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def key_of(parts: Mapping[str, object]) -> str:
    """Return a short name that changes when any of the parts changes."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def source_digest(*paths: Path) -> str:
    """Return one digest over the names and contents of files, whatever their order."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.name}\0{len(path.read_bytes())}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _locks() -> Path:
    folder = root() / "locks"
    folder.mkdir(exist_ok=True)
    return folder


def lock_names() -> list[str]:
    """Return the names of all locks that were ever taken."""
    return sorted(path.name for path in _locks().iterdir())


@contextlib.contextmanager
def locked(name: str, why: str, timeout: float = math.inf) -> Iterator[None]:
    """Hold the lock of that name; report progress while another process holds it.

    By default the wait has no limit: a lock ends with its holder, whose steps have their own limits.
    """
    with open(_locks() / name, "w", encoding="utf-8") as handle:

        def take() -> bool | None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            return True

        wait_for(f"another process that holds the lock for {why}", take, timeout=timeout)
        yield


def _state_of(path: Path) -> list[int]:
    info = path.stat()
    return [info.st_size, info.st_mtime_ns]


def is_whole(entry: Path) -> bool:
    """Return whether the entry is complete and none of its files has changed since."""
    try:
        files = json.loads((entry / MANIFEST).read_text(encoding="utf-8"))["files"]
        return bool(files) and all(_state_of(entry / name) == state for name, state in files.items())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def ensure(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """Return the entry ``kind``/``key``, made by ``build(folder)`` when it is missing or damaged.

    Processes that ask for the same entry at once wait for the one that builds it. Raises what ``build`` raises,
    and then leaves nothing behind.
    """
    parent = root() / kind
    entry = parent / key
    with locked(f"{kind}-{key}", f"the {kind} cache"):
        if is_whole(entry):
            os.utime(entry / MANIFEST)
            return entry
        if entry.exists():
            progress(f"the cached {kind} {key} is incomplete and is built again")
            discard(entry)
        parent.mkdir(exist_ok=True)
        # The holder of the lock is the only builder of this key, so a killed builder left these.
        for left in parent.glob(f".new-{key}-*"):
            discard(left)
        folder = Path(tempfile.mkdtemp(prefix=f".new-{key}-", dir=parent))
        try:
            build(folder)
            os.rename(folder, entry)
            files = {path.name: _state_of(path) for path in sorted(entry.iterdir()) if path.is_file()}
            write_private(entry / MANIFEST, json.dumps({"files": files}, indent=1))
        except BaseException:
            discard(folder)
            raise
        _prune(parent)
    return entry


def _prune(parent: Path) -> None:
    for entry in parent.iterdir():
        manifest = entry / MANIFEST
        if manifest.exists() and time.time() - manifest.stat().st_mtime > KEEP_SECONDS:
            progress(f"the cached {parent.name} {entry.name} was not used for a month and is removed")
            discard(entry)


def discard(path: Path) -> None:
    """Remove a folder of the cache with its contents; a missing folder is not an error."""
    if root() not in path.parents:
        raise RigError(f"{path} is not inside the rig's cache and is not removed.")
    shutil.rmtree(path, ignore_errors=True)


def write_private(path: Path, text: str) -> None:
    """Write a file atomically, readable by the user only."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(name, path)


def ssh_key() -> Path:
    """Return the path of the private key for guests, made at the first call; the public key has the suffix .pub."""
    folder = root() / "ssh"
    path = folder / "id_ed25519"
    with locked("ssh", "the ssh key"):
        if not path.exists():
            folder.mkdir(exist_ok=True, mode=0o700)
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "mlcluster-rig", "-f", str(path)], "ssh key")
    return path
