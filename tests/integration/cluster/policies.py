# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the policies in docs/iam with the recorded operations."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "iam"

# Permissions whose name differs from the operation (Service Authorization Reference, Amazon S3).
PERMISSIONS = {
    "s3:ListBuckets": "s3:ListAllMyBuckets",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:CreateMultipartUpload": "s3:PutObject",
    "s3:UploadPart": "s3:PutObject",
    "s3:CompleteMultipartUpload": "s3:PutObject",
    "s3:ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "s3:ListParts": "s3:ListMultipartUploadParts",
    "s3:DeleteObjects": "s3:DeleteObject",
    "s3:PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:PutBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetBucketAccelerateConfiguration": "s3:GetAccelerateConfiguration",
    "s3:GetObjectLockConfiguration": "s3:GetBucketObjectLockConfiguration",
    "s3:ListBucketInventoryConfigurations": "s3:GetInventoryConfiguration",
}


def permission(operation: str) -> str:
    """Return the permission that an operation needs."""
    return PERMISSIONS.get(operation, operation)


def allowed(policy: str) -> set[str]:
    """Return the actions that a policy allows; wildcards are rejected."""
    actions: set[str] = set()
    for statement in json.loads((FOLDER / f"{policy}.json").read_text(encoding="utf-8"))["Statement"]:
        assert statement["Effect"] == "Allow"
        actions.update(statement["Action"])
    assert not [action for action in actions if "*" in action]
    return actions


def check_policy(policy: str, operations: set[str], unasked: tuple[str, ...] = ()) -> None:
    """Check that exactly the operations are allowed; ``unasked``: actions that only the real AWS checks."""
    # All credentials may call it (AWS STS, GetCallerIdentity: no permissions are required).
    needed = {permission(operation) for operation in operations} - {"sts:GetCallerIdentity"}
    granted = allowed(policy)
    assert sorted(needed - granted) == [], f"docs/iam/{policy}.json lacks what was requested"
    assert sorted(granted - needed) == sorted(unasked), f"docs/iam/{policy}.json allows what was never asked for"


# The name in the policies for the network and the cluster.
EXAMPLE = "p5e-80node-cluster"
NEW = ""
# The resources that a call concerns, by type, and the parameter that names them (Service Authorization Reference,
# Amazon EC2 and Amazon FSx). A resource that the call creates has no name yet, and its tags are those of the request.
CONCERNS: dict[str, dict[str, str]] = {
    "ec2:AllocateAddress": {"elastic-ip": NEW},
    "ec2:AssociateRouteTable": {"route-table": "RouteTableId", "subnet": "SubnetId"},
    "ec2:AttachInternetGateway": {"internet-gateway": "InternetGatewayId", "vpc": "VpcId"},
    "ec2:AuthorizeSecurityGroupEgress": {"security-group": "GroupId", "security-group-rule": NEW},
    "ec2:AuthorizeSecurityGroupIngress": {"security-group": "GroupId", "security-group-rule": NEW},
    "ec2:CreateInternetGateway": {"internet-gateway": NEW},
    "ec2:CreateNatGateway": {"natgateway": NEW, "elastic-ip": "AllocationId", "subnet": "SubnetId"},
    "ec2:CreateRoute": {"route-table": "RouteTableId"},
    "ec2:CreateRouteTable": {"route-table": NEW, "vpc": "VpcId"},
    "ec2:CreateSecurityGroup": {"security-group": NEW, "vpc": "VpcId"},
    "ec2:CreateSubnet": {"subnet": NEW, "vpc": "VpcId"},
    "ec2:CreateVpc": {"vpc": NEW},
    "ec2:CreateVpcEndpoint": {"vpc-endpoint": NEW, "route-table": "RouteTableIds", "vpc": "VpcId"},
    "ec2:DeleteInternetGateway": {"internet-gateway": "InternetGatewayId"},
    "ec2:DeleteNatGateway": {"natgateway": "NatGatewayId"},
    "ec2:DeleteRouteTable": {"route-table": "RouteTableId"},
    "ec2:DeleteSecurityGroup": {"security-group": "GroupId"},
    "ec2:DeleteSubnet": {"subnet": "SubnetId"},
    "ec2:DeleteVpc": {"vpc": "VpcId"},
    "ec2:DeleteVpcEndpoints": {"vpc-endpoint": "VpcEndpointIds"},
    "ec2:DetachInternetGateway": {"internet-gateway": "InternetGatewayId", "vpc": "VpcId"},
    "ec2:ImportKeyPair": {"key-pair": NEW},
    "ec2:ModifyInstanceAttribute": {"instance": "InstanceId", "security-group": "Groups"},
    "ec2:ModifySubnetAttribute": {"subnet": "SubnetId"},
    "ec2:ModifyVpcAttribute": {"vpc": "VpcId"},
    "ec2:ReleaseAddress": {"elastic-ip": "AllocationId"},
    "ec2:RunInstances": {"instance": NEW, "volume": NEW, "image": "ImageId"},
    "ec2:StartInstances": {"instance": "InstanceIds"},
    "ec2:StopInstances": {"instance": "InstanceIds"},
    "ec2:TerminateInstances": {"instance": "InstanceIds"},
    "ec2:RevokeSecurityGroupEgress": {"security-group": "GroupId"},
    "ec2:RevokeSecurityGroupIngress": {"security-group": "GroupId"},
    "fsx:CreateFileSystem": {"file-system": NEW},
}
# Prefixes of resource names.
KINDS = {
    "eipalloc": "elastic-ip", "igw": "internet-gateway", "key": "key-pair", "nat": "natgateway", "rtb": "route-table",
    "sg": "security-group", "subnet": "subnet", "vpc": "vpc", "vpce": "vpc-endpoint",
}  # fmt: skip
# EC2 names an association, and checks the rights to its ends; the call has no id of a key pair.
BY_ASSOCIATION = {
    "ec2:DeleteKeyPair": ("key-pair",),
    "ec2:DisassociateRouteTable": ("route-table", "subnet"),
    "ec2:RunInstances": ("key-pair",),
}


def asked(call: Mapping[str, Any], mine: Mapping[str, str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield IAM's view of a call: (action, ARN, condition keys). ``mine``: the tags of an association's ends."""
    operation, given = call["operation"], call["parameters"]
    service = operation.partition(":")[0]
    there: dict[str, dict[str, str]] = {}
    for tag in call["tags"]:
        there.setdefault(tag["ResourceId"], {})[tag["Key"]] = tag["Value"]
    requested = {tag["Key"]: tag["Value"] for one in given.get("TagSpecifications", ()) for tag in one["Tags"]}
    requested.update({tag["Key"]: tag["Value"] for tag in given.get("Tags", ())})
    request = {f"aws:RequestTag/{key}": value for key, value in requested.items()}
    for kind in BY_ASSOCIATION.get(operation, ()):
        yield operation, f"arn:aws:{service}:region:account:{kind}/x", _keys("Resource", mine)
    if operation == "ec2:CreateTags":
        for name in given["Resources"]:
            arn = f"arn:aws:ec2:region:account:{KINDS[name.partition('-')[0]]}/{name}"
            yield operation, arn, {**request, **_keys("Resource", there.get(name, {}))}
    if operation == "ec2:CreateTags":
        return
    for kind, parameter in (
        CONCERNS.get(operation, {}) if operation in BY_ASSOCIATION else CONCERNS[operation]
    ).items():
        arn = f"arn:aws:{service}:region:account:{kind}/"
        if parameter == NEW:
            yield operation, f"{arn}*", request
            if requested and kind != "security-group-rule":
                tagging = "ec2:CreateTags" if service == "ec2" else "fsx:TagResource"
                yield tagging, f"{arn}*", {**request, "ec2:CreateAction": operation.partition(":")[2]}
        for name in [given[parameter]] if isinstance(given.get(parameter), str) else given.get(parameter, ()):
            yield operation, f"{arn}{name}", _keys("Resource", there.get(name, {}))


def _keys(kind: str, tags: Mapping[str, str]) -> dict[str, str]:
    return {f"aws:{kind}Tag/{key}": value for key, value in tags.items()}


def allows(policy: Mapping[str, Any], action: str, arn: str, keys: Mapping[str, str]) -> bool:
    """Return whether a policy allows an action on a resource."""
    return any(
        action in statement["Action"]
        and any(fnmatch.fnmatchcase(arn, pattern) for pattern in _listed(statement["Resource"]))
        and all(
            keys.get(key) in _listed(values)
            for operator, wanted in statement.get("Condition", {}).items()
            for key, values in wanted.items()
            if operator == "StringEquals" or _unknown(operator)
        )
        for statement in policy["Statement"]
    )


def _listed(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def _unknown(operator: str) -> bool:
    raise AssertionError(f"what does the condition {operator} mean?")


def check_changes(
    name: str, calls: list[dict[str, Any]], own: str, tag: str = "mlcluster:network", example: str = EXAMPLE
) -> None:
    """Check that every recorded change is allowed for the network or cluster of that name, and for no other."""
    text = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    policies = [json.loads(text.replace(example, one)) for one in (own, "another")]
    assert calls, "nothing was changed"
    for call in calls:
        judged = list(asked(call, {tag: own}))
        for action, arn, keys in judged:
            assert allows(policies[0], action, arn, keys), f"docs/iam/{name}.json denies {action} on {arn} with {keys}"
        assert not all(allows(policies[1], *one) for one in judged), f"{call['operation']} is allowed to everybody"
