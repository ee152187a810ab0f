# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan of the role nvme_raid0 for a node, from the facts of ``role.look`` and the options. Pure.

``plan.py`` decides about the disks; here that is one step of several.
"""

from __future__ import annotations

import typing as t

from ..system.mounts import mounts_on
from ..system.plan import File, Package, Plan, Step, Unit, file_due, not_concerned, refused
from . import files
from .config import CONFIG_PATH, config_text
from .role_config import ROLE, RoleConfig

# Packages by program.
PACKAGES = {"mdadm": "mdadm", "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "pvs": "lvm2"}

Facts = t.Mapping[str, t.Any]
Line = t.Mapping[str, str]


def make_plan(facts: Facts, config: RoleConfig) -> Plan:
    """Return the plan for a node."""
    disks = facts["storage_plan"]
    if disks.refusals:
        return refused(ROLE, disks.refusals)
    if not disks.claims and not (config.image_build and config.storage.layout != "none"):
        return not_concerned(ROLE, f"no volume, since {_no_volume(config)}")
    foreign = foreign_fstab(facts)
    if foreign:
        return refused(ROLE, foreign)
    packages = missing_packages(facts, config)
    if packages and not facts["manager"]:
        names = ", ".join(packages)
        return refused(ROLE, [f"neither apt nor dnf is on this node, so {names} cannot be installed: install them"])
    due = _files_due(facts, config)
    unit_due = any(entry.path == files.UNIT_PATH for entry in due)
    units = [Unit(files.BOOT_UNIT, enabled=True)] if not facts["boot_unit_enabled"] else []
    if config.fstrim_timer_enabled and not facts["paths"][files.FSTRIM_LINK]:
        units.append(Unit(files.FSTRIM_TIMER, enabled=True, state="started"))
    return Plan(
        domain=ROLE,
        refresh=bool(packages),
        packages=tuple(map(Package, packages)),
        files=tuple(due),
        daemon_reload=unit_due,
        units=tuple(units),
        steps=tuple(_steps(facts, config)),
    )


def _no_volume(config: RoleConfig) -> str:
    return "the layout is none" if config.storage.layout == "none" else "this node has no instance-store disks"


def missing_packages(facts: Facts, config: RoleConfig) -> list[str]:
    """Return the packages of the programs that the volume needs and the node lacks."""
    signatures = {found["type"] for item in facts["storage_plan"].claims for found in item.disk["signatures"]}
    needed = [f"mkfs.{config.storage.fstype}"]
    needed += ["mdadm"] if config.storage.layout == "raid0" else []
    needed += ["pvs"] if "LVM2_member" in signatures else []
    return [PACKAGES[program] for program in needed if not facts["storage"]["tools"][program]]


def _files_due(facts: Facts, config: RoleConfig) -> list[File]:
    wanted = (
        File("config", CONFIG_PATH, config_text(config.storage)),
        File("boot unit", files.UNIT_PATH, files.boot_unit(facts["mount_units"])),
    )
    sums, states = facts["files"], facts["paths"]
    return [due for entry in wanted for due in file_due(entry, sums[entry.path], states[entry.path])]


def _steps(facts: Facts, config: RoleConfig) -> list[Step]:
    steps = []
    has_runtime = facts["files"][files.RUNTIME_PATH] == config.runtime_sha256 or not config.runtime_sha256
    if not has_runtime or not facts["files"][files.COMMAND_PATH]:
        steps.append(Step("runtime", "runtime"))
    if facts["storage_plan"].actions:
        steps.append(Step("volume", "volume"))
    missing, stale = fstab_changes(facts)
    if missing or stale:
        steps.append(Step("fstab", "fstab", {"missing": missing, "stale": stale}))
    return steps


def fstab_changes(facts: Facts) -> tuple[list[Line], list[Line]]:
    """Return the missing lines of fstab, and those that mount a volume on a path that it no longer uses."""
    volumes, fstab = facts["storage_plan"].volumes, facts["storage"]["fstab"]
    wanted = [volume["fstab"] for volume in volumes if volume["fstab"]]
    sources = {line["src"] for line in wanted}
    paths = {volume["path"] for volume in volumes}
    missing = [line for line in wanted if line not in fstab]
    recorded = {volume["path"] for volume in (facts["storage"]["record"] or {}).get("volumes") or ()}
    options = {line["opts"] for line in wanted}
    # The user can mount the volume in one more place: such a line has another path and other options.
    stale = [
        line
        for line in fstab
        if line["src"] in sources
        and line["path"] not in paths
        and (line["path"] in recorded or line["opts"] in options)
    ]
    return missing, stale


def foreign_fstab(facts: Facts) -> list[str]:
    """Return a message for each line of fstab that is not the role's and that writing its line would replace."""
    known = {f"UUID={uuid}" for uuid in (facts["storage"]["record"] or {}).get("filesystem_uuids") or ()}
    missing, _stale = fstab_changes(facts)
    known |= {line["src"] for line in missing}
    return [
        f"/etc/fstab mounts {line['src']} on {line['path']}: take that line out, or choose another "
        "nvme_raid0_mount_point"
        for wanted in missing
        for line in facts["storage"]["fstab"]
        if mounts_on(line, wanted["path"]) and line["src"] not in known
    ]


def own_fstab(record: t.Mapping[str, t.Any] | None, fstab: t.Sequence[Line]) -> list[Line]:
    """Return the lines of fstab that this role wrote, by its record: an adopted volume's line is its owner's."""
    if not record or record.get("layout") == "adopted":
        return []
    own = {(f"UUID={volume['fs_uuid']}", volume["path"]) for volume in record.get("volumes") or ()}
    return [line for line in fstab if (line["src"], line["path"]) in own]
