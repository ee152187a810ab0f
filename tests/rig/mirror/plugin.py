# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compiles shared objects that a loader can or cannot open."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

# The symbols that NCCL looks up in a network plugin (its documentation of net plugins), and the version as a string.
SOURCE = """
const char mlcluster_plugin_version[] = "NET/OFI Initializing aws-ofi-nccl {version}";
const char *const ncclNetPlugin_v8 = mlcluster_plugin_version;
"""


def compile_plugin(version: str, name: str = "libnccl-net-ofi.so", loadable: bool = True) -> bytes:
    """Compile a plugin of that version; if it is not loadable, it needs a library that does not exist."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "plugin.c"), Path(folder, name)
        source.write_text(SOURCE.format(version=version), encoding="utf-8")
        command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-O1", f"-Wl,-soname,{name}", "-Wl,--build-id=none"]
        needed = []
        if not loadable:
            empty, library = Path(folder, "empty.c"), Path(folder, "libmlcluster-nowhere.so.1")
            empty.write_text("int mlcluster_nowhere;\n", encoding="utf-8")
            _run([*command[:5], f"-Wl,-soname,{library.name}", str(empty), "-o", str(library)])
            needed = ["-Wl,--no-as-needed", str(library)]
        _run([*command, str(source), *needed, "-o", str(target)])
        return target.read_bytes()


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=600, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
