# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits of a boot run before it changes the node, each with a time limit; pause of automatic updates."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, NodeError

from .play import write_json

# Timers that start automatic updates. A service that one of them has already started is not stopped.
TIMERS = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dnf-automatic.timer",
    "dnf-automatic-install.timer",
    "dnf-makecache.timer",
)
# Unit of the Deep Learning AMI that makes a volume of the local disks; it has a time limit of 300 s.
DLAMI_UNIT = "dlami-nvme.service"
POLL_SECONDS = 0.5


class Commands(Protocol):
    """The methods of Host that the waits use."""

    def run(self, argv: Sequence[str], timeout: float = ..., check: bool = ...) -> CommandResult: ...
    def which(self, program: str) -> str | None: ...


@dataclasses.dataclass(frozen=True)
class Wait:
    """One wait: subject, seconds, and the obstacle that remains (empty if none)."""

    what: str
    seconds: float
    obstacle: str = ""


def poll(what: str, obstacle: Callable[[], str], seconds: float) -> Wait:
    """Poll until there is no obstacle, for at most ``seconds``; at least once."""
    begun = time.monotonic()
    while True:
        found = obstacle()
        spent = time.monotonic() - begun
        if not found or spent >= seconds:
            return Wait(what, round(spent, 1), found)
        time.sleep(min(POLL_SECONDS, seconds - spent))


def under_cloud_init(proc: Path = Path("/proc"), process: int | None = None) -> bool:
    """Return whether cloud-init started this process, which must then not wait for cloud-init."""
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
    """Wait for cloud-init unless it started this run; None if there is nothing to wait for."""
    if host.which("cloud-init") is None or under_cloud_init():
        return None
    begun = time.monotonic()
    try:
        # Exit status 0 is done, 1 failed, 2 done with recoverable errors: with each, cloud-init has ended.
        host.run(["cloud-init", "status", "--wait"], timeout=seconds, check=False)
    except Exception as exc:
        return Wait("cloud-init", round(time.monotonic() - begun, 1), f"cloud-init has not ended ({exc})")
    return Wait("cloud-init", round(time.monotonic() - begun, 1))


def wait_for_dlami(host: Commands, seconds: float) -> Wait | None:
    """Wait until the Deep Learning AMI has made its volume; None without such a unit."""
    if host.which("systemctl") is None:
        return None

    def obstacle() -> str:
        states = _systemctl(host, ["show", "-p", "LoadState,ActiveState", DLAMI_UNIT], 20)[0].split()
        working = "LoadState=loaded" in states and "ActiveState=activating" in states
        return f"{DLAMI_UNIT} is still making its volume" if working else ""

    return poll("dlami-nvme", obstacle, seconds) if obstacle() else None


def wait_for_paths(root: Path, paths: Sequence[Path], seconds: float) -> Wait | None:
    """Wait until every path exists; None without paths."""
    if not paths:
        return None

    def missing() -> str:
        gone = [str(path) for path in paths if not (root / str(path).lstrip("/")).exists()]
        return f"{', '.join(gone)} is not there" if gone else ""

    return poll("shared files", missing, seconds)


def repair_dpkg(root: Path, host: Commands, seconds: float) -> str:
    """Finish an interrupted dpkg; return a sentence if that fails, else an empty string."""
    if not any((root / "var/lib/dpkg/updates").glob("[0-9]*")) or host.which("dpkg") is None:
        return ""
    try:
        host.run(["env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--configure", "-a"], timeout=seconds)
    except Exception as exc:
        return f"an interrupted installation could not be finished ({exc})"
    return ""


def end_leftovers(marker: str, seconds: float) -> Wait | None:
    """Kill the ansible-playbook of a killed run, and wait for the commands that it had started on the node.

    ``marker`` is the beginning of the environment entry that marks the processes of earlier runs. The caller holds the
    lock of the runs, so that no other run owns them. Returns None if there are no such processes.
    """

    def left() -> list[tuple[int, bytes]]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if any(entry.startswith(marker.encode()) for entry in (folder / "environ").read_bytes().split(b"\0")):
                    found.append((int(folder.name), (folder / "cmdline").read_bytes()))
        return found

    def obstacle() -> str:
        processes = left()
        for number, words in processes:
            # Child commands such as apt-get may finish.
            if b"ansible-playbook" in words:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
        return (
            f"processes {', '.join(str(number) for number, _words in processes)} of a killed run continue"
            if processes
            else ""
        )

    return poll("an earlier run", obstacle, seconds) if left() else None


@contextlib.contextmanager
def pause_update_timers(host: Commands, record: Path, warn: Callable[[str], None]) -> Iterator[list[str]]:
    """Stop the timers of automatic updates; start them at the end, also those that an earlier, killed run had stopped.

    If systemd does not answer, the run continues. Timers that cannot be started again cause a warning, and the record
    keeps them for the next run.
    """
    stopped = _recorded(record)
    if host.which("systemctl") is not None:
        output, _problem = _systemctl(host, ["list-units", "--plain", "--no-legend", "--state=active", *TIMERS], 20)
        active = [line.split()[0] for line in output.splitlines() if line.split()]
        stopped = [name for name in TIMERS if name in active or name in stopped]
        if active:
            write_json(record, stopped, sync=True)
            _systemctl(host, ["stop", *active], 60)
    try:
        yield stopped
    finally:
        problem = ""
        if stopped and host.which("systemctl") is not None:
            _output, problem = _systemctl(host, ["start", *stopped], 60)
        if problem:
            warn(f"{problem}: see to it with 'systemctl start {' '.join(stopped)}', or the next run does")
        else:
            record.unlink(missing_ok=True)


def _systemctl(host: Commands, words: Sequence[str], seconds: float) -> tuple[str, str]:
    """Return (output, error) of systemctl; the error is empty on success."""
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
