# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two state files: local_storage.json (the record) and intent.json (an unfinished run)."""

from __future__ import annotations

import re
import typing as t

from ..system.host import Host
from ..system.state import STATE_DIRECTORY, write_json
from .config import StorageConfig
from .first_boot import current_boot
from .parse import normal_uuid
from .volume import mount_options

if t.TYPE_CHECKING:
    from .plan import Plan

RECORD_PATH = f"{STATE_DIRECTORY}/local_storage.json"
INTENT_PATH = f"{STATE_DIRECTORY}/intent.json"
LOCK_PATH = "/run/mlcluster/storage.lock"
RECORD_SCHEMA = "mlcluster.local_storage/1"
INTENT_SCHEMA = "mlcluster.storage_intent/1"

# The volume's identity; kept when a boot finds a disk lost or foreign, so that a repair can be recognised, and while
# the layout is none.
IDENTITY = (
    "layout",
    "path",
    "fstype",
    "fs_uuid",
    "array_uuid",
    "array_name",
    "chunk_kib",
    "filesystem_uuids",
    "serials",
    "volumes",
    "disks",
    "created_at",
    "size_bytes",
    "device",
    "blank_proofs",
)


def read_document(host: Host, path: str) -> dict[str, t.Any] | None:
    """Return local_storage.json or intent.json; None if it is missing, truncated or incomplete (see ``sound``)."""
    return sound(host.read_json(path))


def sound(document: t.Any) -> dict[str, t.Any] | None:
    """Return a record or intent unchanged if it names no volume, or one completely and without contradiction.

    Anything else gives None: a partial identity could match the wrong disks.
    """
    if not isinstance(document, dict):
        return None
    volumes, serials, uuids = (document.get(key) or [] for key in ("volumes", "serials", "filesystem_uuids"))
    if not volumes and not serials and not uuids and not document.get("array_uuid"):
        return document
    if not (_names(serials) and isinstance(volumes, list) and volumes and all(map(_sound_volume, volumes))):
        return None
    adopted = document.get("layout") == "adopted"
    if not (_names(uuids) or (adopted and uuids == [None])) or uuids != [volume["fs_uuid"] for volume in volumes]:
        return None
    if sorted(serial for volume in volumes for serial in volume["serials"]) != sorted(serials):
        return None
    return document if _sound_layout(document, volumes) else None


def _sound_volume(volume: t.Any) -> bool:
    return (
        isinstance(volume, dict)
        and isinstance(volume.get("path"), str)
        and isinstance(volume.get("label") or "", str)
        and "fs_uuid" in volume
        and _names(volume.get("serials"))
    )


def _sound_layout(document: dict[str, t.Any], volumes: list[dict[str, t.Any]]) -> bool:
    layout, array_uuid = document.get("layout"), document.get("array_uuid")
    if layout == "raid0":
        spelled = normal_uuid(array_uuid) if isinstance(array_uuid, str) else None
        return len(volumes) == 1 and re.fullmatch(r"[0-9a-f]{32}", spelled or "") is not None
    if array_uuid:
        return False
    if layout == "adopted":
        return len(volumes) == 1
    single_disks = all(len(volume["serials"]) == 1 for volume in volumes)
    return single_disks and (layout == "per_disk" or (layout == "single" and len(volumes) == 1))


def _names(value: t.Any) -> bool:
    """Return whether this is a list of unique, non-empty strings."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, str) and item for item in value)
        and len(set(value)) == len(value)
    )


def write_record(host: Host, record: t.Mapping[str, t.Any]) -> None:
    """Replace local_storage.json."""
    write_json(host, RECORD_PATH, record)


def write_intent(host: Host, stage: str, intent: t.Mapping[str, t.Any]) -> None:
    """Write the intent for the disks to disk before the first action."""
    write_json(host, INTENT_PATH, {"schema": INTENT_SCHEMA, "stage": stage, "at": host.now(), **intent})


def write_failure(host: Host, reason: str) -> None:
    """Record in local_storage.json that this boot could not set up the volume; its identity stays for the next run."""
    known = read_document(host, RECORD_PATH) or {}
    failure = {"state": "failed", "reason": reason, "boot_id": current_boot(host), "updated_at": host.now()}
    write_record(host, {"schema": RECORD_SCHEMA, **known, **failure})


def build_record(host: Host, facts: t.Mapping[str, t.Any], config: StorageConfig, plan: Plan) -> dict[str, t.Any]:
    """Return local_storage.json for a plan that was carried out or refused.

    size_bytes is the size of the mounted filesystem (all of them together with per_disk), None while not mounted.
    """
    before = facts["record"] or {}
    base: dict[str, t.Any] = {
        "schema": RECORD_SCHEMA,
        "boot_id": facts["boot_id"],
        "instance_type": facts["instance_type"],
        "state": plan.state,
        "owner": plan.owner,
        "reason": "; ".join(plan.refusals),
        "updated_at": host.now(),
    }
    # With the layout none the disks are not changed, and their record is kept.
    if plan.refusals or (plan.situation == "disabled" and before.get("volumes")):
        return {**base, **{key: before.get(key) for key in IDENTITY}}
    if not plan.volumes:
        empty: dict[str, t.Any] = {"layout": "none", "filesystem_uuids": [], "serials": [], "volumes": [], "disks": []}
        return {**base, **dict.fromkeys(IDENTITY), **empty}
    return {**base, **_identity(host, facts, config, plan, before)}


def _identity(
    host: Host, facts: t.Mapping[str, t.Any], config: StorageConfig, plan: Plan, before: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    first = plan.volumes[0]
    serials = sorted({serial for volume in plan.volumes for serial in volume["serials"]})
    by_serial = {disk["serial"]: disk for disk in facts["disks"] if disk["kind"] == "instance_store"}
    uuids = [volume["fs_uuid"] for volume in plan.volumes]
    sizes = [host.filesystem_size(volume["path"]) for volume in plan.volumes]
    made_now = plan.situation in ("fresh", "rebuild", "half_finished") or before.get("filesystem_uuids") != uuids
    return {
        "layout": first["layout"],
        "path": config.mount_point if first["layout"] == "per_disk" else first["path"],
        "fstype": first["fstype"],
        "fs_uuid": first["fs_uuid"],
        "array_uuid": first["array_uuid"],
        "array_name": config.array_name if first["array_uuid"] else None,
        "chunk_kib": config.chunk_kib if first["array_uuid"] else None,
        "device": first["device"],
        "filesystem_uuids": uuids,
        "serials": serials,
        "disks": [{key: by_serial[s][key] for key in ("serial", "path", "size")} for s in serials if s in by_serial],
        "volumes": [
            {key: volume[key] for key in ("path", "fs_uuid", "device", "label", "serials")} for volume in plan.volumes
        ],
        "size_bytes": sum(size for size in sizes if size),
        "created_at": host.now() if made_now else before.get("created_at"),
        "blank_proofs": _blank_proofs(facts, serials) if made_now else before.get("blank_proofs"),
        "mount_options": mount_options(config) if first["owner"] == "ours" else [],
    }


def _blank_proofs(facts: t.Mapping[str, t.Any], serials: t.Sequence[str]) -> dict[str, str]:
    """Return the blank proof of each disk by serial number, from before the volume was made."""
    disks = [disk for disk in facts["disks"] if disk["serial"] in serials]
    return {disk["serial"]: disk["blank"]["proof"] for disk in disks if disk["blank"] and disk["blank"]["proof"]}
