# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tree promises the builder of bundles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._bundle import archive, content, wheels

ROOT = Path(__file__).resolve().parents[5]
LOCKS = sorted(set(archive.LOCKS.values()))


@pytest.mark.parametrize("name", LOCKS)
def test_each_lock_pins_what_a_node_needs_and_nothing_that_is_compiled_for_it_alone(name):
    pinned = set(wheels.lock_hashes((ROOT / "requirements" / name).read_text()))
    assert {"ansible-core", "ansible-runner", "jinja2", "pexpect", "pyyaml"} <= pinned
    assert not pinned & {"cryptography", "cffi", "resolvelib"}


def test_roles_use_no_collection_that_a_node_does_not_have():
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


def test_what_is_bundled_is_declared():
    assert set(content.OTHERS) <= set(yaml.safe_load((ROOT / "galaxy.yml").read_text())["dependencies"])
