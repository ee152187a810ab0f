# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Carry out the actions of a storage plan, one function an action. No decision is taken here."""

from __future__ import annotations

import dataclasses
import typing as t

from ..system.host import CommandError, Host, NodeError
from .config import StorageConfig
from .devices import shown_uuid
from .parse import normal_uuid, parse_export
from .record import INTENT_PATH, build_record, write_intent, write_record
from .volume import array_config, mdadm_uuid

if t.TYPE_CHECKING:
    from .plan import Plan

Action = t.Mapping[str, t.Any]

# mkfs of 30 TB takes seconds without discard; a failing disk can stretch it, and the boot unit has its own limit.
MKFS_TIMEOUT = 900
# dlami-nvme.service allows itself 300 seconds.
UNIT_TIMEOUT = 320


# How often a new array is freed from what udev makes of its old content; activation can come a moment late.
GHOST_ATTEMPTS = 3
# What the actions run, besides the mkfs of the filesystem.
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
    """What was done: the last plan, and the actions of all rounds that ended well, in order."""

    plan: t.Any = None
    done: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)


def apply_actions(
    host: Host, config: StorageConfig, plan: Plan, facts: t.Mapping[str, t.Any], applied: Applied
) -> None:
    """Carry out a plan's actions in order; the first failure ends it with L{NodeError}, naming the action."""
    require_programs(host, plan.actions)

    def write_plan_record(_host: Host, _action: Action) -> None:
        _resolve_devices(host, plan)
        write_record(host, build_record(host, facts, config, plan))

    for action in plan.actions:
        run_action(host, action, {**ACTIONS, "write_record": write_plan_record})
        applied.done.append(dict(action))


def require_programs(host: Host, actions: t.Sequence[Action]) -> None:
    """Raise L{NodeError} where a program is missing: nothing may be taken apart that cannot be made again."""
    needed = {PROGRAMS[action["action"]] for action in actions if action["action"] in PROGRAMS}
    needed |= {f"mkfs.{action['fstype']}" for action in actions if action["action"] == "make_filesystem"}
    missing = sorted(program for program in needed if not host.which(program))
    if missing:
        raise NodeError(
            f"looked for {', '.join(missing)} and did not find it, so nothing was touched: install it (packages mdadm, "
            "e2fsprogs, xfsprogs, lvm2, util-linux) and run again"
        )


def run_action(host: Host, action: Action, table: t.Mapping[str, t.Callable[[Host, Action], None]]) -> None:
    """Carry out one action; raise L{NodeError} that names it."""
    try:
        table[action["action"]](host, action)
    except (NodeError, OSError) as exc:
        raise NodeError(f"{describe(action)} failed: {exc}") from exc


def describe(action: Action) -> str:
    """An action as a person would say it, with what it acts on."""
    name = action["action"].replace("_", " ")
    for key in ("target", "path", "device", "vg", "unit", "name", "stage"):
        if action.get(key):
            return f"{name} {action[key]}"
    return name


def array_device(host: Host, array_uuid: str) -> str | None:
    """The device of the running array with this UUID: neither the name nor udev's link can be relied on."""
    if not array_uuid:
        return None
    for kname in host.listdir("/sys/class/block"):
        if not kname.startswith("md") or not host.listdir(f"/sys/class/block/{kname}/slaves"):
            continue
        found = shown_uuid(host, kname)
        if not found:
            text = host.run(["mdadm", "--detail", "--export", f"/dev/{kname}"], timeout=30, check=False).stdout
            found = parse_export(text).get("MD_UUID", "")
        if normal_uuid(found) == normal_uuid(array_uuid):
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
    """Let udev finish with what just changed; a slow udev is no failure, since nothing here depends on its links."""
    if host.which("udevadm"):
        host.run(["udevadm", "settle", "--timeout=30"], timeout=40, check=False)


def _write_intent(host: Host, action: Action) -> None:
    write_intent(host, action["stage"], action["intent"])


def _clear_intent(host: Host, action: Action) -> None:
    host.remove(INTENT_PATH)


def _create_array(host: Host, action: Action) -> None:
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
    _settle(host)


def _assemble_array(host: Host, action: Action) -> None:
    spelled = mdadm_uuid(action["uuid"])
    partial = array_device(host, action["uuid"])
    if partial:
        # Members that appeared late leave an inactive array that holds the early ones.
        host.run(["mdadm", "--stop", partial], timeout=60)
    # The members by name: with the UUID alone mdadm would take a copied superblock on any other disk as well.
    argv = ["mdadm", "--assemble", f"/dev/md/{action['name']}", f"--uuid={spelled}", *action["devices"]]
    host.run(argv, timeout=120)
    _settle(host)


def _stop_array(host: Host, action: Action) -> None:
    host.run(["mdadm", "--stop", action["device"]], timeout=60)
    _settle(host)


def _wipe(host: Host, action: Action) -> None:
    argv = ["wipefs", "--all", action["device"]]
    # Never --force: without it wipefs refuses a device that something still holds.
    done = host.run(argv, timeout=60, check=False)
    if done.rc != 0:
        # udev may have put the array that was just stopped together again.
        for array_uuid in action["members_of"]:
            device = array_device(host, array_uuid)
            if device:
                _stop_array(host, {"device": device})
        host.run(argv, timeout=60)
    _settle(host)


def _make_filesystem(host: Host, action: Action) -> None:
    device = _device(host, action)
    _wipe_old_content(host, device)
    if action["fstype"] == "ext4":
        # -m 0: the 5 % that ext4 keeps for root would be 1.4 TB of a p5; nodiscard: the disks come trimmed.
        argv = ["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1"]
        argv += ["-U", action["fs_uuid"], "-L", action["label"], device]
    else:
        argv = ["mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={action['fs_uuid']}", "-L", action["label"]]
        # XFS caps the log stripe at 256 KiB and warns where it would follow a larger chunk.
        argv += ["-l", "su=32k"] if (action["chunk_kib"] or 0) > 256 else []
        argv.append(device)
    host.run(argv, timeout=MKFS_TIMEOUT)
    _settle(host)


def _wipe_old_content(host: Host, device: str) -> None:
    """Wipe what shines through a new array from an older one of the same shape.

    A filesystem would be mounted by its old label. LVM or md in it is put to work by udev as soon as the array
    appears: what stands on this array alone is stopped again, anything that reaches beyond it ends the run.
    """
    argv = ["wipefs", "--all", device]
    for _attempt in range(GHOST_ATTEMPTS):
        if host.run(argv, timeout=60, check=False).rc == 0:
            return
        for holder in host.listdir(f"/sys/class/block/{device.rsplit('/', 1)[-1]}/holders"):
            _stop_ghost(host, device, holder)
        _settle(host)
    host.run(argv, timeout=60)


def _stop_ghost(host: Host, device: str, holder: str) -> None:
    beside = [name for name in host.listdir(f"/sys/class/block/{holder}/slaves") if f"/dev/{name}" != device]
    if beside:
        raise NodeError(
            f"{holder} was on the disks before and uses {', '.join(beside)} too: take it apart by hand, see 'lsblk'"
        )
    if holder.startswith("md"):
        host.run(["mdadm", "--stop", f"/dev/{holder}"], timeout=60, check=False)
    else:
        name = (host.read_text(f"/sys/class/block/{holder}/dm/name") or holder).strip()
        host.run(["dmsetup", "remove", name], timeout=60, check=False)


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
    """Ask the kernel's table: a mount that timed out at boot leaves systemd content and the directory empty."""
    if not _is_mounted(host, target):
        raise NodeError(f"mount reported success, but findmnt shows nothing on {target}: look with 'dmesg'")


def _is_mounted(host: Host, target: str) -> bool:
    return host.run(["findmnt", "--noheadings", "--mountpoint", target], timeout=30, check=False).rc == 0


def _unmount(host: Host, action: Action) -> None:
    try:
        host.run(["umount", action["target"]], timeout=120)
    except CommandError as exc:
        # The mounts of a shared tree go together.
        if not _is_mounted(host, action["target"]):
            return
        users = host.run(["fuser", "-m", action["target"]], check=False).stdout.split() if host.which("fuser") else []
        who = f" (process ids {', '.join(users[:10])})" if users else ""
        raise NodeError(f"{exc}; end what uses it{who} and run again") from exc


def _swap_off(host: Host, action: Action) -> None:
    host.run(["swapoff", action["device"]], timeout=600)


def _remove_volume_group(host: Host, action: Action) -> None:
    host.run(["vgchange", "--activate", "n", action["vg"]], timeout=60)
    host.run(["vgremove", "--yes", "--force", action["vg"]], timeout=60)
    host.run(["pvremove", "--yes", *(f"/dev/{member}" for member in action["members"])], timeout=60)
    _settle(host)


def _activate_volume(host: Host, action: Action) -> None:
    host.run(["lvchange", "--activate", "y", f"{action['vg']}/{action['lv']}"], timeout=60)
    _settle(host)


def _mask_unit(host: Host, action: Action) -> None:
    # A unit file in /etc cannot be masked while it stands there: disabling it is what its owner would do.
    host.run(["systemctl", "disable", "--now", action["unit"]], timeout=60)
    path = f"/etc/systemd/system/{action['unit']}"
    if host.exists(path) and host.realpath(path) != "/dev/null":
        host.rename(path, f"{path}.replaced-by-mlcluster")
    host.run(["systemctl", "mask", action["unit"]], timeout=60)


def _start_unit(host: Host, action: Action) -> None:
    unit = action["unit"]
    host.run(["systemctl", "restart", unit], timeout=UNIT_TIMEOUT)
    deadline = host.monotonic() + UNIT_TIMEOUT
    while not _has_ended(host, unit):
        if host.monotonic() >= deadline:
            raise NodeError(
                f"{unit} is still at work after {UNIT_TIMEOUT} seconds: look with 'systemctl status {unit}'"
            )
        host.sleep(0.5)
    _settle(host)


def _has_ended(host: Host, unit: str) -> bool:
    """Whether a service has done its work: a simple one counts as started as soon as its script has begun."""
    shown = host.run(["systemctl", "show", "--property=ActiveState,SubState", unit], timeout=30).stdout
    state = parse_export(shown)
    return state.get("ActiveState") in ("inactive", "failed") or state.get("SubState") == "exited"


def _directory(host: Host, action: Action) -> None:
    if action["uid"] is None or action["gid"] is None:
        raise NodeError(f"there is no user {action['owner']} or group {action['group']}: create it, then run again")
    host.make_directory(action["path"], action["uid"], action["gid"], int(action["mode"], 8))


def _write_marker(host: Host, action: Action) -> None:
    host.write_text(
        action["path"],
        "This is EC2 instance store: fast, and gone when the instance stops, hibernates, terminates or loses a disk.\n"
        "It survives a reboot. Keep here only what can be made or fetched again.\n"
        f"Set up by mlcluster.aws (role nvme_raid0) at {host.now()}.\n",
    )


def mdadm_fragment_path(host: Host, name: str) -> str:
    """Where this distribution's mdadm reads fragments: Debian and Ubuntu keep them in /etc/mdadm, others in /etc."""
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
