# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prove that this boot is the first since the instance started, at which EC2 gives out blank instance-store disks.

The node itself has to prove it. The time in the instance identity document does not: AWS makes the document again at
restarts. disks_seen.json remembers in which boot each disk was seen first.
"""

from __future__ import annotations

import re
import typing as t

from ..system.host import Host
from ..system.state import STATE_DIRECTORY, write_json

SEEN_PATH = f"{STATE_DIRECTORY}/disks_seen.json"
SEEN_SCHEMA = "mlcluster.disks_seen/1"


def is_first_boot(host: Host, serial: str) -> bool:
    """Return whether the disk with this serial number is in its first boot since the instance started.

    False where nothing proves it.
    """
    return _cloud_init_began(host) or _is_new_serial(host, serial)


def note_disks(host: Host, serials: t.Collection[str], by_boot_unit: bool) -> None:
    """Record in which boot each disk was seen first; a serial number is never forgotten."""
    boot_id, before = current_boot(host), _seen_document(host) or {}
    document = {
        "schema": SEEN_SCHEMA,
        "unit_boot_id": boot_id if by_boot_unit else before.get("unit_boot_id"),
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
    tag = (host.read_text("/sys/class/dmi/id/board_asset_tag") or "").strip()
    boot = re.search(r"^btime ([0-9]+)$", host.read_text("/proc/stat") or "", re.MULTILINE)
    if not re.fullmatch(r"i-[0-9a-f]{8,17}", tag) or boot is None:
        return False
    done = host.run(["stat", "--format=%W", f"/var/lib/cloud/instances/{tag}"], timeout=10, check=False)
    born = done.stdout.strip()
    # 0 and - stand for a filesystem that keeps no time of birth.
    return done.rc == 0 and born.isdigit() and int(born) > 0 and int(born) >= int(boot.group(1))


def _is_new_serial(host: Host, serial: str) -> bool:
    """Return whether the boot unit saw other disks in earlier boots and this one in none.

    Serial numbers change with a stop and start. Where the unit has not recorded this boot, or no earlier one, a new
    disk cannot be told from one that was not recorded.
    """
    boot_id, document = current_boot(host), _seen_document(host)
    if not boot_id or not document or document.get("unit_boot_id") != boot_id:
        return False
    earlier = {name for name, boot in document["first_boot"].items() if boot != boot_id}
    return bool(earlier) and serial not in earlier


def _seen_document(host: Host) -> dict[str, t.Any] | None:
    document = host.read_json(SEEN_PATH)
    if not isinstance(document, dict) or document.get("schema") != SEEN_SCHEMA:
        return None
    first = document.get("first_boot")
    whole = isinstance(first, dict) and all(isinstance(boot, str) and boot for boot in first.values())
    return document if whole else None
