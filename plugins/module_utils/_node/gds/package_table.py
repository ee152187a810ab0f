# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases of GPUDirect Storage by CUDA release, with package names and required drivers.

RELEASES
    Up to CUDA 13.1 the labels of libcufile on anaconda.org/nvidia; 1.17 to 1.20 are the releases of the package
    nvidia-cufile after it, 1.19 being that of CUDA 13.4 by NVIDIA's GDS release notes.
NAMES
    Release notes of GDS, "Included packages"; libcufile-13-0 was seen on a machine. RPMs have the same names.
SEPARATE_SINCE
    Release notes of GDS 1.19: from CUDA 13.4 on nvidia-fs is installed by itself.
P2PDMA_SINCE
    GDS 1.13, with CUDA 12.8, is the first with P2PDMA (GDS troubleshooting guide).
"""

from __future__ import annotations

RELEASES: dict[str, str] = {
    "11.4": "1.0",
    "11.5": "1.1",
    "11.6": "1.2",
    "11.7": "1.3",
    "11.8": "1.4",
    "12.0": "1.5",
    "12.1": "1.6",
    "12.2": "1.7",
    "12.3": "1.8",
    "12.4": "1.9",
    "12.5": "1.10",
    "12.6": "1.11",
    "12.8": "1.13",
    "12.9": "1.14",
    "13.0": "1.15",
    "13.1": "1.16",
    "13.2": "1.17",
    "13.3": "1.18",
    "13.4": "1.19",
    "13.5": "1.20",
}

SEPARATE_SINCE = (13, 4)
P2PDMA_SINCE = (12, 8)

LIBRARY = "libcufile-{cuda}"
TOOLS = "gds-tools-{cuda}"
EVERYTHING = "nvidia-gds-{cuda}"
# Shows the CUDA release of a machine, also if no part of GDS is installed.
RUNTIME = "cuda-cudart-{cuda}"
MODULE = "nvidia-fs-dkms"
