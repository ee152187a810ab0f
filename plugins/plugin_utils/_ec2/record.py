# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn an instance of DescribeInstances into the flat, JSON-able record that is cached."""

from __future__ import annotations

import datetime
import sys
from typing import Any

EFA_KINDS = ("efa", "efa-only")

# Keys of a record in the order of the documentation; each becomes a host variable.
FIELDS = (
    "instance_id",
    "instance_type",
    "region",
    "availability_zone",
    "availability_zone_id",
    "account_id",
    "vpc_id",
    "subnet_id",
    "image_id",
    "state",
    "launch_time",
    "lifecycle",
    "private_ip_address",
    "public_ip_address",
    "private_dns_name",
    "network_interfaces",
    "capacity_reservation_id",
    "capacity_block_id",
    "placement_group",
    "tags",
    "cluster_name",
    "node_type",
    "queue_name",
    "compute_resource_name",
    "accelerators",
)

# Fields on request only, since their XML costs time, with the elements of the answer that they need.
EXTRAS: dict[str, tuple[bytes, ...]] = {
    "ipv6_address": (),
    "architecture": (b"architecture",),
    "block_devices": (b"blockDeviceMapping",),
    "instance_profile": (b"iamInstanceProfile",),
    "key_name": (b"keyName",),
    "platform_details": (b"platformDetails",),
    "public_dns_name": (b"dnsName",),
    "root_device_name": (b"rootDeviceName",),
    "security_groups": (b"groupSet",),
}

_NODE_TYPES = {
    "headnode": "head",
    "head": "head",
    "controller": "head",
    "compute": "compute",
    "computenode": "compute",
    "worker": "compute",
    "loginnode": "login",
    "login": "login",
}


def iso_time(value: Any) -> str | None:
    """Return ISO 8601 with an offset from an API's string, datetime or epoch seconds; None for None."""
    if value is None:
        return None
    if isinstance(value, (int, float)):
        value = datetime.datetime.fromtimestamp(value, tz=datetime.timezone.utc)
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    text = str(value)
    if text.endswith("Z"):
        return text[:-1].removesuffix(".000") + "+00:00"
    return text


def node_type(value: str | None) -> str | None:
    """Return ``head``, ``compute`` or ``login`` from the node-type tag, None for anything else."""
    return _NODE_TYPES.get(value.strip().lower()) if value else None


def plain(value: Any) -> Any:
    """Return a copy of dict, list, str, int, float, bool and None only, with times as ISO strings."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, datetime.datetime):
        return iso_time(value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def extras(instance: dict[str, Any]) -> dict[str, Any]:
    """Return every field of EXTRAS except ``ipv6_address``, which all records have."""
    return {
        "architecture": instance.get("Architecture"),
        "block_devices": [
            {
                "device_name": device.get("DeviceName"),
                "volume_id": device.get("Ebs", {}).get("VolumeId"),
                "delete_on_termination": device.get("Ebs", {}).get("DeleteOnTermination"),
            }
            for device in instance.get("BlockDeviceMappings", ())
        ],
        "instance_profile": instance.get("IamInstanceProfile", {}).get("Arn"),
        "key_name": instance.get("KeyName"),
        "platform_details": instance.get("PlatformDetails"),
        "public_dns_name": instance.get("PublicDnsName") or None,
        "root_device_name": instance.get("RootDeviceName"),
        "security_groups": [
            {"id": group.get("GroupId"), "name": group.get("GroupName")} for group in instance.get("SecurityGroups", ())
        ],
    }


def make(
    instance: dict[str, Any], owner: str | None, region: str, tag_keys: dict[str, str], default_node_type: str | None
) -> dict[str, Any]:
    """Return the record of one instance.

    ``instance`` is one entry of ``Instances`` as botocore returns it, ``owner`` the OwnerId of its reservation,
    ``tag_keys`` maps cluster, node_type, queue and compute_resource to names of tags. Keys are FIELDS without
    ``accelerators``, plus ``ipv6_address`` and ``efa_attached``, the number of EFA interfaces.
    """
    placement = instance.get("Placement", {})
    # All hosts have the same few keys: share them instead of ten thousand copies.
    tags = {sys.intern(tag["Key"]): tag.get("Value", "") for tag in instance.get("Tags", ())}
    kinds = [interface.get("InterfaceType") for interface in instance.get("NetworkInterfaces", ())]
    return {
        "instance_id": instance["InstanceId"],
        "instance_type": instance.get("InstanceType"),
        "region": region,
        "availability_zone": placement.get("AvailabilityZone"),
        "availability_zone_id": placement.get("AvailabilityZoneId"),
        "account_id": owner,
        "vpc_id": instance.get("VpcId"),
        "subnet_id": instance.get("SubnetId"),
        "image_id": instance.get("ImageId"),
        "state": instance.get("State", {}).get("Name"),
        "launch_time": iso_time(instance.get("LaunchTime")),
        "lifecycle": instance.get("InstanceLifecycle") or "on-demand",
        "private_ip_address": instance.get("PrivateIpAddress") or None,
        "public_ip_address": instance.get("PublicIpAddress") or None,
        "ipv6_address": instance.get("Ipv6Address") or None,
        "private_dns_name": instance.get("PrivateDnsName") or None,
        "network_interfaces": len(kinds),
        "efa_attached": sum(kind in EFA_KINDS for kind in kinds),
        "capacity_reservation_id": instance.get("CapacityReservationId"),
        "capacity_block_id": instance.get("CapacityBlockId"),
        "placement_group": placement.get("GroupName") or None,
        "tags": tags,
        "cluster_name": tags.get(tag_keys["cluster"]) or None,
        "node_type": node_type(tags.get(tag_keys["node_type"])) or default_node_type,
        "queue_name": tags.get(tag_keys["queue"]) or None,
        "compute_resource_name": tags.get(tag_keys["compute_resource"]) or None,
    }
