# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the files of this scenario's mirror: small packages in place of Enroot's, and a source of a plugin.

    python stand_ins.py FOLDER

Prints the sha256 of each file by its name, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from plugins.plugin_utils._data.artifacts import ARTIFACTS
from tests.rig.mirror.deb import Deb, packed

# Stands in for enroot 4.1 as the role calls it; any other option, number of words or type of address is rejected.
# Grammar: usage of its commands (doc/cmd of NVIDIA/enroot): ADDRESS is docker://[USER@][REGISTRY#]IMAGE[:TAG|@DIGEST].
ENROOT = """#!/bin/sh
refuse() { echo "[ERROR] $1" >&2; exit 1; }
address() {
    case "$1" in
    *[!A-Za-z0-9_.:/#@-]*) refuse "Invalid image reference: $1" ;;
    docker://?* | dockerd://?* | podman://?*) ;;
    *) refuse "Invalid argument: $1" ;;
    esac
}
case "$#:$1" in
1:version) echo @VERSION@ ;;
2:digest)
    address "$2"
    echo sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef ;;
4:import)
    [ "$2" = --output ] || refuse "Unknown option: $2"
    address "$4"
    case "$4" in *missing*) refuse "no such image" ;; esac
    [ ! -e "$3" ] || refuse "File already exists: $3"
    printf '@IMAGE@%s' "$4" >"$3" ;;
*:list | *:remove) ;;
*) refuse "Invalid command: $*" ;;
esac
"""
# A squashfs superblock and the two tables that it names, of 112 bytes; the reference comes behind them.
IMAGE = struct.pack(
    "<4sIIIIHHHHHHQQQ5Q", b"hsqs", 1, 0, 1 << 17, 0, 1, 17, 0, 1, 4, 0, 0, 112, 104, 0, 0, 0, 0, 0
) + struct.pack("<QQ", 0, 96)  # fmt: skip
HOOK = b"#!/bin/sh\n"


def enroot(version: str) -> list[Deb]:
    """Return the two packages of Enroot."""
    program = ENROOT.replace("@VERSION@", version).replace("@IMAGE@", "".join(f"\\{byte:03o}" for byte in IMAGE))
    files = {
        "/usr/bin/enroot": (program.encode(), 0o755),
        "/usr/bin/enroot-aufs2ovlfs": (b"\x7fELF stands in for a program\n", 0o755),
        "/etc/enroot/enroot.conf": (b"#ENROOT_RUNTIME_PATH        ${XDG_RUNTIME_DIR}/enroot\n", 0o644),
        "/usr/share/enroot/hooks.d/50-slurm-pmi.sh": (HOOK, 0o755),
        "/usr/share/enroot/hooks.d/50-slurm-pytorch.sh": (HOOK, 0o755),
    }
    # The real package sets the capabilities of its programs in the same way.
    caps = {"postinst": "#!/bin/sh\nset -e\nsetcap cap_sys_admin,cap_mknod+pe /usr/bin/enroot-aufs2ovlfs\n"}
    depends = f"enroot (= {version}-1), libcap2-bin"
    return [
        Deb("enroot", f"{version}-1", files, architecture="amd64"),
        Deb("enroot+caps", f"{version}-1", scripts=caps, depends=depends, architecture="amd64"),
    ]


def artifact(name: str) -> dict[str, object]:
    """Return the collection's entry of a download."""
    return next(entry for entry in ARTIFACTS if entry["name"] == name)


def main(folder: Path) -> dict[str, str]:
    """Write the files; returns the sha256 of each by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {package.file_name: package.build() for version in ("4.1.1", "4.1.2") for package in enroot(version)}
    source = {path.name: (path.read_bytes(), 0o644) for path in (HERE / "plugin").iterdir()}
    for version in ("0.20.0", "0.24.0"):
        contents[f"v{version}.tar.gz"] = packed({f"pyxis-{version}/{name}": file for name, file in source.items()})
    efa = artifact("aws-efa-installer")["version"]
    contents[f"aws-efa-installer-{efa}.tar.gz"] = packed({"aws-efa-installer/efa_installer.sh": (HOOK, 0o755)})
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
