# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Optional facts: each needs one paged call in a region, and its failure affects nothing else.

Every function takes a client and the records of one region and adds keys to the records. They raise botocore's
errors, and add nothing to a record that is missing in the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.record import iso_time
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.session import code

Records = list[dict[str, Any]]

# DescribeInstanceStatus takes at most this many ids; for more, one listing of the whole region is cheaper.
IDS_PER_CALL = 100
GONE = "InvalidInstanceID.NotFound"
SLURM_TABLE_PREFIX = "parallelcluster-slurm-"


def _pages(client: Any, operation: str, key: str, **request: Any) -> Iterator[dict[str, Any]]:
    for page in client.get_paginator(operation).paginate(**request):
        yield from page.get(key) or ()


def _checks(status: dict[str, Any]) -> dict[str, Any]:
    def summary(name: str) -> str | None:
        return (status.get(name) or {}).get("Status")

    events = [
        {
            "id": event.get("InstanceEventId"),
            "code": event.get("Code"),
            "description": event.get("Description"),
            "not_before": iso_time(event.get("NotBefore")),
            "not_before_deadline": iso_time(event.get("NotBeforeDeadline")),
        }
        for event in status.get("Events") or ()
        # Completed events stay listed for a week; only their text differs.
        if not str(event.get("Description", "")).startswith(("[Completed]", "[Canceled]"))
    ]
    return {
        "system": summary("SystemStatus"),
        "instance": summary("InstanceStatus"),
        "ebs": summary("AttachedEbsStatus"),
        "events": events,
    }


def _statuses(client: Any, include_all: bool, **request: Any) -> dict[str, dict[str, Any]]:
    pages = _pages(client, "describe_instance_status", "InstanceStatuses", IncludeAllInstances=include_all, **request)
    return {status["InstanceId"]: _checks(status) for status in pages}


def health(client: Any, records: Records) -> None:
    """Add ``health``: checks (system, instance, ebs) and scheduled events; None if EC2 reports nothing."""
    ids = [record["instance_id"] for record in records]
    include_all = any(record["state"] != "running" for record in records)
    whole_region = {"PaginationConfig": {"PageSize": 1000}}
    by_id = len(ids) <= IDS_PER_CALL
    try:
        found = _statuses(client, include_all, **({"InstanceIds": ids} if by_id else whole_region))
    except Exception as exc:
        # A terminated instance makes the call by ids fail for all of them.
        if not by_id or code(exc) != GONE:
            raise
        found = _statuses(client, include_all, **whole_region)
    for record in records:
        record["health"] = found.get(record["instance_id"])


def topology(client: Any, records: Records) -> None:
    """Add ``network_nodes``, widest to nearest, and ``topology_path``, which sorts neighbours together."""
    types = sorted({record["instance_type"] for record in records})
    found: dict[str, list[str]] = {}
    for start in range(0, len(types), 200):
        request = {
            "Filters": [{"Name": "instance-type", "Values": types[start : start + 200]}],
            "PaginationConfig": {"PageSize": 100},
        }
        for instance in _pages(client, "describe_instance_topology", "Instances", **request):
            found[instance["InstanceId"]] = list(instance.get("NetworkNodes") or ())
    for record in records:
        nodes = found.get(record["instance_id"], [])
        record["network_nodes"] = nodes
        record["topology_path"] = "/".join(nodes)


def capacity(client: Any, records: Records) -> None:
    """Add ``capacity``: type, state, end (ISO, None for open-ended) of the capacity reservation; None without."""
    found = {
        one["CapacityReservationId"]: {
            "id": one["CapacityReservationId"],
            "type": one.get("ReservationType", "default"),
            "state": one.get("State"),
            "end": iso_time(one.get("EndDate")),
        }
        for one in _pages(
            client, "describe_capacity_reservations", "CapacityReservations", PaginationConfig={"PageSize": 1000}
        )
    }
    for record in records:
        record["capacity"] = found.get(record["capacity_reservation_id"])


def ssm(client: Any, records: Records) -> None:
    """Add ``ssm_ping_status``: Online, ConnectionLost or Inactive; None for a node unknown to Systems Manager."""
    request = {
        "Filters": [{"Key": "ResourceType", "Values": ["EC2Instance"]}],
        "PaginationConfig": {"PageSize": 50},
    }
    found = {
        one["InstanceId"]: one.get("PingStatus")
        for one in _pages(client, "describe_instance_information", "InstanceInformationList", **request)
    }
    for record in records:
        record["ssm_ping_status"] = found.get(record["instance_id"])


def slurm_names(client: Any, records: Records, prefix: str = SLURM_TABLE_PREFIX) -> None:
    """Add ``slurm_node_name`` from the table that ParallelCluster keeps for each cluster; None for other nodes.

    An unreadable table does not affect the tables of other clusters; its error is raised at the end.
    """
    failed: dict[str | None, Exception] = {}
    found: dict[str, str] = {}
    clusters = sorted({record["cluster_name"] for record in records if record["node_type"] == "compute"} - {None})
    for cluster in clusters:
        request = {
            "TableName": f"{prefix}{cluster}",
            # Id is not a reserved word of DynamoDB now; a placeholder stays valid if that changes.
            "ProjectionExpression": "#node, InstanceId",
            "ExpressionAttributeNames": {"#node": "Id"},
        }
        try:
            for item in _pages(client, "scan", "Items", **request):
                instance, node = item.get("InstanceId", {}).get("S"), item.get("Id", {}).get("S")
                if instance and node:
                    found[instance] = node
        except Exception as exc:
            failed[cluster] = exc
    for record in records:
        if record["cluster_name"] not in failed:
            record["slurm_node_name"] = found.get(record["instance_id"])
    if failed:
        raise next(iter(failed.values()))


class Enrichment:
    """One enrichment: the service and call it needs (for messages and permissions), and the keys it adds."""

    def __init__(self, service: str, call: str, keys: tuple[str, ...], add: Callable[..., None]) -> None:
        self.service = service
        self.call = call
        self.keys = keys
        self.add = add


ENRICHMENTS = {
    "health": Enrichment("ec2", "DescribeInstanceStatus", ("health",), health),
    "topology": Enrichment("ec2", "DescribeInstanceTopology", ("network_nodes", "topology_path"), topology),
    "capacity": Enrichment("ec2", "DescribeCapacityReservations", ("capacity",), capacity),
    "ssm": Enrichment("ssm", "DescribeInstanceInformation", ("ssm_ping_status",), ssm),
    "slurm_names": Enrichment("dynamodb", "Scan", ("slurm_node_name",), slurm_names),
}


def add_missing_keys(record: dict[str, Any], name: str) -> bool:
    """Add the keys of a failed enrichment, so that expressions find them; return whether any was missing."""
    missing = [key for key in ENRICHMENTS[name].keys if key not in record]
    for key in missing:
        record[key] = [] if key == "network_nodes" else "" if key == "topology_path" else None
    return bool(missing)
