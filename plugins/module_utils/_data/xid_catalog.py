# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's action for each Xid of Ampere and newer GPUs.

Copied by hand from the columns "Code" and "Resolution Bucket (Immediate Action)" of NVIDIA's Xid catalog; codes
that are marked unused are left out. A code without a bucket there (162 to 172) is listed under the action in its text,
or under UNCLASSIFIED. The severity of a bucket is our own choice.
"""

from __future__ import annotations

import re
from typing import Any

SOURCE = "NVIDIA, Analyzing Xid Errors with the Xid Catalog (docs.nvidia.com/deploy/xid-errors)"

# bucket: (severity of mlcluster.result/1, what to do, codes)
BUCKETS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "IGNORE": (
        "none",
        "nothing",
        (14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157, 160, 161),
    ),
    "RESTART_APP": (
        "none",
        "restart the application",
        (8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89, 94)
        + tuple(range(96, 106))
        + tuple(range(126, 136))
        + (139,),
    ),
    "WORKFLOW_XID_45": ("none", "nothing: an application was ended", (45,)),
    "MONITOR": ("monitor", "watch the GPU, and ask for a replacement if it recurs", (163, 164, 165)),
    "UPDATE_SWFW": ("monitor", "update the driver and the firmware", (78,)),
    "CHECK_UVM": ("monitor", "reset the GPU if an application uses unified memory", (159,)),
    "WORKFLOW_NVLINK5_ERR": (
        "monitor",
        "watch the GPU, and ask for a replacement if it recurs",
        (144, 145, 146, 147, 148, 149, 150),
    ),
    "XID_154": ("monitor", "follow the action that it names", (154,)),
    "UNCLASSIFIED": ("monitor", "read NVIDIA's catalog", (142, 162, 166, 167, 169, 170, 171, 172)),
    "RESET_GPU": (
        "reset",
        "reset the GPU",
        (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    ),
    "WORKFLOW_XID_48": ("reset", "reset the GPU; replace the instance if it recurs", (48,)),
    "WORKFLOW_NVLINK_ERR": ("reset", "reset the GPU; replace the instance if it recurs", (74,)),
    "RESTART_VM": ("reboot", "reboot the instance", (151,)),
    "BOOT_AGAIN": ("reboot", "enable ECC, or reboot the instance", (168,)),
    "RESTART_BM": ("reboot", "stop and start the instance, so that it comes up on another host", (79,)),
    "CHECK_MECHANICALS": ("isolate", "replace the instance: power does not reach the GPU", (54,)),
}
# The text of these errors shows whether they are fatal; a later Xid 154 on the same GPU names the action.
REFERS_TO_154 = "WORKFLOW_NVLINK5_ERR"
_BY_CODE = {code: bucket for bucket, (_severity, _action, codes) in BUCKETS.items() for code in codes}

# The recovery action in the text of Xid 154 and in nvidia-smi's gpu_recovery_action, the latter also in its own
# spelling (NVML's nvmlDeviceGpuRecoveryAction_t); the first match is used.
RECOVERY_ACTIONS: tuple[tuple[str, str], ...] = (
    (r"reboot", "reboot"),
    (r"reset|drain|imex", "reset"),
    (r"none", "none"),
)


def recovery_severity(action: str) -> str:
    """Return the severity of a recovery action of the driver; monitor if unknown."""
    for pattern, severity in RECOVERY_ACTIONS:
        if re.search(pattern, action, re.IGNORECASE):
            return severity
    return "monitor"


def classify(code: int, text: str = "") -> dict[str, Any]:
    """Return {code, bucket, severity, action} of one Xid; the rest of its line determines Xid 154 and NVLink.

    A code that is not in the catalog has the bucket UNKNOWN and severity monitor.
    """
    bucket = _BY_CODE.get(code, "UNKNOWN")
    severity, action, _codes = BUCKETS.get(bucket, ("monitor", "read NVIDIA's catalog", ()))
    if code == 154:
        changed = re.search(r"\bto 0x[0-9a-f]+ \(([^()]{1,60})\)", text)
        severity = recovery_severity(changed.group(1)) if changed else "monitor"
        action = changed.group(1) if changed else action
    if bucket == REFERS_TO_154 and re.search(r"\bFatal\b", text):
        severity, action = "reset", "reset the GPU"
    return {"code": code, "bucket": bucket, "severity": severity, "action": action}
