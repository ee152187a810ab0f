# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for STS, Systems Manager, DynamoDB and the instance metadata service, with the requests of an inventory.

Grammar: AWS's API references (DynamoDB 2012-08-10), and "Use IMDSv2" of the EC2 user guide. ParallelCluster 3's table
of Slurm nodes has the key Id and the index InstanceId.
"""

from __future__ import annotations

import re
from typing import Any, Optional

from .hosts import Host
from .scenario import Scenario
from .wire import Answer, ApiError, as_json, identifier, sts

SSM_PAGE = 50
TABLE = "parallelcluster-slurm-"
INDEX = "InstanceId"
TOKEN = "token"
_PAGES = {"TableName", "Limit", "ExclusiveStartKey", "ProjectionExpression", "ExpressionAttributeNames"}
# The supported parameters of each operation; others are rejected.
DYNAMODB = {
    "Scan": _PAGES | {"ConsistentRead"},
    "Query": _PAGES | {"IndexName", "KeyConditionExpression", "ExpressionAttributeValues"},
}
CONDITION = re.compile(r"(?P<key>#?\w+) = (?P<value>:\w+)")


def sts_operation(scenario: Scenario, keys: dict[str, str], account: str, action: str, asked: dict[str, str]) -> Answer:
    """GetCallerIdentity and AssumeRole; a role's new key is added to ``keys``."""
    if action == "GetCallerIdentity":
        arn = f"arn:aws:iam::{account}:user/rig"
        return sts(action, {"Arn": arn, "UserId": identifier("AIDA", account).upper(), "Account": account})
    if action != "AssumeRole":
        raise ApiError("InvalidAction", f"Could not find operation {action} for version 2011-06-15")
    role = next((role for role in scenario.roles if role.arn == asked.get("RoleArn")), None)
    if role is None or (role.external_id and role.external_id != asked.get("ExternalId")):
        text = f"User: arn:aws:iam::{account}:user/rig is not authorized to perform: sts:AssumeRole on resource: "
        raise ApiError("AccessDenied", text + asked.get("RoleArn", ""), 403)
    key = identifier("ASIA", role.arn, digits=16).upper()
    keys[key] = role.account
    session = asked.get("RoleSessionName", "")
    credentials = {
        "AccessKeyId": key,
        "SecretAccessKey": "not-a-secret",
        "SessionToken": f"session-of-{session}",
        "Expiration": "2099-01-01T00:00:00Z",
    }
    user = {"AssumedRoleId": f"AROARIG:{session}", "Arn": f"{role.arn.replace(':iam:', ':sts:')}/{session}"}
    return sts(action, {"AssumedRoleUser": user, "Credentials": credentials})


def ssm_operation(hosts: list[Host], action: str, asked: dict[str, Any]) -> Answer:
    """DescribeInstanceInformation; hosts whose fleet has no agent are absent."""
    if action != "DescribeInstanceInformation":
        raise ApiError("InvalidAction", f"Unknown operation {action}")
    size = int(asked.get("MaxResults", 10))
    if not 5 <= size <= SSM_PAGE:
        raise ApiError("ValidationException", f"Value '{size}' at 'maxResults' failed to satisfy constraint: 5 to 50")
    wanted = [value for entry in asked.get("Filters", []) if entry["Key"] == "InstanceIds" for value in entry["Values"]]
    seen = [host for host in hosts if host.fleet.ssm and (not wanted or host.id in wanted)]
    begin = int(asked.get("NextToken") or 0)
    answer: dict[str, Any] = {"InstanceInformationList": [_information(host) for host in seen[begin : begin + size]]}
    if begin + size < len(seen):
        answer["NextToken"] = str(begin + size)
    return as_json(answer)


def _information(host: Host) -> dict[str, Any]:
    return {
        "InstanceId": host.id,
        "PingStatus": host.fleet.ssm,
        "LastPingDateTime": 1795687872.0,
        "AgentVersion": "3.3.987.0",
        "IsLatestVersion": True,
        "PlatformType": "Linux",
        "PlatformName": "Ubuntu",
        "PlatformVersion": "22.04",
        "ResourceType": "EC2Instance",
        "IPAddress": host.ip,
        "ComputerName": host.private_dns,
    }


def dynamodb_operation(scenario: Scenario, hosts: list[Host], action: str, asked: dict[str, Any]) -> Answer:
    """Scan and Query (by the index of instance ids) of ParallelCluster's table of Slurm node names."""
    if action not in DYNAMODB:
        raise ApiError("UnknownOperationException", f"Unknown operation {action}")
    if unknown := sorted(set(asked) - DYNAMODB[action]):
        raise ApiError("SerializationException", f"stand-in: {action} does not know {', '.join(unknown)}")
    table = asked.get("TableName", "")
    cluster = table[len(TABLE) :] if table.startswith(TABLE) else ""
    members = [host for host in hosts if cluster and host.fleet.cluster == cluster]
    if not members:
        raise ApiError("ResourceNotFoundException", f"Requested resource not found: Table: {table} not found")
    head = next((host for host in members if host.fleet.role == "HeadNode"), None)
    nodes = [host for host in members if host.fleet.role == "Compute" and host.has_addresses]
    if action == "Query":
        key, wanted = _condition(asked)
        nodes = [host for host in nodes if wanted == (host.id if key == INDEX else host.node_name)]
    size = min(int(asked.get("Limit", scenario.dynamodb_page)), scenario.dynamodb_page)
    last = asked.get("ExclusiveStartKey", {}).get("Id", {}).get("S")
    begin = [host.node_name for host in nodes].index(last) + 1 if last else 0
    chosen = nodes[begin : begin + size]
    answer: dict[str, Any] = {
        "Items": [_item(host, head) for host in chosen],
        "Count": len(chosen),
        "ScannedCount": len(chosen),
    }
    if begin + size < len(nodes):
        answer["LastEvaluatedKey"] = {"Id": {"S": chosen[-1].node_name}}
    return as_json(answer)


def _condition(asked: dict[str, Any]) -> tuple[str, str]:
    """Return attribute and value of a query's only condition. Raises ApiError for a query that DynamoDB rejects."""
    index = asked.get("IndexName", "")
    if index not in ("", INDEX):
        raise ApiError("ValidationException", f"The table does not have the specified index: {index}")
    condition = CONDITION.fullmatch(asked.get("KeyConditionExpression", ""))
    values = asked.get("ExpressionAttributeValues", {})
    if condition is None or set(values) != {condition["value"]}:
        raise ApiError("ValidationException", "Invalid KeyConditionExpression, or values that are not those it names")
    key = asked.get("ExpressionAttributeNames", {}).get(condition["key"], condition["key"])
    if key != (index or "Id"):
        raise ApiError("ValidationException", f"Query condition missed key schema element: {index or 'Id'}")
    return key, str(values[condition["value"]].get("S"))


def _item(host: Host, head: Any) -> dict[str, Any]:
    item = {"Id": {"S": host.node_name}, "InstanceId": {"S": host.id}}
    if head is not None:
        item["HeadNodePrivateIp"] = {"S": head.ip}
        item["HeadNodeHostname"] = {"S": head.private_dns.split(".")[0]}
    return item


def metadata_token(path: str, ttl: Optional[str]) -> Answer:
    """Return the response to a PUT: the token of IMDSv2, for 1 to 21600 seconds."""
    if path != "/latest/api/token":
        return Answer(b"not found", 404, "text/plain")
    if ttl is None or not ttl.isdecimal() or not 1 <= int(ttl) <= 21600:
        return Answer(b"bad request", 400, "text/plain")
    return Answer(TOKEN.encode(), kind="text/plain")


def metadata(scenario: Scenario, path: str, token: Optional[str]) -> Answer:
    """Return the metadata of an instance in the home region, without a role; IMDSv2 only."""
    if token != TOKEN:
        return Answer(b"unauthorized", 401, "text/plain")
    known = {
        "/latest/meta-data/placement/region": scenario.home_region,
        "/latest/meta-data/placement/availability-zone": f"{scenario.home_region}a",
        "/latest/meta-data/placement/availability-zone/": f"{scenario.home_region}a",
    }
    if path not in known:
        return Answer(b"not found", 404, "text/plain")
    return Answer(known[path].encode(), kind="text/plain")
