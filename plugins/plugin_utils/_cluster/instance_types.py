# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instance types of a configuration, and their descriptions without EC2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types


def places(config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each mapping that has an ``InstanceType``, with the path to that key."""
    head = config.get("HeadNode")
    if isinstance(head, dict) and "InstanceType" in head:
        yield "HeadNode/InstanceType", head
    scheduling = config.get("Scheduling")
    queues = scheduling.get("SlurmQueues") if isinstance(scheduling, dict) else None
    for number, queue in enumerate(queues if isinstance(queues, list) else []):
        resources = queue.get("ComputeResources") if isinstance(queue, dict) else None
        for index, resource in enumerate(resources if isinstance(resources, list) else []):
            path = f"Scheduling/SlurmQueues[{number}]/ComputeResources[{index}]"
            if isinstance(resource, dict):
                yield from _of_resource(path, resource)


def _of_resource(path: str, resource: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if "InstanceType" in resource:
        yield f"{path}/InstanceType", resource
    several = resource.get("Instances")
    for number, entry in enumerate(several if isinstance(several, list) else []):
        if isinstance(entry, dict) and "InstanceType" in entry:
            yield f"{path}/Instances[{number}]/InstanceType", entry


def names(config: dict[str, Any]) -> list[str]:
    """Return the types in a configuration, each once, sorted."""
    return sorted({str(holder["InstanceType"]) for _path, holder in places(config)})


def described(name: str) -> dict[str, Any] | None:
    """Describe a type like EC2 DescribeInstanceTypes, from the collection's own table; None for an unknown one.

    Properties that the table lacks are set to allow everything: capacity types, placement groups, threads of a core.
    """
    known = instance_types.lookup(name)
    if not known:
        return None
    arm = known["architecture"] == "arm64"
    efa, cards = known["efa_interfaces"], known["network_cards"]
    entry: dict[str, Any] = {
        "InstanceType": name,
        "SupportedUsageClasses": ["on-demand", "spot", "capacity-block"],
        "ProcessorInfo": {"SupportedArchitectures": [known["architecture"]]},
        "VCpuInfo": {
            "DefaultVCpus": known["vcpus"],
            "DefaultCores": known["vcpus"] if arm else max(1, known["vcpus"] // 2),
            "DefaultThreadsPerCore": 1 if arm else 2,
        },
        "MemoryInfo": {"SizeInMiB": known["memory_mib"]},
        "InstanceStorageSupported": known["instance_store"]["count"] > 0,
        "EbsInfo": {"EbsOptimizedSupport": "default"},
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]},
        "NetworkInfo": {
            "MaximumNetworkCards": cards,
            "NetworkCards": [{"NetworkCardIndex": card, "MaximumNetworkInterfaces": 2} for card in range(cards)],
            "EfaSupported": instance_types.has_efa(known),
            **({"EfaInfo": {"MaximumEfaInterfaces": efa}} if efa else {}),
        },
    }
    accelerators = known["accelerators"]
    if accelerators:
        # All GPUs of the table are NVIDIA's.
        gpu = accelerators["kind"] == "gpu"
        devices = [
            {"Name": accelerators["name"], "Manufacturer": "NVIDIA" if gpu else "AWS", "Count": accelerators["count"]}
        ]
        entry["GpuInfo" if gpu else "InferenceAcceleratorInfo"] = {"Gpus" if gpu else "Accelerators": devices}
    return entry
