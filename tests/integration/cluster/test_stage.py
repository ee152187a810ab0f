# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""stage_data.yml: private buckets with verified data."""

from __future__ import annotations

import hashlib
import json

import pytest
from botocore.exceptions import ClientError

from tests.integration.cluster.conftest import REGION
from tests.integration.cluster.policies import check_policy

# Each play starts a dozen programs, which are slow on a busy machine.
pytestmark = pytest.mark.timeout(1800)

KEY = f"arn:aws:kms:{REGION}:123456789012:key/11111111-2222-3333-4444-555555555555"
# Actions for large files, for delete, and of S3 itself on behalf of the caller.
UNASKED = (
    "kms:Decrypt", "kms:GenerateDataKey", "s3:DeleteObject", "s3:ListBucketMultipartUploads",
    "s3:ListMultipartUploadParts",
)  # fmt: skip


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "shard-0.txt").write_text("one\n")
    (folder / "shard-1.txt").write_text("two\n")
    text = b'{"text": "three"}\n'
    (folder / "a.jsonl").write_bytes(text)
    known = {"bytes": len(text), "sha256": hashlib.sha256(text).hexdigest(), "documents": 1}
    files = [{"name": name, **known} for name in ("a.jsonl", "elsewhere.jsonl")]
    (folder / "inputs.json").write_text(json.dumps({"schema": "mlcluster.inputs/1", "files": files}))
    return folder


@pytest.fixture
def options(source):
    return {
        "cluster_name": "train",
        "cluster_buckets": [{"name": "train-data"}, {"name": "train-keys", "kms_key": KEY, "versioning": True}],
        "cluster_uploads": [
            {"source": str(source), "bucket": "train-data", "prefix": "datasets", "sample": ["shard-1.txt", "a.jsonl"]},
            {"source": str(source / "shard-0.txt"), "bucket": "train-keys"},
        ],
        # Stands for a user's script that checks the folder with the samples.
        "cluster_sample_command": ["grep", "-rqx", "two"],
    }


def test_data_is_predicted_uploaded_and_kept(aws_account, play, options, source):
    s3 = aws_account.client("s3", REGION)
    # An existing bucket with access for another account.
    s3.create_bucket(Bucket="train-keys", CreateBucketConfiguration={"LocationConstraint": REGION})
    others = {"Sid": "Them", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::111122223333:root"}}
    others |= {"Action": "s3:GetObject", "Resource": "arn:aws:s3:::train-keys/*"}
    theirs = {"Version": "2012-10-17", "Statement": [others]}
    s3.put_bucket_policy(Bucket="train-keys", Policy=json.dumps(theirs))
    foretold = play("stage_data", "--check", **options)
    assert foretold.status == 0, foretold.output
    # One bucket that would be created, and the upload to the other one.
    assert foretold.changed == 2
    with pytest.raises(ClientError, match="404"):
        s3.head_bucket(Bucket="train-data")

    made = play("stage_data", **options)
    assert made.status == 0, made.output
    sent = sum(path.stat().st_size for path in source.iterdir())
    assert (
        f"s3://train-data/datasets: 4 uploaded ({sent} bytes sent, 0 parts were there), 0 there already" in made.output
    )
    for bucket in ("train-data", "train-keys"):
        closed = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
        assert set(closed.values()) == {True}
        *kept, tls = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])["Statement"]
        assert kept == ([others] if bucket == "train-keys" else [])
        assert (tls["Effect"], tls["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
        assert tls["Resource"] == [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    (rule,) = s3.get_bucket_encryption(Bucket="train-keys")["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
    kept = s3.head_object(Bucket="train-keys", Key="shard-0.txt", ChecksumMode="ENABLED")
    assert (kept["ServerSideEncryption"], kept["SSEKMSKeyId"], kept["BucketKeyEnabled"]) == ("aws:kms", KEY, True)
    assert kept["ChecksumSHA256"]
    assert s3.get_bucket_versioning(Bucket="train-keys")["Status"] == "Enabled"

    again = play("stage_data", **options)
    assert (again.status, again.changed) == (0, 0), again.output
    assert "0 uploaded (0 bytes sent, 0 parts were there), 4 there already" in again.output
    check_policy("stage_data", aws_account.operations(), UNASKED)


@pytest.mark.slow
def test_sample_rejected_by_command_stops_run(aws_account, play, options, source):
    (source / "shard-1.txt").write_text("odd\n")
    judged = play("stage_data", **options)
    assert judged.status == 2
    assert "Stage | Judge the samples" in judged.output
    # Verified objects stay in S3: the command checks the data and not the upload.
    keys = [entry["Key"] for entry in aws_account.client("s3", REGION).list_objects_v2(Bucket="train-data")["Contents"]]
    assert keys == [f"datasets/{name}" for name in ("a.jsonl", "inputs.json", "shard-0.txt", "shard-1.txt")]


@pytest.mark.slow
def test_sample_rejected_by_manifest_stops_run(play, options, source):
    (source / "a.jsonl").write_text('{"text": "other"}\n')
    judged = play("stage_data", **options)
    assert judged.status == 2
    assert "a.jsonl has another SHA-256 than the manifest lists" in judged.output
