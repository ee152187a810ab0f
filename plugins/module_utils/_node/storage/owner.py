# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the owner of an instance-store disk: none, this collection, ParallelCluster, a DLAMI, EKS, or unknown.

Pure functions of the facts of ``devices.look``. A disk is usable only without any finding against it.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .blank import WRITTEN_LIMIT, ZEROS
from .config import SYSTEM_MOUNTS
from .parse import SHARED_SIGNATURES, normal_uuid

OWNER_NONE = "none"
OWNER_OURS = "ours"
OWNER_PARALLELCLUSTER = "parallelcluster"
OWNER_DLAMI = "dlami"
OWNER_EKS = "eks"
OWNER_FOREIGN = "foreign"
ADOPTABLE = (OWNER_PARALLELCLUSTER, OWNER_DLAMI)

# Names that the set-up scripts of ParallelCluster and the DLAMI give to their volumes.
EPHEMERAL_VG = "vg.01"
EPHEMERAL_LV = "lv_ephemeral"
DLAMI_MOUNT = "/opt/dlami/nvme"
EKS_ARRAY = "kubernetes"
EKS_MOUNT = "/mnt/k8s-disks"

# Content that is complete on its own device. Everything else may be a part of something on other devices too: a
# cache or a journal of a filesystem elsewhere (bcache, jbd, xfs_external_log), firmware or replicated arrays (isw, ddf,
# drbd), pools (stratis, ZFS, btrfs, bcachefs: a signature does not contain the number of devices), containers with
# hidden content (crypto_LUKS), and unknown types.
STANDALONE = frozenset(
    ("dos", "exfat", "ext2", "ext3", "ext4", "gpt", "iso9660", "ntfs", "PMBR", "squashfs", "swap", "vfat", "xfs")
)
# Content whose other parts are in the facts.
TRACED = frozenset(("LVM2_member", "linux_raid_member"))
# Device types that a teardown can take apart; anything else on a disk is left to the user.
KNOWN_STACK_TYPES = ("part", "lvm", "md", "raid0", "raid1", "raid4", "raid5", "raid6", "raid10", "linear")


@dataclasses.dataclass(frozen=True)
class OwnedIdentities:
    """The collection's own earlier volumes, from the record of a finished run or the intent of an unfinished one.

    UUIDs are 32 hex digits; serials are those of the disks used.
    """

    array_uuid: t.Optional[str] = None
    filesystem_uuids: frozenset[str] = frozenset()
    serials: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Claim:
    """The owner of one disk and all findings that prove it, as sentences."""

    disk: t.Mapping[str, t.Any]
    owner: str
    findings: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """Whether the disk is free to be used."""
        return self.owner == OWNER_NONE

    def as_dict(self) -> dict[str, t.Any]:
        """Return the claim in plain JSON types, as instance_store_info returns it."""
        keys = ("kname", "path", "model", "serial", "size", "kind", "mounts", "signatures")
        return {
            **{key: self.disk[key] for key in keys},
            "owner": self.owner,
            "usable": self.usable,
            "blank": self.disk["blank"],
            "reasons": list(self.findings),
        }


def owned_identities(document: t.Mapping[str, t.Any] | None) -> OwnedIdentities:
    """Return ``OwnedIdentities`` from local_storage.json or intent.json after ``record.sound``, or from None."""
    if document is None:
        return OwnedIdentities()
    return OwnedIdentities(
        normal_uuid(document.get("array_uuid")),
        frozenset(filter(None, map(normal_uuid, document.get("filesystem_uuids") or ()))),
        frozenset(document.get("serials") or ()),
    )


def findings(disk: t.Mapping[str, t.Any], explained: bool = False) -> tuple[str, ...]:
    """Return every reason why a disk is not free, the strongest first; none for a blank disk.

    explained: an interrupted run of ours has written to it.
    """
    found = []
    if disk["mounts"]:
        found.append(f"is mounted on {', '.join(disk['mounts'])}")
    if disk["swap"]:
        found.append(f"is in use as swap ({', '.join(disk['swap'])})")
    if disk["holders"]:
        found.append(f"is held by {', '.join(disk['holders'])}")
    if disk["partitions"]:
        found.append(f"has partitions {', '.join(disk['partitions'])}")
    found += [f"carries {describe_signature(signature)}" for signature in disk["signatures"]]
    if disk["pttype"] and not any(s["type"] == disk["pttype"] for s in disk["signatures"]):
        found.append(f"has a {disk['pttype']} partition table")
    if disk["stack"] and not found:
        found.append(f"has devices on top: {', '.join(entry['kname'] for entry in disk['stack'])}")
    if disk["claimed"] and not found:
        found.append("is opened exclusively by another program")
    if disk["blank"] and not disk["blank"]["proof"] and not found:
        found.append(
            f"is not proved blank (the byte at offset {disk['blank']['offset']:#x} is not zero, and nothing proves "
            "that the disk was never written since the instance started)"
        )
    written = disk["blank"]["written"] if disk["blank"] and disk["blank"]["proof"] == ZEROS else None
    if not found and not explained and (written or 0) > WRITTEN_LIMIT:
        found.append(
            f"is not proved blank (sampled reads are zero, but {written} sectors were written to it since the boot, or "
            "since the start of the instance if the disk counts them, which can lie between the samples)"
        )
    if disk["claimed"] is None:
        found.append("cannot be opened, so nothing proves it free")
    if not disk["readable"]:
        found.append("cannot be read for signatures, so nothing proves it blank")
    if disk["read_only"]:
        found.append("is read-only")
    # A partition table alone has three signatures of two kinds.
    return tuple(dict.fromkeys(map(escaped, found)))


def escaped(text: str) -> str:
    """Return ``text`` with escapes in place of control characters: any user can write labels."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def describe_signature(signature: t.Mapping[str, t.Any]) -> str:
    """Return a signature in words, with its label and UUID."""
    extra = ", ".join(f"{key} {signature[key]}" for key in ("label", "uuid") if signature.get(key))
    article = "an" if str(signature["type"])[:1] in "aeiouxAEIOULMX" else "a"
    return f"{article} {signature['type']} signature" + (f" ({extra})" if extra else "")


def claim(disk: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], known: OwnedIdentities) -> Claim:
    """Decide who owns one instance-store disk."""
    found = findings(disk, explained=disk["serial"] in owned_identities(facts["intent"]).serials)
    if not found:
        return Claim(disk, OWNER_NONE, found)
    if disk["claimed"] is None or not disk["readable"] or disk["read_only"] or set(disk["mounts"]) & SYSTEM_MOUNTS:
        return Claim(disk, OWNER_FOREIGN, found)
    if is_member_of(disk, facts, known) or carries_filesystem_of(disk, known):
        return Claim(disk, OWNER_OURS, found)
    return Claim(disk, _lvm_owner(disk, facts) or _eks_owner(disk) or OWNER_FOREIGN, found)


def is_member_of(disk: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], known: OwnedIdentities) -> bool:
    """Return whether the disk is a whole-disk member of the known array and carries nothing else."""
    if not known.array_uuid or disk["partitions"] or disk["swap"] or not disk["signatures"]:
        return False
    if any(s["type"] != "linux_raid_member" or normal_uuid(s["uuid"]) != known.array_uuid for s in disk["signatures"]):
        return False
    own_arrays = {
        array["kname"] for array in facts["arrays"] if array["uuid"] == known.array_uuid and not array["holders"]
    }
    return {entry["kname"] for entry in disk["stack"]} | set(disk["holders"]) <= own_arrays


def carries_filesystem_of(disk: t.Mapping[str, t.Any], known: OwnedIdentities) -> bool:
    """Return whether the disk carries a known filesystem directly and nothing else."""
    if disk["partitions"] or disk["holders"] or disk["stack"] or disk["swap"] or not disk["signatures"]:
        return False
    return all(normal_uuid(s["uuid"]) in known.filesystem_uuids for s in disk["signatures"])


def _lvm_owner(disk: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> str | None:
    volumes = [lv for lv in facts["logical_volumes"] if disk["kname"] in lv["members"]]
    if not volumes or any(lv["vg"] != EPHEMERAL_VG or lv["lv"] not in ("", EPHEMERAL_LV) for lv in volumes):
        return None
    if any(signature["type"] != "LVM2_member" for signature in disk["signatures"]) or disk["partitions"]:
        return None
    kinds = {entry["kname"]: entry["kind"] for entry in facts["disks"]}
    if any(kinds.get(member) != "instance_store" for lv in volumes for member in lv["members"]):
        return None
    existing = {unit["owner"] for unit in facts["units"].values() if unit["exists"] and not unit["masked"]}
    if DLAMI_MOUNT in disk["mounts"] or existing == {OWNER_DLAMI}:
        return OWNER_DLAMI
    return OWNER_PARALLELCLUSTER


def _eks_owner(disk: t.Mapping[str, t.Any]) -> str | None:
    names = {str(s["label"] or "").rpartition(":")[2] for s in disk["signatures"] if s["type"] == "linux_raid_member"}
    if EKS_ARRAY in names or any(point.startswith(EKS_MOUNT) for point in disk["mounts"]):
        return OWNER_EKS
    return None


def pending_units(facts: t.Mapping[str, t.Any]) -> list[str]:
    """Return the services that are enabled and would take blank disks at the next boot."""
    return sorted(unit for unit, state in facts["units"].items() if state["enabled"])


def teardown_obstacles(disks: t.Sequence[t.Mapping[str, t.Any]], facts: t.Mapping[str, t.Any]) -> list[str]:
    """Return why the given disks may not be taken apart, with any value of the switches; empty if they may.

    A teardown of a volume group, array or filesystem that extends beyond the given disks would destroy foreign data.
    """
    obstacles = _mounts_in_the_way(disks, facts)
    inside = stack_names(disks)
    arrays = {array["kname"] for array in facts["arrays"]}
    for disk in disks:
        if disk["kind"] != "instance_store":
            obstacles.append(f"{disk['path']} is not an instance-store disk")
        system = sorted(set(disk["mounts"]) & SYSTEM_MOUNTS)
        if system:
            obstacles.append(f"{disk['path']} carries the operating system's {', '.join(system)}")
        unknown = [entry for entry in disk["stack"] if entry["type"] not in KNOWN_STACK_TYPES]
        if unknown:
            names = ", ".join(f"{entry['kname']} ({entry['type']})" for entry in unknown)
            obstacles.append(f"{disk['path']} is used by {names}, which only its owner can take apart")
        unseen = sorted(set(disk["holders"]) - inside - arrays)
        if unseen:
            obstacles.append(f"{disk['path']} is held by {', '.join(unseen)}, which only its owner can take apart")
        if disk["claimed"] and not (disk["mounts"] or disk["swap"] or disk["holders"]):
            obstacles.append(f"{disk['path']} is opened exclusively by a program that cannot be seen from here")
        obstacles += [
            f"{entry['path']} is opened exclusively by a program that cannot be seen from here"
            for entry in disk["stack"]
            if entry["claimed"]
        ]
        if disk["read_only"] or disk["claimed"] is None or not disk["readable"]:
            obstacles.append(f"{disk['path']} {findings(disk)[-1]}")
        obstacles += _parts_of_more(disk)
    for array in facts["arrays"]:
        outside = sorted(set(array["members"]) - inside)
        if outside and set(array["members"]) & inside:
            obstacles.append(f"array {array['path']} also uses {', '.join(outside)}")
    for volume in facts["logical_volumes"]:
        outside = sorted(set(volume["members"]) - inside)
        if outside and set(volume["members"]) & inside:
            obstacles.append(f"volume group {volume['vg']} also uses {', '.join(outside)}")
    wholes = {s["uuid"] for disk in disks for s in all_signatures(disk) if s["type"] in SHARED_SIGNATURES}
    members = {normal_uuid(uuid) for uuid in wholes if uuid}
    for kname, uuid in _shared_elsewhere(inside, facts):
        if uuid in members:
            obstacles.append(f"{kname} belongs to the same array or filesystem")
    return sorted({*obstacles, *unseen_lvm(disks, facts)})


def losses(disks: t.Sequence[t.Mapping[str, t.Any]], facts: t.Mapping[str, t.Any]) -> list[str]:
    """Return the losses when the disks are taken apart, a sentence each.

    An inactive array or volume could not be inspected, and is named as such.
    """
    signatures = [signature for disk in disks for signature in all_signatures(disk)]
    lost = [f"{disk['path']} ({disk['serial']}) {', '.join(findings(disk))}" for disk in disks if findings(disk)]
    lost += [
        f"{s['kname']} {escaped(f'carries {describe_signature(s)}')}" for d in disks for s in d["stack_signatures"]
    ]
    running = {member for array in facts["arrays"] if array["active"] for member in array["members"]}
    lost += [
        escaped(f"the array {s['label'] or s['uuid']} does not run, so its content could not be inspected")
        for s in signatures
        if s["type"] == "linux_raid_member" and s["kname"] not in running
    ]
    names = stack_names(disks)
    lost += [
        f"the logical volume {lv['vg']}/{lv['lv']} is not active, so its content could not be inspected"
        for lv in facts["logical_volumes"]
        if set(lv["members"]) & names and lv["lv"] and not lv["active"]
    ]
    return list(dict.fromkeys(lost))


def stack_names(disks: t.Sequence[t.Mapping[str, t.Any]]) -> set[str]:
    """Return the kernel names of the disks and of everything that is built on them."""
    return {disk["kname"] for disk in disks}.union(*({entry["kname"] for entry in disk["stack"]} for disk in disks))


def all_signatures(disk: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any]]:
    """Return the signatures on a disk and on everything that is built on it, each with its kernel name."""
    return [*({"kname": disk["kname"], **signature} for signature in disk["signatures"]), *disk["stack_signatures"]]


def _parts_of_more(disk: t.Mapping[str, t.Any]) -> list[str]:
    """Return the content of a disk that is not known to be complete there."""
    return [
        f"{signature['kname']} carries {escaped(describe_signature(signature))}, which may belong to something on "
        "other devices"
        for signature in all_signatures(disk)
        if signature["type"] not in STANDALONE | TRACED
    ]


def _shared_elsewhere(inside: set[str], facts: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, str | None]]:
    for member in facts["outside_members"]:
        yield member["kname"], member["uuid"]
    for disk in facts["disks"]:
        for signature in all_signatures(disk):
            if signature["type"] in SHARED_SIGNATURES and signature["kname"] not in inside:
                yield signature["kname"], normal_uuid(signature["uuid"])


def _mounts_in_the_way(disks: t.Sequence[t.Mapping[str, t.Any]], facts: t.Mapping[str, t.Any]) -> list[str]:
    """Return the mounts over or below the disks' own mounts: umount would take the wrong one, or fail half-way."""
    inside = stack_names(disks)
    own = {point for disk in disks for point in disk["mounts"]}
    return [
        f"{mount['source']} is mounted on {mount['target']}, over or below a mount of the disks"
        for mount in facts["mounts"]
        if mount["kname"] not in inside
        and any(mount["target"] == point or mount["target"].startswith(f"{point}/") for point in own - SYSTEM_MOUNTS)
    ]


def unseen_lvm(disks: t.Sequence[t.Mapping[str, t.Any]], facts: t.Mapping[str, t.Any]) -> list[str]:
    """Return LVM of unknown extent: the tools are missing, or their devices file leaves the disk out."""
    members = {s["kname"] for disk in disks for s in all_signatures(disk) if s["type"] == "LVM2_member"}
    if members and not (facts["tools"]["pvs"] and facts["tools"]["lvs"]):
        return ["there is LVM on the disks and the lvm2 tools, which show its extent, are not installed"]
    unseen = sorted(members - set(facts["physical_volumes"]))
    return [f"{', '.join(unseen)} carries LVM that 'pvs' does not show"] if unseen else []
