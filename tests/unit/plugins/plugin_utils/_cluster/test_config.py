# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration from the variables."""

from __future__ import annotations

import copy

from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import config as _cluster_config
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster import problems as _cluster_problems

HOOK = {"script": "s3://tools/hooks/on.sh", "bundle": "s3://tools/bundles/b.tar.gz", "sha256": "a" * 64}


def settings(**changes):
    return {
        "name": "training",
        "region": "us-east-2",
        "os": "ubuntu2404",
        "head_instance_type": "c7i.4xlarge",
        "head_root_gib": 200,
        "queues": [{"name": "gpus", "instance_type": "p5e.48xlarge", "count": 80}],
        "filesystems": [],
        "scaling": "all-or-nothing",
        "idle_minutes": 10,
        "memory_scheduling": False,
        "bootstrap_seconds": 2100,
        "detailed_monitoring": False,
        "dashboard": True,
        "log_days": 14,
        **changes,
    }


def rendered(network=None, identifiers=None, **changes):
    given = settings(**changes)
    assert _cluster_problems.problems(given) == []
    return _cluster_config.render(given, network or _cluster_config.NETWORK, identifiers or {})


def queue_of(**changes):
    return {"name": "gpus", "instance_type": "p5e.48xlarge", "count": 80, **changes}


def only_queue(config):
    (queue,) = config["Scheduling"]["SlurmQueues"]
    return queue


def test_hardware_sets_default_options():
    gpus = only_queue(rendered())
    assert gpus["ComputeResources"][0]["Efa"] == {"Enabled": True}
    assert gpus["Networking"]["PlacementGroup"] == {"Enabled": True}
    assert gpus["HealthChecks"] == {"Gpu": {"Enabled": True}}
    assert gpus["ComputeSettings"]["LocalStorage"]["EphemeralVolume"] == {"MountDir": "/scratch"}
    cpus = only_queue(rendered(queues=[queue_of(instance_type="c7i.24xlarge", count=4)]))
    assert cpus["ComputeResources"][0]["Efa"] == {"Enabled": False}
    assert cpus["HealthChecks"] == {"Gpu": {"Enabled": False}}
    assert "EphemeralVolume" not in cpus["ComputeSettings"]["LocalStorage"]


def test_queue_options_are_written():
    queue = only_queue(
        rendered(
            queues=[
                queue_of(
                    reservation="cr-0123456789abcdef0",
                    smt=False,
                    exclusive=True,
                    minimum=2,
                    gpu_health_check=False,
                    root_gib=500,
                    root_iops=8000,
                    root_throughput=500,
                    ephemeral="/local",
                )
            ]
        )
    )
    (resource,) = queue["ComputeResources"]
    assert resource["CapacityReservationTarget"] == {"CapacityReservationId": "cr-0123456789abcdef0"}
    assert resource["DisableSimultaneousMultithreading"] is True
    assert (resource["MinCount"], resource["MaxCount"]) == (2, 80)
    assert queue["JobExclusiveAllocation"] is True
    assert queue["HealthChecks"] == {"Gpu": {"Enabled": False}}
    storage = queue["ComputeSettings"]["LocalStorage"]
    assert storage["RootVolume"] == {
        "Size": 500, "VolumeType": "gp3", "Encrypted": True, "Iops": 8000, "Throughput": 500
    }  # fmt: skip
    assert storage["EphemeralVolume"] == {"MountDir": "/local"}


def test_capacity_block_has_no_placement_group():
    queue = only_queue(rendered(queues=[queue_of(capacity="capacity-block", reservation="cr-0123456789abcdef0")]))
    assert queue["CapacityType"] == "CAPACITY_BLOCK"
    assert queue["Networking"]["PlacementGroup"] == {"Enabled": False}


def test_resource_group_of_reservations_is_written():
    arn = "arn:aws:resource-groups:ap-southeast-3:123456789012:group/p5e"
    (resource,) = only_queue(rendered(queues=[queue_of(reservation=arn)]))["ComputeResources"]
    assert resource["CapacityReservationTarget"] == {"CapacityReservationResourceGroupArn": arn}


def test_hook_runs_on_every_node_with_read_access():
    config = rendered(hook={**HOOK, "args": ["--deadline", 900]})
    for owner in (config["HeadNode"], only_queue(config)):
        action = owner["CustomActions"]["OnNodeConfigured"]
        assert action["Script"] == HOOK["script"]
        assert action["Args"] == ["--bundle", HOOK["bundle"], "--sha256", "a" * 64, "--deadline", "900"]
        assert owner["Iam"]["S3Access"] == [
            {"BucketName": "tools", "KeyName": "hooks/on.sh"},
            {"BucketName": "tools", "KeyName": "bundles/b.tar.gz"},
        ]


def test_s3_objects_of_hook_are_readable_and_log_writable():
    args = ["--vars", "s3://site/train/vars.yml", "--best-effort", "--log-prefix", "s3://tools/logs/"]
    config = rendered(hook={**HOOK, "args": args}, s3=[{"bucket": "site"}])
    for owner in (config["HeadNode"], only_queue(config)):
        assert owner["Iam"]["S3Access"] == [
            {"BucketName": "site"},
            {"BucketName": "tools", "KeyName": "hooks/on.sh"},
            {"BucketName": "tools", "KeyName": "bundles/b.tar.gz"},
            {"BucketName": "tools", "KeyName": "logs/*", "EnableWriteAccess": True},
        ]
    config = rendered(hook={**HOOK, "args": args}, s3=[{"bucket": "tools"}, {"bucket": "site", "prefix": "x"}])
    assert config["HeadNode"]["Iam"]["S3Access"][2:] == [
        {"BucketName": "site", "KeyName": "train/vars.yml"},
        {"BucketName": "tools", "KeyName": "logs/*", "EnableWriteAccess": True},
    ]
    whole = rendered(hook={**HOOK, "args": ["--log-prefix", "s3://logs-1"]})["HeadNode"]["Iam"]["S3Access"]
    assert whole[2:] == [{"BucketName": "logs-1", "EnableWriteAccess": True}]


def test_hook_by_pointer_has_key_and_minimum():
    hook = {"script": HOOK["script"], "pointer": "s3://tools/pointer.json", "public_key": "QUJD", "version_floor": 7}
    args = only_queue(rendered(hook=hook))["CustomActions"]["OnNodeConfigured"]["Args"]
    assert args == ["--pointer", "s3://tools/pointer.json", "--public-key", "QUJD", "--version-floor", "7"]


def test_hook_by_pointer_reads_no_logs_of_other_nodes():
    hook = {"script": "s3://tools/mlcluster/on.sh", "pointer": "s3://tools/mlcluster/pointer", "public_key": "QUJD"}
    expected = ["mlcluster/on.sh", "mlcluster/pointer", "mlcluster/bundles/*"]
    config = rendered(hook=hook)
    for owner in (config["HeadNode"], only_queue(config)):
        assert owner["Iam"]["S3Access"] == [{"BucketName": "tools", "KeyName": key} for key in expected]
    # Explicit requests are not repeated.
    config = rendered(hook=hook, s3=[{"bucket": "tools", "prefix": "mlcluster"}])
    assert config["HeadNode"]["Iam"]["S3Access"] == [{"BucketName": "tools", "KeyName": "mlcluster/*"}]


def test_queue_without_hook_is_supported():
    config = rendered(hook=HOOK, queues=[queue_of(hook=False)])
    assert "CustomActions" not in only_queue(config)
    assert "CustomActions" in config["HeadNode"]


def test_rights_of_queue_replace_those_of_cluster():
    config = rendered(
        s3=[{"bucket": "data"}, {"bucket": "checkpoints", "write": True}],
        queues=[queue_of(), queue_of(name="cpus", s3=[{"bucket": "data", "prefix": "/raw/", "write": True}])],
    )
    gpus, cpus = config["Scheduling"]["SlurmQueues"]
    assert gpus["Iam"]["S3Access"] == [{"BucketName": "data"}, {"BucketName": "checkpoints", "EnableWriteAccess": True}]
    assert cpus["Iam"]["S3Access"] == [{"BucketName": "data", "KeyName": "raw/*", "EnableWriteAccess": True}]
    assert config["HeadNode"]["Iam"]["S3Access"] == gpus["Iam"]["S3Access"]


def test_template_text_is_not_evaluated():
    text = "{{ lookup('pipe', 'id') }}: [x]\n- #"
    config = rendered(tags={"note": text}, hook={**HOOK, "args": ["--vars", text]})
    assert config["Tags"] == [{"Key": "note", "Value": text}]
    assert only_queue(config)["CustomActions"]["OnNodeConfigured"]["Args"][-1] == text


def test_all_forms_of_filesystems_are_written():
    config = rendered(
        identifiers={"beside": "fs-0123456789abcdef2"},
        filesystems=[
            {"name": "data", "mount": "/fsx1", "by_cluster": True, "gib": 7200, "throughput": 1000,
             "associations": [{"path": "/datasets", "s3": "s3://data/datasets/", "export": True}]},
            {"name": "beside", "mount": "/fsx2", "gib": 9600, "throughput": 1000, "efa": True},
            {"name": "old", "mount": "/fsx3", "id": "fs-0123456789abcdef3"},
            {"name": "later", "mount": "/fsx4", "gib": 1200, "throughput": 125},
        ],
    )  # fmt: skip
    data, beside, old, later = (entry["FsxLustreSettings"] for entry in config["SharedStorage"])
    assert data["DeletionPolicy"] == "Retain"
    assert (data["DeploymentType"], data["DataCompressionType"]) == ("PERSISTENT_2", "LZ4")
    assert data["DataRepositoryAssociations"][0]["AutoExportPolicy"] == ["NEW", "CHANGED", "DELETED"]
    assert beside == {"FileSystemId": "fs-0123456789abcdef2"}
    assert old == {"FileSystemId": "fs-0123456789abcdef3"}
    assert later == {"FileSystemId": "fs-00000000000000003"}


def test_deployment_type_is_written():
    older = {"name": "data", "mount": "/fsx1", "by_cluster": True, "gib": 1200, "throughput": 100}
    config = rendered(filesystems=[{**older, "deployment": "PERSISTENT_1"}])
    (made,) = (entry["FsxLustreSettings"] for entry in config["SharedStorage"])
    assert (made["DeploymentType"], made["PerUnitStorageThroughput"]) == ("PERSISTENT_1", 100)


def test_security_groups_are_added():
    network = {**_cluster_config.NETWORK, "groups": ["sg-1", "sg-2"], "head_groups": ["sg-3"]}
    config = rendered(network=network)
    assert config["HeadNode"]["Networking"]["AdditionalSecurityGroups"] == ["sg-1", "sg-2", "sg-3"]
    assert only_queue(config)["Networking"]["AdditionalSecurityGroups"] == ["sg-1", "sg-2"]
    assert "SecurityGroups" not in only_queue(config)["Networking"]


def test_ssh_is_never_open_to_world():
    assert rendered()["HeadNode"]["Ssh"] == {"AllowedIps": "10.0.0.0/16"}
    assert rendered(head_ssh_cidr="203.0.113.0/24")["HeadNode"]["Ssh"]["AllowedIps"] == "203.0.113.0/24"


def test_default_bootstrap_limit_is_not_written():
    assert "DevSettings" not in rendered()
    timeouts = rendered(bootstrap_seconds=3600)["DevSettings"]["Timeouts"]
    assert timeouts == {"HeadNodeBootstrapTimeout": 3600, "ComputeNodeBootstrapTimeout": 3600}


def test_extra_configuration_is_merged():
    config = rendered(extra={"Image": {"CustomAmi": "ami-1"}, "LoginNodes": {"Pools": []}})
    assert config["Image"] == {"Os": "ubuntu2404", "CustomAmi": "ami-1"}
    assert config["LoginNodes"] == {"Pools": []}


def test_rendering_does_not_change_variables():
    given = settings(hook=HOOK, s3=[{"bucket": "data"}], extra={"Tags": []})
    before = copy.deepcopy(given)
    _cluster_config.render(given, _cluster_config.NETWORK, {})
    assert given == before


def test_totals_are_summed():
    given = settings(
        queues=[queue_of(price_per_hour=10), queue_of(name="cpus", instance_type="c7i.24xlarge", count=4)],
        filesystems=[{"name": "a", "mount": "/a", "gib": 7200, "throughput": 1000}],
    )
    totals = _cluster_config.totals(given)
    assert (totals["nodes"], totals["gpus"], totals["local_tb"]) == (84, 640, 2432.0)
    assert (totals["vcpus"], totals["memory_gib"], totals["per_hour"]) == (None, None, None)
    # 7200 GiB are 7.03 TiB, each with 1000 MB/s.
    assert (totals["fsx_gib"], totals["fsx_mb_per_s"]) == (7200, 7031)
    assert "vCPUs not known" in totals["summary"] and "price not given" in totals["summary"]


def test_totals_include_known_prices():
    cpus = queue_of(name="cpus", instance_type="c7i.24xlarge", count=4, vcpus=96, memory_gib=192, price_per_hour=1.5)
    totals = _cluster_config.totals(settings(queues=[queue_of(price_per_hour=10), cpus]))
    assert (totals["vcpus"], totals["memory_gib"], totals["per_hour"]) == (15744, 164608, 806.0)
    assert totals["summary"].endswith("806.00 USD an hour when all nodes run")
