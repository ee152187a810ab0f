# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The instance types of a region, and EC2's data on requested ones."""

from __future__ import annotations

import typing as t

from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws


def look(ec2: t.Any, wanted: t.Sequence[str], zone: str) -> dict[str, t.Any]:
    """Return ``offered`` in the zone, or in the region without one; ``types``, DescribeInstanceTypes by name."""
    place: dict[str, t.Any] = {"LocationType": "region"}
    if zone:
        place = {"LocationType": "availability-zone", "Filters": [{"Name": "location", "Values": [zone]}]}
    entries = aws.pages(ec2.describe_instance_type_offerings, "InstanceTypeOfferings", **place)
    offered = sorted({entry["InstanceType"] for entry in entries})
    offered_types = [name for name in dict.fromkeys(wanted) if name in offered]
    types = (
        aws.pages(ec2.describe_instance_types, "InstanceTypes", InstanceTypes=offered_types) if offered_types else []
    )
    return {"offered": offered, "types": {entry["InstanceType"]: entry for entry in types}}
