# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NCCL's log."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.nccl import log as nccl_log

from tests.unit.fakes.fake_nccl_output import Plan, header, log, only, output, table
from tests.unit.plugins.module_utils._node.nccl.test_verify import HOSTS


def test_many_channels_are_counted_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(nccl_log, "_PENDING", 3)
    fabric = only(output(), "fabric")
    assert (fabric.status, fabric.found["channels"]) == ("pass", dict.fromkeys(HOSTS, 4))
    plan = Plan()
    # Without the list of ranks nothing can be folded, and what does not fit is known to be missing.
    assert only(log(plan) + header(plan) + table(plan), "fabric").reason == "contradictory"
