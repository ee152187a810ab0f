# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host over a made-up machine: commands change it as the real ones would, and refuse what the real ones refuse.

Grammar: util-linux 2.38 (lsblk, wipefs, mount, findmnt), mdadm 4.2, e2fsprogs 1.47, xfsprogs 6.1, LVM 2.03, systemd
252, their manual pages. An option that is not in OPTIONS is refused, as the program refuses one that it does not have;
what a program has and is not asked for here is not simulated.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import posixpath
import re
import typing as t
import uuid

from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.devices import UNIT_DIRECTORIES
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.first_boot import SEEN_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, CommandResult, Host

from tests.unit.fakes.fake_device import FakeDevice
from tests.unit.fakes.fake_machine import FILESYSTEM_CONTENT, MEMBER_CONTENT, Machine, ext4_superblock, xfs_superblock

PROGRAMS = (
    "blkid lsblk lvs mdadm mkfs.ext4 mkfs.xfs mount pvs udevadm wipefs umount swapoff vgremove lvchange systemctl "
    "findmnt update-initramfs"
).split()

# Options of each program that the machine follows, without their values.
OPTIONS = {
    "dracut": "--force",
    "findmnt": "--noheadings --mountpoint",
    "fuser": "-m",
    "lsblk": "--json --bytes --output",
    "lvchange": "--devicesfile --activate",
    "lvs": "--devicesfile --reportformat -o",
    "mdadm": "--create --assemble --stop --examine --detail --run --export --level --metadata --homehost --name --uuid "
    "--chunk --raid-devices --zero-superblock",
    "mkfs.ext4": "-q -F -m -E -U -L",
    "mkfs.xfs": "-q -f -K -m -L -l",
    "mount": "-t -o --bind",
    "pvremove": "--devicesfile --yes",
    "pvs": "--devicesfile --reportformat -o",
    "stat": "--format",
    "systemctl": "--now --property",
    "udevadm": "--timeout",
    "update-initramfs": "-u",
    "vgchange": "--devicesfile --activate",
    "vgremove": "--devicesfile --yes --force",
    "wipefs": "--all --no-act --json",
}


# Values of -E that mke2fs(8) lists.
EXT_OPTIONS = frozenset(
    "encoding encoding_flags mmp_update_interval stride stripe_width offset resize lazy_itable_init lazy_journal_init "
    "assume_storage_prezeroed no_copy_xattrs num_backup_sb packed_meta_blocks root_owner root_perms test_fs discard "
    "nodiscard quotatype".split()
)


class FailedError(Exception):
    """A simulated command that ends with a status and a message."""

    def __init__(self, rc: int, stderr: str) -> None:
        self.rc, self.stderr = rc, stderr
        super().__init__(stderr)


class SimulatedHost(Host):
    """calls: every command that was run. failures: {prefix of a command line: (rc, stderr)}. killed_before: the pattern
    of a command at which the whole run ends as by SIGKILL. on_start: {unit: function of the machine}. on_create:
    function of the machine and the name of a new array.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.programs = set(PROGRAMS)
        self.calls: list[list[str]] = []
        self.failures: dict[str, tuple[int, str]] = {}
        self.killed_before = ""
        self.on_start: dict[str, t.Callable[[Machine], None]] = {}
        self.on_create: t.Callable[[Machine, str], None] = lambda machine, array: None
        self.states: dict[str, list[str]] = {}
        self.accounts = {"root": (0, 0)}
        self.locks: list[str] = []
        self.lock_seconds = 0.0
        # Whether LVM is new enough to have a devices file.
        self.devices_file = True
        # Devices that are open now.
        self.held: list[str] = []
        self.clock = 0.0
        self.write_errno = 0

    def run(
        self, argv: t.Sequence[str], timeout: float = 120, check: bool = True, stdin: str | None = None
    ) -> CommandResult:
        line = " ".join(argv)
        if self.killed_before and re.match(self.killed_before, line):
            raise KeyboardInterrupt(line)
        self.calls.append(list(argv))
        try:
            for prefix, (rc, stderr) in self.failures.items():
                if line.startswith(prefix):
                    raise FailedError(rc, stderr)
            return CommandResult(0, self._command(list(argv)) or "", "")
        except FailedError as failed:
            if check:
                raise CommandError(argv, failed.rc, "", failed.stderr, f"failed with status {failed.rc}") from None
            return CommandResult(failed.rc, "", failed.stderr)

    def _command(self, argv: list[str]) -> str | None:
        known = OPTIONS.get(argv[0], "").split()
        for word in argv[1:]:
            if argv[0] in OPTIONS and re.match(r"--?[a-zA-Z]", word) and word.partition("=")[0] not in known:
                raise FailedError(1, f"{argv[0]}: unrecognized option '{word}'")
        name = re.sub(r"[^a-z0-9]", "_", argv[0])
        return getattr(self, f"_do_{name}")(argv[1:])

    def _do_lsblk(self, args: list[str]) -> str:
        if "MOUNTPOINTS" in args[-1].split(",") and self.machine.shape["column"] == "MOUNTPOINT":
            raise FailedError(1, "lsblk: unknown column: MOUNTPOINTS")
        return self.machine.lsblk()

    def _do_wipefs(self, args: list[str]) -> str | None:
        found = [(path, self.machine.find(path)) for path in args if path.startswith("/")]
        for path, device in found:
            if not device or not device.readable:
                raise FailedError(1, f"wipefs: error: {path}: probing initialization failed: Input/output error")
        if "--no-act" in args:
            keys = ("offset", "type", "uuid", "label")
            rows = [{"device": d.name, **{k: s[k] for k in keys}} for _path, d in found for s in d.signatures]
            return json.dumps({"signatures": rows})
        if "--all" not in args:
            # It lists what there is, and erases nothing.
            return "".join(f"{d.name} {s['offset']} {s['type']}\n" for _path, d in found for s in d.signatures)
        for path, device in found:
            self._need_free(path, "wipefs: error: {}: probing initialization failed: Device or resource busy", 1)
            device.signatures, device.md = [], {} if device.type == "disk" else device.md
            for part in [part for part in self.machine.children(device.kname) if part.type == "part"]:
                del self.machine.devices[part.kname]
        return None

    def _need_free(self, path: str, message: str, rc: int) -> None:
        device = self.machine.find(path)
        if device is None:
            raise FailedError(rc, f"{path}: No such file or directory")
        if self.machine.busy(device.kname):
            raise FailedError(rc, message.format(path))
        if device.read_only:
            raise FailedError(rc, f"{path}: Read-only file system")

    def _do_mdadm(self, args: list[str]) -> str | None:
        return getattr(self, f"_mdadm_{args[0].strip('-')}")(args)

    def _mdadm_create(self, args: list[str]) -> None:
        options = dict(arg[2:].split("=", 1) for arg in args if arg.startswith("--") and "=" in arg)
        devices = [arg for arg in args[2:] if arg.startswith("/dev/")]
        assert options["level"] == "0", "the machine has no arrays but of level 0"
        if options["metadata"] != "1.2":
            raise FailedError(2, f"mdadm: unrecognised metadata identifier: {options['metadata']}")
        if int(options["raid-devices"]) != len(devices):
            wanted, given = options["raid-devices"], len(devices)
            raise FailedError(1, f"mdadm: You have listed {given} devices where {wanted} were wanted")
        if not re.fullmatch(r"[0-9a-f]{8}(:[0-9a-f]{8}){3}", options["uuid"]):
            raise FailedError(2, f"mdadm: Bad uuid: {options['uuid']}")
        if int(options["chunk"]) < 4:
            raise FailedError(2, f"mdadm: invalid chunk/rounding value: {options['chunk']}")
        for path in devices:
            self._need_free(path, "mdadm: super1.x cannot open {}: Device or resource busy", 2)
        members = [self.machine.find(path).kname for path in devices]
        identity = options["uuid"].replace(":", "")
        for member in members:
            self.machine.devices[member].signatures = []
        name = f"{options['homehost']}:{options['name']}"
        array = self.machine.array(self._number(), members, identity, name, chunk_kib=int(options["chunk"]))
        # The content of an earlier array of the same shape is visible.
        array.signatures = list(self.machine.inside.get("+".join(sorted(members)), []))
        if any(MEMBER_CONTENT in self.machine.devices[member].content for member in members):
            array.content = [(128 << 20, 4096)]
        self.on_create(self.machine, array.kname)

    def _do_dmsetup(self, args: list[str]) -> None:
        (device,) = [device for device in self.machine.devices.values() if device.name == args[-1]]
        del self.machine.devices[device.kname]

    def _number(self) -> str:
        return next(f"md{n}" for n in range(127, 0, -1) if f"md{n}" not in self.machine.devices)

    def _mdadm_assemble(self, args: list[str]) -> None:
        identity = next(arg for arg in args if arg.startswith("--uuid="))[7:].replace(":", "")
        spec, given = {}, [arg for arg in args[2:] if arg.startswith("/dev/")]
        for path in given:
            device = self.machine.find(path)
            if not device or not device.md:
                raise FailedError(1, f"mdadm: {path} has no superblock - assembly aborted")
        # Of the given devices it passes over those of another array, and busy ones.
        members = [
            d.kname
            for d in self.machine.devices.values()
            if d.md.get("uuid") == identity
            and d.type == "disk"
            and (not given or d.path in given)
            and not self.machine.busy(d.kname)
        ]
        for member in members:
            spec = self.machine.devices[member].md
        if len(members) < spec.get("raid_devices", 1):
            raise FailedError(
                1, f"mdadm: {args[1]} assembled from {len(members)} drives - not enough to start the array."
            )
        array = self.machine.add(self._number(), spec["level"], parents=members, md=dict(spec))
        array.size = sum(self.machine.devices[member].size for member in members)
        array.signatures = list(self.machine.inside.get(identity, []))

    def _mdadm_stop(self, args: list[str]) -> None:
        array = self.machine.find(args[1])
        self._need_free(args[1], "mdadm: Cannot get exclusive access to {}", 1)
        self.machine.inside[array.md["uuid"]] = array.signatures
        self._remove_device(array.kname)

    def _remove_device(self, kname: str) -> None:
        """Take a device away, with its partitions."""
        for part in self.machine.children(kname):
            del self.machine.devices[part.kname]
        del self.machine.devices[kname]

    def _mdadm_examine(self, args: list[str]) -> str:
        device = self.machine.find(args[-1])
        if not device.md:
            raise FailedError(1, f"mdadm: No md superblock detected on {args[-1]}.")
        spec = device.md
        return (
            f"MD_LEVEL={spec['level']}\nMD_DEVICES={spec['raid_devices']}\nMD_NAME={spec['name']}\n"
            f"MD_UUID={_colons(spec['uuid'])}\nMD_DEV_UUID={_colons(spec['uuid'])}\n"
        )

    def _mdadm_detail(self, args: list[str]) -> str:
        device = self.machine.find(args[-1])
        if not device or not device.md.get("shows_uuid", True):
            raise FailedError(1, f"mdadm: {args[-1]} does not appear to be active.")
        return f"MD_LEVEL={device.md['level']}\nMD_UUID={_colons(device.md['uuid'])}\nMD_NAME={device.md['name']}\n"

    def _do_pvs(self, args: list[str]) -> str:
        groups = self.machine.groups.items()
        rows = [
            {"pv_name": self.machine.devices[m].path if m in self.machine.devices else "[unknown]", "vg_name": vg}
            for vg, group in groups
            for m in group["members"]
        ]
        grouped = [member for group in self.machine.groups.values() for member in group["members"]]
        for device in self.machine.devices.values():
            marked = any(signature["type"] == "LVM2_member" for signature in device.signatures)
            if marked and device.kname not in grouped:
                rows.append({"pv_name": device.path, "vg_name": ""})
        if "--devicesfile" not in args:
            rows = [row for row in rows if row["pv_name"] not in self.machine.left_out]
        elif not self.devices_file:
            raise FailedError(3, "  Error during parsing of command line.")
        return json.dumps({"report": [{"pv": rows}], "log": []})

    def _do_lvs(self, args: list[str]) -> str:
        rows = [
            {
                "vg_name": vg,
                "lv_name": name,
                "lv_path": f"/dev/{vg}/{name}",
                "lv_active": "active" if kname in self.machine.devices else "",
            }
            for vg, group in self.machine.groups.items()
            for name, kname in group["volumes"].items()
            if "--devicesfile" in args or not {f"/dev/{m}" for m in group["members"]} & self.machine.left_out
        ]
        return json.dumps({"report": [{"lv": rows}], "log": []})

    def _do_vgchange(self, args: list[str]) -> None:
        for kname in self.machine.groups[args[-1]]["volumes"].values():
            if kname in self.machine.devices:
                self._need_free(self.machine.devices[kname].path, "Logical volume {} in use.", 5)
                self._remove_device(kname)

    def _do_modprobe(self, args: list[str]) -> None:
        assert args == ["raid0"]
        self.machine.files["/proc/mdstat"] = "Personalities : [raid0]\n"

    def _do_vgremove(self, args: list[str]) -> None:
        del self.machine.groups[args[-1]]

    def _do_pvremove(self, args: list[str]) -> None:
        for path in (arg for arg in args if arg.startswith("/dev/")):
            device = self.machine.find(path)
            if any(device.kname in group["members"] for group in self.machine.groups.values()):
                raise FailedError(5, f"  PV {path} is used by a VG so please use vgreduce first.")
            device.signatures = [s for s in device.signatures if s["type"] != "LVM2_member"]

    def _do_lvchange(self, args: list[str]) -> None:
        self.machine.activate(*args[-1].split("/"))

    def _do_mkfs_ext4(self, args: list[str]) -> None:
        self._mkfs(args, "ext4", args[args.index("-U") + 1])

    def _do_mkfs_xfs(self, args: list[str]) -> None:
        self._mkfs(args, "xfs", next(arg for arg in args if arg.startswith("uuid="))[5:])

    def _mkfs(self, args: list[str], kind: str, identity: str) -> None:
        self._need_free(args[-1], "mkfs: {} contains a mounted filesystem", 1)
        device = self.machine.find(args[-1])
        label = args[args.index("-L") + 1]
        if device.signatures and ("-F" if kind == "ext4" else "-f") not in args:
            raise FailedError(1, f"{args[-1]} contains a {device.signatures[0]['type']} file system")
        if kind == "xfs" and len(label) > 12:
            raise FailedError(1, f"Invalid value {label} for -L option")
        if kind == "ext4":
            extended = args[args.index("-E") + 1].split(",") if "-E" in args else []
            unknown = {option.partition("=")[0] for option in extended} - EXT_OPTIONS
            if unknown:
                raise FailedError(1, f"Bad option(s) specified: {','.join(sorted(unknown))}")
        try:
            uuid.UUID(identity)
        except ValueError:
            raise FailedError(1, f"could not parse UUID: {identity}") from None
        device.signatures = []
        self.machine.sign(device.kname, kind, identity, label)
        self.machine.write(device.kname, FILESYSTEM_CONTENT)
        device.blocks = {1024: ext4_superblock()} if kind == "ext4" else {0: xfs_superblock()}

    def _do_mount(self, args: list[str]) -> None:
        if args[0] == "--bind":
            below = next(mount for mount in reversed(self.machine.mounts) if mount["target"] == args[1])
            self.machine.mounts.append({**below, "target": args[2]})
            return
        device = self.machine.find(args[-2])
        if args[-1] not in self.machine.directories:
            raise FailedError(32, f"mount: {args[-1]}: mount point does not exist.")
        if not device or args[1] not in [signature["type"] for signature in device.signatures]:
            raise FailedError(32, f"mount: {args[-1]}: wrong fs type, bad option, bad superblock on {args[-2]}")
        self.machine.mount(device.kname, args[-1], args[1])
        if args[1] == "ext4":
            device.blocks[1024] = ext4_superblock(mounts=1)
        self.machine.show_tree(device.kname)

    def _do_umount(self, args: list[str]) -> None:
        targets = [mount["target"] for mount in self.machine.mounts]
        if args[0] not in targets:
            raise FailedError(32, f"umount: {args[0]}: not mounted.")
        if any(target.startswith(f"{args[0]}/") for target in targets):
            raise FailedError(32, f"umount: {args[0]}: target is busy.")
        self.machine.unmount(args[0])

    def _do_findmnt(self, args: list[str]) -> None:
        if args[-1] not in [mount["target"] for mount in self.machine.mounts]:
            raise FailedError(1, "")

    def _do_swapoff(self, args: list[str]) -> None:
        if args[0] not in self.machine.swaps:
            raise FailedError(255, f"swapoff: {args[0]}: swapoff failed: Invalid argument")
        self.machine.swaps.remove(args[0])

    def _do_systemctl(self, args: list[str]) -> str | None:
        unit = args[-1]
        if args[0] == "restart" and unit in self.on_start:
            self.on_start[unit](self.machine)
        if args[0] == "show":
            states = self.states.get(unit, ["inactive/dead"])
            active, sub = (states.pop(0) if len(states) > 1 else states[0]).split("/")
            return f"ActiveState={active}\nSubState={sub}\n"
        if args[0] == "disable" and not any(f"{place}/{unit}" in self.machine.files for place in UNIT_DIRECTORIES):
            raise FailedError(1, f"Failed to disable unit: Unit file {unit} does not exist.")
        if args[0] == "mask" and f"/etc/systemd/system/{unit}" in self.machine.files:
            raise FailedError(1, f"Failed to mask unit: File /etc/systemd/system/{unit} already exists.")
        if args[0] == "disable":
            self.machine.files.pop(f"/etc/systemd/system/multi-user.target.wants/{unit}", None)
        if args[0] == "mask":
            self.machine.links[f"/etc/systemd/system/{unit}"] = "/dev/null"
        return None

    def _do_stat(self, args: list[str]) -> str:
        if args[1] not in self.machine.births:
            raise FailedError(1, f"stat: cannot statx '{args[1]}': No such file or directory")
        return f"{self.machine.births[args[1]]}\n"

    def _do_journalctl(self, args: list[str]) -> str:
        return self.machine.list_boots()

    def _do_udevadm(self, args: list[str]) -> None:
        """There is nothing to wait for."""

    _do_update_initramfs = _do_dracut = _do_udevadm

    def which(self, program: str) -> str | None:
        return f"/usr/sbin/{program}" if program in self.programs else None

    def read_text(self, path: str) -> str | None:
        special = {"/proc/self/mountinfo": self.machine.mountinfo, "/proc/swaps": self.machine.proc_swaps}
        if path in special:
            return special[path]()
        if path.startswith("/sys/class/block/"):
            return self.machine.sysfs(*path[17:].split("/", 1))
        if path.startswith("/run/udev/data/b"):
            return self.machine.udev(path[16:])
        return self.machine.files.get(path)

    def listdir(self, path: str) -> list[str]:
        if path == "/sys/class/block":
            return sorted(self.machine.devices)
        kname, _slash, end = path.removeprefix("/sys/class/block/").partition("/")
        if end == "holders":
            return self.machine.holders(kname)
        if end == "slaves":
            device = self.machine.devices[kname]
            return sorted(device.parents) if device.type != "part" else []
        known = [*self.machine.files, *self.machine.directories, *self.machine.links]
        return sorted({rest.split("/")[0] for rest in (p[len(path) + 1 :] for p in known if p.startswith(f"{path}/"))})

    def exists(self, path: str) -> bool:
        known = (self.machine.files, self.machine.directories, self.machine.links)
        return any(path in there for there in known) or self.machine.find(path) is not None or bool(self.listdir(path))

    def realpath(self, path: str) -> str:
        return self.machine.links.get(path, path)

    def stat(self, path: str) -> dict[str, t.Any] | None:
        if path in self.machine.directories:
            return {"is_dir": True, "is_link": False, **self.machine.directories[path]}
        if path in self.machine.files or path in self.machine.links:
            is_link = path in self.machine.links
            return {"mode": "0644", "uid": 0, "gid": 0, "is_dir": False, "is_link": is_link}
        return None

    def filesystem_size(self, path: str) -> int | None:
        kname = next((mount["kname"] for mount in reversed(self.machine.mounts) if mount["target"] == path), None)
        return self.machine.devices[kname].size * 98 // 100 if kname in self.machine.devices else None

    @contextlib.contextmanager
    def opened_device(self, device: str, exclusive: bool = False) -> t.Iterator[FakeDevice]:
        found = self.machine.find(device)
        if not found or not found.openable:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        if exclusive:
            if self.machine.busy(found.kname):
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            self.calls.append(["hold", device])
        self.held.append(device)
        try:
            yield FakeDevice(found.size, found.content, found.number, found.bad, found.blocks, found.logs)
        finally:
            self.held.remove(device)

    def loop_backing(self, name: str) -> str | None:
        backing = self.machine.devices[name].loop
        found = self.machine.find(backing)
        return found.number if found else self.machine.nodes.get(backing)

    def is_root(self) -> bool:
        return True

    def claimed(self, device: str, number: str) -> bool | None:
        found = self.machine.find(device)
        if not found or not found.openable or found.number != number:
            return None
        return self.machine.busy(found.kname)

    def uid(self, name: str) -> int | None:
        return self.accounts.get(name, (None, None))[0]

    def gid(self, name: str) -> int | None:
        return self.accounts.get(name, (None, None))[1]

    primary_gid = gid

    def write_text(self, path: str, text: str, mode: int = 0o644) -> None:
        if self.killed_before and f"write {path}".startswith(self.killed_before):
            raise KeyboardInterrupt(path)
        self.calls.append(["write", path])
        self.machine.files[path] = text

    def remove(self, path: str) -> None:
        if self.killed_before and f"remove {path}".startswith(self.killed_before):
            raise KeyboardInterrupt(path)
        self.calls.append(["remove", path])
        self.machine.files.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        self.machine.files[new] = self.machine.files.pop(old)

    def make_mount_point(self, path: str) -> None:
        while path not in ("/", ""):
            self.machine.directories.setdefault(path, {"mode": "0755", "uid": 0, "gid": 0})
            path = posixpath.dirname(path)

    def make_directory(self, path: str, uid: int, gid: int, mode: int) -> None:
        self.machine.directories[path] = {"mode": f"{mode:04o}", "uid": uid, "gid": gid}

    def write_probe(self, directory: str, size: int = 1 << 20) -> None:
        if self.write_errno:
            raise OSError(self.write_errno, os.strerror(self.write_errno))

    def monotonic(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    def now(self) -> str:
        return "2026-01-02T03:04:05Z"

    @contextlib.contextmanager
    def locked(self, path: str, timeout: float) -> t.Iterator[None]:
        self.locks.append(path)
        self.lock_seconds = timeout
        yield

    def changes(self) -> list[list[str]]:
        """The calls that are not mere questions, without the note of which disks there are."""
        questions = ("lsblk", "pvs", "lvs", "udevadm", "findmnt", "hold", "stat", "journalctl")
        asked = ("--no-act", "--examine", "--detail", "show")
        calls = [call for call in self.calls if call != ["write", SEEN_PATH]]
        return [call for call in calls if call[0] not in questions and not set(call) & set(asked)]


def _colons(identity: str) -> str:
    digits = uuid.UUID(identity).hex
    return ":".join(digits[start : start + 8] for start in range(0, 32, 8))
