# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prerequisites of each path of GPUDirect Storage on one mount, and their states. Pure functions.

Sources: [TG] GPUDirect Storage Installation and Troubleshooting Guide, [RN] its release notes, [P2P] "GDS Support for
NVME Drives Using Linux PCI P2PDMA Support", all docs.nvidia.com; [NVFS] the source of nvidia-fs.
"""

from __future__ import annotations

import typing as t

from ..system.versions import version_key
from .parse import setting

MET = "met"
MISSING = "missing"
# NVIDIA advises against it or does not guarantee it: it may still work, so it decides nothing alone.
DOUBTFUL = "doubtful"
UNKNOWN = "unknown"

NVFS = "nvfs"
P2PDMA = "p2pdma"

EBS_MODEL = "Amazon Elastic Block Store"
# [P2P] "OpenRM version 565.47 or above".
P2PDMA_DRIVER = (565, 47)
# [RN] P2PDMA came with GDS 1.13 (CUDA 12.8), RAID 1 and 10 by nvidia-fs with 1.19.
P2PDMA_LIBRARY = (1, 13)
# [RN] nvidia-fs can hang with SGL drives from this kernel on, unless DOCA 3.3.0 or newer patched the driver.
NVFS_HANG_KERNEL = (6, 17)
# [TG] the registry settings of x86, and the one that GPUs before Hopper need in addition.
REGISTRY = {"RMForceStaticBar1": "1", "RmForceDisableIomapWC": "1"}
PRE_HOPPER = ("A100", "A40", "L4", "L40")
# NVIDIA's gds-diag: RAID with P2PDMA on x86 from this kernel on, with block.raid.use_pci_p2pdma.
RAID_P2PDMA_KERNEL = (7, 1)
# CUfileOpError of cufile.h: nvidia-fs driver version mismatch, and version read error.
VERSION_ERRORS = (5004, 5005)
# cudaError 35 is insufficient driver, CUresult 803 system driver mismatch, 804 compatibility not supported on device.
DRIVER_TOO_OLD = (35, 803, 804)
BLOCK_FILESYSTEMS = ("ext4", "xfs")
# [NVFS] nvfs-dma.h: the names under which storage drivers register with nvidia-fs.
REGISTERED_AS = {
    "lustre": "lnet",
    "nfs": "rpcrdma",
    "nfs4": "rpcrdma",
    "beegfs": "beegfs",
    "gpfs": "mmfslinux",
    "wekafs": "wekafsio",
}


def _item(name: str, paths: tuple[str, ...], state: str, found: str, hint: str) -> dict[str, t.Any]:
    return {"id": name, "paths": list(paths), "state": state, "found": found, "hint": "" if state == MET else hint}


def _state(good: bool | None) -> str:
    return UNKNOWN if good is None else MET if good else MISSING


def prerequisites(facts: dict[str, t.Any], mount: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return every prerequisite of a direct path on this mount: [{id, paths, state, found, hint}].

    facts are ``look.look``'s; mount is one of its mounts. paths are those that need it: nvfs, p2pdma or both.
    """
    both = (NVFS, P2PDMA)
    driver = facts["driver"]
    kind = {True: "the open kernel module", False: "the proprietary kernel module", None: "no known kernel module"}
    items = [
        _item(
            "driver",
            both,
            _state(driver["loaded"]),
            f"driver {driver['version'] or 'unknown'} loaded"
            if driver["loaded"]
            else "the NVIDIA driver is not loaded",
            "install the NVIDIA driver and load it; nvidia-smi must show the GPUs",
        ),
        _item(
            "open_kernel_module",
            both,
            _state(driver["open_module"]) if driver["loaded"] else UNKNOWN,
            f"{kind[driver['open_module']]} ({driver['evidence'] or 'nothing to read'})",
            "install the open kernel modules of the driver (nvidia-open), which GDS demands since 1.7.2",
        ),
        _item(
            "libcufile",
            both,
            _state(bool(facts["library"]["path"])),
            facts["library"]["path"] or "libcufile.so.0 was not found",
            "install the package nvidia-gds, or libcufile of your CUDA version",
        ),
    ]
    items += _storage(facts, mount) + _nvfs(facts, mount) + _p2pdma(facts, mount)
    return items


def _storage(facts: dict[str, t.Any], mount: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the prerequisites of the storage below the mount."""
    both = (NVFS, P2PDMA)
    fstype = mount["fstype"] or "nothing"
    if mount["layout"] in ("network", "memory", "stacked", "other", "unknown"):
        known = fstype in REGISTERED_AS
        return [
            _item(
                "filesystem",
                (NVFS,),
                _state(known),
                f"{fstype} on {mount['mount_point'] or mount['path']}",
                "use ext4 or XFS on local NVMe disks, or FSx for Lustre over EFA",
            ),
            _item(
                "filesystem",
                (P2PDMA,),
                MISSING,
                f"{fstype} is not on a local NVMe disk",
                "P2PDMA works with ext4 or XFS on one local NVMe disk only",
            ),
        ]
    items = [
        _item(
            "filesystem",
            both,
            _state(fstype in BLOCK_FILESYSTEMS),
            fstype,
            "make the filesystem ext4 (with data=ordered) or XFS; cuFile supports no other on local disks",
        )
    ]
    if fstype == "ext4":
        ordered = "data=ordered" in mount["options"]
        items.append(
            _item(
                "ext4_data_ordered",
                both,
                _state(ordered),
                "data=ordered" if ordered else "no data=ordered in the mount options",
                "mount ext4 with an explicit data=ordered: cuFile reads the mount table and takes the default for none",
            )
        )
    return items + _disks(facts, mount)


def _disks(facts: dict[str, t.Any], mount: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    both = (NVFS, P2PDMA)
    disks = mount["disks"]
    names = ", ".join(disk["kname"] for disk in disks) or "no disk found"
    nvme = bool(disks) and all(disk["kname"].startswith("nvme") for disk in disks)
    items = [_item("nvme_disks", both, _state(nvme), names, "use local NVMe disks: cuFile takes no others on EC2")]
    ebs = [disk["kname"] for disk in disks if disk["model"] == EBS_MODEL]
    if ebs:
        found = f"{', '.join(ebs)} is an EBS volume"
        items.append(_item("instance_store", both, DOUBTFUL, found, "use instance-store disks: EBS is in no GDS list"))
    protected = [disk["kname"] for disk in disks if disk["integrity"]]
    if protected:
        hint = "format the disks without protection information: cuFile refuses block integrity"
        items.append(_item("block_integrity", both, MISSING, f"{', '.join(protected)} has block integrity on", hint))
    if mount["layout"] in ("lvm", "dm"):
        found = "LVM" if mount["layout"] == "lvm" else "device-mapper"
        hint = "put the filesystem on a disk or on md RAID 0 (role nvme_raid0): cuFile takes no device-mapper volume"
        items.append(_item("lvm", both, MISSING, f"the mount is on {found}", hint))
    if mount["layout"] == "md":
        items += _raid(facts, mount)
    return items


def _raid(facts: dict[str, t.Any], mount: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    level = mount["md_level"]
    library = version_key(facts["library"]["version"])
    levels = ("raid0", "raid1", "raid10") if library >= (1, 19) else ("raid0",)
    if level in levels or (library == () and level in ("raid1", "raid10")):
        state = MET if level in levels else UNKNOWN
    else:
        state = MISSING
    kernel, machine = facts["kernel"], facts["kernel"]["machine"]
    if machine and machine != "x86_64":
        p2pdma = MET
    elif version_key(kernel["release"]) >= RAID_P2PDMA_KERNEL and _config(facts, "block.raid.use_pci_p2pdma", False):
        p2pdma = DOUBTFUL
    else:
        p2pdma = MISSING
    return [
        _item("raid_level", (NVFS,), state, str(level), "use RAID 0: nvidia-fs takes RAID 1 and 10 from GDS 1.19 on"),
        _item(
            "raid_p2pdma",
            (P2PDMA,),
            p2pdma,
            f"md {level} on {machine or 'an unknown machine'}",
            "use one filesystem a disk (nvme_raid0_layout: per_disk): P2PDMA does not work over md RAID 0 on x86",
        ),
    ]


def _nvfs(facts: dict[str, t.Any], mount: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the other prerequisites of the path through nvidia-fs."""
    nvfs, kernel = facts["nvidia_fs"], facts["kernel"]
    network = REGISTERED_AS.get(mount["fstype"] or "")
    key = network or "nvme"
    registered: bool | None
    if nvfs["loaded"] and nvfs["registered"] is None:
        registered, found = None, "/proc/driver/nvidia-fs/modules cannot be read"
    elif nvfs["loaded"]:
        registered = key in nvfs["registered"]
        found = f"registered with nvidia-fs: {', '.join(sorted(nvfs['registered'])) or 'none'}"
    else:
        registered = kernel["nvme_hooks"] if key == "nvme" else None
        found = {True: "the NVMe driver has the hooks", False: "the NVMe driver has no hooks for nvidia-fs"}.get(
            t.cast(bool, registered), "cannot be seen while nvidia-fs is not loaded"
        )
    hint = (
        "load the GDS-capable client module before nvidia-fs"
        if network
        else "install the patched NVMe driver of DOCA or MLNX_OFED (mlnx-nvme-dkms, kmod-mlnx-nvme), or use P2PDMA"
    )
    items = [
        _item(
            "nvidia_fs_module",
            (NVFS,),
            _state(nvfs["loaded"]),
            f"nvidia-fs {nvfs['version'] or ''} is loaded".replace("  ", " ")
            if nvfs["loaded"]
            else "nvidia-fs is not loaded",
            "install nvidia-fs (nvidia-fs-dkms) after the driver and load it: modprobe nvidia-fs",
        ),
        _item("nvme_driver" if not network else "client_driver", (NVFS,), _state(registered), found, hint),
    ]
    minimum = (facts.get("capability") or {}).get("versions", {}).get("nvidia_fs minimum version")
    if minimum and version_key(nvfs["version"]):
        good = version_key(nvfs["version"]) >= version_key(minimum)
        hint = f"install nvidia-fs {minimum} or newer and load it again"
        items.append(_item("nvidia_fs_version", (NVFS,), _state(good), f"nvidia-fs {nvfs['version']}", hint))
    if version_key(kernel["release"]) >= NVFS_HANG_KERNEL and not network:
        items.append(
            _item(
                "kernel_nvfs",
                (NVFS,),
                DOUBTFUL,
                f"kernel {kernel['release']}",
                "use P2PDMA, or DOCA 3.3.0 or newer: from kernel 6.17 on nvidia-fs can hang with an older NVMe driver",
            )
        )
    if kernel["machine"] == "x86_64" and facts["iommu"]:
        items.append(
            _item(
                "iommu",
                (NVFS, P2PDMA),
                DOUBTFUL,
                "an IOMMU is on",
                "turn it off (kernel parameter intel_iommu=off or amd_iommu=off, then reboot): NVIDIA guarantees "
                "nothing with an IOMMU on",
            )
        )
    return items


def _p2pdma(facts: dict[str, t.Any], mount: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the other prerequisites of the path through the kernel's P2PDMA."""
    kernel, driver = facts["kernel"], facts["driver"]
    supported = kernel["p2pdma"] if kernel["p2pdma"] is not None else (False if kernel["config"] is False else None)
    version = version_key(driver["version"])
    library = version_key(facts["library"]["version"])
    multipath = facts["nvme_multipath"]
    wanted = bool(_config(facts, "properties.use_pci_p2pdma", False))
    items = [
        _item(
            "kernel_p2pdma",
            (P2PDMA,),
            _state(supported),
            f"kernel {kernel['release'] or 'unknown'} "
            + ("with" if supported else "without" if supported is False else "with unknown")
            + " P2PDMA for user memory",
            "boot a kernel that has p2pdma_pgmap_ops in /proc/kallsyms: 6.2 or newer on Ubuntu",
        ),
        _item(
            "driver_version",
            (P2PDMA,),
            _state(version >= P2PDMA_DRIVER if version else None),
            f"driver {driver['version'] or 'unknown'}",
            "install driver 565.47 or newer",
        ),
        _item(
            "library_version",
            (P2PDMA,),
            _state(library >= P2PDMA_LIBRARY if library else None),
            f"libcufile {facts['library']['version'] or 'of unknown version'}",
            "install GDS 1.13 (CUDA 12.8) or newer",
        ),
        _item(
            "nvme_multipath",
            (P2PDMA,),
            _state(None if multipath is None else not multipath),
            {True: "nvme_core multipath is on", False: "nvme_core multipath is off"}.get(
                t.cast(bool, multipath), "nvme_core is not loaded"
            ),
            "set 'options nvme_core multipath=N' in /etc/modprobe.d, rebuild the initramfs and reboot",
        ),
        _item(
            "cufile_p2pdma",
            (P2PDMA,),
            _state(wanted),
            f"properties.use_pci_p2pdma is {str(wanted).lower()} in {facts['cufile_json']['path']}",
            "set properties.use_pci_p2pdma to true in /etc/cufile.json, from GDS 1.16 on block.nvme.use_pci_p2pdma too",
        ),
    ]
    if kernel["machine"] in ("x86_64", None):
        items.append(_registry(facts))
    return items


def registry_wanted(gpus: list[str]) -> dict[str, str]:
    """Return the RegistryDwords that P2PDMA needs with these GPU models on x86."""
    old = any(word in PRE_HOPPER for name in gpus for word in name.replace("-", " ").split())
    return {**REGISTRY, "ForceP2P": "0"} if old else dict(REGISTRY)


def _registry(facts: dict[str, t.Any]) -> dict[str, t.Any]:
    wanted = registry_wanted(facts["gpus"])
    found = facts["registry_dwords"]
    absent = [f"{name}={value}" for name, value in wanted.items() if (found or {}).get(name) != value]
    text = ";".join(f"{name}={value}" for name, value in wanted.items())
    return _item(
        "registry_dwords",
        (P2PDMA,),
        UNKNOWN if found is None else MISSING if absent else MET,
        "the driver's parameters cannot be read"
        if found is None
        else "not set: " + ", ".join(absent)
        if absent
        else text,
        f"set 'options nvidia NVreg_RegistryDwords=\"{text};\"' in /etc/modprobe.d, rebuild the initramfs and reboot",
    )


def _config(facts: dict[str, t.Any], path: str, default: t.Any) -> t.Any:
    return setting(facts["cufile_json"]["settings"], path, default)


def from_log(
    items: list[dict[str, t.Any]], table: dict[str, t.Any], err: int | None = None, cu_err: int | None = None
) -> list[dict[str, t.Any]]:
    """Return the prerequisites with libcufile's own findings added: its errors override all other evidence.

    table is from ``parse.parse_table``; err and cu_err are the codes that libcufile returned.
    """
    reported = [_LOG_ITEMS[sign] for sign in table["signs"] if sign in _LOG_ITEMS]
    p2pdma = table["p2pdma"]
    if p2pdma and not p2pdma["kernel"]:
        reported.append(_LOG_ITEMS["kernel_p2pdma"])
    if p2pdma and not (p2pdma["cuda"] and p2pdma["gpus"]):
        reported.append(_LOG_ITEMS["gpu_p2pdma"])
    if err in VERSION_ERRORS:
        reported.append(_LOG_ITEMS["nvidia_fs_version"])
    if cu_err in DRIVER_TOO_OLD:
        reported.append(_LOG_ITEMS["cuda_driver_version"])
    answer = [dict(item) for item in items]
    for name, paths, found, hint in reported:
        known = [item for item in answer if item["id"] == name and set(item["paths"]) & set(paths)]
        for item in known:
            if item["state"] != MISSING:
                every = list(dict.fromkeys([*item["paths"], *paths]))
                item.update(state=MISSING, found=found, hint=item["hint"] or hint, paths=every)
        if not known:
            answer.append(_item(name, paths, MISSING, found, hint))
    return answer


_LOG_ITEMS: dict[str, tuple[str, tuple[str, ...], str, str]] = {
    "nvidia_fs_module": ("nvidia_fs_module", (NVFS,), "libcufile finds no nvidia-fs", "load it: modprobe nvidia-fs"),
    "storage_driver": (
        "nvme_driver",
        (NVFS,),
        "libcufile: NVMe driver not registered with nvidia-fs",
        "install the patched NVMe driver of DOCA or MLNX_OFED (mlnx-nvme-dkms, kmod-mlnx-nvme), or use P2PDMA",
    ),
    "kernel_p2pdma": ("kernel_p2pdma", (P2PDMA,), "libcufile finds no P2PDMA in this kernel", "boot a newer kernel"),
    "gpu_p2pdma": (
        "gpu_p2pdma",
        (P2PDMA,),
        "the GPU's attribute for P2PDMA is unsupported (CUDA error 801)",
        "check driver (open, 565.47 or newer), RegistryDwords and GPU generation (Ampere or newer), then reboot",
    ),
    "block_device": ("nvme_disks", (NVFS, P2PDMA), "libcufile: unsupported block device", "use local NVMe disks"),
    "ext4_data_ordered": (
        "ext4_data_ordered",
        (NVFS, P2PDMA),
        "libcufile finds no data=ordered in the mount table",
        "mount ext4 with an explicit data=ordered",
    ),
    "nvidia_fs_version": (
        "nvidia_fs_version",
        (NVFS,),
        "libcufile and nvidia-fs are of releases that do not fit",
        "install nvidia-fs of the CUDA release that libcufile is of, and load it again",
    ),
    "cuda_driver_version": (
        "driver_version",
        (NVFS, P2PDMA),
        "the NVIDIA driver is too old for this CUDA",
        "install the driver that the CUDA release asks for",
    ),
    "udev": (
        "udev",
        (NVFS, P2PDMA),
        "libcufile gets no properties of the device from udev",
        "run systemd-udevd, and udevadm trigger once; in a container mount /run/udev",
    ),
    "raid_level": ("raid_level", (NVFS,), "libcufile refuses this RAID", "use RAID 0 of plain NVMe disks"),
    "raid_p2pdma": ("raid_p2pdma", (P2PDMA,), "libcufile: P2PDMA is off for RAID", "use one filesystem a disk"),
    "cuda": ("cuda", (NVFS, P2PDMA), "libcufile could not start CUDA", "check nvidia-smi and libcuda.so.1"),
    "platform": ("platform", (NVFS, P2PDMA), "libcufile has denied this platform", "see NVIDIA's list of platforms"),
}


def missing(items: list[dict[str, t.Any]], path: str, states: tuple[str, ...] = (MISSING,)) -> list[str]:
    """Return the ids of the items that a path (nvfs or p2pdma) lacks, or that have one of ``states``."""
    found = [item["id"] for item in items if path in item["paths"] and item["state"] in states]
    return list(dict.fromkeys(found))
