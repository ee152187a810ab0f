# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Upload a folder to Amazon S3: only missing objects, each verified by its checksum."""

from __future__ import annotations

import concurrent.futures
import os
import tarfile
import tempfile
import typing as t
import zlib

from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster.s3_sums import Sums, part_bytes, sums

# Amazon S3: most keys of one DeleteObjects.
DELETE_AT_ONCE = 1000
# Amazon S3 User Guide, naming Amazon S3 objects.
KEY_BYTES = 1024


class File(t.NamedTuple):
    """A local file and its key."""

    key: str
    path: str
    size: int


def local_files(source: str, prefix: str) -> tuple[list[File], list[str]]:
    """Return the files of a folder, or the one file, by key, and what cannot be uploaded, a sentence each."""
    start = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    found: list[File] = []
    strange: list[str] = []

    def unread(error: OSError) -> None:
        # An unreadable folder must not look empty: delete would remove its objects from S3.
        strange.append(f"{error.filename!r} cannot be read: {error.strerror}")

    if os.path.isfile(source):
        _add(found, strange, source, start + os.path.basename(source))
    elif not os.path.isdir(source):
        strange.append(f"{source} does not exist; use a folder or a file")
    else:
        for folder, folders, names in os.walk(source, onerror=unread):
            folders.sort()
            strange += [
                f"{os.path.join(folder, name)} is a link to a folder" for name in folders if _is_link(folder, name)
            ]
            for name in sorted(names):
                path = os.path.join(folder, name)
                _add(found, strange, path, start + os.path.relpath(path, source).replace(os.sep, "/"))
    return found, strange


def _add(found: list[File], strange: list[str], path: str, key: str) -> None:
    try:
        length = len(key.encode("utf-8"))
    except UnicodeEncodeError:
        strange.append(f"{path!r} has a name that is not UTF-8")
        return
    if not os.path.isfile(path):
        strange.append(f"{path} is not a file")
    elif length > KEY_BYTES:
        strange.append(f"{path} would get a key of {length} bytes, and Amazon S3 takes {KEY_BYTES}")
    else:
        try:
            found.append(File(key, path, os.path.getsize(path)))
        except OSError as exc:
            strange.append(f"{path} cannot be read: {exc.strerror}")


def _is_link(folder: str, name: str) -> bool:
    return os.path.islink(os.path.join(folder, name))


def demand_owner(s3: t.Any, owner: str) -> None:
    """Make S3 reject every request to a bucket of another account; ``owner`` is the 12-digit account."""

    def add(params: dict[str, t.Any], model: t.Any, **_others: t.Any) -> None:
        if model.input_shape and "ExpectedBucketOwner" in model.input_shape.members:
            params["ExpectedBucketOwner"] = owner

    s3.meta.events.register("provide-client-params.s3", add)


def remote_sizes(s3: t.Any, bucket: str, prefix: str) -> dict[str, int]:
    """Return the size of every object whose key begins with ``prefix``/."""
    start = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    found = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start):
        found.update({entry["Key"]: entry["Size"] for entry in page.get("Contents", [])})
    return found


class Tree:
    """One upload. Counts what it did: ``uploaded``, ``unchanged``, ``resumed_parts``, ``sent_bytes``."""

    def __init__(self, s3: t.Any, bucket: str, algorithm: str, part_mib: int, storage_class: str, dry: bool) -> None:
        self.s3, self.bucket, self.algorithm, self.part_mib = s3, bucket, algorithm, part_mib
        self.storage_class, self.dry = storage_class, dry
        self.uploaded: list[str] = []
        self.unchanged: list[str] = []
        self.problems: list[str] = []
        self.resumed_parts = self.sent_bytes = 0

    def upload_all(self, files: t.Sequence[File], remote: t.Mapping[str, int], threads: int) -> None:
        """Upload every file, several at once; failures are reported at the end and do not stop the others."""
        with concurrent.futures.ThreadPoolExecutor(max_workers=threads) as pool:
            work = {pool.submit(self._file, file, remote): file for file in files}
            for done in concurrent.futures.as_completed(work):
                error = done.exception()
                if isinstance(error, (aws.AwsError, OSError)):
                    self.problems.append(f"{work[done].path}: {error}")
                elif error:
                    raise error
        self.uploaded.sort()
        self.unchanged.sort()
        self.problems.sort()

    def _file(self, file: File, remote: t.Mapping[str, int]) -> None:
        step = part_bytes(file.size, self.part_mib)
        with open(file.path, "rb") as stream:
            own = sums(stream, self.algorithm, step)
            if remote.get(file.key) == own.size and self._proved(file.key, own):
                self.unchanged.append(file.key)
                return
            if not self.dry:
                with aws.doing(f"uploading s3://{self.bucket}/{file.key}"):
                    if len(own.parts) == 1:
                        self._put(file.key, stream, own)
                    else:
                        self._put_parts(file.key, stream, own, step)
                if not self._proved(file.key, own):
                    raise aws.AwsError(
                        f"s3://{self.bucket}/{file.key} does not have the {own.algorithm} {own.whole} of the file "
                        "after the upload; was it written to meanwhile? Run this again"
                    )
        self.uploaded.append(file.key)

    def _proved(self, key: str, own: Sums) -> bool:
        """Return whether S3 has exactly this content, by size and checksum."""
        with aws.doing(f"asking for the checksum of s3://{self.bucket}/{key}"):
            head = self.s3.head_object(Bucket=self.bucket, Key=key, ChecksumMode="ENABLED")
        # The number of parts follows a checksum of checksums, and some S3 services leave it out.
        same = str(head.get(own.field)).partition("-")[0] == own.whole.partition("-")[0]
        return bool(head["ContentLength"] == own.size and same)

    def _options(self) -> dict[str, str]:
        return {"StorageClass": self.storage_class} if self.storage_class != "STANDARD" else {}

    def _put(self, key: str, stream: t.BinaryIO, own: Sums) -> None:
        stream.seek(0)
        # The checksum is sent with the data, so that S3 rejects damaged data.
        checksum = {"ChecksumAlgorithm": own.algorithm, own.field: own.parts[0]}
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=stream.read(), **checksum, **self._options())
        self.sent_bytes += own.size

    def _put_parts(self, key: str, stream: t.BinaryIO, own: Sums, step: int) -> None:
        upload, uploaded_parts = self._begun(key, own)
        parts = []
        for number, wanted in enumerate(own.parts, 1):
            kept = uploaded_parts.get(number, {})
            if kept.get(own.field) == wanted:
                self.resumed_parts += 1
            else:
                stream.seek((number - 1) * step)
                data = stream.read(step)
                where = {"Bucket": self.bucket, "Key": key, "UploadId": upload, "PartNumber": number}
                checksum = {"ChecksumAlgorithm": own.algorithm, own.field: wanted}
                kept = self.s3.upload_part(Body=data, **where, **checksum)
                self.sent_bytes += len(data)
            parts.append({"PartNumber": number, "ETag": kept["ETag"], own.field: wanted})
        whole = {"ChecksumType": own.kind, **({own.field: own.whole} if own.kind == "FULL_OBJECT" else {})}
        self.s3.complete_multipart_upload(
            Bucket=self.bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}, **whole
        )

    def _begun(self, key: str, own: Sums) -> tuple[str, dict[int, dict[str, t.Any]]]:
        """Return the unfinished upload of this key with its parts by number; otherwise a new one."""
        begun = self.s3.list_multipart_uploads(Bucket=self.bucket, Prefix=key).get("Uploads", [])
        same_object = [
            entry for entry in begun if entry["Key"] == key and entry.get("ChecksumAlgorithm") == own.algorithm
        ]
        if same_object:
            upload = max(same_object, key=lambda entry: str(entry["Initiated"]))["UploadId"]
            pages = self.s3.get_paginator("list_parts").paginate(Bucket=self.bucket, Key=key, UploadId=upload)
            return upload, {part["PartNumber"]: part for page in pages for part in page.get("Parts", [])}
        checksum = {"ChecksumAlgorithm": own.algorithm, "ChecksumType": own.kind}
        new = self.s3.create_multipart_upload(Bucket=self.bucket, Key=key, **checksum, **self._options())
        return new["UploadId"], {}

    def delete(self, keys: t.Sequence[str]) -> None:
        """Delete objects. Raises AwsError with those that remain."""
        for start in range(0, len(keys), DELETE_AT_ONCE):
            chosen = [{"Key": key} for key in keys[start : start + DELETE_AT_ONCE]]
            with aws.doing(f"deleting objects of s3://{self.bucket}"):
                answer = self.s3.delete_objects(Bucket=self.bucket, Delete={"Objects": chosen, "Quiet": True})
            if answer.get("Errors"):
                kept = ", ".join(f"{error['Key']} ({error['Code']})" for error in answer["Errors"])
                raise aws.AwsError(f"s3://{self.bucket} kept {kept}; look at the bucket's policy")

    def sample(self, file: File, name: str, target: str) -> str:
        """Fetch one object back to ``name`` below ``target``, prove it against the local file, and look through it
        when it is an archive."""
        path = os.path.join(target, name)
        if os.path.exists(path) and os.path.samefile(path, file.path):
            raise aws.AwsError(f"the sample {path} would take the place of the file itself; choose another sample_dir")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Written to a new file and verified first: an existing file or link is not written to.
        handle, part = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".mlcluster-sample-")
        try:
            self._fetch(file, handle, part)
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise
        return path

    def _fetch(self, file: File, handle: int, path: str) -> None:
        """Fetch the object of a file into an open file of this path. Raises AwsError if they differ."""
        with aws.doing(f"fetching s3://{self.bucket}/{file.key}"), open(handle, "wb") as stream:
            body = self.s3.get_object(Bucket=self.bucket, Key=file.key)["Body"]
            for chunk in body.iter_chunks(1 << 20):
                stream.write(chunk)
        step = part_bytes(file.size, self.part_mib)
        with open(path, "rb") as fetched, open(file.path, "rb") as own:
            if sums(fetched, self.algorithm, step).whole != sums(own, self.algorithm, step).whole:
                raise aws.AwsError(
                    f"the sample s3://{self.bucket}/{file.key} came back with other content than {file.path}; "
                    "was the file written to meanwhile? Run this again"
                )
        look_through(path, file.path)


def look_through(path: str, name: str) -> None:
    """Read an archive to its end. Raises AwsError if it is truncated, as by a killed writer."""
    if not name.endswith((".tar", ".tar.gz", ".tgz")):
        return
    try:
        with tarfile.open(path) as archive:
            count = 0
            for member in archive:
                count += 1
                content = archive.extractfile(member) if member.isfile() else None
                left = member.size
                while content and left > 0:
                    chunk = content.read(1 << 20)
                    if not chunk:
                        raise tarfile.ReadError(f"{member.name} lacks {left} bytes")
                    left -= len(chunk)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as exc:
        raise aws.AwsError(f"the sample {name} is not a whole archive ({exc}); write it again") from exc
    if not count:
        raise aws.AwsError(f"the sample {name} is an archive of nothing; write it again")
