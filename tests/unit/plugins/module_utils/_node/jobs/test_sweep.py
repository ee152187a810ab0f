# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.sweep import (
    SWEEP,
    fitting_size,
    requested_sizes,
    size_problems,
)


@pytest.mark.parametrize(
    ("smallest", "largest", "problem"),
    [
        ("64K", "1M", None),
        ("1M", "1M", None),
        (8, "8", None),
        ("1M", "1023K", "smallest is 1M and largest 1023K: swap them"),
        (9, 8, "smallest is 9 and largest 8: swap them"),
        # The type of the option reports these.
        ("x", 8, None),
        (9, "x", None),
        (None, None, None),
    ],
)
def test_smallest_size_is_not_above_largest(smallest, largest, problem):
    found = list(size_problems({"smallest": smallest, "largest": largest}, {}))
    assert found == ([problem] if problem else [])


def test_defaults_of_sweep_are_sound():
    values = {name: option.default for name, option in SWEEP.items()}
    assert all(option.type.accepts(option.default) for option in SWEEP.values())
    assert list(size_problems(values, {})) == []


@pytest.mark.parametrize(("factor", "accepted"), [(1, False), (2, True), ("2", False), (10**15, True)])
def test_sizes_grow_from_step_to_step(factor, accepted):
    assert SWEEP["factor"].type.accepts(factor) is accepted


@pytest.mark.parametrize(
    ("asked", "sizes"),
    [
        ({"smallest": "8", "largest": "1K", "factor": 4}, [8, 32, 128, 512]),
        ({"smallest": 1024, "largest": "4K", "factor": 2}, [1024, 2048, 4096]),
        # Of a script from before these were recorded, or changed by hand.
        ({}, []),
        ({"smallest": "8", "largest": "x", "factor": 4}, []),
        ({"smallest": "8", "largest": "1K", "factor": "4"}, []),
        ({"smallest": "8", "largest": "1K", "factor": 1}, []),
    ],
)
def test_sizes_that_job_requests(asked, sizes):
    assert requested_sizes(asked) == sizes


@pytest.mark.parametrize(
    ("instance_type", "size"),
    [
        ("p5.48xlarge", "16G"),
        ("p6-b200.48xlarge", "16G"),
        ("p4d.24xlarge", "8G"),
        ("g6e.48xlarge", "8G"),
        ("g5.48xlarge", "4G"),
        ("g4dn.12xlarge", "4G"),
        (None, "16G"),
        ("p9.48xlarge", "16G"),
        ("c5n.18xlarge", "16G"),
    ],
)
def test_largest_size_fits_into_memory_of_gpu(instance_type, size):
    assert fitting_size(instance_type) == size


def test_small_share_of_gpu_has_size_below_1g(monkeypatch):
    monkeypatch.setattr(instance_types, "lookup", lambda _name: {"accelerators": {"memory_mib": 3072}})
    assert fitting_size("g6f.large") == "256M"
    monkeypatch.setattr(instance_types, "lookup", lambda _name: {"accelerators": {"memory_mib": 16}})
    assert fitting_size("x") == "1M"
