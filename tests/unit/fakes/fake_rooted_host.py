# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of plain files below a temporary directory, with commands whose answers the test sets."""

from __future__ import annotations

import struct
import typing as t
from pathlib import Path

from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.host import EnrootHost
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult

from tests.unit.fakes import fake_grammars

Answer = t.Union[str, CommandResult, Exception]


def spank_plugin(slurm: int = 0x160508, pyxis: str = "0.20.0", symbol: str = "plugin_version") -> bytes:
    """The smallest ELF file that has such a symbol: sections for nothing, symbols, names and data."""
    names = b"\0" + symbol.encode() + b"\0"
    data = struct.pack("<I", slurm) + (f"pyxis: version v{pyxis}".encode() if pyxis else b"") + b"\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x11, 0, 3, 0x4000, 4)
    at_symbols, at_names = 64, 64 + len(symbols)
    at_data = at_names + len(names)
    at_sections = at_data + len(data)
    section = struct.Struct("<IIQQQQIIQQ")
    sections = (
        section.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        + section.pack(0, 11, 2, 0x1000, at_symbols, len(symbols), 2, 1, 8, 24)
        + section.pack(0, 3, 2, 0x2000, at_names, len(names), 0, 0, 1, 0)
        + section.pack(0, 1, 2, 0x4000, at_data, len(data), 0, 0, 4, 0)
    )
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, at_sections, 0, 64, 0, 0, 64, 4, 0)
    return header + symbols + names + data + sections


class RootedHost(EnrootHost):
    """Absolute paths lie below root. answers maps the first words of a command to its output."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.answers: dict[str, Answer] = {}
        self.ran: list[list[str]] = []
        self.architecture = "x86_64"

    def at(self, path: str) -> str:
        return f"{self.root}{path}" if path.startswith("/") and not path.startswith(self.root) else path

    def put(self, path: str, content: str | bytes = "", mode: int = 0o644) -> None:
        place = Path(self.at(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        place.chmod(mode)

    def folder(self, path: str, mode: int = 0o755) -> None:
        Path(self.at(path)).mkdir(parents=True, exist_ok=True)
        Path(self.at(path)).chmod(mode)

    def text(self, path: str) -> str:
        return Path(self.at(path)).read_text(encoding="utf-8")

    def machine(self):
        return self.architecture

    def run(self, argv, timeout=120, check=True, stdin=None):
        self.ran.append(list(argv))
        line = " ".join(argv)
        known = [words for words in self.answers if line.startswith(words) or f" {words}" in f" {line}"]
        if not known:
            raise CommandError(argv, None, "", "", "the program is not installed")
        answer = fake_grammars.answer(argv, self.answers[max(known, key=len)])
        if isinstance(answer, Exception):
            raise answer
        done = CommandResult(0, answer, "") if isinstance(answer, str) else answer
        if check and done.rc:
            raise CommandError(argv, done.rc, done.stdout, done.stderr, f"failed with status {done.rc}")
        return done

    def which(self, program):
        return next(
            (f"{place}/{program}" for place in ("/usr/bin", "/usr/sbin") if self.exists(f"{place}/{program}")), None
        )

    def read_text(self, path):
        return super().read_text(self.at(path))

    def read_bytes(self, path, limit=64 << 20):
        return super().read_bytes(self.at(path), limit)

    def listdir(self, path):
        return super().listdir(self.at(path))

    def exists(self, path):
        return super().exists(self.at(path))

    def is_dir(self, path):
        return super().is_dir(self.at(path))

    def realpath(self, path):
        return super().realpath(self.at(path)).removeprefix(self.root) or "/"

    def stat(self, path):
        info = super().stat(self.at(path))
        return {**info, "uid": 0, "gid": 0} if info else None

    def sha256(self, path):
        return super().sha256(self.at(path))

    def write_text(self, path, text, mode=0o644):
        super().write_text(self.at(path), text, mode)

    def remove(self, path):
        super().remove(self.at(path))

    def make_mount_point(self, path):
        super().make_mount_point(self.at(path))

    def make_directory(self, path, uid, gid, mode):
        self.folder(path, mode)

    def link_target(self, path):
        return super().link_target(self.at(path))

    def make_link(self, target, path):
        super().make_link(target, self.at(path))

    def free_bytes(self, path):
        return 40 << 30 if self.exists(path) else None

    def capabilities(self, path):
        return b"\x01" if self.exists(path) else None

    def locked(self, path, timeout):
        return super().locked(self.at(path), timeout)

    def uid(self, name):
        return {"alice": 1000, "bob": 1001}.get(name)


MOUNTS = """\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw
25 22 0:23 / /run rw,nosuid shared:5 - tmpfs tmpfs rw
"""


def node(root: Path, slurm: str = "22.05.8") -> RootedHost:
    """A node with Slurm below /opt/slurm, as ParallelCluster has it, and nothing of Enroot or Pyxis."""
    host = RootedHost(root)
    Path(root).chmod(0o755)
    host.put("/opt/slurm/bin/srun", mode=0o755)
    host.put("/opt/slurm/etc/slurm.conf", "ClusterName=test\nSlurmctldParameters=cloud_dns # by hand\n")
    host.put("/proc/self/mountinfo", MOUNTS)
    host.put("/proc/sys/user/max_user_namespaces", "96364\n")
    host.put("/usr/lib/systemd/system/slurmd.service")
    host.put("/opt/slurm/include/slurm/slurm_version.h", "#define SLURM_VERSION_NUMBER 0x160508\n")
    host.answers["/opt/slurm/bin/scontrol --version"] = f"slurm-wlm {slurm}\n"
    host.answers["/opt/slurm/bin/srun --help"] = "Usage: srun\n"
    host.answers["/opt/slurm/bin/srun --mpi=list"] = "MPI plugin types are...\n\tnone\n\tpmi2\n"
    # It runs no jobs itself.
    host.answers["/opt/slurm/bin/sinfo --noheader --Node --local --format"] = "n7 elsewhere\n"
    host.folder("/run")
    host.put("/proc/1/comm", "systemd\n")
    host.put("/etc/os-release", 'ID=debian\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\n')
    for program in ("dpkg-query", "apt-get"):
        host.put(f"/usr/bin/{program}", mode=0o755)
    host.answers["dpkg-query -W"] = "bash\t5.2\tii \n"
    return host


def with_enroot(host: RootedHost, version: str = "4.1.2") -> RootedHost:
    """Enroot and its capabilities on it."""
    for name in ("enroot", "enroot-aufs2ovlfs"):
        host.put(f"/usr/bin/{name}", mode=0o755)
    host.answers["/usr/bin/enroot version"] = f"{version}\n"
    return host


def with_pyxis(host: RootedHost, path: str = "/usr/local/lib/slurm/spank_pyxis.so", **plugin: t.Any) -> RootedHost:
    """A Pyxis plugin on it."""
    host.put(path, spank_plugin(**plugin))
    return host


def with_docker(host: RootedHost) -> RootedHost:
    """Docker on it, with a container that runs."""
    host.put("/usr/bin/dockerd")
    host.answers["/usr/bin/dockerd --version"] = "Docker version 28.3.3, build x"
    host.answers["docker ps"] = "abc\n"
    host.answers["docker info"] = "/scratch/docker\n"
    return host


def mount(host: RootedHost, target: str, fstype: str) -> None:
    """Mount something more on it."""
    line = f"40 22 259:9 / {target} rw - {fstype} something rw\n"
    host.put("/proc/self/mountinfo", host.text("/proc/self/mountinfo") + line)
    host.folder(target)
