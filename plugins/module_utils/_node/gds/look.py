# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read-only facts that GPUDirect Storage depends on, except those from libcufile itself."""

from __future__ import annotations

import re
import typing as t

from ..system.host import CommandError, Host, NodeError
from ..system.mounts import read_mounts
from .mount import block_devices, resolve
from .parse import parse_cufile_json, parse_nvfs_modules, parse_nvidia_version, parse_registry_dwords

CUFILE_JSON = "/etc/cufile.json"
# Directory of gdscheck and gdsio (NVIDIA GPUDirect Storage installation guide). /usr/local/gds has never existed.
TOOLS_DIRECTORY = "/usr/local/cuda/gds/tools"
# The soname has been libcufile.so.0 since the first release; the directories are those of CUDA's packages.
LIBRARY = "libcufile.so.0"
LIBRARY_DIRECTORIES = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/usr/lib/x86_64-linux-gnu")
# Time limit for the lookup of a path.
ANSWER_SECONDS = 10
TOOLS = ("modinfo", "dkms", "dpkg-query", "rpm", "ldconfig")


def look(host: Host, paths: list[str], library: str | None = None) -> dict[str, t.Any]:
    """Return the facts that a verdict on GPUDirect Storage needs, in plain JSON types.

    Keys: mounts (for each path, which may be a link, the result of ``mount.resolve``, with exists and answers), kernel
    {release, machine, p2pdma, config, nvme_hooks}, driver {loaded, version, open_module, evidence}, registry_dwords
    (mapping or None), gpus (model names), nvidia_fs {loaded, version, registered}, nvme_multipath (bool or None), iommu
    (bool or None), udev (whether its database of devices exists), library {path, version, asked (the path in the
    options)}, cufile_json {path, target, exists, valid, settings}, tools {name: path or None}.
    """
    _refuse_paths(paths)
    tools: dict[str, str | None] = {name: host.which(name) for name in TOOLS}
    for name in ("gdscheck.py", "gdscheck", "gdsio"):
        path = f"{TOOLS_DIRECTORY}/{name}"
        tools[name] = path if host.exists(path) else host.which(name)
    mounts = read_mounts(host)
    devices = block_devices(host)
    return {
        "mounts": [_mount(host, path, mounts, devices) for path in paths],
        "kernel": _kernel(host),
        "driver": _driver(host, tools),
        "registry_dwords": parse_registry_dwords(host.read_text("/proc/driver/nvidia/params")),
        "gpus": _gpus(host),
        "nvidia_fs": _nvidia_fs(host),
        "nvme_multipath": _switch(host.read_text("/sys/module/nvme_core/parameters/multipath")),
        "iommu": bool(host.listdir("/sys/kernel/iommu_groups")) if host.exists("/sys/kernel/iommu_groups") else None,
        # Without this database, for example in a container, libcufile 1.15 accepts no file (recorded).
        "udev": host.exists("/run/udev/data"),
        "library": _library(host, tools, library),
        "cufile_json": _cufile_json(host),
        "tools": tools,
    }


def _mount(
    host: Host, path: str, mounts: list[dict[str, t.Any]], devices: dict[str, dict[str, t.Any]]
) -> dict[str, t.Any]:
    """Return the mount of a path, with a time limit: a network filesystem without its server hangs for ever."""
    try:
        completed = host.run(["readlink", "-e", "--", path], timeout=ANSWER_SECONDS, check=False)
    except CommandError:
        return {**resolve(path, mounts, devices), "exists": None, "answers": False}
    if completed.rc != 0:
        # The parent's mount proves nothing about a missing path.
        return {**resolve(path, [], devices), "exists": False, "answers": True}
    return {**resolve(completed.stdout[:-1], mounts, devices), "path": path, "exists": True, "answers": True}


def _refuse_paths(paths: list[str]) -> None:
    wrong = [path for path in paths if "\0" in path or any("\ud800" <= letter <= "\udfff" for letter in path)]
    if wrong:
        raise NodeError(f"{wrong[0]!r} holds a NUL or is not UTF-8, so its mount cannot be looked up: use another path")


def _switch(text: str | None) -> bool | None:
    word = (text or "").strip()
    return {"Y": True, "N": False}.get(word)


def _kernel(host: Host) -> dict[str, t.Any]:
    release = (host.read_text("/proc/sys/kernel/osrelease") or "").strip()
    symbols = host.read_text("/proc/kallsyms") or ""
    config = host.read_text(f"/boot/config-{release}")
    return {
        "release": release or None,
        "machine": (host.read_text("/proc/sys/kernel/arch") or "").strip() or _machine(host),
        # NVIDIA tests for P2PDMA for user space by this symbol. A restricted kallsyms hides addresses, not names.
        "p2pdma": (" p2pdma_pgmap_ops" in symbols) if symbols.strip() else None,
        "config": None if config is None else "CONFIG_PCI_P2PDMA=y" in config.split("\n"),
        # nvidia-fs looks these up by name (nvfs-dma.c, modules_list); only a patched NVMe driver has them.
        "nvme_hooks": bool(re.search(r" nvme_v[12]_register_nvfs_dma_ops\b", symbols)) if symbols.strip() else None,
    }


def _machine(host: Host) -> str | None:
    try:
        return host.run(["uname", "-m"], timeout=10).stdout.strip() or None
    except CommandError:
        return None


def _driver(host: Host, tools: dict[str, str | None]) -> dict[str, t.Any]:
    driver = parse_nvidia_version(host.read_text("/proc/driver/nvidia/version"))
    if driver["loaded"]:
        return {**driver, "evidence": "/proc/driver/nvidia/version"}
    if not tools["modinfo"]:
        return {**driver, "evidence": None}
    # Not loaded: the module on disk is the open one if its licence is Dual MIT/GPL, otherwise NVIDIA's.
    licence = host.run(["modinfo", "-F", "license", "nvidia"], timeout=20, check=False)
    if licence.rc != 0 or not licence.stdout.strip():
        return {**driver, "evidence": None}
    version = host.run(["modinfo", "-F", "version", "nvidia"], timeout=20, check=False)
    return {
        "loaded": False,
        "version": version.stdout.strip() or None,
        "open_module": "GPL" in licence.stdout,
        "evidence": "modinfo nvidia",
    }


def _gpus(host: Host) -> list[str]:
    names = []
    for address in host.listdir("/proc/driver/nvidia/gpus"):
        text = host.read_text(f"/proc/driver/nvidia/gpus/{address}/information") or ""
        found = re.search(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE)
        names.append(found.group(1) if found else "unknown")
    return names


def _nvidia_fs(host: Host) -> dict[str, t.Any]:
    version = host.read_text("/proc/driver/nvidia-fs/version")
    return {
        "loaded": version is not None or host.exists("/sys/module/nvidia_fs"),
        "version": version.partition(":")[2].strip() if version else None,
        "registered": parse_nvfs_modules(host.read_text("/proc/driver/nvidia-fs/modules")),
    }


def _library(host: Host, tools: dict[str, str | None], wanted: str | None) -> dict[str, t.Any]:
    path = wanted if wanted and host.exists(wanted) else None
    if not wanted:
        path = _linked_library(host, tools) or next(
            (f"{place}/{LIBRARY}" for place in LIBRARY_DIRECTORIES if host.exists(f"{place}/{LIBRARY}")), None
        )
    real = host.realpath(path) if path else ""
    found = re.search(r"\.so\.(\d+(?:\.\d+)+)\Z", real)
    return {"path": path, "version": found.group(1) if found else None, "asked": wanted or None}


def _linked_library(host: Host, tools: dict[str, str | None]) -> str | None:
    if not tools["ldconfig"]:
        return None
    listing = host.run(["ldconfig", "-p"], timeout=30, check=False).stdout
    found = re.search(rf"^\s*{re.escape(LIBRARY)} .*=> (/\S+)$", listing, re.MULTILINE)
    return found.group(1) if found else None


def _cufile_json(host: Host) -> dict[str, t.Any]:
    text = host.read_text(CUFILE_JSON)
    settings = parse_cufile_json(text, CUFILE_JSON)
    exists = host.exists(CUFILE_JSON)
    return {
        "path": CUFILE_JSON,
        "target": host.realpath(CUFILE_JSON),
        "exists": exists,
        "valid": settings is not None if exists else None,
        "settings": settings or {},
    }
