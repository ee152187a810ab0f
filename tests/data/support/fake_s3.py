# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A local S3 for tests: a bucket on 127.0.0.1, and requests that fail with status 503."""

from __future__ import annotations

import os
import types
import urllib.parse
from collections.abc import Iterator

import boto3
import botocore.awsrequest
import botocore.endpoint
import pytest
from mlcluster_data.files import s3
from moto.server import ThreadedMotoServer

BUCKET = "checkpoints"


class Server:
    """A bucket: tests inspect and change it by ``client``; the data programs use it by ``prefix(…)``."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = boto3.client("s3")
        self.client.create_bucket(Bucket=BUCKET)

    def prefix(self, below: str = "run", **options) -> s3.Prefix:
        prefix = s3.Prefix(f"s3://{BUCKET}/{below}", **options)
        prefix._client.meta.events.register("before-send.s3.CompleteMultipartUpload", self._if_match)
        return prefix

    def _if_match(self, request, **_kwargs):
        """Refuse the end of an upload over another object, as S3 does and moto does not."""
        wanted = request.headers.get("If-Match")
        key = urllib.parse.unquote(urllib.parse.urlsplit(request.url).path).removeprefix(f"/{BUCKET}/")
        there = self.client.list_objects_v2(Bucket=BUCKET, Prefix=key).get("Contents", [])
        if wanted is None or [entry["ETag"] for entry in there if entry["Key"] == key] == [os.fsdecode(wanted)]:
            return None
        return _refusal(request, 412, "PreconditionFailed")

    def empty(self) -> None:
        for entry in self.client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
            self.client.delete_object(Bucket=BUCKET, Key=entry["Key"])


@pytest.fixture(scope="module")
def _server() -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL_S3", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name in ("AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_ENDPOINT_URL"):
            patch.delenv(name, raising=False)
        yield Server(f"http://{host}:{port}")
        server.stop()


@pytest.fixture
def server(_server: Server) -> Iterator[Server]:
    """Yield an empty bucket."""
    yield _server
    _server.empty()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of boto3's pauses before retries, which are skipped."""
    waited: list[float] = []
    monkeypatch.setattr(botocore.endpoint, "time", types.SimpleNamespace(sleep=waited.append))
    return waited


class Unwell:
    """Makes the first ``times`` requests of an operation (such as PutObject) fail, by default with 503 SlowDown.

    of: a part of the URL; other requests succeed.
    """

    def __init__(
        self, prefix: s3.Prefix, operation: str, times: int, answer: tuple[int, str] = (503, "SlowDown"), of: str = ""
    ) -> None:
        self.left, self.asked, self.answer, self.of = times, 0, answer, of
        prefix._client.meta.events.register(f"before-send.s3.{operation}", self._answer)

    def _answer(self, request, **_kwargs):
        if self.of not in request.url:
            return None
        self.asked += 1
        if self.left <= 0:
            return None
        self.left -= 1
        status, code = self.answer
        return _refusal(request, status, code)


def _refusal(request, status: int, code: str) -> botocore.awsrequest.AWSResponse:
    body = f"<Error><Code>{code}</Code><Message>Please reduce your request rate.</Message></Error>".encode()
    raw = types.SimpleNamespace(stream=lambda: iter([body]), read=lambda: body)
    return botocore.awsrequest.AWSResponse(request.url, status, {"Content-Type": "application/xml"}, raw)
