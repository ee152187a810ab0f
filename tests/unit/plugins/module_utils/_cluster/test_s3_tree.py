# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Uploads in parts, for what moto does not keep, mainly the checksums of parts."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import random
import tarfile

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws, s3_tree
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster.s3_sums import sums

STEP = 10
DATA = b"0123456789" * 2 + b"rest"


class Pages:
    def __init__(self, pages):
        self.pages = pages

    def paginate(self, **request):
        return self.pages


class S3:
    """Unfinished uploads and the calls on them, shaped as S3's API documents it."""

    def __init__(self, uploads=(), parts=()):
        self.uploads, self.kept, self.sent, self.done, self.made = list(uploads), list(parts), {}, None, []

    def list_multipart_uploads(self, **request):
        return {"Uploads": self.uploads}

    def get_paginator(self, name):
        assert name == "list_parts"
        return Pages([{"Parts": self.kept[:1]}, {"Parts": self.kept[1:]}])

    def create_multipart_upload(self, **request):
        self.made.append(request)
        return {"UploadId": "new"}

    def upload_part(self, Body, PartNumber, **request):  # noqa: N803
        self.sent[PartNumber] = (Body, request)
        return {"ETag": f"etag-{PartNumber}"}

    def complete_multipart_upload(self, **request):
        self.done = request


def digest(data):
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def part(number, data):
    return {"PartNumber": number, "ETag": f"kept-{number}", "Size": len(data), "ChecksumSHA256": digest(data)}


def begun(identifier, when, **changes):
    return {"Key": "k", "UploadId": identifier, "Initiated": when, "ChecksumAlgorithm": "SHA256", **changes}


def brought(s3, algorithm="sha256"):
    tree = s3_tree.Tree(s3, "data", algorithm, 5, "STANDARD", False)
    tree._put_parts("k", io.BytesIO(DATA), sums(io.BytesIO(DATA), algorithm, STEP), STEP)
    return tree


def test_new_upload_names_its_checksum():
    s3 = S3()
    tree = brought(s3)
    assert s3.made[0]["ChecksumAlgorithm"] == "SHA256"
    assert [body for body, _request in s3.sent.values()] == [b"0123456789", b"0123456789", b"rest"]
    assert s3.sent[3][1]["ChecksumSHA256"] == digest(b"rest")
    assert (tree.sent_bytes, tree.resumed_parts) == (len(DATA), 0)
    assert s3.done["ChecksumType"] == "COMPOSITE" and "ChecksumSHA256" not in s3.done


def test_interrupted_upload_is_continued():
    uploads = [begun("old", "2026-01-01"), begun("last", "2026-02-01"), begun("other", "2026-03-01", Key="k2")]
    # The second part came from another file, as its checksum shows.
    s3 = S3(uploads, [part(1, b"0123456789"), part(2, b"9876543210")])
    tree = brought(s3)
    assert s3.made == []
    assert list(s3.sent) == [2, 3]
    assert (tree.sent_bytes, tree.resumed_parts) == (14, 1)
    assert s3.done["UploadId"] == "last"
    assert [entry["ETag"] for entry in s3.done["MultipartUpload"]["Parts"]] == ["kept-1", "etag-2", "etag-3"]


def test_upload_with_other_checksums_is_not_continued():
    s3 = S3([begun("crc", "2026-01-01", ChecksumAlgorithm="CRC64NVME")], [part(1, b"0123456789")])
    assert brought(s3).resumed_parts == 0
    assert s3.done["UploadId"] == "new"


def test_checksum_of_whole_is_sent_at_end():
    s3 = S3()
    brought(s3, "crc64nvme")
    assert s3.made[0]["ChecksumType"] == "FULL_OBJECT"
    assert s3.done["ChecksumCRC64NVME"] == sums(io.BytesIO(DATA), "crc64nvme", STEP).whole


def test_failed_deletion_is_reported():
    class Kept:
        def delete_objects(self, **request):
            return {"Errors": [{"Key": "a", "Code": "AccessDenied"}]}

    with pytest.raises(aws.AwsError, match=r"s3://data kept a \(AccessDenied\); look at the bucket's policy"):
        s3_tree.Tree(Kept(), "data", "sha256", 5, "STANDARD", False).delete(["a"])


def test_unusable_files_are_reported_one_by_one(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / os.fsdecode(b"caf\xe9")).touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / ("x" * 200)).touch()
    found, strange = s3_tree.local_files(str(tmp_path), "y" * 900)
    assert found == []
    assert len(strange) == 4
    assert s3_tree.local_files(os.fsdecode(bytes(tmp_path) + b"/caf\xe9"), "")[0] == []


def test_names_become_keys_unchanged(tmp_path):
    names = ["a b", "ü/日本.tar", "..x/{{ 7 * 7 }}", "q'\"&<>\n"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found, strange = s3_tree.local_files(str(tmp_path), "p")
    assert (sorted(file.key for file in found), strange) == (sorted(f"p/{name}" for name in names), [])


def test_unreadable_folder_does_not_count_as_empty(tmp_path, monkeypatch):
    (tmp_path / "locked").mkdir()
    (tmp_path / "a").touch()
    real = os.scandir

    def scandir(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert s3_tree.local_files(str(tmp_path), "")[1] == [f"'{tmp_path}/locked' cannot be read: Permission denied"]


def test_damaged_archive_is_reported(tmp_path):
    path = tmp_path / "shard.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo("a")
        entry.size = 1 << 20
        archive.addfile(entry, io.BytesIO(random.Random(1).randbytes(1 << 20)))
    data = bytearray(path.read_bytes())
    data[len(data) // 2 :] = bytes(255 - byte for byte in data[len(data) // 2 :])
    path.write_bytes(data)
    with pytest.raises(aws.AwsError, match="is not a whole archive"):
        s3_tree.look_through(str(path), str(path))
