# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The layouts that the role ships, and their file systems."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import layouts
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre.config import role_problems

THREE = [{"path": "/fsx1"}, {"path": "/fsx2"}, {"path": "/fsx3"}]


@pytest.mark.parametrize("name", [name for name in layouts.LAYOUTS if name != "none"])
def test_shipped_layouts_are_valid(name: str) -> None:
    """With the role's default classes."""
    assert role_problems({"layout": name, "models": ["a", "b"], "file_systems": THREE}) == []


@pytest.mark.parametrize(
    ("layout", "systems", "found"),
    [
        ("one", THREE, {"data": "/fsx1", "checkpoints": "/fsx1", "logs": "/fsx1"}),
        ("three", THREE, {"data": "/fsx1", "checkpoints": "/fsx2", "logs": "/fsx3"}),
        ("three", THREE[:1], {"data": "/fsx1"}),
        ("one", [], {}),
        ("three", ["/fsx", {}, *THREE[:1]], {"data": "/fsx1"}),
    ],
)
def test_places_get_file_systems_in_order(layout: str, systems: list[t.Any], found: dict[str, str]) -> None:
    assert layouts.places(layout, systems) == found


def test_layout_without_models_has_shared_directories_only() -> None:
    wanted = dict.fromkeys(layouts.KEYS) | {
        "layout": "three",
        "models": [],
        "places": layouts.places("three", THREE),
        "classes": layouts.CLASSES,
        "directories": [],
        "acl": [],
    }
    paths = [entry["path"] for entry in layouts.expand(wanted)]
    assert paths == ["/fsx1/datasets", "/fsx1/weights", "/fsx1/images"]
