# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What to do about a node's instance-store disks: a pure function from what was seen and what is wanted to a plan.

A plan is a list of actions and a list of refusals; with any refusal there is no action. The modules, check mode and
the boot unit all use this one function.
"""

from __future__ import annotations

import dataclasses
import typing as t
import uuid

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
    Known,
    claim,
    describe_signature,
    escaped,
    known_from,
    pending_units,
    teardown_obstacles,
    unseen_lvm,
)
from .parse import normal_uuid
from .volume import (
    adopt_actions,
    create_actions,
    finish_actions,
    is_blank,
    mkfs_action,
    teardown_actions,
    volumes_for,
)

Action = dict[str, t.Any]

# The stages of an interrupted run, and those in which mkfs has not made all filesystems.
STAGES = ("create", "mkfs", "mount")
UNFINISHED = ("create", "mkfs")

CONSENT = "nvme_raid0_existing: replace together with nvme_raid0_safe_mode: false"


@dataclasses.dataclass(frozen=True)
class Context:
    """What a plan needs besides the facts.

    array_uuid is the UUID that a new array would get; namespace seeds the filesystem UUIDs, so that the same node
    gets the same ones again after a stop and start and its fstab stays true; table_disks is how many instance-store
    disks the instance type has (None: type unknown); at_boot forbids every destruction.
    """

    array_uuid: str
    namespace: uuid.UUID
    table_disks: t.Optional[int] = None
    at_boot: bool = False


@dataclasses.dataclass
class Plan:
    """situation: disabled, no_disks, fresh, intact, half_finished, adopted, owner_pending, rebuild, or refused.

    state: the value for local_storage.json (none, intact, recreated, lost, foreign). volumes: what will be mounted.
    refusals: sentences; with any of them actions is empty.
    """

    situation: str
    state: str
    owner: str = OWNER_NONE
    actions: list[Action] = dataclasses.field(default_factory=list)
    refusals: list[str] = dataclasses.field(default_factory=list)
    volumes: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    claims: list[Claim] = dataclasses.field(default_factory=list)

    @property
    def pending(self) -> bool:
        """Whether the actions only lead to another look, which tells more."""
        return self.situation == "owner_pending" or (self.situation == "half_finished" and not self.volumes)

    def as_dict(self) -> dict[str, t.Any]:
        """The plan in plain JSON types."""
        return {
            "situation": self.situation,
            "state": self.state,
            "owner": self.owner,
            "actions": self.actions,
            "refusals": self.refusals,
            "volumes": self.volumes,
        }


def make_plan(facts: t.Mapping[str, t.Any], config: StorageConfig, context: Context) -> Plan:
    """Decide. facts is what ``storage.look`` returns. The order in which devices were listed does not matter."""
    plan = _plan(facts, config, context)
    if plan.refusals:
        plan.actions = []
        plan.situation = "refused"
        if plan.state != "lost":
            # Whoever reads the record takes any other state for a volume that is in place.
            plan.state = "foreign"
    elif not plan.pending and (plan.actions or _record_differs(plan, facts["record"])):
        # The record comes before the intent goes: between the two, nothing would know the volume as ours.
        last = len(plan.actions) - (plan.actions[-1:] == [{"action": "clear_intent"}])
        plan.actions.insert(last, {"action": "write_record"})
    return plan


def _plan(facts: t.Mapping[str, t.Any], config: StorageConfig, context: Context) -> Plan:
    if config.layout == "none":
        return Plan("disabled", "none")
    disks, problems = select(facts, config)
    if problems:
        return Plan("refused", "foreign", refusals=problems)
    record, intent = known_from(facts["record"]), known_from(facts["intent"])
    missing = _missing(disks, facts, config, context)
    if not disks:
        return Plan("refused", "lost", refusals=[missing]) if missing else Plan("no_disks", "none")
    claims = [claim(disk, facts, record) for disk in disks]
    plan = _decide(claims, facts, config, context, record, intent, missing)
    plan.claims = claims
    return plan


def _record_differs(plan: Plan, record: t.Mapping[str, t.Any] | None) -> bool:
    """Whether local_storage.json says something else than the plan; that a volume is new is history, no difference."""
    if plan.state == "none":
        # A node without a volume needs no file that says so; one that had a volume needs it corrected.
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


def select(facts: t.Mapping[str, t.Any], config: StorageConfig) -> tuple[list[t.Mapping[str, t.Any]], list[str]]:
    """The instance-store disks to work with, in the order of their serials, and what is wrong with named devices."""
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
                kind = "an EBS volume" if what == EBS_MODEL else f"no instance-store disk ({what})"
                problems.append(f"nvme_raid0_devices names {given}, which is {kind}: take it out of the list")
            else:
                problems.append(f"nvme_raid0_devices names {given}, and there is no such disk: see 'lsblk', correct it")
        stores = wanted
    disks = sorted(stores.values(), key=lambda disk: (disk["serial"], disk["kname"]))
    return disks, problems + _unrecognisable(disks)


def _unrecognisable(disks: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Disks that could not be told apart after a reboot, when kernel names may have moved."""
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
    """How many disks there must be, and who says so; None where nobody knows.

    facts needs only instance_type and record; table_disks is what the instance type has.
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


def _decide(
    claims: list[Claim],
    facts: t.Mapping[str, t.Any],
    config: StorageConfig,
    context: Context,
    record: Known,
    intent: Known,
    missing: str,
) -> Plan:
    owners = {item.owner for item in claims}
    if owners == {OWNER_NONE}:
        return _blank(claims, facts, config, context, record, missing)
    # A filesystem carries the UUID of the one before, so the intent knows better than the record what it is.
    if _is_half_finished(claims, facts, intent):
        return _half_finished(claims, facts, config, context)
    if OWNER_OURS in owners:
        return _ours(claims, facts, config, context, record)
    adoptable = owners & set(ADOPTABLE)
    if len(adoptable) == 1 and owners <= adoptable | {OWNER_NONE}:
        owner = adoptable.pop()
        if config.existing == "adopt":
            return _adopt(owner, claims, facts, config, context)
        return _replace(claims, facts, config, context, owner, "foreign")
    whose = OWNER_EKS if owners <= {OWNER_EKS, OWNER_NONE} else OWNER_FOREIGN
    return _replace(claims, facts, config, context, whose, "foreign")


def _ours(
    claims: list[Claim], facts: t.Mapping[str, t.Any], config: StorageConfig, context: Context, record: Known
) -> Plan:
    present = {item.disk["serial"] for item in claims if item.owner == OWNER_OURS}
    lost = sorted(record.serials - present)
    if lost:
        refusal = (
            f"this node's volume was made of {len(record.serials)} disks and {len(lost)} of them "
            f"({', '.join(lost)}) do not carry it any more, so its data is gone: nothing was touched; stop and start "
            f"the instance or replace it, or rebuild on the disks that are left with {CONSENT}"
        )
        return _rebuild(claims, facts, config, context, OWNER_OURS, "lost", refusal)
    strangers = _strangers(claims, facts, record)
    if strangers:
        refusal = (
            f"this node's array runs with {', '.join(strangers)}, no instance-store disk of its record: nothing was "
            "touched; detach or wipe the copy, stop the array with 'mdadm --stop', then run again"
        )
        return Plan("refused", "foreign", OWNER_OURS, refusals=[refusal])
    found = t.cast("dict[str, t.Any]", facts["record"])
    differs = _other_settings(found, config)
    if differs:
        refusal = (
            f"this node's volume exists with other settings ({'; '.join(differs)}): change the settings back, or "
            f"have it made anew, which destroys its data, with {CONSENT}"
        )
        return _rebuild(claims, facts, config, context, OWNER_OURS, "intact", refusal)
    volumes = volumes_for([item.disk for item in claims if item.owner == OWNER_OURS], found, config, facts)
    gone = [volume["path"] for volume in volumes if not volume["fs_found"]]
    if gone:
        refusal = (
            f"the disks are this node's own, but the filesystem for {', '.join(gone)} is not on them: nothing was "
            f"touched; look with 'wipefs --no-act', or have it made anew with {CONSENT}"
        )
        return _rebuild(claims, facts, config, context, OWNER_OURS, "foreign", refusal)
    plan = Plan("intact", "intact", OWNER_OURS, volumes=volumes)
    plan.refusals = mount_obstacles(volumes, facts, context.at_boot)
    plan.actions = finish_actions(volumes, facts, config, context.at_boot)
    return plan


def _other_settings(found: t.Mapping[str, t.Any], config: StorageConfig) -> list[str]:
    """What a record or an intent has otherwise than it is wanted, of what only a new volume can change."""
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


def _strangers(claims: list[Claim], facts: t.Mapping[str, t.Any], record: Known) -> list[str]:
    """Members of our running array that are not our disks: a copied superblock can stand in for one."""
    ours = {item.disk["kname"] for item in claims if item.owner == OWNER_OURS}
    arrays = [array for array in facts["arrays"] if array["uuid"] == record.array_uuid and array["active"]]
    return sorted({member for array in arrays for member in array["members"]} - ours) if record.array_uuid else []


def _blank(
    claims: list[Claim],
    facts: t.Mapping[str, t.Any],
    config: StorageConfig,
    context: Context,
    record: Known,
    missing: str,
) -> Plan:
    if missing:
        return Plan("refused", "lost", refusals=[missing])
    units = pending_units(facts)
    if units and not (config.may_destroy and not context.at_boot):
        if config.existing == "adopt" and not context.at_boot:
            actions = [{"action": "start_unit", "unit": unit, "why": "it sets these disks up"} for unit in units]
            return Plan("owner_pending", "foreign", facts["units"][units[0]]["owner"], actions)
        refusal = (
            f"the disks are blank, but {', '.join(units)} is enabled and takes them at every boot: set "
            f"nvme_raid0_existing: adopt to use what it makes, or disable it, or use {CONSENT}"
        )
        return Plan("refused", "foreign", refusals=[refusal])
    plan = Plan("fresh", "recreated" if context.at_boot else "intact", OWNER_OURS)
    _create(plan, [item.disk for item in claims], facts, config, context)
    plan.actions[:0] = [{"action": "mask_unit", "unit": unit, "why": "it would take the disks back"} for unit in units]
    return plan


def _create(
    plan: Plan,
    disks: list[t.Mapping[str, t.Any]],
    facts: t.Mapping[str, t.Any],
    config: StorageConfig,
    context: Context,
    blank_array: bool = False,
) -> None:
    actions, volumes = create_actions(disks, config, context.array_uuid, context.namespace, blank_array)
    plan.volumes = volumes
    leaving = {action["target"] for action in plan.actions if action["action"] == "unmount"}
    plan.refusals += mount_obstacles(volumes, facts, context.at_boot, leaving)
    plan.refusals += unknown_accounts(facts, context.at_boot)
    plan.actions += actions + finish_actions(volumes, facts, config, context.at_boot, new=True)


def _is_half_finished(claims: t.Sequence[Claim], facts: t.Mapping[str, t.Any], intent: Known) -> bool:
    """Whether these are exactly the disks of an interrupted run, and carry nothing but what that run wrote."""
    if not intent.serials or {item.disk["serial"] for item in claims} != intent.serials:
        return False
    if facts["intent"].get("stage") not in STAGES:
        return False
    mine = [claim(item.disk, facts, intent) for item in claims]
    return all(item.owner in (OWNER_NONE, OWNER_OURS) for item in mine)


def _half_finished(claims: list[Claim], facts: t.Mapping[str, t.Any], config: StorageConfig, context: Context) -> Plan:
    """Continue an interrupted run: a finished filesystem is kept, a missing one is made where no data can be."""
    intent = t.cast("dict[str, t.Any]", facts["intent"])
    if intent["stage"] not in UNFINISHED:
        return _finished(claims, facts, config, context)
    disks = [item.disk for item in claims]
    wanted = known_from(intent).array_uuid
    array = next((a for a in facts["arrays"] if wanted and a["active"] and a["uuid"] == wanted), None)
    if wanted and not array and all(disk["md"] for disk in disks):
        # What is on the array shows only once it runs.
        devices = [disk["path"] for disk in disks]
        action = {"action": "assemble_array", "uuid": wanted, "name": config.array_name, "devices": devices}
        return Plan("half_finished", "intact", OWNER_OURS, actions=[action])
    mounted = sorted({point for disk in disks for point in disk["mounts"]})
    obstacles = [f"the disks are mounted on {', '.join(mounted)}"] if mounted else teardown_obstacles(disks, facts)
    if not config.may_destroy or context.at_boot:
        obstacles += _data_found(disks, array, intent)
    uses = [array["use"]] if array else [disk["use"] for disk in disks]
    made = [bool(use and use["finished"]) for use in uses]
    if all(made) and not mounted:
        plan = _finished(claims, facts, config, context)
        if plan.situation != "refused" or not _may_start_over(uses, intent, config, context):
            return plan
    elif any(made):
        if not obstacles and not _other_settings(intent, config):
            return _the_missing(claims, made, facts, config, context)
        if not _may_start_over(uses, intent, config, context):
            obstacles.append(f"{sum(made)} of its filesystems are finished and may hold files")
    if obstacles:
        text = (
            f"the last run was interrupted before it mounted anything, yet {'; '.join(obstacles)}: nothing was "
            "touched; take away what is there if it may go, then run again"
        )
        return Plan("refused", "foreign", refusals=[text])
    plan = Plan("half_finished", "recreated" if context.at_boot else "intact", OWNER_OURS)
    plan.actions = teardown_actions(disks, facts, units=[])
    _create(plan, disks, facts, config, context, blank_array=bool(array and _is_proved(array["blank"])))
    return plan


def _finished(claims: list[Claim], facts: t.Mapping[str, t.Any], config: StorageConfig, context: Context) -> Plan:
    """The plan for an interrupted run all of whose filesystems are finished: the intent is as good as a record."""
    known = known_from(facts["intent"])
    as_record = {**facts, "record": facts["intent"]}
    plan = _ours([claim(i.disk, facts, known) for i in claims], as_record, config, context, known)
    if plan.situation == "intact":
        plan.situation = "half_finished"
    return plan


def _may_start_over(
    uses: t.Sequence[t.Mapping[str, bool] | None],
    intent: t.Mapping[str, t.Any],
    config: StorageConfig,
    context: Context,
) -> bool:
    """Whether finished filesystems may be made again, with other settings: no boot does, and only what holds no file
    goes without consent.
    """
    if context.at_boot or not _other_settings(intent, config):
        return False
    return config.may_destroy or all(not use or not use["finished"] or use["pristine"] for use in uses)


def _the_missing(
    claims: list[Claim],
    made: t.Sequence[bool],
    facts: t.Mapping[str, t.Any],
    config: StorageConfig,
    context: Context,
) -> Plan:
    """Make the filesystems that an interrupted run has not finished, and mount all."""
    intent = t.cast("dict[str, t.Any]", facts["intent"])
    disks = [item.disk for item in claims]
    plan = Plan("half_finished", "recreated" if context.at_boot else "intact", OWNER_OURS)
    plan.volumes = volumes_for(disks, intent, config, facts)
    plan.refusals = mount_obstacles(plan.volumes, facts, context.at_boot) + unknown_accounts(facts, context.at_boot)
    missing = {disk["serial"]: disk for disk, finished in zip(disks, made) if not finished}
    kept = {key: value for key, value in intent.items() if key not in ("schema", "stage", "at")}
    plan.actions = teardown_actions(list(missing.values()), facts, units=[])
    plan.actions.append({"action": "write_intent", "stage": "mkfs", "intent": kept})
    for volume in plan.volumes:
        disk = missing.get(volume["serials"][0])
        if disk:
            volume["fs_found"] = True
            plan.actions.append(mkfs_action(volume, config, is_blank(disk)))
    plan.actions.append({"action": "write_intent", "stage": "mount", "intent": kept})
    plan.actions += finish_actions(plan.volumes, facts, config, context.at_boot, new=True)
    return plan


def _data_found(
    disks: t.Sequence[t.Mapping[str, t.Any]], array: t.Mapping[str, t.Any] | None, intent: t.Mapping[str, t.Any]
) -> list[str]:
    """What may hold a file where the interrupted run has made no filesystem yet."""
    if array:
        filesystem = array["filesystem"]
        if filesystem and normal_uuid(filesystem["uuid"]) not in known_from(intent).filesystem_uuids:
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


def _adopt(
    owner: str, claims: list[Claim], facts: t.Mapping[str, t.Any], config: StorageConfig, context: Context
) -> Plan:
    """Use the volume that ParallelCluster or the DLAMI made: its mount stays, our path and directories are added."""
    disks = [item.disk for item in claims]
    plan = Plan("adopted", "intact", owner)
    plan.actions, plan.volumes, plan.refusals = adopt_actions(owner, disks, facts, config, context.at_boot)
    if not plan.volumes:
        plan.situation = "owner_pending"
        return plan
    plan.refusals += mount_obstacles(plan.volumes, facts, context.at_boot) + unknown_accounts(facts, context.at_boot)
    record = facts["record"] or {}
    uuids = [volume["fs_uuid"] for volume in plan.volumes]
    if record.get("owner") == owner and record.get("filesystem_uuids") != uuids:
        plan.state = "recreated"
    return plan


def _replace(
    claims: list[Claim],
    facts: t.Mapping[str, t.Any],
    config: StorageConfig,
    context: Context,
    owner: str,
    state: str,
) -> Plan:
    found = "; ".join(
        f"{item.disk['path']} ({item.disk['serial']}) {', '.join(item.findings)}" for item in claims if item.findings
    )
    whose = {
        OWNER_FOREIGN: "what is on the disks was not made by this role",
        OWNER_EKS: "the disks are set up by the EKS image",
    }.get(owner, f"the disks are set up by {owner}")
    hidden = unseen_lvm([item.disk for item in claims], facts)
    if hidden:
        # It may be the image's own volume: no advice to destroy it.
        refusal = f"{found}: the owner cannot be determined, since {'; '.join(hidden)}; nothing was touched"
        return Plan("refused", state, OWNER_FOREIGN, refusals=[refusal])
    hint = f"; to use what {owner} made, set nvme_raid0_existing: adopt" if owner in ADOPTABLE else ""
    refusal = f"{found}: {whose}, so nothing was touched; to destroy it and build anew, set {CONSENT}{hint}"
    return _rebuild(claims, facts, config, context, owner, state, refusal)


def _rebuild(
    claims: list[Claim],
    facts: t.Mapping[str, t.Any],
    config: StorageConfig,
    context: Context,
    owner: str,
    state: str,
    refusal: str,
) -> Plan:
    """Tear down and create, if both switches say so and nothing outside these disks is touched; else refuse."""
    if not config.may_destroy or context.at_boot:
        return Plan("refused", state, owner, refusals=[refusal])
    disks = [item.disk for item in claims]
    obstacles = teardown_obstacles(disks, facts)
    if obstacles:
        reason = "; ".join(obstacles)
        return Plan("refused", state, owner, refusals=[f"cannot replace what is on the disks: {reason}"])
    units = [unit for unit, seen in facts["units"].items() if seen["exists"] and not seen["masked"]]
    plan = Plan("rebuild", "intact", OWNER_OURS)
    plan.actions = teardown_actions(disks, facts, units)
    _create(plan, disks, facts, config, context)
    return plan
