# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version matrix: the oldest driver, CUDA, EFA installer, libfabric, OFI plugin and NCCL that may run together.

``RULES`` are limits, each with the document that gives it. ``component`` is limited, ``least`` is the oldest
supported version, ``last`` the newest (including its later releases: 580 includes 580.159.04). A rule applies if all
of its conditions hold: ``types`` (a regular expression for the whole instance type), ``gpus`` (names in the table
of instance types), ``since`` ({component: version}: the component has this version or a newer one). The
strictest of several rules for a component applies. Without a documented limit there is no rule, and the verdict is
undeterminable.
"""

from __future__ import annotations

from typing import Any

COMPONENTS = ("driver", "cuda", "installer", "libfabric", "plugin", "nccl")
NAMES = {
    "driver": "the NVIDIA driver",
    "cuda": "the CUDA toolkit",
    "installer": "the EFA installer",
    "libfabric": "libfabric",
    "plugin": "the OFI plugin of NCCL",
    "nccl": "NCCL",
}

# Read in November 2026.
SOURCES = {
    "own": "a minimum of your own",
    "chips": "NVIDIA Data Center Drivers, CUDA Toolkit, Driver, and Architecture Matrix",
    "chips-b300": "NVIDIA CUDA Features Archive, CUDA 12.9: compiler target sm_103",
    "shipped": "NVIDIA CUDA Toolkit Release Notes, CUDA Toolkit and Corresponding Driver Versions",
    "major": "NVIDIA CUDA Compatibility, Minor Version Compatibility, table 1",
    "preset": "aws/aws-ofi-nccl doc/efa-env-var.md, sample presets (2daf7d3)",
    "plugin-source": "aws/aws-ofi-nccl src/nccl_ofi_net.cpp (2daf7d3)",
    "plugin-1.21": "aws/aws-ofi-nccl release notes of v1.21",
    "plugin-1.8": "aws/aws-ofi-nccl release notes of v1.8.0-aws",
    "plugin-1.7": "aws/aws-ofi-nccl release notes of v1.7.3-aws",
    "plugin-1.5": "aws/aws-ofi-nccl release notes of v1.5.0",
    "plugin-1.3": "aws/aws-ofi-nccl release notes of v1.3.0",
}

# The oldest branch of the driver for a major version of CUDA: NVIDIA, CUDA compatibility, minor version compatibility,
# table 1.
DRIVERS: dict[int, int] = {11: 450, 12: 525, 13: 580}

# GPUs, the first CUDA that supports them, and the driver released with it.
_CHIPS: tuple[tuple[tuple[str, ...], str, str, str], ...] = (
    (("V100",), "9.0", "384.81", "chips"),
    (("T4", "T4g"), "10.0", "410.48", "chips"),
    (("A100", "A10G"), "11.0", "450.36.06", "chips"),
    (("L4", "L40S", "H100", "H200"), "11.8", "520.61.05", "chips"),
    (("B200", "GB200", "RTX PRO 4500", "RTX PRO Server 6000"), "12.8", "570.26", "chips"),
    (("B300",), "12.9", "575.51.03", "chips-b300"),
)


def _first(chips: tuple[str, ...], cuda: str, driver: str, source: str) -> tuple[dict[str, Any], ...]:
    return (
        {
            "component": "cuda",
            "gpus": chips,
            "least": cuda,
            "why": "older ones do not know this GPU",
            "source": source,
        },
        {
            "component": "driver",
            "gpus": chips,
            "least": driver,
            "why": f"it came with CUDA {cuda}, the first that knows this GPU",
            "source": "shipped",
        },
    )


RULES: tuple[dict[str, Any], ...] = (
    *(rule for chip in _CHIPS for rule in _first(*chip)),
    {
        "component": "cuda",
        "gpus": ("V100",),
        "last": "12",
        "why": "newer ones have dropped this GPU",
        "source": "chips",
    },
    {
        "component": "driver",
        "gpus": ("V100",),
        "last": "580",
        "why": "newer ones have dropped this GPU",
        "source": "chips",
    },
    *(
        {
            "component": "driver",
            "since": {"cuda": str(cuda)},
            "least": str(driver),
            "why": f"CUDA {cuda} needs it",
            "source": "major",
        }
        for cuda, driver in DRIVERS.items()
    ),
    {
        "component": "cuda",
        "types": r"p5\.48xlarge",
        "least": "12.0",
        "why": "P5 needs it",
        "source": "preset",
    },
    {
        "component": "nccl",
        "types": r"p5\.48xlarge",
        "least": "2.18.5",
        "why": "older ones have faults on P5",
        "source": "preset",
    },
    {
        "component": "plugin",
        "types": r"p5\.48xlarge",
        "least": "1.7.3",
        "why": "older ones have faults on P5",
        "source": "preset",
    },
    {
        "component": "installer",
        "since": {"nccl": "2.19"},
        "least": "1.29.0",
        "why": "with older ones NCCL 2.19 and newer ends in errors of libfabric",
        "source": "preset",
    },
    {
        "component": "plugin",
        "types": r"p4de\.24xlarge",
        "least": "1.3.0",
        "why": "older ones do not know its topology",
        "source": "plugin-1.3",
    },
    {
        "component": "plugin",
        "types": r"g5\.48xlarge",
        "least": "1.7.3",
        "why": "older ones do not know this type",
        "source": "plugin-1.7",
    },
    {
        "component": "plugin",
        "types": r"trn1n?\..*",
        "least": "1.5.0",
        "why": "older ones do not know Trainium",
        "source": "plugin-1.5",
    },
    {
        "component": "libfabric",
        "since": {"plugin": "1.3"},
        "least": "1.11.0",
        "why": "this OFI plugin needs it",
        "source": "plugin-1.3",
    },
    {
        "component": "libfabric",
        "since": {"plugin": "1.8"},
        "least": "1.18.0",
        "why": "this OFI plugin needs it",
        "source": "plugin-1.8",
    },
    {
        "component": "libfabric",
        "since": {"plugin": "1.21"},
        "least": "1.22.0",
        "why": "this OFI plugin refuses EFA with an older one",
        "source": "plugin-source",
    },
    {
        "component": "nccl",
        "since": {"plugin": "1.3"},
        "least": "2.4.8",
        "why": "this OFI plugin needs it",
        "source": "plugin-1.3",
    },
    {
        "component": "nccl",
        "since": {"plugin": "1.21"},
        "least": "2.17.1",
        "why": "this OFI plugin needs it",
        "source": "plugin-1.21",
    },
)
