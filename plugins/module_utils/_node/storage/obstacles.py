# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Obstacles of a volume on the node itself, apart from the disks. Pure functions."""

from __future__ import annotations

import typing as t

from ..system.mounts import mounts_on


def mount_obstacles(
    volumes: t.Sequence[t.Mapping[str, t.Any]],
    facts: t.Mapping[str, t.Any],
    at_boot: bool,
    leaving: t.AbstractSet[str] = frozenset(),
) -> list[str]:
    """Return the reasons not to mount a volume on its path: another filesystem, a link, or files that it would hide.

    leaving: mount points that the plan frees first.
    """
    obstacles = []
    for volume in volumes:
        path = volume["path"]
        if volume["mounted"] or path in leaving:
            continue
        mounted_here = [mount for mount in facts["mounts"] if mount["target"] == path]
        below = [mount["target"] for mount in facts["mounts"] if mount["target"].startswith(f"{path}/")]
        below = [point for point in below if point not in leaving and point not in volume["elsewhere"]]
        target = facts["mount_points"].get(path) or {}
        if mounted_here:
            obstacles.append(
                f"{path} already carries {mounted_here[-1]['source']} ({mounted_here[-1]['fstype']}): unmount it, or "
                "choose another nvme_raid0_mount_point"
            )
        elif below:
            obstacles.append(
                f"{', '.join(below)} would be hidden below {path}: unmount it, or choose another nvme_raid0_mount_point"
            )
        elif _foreign_fstab(volume, facts) and not at_boot:
            obstacles.append(
                f"/etc/fstab mounts {_foreign_fstab(volume, facts)} on {path}: take that line out, or choose another "
                "nvme_raid0_mount_point"
            )
        elif target.get("real", path) != path:
            # The kernel's table would show the real path, so each run would mount the volume once more.
            obstacles.append(
                f"{path} is a link, or leads through one, to {target['real']}: remove the link, or use the real path "
                "as nvme_raid0_mount_point"
            )
        elif target and not target.get("is_dir"):
            obstacles.append(f"{path} is a file: remove it, or choose another nvme_raid0_mount_point")
        elif target.get("entries") and not at_boot:
            obstacles.append(
                f"{path} has {target['entries']} entries on the root filesystem that the volume would hide: move them "
                "away, or choose another nvme_raid0_mount_point"
            )
    return obstacles


def _foreign_fstab(volume: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> str:
    """Return the source that a foreign line of fstab would mount on the volume's path."""
    known = {f"UUID={uuid}" for uuid in (facts["record"] or {}).get("filesystem_uuids") or ()}
    known.add(f"UUID={volume['fs_uuid']}")
    lines = [line for line in facts["fstab"] if mounts_on(line, volume["path"]) and line["src"] not in known]
    return lines[-1]["src"] if lines else ""


def unknown_accounts(facts: t.Mapping[str, t.Any], at_boot: bool) -> list[str]:
    """Return why directories cannot be given to their owners: a user or a group is missing on the node."""
    unknown = [f"user {name}" for name, uid in facts["users"].items() if uid is None]
    unknown += [f"group {name}" for name, gid in facts["groups"].items() if gid is None]
    # At boot a directory service may still be starting; the next run makes the directories of unknown users.
    if not unknown or at_boot:
        return []
    return [f"there is no {', no '.join(unknown)} on the node: create it first, or leave it out of the settings"]
