# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published bandwidths have a known type and a source, and exist for exactly the measured cases."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types, thresholds


def test_figures_have_known_type_and_possible_bandwidth():
    for kind, nodes, collective, figures, source in thresholds._FIGURES:
        assert instance_types.lookup(kind)["efa_interfaces"] > 0
        assert instance_types.lookup(kind)["accelerators"]["count"] == thresholds.RANKS_PER_NODE
        assert collective == "all_reduce"
        assert source
        assert list(figures.values()) == sorted(figures.values())
        # With more than two nodes a ring cannot be faster than the network of a node (Gbit/s to GB/s).
        if nodes > 2:
            assert max(figures.values()) < instance_types.lookup(kind)["network_gbps"] / 8


@pytest.mark.parametrize(
    ("where", "sizes"),
    [
        (("p5.48xlarge", 2, 16, "all_reduce"), {1, 2, 4, 8, 16}),
        (("p5en.48xlarge", 4, 32, "all_reduce"), {4, 16}),
        (("p5.48xlarge", 3, 24, "all_reduce"), set()),
        (("p5e.48xlarge", 2, 16, "all_reduce"), set()),
        (("p5.48xlarge", 2, 16, "all_gather"), set()),
        (("p5.48xlarge", 2, 2, "all_reduce"), set()),
        (("p5.48xlarge", 2, None, "all_reduce"), set()),
        ((None, None, None, None), set()),
    ],
)
def test_figures_exist_for_measured_cases_only(where, sizes):
    assert {size >> 30 for size in thresholds.published(*where)} == sizes
