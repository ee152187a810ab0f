# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns the settings of the role fsx_lustre into what its modules take, and judges them, on the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._node import lustre_config, lustre_layouts

LAYOUT_KEYS = ("layout", "models", "places", "classes", "owner", "group", "mode", "acl", "directories")


def fsx_lustre_plan(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``problems``: a sentence for everything that no node could carry out; ``options``: those of the modules.

    ``settings`` are the role's variables without their prefix. With problems the options have no directories.
    """
    layout = {key: settings[key] for key in LAYOUT_KEYS}
    layout["places"] = {**_places(settings), **(settings["places"] or {})}
    options = {key: settings[key] for key in lustre_config.ARGUMENT_SPEC if key != "directories"}
    problems = lustre_layouts.problems(layout)
    options["directories"] = [] if problems else lustre_layouts.expand(layout)
    return {"problems": problems + lustre_config.problems(options), "options": options}


def _places(settings: Mapping[str, Any]) -> dict[str, str]:
    """Which file system is for what, by their order: one for all, or one each for data, checkpoints and logs."""
    paths = [entry["path"] for entry in settings["file_systems"] if isinstance(entry, dict) and entry.get("path")]
    if settings["layout"] == "one":
        paths = paths[:1] * len(lustre_layouts.PLACES)
    return dict(zip(lustre_layouts.PLACES, paths, strict=False))


class FilterModule:
    """Ansible's way to find the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"fsx_lustre_plan": fsx_lustre_plan}
