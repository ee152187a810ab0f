# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes of a plan, and the actions that make, mount, adopt or take apart a volume. Pure functions."""

from __future__ import annotations

import posixpath
import typing as t
import uuid

from .blank import ZEROS
from .config import MARKER_NAME, StorageConfig
from .owner import DLAMI_MOUNT, EPHEMERAL_LV, OWNER_DLAMI, all_signatures, stack_names
from .parse import normal_uuid
from .situation import Context, Decision, Disk, Facts, Situation

Action = dict[str, t.Any]


def actions_for(
    decision: Decision, facts: Facts, config: StorageConfig, context: Context
) -> tuple[list[Action], list[dict[str, t.Any]]]:
    """Return the actions of a situation, and the resulting volumes."""
    situation, at_boot = decision.situation, context.at_boot
    if situation in (Situation.DISABLED, Situation.NO_DISKS, Situation.REFUSED):
        return [], []
    if situation in (Situation.SERVICE_SETS_UP, Situation.SERVICE_MOUNTS):
        return _start_services(decision), []
    if situation is Situation.VOLUME_INACTIVE:
        return [_activate(decision, facts)], []
    if situation is Situation.ARRAY_STOPPED:
        devices = [disk["path"] for disk in decision.disks]
        return [_assemble(normal_uuid(facts["intent"]["array_uuid"]), config, devices)], []
    if situation in (Situation.INTACT, Situation.ALL_MADE, Situation.ADOPTED):
        return finish_actions(decision.volumes, facts, config, at_boot), list(decision.volumes)
    # From here on filesystems are made: erase first what may be erased, from the top down.
    actions = teardown_actions(decision.erase, facts, decision.units)
    if situation is Situation.SOME_MADE:
        volumes = list(decision.volumes)
        actions += _missing_filesystems(decision, facts, config)
    else:
        steps, volumes = create_actions(
            decision.disks, config, context.array_uuid, context.namespace, decision.blank_array
        )
        actions += steps
    return actions + finish_actions(volumes, facts, config, at_boot, new=True), volumes


def _start_services(decision: Decision) -> list[Action]:
    sets_up = decision.situation is Situation.SERVICE_SETS_UP
    why = "it sets these disks up" if sets_up else f"it mounts {decision.owner}'s volume"
    return [{"action": "start_unit", "unit": unit, "why": why} for unit in decision.units]


def _activate(decision: Decision, facts: Facts) -> Action:
    lv = t.cast("t.Mapping[str, t.Any]", ephemeral_volume(decision.disks, facts))
    return {"action": "activate_volume", "vg": lv["vg"], "lv": lv["lv"], "lvm_options": facts["lvm_options"]}


def _assemble(array_uuid: str | None, config: StorageConfig, devices: t.Sequence[str]) -> Action:
    return {"action": "assemble_array", "uuid": array_uuid, "name": config.array_name, "devices": list(devices)}


def _missing_filesystems(decision: Decision, facts: Facts, config: StorageConfig) -> list[Action]:
    """Return actions for the unfinished filesystems of an interrupted run; its intent stays until all are mounted."""
    missing = {disk["serial"]: disk for disk in decision.erase}
    kept = {key: value for key, value in facts["intent"].items() if key not in ("schema", "stage", "at")}
    made = [
        mkfs_action(
            volume,
            config,
            is_blank(missing[volume["serials"][0]]),
            written=written_at_look(missing[volume["serials"][0]]),
        )
        for volume in decision.volumes
        if volume["serials"][0] in missing
    ]
    return [
        {"action": "write_intent", "stage": "mkfs", "intent": kept},
        *made,
        {"action": "write_intent", "stage": "mount", "intent": kept},
    ]


def ephemeral_volume(disks: t.Sequence[Disk], facts: Facts) -> t.Mapping[str, t.Any] | None:
    """Return the logical volume that ParallelCluster or the DLAMI made of the disks."""
    names = {disk["kname"] for disk in disks}
    return next((v for v in facts["logical_volumes"] if v["lv"] == EPHEMERAL_LV and set(v["members"]) & names), None)


def dashed(value: str | None) -> str | None:
    """Return a UUID in the spelling of mkfs, blkid and fstab; other identifiers are kept as they are."""
    digits = normal_uuid(value)
    try:
        return str(uuid.UUID(digits or ""))
    except ValueError:
        return digits


def filesystem_uuid(namespace: uuid.UUID, path: str) -> str:
    """Return the constant UUID of a node's filesystem on path, so that its fstab stays valid after a stop and start."""
    return str(uuid.uuid5(namespace, path))


def volume_label(label: str, fstype: str, index: int | None) -> str:
    """Return the label of the index-th filesystem (None: the only one), cut to the filesystem's limit."""
    suffix = "" if index is None else f"-{index}"
    return label[: (12 if fstype == "xfs" else 16) - len(suffix)] + suffix


def mount_options(config: StorageConfig) -> list[str]:
    """Return the options for mount(8) itself: options for systemd stay in fstab."""
    return [option for option in config.mount_options if option != "nofail" and not option.startswith("x-")]


def fstab_line(volume: t.Mapping[str, t.Any], config: StorageConfig) -> dict[str, t.Any]:
    """Return the fstab fields of a volume, named as ansible.posix.mount names them; empty for an adopted volume.

    passno is 0: the data do not outlive the instance, and a check of 30 TB would delay the boot.
    """
    if volume["owner"] != "ours":
        return {}
    return {
        "src": f"UUID={volume['fs_uuid']}",
        "path": volume["path"],
        "fstype": volume["fstype"],
        "opts": ",".join(config.mount_options),
        "dump": "0",
        "passno": "0",
    }


def _volume(path: str, fs_uuid: str | None, config: StorageConfig, disks: t.Sequence[t.Any], **more: t.Any) -> dict:
    base: dict[str, t.Any] = {
        "path": path,
        "fs_uuid": fs_uuid,
        "fstype": config.fstype,
        "label": config.label,
        "owner": "ours",
        "layout": "single",
        "array_uuid": None,
        "device": None,
        "serials": [disk["serial"] for disk in disks],
        "disk_paths": [disk["path"] for disk in disks],
        "disk_bytes": sum(disk["size"] for disk in disks),
        "mounted": False,
        "elsewhere": [],
        "bind_from": None,
        "fs_found": True,
    }
    base.update(more)
    base["fstab"] = fstab_line(base, config)
    return base


def create_array_action(disks: t.Sequence[t.Mapping[str, t.Any]], config: StorageConfig, array_uuid: str) -> Action:
    """Return the action that makes an array; blank has the disks that must be proved blank again before it, each with
    ``written_at_look``.
    """
    return {
        "action": "create_array",
        "name": config.array_name,
        "uuid": normal_uuid(array_uuid),
        "chunk_kib": config.chunk_kib,
        "devices": [disk["path"] for disk in disks],
        "serials": [disk["serial"] for disk in disks],
        "blank": {disk["path"]: written_at_look(disk) for disk in disks if is_blank(disk)},
    }


def create_actions(
    disks: t.Sequence[Disk],
    config: StorageConfig,
    array_uuid: str,
    namespace: uuid.UUID,
    blank_array: bool = False,
) -> tuple[list[Action], list[dict[str, t.Any]]]:
    """Return the actions that turn free disks (in serial order) into filesystems, and the volumes they give.

    A blank disk must be proved blank again before each step; the content of others may be erased. blank_array:
    no content may be on the new array, though its members are not blank.
    """
    blank = {disk["serial"]: written_at_look(disk) for disk in disks if is_blank(disk)}
    if config.layout == "raid0" and len(disks) > 1:
        volumes = [
            _volume(
                config.mount_point,
                filesystem_uuid(namespace, config.mount_point),
                config,
                disks,
                layout="raid0",
                array_uuid=normal_uuid(array_uuid),
                label=volume_label(config.label, config.fstype, None),
            )
        ]
        layout = "raid0"
    else:
        single = config.layout == "raid0"
        layout = "single" if single else "per_disk"
        volumes = []
        for index, disk in enumerate(disks):
            path = config.mount_point if single else f"{config.mount_point}/disk{index}"
            label = volume_label(config.label, config.fstype, None if single else index)
            fs_uuid = filesystem_uuid(namespace, path)
            volumes.append(_volume(path, fs_uuid, config, [disk], layout=layout, device=disk["path"], label=label))
    intent = {
        "layout": layout,
        "fstype": config.fstype,
        "chunk_kib": config.chunk_kib if layout == "raid0" else None,
        "array_uuid": volumes[0]["array_uuid"],
        "array_name": config.array_name if layout == "raid0" else None,
        "filesystem_uuids": [volume["fs_uuid"] for volume in volumes],
        "serials": [disk["serial"] for disk in disks],
        "volumes": [{key: volume[key] for key in ("path", "fs_uuid", "label", "serials")} for volume in volumes],
    }
    actions: list[Action] = [{"action": "write_intent", "stage": "create", "intent": intent}]
    if layout == "raid0":
        actions.append(create_array_action(disks, config, array_uuid))
    actions.append({"action": "write_intent", "stage": "mkfs", "intent": intent})
    # Unwritten disks, and so the array, may read as anything; if all samples of the disks are zero, so is the array.
    zeros = blank_array or all(is_blank(disk) and disk["blank"]["proof"] == ZEROS for disk in disks)
    for volume in volumes:
        if layout == "raid0":
            actions.append(mkfs_action(volume, config, blank_array or len(blank) == len(disks), zeros))
        else:
            serial = volume["serials"][0]
            actions.append(mkfs_action(volume, config, serial in blank, written=blank.get(serial)))
    actions.append({"action": "write_intent", "stage": "mount", "intent": intent})
    return actions, volumes


def is_blank(disk: t.Mapping[str, t.Any]) -> bool:
    """Return whether a whole disk is proved blank."""
    return not disk["signatures"] and bool(disk["blank"] and disk["blank"]["proof"])


def written_at_look(disk: t.Mapping[str, t.Any]) -> int | None:
    """Return the sectors written to a disk when it was proved blank, as in its proof; None: not counted."""
    return t.cast("int | None", disk["blank"]["written"]) if is_blank(disk) else None


def mkfs_action(
    volume: t.Mapping[str, t.Any],
    config: StorageConfig,
    blank: bool,
    prove: bool | None = None,
    written: int | None = None,
) -> Action:
    """Return the action that makes a volume's filesystem; blank: nothing may be on the device, and nothing is wiped.

    prove: the device must be proved blank again (None: if it is blank). written: ``written_at_look``.
    """
    return {
        "action": "make_filesystem",
        "device": volume["device"],
        "array_uuid": volume["array_uuid"],
        "fstype": config.fstype,
        "fs_uuid": volume["fs_uuid"],
        "label": volume["label"],
        "chunk_kib": config.chunk_kib if volume["layout"] == "raid0" else None,
        "serial": None if volume["array_uuid"] else volume["serials"][0],
        "blank": blank,
        "prove": blank if prove is None else prove,
        "written": written,
    }


def volumes_for(
    disks: t.Sequence[Disk], record: t.Mapping[str, t.Any], config: StorageConfig, facts: Facts
) -> list[dict[str, t.Any]]:
    """Return the volumes of a record, as they stand now on its disks, with the paths that the configuration wants."""
    volumes = []
    for index, known in enumerate(record["volumes"]):
        members = [disk for disk in disks if disk["serial"] in known["serials"]]
        path = f"{config.mount_point}/disk{index}" if record["layout"] == "per_disk" else config.mount_point
        more: dict[str, t.Any] = {
            "layout": record["layout"],
            "array_uuid": normal_uuid(record.get("array_uuid")),
            "label": known.get("label") or config.label,
        }
        if record["layout"] == "raid0":
            array = next((a for a in facts["arrays"] if a["uuid"] == more["array_uuid"]), None)
            if array and array["active"]:
                signatures = [array["filesystem"]] if array["filesystem"] else []
                more.update(device=array["path"], mounts=visible_mounts(facts, array["kname"]))
                more["fs_found"] = _has_filesystem(signatures, known["fs_uuid"])
        elif members:
            more.update(device=members[0]["path"], mounts=visible_mounts(facts, members[0]["kname"]))
            more["fs_found"] = _has_filesystem(members[0]["signatures"], known["fs_uuid"])
        mounts = more.pop("mounts", [])
        more["mounted"] = path in mounts
        more["elsewhere"] = [point for point in mounts if point == known["path"] and point != path]
        volumes.append(_volume(path, dashed(known["fs_uuid"]), config, members, **more))
    return volumes


def visible_mounts(facts: Facts, kname: str) -> list[str]:
    """Return where the whole filesystem on a device is mounted and nothing is mounted over it."""
    top = {mount["target"]: mount for mount in facts["mounts"]}
    return [point for point, mount in top.items() if mount["kname"] == kname and mount["root"] == "/"]


def _has_filesystem(signatures: t.Sequence[t.Mapping[str, t.Any]], fs_uuid: str) -> bool:
    return any(normal_uuid(signature["uuid"]) == normal_uuid(fs_uuid) for signature in signatures)


def wanted_directories(config: StorageConfig) -> list[dict[str, t.Any]]:
    """Return every directory below the mount point, parents first: {path, owner, group (None: the owner's own), mode}.

    A parent that is not in the configuration has keep: it is not changed if it exists.
    """
    entries: dict[str, dict[str, t.Any]] = {}
    for directory in sorted(config.directories, key=lambda entry: entry.path):
        parent = posixpath.dirname(directory.path)
        while parent and parent not in entries:
            # An existing directory keeps its settings; a missing one is made.
            entries[parent] = {"path": parent, "owner": "root", "group": "root", "mode": "0755", "keep": True}
            parent = posixpath.dirname(parent)
        entries[directory.path] = {
            "path": directory.path,
            "owner": directory.owner,
            "group": directory.group,
            "mode": directory.mode,
        }
        for user in config.users if directory.per_user else ():
            path = f"{directory.path}/{user}"
            entries[path] = {"path": path, "owner": user, "group": None, "mode": "0700"}
    return [entries[path] for path in sorted(entries)]


def finish_actions(
    volumes: t.Sequence[dict[str, t.Any]], facts: Facts, config: StorageConfig, at_boot: bool, new: bool = False
) -> list[Action]:
    """Return the actions that assemble, mount and furnish the volumes; empty if everything is as wanted."""
    actions: list[Action] = []
    for volume in volumes:
        if volume["array_uuid"] and not volume["device"] and not new:
            actions.append(_assemble(volume["array_uuid"], config, volume["disk_paths"]))
        actions += [{"action": "unmount", "target": point} for point in volume["elsewhere"]]
        if not volume["mounted"]:
            actions.append(_mount(volume, config))
        actions += _missing_contents(volume, facts, config, at_boot)
    uuids = {volume["array_uuid"] for volume in volumes if volume["array_uuid"]}
    if uuids and (new or facts["array_config"] != array_config(config.array_name, min(uuids))):
        actions.append({"action": "write_array_config", "name": config.array_name, "uuid": min(uuids)})
        if config.update_initramfs and not at_boot:
            actions.append({"action": "update_initramfs"})
    if facts["intent"] or new:
        actions.append({"action": "clear_intent"})
    return actions


def array_config(name: str, array_uuid: str) -> str:
    """Return the mdadm configuration fragment that gives the array its name; mounts do not depend on it."""
    spelled = mdadm_uuid(array_uuid)
    return (
        f"# Written by mlcluster.aws for the instance-store array.\nARRAY /dev/md/{name} metadata=1.2 UUID={spelled}\n"
    )


def mdadm_uuid(array_uuid: str) -> str:
    """Return an array's UUID in mdadm's own spelling."""
    digits = normal_uuid(array_uuid) or ""
    return ":".join(digits[start : start + 8] for start in range(0, 32, 8))


def _mount(volume: t.Mapping[str, t.Any], config: StorageConfig) -> Action:
    if volume["bind_from"]:
        return {"action": "bind_mount", "source": volume["bind_from"], "target": volume["path"]}
    options = [] if volume["owner"] != "ours" else mount_options(config)
    return {
        "action": "mount",
        "device": volume["device"],
        "array_uuid": volume["array_uuid"],
        "fs_uuid": volume["fs_uuid"],
        "fstype": volume["fstype"],
        "options": options,
        "target": volume["path"],
    }


def _missing_contents(
    volume: t.Mapping[str, t.Any], facts: Facts, config: StorageConfig, at_boot: bool
) -> list[Action]:
    """Return the directories and the marker that are not as wanted; all of them if the volume is not mounted yet."""
    wanted = [{**entry, "path": f"{volume['path']}/{entry['path']}"} for entry in wanted_directories(config)]
    if volume["owner"] == "ours":
        root = {"path": volume["path"], "owner": config.owner, "group": config.group, "mode": config.mode}
        wanted.insert(0, root)
    actions = []
    for entry in wanted:
        uid, gid = account_ids(entry, facts)
        if at_boot and (uid is None or gid is None):
            continue
        seen = facts["paths"].get(entry["path"]) if volume["mounted"] else None
        if seen and entry.get("keep"):
            continue
        if not seen or (seen["uid"], seen["gid"], int(seen["mode"], 8)) != (uid, gid, int(entry["mode"], 8)):
            actions.append({"action": "directory", **entry, "uid": uid, "gid": gid})
    marker = f"{volume['path']}/{MARKER_NAME}"
    if not volume["mounted"] or not facts["paths"].get(marker):
        actions.append({"action": "write_marker", "path": marker})
    return actions


def account_ids(entry: t.Mapping[str, t.Any], facts: Facts) -> tuple[int | None, int | None]:
    """Return the numeric owner and group of a wanted directory on the node."""
    uid = facts["users"].get(entry["owner"])
    gid = facts["user_groups"].get(entry["owner"]) if entry["group"] is None else facts["groups"].get(entry["group"])
    return uid, gid


def adopted_volume(
    owner: str, lv: t.Mapping[str, t.Any], disks: t.Sequence[Disk], facts: Facts, config: StorageConfig
) -> dict[str, t.Any]:
    """Return the image's own volume as ours: its owner's mount stays, and it is bound to the mount point."""
    mounts = visible_mounts(facts, lv["kname"])
    bases = sorted((point for point in mounts if point != config.mount_point), key=lambda point: (len(point), point))
    base = bases[0] if bases else None
    if owner == OWNER_DLAMI and DLAMI_MOUNT in bases:
        base = DLAMI_MOUNT
    found = lv["filesystem"] or {}
    return _volume(
        config.mount_point,
        dashed(found.get("uuid")),
        config,
        [disk for disk in disks if disk["kname"] in lv["members"]],
        owner=owner,
        layout="adopted",
        device=lv["path"],
        fstype=found.get("type") or config.fstype,
        label=found.get("label"),
        mounted=config.mount_point in mounts,
        bind_from=base,
    )


def teardown_actions(disks: t.Sequence[Disk], facts: Facts, units: t.Sequence[str]) -> list[Action]:
    """Return actions that take apart the disks' content, from the top down; only if nothing extends beyond them."""
    names = stack_names(disks)
    actions: list[Action] = [
        {"action": "mask_unit", "unit": unit, "why": "it would take the disks back"} for unit in units
    ]
    mounts = sorted({point for disk in disks for point in disk["mounts"]}, key=lambda point: (-point.count("/"), point))
    actions += [{"action": "swap_off", "device": p} for p in dict.fromkeys(p for d in disks for p in d["swap"])]
    for point in mounts:
        times = sum(mount["target"] == point and mount["kname"] in names for mount in facts["mounts"])
        actions += [{"action": "unmount", "target": point}] * max(times, 1)
    volumes = [lv for lv in facts["logical_volumes"] if set(lv["members"]) & names]
    actions += [
        {
            "action": "remove_volume_group",
            "vg": vg,
            "members": next(lv["members"] for lv in volumes if lv["vg"] == vg),
            "volumes": sorted(lv["lv"] for lv in volumes if lv["vg"] == vg and lv["lv"]),
            "lvm_options": facts["lvm_options"],
        }
        for vg in sorted({lv["vg"] for lv in volumes})
    ]
    arrays = _top_down([array for array in facts["arrays"] if set(array["members"]) & names])
    actions += [{"action": "stop_array", "device": array["path"], "uuid": array["uuid"]} for array in arrays]
    return actions + _wipe_actions(disks)


def _wipe_actions(disks: t.Sequence[Disk]) -> list[Action]:
    """Return actions that wipe the partitions, then the disks, of the signatures in the facts."""
    uuids = {normal_uuid(s["uuid"]) for d in disks for s in all_signatures(d) if s["type"] == "linux_raid_member"}
    members = sorted(filter(None, uuids))
    # A partition of an array goes with the array; its content is wiped from the new array before mkfs.
    wiped = [
        (entry["path"], None, [s for s in disk["stack_signatures"] if s["kname"] == entry["kname"]])
        for disk in disks
        for entry in disk["stack"]
        if entry["type"] == "part" and entry["kname"].startswith(disk["kname"])
    ]
    wiped += [
        (disk["path"], disk["serial"], disk["signatures"]) for disk in disks if disk["signatures"] or disk["partitions"]
    ]
    return [
        {
            "action": "wipe",
            "device": path,
            "serial": serial,
            "signatures": [{"type": s["type"], "uuid": s["uuid"]} for s in signatures],
            "members_of": members,
        }
        for path, serial, signatures in wiped
    ]


def _top_down(arrays: list[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    """Return arrays in an order in which each can be stopped: users of other arrays first."""
    waiting = sorted(arrays, key=lambda array: (array["uuid"] or "", array["kname"]))
    ordered: list[t.Mapping[str, t.Any]] = []
    while waiting:
        used = {member for array in waiting for member in array["members"]}
        free = next((array for array in waiting if array["kname"] not in used), waiting[0])
        waiting.remove(free)
        ordered.append(free)
    return ordered
