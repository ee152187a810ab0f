# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what is deleted with a cluster, by the configuration that ParallelCluster keeps of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

# Storage that ParallelCluster 3.16 creates: kind, its settings, and the key in them of an existing one.
MADE = {
    "Ebs": ("EbsSettings", "VolumeId"),
    "Efs": ("EfsSettings", "FileSystemId"),
    "FsxLustre": ("FsxLustreSettings", "FileSystemId"),
}
# Storage that only exists before a cluster, so that it stays.
EXTERNAL = ("FileCache", "FsxOntap", "FsxOpenZfs")
# pcluster.config.cluster_config of 3.16.1, for storage and for logs.
STORAGE_POLICY, LOG_POLICY = "Delete", "Retain"
KEEPING = ("Retain", "Snapshot")
UNKNOWN = "unknown"
# Configuration reference of ParallelCluster 3.16, HeadNode / SharedStorageType: on disks of the head node.
INTERNAL = "Ebs"


def mapping(value: Any, *keys: str) -> dict[str, Any]:
    """Return the mapping under ``keys``, empty for a missing or other value."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def shared(config: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any], str]]:
    """Yield (position, entry, policy) of SharedStorage: its DeletionPolicy if ParallelCluster creates it, else none.

    The policy of a type that is not known here is ``unknown``.
    """
    entries = config.get("SharedStorage")
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        section, identifier = MADE.get(str(mapping(entry).get("StorageType")), ("", ""))
        settings = mapping(entry, section)
        if section and not settings.get(identifier):
            yield number, entry, str(settings.get("DeletionPolicy") or STORAGE_POLICY)
        elif isinstance(entry, dict):
            yield number, entry, "" if section or entry.get("StorageType") in EXTERNAL else UNKNOWN


def deletion_plan(text: str) -> dict[str, Any]:
    """Return ``names`` of the file systems whose data are deleted, and sentences: ``deleted`` and ``kept``.

    ``text`` is the configuration; if it cannot be read, the only name is ``unknown``.
    """
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError:
        config = None
    if not mapping(config, "Scheduling"):
        what = "every file system that ParallelCluster made without DeletionPolicy Retain, with all data in it"
        why = "which of them there are is not known, because the configuration of the cluster could not be read"
        return {"names": [UNKNOWN], "deleted": [f"{what}: {why}"], "kept": ["all other file systems"]}
    names: list[str] = []
    deleted: list[str] = []
    kept: list[str] = []
    for _number, entry, policy in shared(config):
        storage = f"{entry.get('StorageType')} {entry.get('Name')} under {entry.get('MountDir')}"
        if policy and policy not in KEEPING:
            names.append(str(entry.get("Name")))
            deleted.append(f"{storage} with all data in it, because its DeletionPolicy is {policy}")
        else:
            kept.append(f"{'a snapshot of ' if policy == 'Snapshot' else ''}{storage}")
    # With /home, unless that is shared storage.
    internal = mapping(config, "HeadNode").get("SharedStorageType") or INTERNAL
    if internal != INTERNAL:
        deleted.append(f"the {internal} in which the cluster has /home and its own files, with all data in it")
    logs = mapping(config, "Monitoring", "Logs", "CloudWatch").get("DeletionPolicy") or LOG_POLICY
    (deleted if logs == "Delete" else kept).append("logs in CloudWatch")
    return {"names": names, "deleted": deleted, "kept": kept}
