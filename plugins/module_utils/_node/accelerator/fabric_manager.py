# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the GPUs of a machine are joined by NVSwitches, which need NVIDIA's fabric manager."""

from __future__ import annotations

import typing as t

# GPUs whose 8-GPU machines have NVSwitch (EC2 documentation of P4d, P5 and P6); one such GPU alone has none.
NVSWITCH_GPUS = ("A100", "H100", "H200", "B200", "B300")
NVSWITCH_COUNT = 8


def joined_by_nvswitch(chips: t.Mapping[str, t.Any] | None) -> bool:
    """Whether a type with these accelerators has its GPUs joined by NVSwitches."""
    return bool(chips and chips["name"] in NVSWITCH_GPUS and chips["count"] >= NVSWITCH_COUNT)
