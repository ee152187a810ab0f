# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build a ParallelCluster 3.16 configuration from the role's variables; values are never templates.

The names and limits are those of the schema and the validators of aws-parallelcluster 3.16.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types
from ansible_collections.mlcluster.aws.plugins.plugin_utils._cluster.problems import (
    FILESYSTEM_DEFAULTS,
    HOOK_OPTIONS,
    QUEUE_DEFAULTS,
    S3_URI,
    Settings,
    filled,
    hook_arguments,
)

# ParallelCluster 3.16: NODE_BOOTSTRAP_TIMEOUT.
BOOTSTRAP_SECONDS = 2100
GIB_PER_TIB = 1024
# Placeholders of valid form for identifiers that are not known before the creation.
UNKNOWN_FILESYSTEM = "fs-{:017d}"
NETWORK = {
    "head_subnet": "subnet-00000000000000000",
    "compute_subnet": "subnet-00000000000000001",
    "cidr": "10.0.0.0/16",
    "groups": ["sg-00000000000000000"],
    "head_groups": [],
}


def known_type(name: str) -> dict[str, Any]:
    """Return the table's row of an instance type; empty for one without GPUs, Neuron devices or local disks."""
    return instance_types.lookup(name) or {}


def _s3_rights(rights: list[Settings], hook: Settings) -> list[dict[str, Any]]:
    """Return S3Access: the requested entries, and the objects that the hook has to read."""
    result: list[dict[str, Any]] = []
    for right in rights:
        entry: dict[str, Any] = {"BucketName": right["bucket"]}
        if right.get("prefix"):
            entry["KeyName"] = f"{str(right['prefix']).strip('/*')}/*"
        if right.get("write"):
            entry["EnableWriteAccess"] = True
        result.append(entry)
    for address, write in _hook_places(hook):
        # A star means all of a folder or bucket; S3_URI does not allow it.
        folder = address.endswith("*")
        found = S3_URI.fullmatch(address[:-1] + "-" if folder else address)
        if not found:
            continue
        entry = {"BucketName": found["bucket"]}
        key = f"{found['key'][:-1]}*" if folder else found["key"]
        if key != "*":
            entry["KeyName"] = key
        if write:
            entry["EnableWriteAccess"] = True
        if not any(_covers(given, entry) for given in result):
            result.append(entry)
    return result


def _covers(given: Settings, wanted: Settings) -> bool:
    """Return whether one entry of S3Access includes another one."""
    key, name = str(given.get("KeyName", "*")), str(wanted.get("KeyName", "*"))
    return (
        given["BucketName"] == wanted["BucketName"]
        and (key == name or (key.endswith("*") and name.startswith(key[:-1])))
        and (given.get("EnableWriteAccess", False) or not wanted.get("EnableWriteAccess", False))
    )


def _hook_places(hook: Settings) -> Iterator[tuple[str, bool]]:
    """Return each object that the hook reads, and the folder of the logs, each with whether it is written.

    Exact names: with the whole prefix a node would read the logs of the others. A pointer names archives in the folder
    ``bundles`` beside it.
    """
    for key in ("script", "bundle", "pointer"):
        yield str(hook.get(key, "")), False
    if hook.get("pointer"):
        yield f"{str(hook['pointer']).rpartition('/')[0]}/bundles/*", False
    for option, value in hook_arguments(hook):
        if option == "--vars":
            yield value, False
        elif option == "--log-prefix":
            yield f"{value.rstrip('/')}/*", True


def _iam(rights: list[Settings], hook: Settings, policies: list[str]) -> dict[str, Any]:
    iam: dict[str, Any] = {}
    if access := _s3_rights(rights, hook):
        iam["S3Access"] = access
    if policies:
        iam["AdditionalIamPolicies"] = [{"Policy": policy} for policy in policies]
    return iam


def _actions(hook: Settings) -> dict[str, Any]:
    """Return CustomActions: OnNodeConfigured, which runs after EFA, /scratch, the mounts and Slurm are set up."""
    if not hook:
        return {}
    args = []
    for key in HOOK_OPTIONS:
        if hook.get(key):
            args += [f"--{key.replace('_', '-')}", str(hook[key])]
    args += [str(argument) for argument in hook.get("args") or []]
    return {"CustomActions": {"OnNodeConfigured": {"Script": str(hook["script"]), "Args": args}}}


def _root(gib: int, iops: int | None = None, throughput: int | None = None) -> dict[str, Any]:
    volume: dict[str, Any] = {"Size": gib, "VolumeType": "gp3", "Encrypted": True}
    if iops:
        volume.update(Iops=iops, Throughput=throughput)
    return volume


def _head(settings: Settings, network: Settings) -> dict[str, Any]:
    hook = settings.get("hook") or {}
    networking: dict[str, Any] = {"SubnetId": network["head_subnet"]}
    if network.get("groups"):
        networking["AdditionalSecurityGroups"] = [*network["groups"], *network.get("head_groups", [])]
    head: dict[str, Any] = {"InstanceType": settings["head_instance_type"], "Networking": networking}
    ssh: dict[str, Any] = {}
    if settings.get("key_name"):
        ssh["KeyName"] = settings["key_name"]
    # Without it ParallelCluster opens the port to the internet.
    ssh["AllowedIps"] = settings.get("head_ssh_cidr") or network["cidr"]
    head["Ssh"] = ssh
    head["LocalStorage"] = {"RootVolume": _root(settings["head_root_gib"])}
    head.update(_actions(hook))
    if iam := _iam((settings.get("s3") or []), hook, (settings.get("policies") or [])):
        head["Iam"] = iam
    return head


def _queue(queue: Settings, settings: Settings, network: Settings) -> dict[str, Any]:
    given = filled(QUEUE_DEFAULTS, queue)
    hardware = known_type(given["instance_type"])
    hook = (settings.get("hook") or {}) if given["hook"] else {}
    efa = instance_types.has_efa(hardware) if given["efa"] is None else given["efa"]
    gpus = (hardware.get("accelerators") or {}).get("kind") == "gpu"
    # A capacity block is placed together already, and EC2 rejects a placement group with it.
    grouped = (
        efa and given["capacity"] != "capacity-block" if given["placement_group"] is None else given["placement_group"]
    )
    resource: dict[str, Any] = {
        "Name": f"{given['name']}-nodes",
        "InstanceType": given["instance_type"],
        "MinCount": given["minimum"],
        "MaxCount": given["count"],
        "DisableSimultaneousMultithreading": not given["smt"],
        "Efa": {"Enabled": efa},
    }
    if given["reservation"]:
        key = (
            "CapacityReservationId" if given["reservation"].startswith("cr-") else "CapacityReservationResourceGroupArn"
        )
        resource["CapacityReservationTarget"] = {key: given["reservation"]}
    storage: dict[str, Any] = {"RootVolume": _root(given["root_gib"], given["root_iops"], given["root_throughput"])}
    if hardware.get("instance_store", {}).get("count"):
        storage["EphemeralVolume"] = {"MountDir": given["ephemeral"]}
    networking: dict[str, Any] = {
        "SubnetIds": [network["compute_subnet"]],
        "PlacementGroup": {"Enabled": bool(grouped)},
    }
    if network.get("groups"):
        # In addition to ParallelCluster's own group, which allows EFA: SecurityGroups would replace it.
        networking["AdditionalSecurityGroups"] = list(network["groups"])
    result: dict[str, Any] = {
        "Name": given["name"],
        "CapacityType": given["capacity"].upper().replace("-", "_"),
        "JobExclusiveAllocation": bool(given["exclusive"]),
        "ComputeSettings": {"LocalStorage": storage},
        "Networking": networking,
        "HealthChecks": {"Gpu": {"Enabled": gpus if given["gpu_health_check"] is None else given["gpu_health_check"]}},
        **_actions(hook),
        "ComputeResources": [resource],
    }
    rights = (settings.get("s3") or []) if given["s3"] is None else given["s3"]
    if iam := _iam(rights, hook, [*(settings.get("policies") or []), *given["policies"]]):
        result["Iam"] = iam
    return result


def _filesystem(number: int, filesystem: Settings, identifiers: Settings) -> dict[str, Any]:
    given = filled(FILESYSTEM_DEFAULTS, filesystem)
    if not given["by_cluster"] or given["id"]:
        # No other key is allowed with FileSystemId.
        lustre: dict[str, Any] = {
            "FileSystemId": given["id"] or identifiers.get(given["name"], UNKNOWN_FILESYSTEM.format(number))
        }
    else:
        lustre = {
            "StorageCapacity": given["gib"],
            "DeploymentType": given["deployment"],
            "PerUnitStorageThroughput": given["throughput"],
            "DataCompressionType": "LZ4",
            # The default deletes the data with the cluster.
            "DeletionPolicy": "Retain",
        }
        if given["associations"]:
            lustre["DataRepositoryAssociations"] = [
                {
                    "Name": f"{given['name']}-{number}",
                    "FileSystemPath": link["path"],
                    "DataRepositoryPath": link["s3"],
                    "BatchImportMetaDataOnCreate": True,
                    "AutoImportPolicy": ["NEW", "CHANGED", "DELETED"],
                    **({"AutoExportPolicy": ["NEW", "CHANGED", "DELETED"]} if link.get("export") else {}),
                }
                for number, link in enumerate(given["associations"], 1)
            ]
    return {"MountDir": given["mount"], "Name": given["name"], "StorageType": "FsxLustre", "FsxLustreSettings": lustre}


def _monitoring(settings: Settings) -> dict[str, Any]:
    return {
        "DetailedMonitoring": bool(settings["detailed_monitoring"]),
        "Logs": {
            "CloudWatch": {"Enabled": True, "RetentionInDays": settings["log_days"], "DeletionPolicy": "Retain"},
            "Rotation": {"Enabled": True},
        },
        "Dashboards": {"CloudWatch": {"Enabled": bool(settings["dashboard"])}},
        "Alarms": {"Enabled": bool(settings["dashboard"])},
    }


def merged(base: Any, over: Any) -> Any:
    """Merge ``over`` into ``base``: mappings are merged, everything else is replaced."""
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        return over
    return {
        key: merged(base[key], over[key]) if key in base and key in over else over.get(key, base.get(key))
        for key in [*base, *(key for key in over if key not in base)]
    }


def render(settings: Settings, network: Settings, identifiers: Settings) -> dict[str, Any]:
    """Return the configuration.

    ``settings`` are the role's variables without their prefix and without problems. ``network`` has ``head_subnet``,
    ``compute_subnet``, ``cidr``, ``groups`` (security groups of all nodes) and ``head_groups``. ``identifiers`` maps
    names of file systems that were created outside the cluster to their identifiers.
    """
    slurm: dict[str, Any] = {
        "ScaledownIdletime": settings["idle_minutes"],
        "QueueUpdateStrategy": "DRAIN",
        "EnableMemoryBasedScheduling": bool(settings["memory_scheduling"]),
    }
    config: dict[str, Any] = {
        "Region": settings["region"],
        "Image": {"Os": settings["os"], **({"CustomAmi": settings["ami"]} if settings.get("ami") else {})},
        "Imds": {"ImdsSupport": "v2.0"},
        "HeadNode": _head(settings, network),
        "Scheduling": {
            "Scheduler": "slurm",
            # A job of many nodes needs all of them or none.
            "ScalingStrategy": settings["scaling"],
            "SlurmSettings": slurm,
            "SlurmQueues": [_queue(queue, settings, network) for queue in settings["queues"]],
        },
        "Monitoring": _monitoring(settings),
        "Tags": [{"Key": str(key), "Value": str(value)} for key, value in sorted((settings.get("tags") or {}).items())],
    }
    if settings.get("filesystems"):
        config["SharedStorage"] = [
            _filesystem(number, entry, identifiers) for number, entry in enumerate(settings["filesystems"])
        ]
    if settings["bootstrap_seconds"] != BOOTSTRAP_SECONDS:
        seconds = settings["bootstrap_seconds"]
        config["DevSettings"] = {
            "Timeouts": {"HeadNodeBootstrapTimeout": seconds, "ComputeNodeBootstrapTimeout": seconds}
        }
    if not config["Tags"]:
        del config["Tags"]
    result: dict[str, Any] = merged(config, settings.get("extra") or {})
    return result


def totals(settings: Settings) -> dict[str, Any]:
    """Return the totals of the cluster, and ``summary``, a sentence with them.

    ``nodes``; ``gpus``, ``vcpus``, ``memory_gib``, ``local_tb`` (decimal); ``fsx_gib`` and ``fsx_mb_per_s`` of created
    file systems; ``per_hour`` if every queue has its price, else None. Unknown values are None.
    """
    sums: dict[str, Any] = {"nodes": 0, "gpus": 0, "vcpus": 0, "memory_gib": 0, "local_tb": 0.0}
    price: float | None = 0.0
    for queue in settings["queues"]:
        given, count = filled(QUEUE_DEFAULTS, queue), queue["count"]
        hardware = known_type(queue["instance_type"])
        accelerators = hardware.get("accelerators") or {}
        memory = hardware["memory_mib"] // GIB_PER_TIB if hardware else given["memory_gib"]
        vcpus = hardware.get("vcpus") or given["vcpus"]
        sums["nodes"] += count
        sums["gpus"] += count * accelerators.get("count", 0) if accelerators.get("kind") == "gpu" else 0
        sums["vcpus"] = None if vcpus is None or sums["vcpus"] is None else sums["vcpus"] + count * vcpus
        sums["memory_gib"] = (
            None if memory is None or sums["memory_gib"] is None else sums["memory_gib"] + count * memory
        )
        sums["local_tb"] += count * hardware.get("instance_store", {}).get("total_gb", 0) / 1000
        price = (
            None if price is None or given["price_per_hour"] is None else price + count * float(given["price_per_hour"])
        )
    made = [entry for entry in (settings.get("filesystems") or []) if not entry.get("id")]
    sums["fsx_gib"] = sum(entry["gib"] for entry in made)
    sums["fsx_mb_per_s"] = sum(entry["gib"] * entry["throughput"] // GIB_PER_TIB for entry in made)
    sums["per_hour"] = None if price is None else round(price, 2)
    parts = [f"{sums['nodes']} nodes", f"{sums['gpus']} GPUs"]
    parts.append("vCPUs not known" if sums["vcpus"] is None else f"{sums['vcpus']} vCPUs")
    parts.append("memory not known" if sums["memory_gib"] is None else f"{sums['memory_gib']} GiB memory")
    parts += [
        f"{sums['local_tb']:.1f} TB local NVMe",
        f"{sums['fsx_gib']} GiB FSx for Lustre with {sums['fsx_mb_per_s']} MB/s",
    ]
    parts.append(
        "price not given" if sums["per_hour"] is None else f"{sums['per_hour']:.2f} USD an hour when all nodes run"
    )
    sums["summary"] = ", ".join(parts)
    return sums
