# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Locks of prefixes in S3: live and dead owners, and servers without conditional requests."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import types

import botocore.awsrequest
import pytest
from mlcluster_data.locks import directory as locks
from mlcluster_data.locks.directory import LockedError
from mlcluster_data.locks.s3 import S3Lock

from tests.data.support.fake_s3 import BUCKET, _server, pauses, server

__all__ = ["_server", "pauses", "server"]

KEY = f"run/{locks.NAME}"


def held_by(server, beats=1, **changes) -> locks.Owner:
    """Write a lock of an owner, by default a process of another node, and return the owner."""
    owner = dataclasses.replace(locks.myself(), **{"host": "n7", "boot": "other", "token": "theirs", **changes})
    content = json.dumps({**dataclasses.asdict(owner), "beats": beats}).encode()
    server.client.put_object(Bucket=BUCKET, Key=KEY, Body=content)
    return owner


def names(server) -> list[str]:
    return [entry["Key"] for entry in server.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def test_lock_is_taken_and_released(server):
    first = S3Lock(server.prefix())
    assert first.acquire() is None and first.ours()
    with pytest.raises(LockedError, match=f"s3://{BUCKET}/run is in use by process {os.getpid()}"):
        S3Lock(server.prefix()).acquire()
    first.release()
    assert names(server) == []


def test_earlier_run_of_same_job_is_over(server, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    before = held_by(server, job="12", restart="0")
    lock = S3Lock(server.prefix(), stale_seconds=600)
    assert lock.acquire() == before and lock.ours()
    lock.release()


def test_lock_of_silent_node_goes_to_one_process_only(server):
    before = held_by(server)
    slow, fast = (S3Lock(server.prefix(), stale_seconds=0.2) for _number in range(2))
    _owner, etag = slow._read()
    assert fast.acquire() == before and fast.ours()
    # The slow process read the lock before the fast one acquired it, and acts afterwards.
    assert not slow._replace(etag)
    assert fast.ours()
    fast.release()


def test_live_node_keeps_lock_in_s3(server):
    held_by(server, job="4")
    ended = threading.Event()

    def write():
        beats = 1
        while not ended.wait(0.02):
            beats += 1
            held_by(server, beats, job="4")

    writer = threading.Thread(target=write)
    lock = S3Lock(server.prefix(), stale_seconds=600)
    writer.start()
    try:
        with pytest.raises(LockedError, match="of job 4 on n7"):
            lock.acquire()
    finally:
        ended.set()
        writer.join()
    assert lock._renewer is None


def test_signs_of_life_stop_once_lock_is_lost(server):
    lock = S3Lock(server.prefix(), stale_seconds=0.06)
    lock.acquire()
    _owner, first = lock._read()
    ended = threading.Event()
    while lock._read()[1] == first:
        assert not ended.wait(0.01)
    # The local S3 does not check a condition and write atomically: the lock's write may come between both.
    while lock._renewer.is_alive():
        held_by(server)
    assert not lock.ours()
    lock.release()
    assert names(server) == [KEY]


def test_object_that_is_not_lock_is_left_unchanged(server):
    server.client.put_object(Bucket=BUCKET, Key=KEY, Body=b"notes")
    with pytest.raises(LockedError, match="is not a lock of this program"):
        S3Lock(server.prefix()).acquire()


def forget(request, **_kwargs):
    for header in ("If-None-Match", "If-Match"):
        del request.headers[header]


def refuse(request, **_kwargs):
    body = b"<Error><Code>NotImplemented</Code><Message>A header is not implemented.</Message></Error>"
    raw = types.SimpleNamespace(stream=lambda: iter([body]), read=lambda: body)
    return botocore.awsrequest.AWSResponse(request.url, 501, {"Content-Type": "application/xml"}, raw)


@pytest.mark.parametrize(
    ("event", "handler", "words"),
    [
        ("before-sign", forget, "the server ignores If-None-Match"),
        ("before-send", refuse, "the server has no conditional writes"),
    ],
)
def test_server_without_conditions_is_reported_unlocked(server, caplog, event, handler, words):
    prefix = server.prefix()
    prefix._client.meta.events.register(f"{event}.s3.PutObject", handler)
    lock = S3Lock(prefix)
    assert lock.acquire() is None and lock.ours()
    assert f"{prefix.url} is not locked ({words}): check that no other training uses it" in caplog.text
    lock.release()


def test_boto3_without_conditions_is_reported_unlocked(server, caplog):
    prefix = server.prefix()
    prefix._client.meta.service_model.operation_model("PutObject").input_shape.members.pop("IfNoneMatch")
    lock = S3Lock(prefix)
    assert lock.acquire() is None
    assert "this boto3 has no conditional writes" in caplog.text


def test_lost_response_does_not_count_as_foreign_lock(server):
    """The request arrives, its response is lost, and boto3 retries."""
    lock = S3Lock(server.prefix())
    content = json.dumps({**dataclasses.asdict(lock.owner), "beats": 1}).encode()
    server.client.put_object(Bucket=BUCKET, Key=KEY, Body=content)
    assert lock.acquire() is None and lock.ours()
    lock.release()
    assert names(server) == []
