# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Targets and members of a bundle, and the archive that is packed from them."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
import typing as t
from pathlib import Path

from .._node.system.files import replace_file

FAMILIES = ("debian", "redhat", "amazon")
# ansible-core's support matrix: 2.17 is the last for a 3.10 controller, 2.19 for 3.11, 2.21 runs on 3.12 to 3.14.
# One lock serves 3.11 and later, with conditions on the Python; 3.10 needs older packages throughout.
LOCKS = {
    "3.10": "node-py310.txt",
    "3.11": "node.txt",
    "3.12": "node.txt",
    "3.13": "node.txt",
    "3.14": "node.txt",
}
TOP = "mlcluster-bundle"
SHA256 = re.compile(r"[0-9a-f]{64}")


class BundleError(Exception):
    """The bundle cannot be built; the message states what was found and what to do."""


class Target(t.NamedTuple):
    """The nodes that a bundle is for: operating system family and the Python that runs Ansible there."""

    family: str
    python: str

    @property
    def name(self) -> str:
        """Such as ``debian-py3.12``; the key of ``bundles`` in a pointer."""
        return f"{self.family}-py{self.python}"


class Member(t.NamedTuple):
    """One file of the bundle."""

    data: bytes
    executable: bool = False


# By path below the top folder, with slashes.
Members = dict[str, Member]


def parse_target(text: str) -> Target:
    """Parse a target such as ``debian-py3.12``. Raises BundleError for another family or Python."""
    family, dash, python = text.partition("-py")
    if not dash or family not in FAMILIES or python not in LOCKS:
        raise BundleError(
            f"there is no bundle for {text!r}: use a family of {', '.join(FAMILIES)} and a Python of "
            f"{', '.join(LOCKS)}, such as debian-py3.12"
        )
    return Target(family, python)


def file_name(version: str, target: Target) -> str:
    """Return the archive's file name."""
    return f"mlcluster-bundle-{version}-{target.name}.tar.gz"


def sha256(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sums(members: t.Mapping[str, Member]) -> bytes:
    """Return the text of SUMS: what ``sha256sum -b`` prints for each file of the unpacked bundle."""
    return "".join(f"{sha256(members[path].data)} *{TOP}/{path}\n" for path in sorted(members)).encode()


def tree_sha256(members: t.Mapping[str, Member]) -> str:
    """Return one checksum for several files: the SHA-256 of what ``sha256sum`` prints for them, sorted by path."""
    return sha256("".join(f"{sha256(members[path].data)}  {path}\n" for path in sorted(members)).encode())


def _entry(name: str, epoch: int, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mtime, entry.mode = epoch, mode
    entry.uname = entry.gname = "root"
    return entry


def archive(members: t.Mapping[str, Member], epoch: int) -> bytes:
    """Return the tar.gz as bytes: sorted, owned by root, dated ``epoch`` (seconds since 1970): reproducible.

    Raises BundleError for a path that would leave the top folder, and for a path that is both a file and a folder (only
    the folder would be packed).
    """
    # An empty part or "." gives a file a second path, under which it would take another's place.
    astray = [path for path in members if not {"", ".", ".."}.isdisjoint(path.split("/"))]
    if astray:
        raise BundleError(f"{', '.join(sorted(astray))} would be unpacked elsewhere: check which package contains it")
    folders = {TOP}
    for path in members:
        parts = path.split("/")[:-1]
        folders.update("/".join([TOP, *parts[:count]]) for count in range(1, len(parts) + 1))
    files = {f"{TOP}/{path}": member for path, member in members.items()}
    if both := sorted(folders & files.keys()):
        raise BundleError(f"{', '.join(both)} is a file and a folder of other files: check which packages contain it")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as target:
        for name in sorted([*folders, *files]):
            if name in folders:
                entry = _entry(name, epoch, 0o755)
                entry.type = tarfile.DIRTYPE
                target.addfile(entry)
                continue
            member = files[name]
            entry = _entry(name, epoch, 0o755 if member.executable else 0o644)
            entry.size = len(member.data)
            target.addfile(entry, io.BytesIO(member.data))
    # mtime=0 leaves the clock out of the header of gzip too.
    return gzip.compress(buffer.getvalue(), compresslevel=6, mtime=0)


def write_file(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace ``path`` atomically. Raises BundleError when the directory cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data, mode)
    except OSError as exc:
        raise BundleError(f"{path} cannot be written ({exc.strerror}); name another directory") from exc
