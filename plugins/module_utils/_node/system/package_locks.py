# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Locks of package managers: their holders, and a wait with a limit until none is held."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import typing as t
from pathlib import Path

from .host import Host

# Held with fcntl by running apt, dpkg and rpm.
LOCKS = (
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/lock",
    "var/lib/apt/lists/lock",
    "var/cache/apt/archives/lock",
    "var/lib/rpm/.rpm.lock",
    "usr/lib/sysimage/rpm/.rpm.lock",
)
# Locks of dnf 4: each holds the process id of its owner and counts while that process lives.
DNF_LOCKS = (
    "var/cache/dnf/metadata_lock.pid",
    "var/cache/dnf/download_lock.pid",
    "var/lib/dnf/rpmdb_lock.pid",
)
POLL_SECONDS = 0.5


def lock_holder(path: Path, table: str) -> str:
    """Return the holder of a lock by /proc/locks, such as "apt-get (process 4711)", or "another process"."""
    with contextlib.suppress(OSError):
        wanted = os.stat(path).st_ino
        for line in table.splitlines():
            found = re.match(r"\d+: \S+\s+\S+\s+WRITE (\d+) [0-9a-f]+:[0-9a-f]+:(\d+) ", line)
            if found and int(found[2]) == wanted:
                name = ""
                with contextlib.suppress(OSError):
                    name = Path("/proc", found[1], "comm").read_text(encoding="utf-8", errors="replace").strip()
                return f"{name or 'a process'} (process {found[1]})"
    return "another process"


def held_lock(root: Path) -> str:
    """Return a clause that names the first held lock of a package manager; empty if none is held."""
    for name in LOCKS:
        path = root / name
        try:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            if exc.errno in (errno.EAGAIN, errno.EACCES):
                table = Path("/proc/locks").read_text(encoding="utf-8") if Path("/proc/locks").exists() else ""
                return f"/{name} is held by {lock_holder(path, table)}"
        finally:
            os.close(handle)
    return held_dnf_lock(root)


def held_dnf_lock(root: Path, proc: Path = Path("/proc")) -> str:
    """Return a clause that names the first lock of dnf whose process lives; empty if none does."""
    for name in DNF_LOCKS:
        try:
            number = int((root / name).read_text(encoding="ascii", errors="replace").split()[0])
            command = (proc / str(number) / "comm").read_text(encoding="utf-8", errors="replace").strip()
        except (OSError, ValueError, IndexError):
            # dnf takes over a lock that is missing, empty, or owned by a process that has ended.
            continue
        return f"/{name} is held by {command} (process {number})"
    return ""


def wait_for_locks(host: Host, seconds: float, held: t.Callable[[Path], str] = held_lock) -> str:
    """Wait until no lock is held, for at most ``seconds``; return a clause that names a lock still held, or ""."""
    limit = host.monotonic() + seconds
    while True:
        found = held(Path("/"))
        if not found or host.monotonic() >= limit:
            return found
        host.sleep(POLL_SECONDS)
