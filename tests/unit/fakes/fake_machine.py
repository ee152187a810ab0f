# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The block devices of a simulated node: layers, mounts, and the output of the tools."""

from __future__ import annotations

import dataclasses
import json
import struct
import typing as t
import uuid

INSTANCE_STORE = "Amazon EC2 NVMe Instance Storage"
EBS = "Amazon Elastic Block Store"
GIB = 1 << 30
# Prefixes of the UUIDs of device-mapper's users.
DM_UUIDS = {"lvm": "LVM", "crypt": "CRYPT-LUKS2", "mpath": "mpath"}
# Offset of an array's or a volume's data on the disks below it: after the superblock and its reserve.
MEMBER_CONTENT = (129 << 20, 4096)
# Blocks of mkfs besides the superblock: group descriptors, a backup superblock, inodes.
FILESYSTEM_CONTENT = ((1024, 4096), (128 << 20, 4096), (4 << 30, 1 << 20))

# Formats of lsblk by distribution; README.md of the fixtures lists the recorded ones.
SHAPES = {
    "2.32": {"column": "MOUNTPOINT", "strings": True, "empty": None},
    "2.36": {"column": "MOUNTPOINT", "strings": False, "empty": None},
    "2.37": {"column": "MOUNTPOINTS", "strings": False, "empty": [None]},
    "2.38": {"column": "MOUNTPOINTS", "strings": False, "empty": [None]},
    "2.39": {"column": "MOUNTPOINTS", "strings": False, "empty": [None]},
    "2.41": {"column": "MOUNTPOINTS", "strings": False, "empty": []},
}


def ext4_superblock(mounts: int = 0, files: int = 0) -> bytes:
    """The superblock of an ext4 of 65536 inodes, with so many mounts and files."""
    # Every field beside those that are read is full: a read of the wrong bytes is noticed.
    block = bytearray(b"\xff" * 1024)
    block[0:4], block[16:20] = (65536).to_bytes(4, "little"), (65536 - 11 - files).to_bytes(4, "little")
    block[44:48] = (1767323000 if mounts else 0).to_bytes(4, "little")
    block[52:54], block[56:58] = mounts.to_bytes(2, "little"), b"\x53\xef"
    return bytes(block)


def xfs_superblock(in_progress: int = 0) -> bytes:
    """The superblock of an XFS, of which mkfs may be in progress."""
    return b"XFSB".ljust(126, b"\1") + bytes([in_progress]).ljust(386, b"\1")


def fs_uuid(seed: object) -> str:
    """A UUID that depends on the seed only."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(seed)))


@dataclasses.dataclass
class Device:
    """A block device.

    parents: kernel names below it; held: somebody unseen has it open; loop: the device it shows; bad: reads fail;
    content: (offset, bytes) ranges that are not zero; blocks: data by offset, over them; written: sectors written since
    the boot, counted only with iostats; appeared: seconds from the boot to udev's first look; counted: writes since the
    start of the instance in the disk's own statistics (None: it keeps none).
    """

    kname: str
    type: str
    number: str
    size: int = 100 * GIB
    name: str = ""
    model: str = ""
    serial: str = ""
    parents: list[str] = dataclasses.field(default_factory=list)
    signatures: list[dict] = dataclasses.field(default_factory=list)
    read_only: bool = False
    openable: bool = True
    readable: bool = True
    bad: bool = False
    held: bool = False
    hidden: bool = False
    md: dict = dataclasses.field(default_factory=dict)
    loop: str = ""
    content: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    written: int = 0
    iostats: bool = True
    appeared: int = 4
    blocks: dict[int, bytes] = dataclasses.field(default_factory=dict)
    counted: int | None = None

    @property
    def logs(self) -> dict[int, bytes]:
        """The NVMe log pages: EC2's statistics begin with magic, nothing, reads, writes, and the bytes of both."""
        if self.counted is None:
            return {}
        return {0xD0: struct.pack("<II4Q", 0xEC2C0D7E, 0, 7, self.counted, 28672, self.counted * 4096)}

    @property
    def path(self) -> str:
        return f"/dev/mapper/{self.name}" if self.type in ("lvm", "crypt", "mpath") else f"/dev/{self.kname}"


class Machine:
    """The state. Everything is public: tests write to it, ``simulated.SimulatedHost`` reads and changes it."""

    def __init__(self, shape: str = "2.39") -> None:
        self.shape = SHAPES[shape]
        self.devices: dict[str, Device] = {}
        self.mounts: list[dict] = []
        self.swaps: list[str] = []
        self.groups: dict[str, dict] = {}
        # Physical volumes that LVM's devices file does not name, so that its tools do not show them.
        self.left_out: set[str] = set()
        self.files: dict[str, str] = {
            "/etc/machine-id": "0123456789abcdef0123456789abcdef\n",
            "/proc/sys/kernel/random/boot_id": "boot-1\n",
            "/proc/mdstat": "Personalities : [raid0]\nunused devices: <none>\n",
            "/proc/stat": "cpu  1 2 3 4\nbtime 1767322800\nprocesses 9\n",
            "/sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
            "/sys/class/dmi/id/product_name": "x9.unknown\n",
        }
        self.directories: dict[str, dict] = {"/etc/mdadm": {"mode": "0755", "uid": 0, "gid": 0}}
        self.links: dict[str, str] = {}
        # Device nodes outside of /dev, with their numbers.
        self.nodes: dict[str, str] = {}
        # When a path was made, in seconds of the epoch.
        self.births: dict[str, int] = {}
        # The earlier boots that the journal keeps.
        self.boots: list[str] = []
        self.inside: dict[str, list[dict]] = {}
        self.trees: dict[str, tuple[dict, dict]] = {}

    def add(self, kname: str, kind: str, **fields: object) -> Device:
        number = fields.pop("number", f"259:{len(self.devices)}")
        device = Device(kname, kind, number, name=fields.pop("name", kname), **fields)
        self.devices[kname] = device
        return device

    def root(self, kname: str = "nvme0n1", model: str = EBS, serial: str = "vol0root") -> None:
        """A root disk with a partition table and ext4 in its first partition."""
        disk = self.add(kname, "disk", model=model, serial=serial)
        self.sign(disk.kname, "gpt")
        part = self.part(kname)
        self.sign(part.kname, "ext4", fs_uuid("root"))
        self.mount(part.kname, "/")

    def stores(self, count: int, first: int = 1) -> list[Device]:
        """Blank instance-store disks nvme<first>n1 and on, with serials in the same order."""
        names = range(first, first + count)
        return [self.add(f"nvme{n}n1", "disk", model=INSTANCE_STORE, serial=f"AWS{n:04d}") for n in names]

    def ebs(self, kname: str, serial: str = "vol0data") -> Device:
        return self.add(kname, "disk", model=EBS, serial=serial)

    def part(self, disk: str, number: int = 1) -> Device:
        separator = "p" if disk[-1].isdigit() else ""
        return self.add(f"{disk}{separator}{number}", "part", parents=[disk], size=self.devices[disk].size // 2)

    def sign(self, kname: str, kind: str, identity: str | None = None, label: str | None = None) -> None:
        offset = f"0x{0x400 + 0x1000 * len(self.devices[kname].signatures):x}"
        self.devices[kname].signatures.append({"offset": offset, "type": kind, "uuid": identity, "label": label})
        self.write(kname, [(int(offset, 16), 512)])

    def write(self, kname: str, ranges: t.Iterable[tuple[int, int]]) -> None:
        """Write data to a device, and with it to the disks below."""
        device = self.devices[kname]
        device.content += [(start, length) for start, length in ranges if start < device.size]
        device.written += 8
        for parent in device.parents:
            self.write(parent, [MEMBER_CONTENT])

    def array(
        self, kname: str, members: list[str], identity: str, name: str = "any:mlcluster", level: str = "raid0", **fields
    ) -> Device:
        """A running array, its superblocks included. identity: 32 hex digits."""
        spec = {"uuid": identity, "name": name, "level": level, "chunk_kib": 512, "raid_devices": len(members)}
        spec.update(fields)
        for member in members:
            self.superblock(member, spec)
        size = sum(self.devices[member].size for member in members)
        return self.add(kname, level, parents=list(members), number=f"9:{kname[2:]}", size=size, md={**spec})

    def superblock(self, member: str, spec: dict) -> None:
        self.sign(member, "linux_raid_member", str(uuid.UUID(spec["uuid"])), spec["name"])
        self.devices[member].md = dict(spec)

    def stopped_array(self, members: list[str], identity: str, inside: list[dict] = (), **fields: object) -> None:
        """Members of an array that is not running; inside: the signatures that it would show."""
        self.array("md99", members, identity, **fields)
        del self.devices["md99"]
        self.inside[identity] = list(inside)

    def volume(
        self, group: str, name: str, members: list[str], kname: str = "dm-0", active: bool = True
    ) -> Device | None:
        """A volume group over the members with one logical volume; without name only the group."""
        for member in members:
            self.sign(member, "LVM2_member", fs_uuid(f"pv {member}"))
        self.groups[group] = {"members": list(members), "volumes": {name: kname} if name else {}}
        self.links.update({f"/dev/{group}/{name}": f"/dev/{kname}", f"/dev/mapper/{group}-{name}": f"/dev/{kname}"})
        if not (name and active):
            return None
        return self.activate(group, name)

    def activate(self, group: str, name: str) -> Device:
        kname, members = self.groups[group]["volumes"][name], self.groups[group]["members"]
        size = sum(self.devices[member].size for member in members)
        device = self.add(
            kname, "lvm", parents=list(members), number=f"253:{kname[3:]}", size=size, name=f"{group}-{name}"
        )
        device.signatures = list(self.inside.get(f"{group}/{name}", []))
        return device

    def mount(self, kname: str | None, target: str, fstype: str = "ext4", source: str = "", **fields: str) -> None:
        number = self.devices[kname].number if kname and fstype != "btrfs" else f"0:{100 + len(self.mounts)}"
        source = source or self.devices[kname].path
        entry = {"target": target, "source": source, "kname": kname, "fstype": fstype, "number": number}
        self.mounts.append({**entry, "root": "/", "options": "rw,relatime", **fields})
        self.directories.setdefault(target, {"mode": "0755", "uid": 0, "gid": 0})

    def swap_on(self, path: str) -> None:
        self.swaps.append(path)

    def unit(self, name: str, enabled: bool = True) -> None:
        self.files[f"/etc/systemd/system/{name}"] = "[Service]\n"
        if enabled:
            self.files[f"/etc/systemd/system/multi-user.target.wants/{name}"] = ""

    def children(self, kname: str) -> list[Device]:
        return [device for device in self.devices.values() if kname in device.parents]

    def above(self, kname: str) -> list[Device]:
        """Everything that is built on a device, nearest first."""
        found: list[Device] = []
        for child in self.children(kname):
            found += [d for d in [child, *self.above(child.kname)] if d not in found]
        return found

    def holders(self, kname: str) -> list[str]:
        return sorted(device.kname for device in self.children(kname) if device.type != "part")

    def busy(self, kname: str) -> bool:
        """Whether an exclusive open of the device would fail."""
        device = self.devices[kname]
        mounted = any(mount["kname"] == kname for mount in self.mounts)
        direct = mounted or device.held or device.path in self.swaps or bool(self.holders(kname))
        return direct or any(self.busy(part.kname) for part in self.children(kname) if part.type == "part")

    def find(self, path: str) -> Device | None:
        """The device that a path leads to."""
        kname = self.links.get(path, path).rsplit("/", 1)[-1]
        by_name = {device.path: device for device in self.devices.values() if not device.hidden}
        return by_name.get(path) or (self.devices.get(kname) if path.startswith("/dev/") else None)

    def lsblk(self) -> str:
        """The JSON that lsblk prints; devices without size and hidden ones are left out, as lsblk does."""
        roots = [device for device in self.devices.values() if not device.parents and not device.hidden]
        return json.dumps({"blockdevices": [self._node(device, None) for device in roots if device.size]})

    def _node(self, device: Device, parent: str | None) -> dict:
        points: list[str | None] = [m["target"] for m in self.mounts if m["kname"] == device.kname]
        points += ["[SWAP]"] if device.path in self.swaps else []
        last = device.signatures[-1] if device.signatures else {}
        table = last if last.get("type") in ("gpt", "dos") else {}
        content = {} if table else last
        node: dict = {
            "name": device.name,
            "kname": device.kname,
            "path": device.path,
            "type": device.type,
            "model": device.model or None,
            "serial": device.serial or None,
            "size": device.size,
            "fstype": content.get("type"),
            "label": content.get("label"),
            "uuid": content.get("uuid"),
            "pttype": table.get("type"),
            "ro": device.read_only,
            "mountpoints": points or self.shape["empty"],
            "pkname": parent,
        }
        if self.shape["column"] == "MOUNTPOINT":
            node["mountpoint"] = (node.pop("mountpoints") or [None])[-1]
        if self.shape["strings"]:
            node.update(size=str(device.size), ro=str(int(device.read_only)))
        children = [child for child in self.children(device.kname) if child.size]
        if children:
            node["children"] = [self._node(child, device.kname) for child in children]
        return node

    def mountinfo(self) -> str:
        lines = []
        for index, mount in enumerate(self.mounts):
            target = mount["target"].replace(" ", "\\040")
            left = f"{30 + index} 1 {mount['number']} {mount['root']} {target} {mount['options']} shared:{index}"
            lines.append(f"{left} - {mount['fstype']} {mount['source']} rw\n")
        return "".join(lines)

    def proc_swaps(self) -> str:
        return "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n" + "".join(
            f"{path}                               partition\t1048572\t\t0\t\t-2\n" for path in self.swaps
        )

    def sysfs(self, kname: str, end: str) -> str | None:
        """The text of /sys/class/block/<kname>/<end>, or None."""
        device = self.devices.get(kname)
        if device is None:
            return None
        running = device.md and device.type.startswith("raid")
        # The kernel shows zeros and empty lines for an array that lacks members.
        inactive = device.md.get("state") == "inactive" if running else False
        array_uuid = str(uuid.UUID("0" * 32 if inactive else device.md["uuid"])) if running else None
        known = {
            "dev": None if device.hidden else device.number,
            "queue/iostats": str(int(device.iostats)),
            "stat": f"  120 0 {960 if device.iostats else 0} 40 {device.written} 0 {device.written} 9 0 40 49 0 0 0 0",
            "hidden": str(int(device.hidden)),
            "device/model": device.model.ljust(40) if device.model else None,
            "device/serial": device.serial.ljust(20) if device.model else None,
            "loop/backing_file": device.loop or None,
            "size": str(device.size // 512),
            "dm/name": device.name if device.kname.startswith("dm-") else None,
            "dm/uuid": f"{DM_UUIDS.get(device.type, '')}-{device.name}" if device.kname.startswith("dm-") else None,
            "md/array_state": device.md.get("state", "clean") if running else None,
            "md/level": ("" if inactive else device.md.get("level")) if running else None,
            "md/uuid": array_uuid if running and device.md.get("shows_uuid", True) else None,
            "md/chunk_size": ("0" if inactive else str(device.md.get("chunk_kib", 0) * 1024)) if running else None,
            "md/raid_disks": ("" if inactive else str(device.md.get("raid_devices", 0))) if running else None,
        }
        text = known.get(end)
        return None if text is None else text + "\n"

    def udev(self, number: str) -> str | None:
        """Return udev's data of the device with this number."""
        device = next((device for device in self.devices.values() if device.number == number), None)
        return f"S:disk/by-path/x\nI:{device.appeared * 1_000_000}\nE:ID_BUS=nvme\n" if device else None

    def list_boots(self) -> str:
        """Return the list of boots of journalctl."""
        ids = ["".join(boot.split()) for boot in [*self.boots, self.files["/proc/sys/kernel/random/boot_id"]]]
        rows = [f"{number - len(ids) + 1:>3} {name.replace('-', '')} Fri 2026" for number, name in enumerate(ids)]
        return "IDX BOOT ID FIRST ENTRY\n" + "\n".join(rows) + "\n"

    def reboot(self) -> None:
        """Lose the memory; arrays return with other names, volume groups are active again."""
        for target in [mount["target"] for mount in self.mounts if mount["target"] != "/"]:
            self.unmount(target)
        self.swaps = []
        for device in self.devices.values():
            device.written = 0
        arrays = [d for d in self.devices.values() if d.md and d.type.startswith("raid")]
        for number, device in enumerate(arrays):
            del self.devices[device.kname]
            device.kname = device.name = f"md{127 - number}"
            device.number = f"9:{127 - number}"
            self.devices[device.kname] = device
        boot_id = self.files["/proc/sys/kernel/random/boot_id"].strip()
        self.boots.append(boot_id)
        self.files["/proc/sys/kernel/random/boot_id"] = f"{boot_id}-again\n"

    def stop_start(self) -> None:
        """Replace the instance-store disks by blank ones with other serials."""
        self.reboot()
        stores = [device for device in self.devices.values() if device.model == INSTANCE_STORE]
        for device in [d for store in stores for d in self.above(store.kname)]:
            self.devices.pop(device.kname, None)
        for device in stores:
            device.signatures, device.md, device.serial, device.content = [], {}, f"{device.serial}b", []
            device.blocks = {}

    def unmount(self, target: str) -> None:
        """Remove the topmost mount; its content is hidden with it."""
        index = max(i for i, mount in enumerate(self.mounts) if mount["target"] == target)
        gone = self.mounts.pop(index)
        below = f"{target}/"
        files = {path: self.files.pop(path) for path in list(self.files) if path.startswith(below)}
        directories = {path: self.directories.pop(path) for path in list(self.directories) if path.startswith(below)}
        self.trees[self._tree(gone["kname"])] = (files, directories)

    def show_tree(self, kname: str) -> None:
        """Show the content of a filesystem again."""
        files, directories = self.trees.get(self._tree(kname), ({}, {}))
        self.files.update(files)
        self.directories.update(directories)

    def _tree(self, kname: str | None) -> str:
        device = self.devices.get(kname or "")
        return str(device.signatures) if device else "nowhere"
