# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse the output of libcufile, gdscheck, nvidia-fs and cufile.json into plain JSON types. Pure functions.

Formats: libcufile's own log was recorded with the releases 1.11 to 1.19; gdscheck prints the same table without the
prefix of a log line (outputs of the releases 1.0 to 1.16 in NVIDIA/gds-nvidia-fs issues 4, 31, 75, 77).
"""

from __future__ import annotations

import re
import typing as t

from ..system.host import NodeError
from .cufile_parse import parse

# CUfileOpError of cufile.h; read in the manual page CUfileOpError.h(3) of Ubuntu's libcufile-dev.
ERROR_NAMES = {
    5001: "driver not initialized",
    5002: "driver properties invalid",
    5003: "driver limit unsupported",
    5004: "driver version mismatch",
    5005: "driver version unreadable",
    5006: "driver closing",
    5007: "platform not supported",
    5008: "I/O not supported on this file",
    5009: "GPU not supported",
    5010: "nvidia-fs driver error",
    5011: "CUDA driver error",
    5012: "CUDA pointer invalid",
    5013: "CUDA memory type invalid",
    5014: "CUDA pointer out of range",
    5015: "CUDA context mismatch",
    5016: "mapping size invalid",
    5017: "mapping range invalid",
    5018: "file type invalid",
    5019: "file open flag invalid",
    5020: "direct I/O not set",
    5021: "file mode unexpected",
    5022: "value invalid",
    5023: "memory already registered",
    5024: "memory not registered",
    5025: "permission denied",
    5026: "driver already open",
    5027: "file handle not registered",
    5028: "file handle already registered",
    5029: "device not found",
    5030: "internal error",
    5031: "no new file descriptor",
    5033: "nvidia-fs setup error",
    5034: "I/O disabled by configuration",
    5035: "batch submission failed",
    5036: "GPU memory pinning failed",
}

# Prerequisites by lines of the log; the texts are libcufile's own (recorded, and in the string tables of
# the releases 1.11 to 1.19).
LOG_SIGNS = (
    ("nvidia-fs.ko driver not loaded", "nvidia_fs_module"),
    ("failed to open /proc/driver/nvidia-fs/devcount", "nvidia_fs_module"),
    ("NVMe Driver not registered with nvidia-fs", "storage_driver"),
    ("Kernel does not support PCIP2PDMA", "kernel_p2pdma"),
    ("pci_p2pdma not supported errornum: 801", "gpu_p2pdma"),
    ("Failed to get cuda p2p device address", "gpu_p2pdma"),
    ("Unsupported block device", "block_device"),
    ("mount option not found in mount table", "ext4_data_ordered"),
    ("mount options not specified for device in mount table", "ext4_data_ordered"),
    ("EXT4 journal options not found in mount table", "ext4_data_ordered"),
    ("udev property not found", "udev"),
    ("error creating udev_device for block device", "udev"),
    ("RAID level not supported by cuFile", "raid_level"),
    ("cuFile support has been disabled for members in the RAID group", "raid_level"),
    ("has P2PDMA flag but RAID PCI P2PDMA is disabled", "raid_p2pdma"),
    ("cuInit Failed", "cuda"),
    ("unable to load,  libcuda.so.1", "cuda"),
    ("Platform has been denied for GDS", "platform"),
)

# Up to 1.16, and from 1.17 on. Later lines about P2PDMA then describe the switch, not the GPU or the kernel.
P2PDMA_OFF = ("Config doesn't support PCIP2PDMA", "PCIP2PDMA is not enabled in the configuration")

_LOG_LINE = re.compile(
    r"^\s*\d\d-\d\d-\d{4} [\d:]+ \[pid=\d+ tid=\d+\] (?P<level>[A-Z]+)\s+(?P<place>\S+?):(?P<line>\d+) (?P<text>.*)"
)
_RULER = re.compile(r"^\s*=+\s*\Z")
_TITLE = re.compile(r"^\s*([A-Z][A-Z ]+):\s*\Z")
_GPU = re.compile(
    r"GPU index (?P<index>\d+) (?P<name>.{1,200}?) bar:\d+ bar size \(MiB\):(?P<bar>\d+)"
    r"(?P<words>[^,]*)(?:, IOMMU State: (?P<iommu>.+?))?\s*\Z"
)
_P2PDMA = re.compile(
    r"Is PCIP2PDMA Supported: (\d) kernel Support: (\d) pci_p2pdma_supported_cuda: (\d) "
    r"checkIfAllGPUsSupportP2PDMA\(\): (\d)"
)
_MODES = ("p2pdma", "nvfs", "dmabuf", "c2c", "compat")
_VERSION_PAIR = re.compile(
    r"(GDS release version|nvidia_fs version|nvidia_fs minimum version|libcufile version):\s*(\S+)"
)


def parse_table(text: str) -> dict[str, t.Any]:
    """Parse libcufile's log at level INFO, or the output of "gdscheck -p"; without a table the parts are empty.

    Keys: versions {name: text}, drivers {row: list of p2pdma, nvfs, dmabuf, c2c, compat}, rdma {row: text}, settings
    {cufile.json key as printed: text}, gpus [{index, name, bar_mib, supported, iommu}], platform {row: text},
    p2pdma (None, or {supported, kernel, cuda, gpus}: bool each), signs (prerequisites that lines report as missing, in
    order), errors (texts of level ERROR), compatible (libcufile reports compatible mode).
    If P2PDMA is switched off in the configuration, the log's lines about it are not a finding, and are left out.
    "Platform verification succeeded" is not kept: hosts that can only do compat print it too.
    """
    table: dict[str, t.Any] = {
        "versions": {},
        "drivers": {},
        "rdma": {},
        "settings": {},
        "gpus": [],
        "platform": {},
        "p2pdma": None,
        "signs": [],
        "errors": [],
        "compatible": False,
    }
    section = ""
    for raw in text.splitlines():
        found = _LOG_LINE.match(raw)
        line = found.group("text") if found else raw
        if found and found.group("level") == "ERROR":
            _append(table["errors"], line.strip())
        for sign, prerequisite in LOG_SIGNS:
            if sign in line:
                _append(table["signs"], prerequisite)
        title = _TITLE.match(line)
        if title:
            section = title.group(1).strip()
        elif not _RULER.match(line):
            _read_line(table, section, line)
    if any(words in text for words in P2PDMA_OFF):
        table["p2pdma"] = None
        table["signs"] = [sign for sign in table["signs"] if sign not in ("gpu_p2pdma", "kernel_p2pdma")]
    return table


def _append(values: list[str], value: str) -> None:
    if value and value not in values:
        values.append(value)


def _read_line(table: dict[str, t.Any], section: str, line: str) -> None:
    if "running in compatible mode" in line:
        table["compatible"] = True
    p2pdma = _P2PDMA.search(line)
    if p2pdma:
        table["p2pdma"] = dict(zip(("supported", "kernel", "cuda", "gpus"), (bit == "1" for bit in p2pdma.groups())))
    gpu = _GPU.search(line)
    if gpu:
        table["gpus"].append(
            {
                "index": int(gpu.group("index")),
                "name": gpu.group("name"),
                "bar_mib": int(gpu.group("bar")),
                "supported": gpu.group("words").strip() == "supports GDS",
                "iommu": gpu.group("iommu"),
            }
        )
        return
    versions = _VERSION_PAIR.findall(line)
    if versions:
        table["versions"].update(versions)
        return
    name, colon, value = line.partition(":")
    if colon and name.strip():
        _keep_pair(table, section, name.strip(), value.strip())


def _keep_pair(table: dict[str, t.Any], section: str, name: str, value: str) -> None:
    if section == "DRIVER CONFIGURATION":
        if name.startswith("--"):
            table["rdma"][name.lstrip("- ")] = value
            return
        modes = driver_modes(name, value)
        if modes is not None:
            row = table["drivers"].setdefault(name.replace(" P2PDMA", ""), [])
            row.extend(mode for mode in modes if mode not in row)
    elif section == "CUFILE CONFIGURATION" and "." in name and " " not in name:
        table["settings"][name] = value
    elif section == "PLATFORM INFO" and value and name in _PLATFORM_ROWS:
        table["platform"][name] = value


_PLATFORM_ROWS = ("IOMMU", "Nvidia Driver Info Status", "Cuda Driver Version Installed", "Platform", "Arch")


def driver_modes(name: str, value: str) -> list[str] | None:
    """Return the modes that a row of DRIVER CONFIGURATION names; None for any other row.

    Up to 1.15 a row is Supported (by nvidia-fs; "NVMe P2PDMA" has a row of its own) or Unsupported, from 1.16 on it is
    a list such as "p2pdma, compat".
    """
    if value == "Unsupported":
        return []
    if value == "Supported":
        return ["p2pdma" if name.endswith(" P2PDMA") else "nvfs"]
    modes = [word.strip() for word in value.split(",")]
    return modes if all(mode in _MODES for mode in modes) else None


def parse_cufile_json(text: str | None, path: str) -> dict[str, t.Any] | None:
    """Return the settings of a cufile.json, which is JSON with comments; None where it is missing or cannot be read."""
    try:
        return dict(parse(text or "", path).value)
    except NodeError:
        return None


def setting(config: dict[str, t.Any] | None, path: str, default: t.Any) -> t.Any:
    """Return a value of a parsed cufile.json by its dotted path, or the default if it is missing."""
    value: t.Any = config or {}
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
        if value is None:
            return default
    return value


def parse_nvidia_version(text: str | None) -> dict[str, t.Any]:
    """Parse /proc/driver/nvidia/version into {loaded, version, open_module}; the first line names the module.

    open_module is None if that line names no module.
    """
    first = (text or "").split("\n", 1)[0]
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", first + " ")
    return {
        "loaded": bool(first),
        "version": found.group(1) if found else None,
        "open_module": "Open Kernel Module" in first if "Kernel Module" in first else None,
    }


def parse_registry_dwords(text: str | None) -> dict[str, str] | None:
    """Return the RegistryDwords of /proc/driver/nvidia/params as a mapping; None where the file has no such line."""
    found = re.search(r'^RegistryDwords:\s*"(.*)"', text or "", re.MULTILINE)
    if not found:
        return None
    pairs = (entry.split("=", 1) for entry in found.group(1).split(";") if "=" in entry)
    return {name.strip(): value.strip() for name, value in pairs}


def parse_nvfs_modules(text: str | None) -> dict[str, str] | None:
    """Parse /proc/driver/nvidia-fs/modules, one "name: version" a line: storage drivers registered with nvidia-fs.

    None where the file cannot be read.
    """
    if text is None:
        return None
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def error_text(code: int) -> str:
    """Return a status of libcufile with its meaning: "5008 (I/O not supported on this file)"."""
    return f"{code} ({ERROR_NAMES.get(code, 'unknown to this version')})"
