# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cut unused elements from the XML answer of DescribeInstances before botocore parses it.

The XML parse is the largest single cost of a fetch, and it grows with the network interfaces: a p5.48xlarge
has 32 of them, 35 kB of XML that end up as two numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape

from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.record import EXTRAS

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
_SCALARS = (
    b"amiLaunchIndex",
    b"architecture",
    b"clientToken",
    b"currentInstanceBootMode",
    b"dnsName",
    b"ebsOptimized",
    b"enaSupport",
    b"hypervisor",
    b"keyName",
    b"platformDetails",
    b"rootDeviceName",
    b"rootDeviceType",
    b"sourceDestCheck",
    b"usageOperation",
    b"usageOperationUpdateTime",
    b"virtualizationType",
    b"reservationId",
    b"reason",
)
# Elements of fields that only the variables of the same name read.
LONELY = {"image_id": b"imageId", "launch_time": b"launchTime", "subnet_id": b"subnetId", "vpc_id": b"vpcId"}
_TAG = re.compile(rb"<item><key>([^<]*)</key>(?:<value>[^<]*</value>|<value/>)</item>")
_TAGS = re.compile(rb"<tagSet>(.*?)</tagSet>", re.DOTALL)
_INTERFACES = re.compile(rb"<networkInterfaceSet>(.*?)</networkInterfaceSet>", re.DOTALL)
_KIND = re.compile(rb"<interfaceType>[^<]*</interfaceType>")


def _only_kinds(found: re.Match[bytes]) -> bytes:
    body = found.group(1)
    kinds = _KIND.findall(body)
    if len(kinds) != body.count(b"<networkInterfaceId>"):
        # Unknown shape: leave it to botocore's parser.
        return found.group(0)
    items = b"".join(b"<item>" + kind + b"</item>" for kind in kinds)
    return b"<networkInterfaceSet>" + items + b"</networkInterfaceSet>"


class Trim:
    """The cut.

    ``kept`` are fields of ``record.EXTRAS`` to keep, ``unread`` those of ``LONELY`` to cut; ``tags`` are the keys of
    the tags that are read, None for all.
    """

    def __init__(self, kept: Iterable[str] = (), unread: Iterable[str] = (), tags: Iterable[str] | None = None) -> None:
        stay = {element for field in kept for element in EXTRAS[field]}
        elements = b"|".join(name for name in _DROPPED if name not in stay)
        scalars = b"|".join(
            [*(name for name in _SCALARS if name not in stay), *(LONELY[field] for field in unread if field in LONELY)]
        )
        self._keys = None if tags is None else {escape(key).encode() for key in tags}
        self._elements = re.compile(b"<(" + elements + rb")>.*?</\1>", re.DOTALL)
        self._scalars = re.compile(b"<(" + scalars + rb")>[^<]*</\1>")

    def trim(self, body: bytes) -> bytes:
        """Return the answer without the dropped elements; each network interface keeps only its type.

        Text in the answer cannot be mistaken for an element: XML escapes every ``<`` in it.
        """
        body = _INTERFACES.sub(_only_kinds, body)
        if self._keys is not None:
            body = _TAGS.sub(self._only_keys, body)
        return self._scalars.sub(b"", self._elements.sub(b"", body))

    def _only_keys(self, found: re.Match[bytes]) -> bytes:
        items = [item.group(0) for item in _TAG.finditer(found.group(1)) if item.group(1) in (self._keys or ())]
        return b"<tagSet>" + b"".join(items) + b"</tagSet>"

    def before_parse(self, response_dict: dict[str, Any], **_kwargs: Any) -> None:
        """Handle the botocore event ``before-parse``; keeps error answers unchanged."""
        body = response_dict.get("body")
        if response_dict.get("status_code") == 200 and isinstance(body, bytes):
            response_dict["body"] = self.trim(body)
