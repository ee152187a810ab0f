# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A backup that is killed at any request: the copy before it stays whole, and the next run sends what is missing."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal

import pytest
from mlcluster_data.checkpoints import backup
from mlcluster_data.checkpoints.directory import INDEX, DirectoryStore, Manifest, verify
from mlcluster_data.checkpoints.s3 import S3Store
from mlcluster_data.files import s3
from mlcluster_data.files.durable import FileSum

from tests.data.support.fake_s3 import _server, server
from tests.data.support.forked import RankDiedError, ranks

__all__ = ["_server", "server"]
# The names of one checkpoint, and the shards of the other one that it lacks.
SHARDS = ("__0_0.distcp", "__1_0.distcp", INDEX)
MIB = 1 << 20


def save(folder, content, shards=SHARDS, step=1):
    """Write a checkpoint of files of the same size, whatever the content."""
    place = folder / f"step-{step:08d}"
    place.mkdir(parents=True, exist_ok=True)
    sums = {}
    for name in shards:
        (place / name).write_bytes(content + name.encode())
        sums[name] = FileSum(len(content + name.encode()), hashlib.sha256(content + name.encode()).hexdigest())
    (place / "complete").write_bytes(Manifest(step, 1, sums, {}, created="once").text())
    (folder / "latest").write_text(f"step-{step:08d}\n")
    return place


def requests(prefix, count):
    """Die by SIGKILL right before a request that sends something, once ``count`` were sent."""
    left = [count]

    def watch(**_about):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    for operation in ("PutObject", "UploadPart", "CompleteMultipartUpload"):
        prefix._client.meta.events.register(f"before-send.s3.{operation}", watch)


def push_killed(source, server, folder, count):
    """Return whether a push came to its end; it is killed after ``count`` requests that send."""

    def push(_report):
        prefix = server.prefix()
        requests(prefix, count)
        return backup.Backup(source, prefix, workers=1).push().ok

    try:
        return ranks(0, push, folder)[0]
    except RankDiedError as died:
        assert died.status == -signal.SIGKILL
        return False


def kept(store):
    """Return the content of the complete checkpoint of a store, which is proved to be one."""
    assert store.steps() == [1] and verify(store, 1) == []
    return store.manifest(1).files


def restored(server, folder):
    report = backup.Backup(folder, server.prefix()).restore()
    assert report.ok, report.problems
    return kept(DirectoryStore(folder))


def test_push_killed_at_any_request_keeps_a_whole_checkpoint(server, tmp_path):
    """The later files have the sizes of the earlier ones, so that only the content differs."""
    source = tmp_path / "source"
    for count in itertools.count():
        server.empty()
        place = save(source, b"first")
        assert backup.Backup(source, server.prefix()).push().ok
        before = kept(DirectoryStore(source))
        save(source, b"again")
        after = kept(DirectoryStore(source))
        done = push_killed(source, server, tmp_path, count)
        assert backup.Backup(source, server.prefix()).verify(deep=True).ok
        assert restored(server, tmp_path / f"killed-{count}") == (after if done else before)
        # A training that reads the prefix itself finds a whole one, too.
        assert kept(S3Store(server.prefix())) == before
        assert backup.Backup(source, server.prefix()).push().ok
        assert restored(server, tmp_path / f"again-{count}") == after
        assert backup.Backup(source, server.prefix()).verify(deep=True).ok
        (place / "complete").unlink()
        if done:
            break
    # Four files, latest that did not change, and the manifest: as a new object, which is refused, and over the old one.
    assert count == 6


@pytest.mark.parametrize("name", [*SHARDS, "complete", backup.MANIFEST])
def test_interrupted_push_lists_no_half_of_a_checkpoint(server, tmp_path, monkeypatch, name):
    source = tmp_path / "source"
    save(source, b"first")
    assert backup.Backup(source, server.prefix()).push().ok
    before = kept(DirectoryStore(source))
    save(source, b"again")
    original = s3.Prefix.put_file

    def interrupted(self, key, path, *rest):
        if path.name == name:
            raise KeyboardInterrupt
        return original(self, key, path, *rest)

    monkeypatch.setattr(s3.Prefix, "put_file", interrupted)
    run = backup.Backup(source, server.prefix(), workers=1)
    if name == backup.MANIFEST:
        assert run.push().ok
        before = kept(DirectoryStore(source))
    else:
        with pytest.raises(KeyboardInterrupt):
            run.push()
    assert restored(server, tmp_path / "back") == before


@pytest.mark.parametrize("is_whole", [True, False])
def test_manifest_written_during_a_push_is_not_sent(server, tmp_path, monkeypatch, is_whole):
    """Its files were not sent; beside those of the earlier checkpoint it would make the mixture look complete."""
    source = tmp_path / "source"
    save(source, b"first")
    before = kept(DirectoryStore(source))
    if is_whole:
        assert backup.Backup(source, server.prefix()).push().ok
    original = backup.Backup._push

    def written_again(self, name, *rest):
        if name.endswith("/complete"):
            save(source, b"again")
        return original(self, name, *rest)

    with monkeypatch.context() as during:
        during.setattr(backup.Backup, "_push", written_again)
        report = backup.Backup(source, server.prefix()).push()
    assert f"step-{1:08d}/complete differs from its manifest: it was not sent" in " ".join(report.problems)
    if is_whole:
        assert kept(S3Store(server.prefix())) == restored(server, tmp_path / "during") == before
    else:
        assert S3Store(server.prefix()).steps() == []
    assert backup.Backup(source, server.prefix()).push().ok
    assert restored(server, tmp_path / "after") == kept(DirectoryStore(source))


def restored_over(server, folder, monkeypatch, fetched, **options):
    """Restore into a folder with another checkpoint of that name, where only so many objects can be fetched."""
    original, left = s3.Prefix.fetch, [fetched]

    def fetch(self, *about):
        left[0] -= 1
        if left[0] < 0:
            raise s3.S3Error("no more")
        return original(self, *about)

    with monkeypatch.context() as during:
        during.setattr(s3.Prefix, "fetch", fetch)
        return backup.Backup(folder, server.prefix(), workers=1).restore(**options)


@pytest.mark.parametrize("fetched", range(5))
def test_restore_over_another_checkpoint_leaves_no_mixture(server, tmp_path, monkeypatch, fetched):
    """Its files have the same sizes, so with the manifest of the other one they would look whole."""
    save(tmp_path / "source", b"first")
    assert backup.Backup(tmp_path / "source", server.prefix()).push().ok
    place = save(tmp_path / "other", b"again")
    report = restored_over(server, tmp_path / "other", monkeypatch, fetched, overwrite=True)
    assert report.ok is (fetched == 4), report
    # The other one as it was, neither, or the restored one.
    assert (place / "complete").exists() is (fetched in (0, 4))
    if fetched in (0, 4):
        kept(DirectoryStore(tmp_path / "other"))
    assert backup.Backup(tmp_path / "other", server.prefix()).restore(overwrite=True).ok
    assert kept(DirectoryStore(tmp_path / "other")) == kept(DirectoryStore(tmp_path / "source"))


def test_restore_adds_no_file_to_another_checkpoint(server, tmp_path, monkeypatch):
    save(tmp_path / "source", b"first")
    assert backup.Backup(tmp_path / "source", server.prefix()).push().ok
    place = save(tmp_path / "other", b"again")
    (place / SHARDS[0]).unlink()
    report = restored_over(server, tmp_path / "other", monkeypatch, 9)
    assert f"{place}/complete is there and differs from the backup: move it away" in " ".join(report.problems)
    assert report.copied == [] and not (place / SHARDS[0]).exists()


def test_shards_of_an_earlier_checkpoint_are_not_restored(server, tmp_path):
    """The copy of a checkpoint of two ranks must not get the files of one of four."""
    source = tmp_path / "source"
    place = save(source, b"first", shards=(*SHARDS, "__2_0.distcp"))
    assert backup.Backup(source, server.prefix()).push().ok
    (place / "__2_0.distcp").unlink()
    save(source, b"again")
    assert backup.Backup(source, server.prefix()).push().ok
    restored(server, tmp_path / "back")
    assert sorted(path.name for path in (tmp_path / "back" / place.name).iterdir()) == sorted([*SHARDS, "complete"])
    # Nothing was deleted.
    assert kept(S3Store(server.prefix())).keys() == {*SHARDS, "__2_0.distcp"}


def test_copied_shard_of_an_earlier_checkpoint_is_not_restored(server, tmp_path):
    """Another program has sent it again, with another entity tag."""
    source = tmp_path / "source"
    place = save(source, b"first", shards=(*SHARDS, "__2_0.distcp"))
    assert backup.Backup(source, server.prefix()).push().ok
    prefix, name = server.prefix(), f"{place.name}/__2_0.distcp"
    content = prefix.get(name)
    where = {"Bucket": prefix.bucket, "Key": prefix.prefix + name}
    upload = prefix._client.create_multipart_upload(**where)["UploadId"]
    tag = prefix._client.upload_part(**where, UploadId=upload, PartNumber=1, Body=content)["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    prefix._client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload=parts)
    (place / "__2_0.distcp").unlink()
    save(source, b"again")
    assert backup.Backup(source, server.prefix()).push().ok
    assert restored(server, tmp_path / "back") == kept(DirectoryStore(source))
    assert not (tmp_path / "back" / name).exists()


def test_earlier_content_that_comes_back_uses_its_copy(server, tmp_path):
    source = tmp_path / "source"
    for content, sent in ((b"first", 5), (b"again", 4), (b"first", 0)):
        save(source, content)
        report = backup.Backup(source, server.prefix()).push()
        assert report.ok and len(report.copied) == sent, report
        assert restored(server, tmp_path / f"{content}{sent}") == kept(DirectoryStore(source))


def test_push_that_is_always_killed_comes_to_its_end(server, tmp_path):
    """Each run sends one more file; no manifest of a backup lists them yet."""
    source = tmp_path / "source"
    save(source, b"first")
    runs = 1
    while not push_killed(source, server, tmp_path, 1):
        runs += 1
        assert runs < 9
    # Four files, latest, and the manifest.
    assert runs == 6
    assert restored(server, tmp_path / "back") == kept(DirectoryStore(source))


@pytest.mark.parametrize("size", [0, 9, 11 * MIB])
@pytest.mark.parametrize("change", ["", "content", "size", "object"])
def test_object_of_a_lost_manifest_counts_if_s3_proves_it(server, tmp_path, size, change):
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").write_bytes(bytes(size))
    prefix = server.prefix(part=5 * MIB)
    assert backup.Backup(source, prefix).push().ok
    prefix.delete([backup.MANIFEST])
    if change == "content":
        (source / "file").write_bytes(b"x" * size)
    elif change == "size":
        (source / "file").write_bytes(bytes(size + 1))
    elif change == "object":
        # Another program sent it, without a SHA-256.
        prefix._client.put_object(Bucket="checkpoints", Key="run/file", Body=bytes(size))
    report = backup.Backup(source, prefix).push()
    sent = [] if not change or (change == "content" and not size) else ["file"]
    assert (report.copied, report.ok) == (sent, True)
    assert backup.Backup(source, prefix).verify(deep=True).ok


def test_object_without_answer_is_sent_again(server, tmp_path, monkeypatch):
    """As with a role that may write objects and not read them."""
    source = tmp_path / "source"
    save(source, b"first")
    prefix = server.prefix()
    assert backup.Backup(source, prefix).push().ok
    prefix.delete([backup.MANIFEST])

    def refuses(**_about):
        raise OSError("no")

    monkeypatch.setattr(prefix._client, "head_object", refuses)
    assert len(backup.Backup(source, prefix).push().copied) == 5


def test_key_of_another_type_is_no_manifest(server, tmp_path):
    entry = {"size": 1, "sha256": "", "etag": "", "mode": 420, "changed": 0, "key": 1}
    server.prefix().put(backup.MANIFEST, json.dumps({"schema": backup.SCHEMA, "files": {"a": entry}}).encode())
    with pytest.raises(backup.BackupError, match="is not a manifest of a backup"):
        backup.Backup(tmp_path, server.prefix()).restore()
