# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the mount of a path and the layers below it: disks, md, LVM, a network filesystem. Pure functions.

``resolve`` needs the kernel's mount table and a description of the block devices; ``block_devices`` reads that
description from sysfs.
"""

from __future__ import annotations

import typing as t

from ..system.ask import first_number
from ..system.host import Host
from ..system.mounts import SHARED_FILESYSTEMS, find_mount

MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
STACKED = ("overlay", "aufs", "ecryptfs", "fuse.fuse-overlayfs")


def resolve(path: str, mounts: list[dict[str, t.Any]], devices: dict[str, dict[str, t.Any]]) -> dict[str, t.Any]:
    """Return the storage of a path.

    mounts is from ``read_mounts``, devices from ``block_devices``. Keys: path, mount_point,
    source, fstype, options (list), bind (whether the mount shows a directory below its filesystem's top), layout (one
    of disk, md, lvm, dm, network, memory, stacked, other, unknown), md_level (raid0, ..., or None), kname, disks (the
    whole disks at the bottom: [{kname, model, transport, integrity}]). Layout unknown means that there is no such
    mount.
    """
    mount = find_mount(path, mounts)
    answer: dict[str, t.Any] = {
        "path": path,
        "mount_point": None,
        "source": None,
        "fstype": None,
        "options": [],
        "bind": False,
        "layout": "unknown",
        "md_level": None,
        "kname": None,
        "disks": [],
    }
    if mount is None:
        return answer
    device = _device_of(mount, devices)
    answer.update(
        mount_point=mount["target"],
        source=mount["source"],
        fstype=mount["fstype"],
        options=list(dict.fromkeys(mount["options"].split(","))),
        # btrfs shows a subvolume as a root other than / too.
        bind=mount["root"] != "/" and mount["fstype"] != "btrfs",
        layout=_kind(mount["fstype"], device, devices),
        kname=device["kname"] if device else None,
    )
    if device:
        answer["md_level"] = next((d["md_level"] for d in _stack(device, devices) if d["md_level"]), None)
        answer["disks"] = [
            {key: d[key] for key in ("kname", "model", "transport", "integrity")}
            for d in sorted(_stack(device, devices), key=lambda d: d["kname"])
            if not d["slaves"] and not d["parent"]
        ]
    return answer


def _device_of(mount: dict[str, t.Any], devices: dict[str, dict[str, t.Any]]) -> dict[str, t.Any] | None:
    for device in devices.values():
        if device["number"] == mount["device"]:
            return device
    # btrfs mounts carry an anonymous device number.
    return devices.get(mount["source"].rsplit("/", 1)[-1]) if mount["source"].startswith("/dev/") else None


def _kind(fstype: str, device: dict[str, t.Any] | None, devices: dict[str, dict[str, t.Any]]) -> str:
    if device:
        return _block_kind(device, devices)
    for kind, names in (("network", SHARED_FILESYSTEMS), ("memory", MEMORY), ("stacked", STACKED)):
        if fstype in names:
            return kind
    return "other"


def _block_kind(device: dict[str, t.Any], devices: dict[str, dict[str, t.Any]]) -> str:
    """Return the first of lvm, dm and md from the top; LVM over md is lvm, since cuFile sees that first."""
    for layer in _stack(device, devices):
        if layer["dm_uuid"]:
            return "lvm" if layer["dm_uuid"].startswith("LVM-") else "dm"
        if layer["md_level"]:
            return "md"
    return "disk"


def _stack(device: dict[str, t.Any], devices: dict[str, dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the device and everything below it, from the top down, each once."""
    found: list[dict[str, t.Any]] = []
    waiting = [device]
    while waiting:
        layer = waiting.pop(0)
        if layer in found:
            continue
        found.append(layer)
        below = layer["slaves"] or ([layer["parent"]] if layer["parent"] else [])
        waiting.extend(devices[kname] for kname in below if kname in devices)
    return found


def block_devices(host: Host) -> dict[str, dict[str, t.Any]]:
    """Return all block devices of sysfs by kernel name.

    Keys: kname, number ("major:minor"), slaves (kernel names of its members), parent (the disk of a partition, or
    None), md_level, dm_uuid (None if it is neither), model, transport, integrity (bool, None if unknown).
    """
    devices: dict[str, dict[str, t.Any]] = {}
    for kname in host.listdir("/sys/class/block"):
        base = f"/sys/class/block/{kname}"
        parent = None
        if host.exists(f"{base}/partition"):
            parent = host.realpath(base).rstrip("/").split("/")[-2]
        integrity = host.read_text(f"{base}/integrity/device_is_integrity_capable")
        devices[kname] = {
            "kname": kname,
            "number": (host.read_text(f"{base}/dev") or "").strip(),
            "slaves": host.listdir(f"{base}/slaves"),
            "parent": parent,
            "md_level": (host.read_text(f"{base}/md/level") or "").strip() or None,
            "dm_uuid": (host.read_text(f"{base}/dm/uuid") or "").strip() or None,
            "model": (host.read_text(f"{base}/device/model") or "").strip() or None,
            "transport": (host.read_text(f"{base}/device/transport") or "").strip() or None,
            "integrity": None if integrity is None else first_number(integrity) != 0,
        }
    return devices
