# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instance types of the fake endpoint, in the format of DescribeInstanceTypes.

They are independent of the collection's table, so that a comparison of both can fail.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Kind(NamedTuple):
    """An instance type; memory in MiB, disks in GB, network in Gbit/s for the whole instance."""

    vcpus: int
    memory: int
    cards: int = 1
    efa: int = 0
    network: str = "Up to 10 Gigabit"
    gbps: float = 10.0
    disks: int = 0
    disk_gb: int = 0
    gpus: int = 0
    gpu: str = ""
    gpu_memory: int = 0
    neurons: int = 0
    neuron: str = ""
    neuron_cores: int = 0
    neuron_memory: int = 0
    per_card: int = 8
    threads: int = 2
    arch: str = "x86_64"


KINDS = {
    "p5.48xlarge": Kind(192, 2097152, 32, 32, "3200 Gigabit", 3200, 8, 3800, 8, "H100", 81920, per_card=2),
    "p4d.24xlarge": Kind(96, 1179648, 4, 4, "4x 100 Gigabit", 400, 8, 1000, 8, "A100", 40960, per_card=15),
    "trn1.32xlarge": Kind(
        128,
        524288,
        8,
        8,
        "8x 100 Gigabit",
        800,
        4,
        1900,
        neurons=16,
        neuron="Trainium",
        neuron_cores=2,
        neuron_memory=32768,
        per_card=5,
    ),
    "g6.12xlarge": Kind(48, 196608, 1, 1, "40 Gigabit", 40, 4, 940, 4, "L4", 22888),
    "i4i.4xlarge": Kind(16, 131072, network="Up to 25 Gigabit", gbps=25, disks=1, disk_gb=3750),
    "c6i.4xlarge": Kind(16, 32768, network="Up to 12.5 Gigabit", gbps=12.5),
    "m7g.xlarge": Kind(4, 16384, network="Up to 12.5 Gigabit", gbps=12.5, per_card=4, threads=1, arch="arm64"),
}
# Only these types have a topology.
TOPOLOGY_TYPES = ("p5.48xlarge", "p4d.24xlarge", "trn1.32xlarge")


def _network(kind: Kind) -> dict[str, Any]:
    share = kind.gbps / kind.cards
    cards = [
        {
            "networkCardIndex": card,
            "networkPerformance": f"{share:g} Gigabit",
            "maximumNetworkInterfaces": kind.per_card,
            "baselineBandwidthInGbps": share,
            "peakBandwidthInGbps": share,
        }
        for card in range(kind.cards)
    ]
    answer: dict[str, Any] = {
        "networkPerformance": kind.network,
        "maximumNetworkInterfaces": kind.cards * kind.per_card,
        "maximumNetworkCards": kind.cards,
        "defaultNetworkCardIndex": 0,
        "networkCards": cards,
        "ipv4AddressesPerInterface": 50,
        "ipv6AddressesPerInterface": 50,
        "ipv6Supported": True,
        "enaSupport": "required",
        "efaSupported": bool(kind.efa),
    }
    if kind.efa:
        answer["efaInfo"] = {"maximumEfaInterfaces": kind.efa}
    answer["encryptionInTransitSupported"] = True
    answer["enaSrdSupported"] = False
    return answer


def _accelerators(kind: Kind) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    if kind.gpus:
        gpu = {
            "name": kind.gpu,
            "manufacturer": "NVIDIA",
            "count": kind.gpus,
            "logicalGpuCount": kind.gpus,
            "memoryInfo": {"sizeInMiB": kind.gpu_memory},
        }
        answer["gpuInfo"] = {
            "gpus": [gpu],
            "totalGpuMemoryInMiB": kind.gpus * kind.gpu_memory,
        }
    if kind.neurons:
        device = {
            "count": kind.neurons,
            "name": kind.neuron,
            "coreInfo": {"count": kind.neuron_cores, "version": 2},
            "memoryInfo": {"sizeInMiB": kind.neuron_memory},
        }
        total = kind.neurons * kind.neuron_memory
        answer["neuronInfo"] = {"neuronDevices": [device], "totalNeuronDeviceMemoryInMiB": total}
    return answer


def describe(name: str) -> dict[str, Any]:
    """Return the item of DescribeInstanceTypes for a type, by wire names."""
    kind = KINDS[name]
    answer: dict[str, Any] = {
        "instanceType": name,
        "currentGeneration": True,
        "freeTierEligible": False,
        "supportedUsageClasses": ["on-demand", "spot"],
        "supportedRootDeviceTypes": ["ebs"],
        "supportedVirtualizationTypes": ["hvm"],
        "bareMetal": False,
        "hypervisor": "nitro",
        "processorInfo": {"supportedArchitectures": [kind.arch], "sustainedClockSpeedInGhz": 3.5},
        "vCpuInfo": {
            "defaultVCpus": kind.vcpus,
            "defaultCores": kind.vcpus // kind.threads,
            "defaultThreadsPerCore": kind.threads,
        },
        "memoryInfo": {"sizeInMiB": kind.memory},
        "instanceStorageSupported": bool(kind.disks),
    }
    if kind.disks:
        answer["instanceStorageInfo"] = {
            "totalSizeInGB": kind.disks * kind.disk_gb,
            "disks": [{"sizeInGB": kind.disk_gb, "count": kind.disks, "type": "ssd"}],
            "nvmeSupport": "required",
            "encryptionSupport": "required",
        }
    answer["networkInfo"] = _network(kind)
    answer.update(_accelerators(kind))
    answer["placementGroupInfo"] = {"supportedStrategies": ["cluster", "partition", "spread"]}
    answer["hibernationSupported"] = False
    return answer
