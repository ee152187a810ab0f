# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node with Lustre: real directories below one folder, and programs that answer as Lustre's own do.

The output of lfs, lctl and lnetctl has the format of their manuals; the figures are invented.
"""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.parse import HSM_BITS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult, Host

ME, MY_GROUP = str(os.getuid()), str(os.getgid())
SOURCE = "10.0.1.7@tcp:/abcdefgh"
KERNEL = "6.8.0-1021-aws"


def number(text: str) -> int:
    """16M as bytes."""
    return int(text[:-1]) * {"M": 1 << 20, "G": 1 << 30}[text[-1]]


def layout_text(argv: t.Sequence[str]) -> str:
    """Return the output of 'lfs getstripe -d' after this setstripe."""
    parts: list[dict[str, str]] = []
    for flag, value in zip(argv[2:-1:2], argv[3:-1:2]):
        if flag == "-E" or not parts:
            parts.append({})
        parts[-1][flag] = value
    if "-E" not in parts[0]:
        size = number(parts[0]["-S"]) if "-S" in parts[0] else 1048576
        return f"stripe_count:  {parts[0]['-c']} stripe_size:   {size} pattern:       raid0 stripe_offset: -1\n"
    rows = ["  lcm_layout_gen:    0", f"  lcm_entry_count:   {len(parts)}"]
    for part in parts:
        end = "EOF" if part["-E"] == "-1" else number(part["-E"])
        size = number(part["-S"]) if "-S" in part else 1048576
        rows += ["    lcme_id:             N/A", f"    lcme_extent.e_end:   {end}"]
        rows.append(f"      stripe_count:  {part['-c']}       stripe_size:   {size}       pattern:       raid0")
    return "\n".join(rows) + "\n"


class LustreHost(Host):
    """mounts: path to the output of stat for its file system; parameters: those of lctl; files: texts by path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mounts: dict[str, str] = {}
        self.autofs: set[str] = set()
        self.source: dict[str, str] = {}
        self.options = "rw,flock"
        self.parameters: dict[str, dict[str, str]] = {}
        self.files = {
            "/proc/sys/kernel/osrelease": f"{KERNEL}\n",
            f"/lib/modules/{KERNEL}/modules.dep": "",
            "/proc/meminfo": "MemTotal:       16777216 kB\n",
            "/proc/cpuinfo": "processor\t: 0\nprocessor\t: 1\n",
        }
        self.layouts: dict[str, str] = {}
        self.hsm: dict[str, int] = {}
        self.nets = ""
        # Output of 'lnetctl peer show -v'.
        self.peers = ""
        # Address of every DNS name; empty if DNS has none.
        self.address = "10.0.1.7"
        self.broken: dict[str, str] = {}
        self.ran: list[list[str]] = []
        self.clock = 0.0

    def mount(self, name: str, kind: str = "lustre") -> str:
        path = self.root / name
        path.mkdir()
        self.mounts[str(path)] = kind
        return str(path)

    def which(self, program):
        return None if program in self.broken else f"/usr/bin/{program}"

    def read_text(self, path):
        if path == "/proc/self/mountinfo":
            rows = [
                f"{index} 1 0:{index} / {mount} rw shared:1 - "
                + (
                    "autofs systemd-1 rw"
                    if mount in self.autofs
                    else f"{kind} {self.source.get(mount, SOURCE)} {self.options}"
                )
                for index, (mount, kind) in enumerate(self.mounts.items(), 40)
            ]
            return "\n".join(["29 1 8:1 / / rw - ext4 /dev/root rw", *rows]) + "\n"
        return self.files.get(path)

    def listdir(self, path):
        return sorted({name[len(path) + 1 :].split("/")[0] for name in self.files if name.startswith(f"{path}/")})

    def exists(self, path):
        return any(name == path or name.startswith(f"{path}/") for name in self.files)

    def sha256(self, path):
        return None

    def monotonic(self):
        return self.clock

    def sleep(self, seconds):
        self.clock += seconds

    def run(self, argv, timeout=120, check=True, stdin=None):
        self.ran.append(list(argv))
        if argv[0] in self.broken:
            return CommandResult(1, "", self.broken[argv[0]])
        answer = getattr(self, f"_{argv[0].replace('-', '_')}", None)
        if answer is None:
            raise CommandError(argv, None, "", "", "the program is not installed")
        return answer(list(argv))

    def _stat(self, argv):
        path = argv[-1].removesuffix("/.")
        kind = self.mounts.get(path, "ext2/ext3")
        if kind == "hangs":
            raise CommandError(argv, None, "", "", "no answer within 5 seconds")
        return CommandResult(0, f"{kind}\n", "")

    def _dpkg_query(self, argv):
        return CommandResult(0, "lustre-client-modules-x\t2.15.6\tii \nlinux-image-aws\t6.8\thi \n", "")

    def _getent(self, argv):
        assert argv[1] == "ahostsv4" and len(argv) == 3, argv
        if not self.address:
            return CommandResult(2, "", "")
        kinds = ("STREAM", "DGRAM", "RAW")
        return CommandResult(0, "".join(f"{self.address}        {kind:6} {argv[2]}\n" for kind in kinds), "")

    def _modinfo(self, argv):
        known = argv[2] == KERNEL
        return CommandResult(0 if known else 1, "2.15.6\n" if known else "", "" if known else "not found")

    def _lctl(self, argv):
        if argv[1] == "get_param":
            values = self.parameters.get(argv[2], {})
            return CommandResult(0, "".join(f"{name}={value}\n" for name, value in values.items()), "")
        name, _equals, value = argv[2].partition("=")
        self.parameters[name] = dict.fromkeys(self.parameters[name], value)
        return CommandResult(0, "", "")

    def _lnetctl(self, argv):
        assert argv[1:] in (["net", "show", "-v"], ["peer", "show", "-v"]), argv
        return CommandResult(0, self.nets if argv[1] == "net" else self.peers, "")

    def _lfs(self, argv):
        where = os.getcwd()
        if argv[1] == "getname":
            assert len(argv) == 3, argv
            return CommandResult(0, f"{self.source.get(argv[2], SOURCE).rpartition('/')[2]}-ffff9b3c {argv[2]}\n", "")
        if argv[1] == "setstripe":
            self.layouts[str(os.stat(".").st_ino)] = layout_text(argv)
            return CommandResult(0, "", "")
        if argv[1] == "getstripe":
            return CommandResult(0, self.layouts.get(str(os.stat(".").st_ino), f"{where}\n"), "")
        return getattr(self, argv[1])(argv[2:])

    def hsm_state(self, paths):
        rows = []
        for path in paths:
            flags = self.hsm.get(path, 0)
            words = " ".join(name for name, bit in HSM_BITS.items() if flags & bit)
            rows.append(f"{path}: ({flags:#010x})" + (f" {words}, archive_id:1" if words else ""))
        return CommandResult(0, "\n".join(rows) + "\n", "")

    def _each(self, paths, change):
        bad = [path for path in paths if path in self.broken]
        if bad:
            return CommandResult(1, "", f"cannot do it for {bad[0]}")
        for path in paths:
            self.hsm[path] = change(self.hsm.get(path, 0))
        return CommandResult(0, "", "")

    def hsm_restore(self, paths):
        return self._each(paths, lambda flags: flags & ~HSM_BITS["released"])

    def hsm_release(self, paths):
        return self._each(paths, lambda flags: flags | HSM_BITS["released"])

    def hsm_archive(self, paths):
        return self._each(paths, lambda flags: (flags | 0x09) & ~HSM_BITS["dirty"])
