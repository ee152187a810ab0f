# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that an earlier commit wrote: fixtures by name, and a simulated machine as that commit's run left it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from tests.unit.fakes.fake_machine import Device, Machine
from tests.unit.fakes.fake_storage_host import SimulatedHost

FIXTURES = Path(__file__).parent / "fixtures" / "deef7eb"


def path(name: str) -> Path:
    return FIXTURES / name


def text(name: str) -> str:
    return path(name).read_text(encoding="utf-8")


def document(name: str) -> t.Any:
    return json.loads(text(name))


def names(folder: str) -> list[str]:
    """The fixtures of a folder. Raises AssertionError for an empty one, of which no test would be made."""
    found = sorted(entry.stem for entry in path(folder).iterdir())
    assert found, f"{path(folder)} holds no fixture"
    return found


def machine(name: str) -> tuple[SimulatedHost, dict[str, t.Any], dict[str, t.Any]]:
    """The host, the options of the role, and the whole fixture."""
    found = document(name)
    made = Machine()
    for key, value in found["machine"].items():
        setattr(made, key, value)
    made.devices = {kname: Device(**device) for kname, device in found["machine"]["devices"].items()}
    made.left_out = set(found["machine"]["left_out"])
    return SimulatedHost(made), found["options"], found
