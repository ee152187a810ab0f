# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The removal of a role: who still uses the runtime, what of it is ours to delete, and what is left on the node."""

from __future__ import annotations

import glob
import os
import re
import stat
import typing as t

# Compiled copies of the runtime, see plugins/plugin_utils/_runtime_main.py, and of single modules.
_COMPILED = re.compile(r"/(mlcluster-[0-9]+-[0-9]+-[0-9]+-[^/]*|[^/]+\.pyc)\Z")
Items = t.Sequence[t.Mapping[str, t.Any]]


def users(directory: str) -> list[str]:
    """Return everything below a directory that is not a directory: files, links, pipes, sockets and devices.

    No link is followed. An unreadable directory counts as used, and so does a link or a file in its place.
    """
    try:
        if not stat.S_ISDIR(os.lstat(directory).st_mode):
            return [directory]
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError:
        return [directory]
    found = []
    for entry in entries:
        found += users(entry.path) if entry.is_dir(follow_symlinks=False) else [entry.path]
    return found


def runtime_files(runtime: str, command: str) -> dict[str, list[str]]:
    """Return ``own``, the files of the runtime in the order of their removal, and ``foreign`` under the same names.

    Ours are a plain file, a link to it as the command, and the files that Python compiled from it.
    """
    cache = f"{os.path.dirname(runtime)}/__pycache__"
    found: dict[str, list[str]] = {"own": [], "foreign": []}
    for path, is_own in (
        (command, _kind(command) == stat.S_IFLNK and _target(command) == runtime),
        (runtime, _kind(runtime) == stat.S_IFREG),
    ):
        if _kind(path) is not None:
            found["own" if is_own else "foreign"].append(path)
    if _kind(cache) == stat.S_IFDIR:
        inside = [f"{cache}/{name}" for name in sorted(os.listdir(cache))]
        compiled = [path for path in inside if _COMPILED.search(path) and _kind(path) == stat.S_IFREG]
        found["own"] += compiled
        others = [path for path in inside if path not in compiled]
        found["foreign"] += others
        found["own"] += [] if others else [cache]
    elif _kind(cache) is not None:
        found["foreign"].append(cache)
    return found


def remove(paths: t.Sequence[str]) -> None:
    """Delete files and empty directories. Raises OSError."""
    for path in paths:
        if _kind(path) == stat.S_IFDIR:
            os.rmdir(path)
        elif _kind(path) is not None:
            os.unlink(path)


def present(items: Items) -> list[str]:
    """Return the text of each item that was found, or of which a path exists.

    A path may have wildcards, and a link need not lead on.
    """
    return [item["what"] for item in items if item["found"] or any(_exists(path) for path in item["paths"])]


def _exists(path: str) -> bool:
    return os.path.lexists(path) or (glob.has_magic(path) and bool(glob.glob(path)))


def _kind(path: str) -> int | None:
    """Return the type of the path itself, None if there is nothing."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except OSError:
        return None


def _target(path: str) -> str:
    return os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
