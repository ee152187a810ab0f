# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cuts from the XML answer of DescribeInstances what the inventory never shows, before botocore parses it.

The XML parse is the largest single cost of a fetch, and it grows with the network interfaces: a p5.48xlarge
has 32 of them, 35 kB of XML that end up as two numbers.
"""

from __future__ import annotations

import re
from typing import Any

EVENT = "before-parse.ec2.DescribeInstances"

_DROPPED = (
    b"blockDeviceMapping",
    b"capacityReservationSpecification",
    b"cpuOptions",
    b"enclaveOptions",
    b"groupSet",
    b"hibernationOptions",
    b"iamInstanceProfile",
    b"licenseSet",
    b"maintenanceOptions",
    b"metadataOptions",
    b"monitoring",
    b"networkPerformanceOptions",
    b"operator",
    b"privateDnsNameOptions",
    b"productCodes",
)
_ELEMENTS = re.compile(b"<(" + b"|".join(_DROPPED) + rb")>.*?</\1>", re.DOTALL)
_SCALARS = re.compile(
    b"<(amiLaunchIndex|architecture|clientToken|currentInstanceBootMode|dnsName|ebsOptimized|enaSupport|hypervisor"
    b"|keyName|platformDetails|rootDeviceName|rootDeviceType|sourceDestCheck|usageOperation"
    rb"|usageOperationUpdateTime|virtualizationType|reservationId|reason)>[^<]*</\1>"
)
_INTERFACES = re.compile(rb"<networkInterfaceSet>(.*?)</networkInterfaceSet>", re.DOTALL)
_KIND = re.compile(rb"<interfaceType>[^<]*</interfaceType>")


def _only_kinds(found: re.Match[bytes]) -> bytes:
    body = found.group(1)
    kinds = _KIND.findall(body)
    if len(kinds) != body.count(b"<networkInterfaceId>"):
        # Not the shape that is known: leave it to the real parser.
        return found.group(0)
    items = b"".join(b"<item>" + kind + b"</item>" for kind in kinds)
    return b"<networkInterfaceSet>" + items + b"</networkInterfaceSet>"


def trim(body: bytes) -> bytes:
    """The same answer without the dropped elements; each network interface keeps nothing but its type.

    Text in the answer cannot be mistaken for an element: XML escapes every ``<`` in it.
    """
    body = _INTERFACES.sub(_only_kinds, body)
    return _SCALARS.sub(b"", _ELEMENTS.sub(b"", body))


def before_parse(response_dict: dict[str, Any], **_kwargs: Any) -> None:
    """Handler of the botocore event ``before-parse``; leaves error answers alone."""
    body = response_dict.get("body")
    if response_dict.get("status_code") == 200 and isinstance(body, bytes):
        response_dict["body"] = trim(body)
