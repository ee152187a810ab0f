# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan for a node's instance-store disks: a pure function of facts and configuration.

``choose`` picks the situation, ``volume.actions_for`` turns it into actions, ``make_plan`` puts both together. With any
refusal there is no action. The modules, check mode and the boot unit all use this function.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .config import StorageConfig
from .devices import EBS_MODEL
from .obstacles import mount_obstacles, unknown_accounts
from .owner import (
    ADOPTABLE,
    OWNER_EKS,
    OWNER_FOREIGN,
    OWNER_NONE,
    OWNER_OURS,
    Claim,
    OwnedIdentities,
    claim,
    describe_signature,
    escaped,
    losses,
    owned_identities,
    pending_units,
    teardown_obstacles,
    unseen_lvm,
)
from .parse import normal_uuid
from .situation import Context, Decision, Disk, Facts, Node, Situation
from .volume import actions_for, adopted_volume, ephemeral_volume, volumes_for

Action = dict[str, t.Any]

# The stages of an interrupted run, and those with unfinished filesystems.
STAGES = ("create", "mkfs", "mount")
UNFINISHED = ("create", "mkfs")

CONSENT = "nvme_raid0_existing: replace together with nvme_raid0_safe_mode: false"


@dataclasses.dataclass
class Plan:
    """situation: disabled, no_disks, fresh, intact, half_finished, adopted, owner_pending, rebuild, or refused.

    state: the value for local_storage.json (none, intact, recreated, lost, foreign). volumes: what will be mounted.
    refusals: sentences; with any of them actions is empty. reason: why this situation has these actions. losses: what
    the actions destroy, sentences.
    """

    situation: str
    state: str
    owner: str = OWNER_NONE
    actions: list[Action] = dataclasses.field(default_factory=list)
    refusals: list[str] = dataclasses.field(default_factory=list)
    volumes: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    claims: list[Claim] = dataclasses.field(default_factory=list)
    reason: str = ""
    losses: list[str] = dataclasses.field(default_factory=list)

    @property
    def pending(self) -> bool:
        """Whether the actions only lead to another look with more facts."""
        return self.situation == "owner_pending" or (self.situation == "half_finished" and not self.volumes)

    def as_dict(self) -> dict[str, t.Any]:
        """Return the plan in plain JSON types."""
        return {
            "situation": self.situation,
            "state": self.state,
            "owner": self.owner,
            "actions": self.actions,
            "losses": self.losses,
            "refusals": self.refusals,
            "volumes": self.volumes,
        }


def make_plan(facts: Facts, config: StorageConfig, context: Context) -> Plan:
    """Return the plan for the facts of ``converge.look``. The order of the devices does not matter."""
    claims, decision = choose(facts, config, context)
    actions, volumes = actions_for(decision, facts, config, context)
    refusals = [*decision.refusals, *_node_obstacles(decision, volumes, facts, context)]
    situation = decision.situation
    plan = Plan(
        situation.published,
        decision.state,
        decision.owner,
        actions,
        refusals,
        volumes,
        claims,
        situation.reason,
        losses(decision.erase, facts),
    )
    if plan.refusals:
        plan.actions, plan.losses = [], []
        plan.situation = "refused"
        if plan.state != "lost":
            # Readers of the record take any other state for a volume that is in place.
            plan.state = "foreign"
    elif not plan.pending and (plan.actions or _record_differs(plan, facts["record"])):
        # The record is written before the intent is removed: otherwise the volume would briefly be unknown.
        last = len(plan.actions) - (plan.actions[-1:] == [{"action": "clear_intent"}])
        plan.actions.insert(last, {"action": "write_record"})
    return plan


def _node_obstacles(
    decision: Decision, volumes: t.Sequence[dict[str, t.Any]], facts: Facts, context: Context
) -> list[str]:
    """Return the obstacles of the volumes on the node itself, apart from the disks."""
    leaving = {point for disk in decision.erase for point in disk["mounts"]}
    obstacles = mount_obstacles(volumes, facts, context.at_boot, leaving)
    if decision.makes_filesystems or decision.situation is Situation.ADOPTED:
        obstacles += unknown_accounts(facts, context.at_boot)
    return obstacles


def _record_differs(plan: Plan, record: t.Mapping[str, t.Any] | None) -> bool:
    """Return whether local_storage.json differs from the plan; a volume that is new is not a difference."""
    if plan.state == "none":
        # A node that never had a volume needs no record; a record of an earlier volume is corrected.
        return bool(record) and t.cast("dict[str, t.Any]", record).get("state") != "none"
    if not record:
        return True
    uuids = [normal_uuid(uuid) for uuid in record.get("filesystem_uuids") or ()]
    return (
        record.get("state") not in ("intact", "recreated")
        or record.get("owner") != plan.owner
        or uuids != [normal_uuid(volume["fs_uuid"]) for volume in plan.volumes]
        or [volume.get("path") for volume in record.get("volumes") or ()] != [v["path"] for v in plan.volumes]
    )


def choose(facts: Facts, config: StorageConfig, context: Context) -> tuple[list[Claim], Decision]:
    """Return who owns each selected disk, and the situation: the first case that applies, from top to bottom."""
    if config.layout == "none":
        return [], Decision(Situation.DISABLED)
    disks, problems = select(facts, config)
    if problems:
        return [], _refuse(*problems)
    missing = _missing(disks, facts, config, context)
    if missing and not disks:
        return [], _refuse(missing, state="lost")
    if not disks:
        return [], Decision(Situation.NO_DISKS)
    record, intent = owned_identities(facts["record"]), owned_identities(facts["intent"])
    claims = [claim(disk, facts, record) for disk in disks]
    node = Node(facts, config, context, tuple(claims))
    owners = {item.owner for item in claims}
    adoptable = owners & set(ADOPTABLE)
    if owners == {OWNER_NONE} and missing:
        return claims, _refuse(missing, state="lost")
    if owners == {OWNER_NONE}:
        return claims, _all_blank(node)
    # A new filesystem has the UUID of the one before, so the intent describes it better than the record.
    if _is_half_finished(node, intent):
        return claims, _interrupted(node)
    if OWNER_OURS in owners:
        return claims, _ours(node, facts["record"])
    if len(adoptable) == 1 and owners <= adoptable | {OWNER_NONE} and config.existing == "adopt":
        return claims, _adopt(node, adoptable.pop())
    if len(adoptable) == 1 and owners <= adoptable | {OWNER_NONE}:
        return claims, _replace(node, adoptable.pop())
    if owners <= {OWNER_EKS, OWNER_NONE}:
        return claims, _replace(node, OWNER_EKS)
    return claims, _replace(node, OWNER_FOREIGN)


def _refuse(*refusals: str, state: str = "foreign", owner: str = OWNER_NONE) -> Decision:
    return Decision(Situation.REFUSED, state, owner, refusals)


def select(facts: Facts, config: StorageConfig) -> tuple[list[Disk], list[str]]:
    """Return the instance-store disks to use, in the order of their serials, and the errors in named devices."""
    stores = {disk["kname"]: disk for disk in facts["disks"] if disk["kind"] == "instance_store"}
    problems: list[str] = []
    if config.devices is not None:
        known = {disk["kname"]: disk for disk in facts["disks"]}
        wanted = {}
        for given in config.devices:
            kname = facts["named_devices"].get(given)
            if kname in stores:
                wanted[kname] = stores[kname]
            elif kname in known:
                what = known[kname]["model"] or "no model string"
                kind = "an EBS volume" if what == EBS_MODEL else f"not an instance-store disk ({what})"
                problems.append(f"nvme_raid0_devices names {given}, which is {kind}: take it out of the list")
            else:
                problems.append(f"nvme_raid0_devices names {given}, and there is no such disk: see 'lsblk', correct it")
        stores = wanted
    disks = sorted(stores.values(), key=lambda disk: (disk["serial"], disk["kname"]))
    return disks, problems + _unrecognisable(disks)


def _unrecognisable(disks: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return disks that cannot be identified after a reboot, since kernel names may change."""
    problems = [
        f"{disk['path']} has no serial number: stop and start the instance" for disk in disks if not disk["serial"]
    ]
    for first, second in zip(disks, disks[1:]):
        if first["serial"] and first["serial"] == second["serial"]:
            problems.append(
                f"{first['path']} and {second['path']} both have the serial number {first['serial']}: they may be two "
                "paths to one disk; name one of them in nvme_raid0_devices"
            )
    return problems


def expected_disks(
    facts: t.Mapping[str, t.Any], config: StorageConfig, table_disks: int | None
) -> tuple[int | None, str]:
    """Return the required number of disks, and its source; None if unknown.

    facts needs only instance_type and record; table_disks is the number of the instance type.
    """
    if config.devices is not None:
        return None, ""
    if config.expected_disks is not None:
        return config.expected_disks, "nvme_raid0_expected_disks"
    if table_disks is not None:
        return table_disks, f"the instance type {facts['instance_type']}"
    record = facts["record"] or {}
    if record.get("serials"):
        return len(record["serials"]), "the record of the last run on this node"
    return None, ""


def _missing(
    disks: t.Sequence[t.Mapping[str, t.Any]], facts: t.Mapping[str, t.Any], config: StorageConfig, context: Context
) -> str:
    expected, source = expected_disks(facts, config, context.table_disks)
    if expected is None or len(disks) >= expected:
        return ""
    return (
        f"found {len(disks)} of the {expected} instance-store disks that {source} calls for: a disk has failed or has "
        "not appeared; stop and start the instance (or replace it) to get healthy disks, or set "
        "nvme_raid0_expected_disks to work with fewer"
    )


def _all_blank(node: Node) -> Decision:
    """Return the decision for disks proved blank: create the volume, unless an image's service would take them."""
    facts, config, at_boot = node.facts, node.config, node.context.at_boot
    units = pending_units(facts)
    if units and config.existing == "adopt" and not at_boot:
        return Decision(Situation.SERVICE_SETS_UP, "foreign", facts["units"][units[0]]["owner"], units=units)
    if units and not node.may_destroy:
        return _refuse(
            f"the disks are blank, but {', '.join(units)} is enabled and takes them at every boot: set "
            f"nvme_raid0_existing: adopt to use what it makes, or disable it, or use {CONSENT}"
        )
    return Decision(Situation.FRESH, node.new_state, OWNER_OURS, disks=node.disks, units=units)


def _ours(node: Node, record: t.Mapping[str, t.Any], whole: Situation = Situation.INTACT) -> Decision:
    """Return the decision for disks of a recorded (or completely made) volume; whole: no part is missing."""
    facts, config, known = node.facts, node.config, owned_identities(record)
    own_disks = [item.disk for item in node.claims if item.owner == OWNER_OURS]
    lost = sorted(known.serials - {disk["serial"] for disk in own_disks})
    if lost:
        refusal = (
            f"this node's volume was made of {len(known.serials)} disks and {len(lost)} of them "
            f"({', '.join(lost)}) do not carry it any more, so its data is gone: nothing was touched; stop and start "
            f"the instance or replace it, or rebuild on the disks that are left with {CONSENT}"
        )
        return _rebuild(node, refusal, "lost")
    foreign = _foreign_claims(own_disks, facts, known)
    if foreign:
        refusal = (
            f"this node's array runs with {', '.join(foreign)}, no instance-store disk of its record: nothing was "
            "touched; detach or wipe the copy, stop the array with 'mdadm --stop', then run again"
        )
        return _refuse(refusal, owner=OWNER_OURS)
    differs = _other_settings(record, config)
    if differs:
        refusal = (
            f"this node's volume exists with other settings ({'; '.join(differs)}): change the settings back, or "
            f"have it made again, which destroys its data, with {CONSENT}"
        )
        return _rebuild(node, refusal)
    volumes = volumes_for(own_disks, record, config, facts)
    gone = [volume["path"] for volume in volumes if not volume["fs_found"]]
    if gone:
        refusal = (
            f"the disks are this node's own, but the filesystem for {', '.join(gone)} is not on them: nothing was "
            f"touched; look with 'wipefs --no-act', or have it made again with {CONSENT}"
        )
        return _rebuild(node, refusal)
    return Decision(whole, "intact", OWNER_OURS, disks=node.disks, volumes=volumes)


def _other_settings(found: t.Mapping[str, t.Any], config: StorageConfig) -> list[str]:
    """Return the settings of a record or an intent that differ and that only a new volume can change."""
    layout = "single" if config.layout == "raid0" and len(found["serials"]) == 1 else config.layout
    return [
        f"{name} is {found.get(key)} and {wanted} is wanted"
        for name, key, wanted in (
            ("layout", "layout", layout),
            ("fstype", "fstype", config.fstype),
            ("chunk", "chunk_kib", config.chunk_kib if layout == "raid0" else found.get("chunk_kib")),
        )
        if found.get(key) != wanted
    ]


def _foreign_claims(own_disks: t.Sequence[Disk], facts: Facts, known: OwnedIdentities) -> list[str]:
    """Return members of our running array that are not our disks: copied superblocks."""
    arrays = [array for array in facts["arrays"] if array["uuid"] == known.array_uuid and array["active"]]
    own_names = {disk["kname"] for disk in own_disks}
    return sorted({member for array in arrays for member in array["members"]} - own_names) if known.array_uuid else []


def _is_half_finished(node: Node, intent: OwnedIdentities) -> bool:
    """Return whether these are exactly the disks of an interrupted run, with only that run's content."""
    if not intent.serials or {disk["serial"] for disk in node.disks} != intent.serials:
        return False
    if node.facts["intent"].get("stage") not in STAGES:
        return False
    claims = [claim(disk, node.facts, intent) for disk in node.disks]
    return all(item.owner in (OWNER_NONE, OWNER_OURS) for item in claims)


def _interrupted(node: Node) -> Decision:
    """Return how to continue an interrupted run: keep finished filesystems, make missing ones where no data can be."""
    facts, config, disks = node.facts, node.config, node.disks
    intent = t.cast("dict[str, t.Any]", facts["intent"])
    if intent["stage"] not in UNFINISHED:
        return _resume_with_all_filesystems(node, intent)
    wanted = owned_identities(intent).array_uuid
    array = next((a for a in facts["arrays"] if wanted and a["active"] and a["uuid"] == wanted), None)
    if wanted and not array and all(disk["md"] for disk in disks):
        return Decision(Situation.ARRAY_STOPPED, "intact", OWNER_OURS, disks=disks)
    mounted = sorted({point for disk in disks for point in disk["mounts"]})
    obstacles = [f"the disks are mounted on {', '.join(mounted)}"] if mounted else teardown_obstacles(disks, facts)
    if not node.may_destroy:
        obstacles += _data_found(disks, array, intent)
    uses = [array["use"]] if array else [disk["use"] for disk in disks]
    made = [bool(use and use["finished"]) for use in uses]
    again = _may_start_over(uses, intent, node)
    if all(made) and not mounted:
        decision = _resume_with_all_filesystems(node, intent)
        if decision.situation is not Situation.REFUSED or not again:
            return decision
    elif any(made) and not obstacles and not _other_settings(intent, config):
        return _resume_with_some_filesystems(node, intent, made)
    elif any(made) and not again:
        obstacles.append(f"{sum(made)} of its filesystems are finished and may hold files")
    if obstacles:
        return _refuse(
            f"the last run was interrupted before it mounted anything, yet {'; '.join(obstacles)}: nothing was "
            "touched; take away what is there if it may go, then run again"
        )
    return Decision(
        Situation.NOTHING_MADE,
        node.new_state,
        OWNER_OURS,
        disks=disks,
        erase=disks,
        blank_array=bool(array and _is_proved(array["blank"])),
    )


def _resume_with_all_filesystems(node: Node, intent: t.Mapping[str, t.Any]) -> Decision:
    """Return the decision for an interrupted run with all filesystems finished: its intent counts as a record."""
    known = owned_identities(intent)
    claims = tuple(claim(disk, node.facts, known) for disk in node.disks)
    return _ours(dataclasses.replace(node, claims=claims), intent, Situation.ALL_MADE)


def _resume_with_some_filesystems(node: Node, intent: t.Mapping[str, t.Any], made: t.Sequence[bool]) -> Decision:
    """Return the decision for an interrupted run with some filesystems finished: keep those, make the others."""
    missing = [disk for disk, finished in zip(node.disks, made) if not finished]
    return Decision(
        Situation.SOME_MADE,
        node.new_state,
        OWNER_OURS,
        disks=node.disks,
        erase=missing,
        volumes=volumes_for(node.disks, intent, node.config, node.facts),
    )


def _may_start_over(uses: t.Sequence[t.Mapping[str, bool] | None], intent: t.Mapping[str, t.Any], node: Node) -> bool:
    """Return whether finished filesystems may be made again, with other settings: never at boot, and only empty ones
    without consent.
    """
    if node.context.at_boot or not _other_settings(intent, node.config):
        return False
    return node.config.may_destroy or all(not use or not use["finished"] or use["pristine"] for use in uses)


def _data_found(
    disks: t.Sequence[t.Mapping[str, t.Any]], array: t.Mapping[str, t.Any] | None, intent: t.Mapping[str, t.Any]
) -> list[str]:
    """Return devices that may hold a file where the interrupted run has made no filesystem yet."""
    if array:
        filesystem = array["filesystem"]
        if filesystem and normal_uuid(filesystem["uuid"]) not in owned_identities(intent).filesystem_uuids:
            return [f"{array['path']} carries {escaped(describe_signature(filesystem))}"]
        devices = [] if filesystem else [array]
    else:
        devices = [disk for disk in disks if not disk["use"]]
    return [f"{device['path']} {_not_blank(device['blank'])}" for device in devices if not _is_proved(device["blank"])]


def _is_proved(proof: t.Mapping[str, t.Any] | None) -> bool:
    return bool(proof and proof["proof"])


def _not_blank(proof: t.Mapping[str, t.Any] | None) -> str:
    if not proof or proof["offset"] is None:
        return "cannot be read, so nothing proves it blank"
    return f"is not proved blank (the byte at offset {proof['offset']:#x} is not zero)"


def _adopt(node: Node, owner: str) -> Decision:
    """Return the decision to use the volume of ParallelCluster or the DLAMI: add our path and directories to it."""
    facts, lv = node.facts, ephemeral_volume(node.disks, node.facts)
    units = [unit for unit, seen in facts["units"].items() if seen["owner"] == owner and seen["exists"]]
    mounted = lv is not None and bool(lv["mounts"])
    if units and not mounted:
        return Decision(Situation.SERVICE_MOUNTS, "intact", owner, units=units)
    if lv is not None and not mounted and not lv["active"]:
        return Decision(Situation.VOLUME_INACTIVE, "intact", owner, disks=node.disks)
    if lv is None or (not mounted and not lv["filesystem"]):
        what = f"the volume of {owner} is unfinished and the service that finishes it does not exist on this node"
        return _refuse(f"{what}: look with 'lvs' and 'systemctl status', repair it, then run again", owner=owner)
    volume = adopted_volume(owner, lv, node.disks, facts, node.config)
    record = facts["record"] or {}
    renewed = record.get("owner") == owner and record.get("filesystem_uuids") != [volume["fs_uuid"]]
    state = "recreated" if renewed else "intact"
    return Decision(Situation.ADOPTED, state, owner, disks=node.disks, volumes=[volume])


def _replace(node: Node, owner: str) -> Decision:
    """Return the decision for disks of another owner: replace with consent, otherwise refuse."""
    hidden = unseen_lvm(node.disks, node.facts)
    found = "; ".join(
        f"{item.disk['path']} ({item.disk['serial']}) {', '.join(item.findings)}"
        for item in node.claims
        if item.findings
    )
    if hidden:
        # It may be the image's own volume: do not advise to destroy it.
        refusal = f"{found}: the owner cannot be determined, since {'; '.join(hidden)}; nothing was touched"
        return _refuse(refusal, owner=OWNER_FOREIGN)
    whose = {
        OWNER_FOREIGN: "the content of the disks was not made by this role",
        OWNER_EKS: "the disks are set up by the EKS image",
    }.get(owner, f"the disks are set up by {owner}")
    hint = f"; to use what {owner} made, set nvme_raid0_existing: adopt" if owner in ADOPTABLE else ""
    refusal = f"{found}: {whose}, so nothing was touched; to destroy it and build again, set {CONSENT}{hint}"
    return _rebuild(node, refusal, owner=owner)


def _rebuild(
    node: Node,
    refusal: str,
    state: str = "foreign",
    owner: str = OWNER_OURS,
) -> Decision:
    """Return the decision to tear down and create, if both switches allow it and only these disks are affected."""
    if not node.may_destroy:
        return _refuse(refusal, state=state, owner=owner)
    obstacles = teardown_obstacles(node.disks, node.facts)
    if obstacles:
        return _refuse(f"cannot replace the content of the disks: {'; '.join(obstacles)}", state=state, owner=owner)
    units = [unit for unit, seen in node.facts["units"].items() if seen["exists"] and not seen["masked"]]
    return Decision(Situation.REBUILD, "intact", OWNER_OURS, disks=node.disks, erase=node.disks, units=units)
