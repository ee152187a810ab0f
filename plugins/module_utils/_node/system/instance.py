# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The type of this machine, from its firmware and the table of instance types."""

from __future__ import annotations

import re

from ..._data import instance_types
from .host import Host


def instance_type(host: Host, sysfs: str = "/sys") -> str | None:
    """Return the EC2 instance type from the firmware tables, without asking the network; None on other machines."""
    vendor = (host.read_text(f"{sysfs}/class/dmi/id/sys_vendor") or "").strip()
    product = (host.read_text(f"{sysfs}/class/dmi/id/product_name") or "").strip()
    return product if vendor == "Amazon EC2" and re.fullmatch(r"[a-z0-9-]+\.[a-z0-9-]+", product) else None


def instance_id(host: Host) -> str | None:
    """Return the id of this EC2 instance from the firmware tables; None where they have none."""
    asset_tag = (host.read_text("/sys/class/dmi/id/board_asset_tag") or "").strip()
    return asset_tag if re.fullmatch(r"i-[0-9a-f]{8,17}", asset_tag) else None


def table_disks(instance_type: str | None) -> int | None:
    """Return the number of instance-store disks of the instance type; None for an unknown type."""
    known = instance_types.lookup(instance_type) if instance_type else None
    return known["instance_store"]["count"] if known else None
