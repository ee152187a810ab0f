# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated GPU node for the tests of GPUDirect Storage, and outcomes of libcufile's probe."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.parse import parse_table
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult, Host

FIXTURES = Path(__file__).parents[1] / "fixtures" / "gds"
INSTANCE_STORE = "Amazon EC2 NVMe Instance Storage"
EBS = "Amazon Elastic Block Store"
LIBRARY = "/usr/local/cuda/lib64/libcufile.so.0"


def fixture(name: str) -> str:
    """Return a recorded output."""
    return (FIXTURES / name).read_text(encoding="utf-8")


class GdsHost(Host):
    """files: {path: text}; directories follow from them. links: {path: target}. commands: {line: output or status}.

    dead: paths that never answer. absent: paths that do not exist.
    """

    def __init__(self) -> None:
        self.files: dict[str, str] = {"/proc/self/mountinfo": "29 1 8:1 / / rw - ext4 /dev/root rw\n"}
        self.links: dict[str, str] = {}
        self.commands: dict[str, t.Union[str, int]] = {}
        self.programs: dict[str, str] = {}
        self.dead: set[str] = set()
        self.absent: set[str] = set()

    def run(
        self, argv: t.Sequence[str], timeout: float = 120, check: bool = True, stdin: str | None = None
    ) -> CommandResult:
        if list(argv[:3]) == ["readlink", "-e", "--"]:
            if argv[3] in self.dead:
                raise CommandError(argv, None, "", "", f"no answer within {timeout:g} seconds")
            if argv[3] in self.absent:
                return CommandResult(1, "", "")
            return CommandResult(0, self.realpath(argv[3]) + "\n", "")
        answer = self.commands.get(" ".join(argv), 1)
        if isinstance(answer, int):
            if check:
                raise CommandError(argv, answer, "", "", f"failed with status {answer}")
            return CommandResult(answer, "", "")
        return CommandResult(0, answer, "")

    def which(self, program: str) -> str | None:
        return self.programs.get(program)

    def read_text(self, path: str) -> str | None:
        return self.files.get(path)

    def listdir(self, path: str) -> list[str]:
        inside = [name[len(path) + 1 :] for name in self.files if name.startswith(path + "/")]
        return sorted({name.split("/", 1)[0] for name in inside})

    def exists(self, path: str) -> bool:
        return path in self.files or bool(self.listdir(path))

    def realpath(self, path: str) -> str:
        return self.links.get(path, path)

    def sha256(self, path: str) -> str | None:
        return "ab" * 32 if path in self.files else None

    def now(self) -> str:
        return "2026-01-31T12:00:00Z"

    def disk(
        self, kname: str, number: str, model: str = INSTANCE_STORE, slaves: t.Sequence[str] = (), **more: str
    ) -> None:
        """Add a block device in sysfs; more: files below it by name, with __ for a slash."""
        base = f"/sys/class/block/{kname}"
        self.files[f"{base}/dev"] = number + "\n"
        if model:
            self.files[f"{base}/device/model"] = f"{model}      \n"
            self.files[f"{base}/device/transport"] = "pcie\n"
            self.files[f"{base}/integrity/device_is_integrity_capable"] = "0\n"
        for slave in slaves:
            self.files[f"{base}/slaves/{slave}/dev"] = ""
        for name, text in more.items():
            self.files[f"{base}/{name.replace('__', '/')}"] = text

    def mount(self, line: str) -> None:
        """Add a line of mountinfo, without its ids: "259:1 / /data rw,noatime - ext4 /dev/nvme1n1 rw"."""
        before = self.files.get("/proc/self/mountinfo", "")
        self.files["/proc/self/mountinfo"] = f"{before}{len(before)} 1 {line}\n"


def node(kernel: str = "6.8.0-1021-aws", machine: str = "x86_64", p2pdma: bool = True) -> GdsHost:
    """Return a node with an H100, the open driver, libcufile, and an XFS on an instance-store disk at /data."""
    host = GdsHost()
    symbols = ["0000000000000000 T printk", "0000000000000000 t nvme_probe\t[nvme]"]
    symbols += ["0000000000000000 d p2pdma_pgmap_ops"] if p2pdma else []
    host.files.update(
        {
            "/proc/driver/nvidia/version": fixture("nvidia-version-h100.txt"),
            "/proc/driver/nvidia/params": fixture("nvidia-params-h100.txt"),
            "/proc/driver/nvidia/gpus/0000:00:06.0/information": "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 11\n",
            "/proc/sys/kernel/osrelease": kernel + "\n",
            "/proc/sys/kernel/arch": machine + "\n",
            "/proc/kallsyms": "\n".join(symbols) + "\n",
            "/sys/module/nvme_core/parameters/multipath": "Y\n",
            LIBRARY: "",
            "/run/udev/data/b259:1": "",
        }
    )
    host.links[LIBRARY] = "/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcufile.so.1.15.1"
    host.disk("nvme1n1", "259:1")
    host.mount("259:0 / / rw - ext4 /dev/nvme0n1p1 rw")
    host.mount("259:1 / /data rw,noatime - xfs /dev/nvme1n1 rw,attr2")
    return host


def load_nvidia_fs(host: GdsHost, modules: str = "nvme: 1.0\n") -> None:
    """Add nvidia-fs in /proc (nvfs-proc.c)."""
    host.files["/proc/driver/nvidia-fs/version"] = "version: 2.27\n"
    host.files["/proc/driver/nvidia-fs/modules"] = modules
    host.files["/proc/kallsyms"] += "0000000000000000 T nvme_v1_register_nvfs_dma_ops\t[nvme]\n"


def enable_p2pdma(host: GdsHost) -> None:
    """Add the prerequisites of P2PDMA besides the disk."""
    host.files["/sys/module/nvme_core/parameters/multipath"] = "N\n"
    host.files["/proc/driver/nvidia/params"] = 'RegistryDwords: "RMForceStaticBar1=1;RmForceDisableIomapWC=1;"\n'
    host.files["/etc/cufile.json"] = '{\n  // as NVIDIA ships it\n  "properties": {"use_pci_p2pdma": true}\n}\n'


def raid0(host: GdsHost) -> None:
    """Add md RAID 0 with ext4 at /raid over two instance-store disks."""
    host.disk("nvme2n1", "259:2")
    host.disk("nvme3n1", "259:3")
    host.disk("md127", "9:127", model="", slaves=("nvme2n1", "nvme3n1"), md__level="raid0\n")
    host.mount("9:127 / /raid rw,noatime - ext4 /dev/md127 rw,data=ordered")


def outcome(state: str = "ok", step: str = "register", log: str = "", **fields: t.Any) -> dict[str, t.Any]:
    """Return the outcome of a probe."""
    answer: dict[str, t.Any] = {
        "state": state,
        "step": step,
        "err": 0 if state == "ok" else None,
        "cu_err": 0 if state == "ok" else None,
        "reason": "" if state == "ok" else f"{step} was {state}",
        "version": "1.15",
        "io": state == "ok",
        "seconds": 1.0,
        "table": parse_table(log),
    }
    answer.update(fields)
    return answer


class Asker:
    """A stand-in for the probe: answers by the requested changes, and records the calls."""

    def __init__(self, driver: dict[str, t.Any], **answers: dict[str, t.Any]) -> None:
        self.driver, self.answers = driver, answers
        self.questions: list[tuple[str, str | None]] = []

    def __call__(
        self,
        library: str,
        settings: dict[str, t.Any],
        changes: dict[str, bool],
        directory: str | None = None,
        seconds: float = 30,
    ) -> dict[str, t.Any]:
        if directory is None:
            name = "driver"
        elif not changes:
            name = "own"
        else:
            name = {None: "strict", False: "no_p2pdma", True: "with_p2pdma"}[changes.get("use_pci_p2pdma")]
            # Without this a file that libcufile takes proves nothing about a direct path.
            assert changes.items() >= {"allow_compat_mode": False, "force_compat_mode": False}.items(), changes
        self.questions.append((name, directory))
        return self.driver if name == "driver" else self.answers[name]
