# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counters of a host, and their growth."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import counters as nccl_counters
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError


@pytest.mark.parametrize(
    "line",
    [
        "rdmap0s6 12",
        "[]",
        '{"host": "a"}',
        '{"host": "a", "devices": {"d": {"tx_bytes": -1}}}',
        '{"host": "a", "devices": {"d": {"tx_bytes": true}}}',
        '{"host": "a", "devices": {"d": 3}}',
        "[" * 200_000,
    ],
)
def test_lines_that_are_not_counters_are_named(line):
    with pytest.raises(NodeError, match="line 2 of before is not a snapshot"):
        nccl_counters.parse_snapshots(f"\n{line}\n", "before")


def test_host_that_occurs_twice_is_rejected():
    lines = '{"host": "a", "devices": {}}\n{"host": "a", "devices": {}}\n'
    with pytest.raises(NodeError, match="before has the host a twice: use one file"):
        nccl_counters.parse_snapshots(lines, "before")


@pytest.mark.parametrize(
    ("before", "after", "bytes_"),
    [
        ({"a": {"tx_bytes": 1}}, {"a": {"tx_bytes": 11}, "b": {"tx_bytes": 99}}, 10),
        (
            {"a": {"tx_bytes": 1, "rx_bytes": 5}, "b": {"tx_bytes": 2}},
            {"a": {"tx_bytes": 4, "rx_bytes": 6}, "b": {"tx_bytes": 9}},
            10,
        ),
        ({"a": {"tx_bytes": 9}}, {"a": {"tx_bytes": 1}}, None),
        ({"a": {"tx_bytes": 9}}, {}, None),
        ({}, {}, None),
    ],
)
def test_growth_is_that_of_largest_counter(before, after, bytes_):
    assert nccl_counters.grown(before, after) == bytes_
