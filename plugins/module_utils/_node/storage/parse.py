# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse the output of lsblk, wipefs, mdadm and LVM into plain JSON types. Pure functions."""

from __future__ import annotations

import json
import re
import typing as t

from ..system.host import NodeError

# Signatures whose UUID names an object over several disks.
SHARED_SIGNATURES = ("linux_raid_member", "btrfs", "zfs_member", "bcachefs")


def normal_uuid(uuid: str | None) -> str | None:
    """Return a UUID in mdadm's, blkid's or sysfs' spelling as 32 hex digits; other identifiers are kept as they are."""
    if not uuid:
        return None
    digits = re.sub(r"[:-]", "", uuid).lower()
    return digits if re.fullmatch(r"[0-9a-f]{32}", digits) else uuid


def parse_lsblk(text: str) -> dict[str, dict[str, t.Any]]:
    """Parse lsblk's JSON tree into a flat mapping by kernel name; each device has its parents, children and mounts.

    Accepts MOUNTPOINTS (a list, util-linux 2.37 and newer) and MOUNTPOINT (a string or null), and sizes as numbers or
    as strings.
    """
    try:
        tree = json.loads(text or "{}").get("blockdevices", [])
    except ValueError:
        raise NodeError("lsblk printed no valid JSON: run 'lsblk --json' to see its output") from None
    devices: dict[str, dict[str, t.Any]] = {}

    def walk(node: dict[str, t.Any], parent: str | None) -> None:
        kname = node["kname"]
        points = node.get("mountpoints", node.get("mountpoint"))
        points = points if isinstance(points, list) else [points]
        device = devices.setdefault(
            kname,
            {
                "kname": kname,
                "path": node.get("path") or f"/dev/{node['name']}",
                "type": node["type"],
                "model": (node.get("model") or "").strip(),
                "serial": (node.get("serial") or "").strip(),
                "size": int(node.get("size") or 0),
                "fstype": node.get("fstype"),
                "label": node.get("label"),
                "uuid": node.get("uuid"),
                "pttype": node.get("pttype"),
                "read_only": node.get("ro") in (True, "1", 1),
                "mounts": [],
                "swap": False,
                "parents": [],
                "children": [],
            },
        )
        device["swap"] = device["swap"] or "[SWAP]" in points
        device["mounts"] += [point for point in points if point and point != "[SWAP]" and point not in device["mounts"]]
        if parent and parent not in device["parents"]:
            device["parents"].append(parent)
            devices[parent]["children"].append(kname)
        for child in node.get("children", []):
            walk(child, kname)

    for node in tree:
        walk(node, None)
    return devices


def parse_wipefs(text: str) -> list[dict[str, t.Any]]:
    """Parse wipefs' JSON into a list of {device, offset, type, uuid, label}; no output means no signature."""
    if not text.strip():
        return []
    try:
        found = json.loads(text).get("signatures") or []
    except ValueError:
        raise NodeError("wipefs printed no valid JSON: run 'wipefs --no-act --json DISK' to see its output") from None
    keys = ("device", "offset", "type", "uuid", "label")
    return [{key: entry.get(key) for key in keys} for entry in found]


def parse_export(text: str) -> dict[str, str]:
    """Return the lines of mdadm --export or systemctl show, NAME=VALUE each, as a mapping."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def parse_lvm(text: str, kind: str) -> list[dict[str, str]]:
    """Return the rows of an LVM JSON report; kind is pv or lv."""
    try:
        report = json.loads(text)["report"]
    except (ValueError, KeyError):
        raise NodeError("LVM printed no valid JSON report: run 'pvs' and 'lvs' to see their output") from None
    return [row for part in report for row in part.get(kind, [])]
