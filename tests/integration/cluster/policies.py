# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The policies in docs/iam against the operations that were really asked for."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "iam"

# Where the permission is called otherwise than the operation (Service Authorization Reference, Amazon S3).
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
    """The permission that an operation needs."""
    return PERMISSIONS.get(operation, operation)


def allowed(policy: str) -> set[str]:
    """The actions that a policy allows; wildcards have no place in one."""
    actions: set[str] = set()
    for statement in json.loads((FOLDER / f"{policy}.json").read_text(encoding="utf-8"))["Statement"]:
        assert statement["Effect"] == "Allow"
        actions.update(statement["Action"])
    assert not [action for action in actions if "*" in action]
    return actions


def check_policy(policy: str, operations: set[str], unasked: tuple[str, ...] = ()) -> None:
    """Every operation is allowed, and nothing else; ``unasked``: what only the real AWS comes to ask for."""
    # Whoever has credentials may ask who that is (AWS STS, GetCallerIdentity: no permissions are required).
    needed = {permission(operation) for operation in operations} - {"sts:GetCallerIdentity"}
    granted = allowed(policy)
    assert sorted(needed - granted) == [], f"docs/iam/{policy}.json lacks what was asked for"
    assert sorted(granted - needed) == sorted(unasked), f"docs/iam/{policy}.json allows what was never asked for"
