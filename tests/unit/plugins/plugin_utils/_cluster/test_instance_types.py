# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Types as the collection's table describes them, against EC2's own answers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import moto.ec2
import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import instance_types as _cluster_types

# EC2's own answers, as moto packs them.
PACKED = Path(moto.ec2.__file__).parent / "resources" / "instance_types.json.gz"


@pytest.fixture(scope="module")
def ec2():
    return json.loads(gzip.decompress(PACKED.read_bytes()))


def seen(entry):
    """Return the properties that ParallelCluster's validators use."""
    network = entry["NetworkInfo"]
    return {
        "vcpus": entry["VCpuInfo"]["DefaultVCpus"],
        "memory": entry["MemoryInfo"]["SizeInMiB"],
        "architecture": entry["ProcessorInfo"]["SupportedArchitectures"],
        "store": entry["InstanceStorageSupported"],
        "efa": (network["EfaSupported"], network.get("EfaInfo", {}).get("MaximumEfaInterfaces")),
        "cards": [card["NetworkCardIndex"] for card in network["NetworkCards"]],
        "gpus": [(gpu["Manufacturer"], gpu["Count"]) for gpu in entry.get("GpuInfo", {}).get("Gpus", [])],
    }


def test_every_type_of_table_is_as_ec2_describes_it(ec2):
    # Fractions of a GPU are one in the table and none in EC2's answer.
    names = [name for name in instance_types.names() if name in ec2 and not name.startswith(("g6f.", "gr6f."))]
    assert len(names) > 400
    unlike = {
        name: (ours, theirs)
        for name in names
        if (ours := seen(_cluster_types.described(name))) != (theirs := seen(ec2[name]))
    }
    assert unlike == {}


def test_unknown_type_has_no_description():
    assert _cluster_types.described("c7i.4xlarge") is None


def test_every_instance_type_is_found():
    config = {
        "HeadNode": {"InstanceType": "c7i.4xlarge"},
        "Scheduling": {
            "SlurmQueues": [
                None,
                {"ComputeResources": None},
                {
                    "ComputeResources": [
                        7,
                        {"InstanceType": "p5.48xlarge"},
                        {"Instances": [{"InstanceType": "g6.xlarge"}]},
                    ]
                },
            ]
        },
    }
    assert [path for path, _holder in _cluster_types.places(config)] == [
        "HeadNode/InstanceType",
        "Scheduling/SlurmQueues[2]/ComputeResources[1]/InstanceType",
        "Scheduling/SlurmQueues[2]/ComputeResources[2]/Instances[0]/InstanceType",
    ]
    assert _cluster_types.names(config) == ["c7i.4xlarge", "g6.xlarge", "p5.48xlarge"]
    for broken in ({}, {"HeadNode": None, "Scheduling": []}, {"Scheduling": {"SlurmQueues": {}}}):
        assert _cluster_types.names(broken) == []
