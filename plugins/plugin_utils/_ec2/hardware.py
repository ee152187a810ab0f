# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware of each instance type: DescribeInstanceTypes, a long-lived cache of it, and the built-in table.

Facts of a type: ``kind`` (gpu, neuron or None), ``name``, ``count`` and ``memory_mib`` (of each accelerator),
``vcpus``, ``ram_mib``, ``instance_store_count``, ``instance_store_gb`` (all disks together, decimal), ``efa_max``,
``network_gbps`` (None if the API has a word, as in "High"), ``source``: ``api``, ``table`` or ``unknown``, which
has None for all the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Callable

from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.files import replace_file

# EC2 accepts at most this many names in one call.
TYPES_PER_CALL = 100
FORMAT = 1
KEYS = (
    "kind",
    "name",
    "count",
    "memory_mib",
    "vcpus",
    "ram_mib",
    "instance_store_count",
    "instance_store_gb",
    "efa_max",
    "network_gbps",
)
_SPEED = re.compile(r"(?:Up to )?(?:(\d+)x )?([0-9.]+) (Gigabit|Megabit)")

Facts = dict[str, Any]


def unknown() -> Facts:
    """Return the facts of an unknown type."""
    return {**dict.fromkeys(KEYS), "source": "unknown"}


def from_table(instance_type: str) -> Facts | None:
    """Return the facts of the built-in table, None for a type that it lacks."""
    row = instance_types.lookup(instance_type)
    if row is None:
        return None
    accelerators = row["accelerators"] or {"kind": None, "name": None, "count": 0, "memory_mib": 0}
    return {
        **accelerators,
        "vcpus": row["vcpus"],
        "ram_mib": row["memory_mib"],
        "instance_store_count": row["instance_store"]["count"],
        "instance_store_gb": row["instance_store"]["total_gb"],
        "efa_max": row["efa_interfaces"],
        "network_gbps": row["network_gbps"],
        "source": "table",
    }


def _devices(info: dict[str, Any]) -> Facts:
    gpus = [
        gpu for gpu in info.get("GpuInfo", {}).get("Gpus", ()) if gpu.get("Manufacturer") in ("NVIDIA", "AMD", None)
    ]
    neuron = info.get("NeuronInfo", {}).get("NeuronDevices", ())
    # Inferentia of the first generation is listed as an inference accelerator in older API answers.
    inference = info.get("InferenceAcceleratorInfo", {}).get("Accelerators", ())
    for kind, devices in (("gpu", gpus), ("neuron", neuron or inference)):
        for device in devices:
            return {
                "kind": kind,
                "name": device.get("Name"),
                # A type with a fraction of a GPU has zero GPUs and one logical GPU.
                "count": device.get("Count") or device.get("LogicalGpuCount") or 0,
                "memory_mib": device.get("MemoryInfo", {}).get("SizeInMiB", 0),
            }
    return {"kind": None, "name": None, "count": 0, "memory_mib": 0}


def _gbps(network: dict[str, Any]) -> float | None:
    found = _SPEED.fullmatch(network.get("NetworkPerformance", ""))
    if found:
        times, value, unit = found.groups()
        return float(value) * int(times or 1) / (1000 if unit == "Megabit" else 1)
    peaks = [card.get("PeakBandwidthInGbps") for card in network.get("NetworkCards", ())]
    return float(sum(peaks)) if peaks and all(peaks) else None


def from_api(info: dict[str, Any]) -> Facts:
    """Return the facts of one entry of ``InstanceTypes``; the table corrects known mistakes of the API."""
    name = info["InstanceType"]
    devices = _devices(info)
    if name in instance_types.CORRECTIONS:
        table = from_table(name) or {}
        devices = {key: table.get(key, devices[key]) for key in devices}
    network = info.get("NetworkInfo", {})
    disks = info.get("InstanceStorageInfo", {}).get("Disks", ())
    return {
        **devices,
        "vcpus": info.get("VCpuInfo", {}).get("DefaultVCpus"),
        "ram_mib": info.get("MemoryInfo", {}).get("SizeInMiB"),
        "instance_store_count": sum(disk.get("Count", 0) for disk in disks),
        "instance_store_gb": sum(disk.get("Count", 0) * disk.get("SizeInGB", 0) for disk in disks),
        "efa_max": network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        "network_gbps": _gbps(network),
        "source": "api",
    }


def describe(client: Any, names: Iterable[str]) -> dict[str, Facts]:
    """Return the facts of the named types that the region knows, by name. Raises botocore's errors."""
    result: dict[str, Facts] = {}
    ordered = sorted(names)
    for start in range(0, len(ordered), TYPES_PER_CALL):
        # A filter ignores names unknown to the region; with InstanceTypes the whole call fails.
        wanted = [{"Name": "instance-type", "Values": ordered[start : start + TYPES_PER_CALL]}]
        for page in client.get_paginator("describe_instance_types").paginate(
            Filters=wanted, PaginationConfig={"PageSize": TYPES_PER_CALL}
        ):
            for info in page["InstanceTypes"]:
                result[info["InstanceType"]] = from_api(info)
    return result


class LongCache:
    """Facts of instance types on disk, since they do not change; an unusable file counts as empty."""

    def __init__(self, path: Path, seconds: int, now: Callable[[], float] = time.time) -> None:
        """``seconds`` is the lifetime of an entry; 0 switches the cache off."""
        self._path = path
        self._seconds = seconds
        self._now = now
        self._entries: dict[str, Any] = {}
        if seconds > 0:
            self._entries = self._read()

    @staticmethod
    def default_path() -> Path:
        """Return the path below ``$XDG_CACHE_HOME``, by default ``~/.cache``."""
        base = os.environ.get("XDG_CACHE_HOME", "")
        root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
        return root / "mlcluster" / "ec2_instance_types.json"

    def _read(self) -> dict[str, Any]:
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("types"), dict):
            return {}
        oldest = self._now() - self._seconds
        return {
            name: entry
            for name, entry in data["types"].items()
            if isinstance(entry, dict)
            and isinstance(entry.get("time"), (int, float))
            and entry["time"] > oldest
            and isinstance(entry.get("facts"), dict)
            and set(KEYS) < set(entry["facts"])
        }

    def get(self, names: Iterable[str]) -> dict[str, Facts]:
        """Return the cached facts of the named types."""
        return {name: self._entries[name]["facts"] for name in names if name in self._entries}

    def put(self, facts: dict[str, Facts]) -> None:
        """Keep the API's answer. A write error is not a failure: the next run asks again."""
        if self._seconds <= 0 or not facts:
            return
        moment = self._now()
        self._entries.update({name: {"time": moment, "facts": entry} for name, entry in facts.items()})
        document = {"format": FORMAT, "types": self._entries}
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(self._path, json.dumps(document).encode(), 0o600)
