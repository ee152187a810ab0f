# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of the mirror.

Names, paths and the installer's structure are the real ones (efa_installer.sh 1.17 and 1.22, the EC2 User Guide,
package lists of aws-ofi-nccl); the contents are invented and have no function.
"""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from pathlib import Path
from typing import Any

from . import plugin, signing
from .deb import Deb, packed

OLDER, PINNED, NEWER = "1.50.0", "1.51.0", "1.52.0"
OFI_VERSIONS = {OLDER: "1.21.1", PINNED: "1.22.0", NEWER: "1.23.0"}
LIBFABRIC_VERSIONS = {OLDER: "2.6.0amzn1.0", PINNED: "2.7.0amzn2.0", NEWER: "2.8.0amzn1.0"}
TRIPLET = f"{platform.machine()}-linux-gnu"
# Early installers put the plugin outside of the loader's paths.
PLUGIN_FOLDERS = {
    OLDER: "/opt/amazon/ofi-nccl/lib",
    PINNED: f"/opt/amazon/ofi-nccl/lib/{TRIPLET}",
    NEWER: f"/opt/amazon/ofi-nccl/lib/{TRIPLET}",
}
NCCL_TESTS = "2.19.6"
SCRIPT = Path(__file__).parent / "efa_installer.sh"

# A node without an EFA device: libfabric's FI_ENODATA (fi_getinfo(3)).
FI_INFO = """#!/bin/sh
if [ "$1" = --version ]; then
    echo "/opt/amazon/efa/bin/fi_info: {version}"
    echo "libfabric: {version}"
    echo "libfabric api: 2.5"
    exit 0
fi
echo "fi_getinfo: -61 (No data available)" >&2
exit 61
"""

# nccl-tests' Makefile has the same variables; without MPI=1 its programs run on one node only.
MAKEFILE = """all:
\ttest "$(MPI)" = 1
\tmkdir -p build
\tprintf '#!/bin/sh\\necho MPI_HOME=%s CUDA_HOME=%s\\n' "$(MPI_HOME)" "$(CUDA_HOME)" > build/all_reduce_perf
\tchmod 755 build/all_reduce_perf
.PHONY: all
"""


def installer_packages(version: str) -> list[Deb]:
    """Return the packages in an installer of this version."""
    folder = PLUGIN_FOLDERS[version]
    ofi: dict[str, tuple[bytes, int]] = {
        f"{folder}/libnccl-net-ofi.so": (plugin.compile_plugin(OFI_VERSIONS[version]), 0o755)
    }
    if version != OLDER:
        ofi["/etc/ld.so.conf.d/100_ofinccl.conf"] = (f"{folder}\n".encode(), 0o644)
    fi_info = FI_INFO.format(version=LIBFABRIC_VERSIONS[version]).encode()
    limits = b"* soft memlock unlimited\n* hard memlock unlimited\n"
    return [
        Deb("efa-config", "1.18", {"/etc/security/limits.d/01_efa.conf": (limits, 0o644)}),
        Deb("efa-profile", "1.7", {"/etc/profile.d/efa.sh": (b"PATH=/opt/amazon/efa/bin:$PATH\n", 0o644)}),
        Deb("libfabric1-aws", LIBFABRIC_VERSIONS[version], {"/opt/amazon/efa/bin/fi_info": (fi_info, 0o755)}),
        Deb("libnccl-ofi", OFI_VERSIONS[version], ofi, {"postinst": "#!/bin/sh\nldconfig\n"}),
    ]


def installer(version: str) -> bytes:
    """Return aws-efa-installer-VERSION.tar.gz."""
    files = {
        "aws-efa-installer/efa_installer.sh": (SCRIPT.read_bytes(), 0o755),
        "aws-efa-installer/env.sh": (f"EFA_INSTALLER_VERSION={version}\n".encode(), 0o644),
    }
    for package in installer_packages(version):
        files[f"aws-efa-installer/DEBS/{package.file_name}"] = (package.build(), 0o644)
    return packed(files)


def packages() -> list[Deb]:
    """Return stand-ins for packages that are published as single files."""
    names = {"libnccl2": ("2.28.9-1+cuda13.0", "libnccl.so.2"), "libgdrapi": ("2.5.1-1", "libgdrapi.so.2")}
    return [
        Deb(name, version, {f"/usr/lib/{TRIPLET}/{library}": (plugin.compile_plugin(version, library), 0o644)})
        for name, (version, library) in names.items()
    ]


def package_list(debs: list[Deb]) -> bytes:
    """Return the index of a flat apt repository: the list of its packages (deb822)."""
    entries = []
    for package in debs:
        data = package.build()
        fields = f"Filename: ./{package.file_name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
        entries.append(package.control().decode() + fields)
    return "\n".join(entries).encode()


def nccl_tests() -> bytes:
    """Return the source archive of nccl-tests in GitHub's format, with a folder of name and version."""
    return packed({f"nccl-tests-{NCCL_TESTS}/Makefile": (MAKEFILE.encode(), 0o644)})


def make(folder: Path) -> dict[str, Any]:
    """Fill ``folder``; return ``{fingerprint, sha256: {relative path: hex}}``, which is also in its facts.json."""
    files: dict[str, bytes] = {f"aws-efa-installer-{version}.tar.gz": installer(version) for version in OFI_VERSIONS}
    debs = packages()
    files |= {package.file_name: package.build() for package in debs}
    files["Packages"] = package_list(debs)
    files[f"v{NCCL_TESTS}.tar.gz"] = nccl_tests()
    # The same file with a signature of another key.
    pinned = f"aws-efa-installer-{PINNED}.tar.gz"
    files[f"forged/{pinned}"] = files[pinned]
    # A valid signature of other contents.
    files[f"other/{pinned}"] = packed({"another-installer/efa_installer.sh": (b"#!/bin/sh\n", 0o755)})
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    with tempfile.TemporaryDirectory(prefix="key-") as homes:
        keys = [signing.Key(Path(homes) / name, f"{name} <{name}@example.com>") for name in ("publisher", "stranger")]
        try:
            for name in [name for name in files if "aws-efa-installer" in name]:
                key = keys[1 if name.startswith("forged/") else 0]
                (folder / f"{name}.sig").write_bytes(key.sign(folder / name))
            for place in (folder, folder / "forged", folder / "other"):
                (place / "aws-efa-installer.key").write_bytes(keys[0].public())
            facts = {
                "fingerprint": keys[0].fingerprint,
                "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
            }
        finally:
            for key in keys:
                key.close()
    (folder / "facts.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return facts
