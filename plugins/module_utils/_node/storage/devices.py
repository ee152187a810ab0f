# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read-only facts of a node's block devices: disks, their content, holders and mounts.

``look`` returns plain JSON types; decisions are made elsewhere.
"""

from __future__ import annotations

import posixpath
import re
import typing as t

from ..system.ask import first_number
from ..system.host import CommandError, Host, NodeError
from ..system.instance import instance_type
from ..system.mounts import read_mounts, unescape
from . import blank
from .first_boot import current_boot
from .parse import SHARED_SIGNATURES, normal_uuid, parse_export, parse_lsblk, parse_lvm, parse_wipefs

# The controller model strings of EC2's two kinds of NVMe disks; no other property distinguishes them reliably.
INSTANCE_STORE_MODEL = "Amazon EC2 NVMe Instance Storage"
EBS_MODEL = "Amazon Elastic Block Store"

LSBLK_COLUMNS = "NAME,KNAME,PATH,TYPE,MODEL,SERIAL,SIZE,FSTYPE,LABEL,UUID,PTTYPE,RO,MOUNTPOINTS,PKNAME"
TOOLS = (
    "blkid",
    "lsblk",
    "lvs",
    "mdadm",
    "mkfs.ext4",
    "mkfs.xfs",
    "mount",
    "pvs",
    "udevadm",
    "wipefs",
)
PVS = ("--reportformat", "json", "-o", "pv_name,vg_name")
LVS = ("--reportformat", "json", "-o", "vg_name,lv_name,lv_path,lv_active")
LVM_ALL_DEVICES = ("--devicesfile", "")
# Services that take the instance-store disks by themselves at every boot.
OWNER_UNITS = {"setup-ephemeral.service": "parallelcluster", "dlami-nvme.service": "dlami"}
# Number of further tries for a device that is open exclusively without a visible user, and the seconds between them:
# mdadm started by udev, or another look, closes it within moments.
CLAIM_ATTEMPTS, CLAIM_SECONDS = 4, 0.25
UNIT_DIRECTORIES = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)


def look(host: Host) -> dict[str, t.Any]:
    """Return the facts that a storage decision needs, in plain JSON types.

    Keys: disks[], arrays[], logical_volumes[], physical_volumes[] (kernel names in pvs), lvm_options[]
    (options with which LVM's tools see the disks), outside_members[]
    (members of arrays and of filesystems over several disks that are not instance-store disks), mounts[] (each with
    the kernel name of its device or None), units{}, tools{}, instance_type (str or None), boot_id.
    Sizes are in bytes. Raises ``NodeError`` if the tools that could show a disk in use are missing.
    """
    tools = {name: host.which(name) for name in TOOLS}
    for name in ("lsblk", "wipefs"):
        if not tools[name]:
            raise NodeError(f"looked for {name} and did not find it: install util-linux, then run again")
    devices = parse_lsblk(_lsblk(host))
    devices = {kname: device for kname, device in devices.items() if not is_hidden(host, kname)}
    for device in devices.values():
        device["children"] = [kname for kname in device["children"] if kname in devices]
    mounts = read_mounts(host)
    _attach_mounts(host, devices, mounts)
    _attach_swap(host, devices)
    _attach_sysfs(host, devices)
    interesting = _stack_of_instance_store(devices)
    _attach_signatures(host, devices, interesting)
    arrays = _arrays(host, devices, tools)
    physical, logical, lvm_options = _lvm(host, devices, tools, interesting)
    return {
        "disks": [_disk(host, device, devices, tools) for device in devices.values() if device["type"] == "disk"],
        "arrays": arrays,
        "logical_volumes": logical,
        "physical_volumes": physical,
        "lvm_options": lvm_options,
        "outside_members": [
            {"kname": kname, "uuid": normal_uuid(device["uuid"])}
            for kname, device in devices.items()
            if kname not in interesting and device["fstype"] in SHARED_SIGNATURES and device["uuid"]
        ],
        "mounts": mounts,
        "units": owner_units(host),
        "tools": tools,
        "instance_type": instance_type(host),
        "boot_id": current_boot(host),
    }


def _lsblk(host: Host) -> str:
    argv = ["lsblk", "--json", "--bytes", "--output", LSBLK_COLUMNS]
    completed = host.run(argv, timeout=60, check=False)
    if completed.rc != 0 and "unknown column" in completed.stderr:
        # util-linux before 2.37 reports only one mount point a device.
        argv[-1] = LSBLK_COLUMNS.replace("MOUNTPOINTS", "MOUNTPOINT")
        completed = host.run(argv, timeout=60, check=False)
    # Status 32 and 64 mean that no or only some of the named devices were found; none is named here.
    if completed.rc != 0 and not completed.stdout.strip():
        raise CommandError(argv, completed.rc, completed.stdout, completed.stderr, f"failed with status {completed.rc}")
    return completed.stdout


def is_hidden(host: Host, kname: str) -> bool:
    """Return whether this is one path of a multipath NVMe disk: it has no device node, and the disk is listed too."""
    return (host.read_text(f"/sys/class/block/{kname}/hidden") or "").strip() == "1"


def serials_of(host: Host, kind: str) -> list[tuple[str, str]]:
    """Return the (kernel name, serial number) of every current disk of a kind."""
    found = []
    for kname in host.listdir("/sys/class/block"):
        model = host.read_text(f"/sys/class/block/{kname}/device/model")
        if model and disk_kind(model) == kind and not is_hidden(host, kname):
            found.append((kname, (host.read_text(f"/sys/class/block/{kname}/device/serial") or "").strip()))
    return found


def device_name(host: Host, path: str) -> str | None:
    """Return the kernel name of the device node that a path leads to; None if it leads out of /dev."""
    real = host.realpath(path)
    name = posixpath.basename(real)
    return name if real == f"/dev/{name}" else None


def _attach_mounts(host: Host, devices: dict[str, dict[str, t.Any]], mounts: list[dict[str, t.Any]]) -> None:
    """Add the mounts of the kernel's table: lsblk of older releases shows only one a device."""
    numbers = {_number(host, kname): kname for kname in devices}
    for mount in mounts:
        kname = numbers.get(mount["device"])
        if kname is None and mount["source"].startswith("/dev/"):
            # btrfs mounts carry an anonymous device number, so the source path is the only link to the disk.
            kname = device_name(host, mount["source"])
        mount["kname"] = kname
        if kname in devices and mount["target"] not in devices[kname]["mounts"]:
            devices[kname]["mounts"].append(mount["target"])
    for device in devices.values():
        device["mounts"].sort()


def _attach_swap(host: Host, devices: dict[str, dict[str, t.Any]]) -> None:
    for line in (host.read_text("/proc/swaps") or "").split("\n")[1:]:
        if not line.strip():
            continue
        kname = device_name(host, unescape(line.split()[0]))
        if kname in devices:
            devices[kname]["swap"] = True


def _attach_sysfs(host: Host, devices: dict[str, dict[str, t.Any]]) -> None:
    loops = loop_devices(host)
    for kname, device in devices.items():
        device["loops"] = loops.get(kname, [])
        device["holders"] = host.listdir(f"/sys/class/block/{kname}/holders") + device["loops"]
        if device["type"] != "disk":
            continue
        model = host.read_text(f"/sys/class/block/{kname}/device/model")
        serial = host.read_text(f"/sys/class/block/{kname}/device/serial")
        device["model"] = (model or "").strip()
        device["serial"] = (serial or "").strip() or device["serial"]


def loop_devices(host: Host) -> dict[str, list[str]]:
    """Return the loop devices by their backing device: the kernel does not list them as holders.

    The device's number identifies it: its node may lie anywhere. Without an answer of the loop device, the path does.
    """
    names = host.listdir("/sys/class/block")
    backings = {name: host.read_text(f"/sys/class/block/{name}/loop/backing_file") for name in names}
    numbers = {_number(host, name): name for name in names} if any(backings.values()) else {}
    loops: dict[str, list[str]] = {}
    for name, text in backings.items():
        backing = (text or "").rstrip("\n")
        kname = numbers.get(host.loop_backing(name) or "") if backing else None
        if not kname and backing.startswith("/dev/"):
            kname = device_name(host, backing)
        if kname:
            loops.setdefault(kname, []).append(name)
    return loops


def disk_kind(model: str) -> str:
    """Return instance_store, ebs or other, from the controller's model string."""
    return {INSTANCE_STORE_MODEL: "instance_store", EBS_MODEL: "ebs"}.get(model.strip(), "other")


def _stack_of_instance_store(devices: dict[str, dict[str, t.Any]]) -> list[str]:
    """Return the instance-store disks and everything that is built on them, by kernel name."""
    queue = [k for k, d in devices.items() if d["type"] == "disk" and disk_kind(d["model"]) == "instance_store"]
    found: list[str] = []
    while queue:
        kname = queue.pop(0)
        if kname not in found:
            found.append(kname)
            queue += devices[kname]["children"]
    return found


def _attach_signatures(host: Host, devices: dict[str, dict[str, t.Any]], knames: list[str]) -> None:
    """Add every signature that wipefs finds on the devices: udev's database, which lsblk shows, can be stale."""
    for device in devices.values():
        device["signatures"], device["readable"] = [], True
    if not knames:
        return
    paths = [devices[kname]["path"] for kname in knames]
    completed = host.run(["wipefs", "--no-act", "--json", *paths], timeout=60, check=False)
    if completed.rc == 0:
        batches = [(knames, completed.stdout)]
    else:
        batches = []
        for kname, path in zip(knames, paths):
            single = host.run(["wipefs", "--no-act", "--json", path], timeout=60, check=False)
            devices[kname]["readable"] = single.rc == 0
            batches.append(([kname], single.stdout))
    for group, text in batches:
        for signature in parse_wipefs(text):
            owner = _by_device_name(devices, group, signature.pop("device"))
            if owner:
                devices[owner]["signatures"].append(signature)
            else:
                # A signature without a known device may be on any of them.
                for kname in group:
                    devices[kname]["readable"] = False


def _by_device_name(devices: dict[str, dict[str, t.Any]], group: list[str], name: str) -> str | None:
    if len(group) == 1:
        return group[0]
    return next((kname for kname in group if name in (kname, posixpath.basename(devices[kname]["path"]))), None)


def _disk(
    host: Host, device: dict[str, t.Any], devices: dict[str, dict[str, t.Any]], tools: dict[str, t.Any]
) -> dict[str, t.Any]:
    kind = disk_kind(device["model"])
    below = _descendants(device, devices)
    members = [s for s in device["signatures"] if s["type"] == "linux_raid_member"]
    claimed = _claimed(host, device) if kind == "instance_store" else None
    proof = None
    if claimed is not None and not device["signatures"] and device["readable"]:
        proof = prove_blank(host, device)
        # wipefs reports a disk with read errors as blank, and ends with status 0 (util-linux 2.38 and 2.41).
        device["readable"] = proof is not None
    return {
        **{key: device[key] for key in ("kname", "path", "model", "serial", "size", "read_only", "pttype", "readable")},
        "kind": kind,
        "partitions": [d["kname"] for d in below if d["type"] == "part"],
        # Holders of an array or a volume further up are in the stack, except loop devices.
        "holders": sorted(
            set(device["holders"]).union(*(d["holders"] if d["type"] == "part" else d["loops"] for d in below))
        ),
        "stack": [
            {
                **{key: d[key] for key in ("kname", "path", "type")},
                "claimed": kind == "instance_store" and _taken(host, d),
            }
            for d in below
        ],
        "mounts": sorted({point for d in [device, *below] for point in d["mounts"]}),
        "swap": [d["path"] for d in [device, *below] if d["swap"]],
        "signatures": device["signatures"],
        "stack_signatures": [{"kname": d["kname"], **s} for d in below for s in d["signatures"]],
        "claimed": claimed,
        "md": _read_superblock(host, device["path"], tools) if members and kind == "instance_store" else None,
        "blank": proof,
        "use": None,
    }


def _claimed(host: Host, device: t.Mapping[str, t.Any]) -> bool | None:
    """Return ``Host.claimed`` of a device; a program that closes it soon does not count."""
    number = _number(host, device["kname"])
    found = host.claimed(device["path"], number)
    for _attempt in range(CLAIM_ATTEMPTS):
        if found is not True or _has_user(device):
            break
        host.sleep(CLAIM_SECONDS)
        found = host.claimed(device["path"], number)
    return found


def _has_user(device: t.Mapping[str, t.Any]) -> bool:
    return bool(device["children"] or device["holders"] or device["mounts"] or device["swap"])


def _taken(host: Host, device: t.Mapping[str, t.Any]) -> bool:
    """Return whether an unlisted program has a device open: in another mount namespace, or a virtual machine."""
    return not _has_user(device) and _claimed(host, device) is True


def prove_blank(host: Host, device: t.Mapping[str, t.Any]) -> dict[str, t.Any] | None:
    """Return the result of ``blank.prove`` for a whole disk; None if the disk cannot be read."""
    try:
        with host.opened_device(device["path"]) as reader:
            return blank.prove(host, reader, device, f"{current_boot(host)} {device['serial']} look")
    except OSError:
        return None


def look_at_rest(host: Host, facts: dict[str, t.Any], filesystem_uuids: t.Collection[str]) -> None:
    """Add facts about the progress of an interrupted run: blank and use of its arrays and disks.

    blank of an array, and of a member beyond its superblock; use of a filesystem with one of these UUIDs (32 hex
    digits), as ``filesystem_use`` returns it. None if nothing was read.
    """
    for disk in facts["disks"]:
        types = {signature["type"] for signature in disk["signatures"]}
        if disk["kind"] == "instance_store" and types == {"linux_raid_member"}:
            disk["blank"] = _prove_zeros(host, disk["path"], blank.SUPERBLOCK_END)
        found = next((s for s in disk["signatures"] if normal_uuid(s["uuid"]) in filesystem_uuids), None)
        disk["use"] = filesystem_use(host, disk["path"], found["type"]) if found else None
    for array in facts["arrays"]:
        found = array["filesystem"]
        if array["active"] and not found:
            array["blank"] = _prove_zeros(host, array["path"], 0)
        if array["active"] and found and normal_uuid(found["uuid"]) in filesystem_uuids:
            array["use"] = filesystem_use(host, array["path"], found["type"])


def _prove_zeros(host: Host, path: str, skip: int) -> dict[str, t.Any] | None:
    try:
        with host.opened_device(path) as reader:
            return blank.prove(host, reader, None, f"{current_boot(host)} {path} rest", skip)
    except OSError:
        return None


def filesystem_use(host: Host, path: str, fstype: str) -> dict[str, bool]:
    """Return {finished, pristine} of a filesystem, from its superblock.

    finished: mkfs has ended. pristine: it was never mounted and holds no file. Only ext4 counts its mounts: nothing
    proves that an XFS was never mounted. An unreadable filesystem counts as finished and used.
    """
    unknown = {"finished": True, "pristine": False}
    try:
        with host.opened_device(path) as reader:
            head = reader.read(0, 4096)
    except OSError:
        return unknown
    if fstype == "xfs" and head[:4] == b"XFSB":
        # sb_inprogress: mkfs.xfs sets it first and clears it last, and the kernel refuses to mount with it.
        return {"finished": head[126] == 0, "pristine": False}
    superblock = head[1024:]
    if fstype != "ext4" or superblock[56:58] != b"\x53\xef":
        return unknown
    inodes, free = (int.from_bytes(superblock[at : at + 4], "little") for at in (0, 16))
    mounted, mounts = int.from_bytes(superblock[44:48], "little"), int.from_bytes(superblock[52:54], "little")
    # mkfs.ext4 uses the eleven inodes that are reserved or lost+found, and writes this superblock last.
    return {"finished": True, "pristine": mounted == 0 and mounts == 0 and inodes - free == 11}


def _number(host: Host, kname: str) -> str:
    return (host.read_text(f"/sys/class/block/{kname}/dev") or "").strip()


def _descendants(device: dict[str, t.Any], devices: dict[str, dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    queue, found = list(device["children"]), []
    while queue:
        kname = queue.pop(0)
        if kname in devices and devices[kname] not in found:
            found.append(devices[kname])
            queue += devices[kname]["children"]
    return found


def _read_superblock(host: Host, path: str, tools: dict[str, t.Any]) -> dict[str, t.Any] | None:
    """Return {uuid, name, level, raid_devices, device_uuid} of a member's superblock; None if unreadable."""
    if not tools["mdadm"]:
        return None
    completed = host.run(["mdadm", "--examine", "--export", path], timeout=30, check=False)
    fields = parse_export(completed.stdout)
    if completed.rc != 0 or "MD_UUID" not in fields:
        return None
    return {
        "uuid": normal_uuid(fields["MD_UUID"]),
        "name": fields.get("MD_NAME", ""),
        "level": fields.get("MD_LEVEL", ""),
        "raid_devices": first_number(fields.get("MD_DEVICES")),
        "device_uuid": normal_uuid(fields.get("MD_DEV_UUID")),
    }


# States of md/array_state in which an array has members and cannot be read.
NOT_RUNNING = ("inactive", "clear")


def shown_uuid(host: Host, kname: str) -> str | None:
    """Return the UUID of an array in sysfs as 32 hex digits; None if it is missing, or zeros (inactive array)."""
    digits = normal_uuid((host.read_text(f"/sys/class/block/{kname}/md/uuid") or "").strip())
    return digits if digits and digits.strip("0") else None


def uuid_of_array(host: Host, kname: str, detail: t.Mapping[str, str] | None = None) -> str | None:
    """Return the UUID of an array as 32 hex digits: the kernel's, mdadm's, or its members' while it does not run.

    detail: the output of mdadm for it, if it was read already.
    """
    found = shown_uuid(host, kname) or normal_uuid((_detail(host, kname) if detail is None else detail).get("MD_UUID"))
    if found or (host.read_text(f"/sys/class/block/{kname}/md/array_state") or "").strip() not in NOT_RUNNING:
        return found
    # mdadm reads it from its map of the arrays that it assembled, and loses that map with /run.
    members = host.listdir(f"/sys/class/block/{kname}/slaves")
    known = {(_read_superblock(host, f"/dev/{member}", {"mdadm": True}) or {}).get("uuid") for member in members}
    return known.pop() if len(known) == 1 else None


def _detail(host: Host, kname: str) -> dict[str, str]:
    return parse_export(host.run(["mdadm", "--detail", "--export", f"/dev/{kname}"], timeout=30, check=False).stdout)


def _arrays(host: Host, devices: dict[str, dict[str, t.Any]], tools: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    arrays = []
    for kname in host.listdir("/sys/class/block"):
        members = host.listdir(f"/sys/class/block/{kname}/slaves")
        state = (host.read_text(f"/sys/class/block/{kname}/md/array_state") or "").strip()
        # After mdadm --stop a device node without members can remain: it is not an array.
        if not re.fullmatch(r"md[0-9_a-zA-Z]*", kname) or not state or not members:
            continue
        fields = _detail(host, kname) if tools["mdadm"] else {}
        device = devices.get(kname, {})
        filesystem = next((s for s in device.get("signatures", ()) if s["type"]), None)
        arrays.append(
            {
                "kname": kname,
                "path": f"/dev/{kname}",
                "uuid": uuid_of_array(host, kname, fields) if tools["mdadm"] else shown_uuid(host, kname),
                "name": fields.get("MD_NAME", ""),
                "level": (host.read_text(f"/sys/class/block/{kname}/md/level") or "").strip(),
                "chunk_kib": first_number(host.read_text(f"/sys/class/block/{kname}/md/chunk_size")) // 1024,
                "raid_devices": first_number(host.read_text(f"/sys/class/block/{kname}/md/raid_disks")),
                "active": state not in NOT_RUNNING,
                "members": members,
                "size": device.get("size", 0),
                "filesystem": filesystem,
                "mounts": device.get("mounts", []),
                "holders": device.get("holders", []),
                "blank": None,
                "use": None,
            }
        )
    return arrays


def _lvm(
    host: Host, devices: dict[str, dict[str, t.Any]], tools: dict[str, t.Any], knames: list[str]
) -> tuple[list[str], list[dict[str, t.Any]], list[str]]:
    """Return the physical volumes, the logical volumes of every volume group on an instance-store disk, and the options
    with which LVM's tools see them.
    """
    marked = {k for k in knames for s in devices[k]["signatures"] if s["type"] == "LVM2_member"}
    if not marked or not (tools["pvs"] and tools["lvs"]):
        return [], [], []
    options: list[str] = []
    physical = parse_lvm(host.run(["pvs", *PVS], timeout=60).stdout, "pv")
    if marked - {device_name(host, row["pv_name"]) for row in physical}:
        # LVM's devices file (use_devicesfile) can leave the image's own disks out. Before 2.03.12 there is none.
        every = host.run(["pvs", *LVM_ALL_DEVICES, *PVS], timeout=60, check=False)
        if every.rc == 0:
            options, physical = list(LVM_ALL_DEVICES), parse_lvm(every.stdout, "pv")
    logical = parse_lvm(host.run(["lvs", *options, *LVS], timeout=60).stdout, "lv")
    groups: dict[str, list[str]] = {}
    names = [device_name(host, row["pv_name"]) or row["pv_name"] for row in physical]
    for row, kname in zip(physical, names):
        if row["vg_name"]:
            groups.setdefault(row["vg_name"], []).append(kname)
    rows = logical + [{"vg_name": vg, "lv_name": ""} for vg in groups if vg not in {r["vg_name"] for r in logical}]
    volumes = []
    for row in rows:
        members = sorted(groups.get(row["vg_name"], []))
        if not set(members) & set(knames):
            continue
        kname = (device_name(host, row["lv_path"]) if row.get("lv_path") else None) or ""
        device = devices.get(kname, {})
        volumes.append(
            {
                "vg": row["vg_name"],
                "lv": row["lv_name"],
                "path": row.get("lv_path", ""),
                "kname": kname if device else "",
                "active": row.get("lv_active") == "active",
                "members": members,
                "size": device.get("size", 0),
                "filesystem": next((s for s in device.get("signatures", ()) if s["type"]), None),
                "mounts": device.get("mounts", []),
            }
        )
    return names, volumes, options


def owner_units(host: Host) -> dict[str, dict[str, t.Any]]:
    """Return {owner, exists, enabled, masked} for each service known to take the disks."""
    units = {}
    for unit, owner in OWNER_UNITS.items():
        files = [f"{directory}/{unit}" for directory in UNIT_DIRECTORIES]
        masked = any(host.realpath(path) == "/dev/null" for path in files if host.exists(path))
        units[unit] = {
            "owner": owner,
            "exists": any(host.exists(path) for path in files),
            "masked": masked,
            "enabled": not masked
            and any(
                unit in host.listdir(f"/etc/systemd/system/{name}")
                for name in host.listdir("/etc/systemd/system")
                if name.endswith((".wants", ".requires"))
            ),
        }
    return units
