# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read-only facts of EFA and everything that training over it needs."""

from __future__ import annotations

import dataclasses
import fnmatch
import typing as t

from ..._data import instance_types
from ..._data.ultraservers import is_ultraserver
from ..accelerator.cuda import CUDA_HOME, cuda_version
from ..accelerator.fabric_manager import joined_by_nvswitch
from ..accelerator.neuron import look_at_neuron, neuron_wanted
from ..accelerator.parse import parse_driver_version
from ..system import pci
from ..system.ask import ask, line, number, reliable
from ..system.host import CommandError, Host
from ..system.instance import instance_type
from ..system.linker import parse_ldconfig
from ..system.packages import installed_packages
from ..system.units import parse_units
from . import parse
from .peers import ask_peers
from .plugin import choose_plugin, find_plugins, leaving_setting, nccl_version, opened_net, opened_tuner, try_load
from .tools import EFA_PREFIX, fi_info_program, libfabric_version

MARKER_PATH = "/opt/amazon/efa_installed_packages"
FABRIC_MANAGER = "nvidia-fabricmanager.service"
LONGEST_WAIT = 600
MAX_DEVICES = 1000
DEFAULT_UNITS = ("slurmd.service", "containerd.service", "docker.service")
# Packages that are missing from the installer's list and still matter on a training node.
STACK_PACKAGES = (
    "libnccl2",
    "libnccl",
    "aws-neuronx-dkms",
    "aws-neuronx-runtime-lib",
    "aws-neuronx-collectives",
    "aws-neuronx-tools",
    "gdrcopy",
    "gdrdrv-dkms",
    "libgdrapi",
    "libnvshmem*",
    "nvidia-fabricmanager*",
    "nvidia-fabric-manager",
)
_UNIT_FIELDS = "Id,LoadState,ActiveState,SubState,UnitFileState,MainPID,LimitMEMLOCK"


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of the module efa_info, under their names."""

    instance_type: str | None = None
    expected_devices: int | None = None
    wait_seconds: int = 0
    files: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    units: tuple[str, ...] = DEFAULT_UNITS
    plugin_dirs: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    counters: bool = False
    cuda_home: str = CUDA_HOME
    minima: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


def look(host: Host, options: Options) -> dict[str, t.Any]:
    """Return all facts in one mapping, described in the RETURN section of the module efa_info. Writes nothing."""
    known = options.instance_type or instance_type(host)
    table = instance_types.lookup(known)
    expected = options.expected_devices
    if expected is None and table:
        expected = table["efa_interfaces"]
    waited = wait_for_devices(host, expected, options.wait_seconds)
    libraries, linker_problem = linker_cache(host)
    packages, manager = installed_packages(host)
    plugins = find_plugins(host, options.plugin_dirs, libraries)
    modules = {name: _module(host, name) for name in ("efa", "nvidia", "neuron", "gdrdrv")}
    units = _units(host, options.units)
    bus = pci.look(host)
    return {
        "instance_type": known,
        "family": {
            "accelerators": table["accelerators"] if table else None,
            "nvswitch": has_nvswitch(host, table),
            "source": table["source"] if table else None,
        },
        "expected_devices": expected,
        "expected_source": _source(options, table),
        "waited_seconds": waited,
        "devices": devices(host, options.counters),
        "pci_devices": bus.efa,
        "uverbs": [name for name in host.listdir("/dev/infiniband") if name.startswith("uverbs")],
        "modules": modules,
        "libfabric": _libfabric(host),
        "installer": installation(
            host.read_text(MARKER_PATH), packages, [f"{EFA_PREFIX}/{name}" for name in host.listdir(EFA_PREFIX)]
        ),
        "plugins": plugins,
        "plugin": choose_plugin(plugins),
        "nccl_net": opened_net(host, libraries, plugins),
        "nccl_tuner": opened_tuner(host),
        "efa_blocked_by": leaving_setting(host),
        "linker_problem": linker_problem,
        "nccl": _library(host, "libnccl.so.2", libraries),
        "gdrcopy": {
            **_library(host, "libgdrapi.so.2", libraries),
            "device_node": host.exists("/dev/gdrdrv"),
        },
        "nvshmem": _library(host, "libnvshmem_host.so.3", libraries, nvshmem_places(host)),
        "mpi": _mpi(host),
        "neuron": look_at_neuron(host) if neuron_wanted(host, table, bool(bus.gpus)) else None,
        "cuda": {
            "path": options.cuda_home if host.exists(options.cuda_home) else None,
            "version": cuda_version(host, options.cuda_home),
        },
        "minima": dict(options.minima),
        "nvidia_driver": parse_driver_version(host.read_text("/proc/driver/nvidia/version") or ""),
        "fabric_manager": _fabric_manager(host, units),
        "limits": _limits(host),
        "units": {name: unit for name, unit in units.items() if name != FABRIC_MANAGER},
        "huge_pages": parse.parse_meminfo_pages(host.read_text("/proc/meminfo") or ""),
        "yama": host.exists("/proc/sys/kernel/yama"),
        "ptrace_scope": number(host.read_text("/proc/sys/kernel/yama/ptrace_scope")),
        "package_manager": manager,
        "packages": select_packages(packages, [*STACK_PACKAGES, *options.packages]),
        "held_packages": sorted(name for name, entry in (packages or {}).items() if entry["held"]),
        "peers": ask_peers(host, options.peers),
        "reboot_required": host.exists("/run/reboot-required"),
        "files": {path: host.sha256(path) for path in options.files},
        "paths": {path: host.stat(path) for path in options.paths},
    }


def linker_cache(host: Host) -> tuple[dict[str, list[str]], str | None]:
    """Return the libraries in the linker's cache, and why the list may be incomplete; None if it is complete."""
    output, problem = ask(host, ["ldconfig", "-p"])
    libraries = parse_ldconfig(output)
    # An empty list is an error: every system has at least the C library in its cache.
    return libraries, problem or (None if libraries else "ldconfig -p lists no library")


def has_nvswitch(host: Host, table: t.Mapping[str, t.Any] | None) -> bool | None:
    """Return whether the machine has NVSwitches; None if its type is unknown and the driver shows none.

    The NVSwitches of an UltraServer are in other machines, and no document describes how the driver shows them.
    """
    if host.listdir("/proc/driver/nvidia-nvswitch/devices"):
        return True
    if table is None or is_ultraserver(table["instance_type"]) is not False:
        return None
    return joined_by_nvswitch(table["accelerators"])


def wait_for_devices(host: Host, expected: int | None, limit: float) -> float:
    """Poll sysfs, for at most limit seconds, until all expected EFA devices exist; return the seconds that it took.

    Devices of p5en appear up to 15 s late (awsome-distributed-training, gpu-cluster-healthcheck, EFA enumeration).
    """
    started = host.monotonic()
    while expected and len(_efa_names(host)) < expected and host.monotonic() - started < limit:
        host.sleep(0.5)
    return round(host.monotonic() - started, 1)


def installation(
    marker: str | None, packages: t.Mapping[str, t.Mapping[str, t.Any]] | None, pieces: t.Sequence[str]
) -> dict[str, t.Any]:
    """Return the state of an EFA installation: absent, complete, interrupted or undeterminable.

    The installer writes its marker, the list of its packages, at the end. It was interrupted if its packages or files
    exist without a marker, if a package of the marker is missing, or if dpkg has left one unfinished; ``reasons`` lists
    these. ``differences`` are packages with another version than in the marker, as after an interrupted upgrade.
    packages is None if no package manager answered: without marker and files the state is then undeterminable.
    """
    listed = parse.parse_marker(marker or "")
    own = {name: entry for name, entry in (packages or {}).items() if parse.OWN_PACKAGE.fullmatch(name)}
    reasons = [f"{name} is not fully installed" for name, entry in sorted(own.items()) if entry["broken"]]
    missing = [package["name"] for package in listed["packages"] if not _installed(packages, package["name"])]
    differences = [
        {**package, "installed": own[package["name"]]["version"]}
        for package in listed["packages"]
        if package["name"] in own and own[package["name"]]["version"] != package["version"]
    ]
    # Other packages of the installer are installed, and none of the marker: the marker's format is unknown. An empty
    # marker without any package proves nothing.
    unclear = packages is None or (bool(own) == bool(missing) and len(missing) == len(listed["packages"]))
    if marker is None:
        left = sorted(own) or list(pieces)
        if left:
            reasons.append(f"{', '.join(left)} there without {MARKER_PATH}")
    elif listed["version"] is None:
        reasons.append(f"{MARKER_PATH} names no version")
    elif not unclear:
        reasons += [f"{name} of the installer's list is not installed" for name in missing]
    state = "interrupted" if reasons else "absent" if marker is None else "complete"
    if state == "absent" and packages is None:
        state = "undeterminable"
        reasons = [f"there is no {MARKER_PATH}, and no package manager gave an answer on the packages of EFA"]
    elif state == "complete" and unclear:
        state = "undeterminable"
        reasons = [f"the list in {MARKER_PATH} could not be compared with the packages that are installed"]
    return {"state": state, "version": listed["version"], "reasons": reasons, "differences": differences}


def _installed(packages: t.Mapping[str, t.Mapping[str, t.Any]] | None, name: str) -> bool:
    return bool(packages and name in packages and packages[name]["installed"])


def select_packages(
    packages: t.Mapping[str, t.Mapping[str, t.Any]] | None, wanted: t.Iterable[str]
) -> dict[str, str | None]:
    """Return {name: version, or None if not installed}; a wanted name with * or ? stands for all that match."""
    installed = {name: entry["version"] for name, entry in (packages or {}).items() if entry["installed"]}
    chosen: dict[str, str | None] = {}
    for pattern in wanted:
        if set(pattern) & set("*?["):
            chosen.update({name: installed[name] for name in fnmatch.filter(sorted(installed), pattern)})
        else:
            chosen[pattern] = installed.get(pattern)
    chosen.update({name: version for name, version in installed.items() if parse.OWN_PACKAGE.fullmatch(name)})
    return chosen


def _source(options: Options, table: t.Mapping[str, t.Any] | None) -> str | None:
    if options.expected_devices is not None:
        return "expected_devices"
    return table["source"] if table else None


def _efa_names(host: Host) -> list[str]:
    top = "/sys/class/infiniband"
    return [name for name in host.listdir(top) if line(host, f"{top}/{name}/device/vendor") == pci.AMAZON]


def devices(host: Host, counters: bool) -> list[dict[str, t.Any]]:
    """Return EFA devices with their driver; p2p is the memory that it can reach directly (NVIDIA, NEURON)."""
    found = []
    for name in _efa_names(host):
        top = f"/sys/class/infiniband/{name}"
        driver = host.realpath(f"{top}/device/driver").rsplit("/", 1)[-1]
        entry: dict[str, t.Any] = {
            "name": name,
            "pci": host.realpath(f"{top}/device").rsplit("/", 1)[-1],
            "device_id": line(host, f"{top}/device/device"),
            "driver": driver if driver != "driver" else None,
            "state": line(host, f"{top}/ports/1/state"),
            "p2p": line(host, f"{top}/device/p2p"),
        }
        if counters:
            where = f"{top}/ports/1/hw_counters"
            values = {counter: number(host.read_text(f"{where}/{counter}")) for counter in host.listdir(where)}
            entry["counters"] = {counter: value for counter, value in values.items() if value is not None}
        found.append(entry)
    return found


def _module(host: Host, name: str) -> dict[str, t.Any]:
    """Return a kernel module: available for the running kernel (None: unknown), its version there and loaded."""
    loaded = host.exists(f"/sys/module/{name}")
    fields: dict[str, str] = {}
    available: bool | None
    try:
        completed = host.run(["modinfo", name], timeout=30, check=False)
        available = completed.rc == 0
        fields = parse.parse_modinfo(completed.stdout) if available else {}
    except CommandError:
        available = None
    return {
        "available": available,
        "version": fields.get("version"),
        "file": fields.get("filename"),
        "loaded": loaded,
        "loaded_version": line(host, f"/sys/module/{name}/version"),
    }


def _libfabric(host: Host) -> dict[str, t.Any]:
    """Return fi_info's path, libfabric's version, the RDM domains of the provider efa, and why there are none."""
    program = fi_info_program(host)
    if not program:
        return {"program": None, "version": None, "domains": [], "fabrics": [], "problem": "fi_info is not installed"}
    listed, problem = ask(host, [program, "-p", "efa"], timeout=60)
    endpoints = parse.parse_fi_info(listed)
    return {
        "program": program,
        "version": libfabric_version(host, program),
        "domains": parse.rdm_domains(endpoints),
        "fabrics": sorted({entry.get("fabric", "") for entry in endpoints} - {""}),
        "problem": problem,
    }


def nvshmem_places(host: Host) -> list[str]:
    """Return the directories of NVIDIA's NVSHMEM packages, one a CUDA version; they are not on the linker's path."""
    tops = [f"/usr/lib/{triplet}/nvshmem" for triplet in ("x86_64-linux-gnu", "aarch64-linux-gnu")]
    return [f"{top}/{generation}" for top in tops for generation in reversed(host.listdir(top))]


def _library(
    host: Host, name: str, libraries: t.Mapping[str, t.Sequence[str]], places: t.Sequence[str] = ()
) -> dict[str, t.Any]:
    """Return a shared library of the linker, or in ``places``: path, whether it loads, error, NCCL's version."""
    known = libraries.get(name, ())
    paths = [*known, *(f"{place}/{name}" for place in places if host.exists(f"{place}/{name}"))]
    tried = {"loads": None, "error": None, "nccl": None}
    if paths:
        tried = try_load(host, name if known else paths[0])
    return {
        "path": paths[0] if paths else None,
        "loads": tried["loads"],
        "error": tried["error"],
        "version": nccl_version(tried["nccl"]),
    }


def _mpi(host: Host) -> list[dict[str, t.Any]]:
    """Return Open MPI of the EFA installer, both generations."""
    programs = [f"/opt/amazon/{name}/bin/mpirun" for name in ("openmpi", "openmpi5")]
    return [
        {"program": program, "version": parse.parse_mpi_version(reliable(host, [program, "--version"]))}
        for program in programs
        if host.exists(program)
    ]


def _units(host: Host, names: t.Sequence[str]) -> dict[str, dict[str, t.Any]]:
    """Return units by name: exists (None: not known), active, enabled, pid, memlock configured and of the running
    process.

    A daemon that was started without its unit is found by the name of its process.
    """
    wanted = list(dict.fromkeys([*names, FABRIC_MANAGER]))
    unit_states = parse_units(reliable(host, ["systemctl", "show", "-p", _UNIT_FIELDS, "--", *wanted]))
    found = {}
    for name in wanted:
        fields = unit_states.get(name, {})
        pid = number(fields.get("MainPID")) or _pid_of(host, name.rsplit(".", 1)[0])
        running = host.read_text(f"/proc/{pid}/limits") if pid else None
        configured = fields.get("LimitMEMLOCK")
        found[name] = {
            # systemctl prints a block for each unit, even for one that does not exist.
            "exists": fields["LoadState"] == "loaded" if fields.get("LoadState") else None,
            "active": fields.get("ActiveState") == "active",
            "enabled": fields.get("UnitFileState") == "enabled",
            "pid": pid,
            "configured_memlock": parse.parse_limit(configured) if configured else None,
            "running_memlock": parse.process_memlock(running or ""),
        }
    return found


def _pid_of(host: Host, name: str) -> int | None:
    """Return the oldest process of that name; the kernel keeps 15 characters of it."""
    pids = sorted(int(entry) for entry in host.listdir("/proc") if entry.isascii() and entry.isdigit())
    return next((pid for pid in pids if (host.read_text(f"/proc/{pid}/comm") or "").strip() == name[:15]), None)


def _fabric_manager(host: Host, units: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    unit = units[FABRIC_MANAGER]
    output, problem = ask(host, ["nv-fabricmanager", "--version"]) if host.which("nv-fabricmanager") else ("", None)
    return {
        "unit": FABRIC_MANAGER,
        "exists": unit["exists"],
        "active": unit["active"],
        "enabled": unit["enabled"],
        "version": None if problem else parse.parse_fabric_manager_version(output),
        "problem": problem,
    }


def _limits(host: Host) -> dict[str, t.Any]:
    """Return locked memory of a login by limits.conf and limits.d, in the order of pam_limits: all users, and root."""
    folder = "/etc/security/limits.d"
    paths = ["/etc/security/limits.conf"]
    paths += [f"{folder}/{name}" for name in host.listdir(folder) if name.endswith(".conf")]
    texts = {path: host.read_text(path) for path in paths}
    files = {path: text or "" for path, text in texts.items()}
    return {
        # Of a login as root pam_limits reads these too.
        "unread": [path for path, text in texts.items() if text is None and host.exists(path)],
        "login": parse.login_memlock(files),
        "root": parse.login_memlock(files, "root"),
        "others": parse.own_memlock(files),
    }
