# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.filter.slurm_nodes import FilterModule

LINE = "NodeName=n1 Arch=x86_64 State=IDLE+DRAIN SlurmdStartTime=2026-01-02T03:04:05 Reason=mlcluster upgrade: roles\n"


def test_nodes_are_parsed_from_scontrol_output():
    nodes = FilterModule().filters()["slurm_nodes"]
    (node,) = nodes(LINE)
    assert (node["up"], node["drained"], node["reason"]) == (True, True, "mlcluster upgrade: roles")
    assert node["slurmd_started"] == "2026-01-02T03:04:05"
    (gone,) = nodes("NodeName=n1 State=IDLE+POWERED_DOWN SlurmdStartTime=None\n")
    assert (gone["up"], gone["drained"], gone["slurmd_started"]) == (False, False, None)
    assert nodes("slurm_load_node error: Unable to contact slurm controller\n") == []
