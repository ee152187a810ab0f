# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns the settings of the role fsx_lustre into what its modules take, and judges them, on the controller."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import config as lustre_config
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import argument_types
from ansible_collections.mlcluster.aws.plugins.plugin_utils._lustre import layouts as lustre_layouts

# FSx API, FileSystemId: fs- and 8 hexadecimal digits or more.
FILE_SYSTEM_ID = re.compile(r"fs-[0-9a-f]{8,}")
# A variable that a site has written with nothing after its colon is null.
EMPTY: dict[str, Any] = {
    **dict.fromkeys(("file_systems", "models", "acl", "directories", "nfs_mounts"), ()),
    **{key: {} for key in ("names", "places", "classes", "tuning", "module_options")},
}
LAYOUT_KEYS = ("layout", "models", "places", "classes", "owner", "group", "mode", "acl", "directories")

# Without these the rest cannot be read.
_SPEC: argument_types.Spec = {"places": {"type": "dict"}, "classes": {"type": "dict"}}


def fsx_lustre_plan(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``problems``: a sentence for everything that no node could carry out; ``options``: those of the modules.

    ``settings`` are the role's variables without their prefix, and ``names``, what FSx has said of the file systems
    that have an id. ``ids`` are those of which it has said nothing yet: they have no DNS name in the options. With
    problems the options have no directories.
    """
    settings = {key: EMPTY.get(key) if value is None else value for key, value in settings.items()}
    unreadable = list(argument_types.problems(settings, _SPEC))
    if unreadable:
        return {"problems": unreadable, "options": {}, "ids": []}
    systems, ids, id_problems = _named(settings["file_systems"], settings["names"])
    settings = {**settings, "file_systems": systems}
    layout = {key: settings[key] for key in LAYOUT_KEYS}
    layout["places"] = {**_places(settings), **settings["places"]}
    options = {key: settings[key] for key in lustre_config.ARGUMENT_SPEC if key != "directories"}
    problems = lustre_layouts.problems(layout)
    options["directories"] = [] if problems else lustre_layouts.expand(layout)
    return {"problems": id_problems + problems + lustre_config.problems(options), "options": options, "ids": ids}


def _named(systems: Sequence[Any], names: Mapping[str, Mapping[str, Any]]) -> tuple[list[Any], list[str], list[str]]:
    """The file systems with their names in the place of an id, the ids that FSx has to be asked for, and problems."""
    found, ids, problems = [], [], []
    for entry in systems:
        identifier = entry.get("id") if isinstance(entry, dict) else None
        if not identifier:
            found.append(entry)
            continue
        known, where = names.get(identifier, {}), entry.get("path")
        found.append({key: value for key, value in {**entry, **known}.items() if key not in ("id", "efa")})
        found[-1]["efa"] = bool(entry.get("efa"))
        if not FILE_SYSTEM_ID.fullmatch(str(identifier)):
            problems.append(f"file_systems has {where} with the id {identifier!r}: give one as fs-0123456789abcdef0")
        elif entry.get("dns_name") or entry.get("mount_name"):
            problems.append(f"file_systems has {where} with an id and a name: give the id alone, or both names")
        elif known and entry.get("efa") and not known["efa"]:
            problems.append(
                f"file_systems has {where} with efa, and {identifier} was made without it, which cannot be changed: "
                "take efa out, or make another file system"
            )
        if identifier not in names:
            ids.append(identifier)
    return found, ids, problems


def _places(settings: Mapping[str, Any]) -> dict[str, str]:
    """Which file system is for what, by their order: one for all, or one each for data, checkpoints and logs."""
    paths = [entry["path"] for entry in settings["file_systems"] if isinstance(entry, dict) and entry.get("path")]
    if settings["layout"] == "one":
        paths = paths[:1] * len(lustre_layouts.PLACES)
    return dict(zip(lustre_layouts.PLACES, paths, strict=False))
