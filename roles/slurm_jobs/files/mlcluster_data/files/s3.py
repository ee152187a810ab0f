# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects below one S3 prefix, each sent and fetched with its SHA-256 checked. Needs boto3.

boto3 finds credentials and region (instance role, environment); AWS_ENDPOINT_URL_S3 names another server.
"""

from __future__ import annotations

import base64
import concurrent.futures
import dataclasses
import hashlib
import os
import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..errors import DataError
from . import durable
from .durable import FileSum

# Part numbers go to 10000 and parts but the last have 5 MiB at least (Amazon S3 user guide, "Multipart upload limits").
PARTS_MOST = 10_000
PART_SIZE = 16 << 20
PART_SIZE_LEAST = 5 << 20
# An object is deleted with up to 999 others in one request (Amazon S3 API, DeleteObjects).
DELETE_MOST = 1000
ATTEMPTS = 8
# The condition of a write that never replaces an object; having() is that of a write that replaces a known one.
MISSING = {"IfNoneMatch": "*"}
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound")
_REJECTED_CREDENTIALS = ("ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch")
_UNKNOWN = ("NotImplemented", "501")
_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?")


class S3Error(DataError):
    """A request to S3 failed; the message states what was tried, what was found and what to do next."""


class AbsentError(S3Error):
    """The object does not exist; other errors do not prove that."""


class ConditionError(S3Error):
    """Conditional writes are unsupported here; the message names what lacks them."""


class ConflictError(S3Error):
    """The object is not as the condition of the write wanted it: another program wrote it."""


# Error codes of a refused condition. 409: another process wrote at the same moment. 404: the object to replace is gone.
_REFUSED = ("PreconditionFailed", "412", "ConditionalRequestConflict", "409", "NoSuchKey", "404")


@dataclasses.dataclass(frozen=True)
class Remote:
    """An object in a listing: size in bytes, entity tag."""

    size: int
    etag: str


@dataclasses.dataclass(frozen=True)
class Parts:
    """The sum of a file, and the SHA-256 of each part in binary."""

    whole: FileSum
    part_size: int
    digests: tuple[bytes, ...]


def part_size(size: int, wanted: int = PART_SIZE) -> int:
    """Return the part size for a file of ``size`` bytes, within the limit of parts."""
    return max(wanted, -(-size // PARTS_MOST))


def measure(path: Path, wanted: int = PART_SIZE) -> Parts:
    """Read a file for sending. Raises OSError."""
    length = part_size(path.stat().st_size, wanted)
    whole = hashlib.sha256()
    digests = []
    size = 0
    for piece in durable.pieces(path, length):
        whole.update(piece)
        digests.append(hashlib.sha256(piece).digest())
        size += len(piece)
    return Parts(FileSum(size, whole.hexdigest()), length, tuple(digests))


def _b64(digest: bytes) -> str:
    return base64.b64encode(digest).decode("ascii")


class Prefix:
    """The objects below s3://BUCKET/PREFIX; names are relative to it. Every method raises S3Error."""

    def __init__(self, url: str, *, attempts: int = ATTEMPTS, parallel: int = 4, part: int = PART_SIZE) -> None:
        """``attempts``: total tries of one request; ``parallel``: parts of a file that are sent at the same time."""
        found = _URL.fullmatch(url)
        if not found:
            raise S3Error(f"{url} is not a place in S3: use s3://BUCKET or s3://BUCKET/PREFIX")
        try:
            import boto3
            import botocore.config
            import botocore.exceptions
        except ImportError as exc:
            raise S3Error(f"{url} needs boto3, which this Python does not have: install it beside torch") from exc
        self.url = url.rstrip("/")
        self.bucket = found.group(1)
        self.prefix = f"{(found.group(2) or '').strip('/')}/".lstrip("/")
        self.parallel, self.part, self.attempts = parallel, max(part, PART_SIZE_LEAST), attempts
        self._failures = (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError, OSError)
        # SlowDown (503), 500, timeouts and broken connections are tried again with growing pauses of up to 20 s.
        settings = botocore.config.Config(
            retries={"mode": "standard", "total_max_attempts": attempts},
            connect_timeout=10,
            read_timeout=60,
            max_pool_connections=64,
        )
        try:
            self._client = boto3.client("s3", config=settings)
        except self._failures as exc:
            raise S3Error(f"{url} cannot be reached: {_reason(exc)}") from exc

    def url_of(self, name: str) -> str:
        """Return the URL of one object, for people."""
        return f"{self.url}/{name}"

    def put_file(
        self, name: str, path: Path, parts: Parts | None = None, only: Mapping[str, str] | None = None
    ) -> tuple[FileSum, str]:
        """Send a file; return its sum and the object's entity tag once S3 has confirmed the checksum of every part.

        ``parts``: the result of measure() if the file was read already. A file that changes meanwhile is an error.
        ``only``: the condition of the write, MISSING or having(). Raises ConflictError if the object is neither as
        wanted nor this file already, and ConditionError where conditions are unsupported.
        """
        found = parts
        try:
            found = found or measure(path, self.part)
            if len(found.digests) <= 1:
                content = path.read_bytes()
                if len(content) != found.whole.size or hashlib.sha256(content).hexdigest() != found.whole.sha256:
                    raise S3Error(f"{path} changed while it was read: send it again once no program writes to it")
                return found.whole, self._put(name, content, only or {})
            return found.whole, self._put_parts(name, path, found, only or {})
        except self._failures as exc:
            if only and found and _code(exc) in _REFUSED:
                # A request may have arrived although its answer did not, and another program may send the same file.
                etag = self.holding(name, found)
                if etag is None:
                    raise ConflictError(
                        f"{self.url_of(name)} was written by another program meanwhile, so {path} was not sent over "
                        "it: wait for the end of the other program, and send it again"
                    ) from exc
                return found.whole, etag
            if only and _code(exc) in _UNKNOWN:
                raise ConditionError("the server has no conditional writes") from exc
            raise S3Error(f"{path} could not be sent to {self.url_of(name)}: {_reason(exc)}") from exc

    def holding(self, name: str, parts: Parts) -> str | None:
        """Return the entity tag of an object that S3 has checked to be this file; None if nothing proves that.

        The object is not read: S3 keeps the SHA-256 that it checked when the object was sent; for an object in parts it
        is the SHA-256 of those of the parts (Amazon S3 user guide, "Checking object integrity").
        """
        try:
            found = self._client.head_object(Bucket=self.bucket, Key=self.prefix + name, ChecksumMode="ENABLED")
        except self._failures:
            return None
        wanted = bytes.fromhex(parts.whole.sha256)
        if len(parts.digests) > 1:
            wanted = hashlib.sha256(b"".join(parts.digests)).digest()
        # S3 appends the number of parts.
        checksum = str(found.get("ChecksumSHA256")).partition("-")[0]
        is_same = checksum == _b64(wanted) and found.get("ContentLength") == parts.whole.size
        return str(found["ETag"]) if is_same else None

    def put(self, name: str, content: bytes) -> str:
        """Send bytes; return the object's entity tag."""
        try:
            return self._put(name, content, {})
        except self._failures as exc:
            raise S3Error(f"{self.url_of(name)} could not be written: {_reason(exc)}") from exc

    def create(self, name: str, content: bytes) -> str | None:
        """Create a small object; return its entity tag, None if the object exists.

        Raises ConditionError too.
        """
        return self._put_if(name, content, MISSING)

    def replace(self, name: str, content: bytes, etag: str) -> str | None:
        """Replace a small object with this entity tag; return the new tag, None if it has another or is missing.

        Raises ConditionError too.
        """
        return self._put_if(name, content, having(etag))

    def get_tagged(self, name: str) -> tuple[bytes, str] | None:
        """Return the content of a small object and its entity tag; None if it is missing."""
        try:
            answer = self._client.get_object(Bucket=self.bucket, Key=self.prefix + name)
            return answer["Body"].read(), str(answer["ETag"])
        except self._failures as exc:
            if _code(exc) in ("NoSuchKey", "404"):
                return None
            raise S3Error(f"{self.url_of(name)} could not be read: {_reason(exc)}") from exc

    def get(self, name: str) -> bytes | None:
        """Return the content of a small object; None if it is missing."""
        pieces: list[bytes] = []
        try:
            self._stream(name, pieces.append, pieces.clear)
        except self._failures as exc:
            if _code(exc) in ("NoSuchKey", "404"):
                return None
            raise S3Error(f"{self.url_of(name)} could not be read: {_reason(exc)}") from exc
        return b"".join(pieces)

    def fetch(self, name: str, file: t.BinaryIO, where: Path) -> FileSum:
        """Fetch an object into an open file; return the sum of the bytes. ``where``: the file's path for messages."""
        try:
            return self._stream(name, file.write, lambda: (file.seek(0), file.truncate()))
        except self._failures as exc:
            kind = AbsentError if _code(exc) in ("NoSuchKey", "404") else S3Error
            raise kind(f"{self.url_of(name)} could not be fetched to {where}: {_reason(exc)}") from exc

    def measure(self, name: str) -> FileSum:
        """Read an object completely and return its sum."""
        try:
            return self._stream(name, lambda piece: None, lambda: None)
        except self._failures as exc:
            kind = AbsentError if _code(exc) in ("NoSuchKey", "404") else S3Error
            raise kind(f"{self.url_of(name)} could not be read: {_reason(exc)}") from exc

    def list(self, below: str = "") -> dict[str, Remote]:
        """Return every object with this prefix."""
        found = {}
        try:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.prefix + below
            )
            for page in pages:
                for entry in page.get("Contents", []):
                    found[entry["Key"].removeprefix(self.prefix)] = Remote(entry["Size"], entry["ETag"])
        except self._failures as exc:
            raise S3Error(f"{self.url_of(below)} could not be listed: {_reason(exc)}") from exc
        return found

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; missing objects are no error."""
        left = list(names)
        try:
            while left:
                some, left = left[:DELETE_MOST], left[DELETE_MOST:]
                wanted = {"Objects": [{"Key": self.prefix + name} for name in some], "Quiet": True}
                done = self._client.delete_objects(Bucket=self.bucket, Delete=wanted)
                if done.get("Errors"):
                    first = done["Errors"][0]
                    raise S3Error(f"s3://{self.bucket}/{first['Key']} could not be deleted: {first.get('Message')}")
        except self._failures as exc:
            raise S3Error(f"objects below {self.url} could not be deleted: {_reason(exc)}") from exc

    def _put_if(self, name: str, content: bytes, condition: Mapping[str, str]) -> str | None:
        self._need("PutObject", condition)
        try:
            done = self._client.put_object(Bucket=self.bucket, Key=self.prefix + name, Body=content, **condition)
            return str(done["ETag"])
        except self._failures as exc:
            code = _code(exc)
            if code in _REFUSED:
                return None
            if code in _UNKNOWN:
                raise ConditionError("the server has no conditional writes") from exc
            raise S3Error(f"{self.url_of(name)} could not be written: {_reason(exc)}") from exc

    def _need(self, operation: str, condition: Mapping[str, str]) -> None:
        """Raise ConditionError if this boto3 does not know a condition of an operation."""
        known = self._client.meta.service_model.operation_model(operation).input_shape.members
        if not set(condition) <= set(known):
            raise ConditionError("this boto3 has no conditional writes, which came with 1.35.69")

    def _put(self, name: str, content: bytes, only: Mapping[str, str]) -> str:
        self._need("PutObject", only)
        checksum = _b64(hashlib.sha256(content).digest())
        done = self._client.put_object(
            Bucket=self.bucket, Key=self.prefix + name, Body=content, ChecksumAlgorithm="SHA256",
            ChecksumSHA256=checksum, **only,
        )  # fmt: skip
        self._confirm(name, done, checksum)
        return str(done["ETag"])

    def _confirm(self, name: str, done: dict[str, t.Any], checksum: str) -> None:
        if done.get("ChecksumSHA256") != checksum:
            raise S3Error(
                f"the server did not confirm the SHA-256 of {self.url_of(name)} (it reported "
                f"{done.get('ChecksumSHA256')}): nothing proves that it arrived, so use a server that checks"
            )

    def _put_parts(self, name: str, path: Path, parts: Parts, only: Mapping[str, str]) -> str:
        self._need("CompleteMultipartUpload", only)
        where = {"Bucket": self.bucket, "Key": self.prefix + name}
        upload = self._client.create_multipart_upload(**where, ChecksumAlgorithm="SHA256")["UploadId"]
        try:
            with concurrent.futures.ThreadPoolExecutor(self.parallel) as pool:
                sent = list(
                    pool.map(
                        lambda at: self._put_part(name, path, parts, upload, at),
                        range(len(parts.digests)),
                    )
                )
            done = self._client.complete_multipart_upload(
                **where, UploadId=upload, MultipartUpload={"Parts": sent}, **only
            )
            return str(done["ETag"])
        except BaseException:
            # The parts of an unfinished upload cost money.
            self._client.abort_multipart_upload(**where, UploadId=upload)
            raise

    def _put_part(self, name: str, path: Path, parts: Parts, upload: str, at: int) -> dict[str, t.Any]:
        with open(path, "rb") as file:
            content = os.pread(file.fileno(), parts.part_size, at * parts.part_size)
        if hashlib.sha256(content).digest() != parts.digests[at]:
            raise S3Error(f"{path} changed while it was read: send it again once no program writes to it")
        checksum = _b64(parts.digests[at])
        done = self._client.upload_part(
            Bucket=self.bucket, Key=self.prefix + name, UploadId=upload, PartNumber=at + 1, Body=content,
            ChecksumAlgorithm="SHA256", ChecksumSHA256=checksum,
        )  # fmt: skip
        self._confirm(name, done, checksum)
        return {"PartNumber": at + 1, "ETag": done["ETag"], "ChecksumSHA256": checksum}

    def _stream(self, name: str, take: t.Callable[[bytes], t.Any], restart: t.Callable[[], t.Any]) -> FileSum:
        """Read an object; retry a connection that breaks in the middle, which boto3 does not."""
        for attempt in range(1, self.attempts + 1):
            restart()
            whole, size = hashlib.sha256(), 0
            answer = self._client.get_object(Bucket=self.bucket, Key=self.prefix + name)
            try:
                for piece in answer["Body"].iter_chunks(durable.CHUNK):
                    take(piece)
                    whole.update(piece)
                    size += len(piece)
                if size == answer["ContentLength"]:
                    return FileSum(size, whole.hexdigest())
            except self._failures as exc:
                if attempt == self.attempts or isinstance(exc, OSError):
                    raise
        raise S3Error(f"{self.url_of(name)} ended early {self.attempts} times: check whether a program changes it")


def _code(error: BaseException) -> str:
    answer: t.Any = getattr(error, "response", None) or {}
    return str(answer.get("Error", {}).get("Code", ""))


def _reason(error: BaseException) -> str:
    """Return an error in a few words, with advice if the credentials are the reason."""
    found = durable.reason(error)
    if type(error).__name__ in _NO_CREDENTIALS or _code(error) in _REJECTED_CREDENTIALS:
        return f"{found}; set AWS_PROFILE or log in, or run this on an instance with an IAM role"
    return found


def having(etag: str) -> dict[str, str]:
    """Return the condition of a write that replaces the object with this entity tag only."""
    return {"IfMatch": etag}


def is_url(text: str) -> bool:
    """Return whether a destination is in S3."""
    return text.startswith("s3://")


def names_of(entries: Sequence[str], below: str) -> list[str]:
    """Return the entries in a folder of a listing, sorted."""
    return sorted(entry for entry in entries if entry.startswith(f"{below}/"))
