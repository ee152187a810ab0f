# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A made-up training node of files, links and commands; reads only. Refusals of programs are in fake_grammars.

The shapes of fi_info, modinfo, the installer's marker, nvlink and Xid lines are documented ones; eight GPUs in one
document are the recorded one repeated.
"""

from __future__ import annotations

import functools
import json
import re
import typing as t
from pathlib import Path

from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult, Host

from tests.unit.fakes import fake_grammars

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDED_XML = (FIXTURES / "nvidia-smi-580-h100.xml").read_text(encoding="utf-8")
RECORDED_TOPOLOGY = (FIXTURES / "nvidia-smi-topo-580-h100.txt").read_text(encoding="utf-8")
DRIVER = "580.159.04"
PLUGIN = "/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"
# Unlimited for all users: documented for the EFA installer's efa-config; the layout of the file is invented.
EFA_LIMITS = "*    soft    memlock    unlimited\n*    hard    memlock    unlimited\n"
DPKG = (
    ("efa", "2.17.2-1.amzn1", "ii "),
    ("efa-config", "1.18", "ii "),
    ("libfabric1-aws", "2.1.0amzn4.0", "ii "),
    ("libibverbs1", "58.amzn0-1", "ii "),
    ("libnccl-ofi", "1.16.1-1", "ii "),
    ("libnccl2", "2.28.9-1+cuda13.0", "hi "),
    ("bash", "5.2", "ii "),
)
MARKER = (
    "# EFA installer version: 1.43.0\n# Debug packages installed: no\n# Packages installed:\n"
    "efa-config_1.18_all libfabric1-aws_2.1.0amzn4.0_amd64 libibverbs1_58.amzn0-1_amd64 libnccl-ofi_1.16.1-1_amd64 "
    "efa_2.17.2-1.amzn1_amd64\n"
)

Answer = t.Union[str, CommandResult, Exception]


class TrainingHost(Host):
    """commands: {beginning of a command line: output, result or error}, the longest beginning counts. loads: {library:
    what opening it gives, or an error}. sleeping(seconds) is called for each wait.
    """

    def __init__(self) -> None:
        self.files: dict[str, str] = {"/proc/self/mountinfo": "29 1 8:1 / / rw - ext4 /dev/root rw\n"}
        self.links: dict[str, str] = {}
        self.programs: set[str] = set()
        self.commands: dict[str, Answer] = {}
        self.loads: dict[str, dict[str, t.Any] | Exception] = {}
        self.sizes: dict[str, int] = {}
        self.calls: list[str] = []
        self.clock = 0.0
        self.sleeping: t.Callable[[float], None] = lambda seconds: None

    def run(
        self, argv: t.Sequence[str], timeout: float = 120, check: bool = True, stdin: str | None = None
    ) -> CommandResult:
        line = " ".join(argv)
        self.calls.append(line)
        if argv[0] == "env" and argv[-2] != "-c":
            return self._load(argv[-1])
        line = line.removeprefix("env ")
        known = [beginning for beginning in self.commands if line.startswith(beginning)]
        answer = self.commands[max(known, key=len)] if known else missing(line)
        if known:
            answer = fake_grammars.answer(argv, answer)
        if isinstance(answer, Exception):
            raise answer
        result = CommandResult(0, answer, "") if isinstance(answer, str) else answer
        if check and result.rc:
            raise CommandError(argv, result.rc, result.stdout, result.stderr, f"failed with status {result.rc}")
        return result

    def _load(self, library: str) -> CommandResult:
        answer = self.loads.get(library, {"error": f"{library}: cannot open shared object file"})
        if isinstance(answer, Exception):
            raise answer
        if library.startswith("["):
            # A list of names: what the look into a container asks.
            none = {"name": None, "path": None, "files": [], "symbols": [], "errors": {}, "init": None, "version": None}
            return CommandResult(
                0, json.dumps({**none, **({"errors": {library: "none"}} if "error" in answer else answer)}), ""
            )
        return CommandResult(0, json.dumps({"loads": False, "error": None, "symbols": [], "nccl": None, **answer}), "")

    def which(self, program: str) -> str | None:
        return f"/usr/bin/{program}" if program in self.programs else None

    def read_text(self, path: str) -> str | None:
        return self.files.get(path)

    def listdir(self, path: str) -> list[str]:
        known = [*self.files, *self.links]
        return sorted({rest.split("/")[0] for rest in (p[len(path) + 1 :] for p in known if p.startswith(f"{path}/"))})

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.links or bool(self.listdir(path))

    def realpath(self, path: str) -> str:
        return self.links.get(path, path)

    def stat(self, path: str) -> dict[str, t.Any] | None:
        is_dir = path not in self.files
        return {"mode": "0644", "uid": 0, "gid": 0, "is_dir": is_dir, "is_link": False} if self.exists(path) else None

    def sha256(self, path: str) -> str | None:
        return "0" * 64 if path in self.files else None

    def filesystem_size(self, path: str) -> int | None:
        return self.sizes.get(path)

    def monotonic(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds
        self.sleeping(seconds)

    def now(self) -> str:
        return "2026-01-31T12:00:00Z"


def missing(line: str) -> CommandError:
    return CommandError(line.split(), None, "", "", "the program is not installed")


def hanging(line: str, seconds: int) -> CommandError:
    return CommandError(line.split(), None, "", "", f"no answer within {seconds} seconds")


def firmware(host: TrainingHost, instance_type: str) -> None:
    host.files["/sys/class/dmi/id/sys_vendor"] = "Amazon EC2\n"
    host.files["/sys/class/dmi/id/product_name"] = f"{instance_type}\n"


def efa_device(host: TrainingHost, number: int, bound: bool = True) -> None:
    """One EFA function on the PCI bus, and what its driver makes of it."""
    address = f"0000:{number + 16:02x}:1b.0"
    host.files[f"/sys/bus/pci/devices/{address}/vendor"] = "0x1d0f\n"
    host.files[f"/sys/bus/pci/devices/{address}/device"] = "0xefa2\n"
    if not bound:
        return
    top = f"/sys/class/infiniband/rdmap{number + 16}s27"
    host.files.update(
        {
            f"{top}/device/vendor": "0x1d0f\n",
            f"{top}/device/device": "0xefa2\n",
            f"{top}/device/p2p": "NVIDIA\n",
            f"{top}/ports/1/state": "4: ACTIVE\n",
            f"{top}/ports/1/hw_counters/tx_bytes": "4096\n",
            f"{top}/ports/1/hw_counters/lifespan": "strange\n",
            f"/dev/infiniband/uverbs{number}": "",
        }
    )
    host.links[f"{top}/device"] = f"/sys/devices/pci0000:10/{address}"
    host.links[f"{top}/device/driver"] = "/sys/bus/pci/drivers/efa"


def fi_info(names: t.Iterable[str], fabrics: t.Sequence[str] = ("efa-direct", "efa")) -> str:
    """libfabric 2.x: each domain once for each fabric, and its datagram twin."""
    entry = "provider: efa\n    fabric: {}\n    domain: {}-{}\n    version: 201.0\n    type: {}\n    protocol: {}\n"
    kinds = (("rdm", "FI_EP_RDM"), ("dgrm", "FI_EP_DGRAM"))
    names = list(names)
    return "".join(
        entry.format(fabric, name, suffix, kind, "FI_PROTO_EFA")
        for fabric in fabrics
        for suffix, kind in kinds
        for name in names
    )


def unit(name: str, **fields: str) -> str:
    values = {"Id": name, "LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "MainPID": "0"}
    return "".join(f"{key}={value}\n" for key, value in {**values, **fields}.items())


def limits(memlock: str) -> str:
    return (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        f"Max locked memory         {memlock:<20} {memlock:<20} bytes     \n"
    )


def dpkg(packages: t.Iterable[tuple[str, str, str]] = DPKG) -> str:
    return "".join(f"{name}\t{version}\t{status}\n" for name, version, status in packages)


def ldconfig(*paths: str) -> str:
    lines = [f"\t{path.rsplit('/', 1)[-1]} (libc6,x86-64) => {path}" for path in paths]
    return "\n".join([f"{len(lines)} libs found in cache `/etc/ld.so.cache'", *lines, ""])


def bare_node() -> TrainingHost:
    """A node without the software of EFA, whose linker and package manager answer."""
    host = TrainingHost()
    host.programs.add("dpkg-query")
    host.commands = {"ldconfig -p": ldconfig("/lib/libc.so.6"), "dpkg-query -W": dpkg([("bash", "5.2", "ii ")])}
    return host


def good_node(devices: int = 32, instance_type: str = "p5.48xlarge") -> TrainingHost:
    """A node on which everything is as it should be."""
    host = TrainingHost()
    firmware(host, instance_type)
    for number in range(devices):
        efa_device(host, number)
    host.programs |= {"dpkg-query", "nv-fabricmanager", "modinfo", "nvidia-smi"}
    host.files.update(
        {
            "/opt/amazon/efa_installed_packages": MARKER,
            "/opt/amazon/efa/bin/fi_info": "",
            "/opt/amazon/openmpi/bin/mpirun": "",
            PLUGIN: "\x7fELF\0Initializing aws-ofi-nccl 1.16.1\0",
            "/opt/amazon/ofi-nccl/lib/libnccl-tuner-ofi.so": "",
            "/etc/nccl.conf": "# of the role\nNCCL_SOCKET_IFNAME=^docker,lo,veth\nNCCL_NET_PLUGIN=ofi\n",
            "/etc/security/limits.conf": "# *  soft  memlock  1\n",
            "/etc/security/limits.d/01_efa.conf": EFA_LIMITS,
            "/proc/4711/limits": limits("unlimited"),
            "/proc/4711/comm": "slurmd\n",
            "/proc/meminfo": "HugePages_Total:    5128\nHugePages_Free:     5120\nHugepagesize:       2048 kB\n",
            "/proc/sys/kernel/yama/ptrace_scope": "0\n",
            "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
            f"{DRIVER}  Release Build  (x@y)\nGCC version:  gcc version 15\n",
            "/sys/module/efa/version": "2.17.2g\n",
            "/sys/module/nvidia/version": f"{DRIVER}\n",
        }
    )
    host.loads = {
        PLUGIN: {"loads": True, "symbols": ["ncclNetPlugin_v9", "ncclNetPlugin_v10"]},
        "/opt/amazon/ofi-nccl/lib/libnccl-tuner-ofi.so": {"loads": True, "symbols": ["ncclTunerPlugin_v3"]},
        "libnccl.so.2": {"loads": True, "nccl": 22809},
    }
    names = host.listdir("/sys/class/infiniband")
    host.commands = {
        "ldconfig -p": ldconfig(
            "/lib/x86_64-linux-gnu/libnccl.so.2.28.9", "/lib/x86_64-linux-gnu/libnccl.so.2", PLUGIN
        ),
        "dpkg-query -W": dpkg(),
        "modinfo efa": "filename:       /lib/modules/6.8/updates/dkms/efa.ko\nversion:        2.17.2g\n",
        "modinfo": CommandResult(1, "", "modinfo: ERROR: Module not found."),
        "/opt/amazon/efa/bin/fi_info --version": "fi_info: 2.1.0amzn4\nlibfabric: 2.1.0amzn4\nlibfabric api: 2.1\n",
        "/opt/amazon/efa/bin/fi_info -p efa": fi_info(names),
        "/opt/amazon/openmpi/bin/mpirun --version": "mpirun (Open MPI) 4.1.7\n",
        "nv-fabricmanager --version": f"Fabric Manager version is : {DRIVER}\n",
        "systemctl show": "\n".join(
            [
                unit("slurmd.service", MainPID="4711", LimitMEMLOCK="infinity"),
                unit("containerd.service", LoadState="not-found", ActiveState="inactive", UnitFileState=""),
                unit("nvidia-fabricmanager.service"),
            ]
        ),
        "nvidia-smi -q -x": eight_gpus(),
        "nvidia-smi nvlink --status": nvlinks(),
        "nvidia-smi topo -m": topology(),
        "journalctl -k": "2026-01-31T11:00:00+0000 ip-10-0-0-1 kernel: Linux version 6.8\n",
    }
    for number in range(8):
        host.files[f"/sys/bus/pci/devices/0000:{number + 80:02x}:00.0/vendor"] = "0x10de\n"
        host.files[f"/sys/bus/pci/devices/0000:{number + 80:02x}:00.0/class"] = "0x030200\n"
    return host


def uuid(number: int) -> str:
    return f"GPU-{number:08d}-1111-2222-3333-444444444444"


@functools.lru_cache(maxsize=1)
def _recorded() -> tuple[str, str, str]:
    """The recorded document without its list of clocks: what stands before its GPU, the GPU, and what comes after."""
    head, gpu, tail = re.split(r"(\t<gpu id=.*</gpu>\n)", RECORDED_XML, flags=re.DOTALL)
    gpu = re.sub(r"\t\t<supported_clocks>.*?</supported_clocks>\n", "", gpu, flags=re.DOTALL)
    gpu = gpu.replace("<state>N/A</state>", "<state>Completed</state>").replace(
        "<status>N/A</status>", "<status>Success</status>"
    )
    return head, gpu, tail


def eight_gpus(count: int = 8, **changes: str) -> str:
    """The recorded document with its GPU repeated in a joined fabric; changes: {tag: text} in the last GPU."""
    head, gpu, tail = _recorded()
    gpus = [gpu.replace("GPU-00000000-1111-2222-3333-444444444444", uuid(number)) for number in range(count)]
    for tag, text in changes.items():
        gpus[-1], number = re.subn(rf"<{tag}>[^<]*</{tag}>", f"<{tag}>{text}</{tag}>", gpus[-1], count=1)
        assert number == 1, f"the recording has no {tag}"
    return head.replace("<attached_gpus>1<", f"<attached_gpus>{count}<") + "".join(gpus) + tail


def nvlinks(count: int = 8, links: int = 18, down: int = 0, speed: str = "26.562") -> str:
    """nvidia-smi nvlink --status, with so many links of the last GPU down."""
    lines = []
    for number in range(count):
        lines.append(f"GPU {number}: NVIDIA H100 80GB HBM3 (UUID: {uuid(number)})")
        bad = down if number == count - 1 else 0
        lines += [f"\t Link {link}: {'<inactive>' if link < bad else f'{speed} GB/s'}" for link in range(links)]
    return "\n".join(lines) + "\n"


def topology(count: int = 8, kind: str = "NV18") -> str:
    """nvidia-smi topo -m in the recorded layout, with colours, for GPUs and one network device."""
    names = [f"GPU{number}" for number in range(count)]
    head = "\t\x1b[4m" + "\t".join([*names, "NIC0", "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]) + "\x1b[0m"
    rows = [
        "\t".join([name, *(" X " if name == peer else kind for peer in names), "PHB", "0-15", "0"]) for name in names
    ]
    rows.append("\t".join(["NIC0", *("PHB" for name in names), " X ", "", ""]))
    return "\n".join([head, *rows, "", "Legend:", "", "  X    = Self", ""])
