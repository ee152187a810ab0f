# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether what is written to a path can be seen by other machines, or lands on this machine's root disk.

A path that names a file system nobody has mounted is made on the root disk without a word, and every job that looks for
it on another node fails.
"""

from __future__ import annotations

import posixpath
import typing as t

from .host import CommandError, Host, NodeError
from .mounts import SHARED_FILESYSTEMS, read_mounts

# The table of what the NFS server of this machine exports now (exportfs(8)): a path, a tab, who may mount it.
EXPORTS = "/var/lib/nfs/etab"
# How long a file system may take to tell what a path is before it counts as one whose servers are away.
ANSWER_SECONDS = 20


def look(host: Host, path: str, timeout: float) -> dict[str, t.Any]:
    """Where a path is, or would be made: path, mount, source, fstype, state, why.

    state is shared (a network file system, or below an NFS export of this machine), local (a disk of its own), root
    (the root file system), silent (no answer within timeout seconds, with why). An automount is touched on the way.
    """
    seen: dict[str, t.Any] = {"path": path, "mount": None, "source": None, "fstype": None, "state": "silent", "why": ""}
    try:
        mount = _mount_point(host, path, timeout)
    except CommandError as exc:
        return {**seen, "why": str(exc)}
    for entry in read_mounts(host):
        if entry["target"] == mount and entry["fstype"] != "autofs":
            seen.update(source=entry["source"], fstype=entry["fstype"])
    if seen["fstype"] in SHARED_FILESYSTEMS or any(_below(path, export) for export in exports(host)):
        state = "shared"
    else:
        state = "root" if mount == "/" else "local"
    return {**seen, "mount": mount, "state": state}


def demand_answer(host: Host, path: str) -> None:
    """Raise ``NodeError`` where the file system of a path gives no answer: whoever reads it then waits for ever."""
    try:
        # A missing path is an answer too.
        host.run(["stat", "--format=%F", "--", path], timeout=ANSWER_SECONDS, check=False)
    except CommandError as exc:
        raise NodeError(f"{exc}: look with 'dmesg' whether its servers answer, and run again") from None


def exports(host: Host) -> list[str]:
    """Paths that this machine lets others mount by NFS now."""
    rows = (host.read_text(EXPORTS) or "").splitlines()
    return sorted({row.split("\t")[0] for row in rows if "\t" in row})


def shared_mounts(host: Host) -> list[str]:
    """Mount points of network file systems, and what this machine exports, sorted."""
    entries = read_mounts(host)
    return sorted(
        {str(entry["target"]) for entry in entries if entry["fstype"] in SHARED_FILESYSTEMS} | set(exports(host))
    )


def problem(seen: t.Mapping[str, t.Any], elsewhere: t.Sequence[str]) -> str:
    """Why files should not be written there, in one sentence; empty where they may. elsewhere: ``shared_mounts``."""
    if seen["state"] == "silent":
        return f"{seen['path']} gives no answer: {seen['why']}"
    if seen["state"] != "root":
        return ""
    known = f"shared here are {', '.join(elsewhere)}" if elsewhere else "nothing that is shared is mounted here"
    return (
        f"{seen['path']} is on no mount: its files would land on this machine's root disk, where no other node sees "
        f"them; {known}"
    )


def _mount_point(host: Host, path: str, timeout: float) -> str:
    """The mount point of a path, or of the nearest directory above it that is there."""
    while True:
        # A dot at the end, so that links are followed and an automount mounts.
        done = host.run(["stat", "--format=%m", "--", f"{path.rstrip('/')}/."], timeout=timeout, check=False)
        if done.rc == 0:
            return done.stdout.strip()
        if path in ("/", ""):
            raise CommandError(["stat", path], done.rc, done.stdout, done.stderr, "the root directory was not read")
        path = posixpath.dirname(path)


def _below(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top.rstrip('/')}/")
