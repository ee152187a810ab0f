# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances of a region, expanded from its fleets, and their shape in DescribeInstances."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from . import types
from .scenario import Fleet, Region
from .wire import identifier, xml

LAUNCH = "2026-11-20T10:11:12.000Z"
STATES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


@dataclass
class Host:
    """An instance; ``xml`` returns its item of DescribeInstances with the tags of the first or a later request."""

    id: str
    region: str
    fleet: Fleet
    index: int
    number: int
    reservation: str
    ip: str
    tags: dict[str, str]
    tags_later: Optional[dict[str, str]] = None
    _xml: dict[bool, str] = field(default_factory=dict)

    @property
    def zone(self) -> str:
        return f"{self.region}{self.fleet.zone}"

    @property
    def zone_id(self) -> str:
        """Return the ID of the zone, such as use1-az1 for us-east-1a."""
        area, direction, number = self.region.split("-")[0], self.region.split("-")[1], self.region.split("-")[-1]
        short = "".join(word[0] for word in ("north", "south", "east", "west", "central") if word in direction)
        return f"{area}{short}{number}-az{ord(self.fleet.zone) - ord('a') + 1}"

    @property
    def has_addresses(self) -> bool:
        return self.fleet.state not in ("terminated", "shutting-down")

    @property
    def private_dns(self) -> str:
        if not self.has_addresses:
            return ""
        domain = "ec2.internal" if self.region == "us-east-1" else f"{self.region}.compute.internal"
        return f"ip-{self.ip.replace('.', '-')}.{domain}"

    @property
    def public_ip(self) -> str:
        return "54" + self.ip[2:] if self.fleet.public and self.has_addresses and self.fleet.state == "running" else ""

    @property
    def node_name(self) -> str:
        """Return the node's name in Slurm, which no tag has."""
        kind = "st" if self.fleet.static else "dy"
        return f"{self.fleet.queue}-{kind}-{self.fleet.compute_resource}-{self.number + 1}"

    @property
    def network_nodes(self) -> list[str]:
        """Return the three layers of the topology, the top one first."""
        leaf = self.index // self.fleet.leaf
        layers = (("top", 16), ("middle", 4), ("leaf", 1))
        return [identifier("nn-", self.region, layer, leaf // size) for layer, size in layers]

    def tags_at(self, later: bool) -> dict[str, str]:
        """Return the tags at the first request, or at a later one."""
        return self.tags_later if later and self.tags_later is not None else self.tags

    def xml(self, later: bool = False) -> str:
        """Return the item of the instance, which is made once."""
        if later not in self._xml:
            self._xml[later] = f"<item>{xml(shape(self, later))}</item>"
        return self._xml[later]


def _tags(fleet: Fleet) -> dict[str, str]:
    if not fleet.cluster:
        return {**({"Name": fleet.name} if fleet.name is not None else {}), **fleet.tags}
    tags = {
        "Name": fleet.name if fleet.name is not None else fleet.role,
        "parallelcluster:cluster-name": fleet.cluster,
        "parallelcluster:node-type": fleet.role,
        "parallelcluster:version": "3.13.0",
        "parallelcluster:attributes": "ubuntu2204, slurm, 3.13.0, x86_64",
        "parallelcluster:networking": "EFA=true" if types.KINDS[fleet.type].efa > 1 else "EFA=NONE",
        "parallelcluster:filesystem": "efs=1, multiebs=1, raid=0, fsx=1",
        "aws:ec2launchtemplate:id": identifier("lt-", fleet.cluster, fleet.queue, fleet.compute_resource),
        "aws:ec2launchtemplate:version": "1",
    }
    if fleet.queue:
        tags["parallelcluster:queue-name"] = fleet.queue
        tags["parallelcluster:compute-resource-name"] = fleet.compute_resource
    return {**tags, **fleet.tags}


def expand(region: Region) -> list[Host]:
    """Return the instances of a region in the order of its fleets, with fixed ids and addresses."""
    hosts: list[Host] = []
    for order, fleet in enumerate(region.fleets):
        tags = _tags(fleet)
        later = {**tags, **fleet.tags_later} if fleet.tags_later else None
        for number in range(fleet.count):
            index = len(hosts)
            low = index + 4
            group = number // fleet.per_reservation
            hosts.append(
                Host(
                    id=identifier("i-0", region.name, index, digits=16),
                    region=region.name,
                    fleet=fleet,
                    index=index,
                    number=number,
                    reservation=identifier("r-0", region.name, order, group, digits=16),
                    ip=f"10.{low >> 16}.{(low >> 8) & 255}.{low & 255}",
                    tags=tags,
                    tags_later=later,
                )
            )
    return hosts


def _interface(host: Host, number: int, kind: str) -> dict[str, Any]:
    eni = identifier("eni-0", host.id, number, digits=16)
    first, rest = host.ip.split(".", 1)
    address = host.ip if number == 0 else f"{first}.{100 + number}.{rest.split('.', 1)[1]}"
    domain = host.private_dns.split(".", 1)[1]
    name = f"ip-{address.replace('.', '-')}.{domain}"
    association = None
    if number == 0 and host.public_ip:
        association = {"publicIp": host.public_ip, "publicDnsName": public_dns(host), "ipOwnerId": "amazon"}
    addressed = kind != "efa-only"
    one = {"privateIpAddress": address, "privateDnsName": name, "primary": True, "association": association}
    return {
        "networkInterfaceId": eni,
        "subnetId": identifier("subnet-0", host.zone, digits=16),
        "vpcId": identifier("vpc-0", host.region, digits=16),
        "description": "",
        "ownerId": host.fleet.account,
        "status": "in-use",
        "macAddress": "0a:" + (host.index << 16 | number).to_bytes(5, "big").hex(":"),
        "privateIpAddress": address if addressed else None,
        "privateDnsName": name if addressed else None,
        "sourceDestCheck": True,
        "groupSet": [{"groupId": identifier("sg-0", host.region, "nodes", digits=16), "groupName": "nodes"}],
        "attachment": {
            "attachmentId": identifier("eni-attach-0", host.id, number, digits=16),
            "deviceIndex": 0 if number == 0 else 1,
            "networkCardIndex": number,
            "status": "attached",
            "attachTime": LAUNCH,
            "deleteOnTermination": True,
        },
        "association": association,
        "privateIpAddressesSet": [one] if addressed else [],
        "ipv6AddressesSet": [{"ipv6Address": ipv6(host)}] if host.fleet.ipv6 and number == 0 else [],
        "interfaceType": kind,
        "operator": {"managed": False},
    }


def ipv6(host: Host) -> str:
    """Return the global IPv6 address of a host."""
    return f"2600:1f18::{host.index + 4:x}"


def public_dns(host: Host) -> str:
    """Return the DNS name of the public address."""
    zone = "compute-1" if host.region == "us-east-1" else f"{host.region}.compute"
    return f"ec2-{host.public_ip.replace('.', '-')}.{zone}.amazonaws.com"


def interfaces(host: Host) -> list[dict[str, Any]]:
    """Return the attached network interfaces; all but the first on a card are for EFA traffic only."""
    if not host.has_addresses:
        return []
    kind = types.KINDS[host.fleet.type]
    count = kind.cards if host.fleet.interfaces is None else host.fleet.interfaces
    efa = kind.efa if host.fleet.efa is None else host.fleet.efa
    first = "efa" if efa else "interface"
    others = ["efa-only" if number < efa else "interface" for number in range(1, count)]
    return [_interface(host, number, name) for number, name in enumerate([first, *others])]


def _placement(host: Host) -> dict[str, Any]:
    group = host.fleet.placement_group
    return {
        "availabilityZone": host.zone,
        "availabilityZoneId": host.zone_id,
        "groupName": group,
        "groupId": identifier("pg-0", group, digits=16) if group else None,
        "tenancy": "default",
    }


def capacity_block(fleet: Fleet) -> Optional[str]:
    """Return the id of the capacity block of a fleet's reservation."""
    return identifier("cb-0", fleet.reservation, digits=16) if fleet.block_days_left is not None else None


def _identity(host: Host) -> dict[str, Any]:
    running = host.has_addresses
    return {
        "instanceId": host.id,
        "imageId": identifier("ami-0", "image", digits=16),
        "instanceState": {"code": STATES[host.fleet.state], "name": host.fleet.state},
        "privateDnsName": host.private_dns,
        "dnsName": public_dns(host) if host.public_ip else "",
        "reason": "" if host.fleet.state in ("running", "pending") else f"User initiated ({LAUNCH[:19]} GMT)",
        "keyName": "ml-key",
        "amiLaunchIndex": host.number % host.fleet.per_reservation,
        "productCodes": [],
        "instanceType": host.fleet.type,
        "launchTime": LAUNCH,
        "placement": _placement(host),
        "monitoring": {"state": "disabled"},
        "subnetId": identifier("subnet-0", host.zone, digits=16) if running else None,
        "vpcId": identifier("vpc-0", host.region, digits=16) if running else None,
        "privateIpAddress": host.ip if running else None,
        "ipAddress": host.public_ip or None,
        "ipv6Address": ipv6(host) if host.fleet.ipv6 and running else None,
        "sourceDestCheck": True if running else None,
        "groupSet": [{"groupId": identifier("sg-0", host.region, "nodes", digits=16), "groupName": "nodes"}]
        if running
        else [],
    }


def shape(host: Host, later: bool = False) -> dict[str, Any]:
    """Return the instance by wire names, in the order of EC2's response."""
    fleet, kind = host.fleet, types.KINDS[host.fleet.type]
    volume = {
        "volumeId": identifier("vol-0", host.id, digits=16),
        "status": "attached",
        "attachTime": LAUNCH,
        "deleteOnTermination": True,
    }
    profile = f"arn:aws:iam::{fleet.account}:instance-profile/nodes"
    return {
        **_identity(host),
        "architecture": kind.arch,
        "rootDeviceType": "ebs",
        "rootDeviceName": "/dev/sda1",
        "blockDeviceMapping": [{"deviceName": "/dev/sda1", "ebs": volume}] if host.has_addresses else [],
        "virtualizationType": "hvm",
        "clientToken": identifier("", host.id, "token", digits=36),
        "tagSet": [{"key": key, "value": value} for key, value in host.tags_at(later).items()],
        "hypervisor": "xen",
        "networkInterfaceSet": interfaces(host),
        "iamInstanceProfile": {"arn": profile, "id": identifier("AIPA", "profile").upper()},
        "instanceLifecycle": fleet.lifecycle or None,
        "ebsOptimized": False,
        "enaSupport": True,
        "cpuOptions": {"coreCount": kind.vcpus // kind.threads, "threadsPerCore": 1},
        "capacityReservationId": fleet.reservation or None,
        "capacityBlockId": capacity_block(fleet),
        "capacityReservationSpecification": {"capacityReservationPreference": "open"},
        "hibernationOptions": {"configured": False},
        "enclaveOptions": {"enabled": False},
        "metadataOptions": {
            "state": "applied",
            "httpTokens": "required",
            "httpPutResponseHopLimit": 1,
            "httpEndpoint": "enabled",
            "httpProtocolIpv6": "disabled",
            "instanceMetadataTags": "disabled",
        },
        "maintenanceOptions": {"autoRecovery": "default", "rebootMigration": "default"},
        "currentInstanceBootMode": "uefi",
        "platformDetails": "Linux/UNIX",
        "usageOperation": "RunInstances",
        "usageOperationUpdateTime": LAUNCH,
        "privateDnsNameOptions": {
            "hostnameType": "ip-name",
            "enableResourceNameDnsARecord": False,
            "enableResourceNameDnsAAAARecord": False,
        },
        "networkPerformanceOptions": {"bandwidthWeighting": "default"},
        "operator": {"managed": False},
    }
