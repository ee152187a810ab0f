# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Uploads to moto's S3: interrupted and damaged uploads, and objects that must never be deleted."""

from __future__ import annotations

import hashlib
import io
import tarfile
import types

import pytest
from botocore.awsrequest import AWSResponse

from tests.integration.cluster.conftest import REGION

MIB = 1 << 20
# The account of every caller in moto.
ACCOUNT = "123456789012"


@pytest.fixture
def s3(aws_account):
    client = aws_account.client("s3", REGION)
    client.create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": REGION})
    return client


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "data"
    (root / "deep").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"alpha")
    (root / "deep" / "empty.txt").touch()
    # Two parts of 5 MiB and a smaller one.
    (root / "big.bin").write_bytes(bytes(range(256)) * (11 * MIB // 256) + b"end")
    return root


@pytest.fixture
def bring(run_module, folder):
    from ansible_collections.mlcluster.aws.plugins.modules import s3_tree

    def run(check=False, **options):
        given = {
            "source": str(folder),
            "bucket": "data",
            "prefix": "/datasets/",
            "part_mib": 5,
            "threads": 2,
            **options,
        }
        return run_module(s3_tree, check, **given)

    return run


def keys(s3):
    return sorted(entry["Key"] for entry in s3.list_objects_v2(Bucket="data").get("Contents", []))


def test_files_are_uploaded_once_and_verified(s3, bring, folder):
    foretold = bring(check=True)
    assert foretold["changed"] is True
    assert foretold["uploaded"] == ["datasets/a.txt", "datasets/big.bin", "datasets/deep/empty.txt"]
    assert keys(s3) == []

    first = bring()
    assert "msg" not in first, first
    assert first["uploaded"] == foretold["uploaded"]
    assert first["sent_bytes"] == 11 * MIB + 8
    head = s3.head_object(Bucket="data", Key="datasets/big.bin", ChecksumMode="ENABLED")
    parts = [(folder / "big.bin").read_bytes()[start : start + 5 * MIB] for start in range(0, 11 * MIB + 3, 5 * MIB)]
    assert head["ChecksumType"] == "COMPOSITE"
    assert s3.get_object(Bucket="data", Key="datasets/big.bin")["Body"].read() == b"".join(parts)

    again = bring()
    assert (again["changed"], again["unchanged"], again["sent_bytes"]) == (False, 3, 0)


def test_changed_content_of_same_size_is_uploaded_again(s3, bring, folder):
    bring()
    (folder / "a.txt").write_bytes(b"omega")
    again = bring()
    assert again["uploaded"] == ["datasets/a.txt"]
    assert s3.get_object(Bucket="data", Key="datasets/a.txt")["Body"].read() == b"omega"


def test_other_objects_are_kept_without_delete(s3, bring):
    for key in ("datasets/old.txt", "elsewhere/a.txt"):
        s3.put_object(Bucket="data", Key=key, Body=b"old")
    kept = bring()
    assert (kept["deleted"], kept["extra"]) == ([], 1)
    foretold = bring(check=True, delete=True)
    assert (foretold["changed"], foretold["deleted"]) == (True, ["datasets/old.txt"])
    assert "datasets/old.txt" in keys(s3)
    assert bring(delete=True)["deleted"] == ["datasets/old.txt"]
    assert "datasets/old.txt" not in keys(s3)
    assert "elsewhere/a.txt" in keys(s3)


def test_unreadable_file_does_not_stop_others(s3, bring, folder, monkeypatch):
    from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import s3_tree

    put = s3_tree.Tree._put

    def broken(self, key, stream, own):
        if key.endswith("a.txt"):
            raise OSError(5, "Input/output error")
        put(self, key, stream, own)

    monkeypatch.setattr(s3_tree.Tree, "_put", broken)
    result = bring()
    assert result["failed"]
    assert result["msg"].startswith(f"1 of 3 files were not uploaded: {folder}/a.txt: ")
    assert keys(s3) == ["datasets/big.bin", "datasets/deep/empty.txt"]


def test_unconfirmed_checksum_is_failure(s3, bring, folder, monkeypatch):
    from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import s3_tree

    def damaged(self, key, stream, own):
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=b"x" * own.size, ChecksumAlgorithm="SHA256")

    monkeypatch.setattr(s3_tree.Tree, "_put", damaged)
    output = bring(source=str(folder / "a.txt"))["msg"]
    assert "s3://data/datasets/a.txt does not have the SHA256" in output
    assert "was it written to meanwhile? Run this again" in output


def test_missing_bucket_is_reported(run_module, folder, aws_account):
    from ansible_collections.mlcluster.aws.plugins.modules import s3_tree

    result = run_module(s3_tree, source=str(folder), bucket="nowhere")
    assert result["msg"].startswith("listing s3://nowhere/ failed: NoSuchBucket: ")


def archive(path, *members):
    with tarfile.open(path, "w") as target:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            target.addfile(info, io.BytesIO(data))


def test_samples_are_fetched_completely(s3, bring, folder, tmp_path):
    archive(folder / "shard.tar", ("1.json", b"{}"), ("1.npy", b"x" * 2000))
    target = tmp_path / "samples"
    target.mkdir()
    (folder / "deep" / "a.txt").write_bytes(b"another")
    result = bring(sample=["shard.tar", "a.txt", "deep/a.txt"], sample_dir=str(target))
    assert result["samples"] == [f"{target}/shard.tar", f"{target}/a.txt", f"{target}/deep/a.txt"]
    assert [(target / name).read_bytes() for name in ("a.txt", "deep/a.txt")] == [b"alpha", b"another"]
    same = [hashlib.sha256((place / "shard.tar").read_bytes()).digest() for place in (folder, target)]
    assert same[0] == same[1]


def test_sample_never_overwrites_source(s3, bring, folder, tmp_path):
    output = bring(sample=["a.txt"], sample_dir=str(folder))["msg"]
    assert output == f"the sample {folder}/a.txt would take the place of the file itself; choose another sample_dir"
    linked = tmp_path / "linked"
    linked.symlink_to(folder)
    assert "would take the place of the file itself" in bring(sample=["a.txt"], sample_dir=str(linked))["msg"]
    # The target of a link in the folder of samples must not change.
    target, other = tmp_path / "samples", tmp_path / "other.txt"
    target.mkdir()
    other.write_bytes(b"mine")
    (target / "a.txt").symlink_to(other)
    for _run in range(2):
        assert bring(sample=["a.txt"], sample_dir=str(target))["samples"] == [f"{target}/a.txt"]
    assert (target / "a.txt").read_bytes() == b"alpha" and other.read_bytes() == b"mine"
    assert sorted(path.name for path in target.iterdir()) == ["a.txt"]
    assert (folder / "a.txt").read_bytes() == b"alpha"


def test_delete_with_one_file_is_rejected(s3, bring, folder):
    s3.put_object(Bucket="data", Key="datasets/old.txt", Body=b"old")
    output = bring(source=str(folder / "a.txt"), delete=True)["msg"]
    assert output.endswith("delete would remove everything else under the prefix; omit delete")
    assert keys(s3) == ["datasets/old.txt"]


def test_truncated_archive_in_sample_is_reported(s3, bring, folder, tmp_path):
    archive(folder / "shard.tar", ("1.json", b"{}"), ("1.npy", b"x" * 20000))
    whole = (folder / "shard.tar").read_bytes()
    (folder / "shard.tar").write_bytes(whole[:9000])
    output = bring(sample=["shard.tar"], sample_dir=str(tmp_path))["msg"]
    assert "shard.tar is not a whole archive" in output
    assert output.endswith("write it again")


@pytest.fixture
def strict(monkeypatch):
    """Make S3 reject requests with another owner; return the list of the requests' owners."""
    from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws

    named, real = [], aws.client

    def refuse(request, **_others):
        owner = request.headers.get("x-amz-expected-bucket-owner", b"").decode()
        named.append(owner)
        if owner != ACCOUNT:
            body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
            raw = types.SimpleNamespace(stream=lambda *_size, **_how: iter([body]))
            return AWSResponse(request.url, 403, {}, raw)
        return None

    def client(*arguments, **options):
        s3 = real(*arguments, **options)
        s3.meta.events.register("before-send.s3", refuse)
        return s3

    monkeypatch.setattr(aws, "client", client)
    return named


def test_bucket_of_another_account_is_not_written(s3, bring, strict, tmp_path):
    output = bring(owner="999988887777")["msg"]
    assert output.startswith("listing s3://data/datasets/ failed: AccessDenied: Access Denied")
    assert keys(s3) == []
    strict.clear()
    s3.put_object(Bucket="data", Key="datasets/old.txt", Body=b"old")
    # Listings, checksums, files in one or more parts, deletion and samples: each request names the owner.
    result = bring(owner=ACCOUNT, delete=True, sample=["a.txt"], sample_dir=str(tmp_path))
    assert "msg" not in result, result
    assert set(strict) == {ACCOUNT}
    assert len(strict) > 10


def test_crc64_of_small_file_equals_that_of_s3(s3, bring, folder):
    (folder / "a.txt").write_bytes(b"123456789")
    result = bring(source=str(folder / "a.txt"), checksum="crc64nvme")
    assert "msg" not in result, result
    head = s3.head_object(Bucket="data", Key="datasets/a.txt", ChecksumMode="ENABLED")
    # The check value of CRC-64/NVME, 0xAE8B14860A799888.
    assert head["ChecksumCRC64NVME"] == "rosUhgp5mIg="
    assert bring(source=str(folder / "a.txt"), checksum="crc64nvme")["changed"] is False
