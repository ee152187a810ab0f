# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide whether files in a path are visible to other machines, or are written to this machine's root disk.

A path on a file system that is not mounted is silently created on the root disk, and every job that looks for it on
another node fails.
"""

from __future__ import annotations

import posixpath
import typing as t

from .host import CommandError, Host, NodeError
from .mounts import SHARED_FILESYSTEMS, read_mounts

# The current exports of this machine's NFS server (exportfs(8)): a path, a tab, the clients that may mount it.
EXPORTS = "/var/lib/nfs/etab"
# Time limit for an answer of a file system before its servers count as unreachable.
ANSWER_SECONDS = 20


def look(host: Host, path: str, timeout: float) -> dict[str, t.Any]:
    """Return the place of an existing or new path: path, mount, source, fstype, state, why.

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
    """Raise ``NodeError`` if the file system of a path gives no answer: reading it would block for ever."""
    try:
        # A missing path is also an answer.
        host.run(["stat", "--format=%F", "--", path], timeout=ANSWER_SECONDS, check=False)
    except CommandError as exc:
        raise NodeError(f"{exc}: look with 'dmesg' whether its servers answer, and run again") from None


def exports(host: Host) -> list[str]:
    """Return the paths that this machine currently exports by NFS."""
    rows = (host.read_text(EXPORTS) or "").splitlines()
    return sorted({row.split("\t")[0] for row in rows if "\t" in row})


def shared_mounts(host: Host) -> list[str]:
    """Return the mount points of network file systems and the exports of this machine, sorted."""
    entries = read_mounts(host)
    return sorted(
        {str(entry["target"]) for entry in entries if entry["fstype"] in SHARED_FILESYSTEMS} | set(exports(host))
    )


def problem(seen: t.Mapping[str, t.Any], elsewhere: t.Sequence[str]) -> str:
    """Return why files should not be written there, in a sentence; empty if they may. elsewhere: ``shared_mounts``."""
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
    """Return the mount point of a path, or of its nearest existing parent."""
    while True:
        # A dot at the end, so that links are followed and an automount is triggered.
        completed = host.run(["stat", "--format=%m", "--", f"{path.rstrip('/')}/."], timeout=timeout, check=False)
        if completed.rc == 0:
            return completed.stdout.strip()
        if path in ("/", ""):
            raise CommandError(
                ["stat", path], completed.rc, completed.stdout, completed.stderr, "the root directory was not read"
            )
        path = posixpath.dirname(path)


def _below(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top.rstrip('/')}/")
