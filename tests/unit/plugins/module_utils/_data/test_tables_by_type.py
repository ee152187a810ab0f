# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every table keyed by instance type or GPU has every type, or a reason."""

from __future__ import annotations

import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data import fsx_clients, instance_types, nvlink, thresholds
from ansible_collections.mlcluster.aws.plugins.module_utils._data.nccl_env import FAMILIES

TYPES = {name: instance_types.lookup(name) for name in instance_types.names()}
ACCELERATED = {name: facts for name, facts in TYPES.items() if facts["accelerators"] and instance_types.has_efa(facts)}


def test_each_gpu_has_nvlinks_or_reason():
    several = {
        facts["accelerators"]["name"]
        for facts in TYPES.values()
        if facts["accelerators"] and facts["accelerators"]["kind"] == "gpu" and facts["accelerators"]["count"] > 1
    }
    assert several and several - set(nvlink.LINKS) - set(nvlink.WITHOUT) == set(), (
        "add each to LINKS or WITHOUT in _data/nvlink.py"
    )
    assert not set(nvlink.LINKS) & set(nvlink.WITHOUT)
    assert set(nvlink.SWITCHED) <= set(nvlink.LINKS)
    assert set(nvlink.GB_PER_S) == set(nvlink.LINKS), "add its data rate to nvlink.py"
    assert set(nvlink.GB_PER_S.values()) == {25, 50}


@pytest.mark.parametrize("name", ACCELERATED)
def test_each_type_has_bandwidth_or_reason(name):
    published = {row[0] for row in thresholds._FIGURES}
    reasons = [pattern for pattern in thresholds.UNPUBLISHED if re.fullmatch(pattern, name)]
    assert (name in published) != bool(reasons), (
        f"give {name} either a figure in _FIGURES or a reason in UNPUBLISHED of _data/thresholds.py"
    )


def test_reasons_and_figures_are_of_known_types():
    for pattern in thresholds.UNPUBLISHED:
        assert any(re.fullmatch(pattern, name) for name in ACCELERATED), pattern
    assert {row[0] for row in thresholds._FIGURES} <= set(TYPES)
    assert set(fsx_clients.EFA_INTERFACES) <= set(TYPES)


@pytest.mark.parametrize("name", ACCELERATED)
def test_each_type_is_of_nccl_family(name):
    assert any(re.fullmatch(family["types"], name) for family in FAMILIES), f"add {name} to FAMILIES of nccl_env.py"


def test_added_type_is_one_row_with_its_source(monkeypatch):
    row = "zz9.48xlarge 96 786432 gpu:H200:8:144384 8x3800 16 3200 16 arm64"
    assert instance_types.lookup("zz9.48xlarge") is None
    monkeypatch.setitem(instance_types.ADDITIONS, row, "data sheet of zz9")
    facts = instance_types.lookup("zz9.48xlarge")
    assert (facts["accelerators"]["count"], facts["efa_interfaces"], facts["source"]) == (8, 16, "data sheet of zz9")
    assert instance_types.names()[-1] == "zz9.48xlarge"


def test_additions_are_no_types_of_generator():
    generated = {row.split(" ", 1)[0] for row in instance_types.TABLE.splitlines() if row}
    added = {row.split(" ", 1)[0]: source for row, source in instance_types.ADDITIONS.items()}
    assert not generated & set(added), "the generator knows them by now: remove the rows"
    assert all(source for source in added.values())
