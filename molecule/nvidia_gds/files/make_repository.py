# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build a local apt repository of small stand-ins for NVIDIA's packages: make_repository.py FOLDER broken|whole.

Names, paths and the link of the alternatives are those of a machine with CUDA 13.0 (libcufile-13-0 1.15.1.6); contents
are ours. nvidia-fs-dkms is built by the real DKMS from a tiny module, which does not compile in the broken repository.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

CUDA = "/usr/local/cuda-13.0"
LIBRARY = f"{CUDA}/targets/x86_64-linux/lib"

CUFILE = """{
    // ours, in the shape of NVIDIA's: comments, tabs, no final order
            "logging": {
                            //"dir": "/home/<xxxx>",
                            "level": "ERROR"
            },
            "execution" : {
                    "max_io_queue_depth": 128,
\t\t    "max_request_parallelism" : 4
            },
            "properties": {
                            // fall back or fail
                            "allow_compat_mode": false,
                            "max_direct_io_size_kb" : 16384
                            //"rdma_dc_key": "0xffeeddcc"
            },
            "denylist": { "mounts": [ ] }
}
"""

# The grammar of gdscheck -p up to GDS 1.15; the values are invented.
GDSCHECK = """#!/bin/sh
cat <<'TEXT'
 GDS release version: 1.15.1.6
 libcufile version: 2.12
 Platform: x86_64
 ============
 ENVIRONMENT:
 ============
 =====================
 DRIVER CONFIGURATION:
 =====================
 NVMe P2PDMA        : Unsupported
 NVMe               : Unsupported
 NVMeOF             : Unsupported
 =====================
 CUFILE CONFIGURATION:
 =====================
 properties.use_compat_mode : true
 ==============
 PLATFORM INFO:
 ==============
 IOMMU: disabled
 Platform verification succeeded
TEXT
"""

MODULE = """#include <linux/module.h>
%s
static int __init begin(void) { return 0; }
static void __exit end(void) { }
module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
MODULE_VERSION("2.26.6");
"""
BROKEN_LINE = "static struct a_type_that_this_kernel_has_no_more nvfs_ops = { .release = 1 };"

MAKEFILE = "obj-m := nvidia-fs.o\nnvidia-fs-y := nvfs.o\n"
DKMS = """PACKAGE_NAME="nvidia-fs"
PACKAGE_VERSION="2.26.6"
BUILT_MODULE_NAME[0]="nvidia-fs"
DEST_MODULE_LOCATION[0]="/updates/dkms"
MAKE[0]="make -C ${kernel_source_dir} M=${dkms_tree}/${PACKAGE_NAME}/${PACKAGE_VERSION}/build modules"
CLEAN="true"
AUTOINSTALL="yes"
"""

ALTERNATIVES = f"""#!/bin/sh
set -e
update-alternatives --install /usr/local/cuda cuda {CUDA} 130
update-alternatives --install /etc/cufile.json cufile.json {CUDA}/gds/cufile.json 130
"""
BUILD = """#!/bin/sh
set -e
/usr/lib/dkms/common.postinst nvidia-fs 2.26.6 /usr/share/nvidia-fs "" "$2"
"""


def packages(kind: str) -> list[tuple[str, str, str, dict[str, str], str]]:
    """Return (name, version, Depends, {path: text}, postinst) of each package."""
    revision = "1" if kind == "broken" else "2"
    module = MODULE % (BROKEN_LINE if kind == "broken" else "")
    source = "/usr/src/nvidia-fs-2.26.6"
    library = {f"{LIBRARY}/libcufile.so.1.15.1": "no library\n", f"{CUDA}/gds/cufile.json": CUFILE}
    build = {f"{source}/dkms.conf": DKMS, f"{source}/Makefile": MAKEFILE, f"{source}/nvfs.c": module}
    everything = f"libcufile-13-0, gds-tools-13-0, nvidia-fs-dkms (>= 2.26.6-{revision})"
    return [
        ("libcufile-13-0", "1.15.1.6-1", "", library, ALTERNATIVES),
        ("gds-tools-13-0", "1.15.1.6-1", "libcufile-13-0", {f"{CUDA}/gds/tools/gdscheck": GDSCHECK}, ""),
        ("nvidia-gds-13-0", f"13.0.2-{revision}", everything, {}, ""),
        ("nvidia-fs-dkms", f"2.26.6-{revision}", "dkms", build, BUILD),
    ]


def build(folder: Path, name: str, version: str, depends: str, files: dict[str, str], postinst: str) -> str:
    """Build one package into folder and return its paragraph of the index."""
    control = f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: tests <tests@localhost>\n"
    control += f"Depends: {depends}\n" if depends else ""
    control += "Description: stand-in of a test\n"
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            file = Path(root + path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            file.chmod(0o755 if text.startswith("#!") else 0o644)
        if name == "libcufile-13-0":
            Path(f"{root}{LIBRARY}/libcufile.so.0").symlink_to("libcufile.so.1.15.1")
        meta = Path(root) / "DEBIAN"
        meta.mkdir()
        (meta / "control").write_text(control, encoding="utf-8")
        if postinst:
            (meta / "postinst").write_text(postinst, encoding="utf-8")
            (meta / "postinst").chmod(0o755)
        Path(root).chmod(0o755)
        archive = folder / f"{name}_{version}_amd64.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", root, str(archive)], check=True)
    data = archive.read_bytes()
    sums = f"Filename: ./{archive.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
    return control + sums


def main(folder: Path, kind: str) -> None:
    """Write the packages and their index into folder."""
    folder.mkdir(parents=True, exist_ok=True)
    index = [build(folder, *package) for package in packages(kind)]
    (folder / "Packages").write_text("\n".join(index), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
