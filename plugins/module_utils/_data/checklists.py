# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requirements of a head node, a compute node and a training container, as data.

Each check: ``id``; ``what``, its subject for readers; ``fact``, the name of the checked fact; ``kind`` and the
parameters of that kind (explained in ``health.checklist.verify``); ``hint``; ``severity``; ``source`` of the
values. Values are the minima of the reference architecture of two p5.48xlarge nodes. Those that depend on the
instance type use its values instead (``health.checklist.of_machine``); a site overrides them by id.
"""

from __future__ import annotations

from typing import Any

SOURCE = "reference architecture: m5.8xlarge head node, p5.48xlarge compute nodes"

# 30.72 TB is the nominal size; the API has 8 x 3800 GB, and a filesystem shows even less.
_SCRATCH = {
    "id": "checklist.scratch",
    "what": "the scratch space",
    "fact": "size",
    "kind": "size",
    "path": "/scratch",
    "expected": 30_720_000_000_000,
    "tolerance_percent": 10,
    "unit": "bytes",
    "hint": "run the role nvme_raid0",
}

_DOCKER = {
    "id": "checklist.docker",
    "what": "Docker",
    "fact": "program.docker",
    "kind": "present",
    "hint": "install Docker",
}
_ENROOT = {
    "id": "checklist.enroot",
    "what": "Enroot",
    "fact": "program.enroot",
    "kind": "present",
    "hint": "run the role enroot_pyxis",
}

CHECKLISTS: dict[str, tuple[dict[str, Any], ...]] = {
    "head": (
        _DOCKER,
        _ENROOT,
        {
            "id": "checklist.slurm",
            "what": "Slurm's controller, a running slurmctld,",
            "fact": "daemon.slurmctld",
            "kind": "present",
            "hint": "start slurmctld, and look at its log where it ends",
        },
        {
            "id": "checklist.gpus",
            "what": "the number of GPUs",
            "fact": "gpu.count",
            "kind": "equal",
            "expected": 0,
            "unit": "GPUs",
        },
        {
            "id": "checklist.efa",
            "what": "the EFA software",
            "fact": "efa.installer",
            "kind": "version_at_least",
            "expected": "1.26.1",
            "hint": "run the role efa_nccl",
        },
    ),
    "compute": (
        {
            "id": "checklist.driver",
            "what": "the NVIDIA driver",
            "fact": "gpu.driver",
            "kind": "version_at_least",
            "expected": "535.54.03",
            "severity": "isolate",
            "hint": "use an image with a newer driver",
        },
        {
            "id": "checklist.efa",
            "what": "the EFA software",
            "fact": "efa.installer",
            "kind": "version_at_least",
            "expected": "1.26.1",
            "hint": "run the role efa_nccl",
        },
        {
            "id": "checklist.gpus",
            "what": "the number of GPUs",
            "fact": "gpu.count",
            "kind": "equal",
            "expected": 8,
            "unit": "GPUs",
            "severity": "isolate",
        },
        _SCRATCH,
        _DOCKER,
        _ENROOT,
        {
            "id": "checklist.slurm",
            "what": "Slurm's daemon, a running slurmd,",
            "fact": "daemon.slurmd",
            "kind": "present",
            "hint": "start slurmd, and look at its log where it ends",
        },
    ),
    "container": (
        {
            "id": "checklist.cuda",
            "what": "the CUDA toolkit",
            "fact": "cuda.toolkit",
            "kind": "version_at_least",
            "expected": "12.2",
            "hint": "build the image on a newer CUDA",
        },
        {
            "id": "checklist.nccl",
            "what": "NCCL",
            "fact": "nccl.version",
            "kind": "version_at_least",
            "expected": "2.18.5",
            "hint": "build the image with a newer NCCL",
        },
        {
            "id": "checklist.plugin",
            "what": "the OFI plugin of NCCL",
            "fact": "plugin.version",
            "kind": "version_at_least",
            "expected": "1.8.1",
            "hint": "run the EFA installer in the image",
        },
        {
            "id": "checklist.libfabric",
            "what": "libfabric",
            "fact": "libfabric.version",
            "kind": "present",
            "hint": "run the EFA installer in the image",
        },
    ),
}
