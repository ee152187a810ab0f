# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Conditions that the builder expects of this tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import archive, content, wheels

ROOT = Path(__file__).resolve().parents[5]
# The newest ansible-core that runs on each Python.
CORES = {"3.10": "2.17", "3.11": "2.19", "3.12": "2.21", "3.13": "2.21", "3.14": "2.21"}


@pytest.mark.parametrize("python", archive.LOCKS)
def test_lock_pins_node_packages_without_binaries(python):
    lock = ROOT / "requirements" / archive.LOCKS[python]
    pinned = set(wheels.lock_hashes(wheels.read_lock(lock, python)))
    assert wheels.core_version(lock, python).rpartition(".")[0] == CORES[python]
    assert {"ansible-core", "ansible-runner", "jinja2", "pexpect", "pyyaml"} <= pinned
    assert not pinned & {"cryptography", "cffi", "resolvelib"}


def test_roles_use_only_bundled_collections():
    declared = yaml.safe_load((ROOT / "galaxy.yml").read_text())["dependencies"]
    absent = [name for name in declared if name not in content.OTHERS]
    pattern = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, absent))})\.[a-z]\w*")
    found = {
        place: pattern.findall(member.data.decode())
        for place, member in content.own_files(ROOT).items()
        if place.startswith("roles/") and place.endswith((".yml", ".j2"))
    }
    assert "roles/nvme_raid0/tasks/main.yml" in found
    assert {path: names for path, names in found.items() if names} == {}


def test_bundled_collections_are_declared():
    assert set(content.OTHERS) <= set(yaml.safe_load((ROOT / "galaxy.yml").read_text())["dependencies"])
