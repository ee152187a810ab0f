# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prove that this boot is the first since the instance started: EC2 starts an instance with blank local disks.

The node itself must prove it. The time in the instance identity document does not: AWS renews the document at
restarts. disks_seen.json records the boot in which each disk was first seen.
"""

from __future__ import annotations

import re
import typing as t

from ..system.host import Host, NodeError
from ..system.instance import instance_id
from ..system.state import STATE_DIRECTORY, write_json

SEEN_PATH = f"{STATE_DIRECTORY}/disks_seen.json"
SEEN_SCHEMA = "mlcluster.disks_seen/1"
# cloud-init makes the directory of a new instance within the first minutes of a boot. A later creation time means that
# the clock was wrong.
CLOUD_INIT_SECONDS = 900


def is_first_boot(host: Host, serial: str, unwritten: bool) -> bool:
    """Return whether the disk with this serial number is in its first boot since the instance started.

    unwritten: the disk itself has counted no write since the start. Without that, cloud-init's directory proves
    nothing: EC2 replaces the root volume of an instance and keeps the local disks, and cloud-init then begins again.

    False without a proof, and if disks_seen.json contradicts it or cannot be read: cloud-init also makes its directory
    again after "cloud-init clean", and a reboot keeps the content of the disks.
    """
    boot_id, seen = current_boot(host), _seen_document(host)
    if not boot_id or (seen is None and host.exists(SEEN_PATH)):
        return False
    if seen and seen["first_boot"].get(serial, boot_id) != boot_id:
        return False
    return (unwritten and _cloud_init_began(host)) or _is_new_serial(host, serial)


def note_disks(host: Host, serials: t.Collection[str], volumes: t.Collection[str], by_boot_unit: bool) -> None:
    """Record the boot in which each disk was first seen, and the disks that the boot unit saw in its last two boots.

    volumes: the serial numbers of the EBS volumes. The serial number of a disk is never removed.
    """
    boot_id, before = current_boot(host), _seen_document(host) or {}
    unit, earlier = before.get("unit"), before.get("earlier_unit")
    if by_boot_unit:
        again = unit["serials"] if unit and unit["boot_id"] == boot_id else None
        earlier = unit if again is None else earlier
        unit = {"boot_id": boot_id, "serials": sorted({*serials, *(again or ())}), "volumes": sorted(volumes)}
    document = {
        "schema": SEEN_SCHEMA,
        "unit": unit,
        "earlier_unit": earlier,
        "first_boot": {**dict.fromkeys(serials, boot_id), **before.get("first_boot", {})},
    }
    if boot_id and document != before:
        write_json(host, SEEN_PATH, document)


def current_boot(host: Host) -> str:
    """Return the kernel's id of this boot."""
    return (host.read_text("/proc/sys/kernel/random/boot_id") or "").strip()


def _cloud_init_began(host: Host) -> bool:
    """Return whether cloud-init made the directory of this instance in this boot.

    The firmware names the instance: a directory that came with the image belongs to another one.
    """
    instance = instance_id(host)
    boot = re.search(r"^btime ([0-9]+)$", host.read_text("/proc/stat") or "", re.MULTILINE)
    if instance is None or boot is None:
        return False
    completed = host.run(["stat", "--format=%W", f"/var/lib/cloud/instances/{instance}"], timeout=10, check=False)
    created = completed.stdout.strip()
    # 0 and - mean that the filesystem has no creation time; 0 lies before every boot.
    if completed.rc != 0 or not created.isdigit():
        return False
    return 0 <= int(created) - int(boot.group(1)) <= CLOUD_INIT_SECONDS


def _is_new_serial(host: Host, serial: str) -> bool:
    """Return whether the boot unit saw this disk and only new disks in this boot, and only others in the previous one.

    All serial numbers change with a stop and start. In a boot that the unit has not recorded, anything can have
    been written to a disk; and a new disk beside an old one appeared late, or was not recorded. EC2 can replace the
    root volume by a snapshot and keep the local disks: then record and journal are older, and the volume on which they
    were written is gone.
    """
    boot_id, seen = current_boot(host), _seen_document(host) or {}
    unit, earlier = seen.get("unit"), seen.get("earlier_unit")
    if not unit or not earlier or unit["boot_id"] != boot_id or serial not in unit["serials"]:
        return False
    if not earlier.get("volumes") or not set(earlier["volumes"]) <= set(unit.get("volumes") or ()):
        return False
    if not earlier["serials"] or any(seen["first_boot"].get(name) != boot_id for name in unit["serials"]):
        return False
    return earlier["boot_id"].replace("-", "") == _previous_boot(host)


def _previous_boot(host: Host) -> str:
    """Return the id of the previous boot from the journal; empty if the journal does not have it."""
    try:
        completed = host.run(["journalctl", "--list-boots", "--quiet", "--no-pager"], timeout=60)
    except NodeError:
        return ""
    boots = {fields[0]: fields[1] for fields in map(str.split, completed.stdout.splitlines()) if len(fields) > 1}
    return boots.get("-1", "") if boots.get("0") == current_boot(host).replace("-", "") else ""


def _seen_document(host: Host) -> dict[str, t.Any] | None:
    document = host.read_json(SEEN_PATH)
    if not isinstance(document, dict) or document.get("schema") != SEEN_SCHEMA:
        return None
    first = document.get("first_boot")
    is_valid = isinstance(first, dict) and all(isinstance(boot, str) and boot for boot in first.values())
    return (
        document
        if is_valid and all(map(_is_valid_entry, (document.get("unit"), document.get("earlier_unit"))))
        else None
    )


def _is_valid_entry(unit: t.Any) -> bool:
    """Return whether this is a valid entry of the boot unit for a boot, or None."""
    if unit is None:
        return True
    if not isinstance(unit, dict):
        return False
    # An entry from before volumes were recorded proves nothing.
    lists = [unit.get("serials"), unit.get("volumes", [])]
    are_valid = all(
        isinstance(serials, list) and all(isinstance(serial, str) for serial in serials) for serials in lists
    )
    return are_valid and isinstance(unit.get("boot_id"), str) and bool(unit["boot_id"])
