# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan a bare RAID 0 array over instance-store disks, without filesystem or mount. Pure functions."""

from __future__ import annotations

import dataclasses
import typing as t

from .config import StorageConfig
from .owner import findings, losses, teardown_obstacles
from .plan import Action, select
from .volume import array_config, create_array_action, teardown_actions


@dataclasses.dataclass
class ArrayPlan:
    """Actions, refusals (sentences), the existing array over the disks (None: there is none), and the losses."""

    actions: list[Action] = dataclasses.field(default_factory=list)
    refusals: list[str] = dataclasses.field(default_factory=list)
    found: t.Optional[t.Mapping[str, t.Any]] = None
    losses: list[str] = dataclasses.field(default_factory=list)


def plan_array(facts: t.Mapping[str, t.Any], config: StorageConfig, state: str, array_uuid: str) -> ArrayPlan:
    """Return the plan for state present or absent; config gives devices, array_name, chunk_kib and safe_mode."""
    disks, problems = select(facts, config)
    if problems:
        return ArrayPlan(refusals=problems)
    names = {disk["kname"] for disk in disks}
    found = next((array for array in facts["arrays"] if set(array["members"]) & names), None)
    plan = ArrayPlan(found=found)
    if state == "absent":
        _absent(plan, disks, facts, config)
    elif len(disks) < 2:
        plan.refusals.append(f"found {len(disks)} instance-store disks: an array needs at least 2, see 'lsblk'")
    else:
        _present(plan, disks, facts, config, array_uuid)
    if plan.refusals:
        plan.actions, plan.losses = [], []
    return plan


def _present(
    plan: ArrayPlan,
    disks: list[t.Mapping[str, t.Any]],
    facts: t.Mapping[str, t.Any],
    config: StorageConfig,
    array_uuid: str,
) -> None:
    uuid = _existing_uuid(plan.found, disks, config)
    if uuid:
        if not plan.found or not plan.found["active"]:
            plan.actions.append(
                {
                    "action": "assemble_array",
                    "uuid": uuid,
                    "name": config.array_name,
                    "devices": [disk["path"] for disk in disks],
                }
            )
        if facts["array_config"] != array_config(config.array_name, uuid):
            plan.actions.append({"action": "write_array_config", "name": config.array_name, "uuid": uuid})
        return
    _clear(plan, disks, facts, config)
    plan.actions += [
        create_array_action(disks, config, array_uuid),
        {"action": "write_array_config", "name": config.array_name, "uuid": array_uuid},
    ]


def _existing_uuid(
    found: t.Mapping[str, t.Any] | None, disks: list[t.Mapping[str, t.Any]], config: StorageConfig
) -> str | None:
    """Return the UUID of an array that already is as requested, running or not."""
    members = {disk["md"]["uuid"] for disk in disks if disk["md"]}
    whole = all(
        disk["md"]
        and disk["md"]["level"] == "raid0"
        and disk["md"]["raid_devices"] == len(disks)
        and _array_name(disk) == config.array_name
        for disk in disks
    )
    if not whole or len(members) != 1:
        return None
    if found and found["active"] and found["chunk_kib"] != config.chunk_kib:
        return None
    return t.cast(str, members.pop())


def _absent(
    plan: ArrayPlan, disks: list[t.Mapping[str, t.Any]], facts: t.Mapping[str, t.Any], config: StorageConfig
) -> None:
    """Return the plan to take apart the array with the requested name, and no other one on the disks."""
    unread = [disk["path"] for disk in disks if not disk["md"] and _is_member(disk)]
    if unread:
        plan.refusals.append(f"{', '.join(unread)}: the name of their array cannot be read; install mdadm, run again")
        return
    members = [disk for disk in disks if disk["md"] and _array_name(disk) == config.array_name]
    names = {disk["kname"] for disk in members}
    running = [array for array in facts["arrays"] if set(array["members"]) & names]
    plan.found = running[0] if running else None
    for array in running:
        users = ", ".join([*array["mounts"], *array["holders"]])
        if users:
            plan.refusals.append(f"{array['path']} is in use ({users}): unmount it or take it apart, then run again")
    if members and not plan.refusals:
        _clear(plan, members, facts, config)
    if members or facts["array_config"] is not None:
        plan.actions.append({"action": "remove_array_config", "name": config.array_name})


def _is_member(disk: t.Mapping[str, t.Any]) -> bool:
    return any(signature["type"] == "linux_raid_member" for signature in disk["signatures"])


def _array_name(disk: t.Mapping[str, t.Any]) -> str:
    """Return the name in a member's superblock, without the host that it was made for."""
    return t.cast(str, disk["md"]["name"].rpartition(":")[2])


def _clear(
    plan: ArrayPlan, disks: list[t.Mapping[str, t.Any]], facts: t.Mapping[str, t.Any], config: StorageConfig
) -> None:
    taken = [f"{disk['path']} ({disk['serial']}) {', '.join(findings(disk))}" for disk in disks if findings(disk)]
    if not taken:
        return
    if config.safe_mode:
        text = "; ".join(taken)
        plan.refusals.append(f"{text}: nothing was touched; set safe_mode: false to destroy the content of these disks")
        return
    plan.refusals += teardown_obstacles(disks, facts)
    plan.losses += losses(disks, facts)
    plan.actions += teardown_actions(disks, facts, units=[])
