# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide whether NVSwitches join the GPUs of a machine, which need NVIDIA's fabric manager."""

from __future__ import annotations

import typing as t

from ..._data.nvlink import SWITCHED, SWITCHED_COUNT


def joined_by_nvswitch(chips: t.Mapping[str, t.Any] | None) -> bool:
    """Return whether a type with these accelerators has its GPUs joined by NVSwitches."""
    return bool(chips and chips["name"] in SWITCHED and chips["count"] >= SWITCHED_COUNT)
