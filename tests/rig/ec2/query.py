# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters, lists and pages of EC2's query API, with EC2's limits and errors."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from typing import Any, Optional

from .hosts import Host
from .wire import ApiError, identifier

FILTER_VALUES = 200
READERS: dict[str, Callable[[Host], Any]] = {
    "architecture": lambda host: "x86_64",
    "availability-zone": lambda host: host.zone,
    "availability-zone-id": lambda host: host.zone_id,
    "capacity-reservation-id": lambda host: host.fleet.reservation,
    "instance-id": lambda host: host.id,
    "instance-lifecycle": lambda host: host.fleet.lifecycle,
    "instance-state-name": lambda host: host.fleet.state,
    "instance-type": lambda host: host.fleet.type,
    "owner-id": lambda host: host.fleet.account,
    "placement-group-name": lambda host: host.fleet.placement_group,
    "private-dns-name": lambda host: host.private_dns,
    "private-ip-address": lambda host: host.ip,
    "ip-address": lambda host: host.public_ip,
    "reservation-id": lambda host: host.reservation,
    "subnet-id": lambda host: identifier("subnet-0", host.zone, digits=16),
    "vpc-id": lambda host: identifier("vpc-0", host.region, digits=16),
    "zone-id": lambda host: host.zone_id,
}


def members(parameters: dict[str, str], name: str) -> list[str]:
    """Return the values of ``Name.1``, ``Name.2`` … in order."""
    found = []
    for key, value in parameters.items():
        matched = re.fullmatch(rf"{re.escape(name)}\.(\d+)", key)
        if matched:
            found.append((int(matched.group(1)), value))
    return [value for _number, value in sorted(found)]


def filters(parameters: dict[str, str]) -> dict[str, list[str]]:
    """Return the filters of a request. Raises ApiError above 200 values, as EC2 does."""
    wanted: dict[str, list[str]] = {}
    for key, name in parameters.items():
        matched = re.fullmatch(r"Filter\.(\d+)\.Name", key)
        if matched:
            wanted.setdefault(name, []).extend(members(parameters, f"Filter.{matched.group(1)}.Value"))
    if sum(map(len, wanted.values())) > FILTER_VALUES:
        text = f"The maximum number of filter values specified on a single call is {FILTER_VALUES}"
        raise ApiError("FilterLimitExceeded", text)
    return wanted


def _like(value: str, patterns: list[str]) -> bool:
    # EC2 supports * and ? only; brackets are plain characters.
    return any(fnmatch.fnmatchcase(value, pattern.replace("[", "[[]")) for pattern in patterns)


def matches(host: Host, wanted: dict[str, list[str]], later: bool) -> bool:
    """Return whether a host passes all filters. Raises ApiError for a filter that EC2 does not know."""
    tags = host.tags_at(later)
    for name, patterns in wanted.items():
        if name.startswith("tag:"):
            passed = name[4:] in tags and _like(tags[name[4:]], patterns)
        elif name == "tag-key":
            passed = any(_like(key, patterns) for key in tags)
        elif name in READERS:
            passed = _like(READERS[name](host), patterns)
        else:
            raise ApiError("InvalidParameterValue", f"The filter '{name}' is invalid")
        if not passed:
            return False
    return True


def by_id(hosts: Sequence[Host], wanted: list[str]) -> list[Host]:
    """Return the hosts of these ids. Raises ApiError when one does not exist."""
    known = {host.id: host for host in hosts}
    missing = [name for name in wanted if name not in known]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        verb = "do" if plural else "does"
        text = f"The instance ID{plural} '{', '.join(missing)}' {verb} not exist"
        raise ApiError("InvalidInstanceID.NotFound", text)
    return [known[name] for name in wanted]


def page_number(parameters: dict[str, str]) -> int:
    """Return the number of the requested page, from 0. Raises ApiError for an unknown token."""
    token = parameters.get("NextToken", "")
    if not token:
        return 0
    matched = re.fullmatch(r"page-(\d+)", token)
    if not matched:
        raise ApiError("InvalidParameterValue", f"Invalid value '{token}' for NextToken")
    return int(matched.group(1))


def page(
    items: Sequence[Any], parameters: dict[str, str], largest: int, smallest: int = 5
) -> tuple[list[Any], Optional[str]]:
    """Return the items of the requested page and the next page's token. Raises ApiError for a bad MaxResults."""
    size = largest
    if "MaxResults" in parameters:
        size = int(parameters["MaxResults"])
        if not smallest <= size <= 1000:
            expected = f"Expecting a value between {smallest} and 1000."
            text = f"Value ( {size} ) for parameter maxResults is invalid. {expected}"
            raise ApiError("InvalidParameterValue", text)
        size = min(size, largest)
    number = page_number(parameters)
    begin = number * size
    following = f"page-{number + 1}" if begin + size < len(items) else None
    return list(items[begin : begin + size]), following


def ids_or_pages(parameters: dict[str, str], most: int) -> list[str]:
    """Return the instance ids of a request. Raises ApiError for ids with MaxResults, or for more than ``most``."""
    ids = members(parameters, "InstanceId")
    if ids and "MaxResults" in parameters:
        text = "The parameter instancesSet cannot be used with the parameter maxResults"
        raise ApiError("InvalidParameterCombination", text)
    if len(ids) > most:
        raise ApiError("InvalidParameterValue", f"The number of instance IDs ({len(ids)}) exceeds the limit of {most}")
    return ids
