# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""UltraServers: instance types whose NVLink domain spans several instances.

``TYPES``: AWS PCS User Guide, "Configure UltraServer instances". The GPUs of such an instance reach those of other
instances over NVLink only while an IMEX domain joins the hosts (NVIDIA IMEX guide).
"""

from __future__ import annotations

import re

# The families, also for later names of AWS: p6e-gb300r, u-p6e-gb200x72. u-6tb1 and the like have no GPU.
_FAMILY = re.compile(r"(u-)?p\d+\w*-gb\d.*|p\d+e-.*|u-p.*")
TYPES = ("p6e-gb200.36xlarge", "p6e-gb200.72xlarge", "p6e-gb300.36xlarge", "p6e-gb300.72xlarge")
# Instances of a u-p6e-gb200x72 (ParallelCluster User Guide, "Support NVIDIA-Imex with p6e-gb200 instance").
MAX_INSTANCES = 18


def is_ultraserver(instance_type: object) -> bool | None:
    """Return whether instances of this type are part of an UltraServer; None (unknown) for a name of such a family
    that is not in ``TYPES``."""
    if instance_type in TYPES:
        return True
    return None if isinstance(instance_type, str) and _FAMILY.fullmatch(instance_type) else False
