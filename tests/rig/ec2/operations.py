# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operations of EC2's query API over the hosts of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

from . import query, types
from .hosts import STATES, Host, capacity_block
from .scenario import Region, Scenario
from .wire import Answer, ApiError, ec2, xml

Parameters = dict[str, str]
DAY = "%Y-%m-%dT%H:%M:%S.000Z"


class Regional:
    """The view of one account on one region."""

    def __init__(self, scenario: Scenario, region: Region, hosts: list[Host]) -> None:
        self.scenario, self.region, self.hosts = scenario, region, hosts
        self.looks = 0
        self._pages: dict[Any, Answer] = {}

    def instances(self, parameters: Parameters) -> Answer:
        """DescribeInstances; a request without a token starts a new listing."""
        wanted, ids = query.filters(parameters), query.ids_or_pages(parameters, 1000)
        if query.page_number(parameters) == 0:
            self.looks += 1
        later = self.looks > 1
        key = (later, tuple(sorted((k, v) for k, v in parameters.items() if k not in ("Version", "Action"))))
        if key not in self._pages:
            hosts = query.by_id(self.hosts, ids) if ids else self.hosts
            found = [host for host in hosts if query.matches(host, wanted, later)]
            self._pages[key] = self._reservations(*query.page(found, parameters, self.scenario.page_size), later)
        return self._pages[key]

    def _reservations(self, hosts: list[Host], token: Any, later: bool) -> Answer:
        grouped: dict[str, list[Host]] = {}
        for host in hosts:
            grouped.setdefault(host.reservation, []).append(host)
        text = "".join(
            f"<item><reservationId>{name}</reservationId><ownerId>{members[0].fleet.account}</ownerId><groupSet/>"
            f"<instancesSet>{''.join(host.xml(later) for host in members)}</instancesSet></item>"
            for name, members in grouped.items()
        )
        body = f"<reservationSet>{text}</reservationSet>"
        return ec2("DescribeInstances", body + xml({"nextToken": token}))

    def status(self, parameters: Parameters) -> Answer:
        """DescribeInstanceStatus."""
        ids = query.ids_or_pages(parameters, 100)
        hosts = query.by_id(self.hosts, ids) if ids else self.hosts
        if parameters.get("IncludeAllInstances") != "true":
            hosts = [host for host in hosts if host.fleet.state == "running"]
        found = [host for host in hosts if query.matches(host, query.filters(parameters), False)]
        chosen, token = query.page(found, parameters, self.scenario.page_size)
        items = [_status(host) for host in chosen]
        return ec2("DescribeInstanceStatus", xml({"instanceStatusSet": items, "nextToken": token}))

    def topology(self, parameters: Parameters) -> Answer:
        """DescribeInstanceTopology: running instances of types with a topology."""
        ids, groups = query.ids_or_pages(parameters, 100), query.members(parameters, "GroupName")
        if len(groups) > 100 or int(parameters.get("MaxResults", "20")) > 100:
            raise ApiError("InvalidParameterValue", "At most 100 group names or results can be asked for at once")
        wanted = query.filters(parameters)
        if set(wanted) - {"availability-zone", "zone-id", "instance-type"}:
            raise ApiError("InvalidParameterValue", f"The filter '{min(wanted)}' is invalid")
        hosts = query.by_id(self.hosts, ids) if ids else self.hosts
        found = [
            host
            for host in hosts
            if host.fleet.state == "running"
            and host.fleet.type in types.TOPOLOGY_TYPES
            and (not groups or host.fleet.placement_group in groups)
            and query.matches(host, wanted, False)
        ]
        chosen, token = query.page(found, parameters, 100 if ids or "MaxResults" in parameters else 20, smallest=1)
        return ec2("DescribeInstanceTopology", xml({"instanceSet": [_topology(h) for h in chosen], "nextToken": token}))

    def instance_types(self, parameters: Parameters) -> Answer:
        """DescribeInstanceTypes."""
        names = query.members(parameters, "InstanceType")
        if names and "MaxResults" in parameters:
            raise ApiError("InvalidParameterCombination", "InstanceTypes cannot be used with MaxResults")
        if len(names) > 100:
            raise ApiError("InvalidParameterValue", "At most 100 instance types can be asked for at once")
        unknown = sorted(set(names) - set(types.KINDS))
        if unknown:
            raise ApiError("InvalidInstanceType", f"The following supplied instance types do not exist: {unknown}")
        for name, patterns in query.filters(parameters).items():
            if name != "instance-type":
                raise ApiError("InvalidParameterValue", f"The filter '{name}' is invalid")
            names = names + [kind for kind in types.KINDS if kind in patterns]
        chosen, token = query.page(names or list(types.KINDS), parameters, 100)
        return ec2(
            "DescribeInstanceTypes", xml({"instanceTypeSet": [types.describe(k) for k in chosen], "nextToken": token})
        )

    def reservations(self, parameters: Parameters) -> Answer:
        """DescribeCapacityReservations."""
        ids = query.members(parameters, "CapacityReservationId")
        found: dict[str, dict[str, Any]] = {}
        for host in self.hosts:
            name = host.fleet.reservation
            if name and (not ids or name in ids):
                found.setdefault(name, _capacity(host))["totalInstanceCount"] += 1
        missing = sorted(set(ids) - set(found))
        if missing:
            text = f"The capacity reservation '{missing[0]}' does not exist"
            raise ApiError("InvalidCapacityReservationId.NotFound", text)
        chosen, token = query.page(list(found.values()), parameters, self.scenario.page_size, smallest=1)
        return ec2("DescribeCapacityReservations", xml({"capacityReservationSet": chosen, "nextToken": token}))

    def blocks(self, parameters: Parameters) -> Answer:
        """DescribeCapacityBlocks."""
        ids = query.members(parameters, "CapacityBlockId")
        found: dict[str, dict[str, Any]] = {}
        for host in self.hosts:
            name = capacity_block(host.fleet)
            if name and (not ids or name in ids):
                found.setdefault(name, _block(name, host))
        chosen, token = query.page(list(found.values()), parameters, self.scenario.page_size, smallest=1)
        return ec2("DescribeCapacityBlocks", xml({"capacityBlockSet": chosen, "nextToken": token}))

    def regions(self, parameters: Parameters) -> Answer:
        """DescribeRegions: the enabled regions, or all."""
        shown = self.scenario.regions
        if parameters.get("AllRegions") != "true":
            shown = tuple(region for region in shown if region.opt_in != "not-opted-in")
        statuses = query.filters(parameters).get("opt-in-status")
        items = [
            {
                "regionName": region.name,
                "regionEndpoint": f"ec2.{region.name}.amazonaws.com",
                "optInStatus": region.opt_in,
            }
            for region in shown
            if statuses is None or region.opt_in in statuses
        ]
        return ec2("DescribeRegions", xml({"regionInfo": items}))


OPERATIONS: dict[str, Callable[[Regional, Parameters], Answer]] = {
    "DescribeInstances": Regional.instances,
    "DescribeInstanceStatus": Regional.status,
    "DescribeInstanceTopology": Regional.topology,
    "DescribeInstanceTypes": Regional.instance_types,
    "DescribeCapacityReservations": Regional.reservations,
    "DescribeCapacityBlocks": Regional.blocks,
    "DescribeRegions": Regional.regions,
}


def _check(status: str) -> dict[str, Any]:
    detail = {"ok": "passed", "impaired": "failed"}.get(status, status)
    return {"status": status, "details": [{"name": "reachability", "status": detail}]}


def _status(host: Host) -> dict[str, Any]:
    running = host.fleet.state == "running"
    healthy = "ok" if running else "not-applicable"
    answer: dict[str, Any] = {
        "instanceId": host.id,
        "availabilityZone": host.zone,
        "availabilityZoneId": host.zone_id,
        "instanceState": {"code": STATES[host.fleet.state], "name": host.fleet.state},
        "systemStatus": _check(healthy),
        "instanceStatus": _check(host.fleet.health if running else healthy),
        "attachedEbsStatus": _check(healthy),
        "operator": {"managed": False},
    }
    if host.fleet.event:
        event = {
            "instanceEventId": f"instance-event-{host.id[2:]}",
            "code": host.fleet.event,
            "description": "The instance is running on degraded hardware",
            "notBefore": "2026-12-04T00:00:00.000Z",
            "notAfter": "2026-12-04T02:00:00.000Z",
        }
        answer["eventsSet"] = [event]
    return answer


def _topology(host: Host) -> dict[str, Any]:
    return {
        "instanceId": host.id,
        "instanceType": host.fleet.type,
        "groupName": host.fleet.placement_group or None,
        "networkNodeSet": host.network_nodes,
        "availabilityZone": host.zone,
        "zoneId": host.zone_id,
        "capacityBlockId": capacity_block(host.fleet),
    }


def block_end(days: int) -> str:
    """Return the end of a capacity block with these days left; blocks end at 11:30 UTC."""
    end = datetime(2026, 11, 20, 11, 30, tzinfo=timezone.utc) + timedelta(days=days)
    return end.strftime(DAY)


def _capacity(host: Host) -> dict[str, Any]:
    fleet = host.fleet
    limited = fleet.block_days_left is not None
    return {
        "capacityReservationId": fleet.reservation,
        "ownerId": fleet.account,
        "capacityReservationArn": f"arn:aws:ec2:{host.region}:{fleet.account}:capacity-reservation/{fleet.reservation}",
        "availabilityZoneId": host.zone_id,
        "instanceType": fleet.type,
        "instancePlatform": "Linux/UNIX",
        "availabilityZone": host.zone,
        "tenancy": "default",
        "totalInstanceCount": 0,
        "availableInstanceCount": 0,
        "ebsOptimized": True,
        "ephemeralStorage": False,
        "state": "active",
        "startDate": "2026-11-20T11:30:00.000Z",
        "endDate": block_end(fleet.block_days_left or 0) if limited else None,
        "endDateType": "limited" if limited else "unlimited",
        "instanceMatchCriteria": "targeted",
        "createDate": "2026-11-19T08:00:00.000Z",
        "reservationType": "capacity-block" if limited else "default",
        "capacityBlockId": capacity_block(fleet),
    }


def _block(name: str, host: Host) -> dict[str, Any]:
    return {
        "capacityBlockId": name,
        "availabilityZone": host.zone,
        "availabilityZoneId": host.zone_id,
        "capacityReservationIdSet": [host.fleet.reservation],
        "startDate": "2026-11-20T11:30:00.000Z",
        "endDate": block_end(host.fleet.block_days_left or 0),
        "createDate": "2026-11-19T08:00:00.000Z",
        "state": "active",
    }
