# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.sweep import SWEEP, size_problems


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
