# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counters of a host, and their growth."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import counters as nccl_counters
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

from tests.unit.fakes.fake_training_host import TrainingHost


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
        ({"a": {"tx_bytes": 9}}, {"a": {"tx_bytes": 9}}, 0),
        ({"a": {"tx_bytes": 9}}, {}, None),
        ({"a": {"tx_bytes": 9, "rx_bytes": 1}}, {"a": {"tx_bytes": 19}}, None),
        ({}, {}, None),
    ],
)
def test_growth_is_that_of_largest_counter(before, after, bytes_):
    assert nccl_counters.largest_growth(before, after) == bytes_


def test_byte_counters_of_efa_devices_are_read():
    host = TrainingHost()
    efa, other, idle = (f"/sys/class/infiniband/{name}" for name in ("rdmap16s27", "mlx5_0", "rdmap17s27"))
    counters = f"{efa}/ports/1/hw_counters"
    host.files.update(
        {
            f"{efa}/device/vendor": "0x1d0f\n",
            f"{counters}/tx_bytes": "5\n",
            f"{counters}/tx_pkts": "7\n",
            f"{counters}/rx_bytes": "unreadable\n",
            f"{counters}/recv_bytes": "\u0663\n",
            f"{efa}/ports/2/hw_counters/tx_bytes": "6\n",
            f"{other}/device/vendor": "0x15b3\n",
            f"{other}/ports/1/hw_counters/tx_bytes": "5\n",
            f"{idle}/device/vendor": "0x1d0f\n",
            f"{idle}/ports/1/hw_counters/lifespan": "12\n",
        }
    )
    assert nccl_counters.snapshot(host) == {"rdmap16s27": {"tx_bytes": 11}}


def test_snapshots_are_kept_by_short_name_of_host():
    lines = '\n{"host": "a.local", "devices": {"d": {"tx_bytes": 0}}}\n{"host": "b", "devices": {}}\n'
    assert nccl_counters.parse_snapshots(lines, "after") == {"a": {"d": {"tx_bytes": 0}}, "b": {}}
    with pytest.raises(NodeError, match="before has the host a twice"):
        nccl_counters.parse_snapshots(f'{lines}{{"host": "a", "devices": {{}}}}\n', "before")
