# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small, reproducible Debian packages (deb(5))."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

# {path on the node: (content, mode)}.
Files = Mapping[str, tuple[bytes, int]]


def packed(files: Files) -> bytes:
    """Return a gzip-compressed tar of these files and their parent directories, owned by root and without times."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        seen = set()
        for path, (data, mode) in sorted(files.items()):
            name = PurePosixPath(path.lstrip("/"))
            for folder in reversed(list(name.parents)[:-1]):
                if folder not in seen:
                    seen.add(folder)
                    member = tarfile.TarInfo(f"./{folder}")
                    member.type, member.mode = tarfile.DIRTYPE, 0o755
                    archive.addfile(member)
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mode = len(data), mode
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)


@dataclass(frozen=True)
class Deb:
    """A package: its files, its maintainer scripts (preinst, postinst, prerm, postrm) and its dependencies."""

    name: str
    version: str
    files: Files = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    depends: str = ""
    architecture: str = "all"

    @property
    def file_name(self) -> str:
        return f"{self.name}_{self.version}_{self.architecture}.deb"

    def control(self) -> bytes:
        """Return the control file."""
        fields = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": self.architecture,
            "Maintainer": "mlcluster.aws contributors <nobody@example.com>",
            "Depends": self.depends,
            "Description": "stand-in made by the tests",
        }
        return "".join(f"{key}: {value}\n" for key, value in fields.items() if value).encode()

    def build(self) -> bytes:
        """Return the package as a file."""
        control: dict[str, tuple[bytes, int]] = {"control": (self.control(), 0o644)}
        control.update({name: (text.encode(), 0o755) for name, text in self.scripts.items()})
        configuration = [path for path in self.files if path.startswith("/etc/")]
        if configuration:
            control["conffiles"] = ("".join(f"{path}\n" for path in sorted(configuration)).encode(), 0o644)
        members = (
            ("debian-binary", b"2.0\n"),
            ("control.tar.gz", packed(control)),
            ("data.tar.gz", packed(self.files)),
        )
        return b"!<arch>\n" + b"".join(_member(name, data) for name, data in members)


def _member(name: str, data: bytes) -> bytes:
    """Return one member of an ar archive: a header of 60 bytes, then the data, padded to an even length."""
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
    return header.encode() + data + (b"\n" if len(data) % 2 else b"")
