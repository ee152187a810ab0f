# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVLink of each GPU in the table of instance types.

``LINKS``: NVLinks of one GPU, by NVIDIA's data sheets and architecture papers of these GPUs; of GB200 by Crusoe's
description of its systems in MLPerf inference 6.1, where ``nvidia-smi topo -m`` shows NV18.
``GB_PER_S``: data rate of one link in one direction: the data sheet's rate for all links and both directions, divided
by both; ``nvidia-smi nvlink --status`` prints that or a little more.
``SWITCHED``: GPUs that NVSwitches join on types with ``SWITCHED_COUNT`` of them (EC2 documentation of P4d, P5 and P6).
``WITHOUT``: GPUs that have no NVLink on EC2, with the reason. Each GPU of a type with several GPUs is either in
``LINKS`` or in ``WITHOUT``.
"""

from __future__ import annotations

LINKS: dict[str, int] = {"V100": 6, "A100": 12, "H100": 18, "H200": 18, "B200": 18, "B300": 18, "GB200": 18}
_BOTH_WAYS = {"V100": 300, "A100": 600, "H100": 900, "H200": 900, "B200": 1800, "B300": 1800, "GB200": 1800}
GB_PER_S: dict[str, float] = {name: total / 2 / LINKS[name] for name, total in _BOTH_WAYS.items()}
SWITCHED = ("A100", "H100", "H200", "B200", "B300")
SWITCHED_COUNT = 8
_PCIE = "a PCI Express card without an NVLink connector (NVIDIA's data sheet)"
WITHOUT: dict[str, str] = {
    "T4": _PCIE,
    "T4g": _PCIE,
    "A10G": _PCIE,
    "L4": _PCIE,
    "L40S": _PCIE,
    "RTX PRO 4500": _PCIE,
    "RTX PRO Server 6000": _PCIE,
}
