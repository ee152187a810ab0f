# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""UltraServers: instance types whose NVLink domain spans several instances.

``TYPES``: AWS PCS User Guide, "Configure UltraServer instances". The GPUs of such an instance reach those of other
instances over NVLink only while an IMEX domain joins the hosts (NVIDIA IMEX guide).
"""

from __future__ import annotations

import re
from typing import Any

TYPES = ("p6e-gb200.36xlarge", "p6e-gb200.72xlarge", "p6e-gb300.36xlarge", "p6e-gb300.72xlarge")
# Instances of a u-p6e-gb200x72 (ParallelCluster User Guide, "Support NVIDIA-Imex with p6e-gb200 instance").
MOST_INSTANCES = 18


def is_ultraserver(instance_type: object) -> bool:
    """Return whether instances of this type are part of an UltraServer."""
    return instance_type in TYPES


# How AWS names them: p, a generation, e, and NVIDIA's Grace Blackwell.
_NAMED = re.compile(r"p\d+e-gb\d+\..+")


def may_be_ultraserver(instance_type: object) -> bool:
    """Return whether a type has the name of an UltraServer's instances, and may be one that ``TYPES`` lacks."""
    return is_ultraserver(instance_type) or (isinstance(instance_type, str) and bool(_NAMED.fullmatch(instance_type)))


# What sources confirm of the GPUs. Nothing else of these types (memory, disks, EFA, vCPUs) is confirmed by a source at
# hand, so that they are in no other table. Count and name: SageMaker HyperPod User Guide, topology-aware scheduling.
_GPUS: dict[str, tuple[str, int]] = {"p6e-gb200.36xlarge": ("GB200", 4)}
SOURCE = "SageMaker HyperPod User Guide, topology-aware scheduling"


def accelerators(instance_type: object) -> dict[str, Any] | None:
    """The GPUs of a type in the shape of ``instance_types``, without their memory; None where they are not known."""
    if not isinstance(instance_type, str) or instance_type not in _GPUS:
        return None
    name, count = _GPUS[instance_type]
    return {"kind": "gpu", "name": name, "count": count, "memory_mib": None}
