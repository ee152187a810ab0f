# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a boot run waits for before it touches the node, each with a bound, and what it keeps quiet meanwhile."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

from .play import write_json

# Held with fcntl by apt, dpkg and rpm while they work.
LOCKS = (
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/lock",
    "var/lib/apt/lists/lock",
    "var/cache/apt/archives/lock",
    "var/lib/rpm/.rpm.lock",
    "usr/lib/sysimage/rpm/.rpm.lock",
)
# Each has the number of the process that holds it, as long as that lives (dnf/lock.py of dnf 4).
DNF_LOCKS = (
    "var/cache/dnf/metadata_lock.pid",
    "var/cache/dnf/download_lock.pid",
    "var/lib/dnf/rpmdb_lock.pid",
)
# What begins package work by itself; the services behind them are left to end.
TIMERS = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dnf-automatic.timer",
    "dnf-automatic-install.timer",
    "dnf-makecache.timer",
)
# It makes a volume of the local disks, within 300 s by its own limit.
DLAMI_UNIT = "dlami-nvme.service"
POLL_SECONDS = 0.5


class Commands(Protocol):
    """What is needed of the node's Host."""

    def run(self, argv: Sequence[str], timeout: float = ..., check: bool = ...): ...
    def which(self, program: str) -> str | None: ...


@dataclasses.dataclass(frozen=True)
class Wait:
    """One wait: what for, how long, and what is still in the way (empty when nothing is)."""

    what: str
    seconds: float
    obstacle: str = ""


def poll(what: str, obstacle: Callable[[], str], seconds: float) -> Wait:
    """Ask until nothing is in the way, for at most ``seconds``; at least once."""
    begun = time.monotonic()
    while True:
        found = obstacle()
        spent = time.monotonic() - begun
        if not found or spent >= seconds:
            return Wait(what, round(spent, 1), found)
        time.sleep(min(POLL_SECONDS, seconds - spent))


def lock_holder(path: Path, table: str) -> str:
    """Who holds a lock on the file by /proc/locks: "apt-get (process 4711)", or what little is known."""
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
    """A sentence part about the first lock of a package manager that is held, or nothing."""
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
    """A sentence part about the first lock of dnf whose process lives, or nothing."""
    for name in DNF_LOCKS:
        try:
            number = int((root / name).read_text(encoding="ascii", errors="replace").split()[0])
            command = (proc / str(number) / "comm").read_text(encoding="utf-8", errors="replace").strip()
        except (OSError, ValueError, IndexError):
            # None, an empty one, or one of a process that has ended, which dnf takes over.
            continue
        return f"/{name} is held by {command} (process {number})"
    return ""


def under_cloud_init(proc: Path = Path("/proc"), process: int | None = None) -> bool:
    """Whether cloud-init started this process: waiting for its end would never end."""
    number = process or os.getpid()
    for _generation in range(64):
        try:
            words = (proc / str(number) / "cmdline").read_bytes()
            status = (proc / str(number) / "status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        if b"cloud-init" in words or b"cfn-init" in words:
            return True
        parent = re.search(r"^PPid:\s*(\d+)", status, re.MULTILINE)
        number = int(parent[1]) if parent else 0
        if number <= 1:
            return False
    return False


def wait_for_cloud_init(host: Commands, seconds: float) -> Wait | None:
    """Let cloud-init end, unless it is what started this run; None where there is nothing to wait for."""
    if host.which("cloud-init") is None or under_cloud_init():
        return None
    begun = time.monotonic()
    try:
        # 0 done, 1 failed, 2 done with recoverable errors: either way it is over.
        host.run(["cloud-init", "status", "--wait"], timeout=seconds, check=False)
    except Exception as exc:
        return Wait("cloud-init", round(time.monotonic() - begun, 1), f"cloud-init has not ended ({exc})")
    return Wait("cloud-init", round(time.monotonic() - begun, 1))


def wait_for_dlami(host: Commands, seconds: float) -> Wait | None:
    """Let the Deep Learning AMI finish its volume; None where it has no such unit."""
    if host.which("systemctl") is None:
        return None

    def obstacle() -> str:
        shown = _systemctl(host, ["show", "-p", "LoadState,ActiveState", DLAMI_UNIT], 20)[0].split()
        working = "LoadState=loaded" in shown and "ActiveState=activating" in shown
        return f"{DLAMI_UNIT} is still making its volume" if working else ""

    return poll("dlami-nvme", obstacle, seconds) if obstacle() else None


def wait_for_paths(root: Path, paths: Sequence[Path], seconds: float) -> Wait | None:
    """Let the head node write, or a filesystem appear: every path has to be there."""
    if not paths:
        return None

    def missing() -> str:
        gone = [str(path) for path in paths if not (root / str(path).lstrip("/")).exists()]
        return f"{', '.join(gone)} is not there" if gone else ""

    return poll("shared files", missing, seconds)


def mend_dpkg(root: Path, host: Commands, seconds: float) -> str:
    """Finish what a killed dpkg left half done; a sentence where it cannot be, nothing where all is well."""
    if not any((root / "var/lib/dpkg/updates").glob("[0-9]*")) or host.which("dpkg") is None:
        return ""
    try:
        host.run(["env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--configure", "-a"], timeout=seconds)
    except Exception as exc:
        return f"an interrupted installation could not be finished ({exc})"
    return ""


def end_leftovers(marker: str, seconds: float, proc: Path = Path("/proc")) -> Wait | None:
    """End the ansible-playbook of a run that was killed, and let what it had begun on the node come to its end.

    ``marker`` is the beginning of the environment entry by which the processes of earlier runs are known. The caller
    holds the lock of the runs, so none of them belongs to anybody. None where there are none.
    """

    def left() -> list[tuple[int, bytes]]:
        found = []
        for folder in proc.glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if any(entry.startswith(marker.encode()) for entry in (folder / "environ").read_bytes().split(b"\0")):
                    found.append((int(folder.name), (folder / "cmdline").read_bytes()))
        return found

    def obstacle() -> str:
        processes = left()
        for number, words in processes:
            # What it started on the node, such as apt-get, is not to be cut short.
            if b"ansible-playbook" in words:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
        return (
            f"processes {', '.join(str(number) for number, _words in processes)} of a killed run go on"
            if processes
            else ""
        )

    return poll("an earlier run", obstacle, seconds) if left() else None


@contextlib.contextmanager
def quiet_updates(host: Commands, record: Path, warn: Callable[[str], None]) -> Iterator[list[str]]:
    """Stop what updates packages by itself, and start it again at the end, also what a killed run had stopped.

    It is a courtesy to the roles: a systemd that does not answer fails no run. What could not be started again is told,
    and stays in the record for the next run.
    """
    stopped = _recorded(record)
    if host.which("systemctl") is not None:
        shown, _problem = _systemctl(host, ["list-units", "--plain", "--no-legend", "--state=active", *TIMERS], 20)
        active = [line.split()[0] for line in shown.splitlines() if line.split()]
        stopped = [name for name in TIMERS if name in active or name in stopped]
        if active:
            write_json(record, stopped)
            _systemctl(host, ["stop", *active], 60)
    try:
        yield stopped
    finally:
        problem = ""
        if stopped and host.which("systemctl") is not None:
            _said, problem = _systemctl(host, ["start", *stopped], 60)
        if problem:
            warn(f"{problem}: see to it with 'systemctl start {' '.join(stopped)}', or the next run does")
        else:
            record.unlink(missing_ok=True)


def _systemctl(host: Commands, words: Sequence[str], seconds: float) -> tuple[str, str]:
    """What systemctl said, and why it did not do it, empty where it did."""
    try:
        return host.run(["systemctl", *words], timeout=seconds).stdout, ""
    except NodeError as exc:
        return "", str(exc)


def _recorded(record: Path) -> list[str]:
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [name for name in found if name in TIMERS] if isinstance(found, list) else []
