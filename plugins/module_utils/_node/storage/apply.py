# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Carry out the actions of a storage plan, one function an action.

Right before it changes a disk, an action looks at it again, under an exclusive open: the plan is older.
Content that appeared in between is a refusal and is never removed. mdadm, wipefs and mkfs open their devices
exclusively themselves and fail if another program has them open so; therefore the hold ends as the tool begins.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import posixpath
import typing as t

from ..system.host import CommandError, Host, NodeError
from . import blank
from .config import StorageConfig
from .devices import NOT_RUNNING, loop_devices, uuid_of_array
from .first_boot import current_boot
from .owner import describe_signature, escaped
from .parse import normal_uuid, parse_export, parse_lvm, parse_wipefs
from .record import INTENT_PATH, build_record, write_intent, write_record
from .volume import array_config, mdadm_uuid

if t.TYPE_CHECKING:
    from .plan import Plan

Action = t.Mapping[str, t.Any]

# mkfs of 30 TB takes seconds without discard; a failing disk can stretch it, and the boot unit has its own limit.
MKFS_TIMEOUT = 900
# dlami-nvme.service allows itself 300 seconds.
UNIT_TIMEOUT = 320
# Time limit for an array to appear, with its device node and its size, after mdadm has ended.
DEVICE_TIMEOUT = 30
# Halves of one array that were started apart; a node has no more arrays than this.
MAX_REMAINDERS = 64
# Number of tries for a device that is open without a visible holder.
BUSY_ATTEMPTS = 5
# Number of tries to free a new array from what udev makes of its old content; activation can be delayed.
GHOST_ATTEMPTS = 3
# Programs of the actions, besides the mkfs of the filesystem.
PROGRAMS = {
    "create_array": "mdadm",
    "assemble_array": "mdadm",
    "stop_array": "mdadm",
    "wipe": "wipefs",
    "mount": "mount",
    "bind_mount": "mount",
    "unmount": "umount",
    "swap_off": "swapoff",
    "remove_volume_group": "vgremove",
    "activate_volume": "lvchange",
    "mask_unit": "systemctl",
    "start_unit": "systemctl",
}


@dataclasses.dataclass
class Applied:
    """Result: the last plan, and the actions of all successful rounds, in order."""

    plan: t.Any = None
    done: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)


def apply_actions(
    host: Host, config: StorageConfig, plan: Plan, facts: t.Mapping[str, t.Any], applied: Applied
) -> None:
    """Carry out a plan's actions in order; the first failure ends it with ``NodeError``, naming the action."""
    require_programs(host, plan.actions)

    def write_plan_record(_host: Host, _action: Action) -> None:
        _resolve_devices(host, plan)
        write_record(host, build_record(host, facts, config, plan))

    for action in plan.actions:
        run_action(host, action, {**ACTIONS, "write_record": write_plan_record})
        applied.done.append(dict(action))


def require_programs(host: Host, actions: t.Sequence[Action]) -> None:
    """Raise ``NodeError`` if a program is missing: nothing may be taken apart that cannot be made again."""
    needed = {PROGRAMS[action["action"]] for action in actions if action["action"] in PROGRAMS}
    needed |= {f"mkfs.{action['fstype']}" for action in actions if action["action"] == "make_filesystem"}
    missing = sorted(program for program in needed if not host.which(program))
    if missing:
        raise NodeError(
            f"looked for {', '.join(missing)} and did not find it, so nothing was touched: install it (packages mdadm, "
            "e2fsprogs, xfsprogs, lvm2, util-linux) and run again"
        )


def run_action(host: Host, action: Action, table: t.Mapping[str, t.Callable[[Host, Action], None]]) -> None:
    """Carry out one action; raise ``NodeError`` that names it."""
    try:
        table[action["action"]](host, action)
    except (NodeError, OSError) as exc:
        raise NodeError(f"{describe(action)} failed: {exc}") from exc


def describe(action: Action) -> str:
    """Return an action in words, with its device or path."""
    name = action["action"].replace("_", " ")
    for key in ("target", "path", "device", "vg", "unit", "name", "stage"):
        if action.get(key):
            return f"{name} {action[key]}"
    return name


def array_device(host: Host, wanted: str) -> str | None:
    """Return the device of the array with this UUID: neither its name nor udev's link is reliable."""
    if not wanted:
        return None
    for kname in host.listdir("/sys/class/block"):
        if not kname.startswith("md") or not host.listdir(f"/sys/class/block/{kname}/slaves"):
            continue
        if uuid_of_array(host, kname) == normal_uuid(wanted):
            return f"/dev/{kname}"
    return None


def _device(host: Host, action: Action) -> str:
    if action.get("array_uuid"):
        device = array_device(host, action["array_uuid"])
        if not device:
            raise NodeError(f"the array {action['array_uuid']} is not running: look with 'cat /proc/mdstat'")
        return device
    return t.cast(str, action["device"])


def _resolve_devices(host: Host, plan: Plan) -> None:
    for volume in plan.volumes:
        if volume["array_uuid"]:
            volume["device"] = array_device(host, volume["array_uuid"])


def _settle(host: Host) -> None:
    """Wait until udev has handled the change; a slow udev is not a failure, since nothing here depends on its links."""
    if host.which("udevadm"):
        host.run(["udevadm", "settle", "--timeout=30"], timeout=40, check=False)


def _write_intent(host: Host, action: Action) -> None:
    write_intent(host, action["stage"], action["intent"])


def _clear_intent(host: Host, action: Action) -> None:
    host.remove(INTENT_PATH)


def _sysfs(device: str) -> str:
    """Return the directory of a device in sysfs, from its path or its kernel name."""
    return f"/sys/class/block/{posixpath.basename(device)}"


def look_again(host: Host, disks: t.Sequence[t.Mapping[str, t.Any]]) -> None:
    """Raise ``NodeError`` unless every device is unchanged since the plan; all are held exclusively meanwhile.

    disks: {path, serial (None: not asked), signatures (those in the plan), blank (whether the device must be
    proved blank once more), written (``written_at_look``)}. Raises OSError with EBUSY if a device is in use.
    """
    with contextlib.ExitStack() as held:
        readers = [held.enter_context(host.opened_device(disk["path"], exclusive=True)) for disk in disks]
        for disk, reader in zip(disks, readers):
            path = disk["path"]
            kname = posixpath.basename(path)
            serial = (host.read_text(f"{_sysfs(kname)}/device/serial") or "").strip()
            if disk["serial"] is not None and serial != disk["serial"]:
                raise NodeError(f"{path} is another disk now ({serial or 'no serial number'}): run again")
            # The only user that an exclusive open does not exclude.
            if loop_devices(host).get(kname):
                raise _refuse_holder(host, path)
            known = [(entry["type"], entry["uuid"]) for entry in disk["signatures"]]
            for entry in _signatures(host, path):
                if (entry["type"], entry["uuid"]) not in known:
                    what = escaped(describe_signature(entry))
                    raise NodeError(f"{path} carries {what} that was not there at the look: nothing was removed")
            if disk["blank"]:
                whole = {"kname": kname, "serial": serial} if serial else None
                proof = blank.prove(host, reader, whole, f"{current_boot(host)} {serial} again")
                if not proof["proof"] and proof["offset"] is None:
                    raise NodeError(f"{path} was blank at the look, and now nothing can be read of it")
                if not proof["proof"]:
                    raise NodeError(
                        f"{path} was blank at the look, and now the byte at offset {proof['offset']:#x} is not zero"
                    )
                if _much_written(disk["written"], proof):
                    raise NodeError(
                        f"{path} was blank at the look, and more than 16 MiB may have been written to it since, which "
                        "can lie between the samples: nothing was removed"
                    )


def _much_written(before: int | None, proof: t.Mapping[str, t.Any]) -> bool:
    """Return whether zeros no longer prove anything, because the kernel has written too much since the look."""
    if before is None or proof["proof"] != blank.ZEROS:
        return False
    return proof["written"] is None or proof["written"] - before > blank.WRITTEN_LIMIT


def _signatures(host: Host, path: str) -> list[dict[str, t.Any]]:
    return parse_wipefs(host.run(["wipefs", "--no-act", "--json", path], timeout=60).stdout)


def _refuse_holder(host: Host, path: str) -> NodeError:
    holders = host.listdir(f"{_sysfs(path)}/holders") + loop_devices(host).get(posixpath.basename(path), [])
    who = f" ({', '.join(holders)})" if holders else ""
    return NodeError(
        f"{path} has been taken by another program{who} since the look: nothing was removed; look with 'lsblk', take "
        "it away if it may go, then run again"
    )


def _still_free(host: Host, disks: t.Sequence[t.Mapping[str, t.Any]]) -> None:
    """Look again, and raise ``NodeError`` if something holds a device; udev's own probes end within moments."""
    for attempt in range(BUSY_ATTEMPTS):
        try:
            look_again(host, disks)
            return
        except OSError as exc:
            if exc.errno != errno.EBUSY:
                raise
        busy = next((disk["path"] for disk in disks if _is_busy(host, disk["path"])), None)
        if busy and (host.listdir(f"{_sysfs(busy)}/holders") or attempt == BUSY_ATTEMPTS - 1):
            raise _refuse_holder(host, busy)
        _settle(host)
        host.sleep(0.5)
    raise _refuse_holder(host, disks[0]["path"])


def _is_busy(host: Host, path: str) -> bool:
    try:
        with host.opened_device(path, exclusive=True):
            return False
    except OSError:
        return True


def _load_raid0(host: Host) -> None:
    """Load the kernel's RAID 0 module; without it mdadm reports only an invalid argument."""
    if "[raid0]" in (host.read_text("/proc/mdstat") or ""):
        return
    completed = host.run(["modprobe", "raid0"], timeout=60, check=False)
    if completed.rc != 0:
        reason = completed.stderr.strip() or f"status {completed.rc}"
        raise NodeError(
            f"modprobe raid0 failed ({reason}): install the modules of the running kernel, or reboot into the kernel "
            "that is installed, then run again"
        )


def _await_array(host: Host, array_uuid: str) -> None:
    """Wait until the array runs and has a size and a device node: mdadm can end earlier."""
    deadline = host.monotonic() + DEVICE_TIMEOUT
    while not _is_ready(host, array_device(host, array_uuid)):
        if host.monotonic() >= deadline:
            raise NodeError(
                f"mdadm reported success, and {DEVICE_TIMEOUT} seconds later the array {array_uuid} does not run: look "
                "with 'cat /proc/mdstat' and 'dmesg', then run again"
            )
        host.sleep(0.2)
    _settle(host)


def _is_ready(host: Host, device: str | None) -> bool:
    if not device:
        return False
    entry = _sysfs(device)
    size = (host.read_text(f"{entry}/size") or "").strip()
    return _is_running(host, device) and size.isdigit() and int(size) > 0 and host.exists(device)


def _is_running(host: Host, device: str) -> bool:
    state = host.read_text(f"{_sysfs(device)}/md/array_state")
    return (state or "").strip() not in ("", *NOT_RUNNING)


def _create_array(host: Host, action: Action) -> None:
    _load_raid0(host)
    disks = [
        {
            "path": path,
            "serial": serial,
            "signatures": (),
            "blank": path in action["blank"],
            "written": action["blank"].get(path),
        }
        for path, serial in zip(action["devices"], action["serials"])
    ]
    _still_free(host, disks)
    host.run(
        [
            "mdadm",
            "--create",
            f"/dev/md/{action['name']}",
            "--run",
            "--level=0",
            "--metadata=1.2",
            "--homehost=any",
            f"--name={action['name']}",
            f"--uuid={mdadm_uuid(action['uuid'])}",
            f"--chunk={action['chunk_kib']}",
            f"--raid-devices={len(action['devices'])}",
            *action["devices"],
        ],
        timeout=120,
    )
    _await_array(host, action["uuid"])


def _assemble_array(host: Host, action: Action) -> None:
    _load_raid0(host)
    spelled = mdadm_uuid(action["uuid"])
    _stop_inactive_arrays(host, action["uuid"])
    # The members by name: with the UUID alone mdadm would also accept a copied superblock on another disk.
    argv = ["mdadm", "--assemble", f"/dev/md/{action['name']}", f"--uuid={spelled}", *action["devices"]]
    host.run(argv, timeout=120)
    _await_array(host, action["uuid"])


def _stop_inactive_arrays(host: Host, array_uuid: str) -> None:
    """Stop every inactive array with this UUID: members that appeared late leave several, each with some of them."""
    for _remainder in range(MAX_REMAINDERS):
        device = array_device(host, array_uuid)
        if not device:
            return
        if _is_running(host, device):
            raise NodeError(f"{device} has been started since the look: nothing was stopped; run again")
        host.run(["mdadm", "--stop", device], timeout=60)
        _settle(host)
    raise NodeError(f"the array {array_uuid} comes back each time it is stopped: look with 'cat /proc/mdstat'")


def _stop_array(host: Host, action: Action) -> None:
    device, wanted = action["device"], action["uuid"]
    found = uuid_of_array(host, posixpath.basename(device))
    # Also an array that has lost or gained its UUID since the look.
    if found != wanted:
        raise NodeError(f"{device} is another array now ({found or 'no UUID'}): nothing was stopped; run again")
    host.run(["mdadm", "--stop", device], timeout=60)
    _settle(host)


def _wipe(host: Host, action: Action) -> None:
    device = action["device"]
    disk = {"path": device, **{key: action[key] for key in ("serial", "signatures")}, "blank": False, "written": None}
    # Never --force: without it wipefs refuses a device that something still holds.
    argv = ["wipefs", "--all", device]
    if _is_busy(host, device) or not _wiped(host, disk, argv):
        # udev may have assembled the stopped array again.
        for array_uuid in action["members_of"]:
            again = array_device(host, array_uuid)
            if again:
                _stop_array(host, {"device": again, "uuid": array_uuid})
        _still_free(host, [disk])
        host.run(argv, timeout=60)
    _settle(host)


def _wiped(host: Host, disk: t.Mapping[str, t.Any], argv: t.Sequence[str]) -> bool:
    _still_free(host, [disk])
    return host.run(argv, timeout=60, check=False).rc == 0


def _make_filesystem(host: Host, action: Action) -> None:
    device = _device(host, action)
    if action["array_uuid"] and not action["blank"]:
        _wipe_old_content(host, device)
    disk = {"path": device, **{key: action[key] for key in ("serial", "written")}, "signatures": ()}
    disk["blank"] = action["prove"]
    _still_free(host, [disk])
    if action["fstype"] == "ext4":
        # -m 0: the 5 % that ext4 keeps for root would be 1.4 TB of a p5; nodiscard: the disks are already trimmed.
        argv = ["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1"]
        argv += ["-U", action["fs_uuid"], "-L", action["label"], device]
    else:
        argv = ["mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={action['fs_uuid']}", "-L", action["label"]]
        # XFS limits the log stripe to 256 KiB and warns about a larger chunk.
        argv += ["-l", "su=32k"] if action["chunk_kib"] and action["chunk_kib"] >= 512 else []
        argv.append(device)
    host.run(argv, timeout=MKFS_TIMEOUT)
    _settle(host)


def _wipe_old_content(host: Host, device: str) -> None:
    """Wipe old content that is visible through a new array over disks whose content may be erased.

    A filesystem would be mounted by its old label. udev activates LVM or md in it as soon as the array
    appears: whatever uses only this array is stopped again, anything else ends the run.
    """
    argv = ["wipefs", "--all", device]
    for _attempt in range(GHOST_ATTEMPTS):
        if host.run(argv, timeout=60, check=False).rc == 0:
            return
        for holder in host.listdir(f"{_sysfs(device)}/holders"):
            _stop_earlier_holder(host, device, holder)
        _settle(host)
    host.run(argv, timeout=60)


def _stop_earlier_holder(host: Host, device: str, holder: str) -> None:
    entry = _sysfs(holder)
    beside = [name for name in host.listdir(f"{entry}/slaves") if f"/dev/{name}" != device]
    if beside:
        raise NodeError(
            f"{holder} was on the disks before and uses {', '.join(beside)} too: take it apart by hand, see 'lsblk'"
        )
    if holder.startswith("md"):
        host.run(["mdadm", "--stop", f"/dev/{holder}"], timeout=60, check=False)
    elif (host.read_text(f"{entry}/dm/uuid") or "").startswith("LVM-"):
        name = (host.read_text(f"{entry}/dm/name") or holder).strip()
        host.run(["dmsetup", "remove", name], timeout=60, check=False)
    else:
        # udev starts md and LVM by itself, and nothing else.
        raise _refuse_holder(host, device)


def _mount(host: Host, action: Action) -> None:
    device = _device(host, action)
    host.make_mount_point(action["target"])
    argv = ["mount", "-t", action["fstype"]]
    argv += ["-o", ",".join(action["options"])] if action["options"] else []
    host.run([*argv, device, action["target"]], timeout=120)
    _expect_mounted(host, action["target"])


def _bind_mount(host: Host, action: Action) -> None:
    host.make_mount_point(action["target"])
    host.run(["mount", "--bind", action["source"], action["target"]], timeout=60)
    _expect_mounted(host, action["target"])


def _expect_mounted(host: Host, target: str) -> None:
    """Check the kernel's mount table: after a timeout at boot systemd can be satisfied and the directory empty."""
    if not _is_mounted(host, target):
        raise NodeError(f"mount reported success, but findmnt shows nothing on {target}: look with 'dmesg'")


def _is_mounted(host: Host, target: str) -> bool:
    return host.run(["findmnt", "--noheadings", "--mountpoint", target], timeout=30, check=False).rc == 0


def _unmount(host: Host, action: Action) -> None:
    try:
        host.run(["umount", action["target"]], timeout=120)
    except CommandError as exc:
        # The mounts of a shared tree are removed together.
        if not _is_mounted(host, action["target"]):
            return
        users = host.run(["fuser", "-m", action["target"]], check=False).stdout.split() if host.which("fuser") else []
        who = f" (process ids {', '.join(users[:10])})" if users else ""
        raise NodeError(f"{exc}; end what uses it{who} and run again") from exc


def _swap_off(host: Host, action: Action) -> None:
    host.run(["swapoff", action["device"]], timeout=600)


def _remove_volume_group(host: Host, action: Action) -> None:
    vg, options = action["vg"], action["lvm_options"]
    report = ["--reportformat", "json", "-o"]
    physical = parse_lvm(host.run(["pvs", *options, *report, "pv_name,vg_name"], timeout=60).stdout, "pv")
    logical = parse_lvm(host.run(["lvs", *options, *report, "vg_name,lv_name"], timeout=60).stdout, "lv")
    members = sorted(posixpath.basename(row["pv_name"]) for row in physical if row["vg_name"] == vg)
    volumes = sorted(row["lv_name"] for row in logical if row["vg_name"] == vg)
    if members != sorted(action["members"]) or volumes != sorted(action["volumes"]):
        raise NodeError(
            f"the volume group {vg} has changed since the look (physical volumes {', '.join(members)}; logical volumes "
            f"{', '.join(volumes) or 'none'}): nothing was removed; run again"
        )
    host.run(["vgchange", *options, "--activate", "n", vg], timeout=60)
    host.run(["vgremove", *options, "--yes", "--force", vg], timeout=60)
    host.run(["pvremove", *options, "--yes", *(f"/dev/{member}" for member in action["members"])], timeout=60)
    _settle(host)


def _activate_volume(host: Host, action: Action) -> None:
    argv = ["lvchange", *action["lvm_options"], "--activate", "y", f"{action['vg']}/{action['lv']}"]
    host.run(argv, timeout=60)
    _settle(host)


def _mask_unit(host: Host, action: Action) -> None:
    # A unit file in /etc cannot be masked while it exists, so it is disabled.
    host.run(["systemctl", "disable", "--now", action["unit"]], timeout=60)
    path = f"/etc/systemd/system/{action['unit']}"
    if host.exists(path) and host.realpath(path) != "/dev/null":
        aside = f"{path}.replaced-by-mlcluster"
        # An earlier backup may hold a user's changes from before the image brought its own file again.
        names = [aside, *(f"{aside}.{number}" for number in range(2, 1000))]
        free = next((name for name in names if not host.exists(name)), None)
        if free is None:
            raise NodeError(f"{path} could not be set aside: {aside} and all numbers to 999 exist or cannot be read")
        host.rename(path, free)
    host.run(["systemctl", "mask", action["unit"]], timeout=60)


def _start_unit(host: Host, action: Action) -> None:
    unit = action["unit"]
    # A restart would stop a script that is running already.
    if _has_ended(_state(host, unit)):
        host.run(["systemctl", "restart", unit], timeout=UNIT_TIMEOUT)
    deadline = host.monotonic() + UNIT_TIMEOUT
    while not _has_ended(_state(host, unit)):
        if host.monotonic() >= deadline:
            raise NodeError(
                f"{unit} is still at work after {UNIT_TIMEOUT} seconds: look with 'systemctl status {unit}'"
            )
        host.sleep(0.5)
    _settle(host)


def _state(host: Host, unit: str) -> dict[str, str]:
    output = host.run(["systemctl", "show", "--property=ActiveState,SubState", unit], timeout=30).stdout
    return parse_export(output)


def _has_ended(state: t.Mapping[str, str]) -> bool:
    """Return whether a service has done its work: a simple one counts as started once its script has begun."""
    return state.get("ActiveState") in ("inactive", "failed") or state.get("SubState") == "exited"


def _directory(host: Host, action: Action) -> None:
    if action["uid"] is None or action["gid"] is None:
        raise NodeError(f"there is no user {action['owner']} or group {action['group']}: create it, then run again")
    if action.get("keep") and host.stat(action["path"]):
        return
    host.make_directory(action["path"], action["uid"], action["gid"], int(action["mode"], 8))


def _write_marker(host: Host, action: Action) -> None:
    host.write_text(
        action["path"],
        "This is EC2 instance store: fast, and gone when the instance stops, hibernates, terminates or loses a disk.\n"
        "It survives a reboot. Keep here only what can be made or fetched again.\n"
        f"Set up by mlcluster.aws (role nvme_raid0) at {host.now()}.\n",
    )


def mdadm_fragment_path(host: Host, name: str) -> str:
    """Return the directory of this distribution's mdadm fragments: /etc/mdadm on Debian and Ubuntu, else /etc."""
    return ("/etc/mdadm" if host.exists("/etc/mdadm") else "/etc") + f"/mdadm.conf.d/{name}.conf"


def _write_array_config(host: Host, action: Action) -> None:
    host.write_text(mdadm_fragment_path(host, action["name"]), array_config(action["name"], action["uuid"]))


def _remove_array_config(host: Host, action: Action) -> None:
    host.remove(mdadm_fragment_path(host, action["name"]))


def _update_initramfs(host: Host, action: Action) -> None:
    if host.which("update-initramfs"):
        host.run(["update-initramfs", "-u"], timeout=900)
    elif host.which("dracut"):
        host.run(["dracut", "--force"], timeout=900)
    else:
        raise NodeError("found neither update-initramfs nor dracut: set nvme_raid0_update_initramfs: false")


ACTIONS: dict[str, t.Callable[[Host, Action], None]] = {
    "write_intent": _write_intent,
    "clear_intent": _clear_intent,
    "create_array": _create_array,
    "assemble_array": _assemble_array,
    "stop_array": _stop_array,
    "wipe": _wipe,
    "make_filesystem": _make_filesystem,
    "mount": _mount,
    "bind_mount": _bind_mount,
    "unmount": _unmount,
    "swap_off": _swap_off,
    "remove_volume_group": _remove_volume_group,
    "activate_volume": _activate_volume,
    "mask_unit": _mask_unit,
    "start_unit": _start_unit,
    "directory": _directory,
    "write_marker": _write_marker,
    "write_array_config": _write_array_config,
    "remove_array_config": _remove_array_config,
    "update_initramfs": _update_initramfs,
}
