# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The groups that the inventory makes."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.inventory import ec2_nodes
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import groups as _ec2_groups


def test_documented_groups_match_made_groups():
    facts = {"kind": "gpu", "count": 8, "efa_attached": 1, "instance_store_count": 8}
    health = {"system": "impaired", "events": [{"code": "instance-stop"}]}
    named = ("availability_zone", "cluster_name", "queue_name", "compute_resource_name", "instance_type")
    record = {
        "availability_zone_id": "use1-az1",
        "node_type": "head",
        "accelerators": facts,
        "health": health,
        "network_nodes": ["nn-1"],
        **dict.fromkeys(named, "X"),
    }
    made = set(_ec2_groups.of(record)) | {"compute", "login", "neuron", "ultraserver_X"}
    text = next(line for line in yaml.safe_load(ec2_nodes.DOCUMENTATION)["description"] if "Groups are made" in line)
    documented = {re.sub("_[A-Z_]+$", "", name) for name in re.findall(r"C\((\w+)\)", text)} - {"_"}
    assert {re.sub("_(X|use1_az1|nn_1)$", "", name) for name in made} == documented


@pytest.mark.parametrize(
    ("changes", "group"),
    [
        ({"capacity_block_id": "cb-0a"}, "ultraserver_cb_0a"),
        ({"capacity_block_id": "cb-0a", "network_nodes": ["nn-0", "nn-1"]}, "ultraserver_cb_0a"),
        ({"network_nodes": ["nn-0", "nn-1"]}, "ultraserver_nn_1"),
        ({}, ""),
        ({"instance_type": "p5.48xlarge", "capacity_block_id": "cb-0a"}, ""),
    ],
)
def test_group_of_ultraserver(changes, group):
    record = {"instance_type": "p6e-gb200.36xlarge", "capacity_block_id": None, **changes}
    assert _ec2_groups.ultraserver(record) == group
