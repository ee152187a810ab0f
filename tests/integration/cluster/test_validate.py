# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ParallelCluster's schema and validators, offline, applied to the shipped example and to every known mistake."""

from __future__ import annotations

import copy
import gzip
import json
import os
import subprocess
from pathlib import Path

import moto.ec2
import pytest
import yaml

from tests.integration.cluster.conftest import REGION, ROOT
from tests.integration.cluster.example import settings

PYTHON = ROOT / ".venv-pcluster" / "bin" / "python"
PROGRAM = ROOT / "roles" / "cluster" / "files" / "validate.py"
# EC2's responses, as moto ships them.
EC2 = Path(moto.ec2.__file__).parent / "resources"


def offered(region=REGION):
    packed = EC2 / "instance_type_offerings" / "region" / f"{region}.json.gz"
    return sorted({entry["InstanceType"] for entry in json.loads(gzip.decompress(packed.read_bytes()))})


@pytest.fixture(scope="session")
def types():
    every = json.loads(gzip.decompress((EC2 / "instance_types.json.gz").read_bytes()))
    return {name: every[name] for name in ("p5e.48xlarge", "c7i.4xlarge", "c7i.24xlarge", "c6i.4xlarge")}


def judged(config, types, offers=None, online=True):
    """Return the verdict on a configuration."""
    from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import lint as _cluster_lint

    offers = offered() if online and offers is None else offers
    reviewed = _cluster_lint.review(config, offers)
    known = {**reviewed["described"], **types}
    asked = {"config": config, "repaired": reviewed["repaired"], "types": known, "offered": offers}
    done = subprocess.run(
        [PYTHON, PROGRAM],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env={"PATH": os.defpath},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return _cluster_lint.verdict(reviewed, json.loads(done.stdout))


def planned(**changes):
    from ansible_collections.mlcluster.aws.plugins.filter.cluster import cluster_plan

    plan = cluster_plan({**settings(), **changes})
    assert plan["problems"] == []
    return plan["config"]


def test_shipped_example_passes_every_validator(types):
    verdict = judged(planned(), types)
    assert verdict["errors"] == []
    assert verdict["version"] == "3.16.1"
    # Expected notes: they cost money, or cannot be checked offline.
    assert sorted(text.rsplit("(", 1)[1] for text in verdict["warnings"]) == [
        "DetailedMonitoringValidator)",
        "PlacementGroupCapacityReservationValidator)",
    ]


def test_capacity_block_spot_and_shared_nodes_pass_too(types):
    gpu, cpu = settings()["queues"]
    block = {**gpu, "capacity": "capacity-block", "minimum": 80, "smt": False}
    config = planned(queues=[block, {**cpu, "capacity": "spot"}], memory_scheduling=True, detailed_monitoring=False)
    verdict = judged(config, types)
    assert verdict["errors"] == []
    assert verdict["warnings"] == [text for text in verdict["warnings"] if "memory" in text.lower()]


def test_hook_wiring_example_passes_too(types):
    path = ROOT / "docs/examples/boot_hook/parallelcluster.yaml"
    example, config = yaml.safe_load(path.read_text(encoding="utf-8")), planned()
    (queue,) = example["Scheduling"]["SlurmQueues"]
    for owner, shown in (
        (config["HeadNode"], example["HeadNode"]),
        *((owner, queue) for owner in config["Scheduling"]["SlurmQueues"]),
    ):
        owner.update(CustomActions=shown["CustomActions"], Iam=shown["Iam"])
    verdict = judged(config, types)
    assert verdict["errors"] == []
    # Nodes may write neither the script nor its variables.
    assert [text for text in verdict["warnings"] if "could replace" in text] == []


@pytest.mark.parametrize(
    ("where", "value", "validator"),
    [
        (("Scheduling", "SlurmQueues", 0, "Networking", "PlacementGroup"), {}, "EfaPlacementGroupValidator"),
        (("SharedStorage", 0, "FsxLustreSettings", "StorageCapacity"), 5000, "FsxStorageCapacityValidator"),
        (("Scheduling", "SlurmQueues", 0, "ComputeResources", 0, "MinCount"), 81, "ComputeResourceSizeValidator"),
    ],
)
def test_errors_of_parallelcluster_are_reported_too(types, where, value, validator):
    config = copy.deepcopy(planned())
    holder = config
    for key in where[:-1]:
        holder = holder[key]
    holder[where[-1]] = value
    verdict = judged(config, types)
    assert not verdict["valid"]
    assert any(validator in text for text in verdict["errors"]), verdict["errors"]


def test_undescribed_type_is_noted():
    verdict = judged(planned(), {}, offers=["p5e.48xlarge", "c7i.4xlarge", "c7i.24xlarge"])
    assert [text for text in verdict["warnings"] if text.startswith("p5e.48xlarge was not checked")]


def test_offline_unknown_type_is_not_rejected():
    gpu, cpu = settings()["queues"]
    names = ("p5e.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge", "p6-b300.48xlarge", "trn2.48xlarge")
    queues = [{**gpu, "name": name.partition(".")[0], "instance_type": name, "reservation": ""} for name in names]
    # This type is not in the table and has EFA.
    queues += [{**cpu, "name": "hpc", "instance_type": "hpc7a.96xlarge", "efa": True}]
    verdict = judged(planned(queues=queues), {}, online=False)
    assert verdict["errors"] == []
    tabled = [text.split(" ")[0] for text in verdict["warnings"] if "was checked with the table of the coll" in text]
    unknown = [text.split(" ")[0] for text in verdict["warnings"] if "was not checked: EC2 was not queried" in text]
    assert (tabled, unknown) == (sorted(names), ["c7i.4xlarge", "hpc7a.96xlarge"])
    assert (
        "whether the region offers the instance types was not checked, because EC2 was not queried" in verdict["notes"]
    )


def test_offline_error_known_from_table_is_rejected():
    gpu, _cpu = settings()["queues"]
    (error,) = judged(planned(queues=[{**gpu, "instance_type": "g5.xlarge", "efa": True}]), {}, online=False)["errors"]
    assert error == "Instance type 'g5.xlarge' does not support EFA. (EfaValidator)"


@pytest.mark.parametrize("scheduling", [None, [], {"Scheduler": "slurm", "SlurmQueues": [None, {"Name": 7}]}])
def test_invalid_configuration_is_reported_by_schema(scheduling):
    verdict = judged({**planned(), "Scheduling": scheduling}, {}, online=False)
    assert [text for text in verdict["errors"] if "(ParallelCluster's schema)" in text]


def test_every_mistake_is_reported_with_right_value(types):
    config = yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8"))
    verdict = judged(config, types)
    sentences = verdict["errors"] + verdict["warnings"]
    expected = {
        "Image/Os is 'alinux2'": "alinux2023",
        "HeadNode/InstanceType is 'c6i.4xlarge'": "c7i.4xlarge",
        "HeadNode/Networking/SubnetId is 'subnet-aaaa'": "subnet- and 17 digits",
        "Scheduling/SlurmQueues[0]/Networking/SubnetIds[0] is 'subnet-bbbb'": "subnet- and 17 digits",
        "Scheduling/SlurmQueues[0]/Networking/SecurityGroups[0] is 'sg-cccc'": "sg- and 17 digits",
        "CapacityReservationTarget/CapacityReservationId is 'cr-dddd'": "cr- and 17 digits",
        "SlurmQueues is 'at the top level'": "Scheduling/SlurmQueues",
        "Iam/AdditionalIamPolicies is 'at the top level'": "HeadNode/Iam/AdditionalIamPolicies and Scheduling",
        "SharedStorage[0]/FsxLustreSettings/DeploymentType is 'PERSISTENT'": "PERSISTENT_2",
        "SharedStorage[1]/FsxLustreSettings/DeploymentType is 'PERSISTENT'": "PERSISTENT_2",
        "SharedStorage[2]/FsxLustreSettings/DeploymentType is 'PERSISTENT'": "PERSISTENT_2",
        "SharedStorage[1]/FsxLustreSettings is 'file system number 2 to make'": "FileSystemId: fs-…",
        "SharedStorage[2]/FsxLustreSettings is 'file system number 3 to make'": "FileSystemId: fs-…",
        "SharedStorage[0]/FsxLustreSettings/DeletionPolicy is 'Delete (the default)'": "Retain",
        "Networking/SecurityGroups is ['sg-00000000000000000']": "AdditionalSecurityGroups",
        "CustomActions/OnNodeStart is 'OnNodeStart'": "OnNodeConfigured",
        "Scheduling/ScalingStrategy is 'best-effort'": "all-or-nothing",
        "AllocationStrategy is 'lowest-price'": "leave it out",
        "HeadNode/Ssh/AllowedIps is '0.0.0.0/0 (the default)'": "your own network",
        "Iam/AdditionalIamPolicies is 'arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess'": "Iam/S3Access with",
    }
    missing = [
        (found, right)
        for found, right in expected.items()
        if not any(found in text and right in text.split("; use ")[-1] for text in sentences)
    ]
    assert missing == []
    # Every error is from this project and has a right value: with these, the file passes schema and validators.
    assert [text for text in verdict["errors"] if "; use " not in text] == []
    assert len(verdict["errors"]) == 13
