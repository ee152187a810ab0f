# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mount table of the kernel, fstab, and the mount of a path."""

from __future__ import annotations

import posixpath
import re
import typing as t

from .host import Host, NodeError

MOUNTINFO = "/proc/self/mountinfo"
FSTAB = "/etc/fstab"
# File systems that other machines also write, by name. Enroot cannot unpack on them, since it needs whiteouts,
# extended attributes and device-less user namespaces.
SHARED_FILESYSTEMS = {
    "nfs": "NFS",
    "nfs4": "NFS",
    "lustre": "Lustre",
    "efs": "EFS",
    "cifs": "SMB",
    "fuse.sshfs": "sshfs",
    "fuse.mount-s3": "Mountpoint for S3",
    "fuse.s3fs": "s3fs",
    "beegfs": "BeeGFS",
    "ceph": "Ceph",
    "wekafs": "WekaFS",
    "gpfs": "Storage Scale",
    "virtiofs": "virtiofs",
    "9p": "9p",
}


def read_mounts(host: Host) -> list[dict[str, t.Any]]:
    """Return the mounts of this machine as ``parse_mountinfo`` does.

    Raises ``NodeError`` if the table is unreadable or has a line that is not a mount: an unread mount could exist.
    """
    text = host.read_text(MOUNTINFO)
    mounts = parse_mountinfo(text or "")
    if not mounts or len(mounts) != sum(1 for line in (text or "").split("\n") if line):
        found = "no table" if text is None else "an empty table" if not text.strip() else "a line that is not a mount"
        raise NodeError(
            f"read {MOUNTINFO} and found {found}, so it is unknown what is mounted: mount /proc (in a container or "
            "chroot, that of the host), then run again"
        )
    return mounts


def read_fstab(host: Host) -> list[dict[str, str]]:
    """Return the lines of fstab as ``parse_fstab`` does; none without fstab. Raises ``NodeError``."""
    text = host.read_text(FSTAB)
    if text is None and host.exists(FSTAB):
        raise NodeError(f"read {FSTAB} and got nothing: check that it is a plain file and readable, then run again")
    return parse_fstab(text or "")


def parse_mountinfo(text: str) -> list[dict[str, t.Any]]:
    """Parse /proc/self/mountinfo into a list of {target, source, fstype, options, device, root}, in mount order."""
    mounts: list[dict[str, t.Any]] = []
    # Not splitlines: the kernel does not escape other separators in a path, and no mount may be overlooked.
    for line in text.split("\n"):
        left, separator, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if not separator or len(fields) < 6 or len(tail) < 2:
            continue
        options = fields[5] + ("," + tail[2] if len(tail) > 2 else "")
        mounts.append(
            {
                "target": unescape(fields[4]),
                "source": unescape(tail[1]),
                "fstype": tail[0],
                "options": options,
                "device": fields[2],
                "root": unescape(fields[3]),
            }
        )
    return mounts


def unescape(field: str) -> str:
    """Return a field of mountinfo or swaps with its octal escapes resolved."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)


def mount_unit(path: str) -> str:
    """Return the name of systemd's mount unit for a path, escaped as systemd-escape --path does."""
    parts = path.strip("/").encode()
    kept = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_."
    escaped = "".join(
        "-" if byte == 0x2F else chr(byte) if byte in kept and (index or byte != 0x2E) else f"\\x{byte:02x}"
        for index, byte in enumerate(parts)
    )
    return f"{escaped}.mount"


def parse_fstab(text: str) -> list[dict[str, str]]:
    """Return the lines of fstab as {src, path, fstype, opts, dump, passno}; comments and broken lines are left out."""
    keys = ("src", "path", "fstype", "opts", "dump", "passno")
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [dict(zip(keys, [*row, "0", "0"])) for row in rows if len(row) >= 4]


def mounts_on(line: t.Mapping[str, str], path: str) -> bool:
    """Return whether a line of fstab mounts on a path: it may be written with octal escapes or a slash at its end."""
    # Two leading slashes stay two (POSIX, pathname resolution).
    found, wanted = (posixpath.normpath(f"/{one.strip('/')}") for one in (unescape(line["path"]), path))
    return found == wanted


def find_mount(path: str, mounts: list[dict[str, t.Any]]) -> dict[str, t.Any] | None:
    """Return the mount of a real path (without links): the longest target, and the last of several there.

    None without a match. mounts are in the order of the kernel's table.
    """
    best: dict[str, t.Any] | None = None
    for mount in mounts:
        target = mount["target"].rstrip("/")
        if path != mount["target"] and not path.startswith(target + "/"):
            continue
        if best is None or len(target) >= len(best["target"].rstrip("/")):
            best = mount
    return best
