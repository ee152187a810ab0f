# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""create_cluster.yml and destroy_cluster.yml over an account of moto and a stand-in for the program pcluster."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.integration.cluster.conftest import REGION, ROOT
from tests.integration.cluster.example import own
from tests.integration.cluster.policies import check_changes, check_policy

# Each play starts a dozen programs, which are slow on a busy machine.
pytestmark = pytest.mark.timeout(1800)

NAME = "p5e-80node-cluster"
SUBNETS = {
    "head_subnet": "subnet-0a6c3f91b27d4e805",
    "compute_subnet": "subnet-0f18d5c2e9a34b760",
    "cidr": "10.0.0.0/16",
    "groups": ["sg-0b7e2d41f86c93a50"],
}
# Actions of the look at a network of create_network.yml (test_network.py), and actions of FSx on behalf of the
# caller (FSx for Lustre User Guide, using service-linked roles and adding permissions to use data repositories).
UNASKED = (
    "ec2:DescribeAddresses", "ec2:DescribeAvailabilityZones", "ec2:DescribeInternetGateways", "ec2:DescribeKeyPairs",
    "ec2:DescribeNatGateways", "ec2:DescribeRouteTables",
    "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcAttribute", "ec2:DescribeVpcEndpoints",
    "ec2:DescribeVpcs", "fsx:CreateDataRepositoryAssociation", "fsx:DescribeDataRepositoryAssociations",
    "fsx:TagResource", "iam:AttachRolePolicy", "iam:CreateServiceLinkedRole", "iam:PutRolePolicy",
)  # fmt: skip


@pytest.fixture
def options(pcluster):
    return {
        **own(),
        "cluster_subnets": SUBNETS,
        "cluster_pcluster": pcluster,
        "cluster_pcluster_python": str(ROOT / ".venv-pcluster" / "bin" / "python"),
    }


@pytest.mark.slow
def test_unchanged_example_is_checked_and_makes_no_cluster(aws_account, play, options):
    refused = play("create_cluster", **{key: options[key] for key in options if key not in own()})
    assert refused.status == 2
    for output in (
        "cluster_hook.sha256 is '0000000000000000000000000000000000000000000000000000000000000000', a placeholder",
        "cluster_queues.gpu-queue.reservation is 'cr-0123456789abcdef0', a placeholder; set your own",
        "cluster_ssh_cidrs is '203.0.113.0/24', a placeholder",
    ):
        assert output in refused.output
    aws_account.forget()
    judged = play(
        "create_cluster",
        "--tags",
        "cluster_configure",
        cluster_online=False,
        cluster_pcluster_python=options["cluster_pcluster_python"],
    )
    assert judged.status == 0, judged.output
    assert "cluster_ssh_cidrs is '203.0.113.0/24', a placeholder" in judged.output
    assert "p5e.48xlarge was checked with the table of the collection" in judged.output
    assert aws_account.operations() == set()


def calls(tmp_path):
    path = tmp_path / "calls"
    found = path.read_text().split("\n")[:-1] if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def test_shipped_cluster_is_predicted_made_and_kept(aws_account, play, options, tmp_path):
    fsx = aws_account.client("fsx", REGION)
    # Checked as if the region offered these: the file system for checkpoints has EFA.
    options["cluster_filesystems"][1] |= {"deployment": "PERSISTENT_2", "throughput": 1000, "efa": True}
    refused = play("create_cluster", "--check", **options)
    assert refused.status == 2
    assert "file system 'fsx-checkpoints': deployment is PERSISTENT_2, which the FSx" in refused.output
    options["cluster_fsx_regions"] = {REGION: "all"}
    calls(tmp_path)

    foretold = play("create_cluster", "--check", **options)
    assert foretold.status == 0, foretold.output
    # Two file systems outside the cluster, and the cluster.
    assert foretold.changed == 2
    assert "84 nodes, 640 GPUs, 15744 vCPUs" in foretold.output
    assert calls(tmp_path) == ["describe-cluster"] * 3
    assert fsx.describe_file_systems()["FileSystems"] == []

    why = {"level": "ERROR", "type": "CapacityReservationValidator", "message": "cr-0 does not exist"}
    answer = {"message": "Invalid cluster configuration.", "configurationValidationErrors": [why]}
    (tmp_path / "refusal.json").write_text(json.dumps(answer))
    refused = play("create_cluster", **options)
    assert refused.status == 2 and "cr-0 does not exist" in refused.output
    # Nothing that costs money was created: the dry run came first.
    assert "create-cluster dryrun" in calls(tmp_path)
    assert fsx.describe_file_systems()["FileSystems"] == []
    (tmp_path / "refusal.json").unlink()

    made = play("create_cluster", **{**options, "cluster_key_path": "~/.ssh/k"})
    assert made.status == 0, made.output
    asked = calls(tmp_path)
    assert asked.index("create-cluster dryrun") < asked.index("create-cluster")
    assert f"pcluster ssh --cluster-name {NAME} --region {REGION} -i ~/.ssh/k" in made.output
    assert "ssh -i ~/.ssh/k ubuntu@203.0.113.10" in made.output
    assert f"aws ssm start-session --target i-0123456789abcdef0 --region {REGION}" in made.output
    assert f"{NAME}: CREATE_IN_PROGRESS" in made.output
    found = fsx.describe_file_systems()["FileSystems"]
    config = json.loads((tmp_path / "config.yaml").read_text())
    named = [entry["FsxLustreSettings"].get("FileSystemId") for entry in config["SharedStorage"]]
    assert named[0] is None
    assert sorted(named[1:]) == sorted(entry["FileSystemId"] for entry in found)
    assert sorted(bool(entry["LustreConfiguration"].get("EfaEnabled")) for entry in found) == [False, True]

    again = play("create_cluster", **options)
    assert (again.status, again.changed) == (0, 0), again.output
    assert "create-cluster" not in calls(tmp_path)
    check_policy("create_cluster", aws_account.operations(), UNASKED)
    check_changes("create_cluster", aws_account.changes(), NAME)


@pytest.mark.slow
def test_killed_creation_is_continued_and_its_storage_named(aws_account, play, options, tmp_path):
    options["cluster_fsx_regions"] = {REGION: "all"}
    fsx = aws_account.client("fsx", REGION)
    aws_account.kill_at("controller after fsx:CreateFileSystem")
    assert play("create_cluster", **options).status == -9
    aws_account.kill_at("")
    (first,) = fsx.describe_file_systems()["FileSystems"]
    # There is no cluster to delete, and the file system costs money.
    gone = play("destroy_cluster", cluster_delete_confirm=NAME, **options)
    assert gone.status == 0, gone.output
    assert f"file systems of {NAME} that stay and cost money" in gone.output
    assert f"delete unused ones yourself: {first['FileSystemId']}" in gone.output
    assert "create-cluster" not in calls(tmp_path)
    assert play("create_cluster", **options).status == 0
    found = fsx.describe_file_systems()["FileSystems"]
    assert len(found) == 2 and first["FileSystemId"] in {entry["FileSystemId"] for entry in found}


def test_deletion_needs_consent_and_lists_real_storage(play, options, configurations, tmp_path):
    state = {"name": NAME, "region": REGION, "verb": "CREATE", "left": 0}
    (tmp_path / "state.json").write_text(json.dumps(state))
    # Others created it, with a file system that is not in the variables.
    storage = [
        {"Name": "homes", "MountDir": "/home2", "StorageType": "Efs"},
        {"Name": "data", "MountDir": "/fsx1", "StorageType": "FsxLustre"},
    ]
    storage[1]["FsxLustreSettings"] = {"StorageCapacity": 1200, "DeletionPolicy": "Retain"}
    config = {"Scheduling": {"Scheduler": "slurm"}, "SharedStorage": storage}
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    kept = play("destroy_cluster", cluster_delete_confirm=NAME, **options)
    assert kept.status == 2
    assert (
        f"nothing was deleted; to delete the cluster {NAME}, confirm with its name, and that of each file"
        in kept.output
    )
    assert f"-e cluster_delete_confirm={NAME}+homes" in kept.output
    deleted, _word, remaining = kept.output.partition("deleted:")[2].partition("kept:")
    assert "Efs homes under /home2 with all data in it" in deleted and "FsxLustre data under /fsx1" in remaining
    assert "delete-cluster" not in calls(tmp_path)
    gone = play("destroy_cluster", cluster_delete_confirm=f"{NAME}+homes", **options)
    assert gone.status == 0, gone.output
    assert not (tmp_path / "state.json").exists()


@pytest.mark.slow
def test_cluster_without_configuration_needs_own_consent(play, options, tmp_path):
    state = {"name": NAME, "region": REGION, "verb": "CREATE", "left": 0}
    (tmp_path / "state.json").write_text(json.dumps(state))
    kept = play("destroy_cluster", cluster_delete_confirm=NAME, **options)
    assert kept.status == 2 and f"-e cluster_delete_confirm={NAME}+unknown" in kept.output
    # A running deletion is followed.
    (tmp_path / "state.json").write_text(json.dumps({**state, "verb": "DELETE", "left": 2}))
    gone = play("destroy_cluster", cluster_delete_confirm=NAME, **options)
    assert gone.status == 0, gone.output


@pytest.mark.slow
def test_waiting_ends_and_creation_continues(play, options, tmp_path):
    # A slow creation: it has more steps than the test polls.
    state = {"name": NAME, "region": REGION, "verb": "CREATE", "left": 100000}
    (tmp_path / "state.json").write_text(json.dumps(state))
    waited = play("create_cluster", **{**options, "cluster_filesystems": [], "cluster_wait_minutes": 0})
    assert waited.status == 2
    assert f"{NAME} was not finished within cluster_wait_minutes (0); it continues by itself" in waited.output
    assert not {"create-cluster", "delete-cluster"} & set(calls(tmp_path))


@pytest.mark.slow
def test_refused_dry_run_stops_everything(play, options, tmp_path):
    (tmp_path / "refusal.json").write_text(
        json.dumps(
            {
                "message": "Invalid cluster configuration.",
                "configurationValidationErrors": [
                    {"level": "ERROR", "type": "KeyPairValidator", "message": "p5e-cluster-key does not exist"}
                ],
            }
        )
    )
    refused = play("create_cluster", **{**options, "cluster_filesystems": []})
    assert refused.status == 2
    assert (
        "the dry run reported: Invalid cluster configuration.; ERROR: p5e-cluster-key does not exist" in refused.output
    )
    assert "create-cluster" not in calls(tmp_path)


@pytest.mark.slow
def test_all_mistakes_of_file_are_reported_at_once(play, options):
    # Relative to the working directory, which is the checkout here.
    mistakes = os.path.relpath(Path(__file__).parent / "mistakes.yaml", ROOT)
    refused = play("create_cluster", **{**options, "cluster_config_file": mistakes, "cluster_zone": ""})
    assert refused.status == 2
    for sentence in ("use alinux2023", "use Scheduling/SlurmQueues", "use PERSISTENT_2", "c7i.4xlarge"):
        assert sentence in refused.output
    absent = play("create_cluster", **{**options, "cluster_config_file": "no/cluster.yaml"})
    assert f"cluster_config_file is 'no/cluster.yaml', and {ROOT}/no/cluster.yaml is not a file" in absent.output


@pytest.mark.slow
def test_missing_parallelcluster_is_reported_with_hint(play, options):
    refused = play("create_cluster", **{**options, "cluster_pcluster_python": "/nowhere/python"})
    assert refused.status == 2
    assert "/nowhere/python, the Python of AWS ParallelCluster, is missing; run make pcluster" in refused.output
