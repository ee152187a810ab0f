# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Backup and restore with a local S3: incremental, verified by checksums, with limited retries, and atomic."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.checkpoints import backup
from mlcluster_data.checkpoints.directory import COARSE_SECONDS, FINE_SECONDS, DirectoryStore, Manifest
from mlcluster_data.files import durable, s3
from mlcluster_data.files.durable import FileSum

from tests.data.support.fake_s3 import BUCKET, Unwell, _server, pauses, server
from tests.data.support.forked import RankDiedError, die_at_change, ranks

__all__ = ["_server", "pauses", "server"]
MIB = 1 << 20


def write(folder: Path, **files: bytes) -> Path:
    """Write files with old times."""
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    return folder


def checkpoint(folder: Path, step: int) -> None:
    write(folder / f"step-{step:08d}", data=b"weights", complete=Manifest(step, 1, {}, {}).text())


@pytest.fixture
def source(tmp_path):
    return write(tmp_path / "source", a=b"one", sub__b=b"two" * 1000, empty=b"")


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not backup._is_own(path.name)
    }


def test_only_changed_files_are_sent_again(source, server):
    first = backup.Backup(source, server.prefix()).push()
    assert (sorted(first.copied), first.same, first.ok) == (["a", "empty", "sub/b"], [], True)
    second = backup.Backup(source, server.prefix()).push()
    assert (second.copied, sorted(second.same)) == ([], ["a", "empty", "sub/b"])
    write(source, a=b"another", c=b"new")
    assert sorted(backup.Backup(source, server.prefix()).push().copied) == ["a", "c"]


def test_unchanged_file_is_not_read_again(source, server, monkeypatch):
    backup.Backup(source, server.prefix()).push()
    read = []
    monkeypatch.setattr(s3, "measure", lambda path, _part: read.append(path))
    assert sorted(backup.Backup(source, server.prefix()).push().same) == ["a", "empty", "sub/b"] and read == []


def test_lost_file_of_restored_checkpoint_is_restored_again(source, server, tmp_path):
    checkpoint(source, 1)
    backup.Backup(source, server.prefix()).push()
    backup.Backup(tmp_path / "target", server.prefix()).restore()
    (tmp_path / "target" / "step-00000001" / "data").unlink()
    again = backup.Backup(tmp_path / "target", server.prefix()).restore()
    assert (again.copied, again.problems) == (["step-00000001/data"], [])
    assert tree(tmp_path / "target") == tree(source)


def test_change_that_keeps_size_and_time_is_sent(source, server):
    """tar, rsync and programs that set times leave such files; the inode's change time cannot be set."""
    backup.Backup(source, server.prefix()).push()
    before = (source / "a").stat()
    write(source, a=b"uno")
    after = (source / "a").stat()
    same = ("st_ino", "st_size", "st_mtime_ns")
    assert [getattr(after, of) for of in same] == [getattr(before, of) for of in same]
    assert backup.Backup(source, server.prefix()).push().copied == ["a"]
    assert backup.Backup(Path(), server.prefix()).verify(deep=True).ok


def test_flipped_bit_is_sent_with_full_read(source, server, monkeypatch):
    """A failing disk changes no time: by its signature the file is unchanged, and is not read."""
    backup.Backup(source, server.prefix()).push()
    states = {path.stat().st_ino: backup.Signature.of(path.stat()) for path in source.rglob("*") if path.is_file()}
    write(source, a=b"uno")
    monkeypatch.setattr(backup.Signature, "of", lambda state: states[state.st_ino])
    assert backup.Backup(source, server.prefix()).push().copied == []
    assert backup.Backup(source, server.prefix()).push(rehash=True).copied == ["a"]


def in_ticks(monkeypatch, tick):
    """Let a file have the time of its last tick, in ns, as local file systems and Lustre do."""
    exact = durable.Signature.of

    def of(state):
        found = exact(state)
        return durable.Signature(found.inode, found.size, found.modified // tick * tick, found.changed // tick * tick)

    monkeypatch.setattr(durable.Signature, "of", of)


def test_change_within_a_tick_after_the_read_is_sent(server, tmp_path, monkeypatch):
    """The clock of the file system is some seconds behind that of the node."""
    source, clock, measure, entries = tmp_path / "source", time.time_ns, s3.measure, s3.Prefix.list
    in_ticks(monkeypatch, 4_000_000)
    monkeypatch.setattr(backup.time, "time_ns", lambda: clock() + 5 * 10**9)
    for _try in range(20):
        write(source, a=b"one")
        assert backup.Backup(source, server.prefix()).push().ok
        with monkeypatch.context() as patch:
            # The file is written right before it is looked at, and again right after it is read.
            patch.setattr(s3.Prefix, "list", lambda *given: (entries(*given), write(source, a=b"one"))[0])
            patch.setattr(s3, "measure", lambda *given: (measure(*given), write(source, a=b"two"))[0])
            assert backup.Backup(source, server.prefix()).push().same == ["a"]
        assert backup.Backup(source, server.prefix()).push().copied == ["a"]


@pytest.mark.parametrize(
    ("age", "tick", "expected"),
    [
        (0, 1, [FINE_SECONDS]),
        (0, 10**9, [COARSE_SECONDS]),
        (-(10**14), 1, [FINE_SECONDS]),
        (10**11, 1, []),
    ],
)
def test_young_files_are_waited_for_once(source, server, monkeypatch, age, tick, expected):
    waited, newest = [], max((source / name).stat().st_ctime_ns for name in ("a", "empty", "sub/b"))
    in_ticks(monkeypatch, tick)
    monkeypatch.setattr(backup.time, "time_ns", lambda: newest + age)
    monkeypatch.setattr(backup.time, "sleep", waited.append)
    backup.Backup(source, server.prefix()).push()
    assert waited == expected
    assert sorted(json.loads((source / backup.SUMS).read_text())) == ["a", "empty", "sub/b"]


def test_sum_of_file_that_changes_during_the_wait_is_not_kept(source, server, monkeypatch):
    monkeypatch.setattr(backup.time, "sleep", lambda _wait: write(source, a=b"another"))
    assert backup.Backup(source, server.prefix()).push().ok
    assert sorted(json.loads((source / backup.SUMS).read_text())) == ["empty", "sub/b"]
    assert server.prefix().get("a") == b"another"


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 5}', '{"a": [1, 2, 3, 4]}', '{"a": null}'])
def test_damaged_sums_are_made_again(source, server, text):
    (source / backup.SUMS).write_text(text)
    report = backup.Backup(source, server.prefix()).push()
    assert report.ok and sorted(report.copied) == ["a", "empty", "sub/b"]
    assert sorted(json.loads((source / backup.SUMS).read_text())) == ["a", "empty", "sub/b"]


def test_sums_without_their_last_part_are_made_again(source, server):
    backup.Backup(source, server.prefix()).push()
    sums = json.loads((source / backup.SUMS).read_text())
    (source / backup.SUMS).write_text(json.dumps({name: of[:4] for name, of in sums.items()}))
    assert sorted(backup.Backup(source, server.prefix()).push().same) == ["a", "empty", "sub/b"]


def test_read_only_directory_is_backed_up_with_warnings(source, server, monkeypatch, caplog):
    def read_only(*_given):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(backup.Lock, "acquire", read_only)
    monkeypatch.setattr(backup.durable, "write", read_only)
    assert backup.Backup(source, server.prefix()).push().ok
    warnings = [record.getMessage() for record in caplog.records]
    assert any("continues without a lock (" in one and "Read-only file system" in one for one in warnings)
    assert any("sums are not kept, the next run reads all files again (" in one for one in warnings)


def test_manifest_is_written_only_where_it_changed(source, server, monkeypatch):
    backup.Backup(source, server.prefix()).push()
    for verb in ("create", "replace", "put"):
        monkeypatch.setattr(s3.Prefix, verb, lambda *_given: pytest.fail("the manifest was written"))
    assert backup.Backup(source, server.prefix()).push().ok


def test_server_without_conditional_writes_is_named(source, server, monkeypatch, caplog):
    def unsupported(*_given):
        raise s3.ConditionError("the server has no conditional writes")

    monkeypatch.setattr(s3.Prefix, "create", unsupported)
    prefix = server.prefix()
    assert backup.Backup(source, prefix).push().ok
    assert f"{prefix.url}: check that no other backup writes at the same time (the server has no" in caplog.text
    assert backup.Backup(Path(), server.prefix()).verify(deep=True).ok


def test_only_deep_verification_reads_objects(source, server, monkeypatch):
    backup.Backup(source, server.prefix()).push()
    monkeypatch.setattr(s3.Prefix, "measure", lambda self, name: FileSum(0, name))
    assert backup.Backup(Path(), server.prefix()).verify().ok
    assert len(backup.Backup(Path(), server.prefix()).verify(deep=True).problems) == 3


def test_report_has_seconds_and_bytes_of_its_run(source, server, tmp_path):
    begin = time.monotonic()
    reports = [
        backup.Backup(source, server.prefix()).push(),
        backup.Backup(tmp_path / "target", server.prefix()).restore(),
        backup.Backup(Path(), server.prefix()).verify(),
    ]
    assert 0 < sum(report.seconds for report in reports) <= time.monotonic() - begin
    assert [report.bytes for report in reports] == [3003, 3003, 0]


def test_line_of_report_has_a_rate_only_of_bytes():
    assert backup.Report().line("push") == ("0 files sent (0 bytes, 0.0 s), 0 were there, 0 went meanwhile, 0 problems")
    assert backup.Report(same=["a"], seconds=2.0).line("push") == (
        "0 files sent (0 bytes, 2.0 s), 1 were there, 0 went meanwhile, 0 problems"
    )
    assert backup.Report(copied=["a"], gone=["b"], bytes=4 * 10**12, seconds=2.0).line("restore") == (
        "1 files restored (4000000000000 bytes, 2.0 s, 2000000 MB/s), 0 were there, 1 went meanwhile, 0 problems"
    )


@pytest.mark.parametrize("content", [None, b"other"])
def test_file_missing_here_and_in_bucket_is_reported(source, server, content):
    backup.Backup(source, server.prefix()).push()
    (source / "a").unlink()
    assert backup.Backup(source, server.prefix()).push().ok
    prefix = server.prefix()
    if content is None:
        prefix.delete(["a"])
    else:
        prefix.put("a", content)
    report = backup.Backup(source, server.prefix()).push()
    assert len(report.problems) == 1 and "/a was changed or lost after the backup" in report.problems[0]
    assert backup.Backup(source, server.prefix()).push().ok


@pytest.mark.parametrize("harm", ["lost", "changed"])
def test_object_lost_or_changed_in_bucket_is_sent_again(source, server, harm):
    backup.Backup(source, server.prefix()).push()
    if harm == "lost":
        server.client.delete_object(Bucket=BUCKET, Key="run/a")
    else:
        server.client.put_object(Bucket=BUCKET, Key="run/a", Body=b"XXX")
    found = backup.Backup(Path(), server.prefix()).verify()
    assert len(found.problems) == 1 and f"s3://{BUCKET}/run/a" in found.problems[0]
    assert backup.Backup(source, server.prefix()).push().copied == ["a"]
    assert backup.Backup(Path(), server.prefix()).verify(deep=True).ok


def test_restore_sets_content_mode_and_time(source, server, tmp_path):
    (source / "a").chmod(0o750)
    backup.Backup(source, server.prefix()).push()
    target = tmp_path / "target"
    report = backup.Backup(target, server.prefix()).restore()
    assert report.ok and tree(target) == tree(source)
    state = (target / "a").stat()
    assert (state.st_mode & 0o777, state.st_mtime) == (0o750, 1_000_000_000)
    assert sorted(backup.Backup(target, server.prefix()).restore().same) == ["a", "empty", "sub/b"]


def test_sparse_file_with_attributes_comes_back_as_documented(server, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    with open(source / "a", "wb") as file:
        file.truncate(8 << 20)
        file.write(b"begin")
    os.chmod(source / "a", 0o750)  # noqa: S103 - its bits come back
    os.link(source / "a", source / "b")
    with contextlib.suppress(OSError):
        os.setxattr(source / "a", "user.about", b"weights")
    assert backup.Backup(source, server.prefix()).push().ok
    assert backup.Backup(tmp_path / "back", server.prefix()).restore().ok
    for name in "ab":
        copy = tmp_path / "back" / name
        assert copy.read_bytes() == b"begin" + bytes((8 << 20) - 5)
        assert (copy.stat().st_mode & 0o777, copy.stat().st_nlink, os.listxattr(copy)) == (0o750, 1, [])
        assert copy.stat().st_blocks * 512 >= 8 << 20


def test_restore_replaces_files_on_request_only(source, server, tmp_path):
    backup.Backup(source, server.prefix()).push()
    target = write(tmp_path / "target", a=b"mine")
    report = backup.Backup(target, server.prefix()).restore()
    assert "allow overwriting" in report.problems[0] and (target / "a").read_bytes() == b"mine"
    assert backup.Backup(target, server.prefix()).restore(overwrite=True).copied == ["a"]


def test_object_changed_in_bucket_is_not_restored(source, server, tmp_path):
    backup.Backup(source, server.prefix()).push()
    server.client.put_object(Bucket=BUCKET, Key="run/a", Body=b"XXX")
    report = backup.Backup(tmp_path / "target", server.prefix()).restore()
    assert "has other content than was backed up" in report.problems[0]
    assert sorted(tree(tmp_path / "target")) == ["empty", "sub/b"]


def test_large_file_is_sent_in_parts_and_restored(server, tmp_path):
    content = os.urandom(5 * MIB) * 2 + b"tail"
    source = write(tmp_path / "source", large=content)
    prefix = server.prefix(part=5 * MIB)
    assert backup.Backup(source, prefix).push().bytes == len(content)
    assert server.client.head_object(Bucket=BUCKET, Key="run/large")["ETag"].endswith('-3"')
    backup.Backup(tmp_path / "target", prefix).restore()
    assert tree(tmp_path / "target") == tree(source)


def test_failed_upload_leaves_no_parts(server, tmp_path, pauses):
    source = write(tmp_path / "source", large=b"x" * (11 * MIB))
    prefix = server.prefix(part=5 * MIB, attempts=2)
    Unwell(prefix, "UploadPart", 100)
    report = backup.Backup(source, prefix).push()
    assert "SlowDown" in report.problems[0]
    assert "Uploads" not in server.client.list_multipart_uploads(Bucket=BUCKET)


@pytest.mark.parametrize("operation", ["PutObject", "ListObjectsV2", "GetObject"])
def test_status_503_is_retried(source, server, pauses, operation):
    prefix = server.prefix()
    unwell = Unwell(prefix, operation, 2)
    assert backup.Backup(source, prefix, workers=1).push().ok
    assert unwell.left == 0 and len(pauses) == 2


def test_retries_are_limited_and_other_files_are_sent(source, server, pauses):
    prefix = server.prefix(attempts=3)
    unwell = Unwell(prefix, "PutObject", 3)
    report = backup.Backup(source, prefix, workers=1).push()
    assert len(pauses) == 2 and unwell.asked == 3 + 2 + 1
    assert len(report.problems) == 1 and "SlowDown" in report.problems[0] and len(report.copied) == 2
    assert backup.Backup(source, server.prefix()).push().copied == ["a"]


def test_unconfirmed_checksum_is_failure_of_backup(source, server):
    prefix = server.prefix()
    prefix._client.meta.events.register(
        "after-call.s3.PutObject", lambda parsed, **_kwargs: parsed.pop("ChecksumSHA256", None)
    )
    report = backup.Backup(source, prefix).push()
    assert report.copied == [] and all("did not confirm the SHA-256" in problem for problem in report.problems)
    assert prefix.get(backup.MANIFEST) is None


def test_download_that_ends_early_is_repeated(source, server, tmp_path):
    backup.Backup(source, server.prefix()).push()
    prefix = server.prefix()
    cut = []

    class Cut:
        def __init__(self, body):
            self.body = body

        def iter_chunks(self, size):
            yield self.body.read(100)

    def harm(parsed, **_kwargs):
        if parsed["ContentLength"] == 3000 and not cut:
            cut.append(True)
            parsed["Body"] = Cut(parsed["Body"])

    prefix._client.meta.events.register("after-call.s3.GetObject", harm)
    assert backup.Backup(tmp_path / "target", prefix).restore().ok and cut
    assert tree(tmp_path / "target") == tree(source)


def test_complete_checkpoints_are_sent_and_latest_last(server, tmp_path):
    source = tmp_path / "source"
    checkpoint(source, 1)
    checkpoint(source, 2)
    write(
        source,
        **{
            "step-00000003__data": b"half",
            ".incoming-step-00000004-x__data": b"half",
            ".torn-step-00000005__data": b"bad",
            "latest": b"step-00000002\n",
        },
    )
    prefix = server.prefix()
    sent: list[str] = []
    prefix._client.meta.events.register(
        "before-call.s3.PutObject", lambda params, **_kwargs: sent.append(params["url_path"].partition("/run/")[2])
    )
    assert backup.Backup(source, prefix).push().ok
    assert sent[-2:] == ["latest", backup.MANIFEST]
    assert sorted(sent[:-2]) == [f"step-0000000{step}/{name}" for step in (1, 2) for name in ("complete", "data")]
    assert max(sent.index(f"step-0000000{step}/data") for step in (1, 2)) < min(
        sent.index(f"step-0000000{step}/complete") for step in (1, 2)
    )


def listed(folder: Path, step: int) -> Path:
    """Write a checkpoint with a manifest of its files, and return its folder."""
    files = {"data": FileSum(7, hashlib.sha256(b"weights").hexdigest())}
    write(folder / f"step-{step:08d}", data=b"weights", complete=Manifest(step, 1, files, {}).text())
    return folder / f"step-{step:08d}"


def turn(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda place: os.truncate(place / "data", 3), "/data is gone or of another size than its manifest lists"),
        (lambda place: (place / "data").unlink(), "/data is gone or of another size than its manifest lists"),
        (lambda place: turn(place / "data"), "/data differs from its manifest"),
        (lambda place: turn(place / "complete"), "/complete"),
        (
            lambda place: (place / "data").symlink_to((place / "data").rename(place.parent / "moved")),
            "/data is a link or has a name that is never sent",
        ),
    ],
)
def test_damaged_checkpoint_never_replaces_its_good_copy(server, tmp_path, damage, expected):
    source = tmp_path / "source"
    places = [listed(source, step) for step in (1, 2)]
    write(source, latest=b"step-00000002\n")
    assert backup.Backup(source, server.prefix()).push().ok
    damage(places[1])
    third = listed(source, 3)
    report = backup.Backup(source, server.prefix()).push()
    (problem,) = report.problems
    assert problem.startswith(str(places[1])) and expected in problem and "an existing copy is kept" in problem
    assert [name for name in report.copied if name.startswith(third.name)] == [
        f"{third.name}/data",
        f"{third.name}/complete",
    ]
    assert backup.Backup(tmp_path / "back", server.prefix()).restore().ok
    store = DirectoryStore(tmp_path / "back")
    assert store.steps() == [3, 2, 1]
    assert [store.check(step, store.manifest(step).files, None) for step in store.steps()] == [[]] * 3


def send_in_one_part(server, key, content):
    """Send the same content again, as a copy to another storage class: the object gets another entity tag."""
    where = {"Bucket": BUCKET, "Key": key}
    upload = server.client.create_multipart_upload(**where)["UploadId"]
    part = server.client.upload_part(**where, UploadId=upload, PartNumber=1, Body=content)
    sent = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    server.client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload=sent)


@pytest.mark.parametrize("is_lost", [True, False])
def test_flipped_bit_of_a_checkpoint_is_never_sent(server, tmp_path, monkeypatch, is_lost):
    """By its signature the file is unchanged, so its sum is that of the last run; its object is to be sent again."""
    place = listed(tmp_path / "source", 1)
    assert backup.Backup(tmp_path / "source", server.prefix()).push().ok
    key = f"run/{place.name}/data"
    if is_lost:
        server.client.delete_object(Bucket=BUCKET, Key=key)
    else:
        send_in_one_part(server, key, b"weights")
    states = {path.stat().st_ino: backup.Signature.of(path.stat()) for path in place.iterdir()}
    turn(place / "data")
    monkeypatch.setattr(backup.Signature, "of", lambda state: states[state.st_ino])
    report = backup.Backup(tmp_path / "source", server.prefix()).push()
    assert f"{place}/data differs from its manifest: it was not sent" in " ".join(report.problems)
    there = server.client.list_objects_v2(Bucket=BUCKET, Prefix=key).get("Contents", [])
    assert len(there) == (0 if is_lost else 1)
    if there:
        assert server.client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"weights"
        assert backup.Backup(tmp_path / "back", server.prefix()).restore().ok
        assert (tmp_path / "back" / place.name / "data").read_bytes() == b"weights"


@pytest.mark.parametrize("is_lost", [True, False])
def test_flipped_bit_of_any_file_is_not_sent(source, server, tmp_path, monkeypatch, is_lost):
    """Its object is to be sent again, but its times are those of the last run and its content is not."""
    assert backup.Backup(source, server.prefix()).push().ok
    if is_lost:
        server.client.delete_object(Bucket=BUCKET, Key="run/a")
    else:
        send_in_one_part(server, "run/a", b"one")
    states = {path.stat().st_ino: backup.Signature.of(path.stat()) for path in source.rglob("*") if path.is_file()}
    turn(source / "a")
    monkeypatch.setattr(backup.Signature, "of", lambda state: states[state.st_ino])
    report = backup.Backup(source, server.prefix()).push()
    (problem,) = report.problems
    assert problem.startswith(f"{source}/a has other content than at the last backup, but the same times")
    assert report.copied == []
    assert backup.Backup(tmp_path / "back", server.prefix()).restore().ok
    assert (tmp_path / "back" / "a").exists() is not is_lost
    if not is_lost:
        assert (tmp_path / "back" / "a").read_bytes() == b"one"
    assert backup.Backup(source, server.prefix()).push(rehash=True).copied == ["a"]


def test_object_copied_by_others_stays_listed(server, tmp_path):
    """As in a bucket that was moved: retention has removed the file here, and the object is as it was."""
    source = tmp_path / "source"
    place = listed(source, 1)
    assert backup.Backup(source, server.prefix()).push().ok
    send_in_one_part(server, f"run/{place.name}/data", b"weights")
    shutil.rmtree(place)
    listed(source, 2)
    assert backup.Backup(source, server.prefix()).push().ok
    assert backup.Backup(source, server.prefix()).verify().ok
    assert backup.Backup(tmp_path / "back", server.prefix()).restore().ok
    assert (tmp_path / "back" / place.name / "data").read_bytes() == b"weights"


def test_checkpoint_removed_by_retention_is_not_failure(server, tmp_path, monkeypatch):
    source = tmp_path / "source"
    place = listed(source, 1)
    walk = backup.walk

    def taken_away_after(folder):
        found = walk(folder)
        shutil.rmtree(place)
        return found

    monkeypatch.setattr(backup, "walk", taken_away_after)
    report = backup.Backup(source, server.prefix()).push()
    assert report.ok and report.gone == ["step-00000001/data"] and report.copied == []


def test_checkpoint_whose_file_failed_is_not_made_complete(server, tmp_path, pauses):
    source = tmp_path / "source"
    checkpoint(source, 1)
    write(source, latest=b"step-00000001\n")
    prefix = server.prefix(attempts=1)
    Unwell(prefix, "PutObject", 1)
    assert not backup.Backup(source, prefix).push().ok
    assert [name for name in prefix.list() if name != backup.MANIFEST] == []


def test_files_sent_before_interruption_are_not_sent_again(source, server, monkeypatch):
    original = s3.Prefix.put_file

    def interrupted(self, name, *rest):
        if name == "sub/b":
            raise KeyboardInterrupt
        return original(self, name, *rest)

    monkeypatch.setattr(s3.Prefix, "put_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        backup.Backup(source, server.prefix(), workers=1).push()
    monkeypatch.setattr(s3.Prefix, "put_file", original)
    assert backup.Backup(source, server.prefix()).push().copied == ["sub/b"]


def test_restore_killed_at_any_moment_leaves_no_partial_file(source, server, tmp_path):
    backup.Backup(source, server.prefix()).push()
    whole, number, done = tree(source), 0, False
    while not done:
        number += 1
        target = tmp_path / str(number)

        def restore(_report, number=number, target=target):
            # Changes of the lock are left out: test_stage and test_collect cover locks.
            die_at_change(number, target, but="lock")
            return backup.Backup(target, server.prefix()).restore().ok

        try:
            done = ranks(0, restore, tmp_path)[0]
        except RankDiedError as died:
            assert died.status == -signal.SIGKILL
        assert tree(target).items() <= whole.items()
        assert backup.Backup(target, server.prefix()).restore().ok and tree(target) == whole
    assert number > 6


def test_file_changed_during_upload_is_reported(source, server, monkeypatch):
    original = s3.measure

    def growing(path, wanted):
        found = original(path, wanted)
        with open(path, "ab") as file:
            file.write(b"more")
        return found

    monkeypatch.setattr(s3, "measure", growing)
    report = backup.Backup(source, server.prefix()).push()
    assert len(report.problems) == 3 and all("changed while it was read" in problem for problem in report.problems)


def test_file_removed_meanwhile_is_not_failure(source, server, monkeypatch):
    monkeypatch.setattr(backup, "walk", lambda directory: ({"a": None, "left": None}, []))
    report = backup.Backup(source, server.prefix()).push()
    assert (report.ok, report.copied, report.gone) == (True, ["a"], ["left"])


def test_links_are_reported_and_not_followed(source, server, caplog):
    (source / "link").symlink_to("/etc/passwd")
    (source / "folder").symlink_to("/etc")
    report = backup.Backup(source, server.prefix()).push()
    assert report.ok and sorted(report.copied) == ["a", "empty", "sub/b"]
    assert "link is skipped" in caplog.text and "folder is skipped" in caplog.text


def test_lock_of_killed_backup_is_replaced(source, server):
    gone = subprocess.Popen(["true"])
    gone.wait()
    lock = backup.Lock(source, name=backup.BACKUP_LOCK)
    left = {**vars(lock.owner), "pid": gone.pid, "token": "left"}
    (source / backup.BACKUP_LOCK).write_text(json.dumps(left))
    assert backup.Backup(source, server.prefix()).push().ok
    assert not (source / backup.BACKUP_LOCK).exists()


def test_second_backup_of_directory_is_rejected(source, server):
    lock = backup.Lock(source, name=backup.BACKUP_LOCK)
    lock.acquire()
    try:
        with pytest.raises(backup.BackupError, match=f"in use by process {os.getpid()}"):
            backup.Backup(source, server.prefix()).push()
    finally:
        lock.release()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": "other/1", "files": {}}', '{"schema": "mlcluster.backup/1", "files": {"a": {}}}']
)
def test_invalid_manifest_is_rejected(server, tmp_path, text):
    server.prefix().put(backup.MANIFEST, text.encode())
    with pytest.raises(backup.BackupError, match=f"s3://{BUCKET}/run/{backup.MANIFEST}"):
        backup.Backup(tmp_path, server.prefix()).restore()


@pytest.mark.parametrize("name", ["../out", "/etc/cron.d/x", "a/../../out"])
def test_manifest_never_writes_outside(server, tmp_path, name):
    entry = {"size": 1, "sha256": "", "etag": "", "mode": 420, "changed": 0}
    server.prefix().put(backup.MANIFEST, json.dumps({"schema": backup.SCHEMA, "files": {name: entry}}).encode())
    with pytest.raises(backup.BackupError, match="leads out of the folder"):
        backup.Backup(tmp_path / "target", server.prefix()).restore()


def test_backup_command_reports_and_returns_status(source, server, tmp_path, capsys):
    url = f"s3://{BUCKET}/run"
    assert command.main(["backup", "push", str(source), url]) == 0
    assert "3 files sent" in capsys.readouterr().out
    assert command.main(["backup", "verify", url, "--deep"]) == 0
    assert "3 objects agree with the manifest, 0 problems" in capsys.readouterr().out
    assert command.main(["backup", "restore", url, str(tmp_path / "target"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["problems"] == []
    assert command.main(["backup", "restore", f"s3://{BUCKET}/other", str(tmp_path)]) == 1
    assert "holds no backup" in capsys.readouterr().err
    assert command.main(["backup", "push", str(tmp_path / "absent"), url]) == 1
    assert "is not a directory" in capsys.readouterr().err
    assert command.main(["backup", "push", str(source), "http://somewhere"]) == 1
    assert "is not a place in S3" in capsys.readouterr().err
    server.client.delete_object(Bucket=BUCKET, Key="run/a")
    assert command.main(["backup", "verify", url]) == 1
    assert "no longer exists" in capsys.readouterr().err


def test_number_of_parts_is_limited():
    assert s3.part_size(0) == s3.PART_SIZE
    size = 5 * 10**12
    assert s3.PARTS_MOST * s3.part_size(size) >= size


def test_two_backups_to_one_prefix_lose_no_files(server, tmp_path):
    """Each reads the manifest before the other writes it, and both report success."""
    one, two = (write(tmp_path / name, **{name: name.encode()}) for name in ("one", "two"))
    work = backup.Backup(one, server.prefix())
    rounds, work_rounds = work._rounds, []

    def meanwhile(*given):
        work_rounds.append(backup.Backup(two, server.prefix()).push())
        rounds(*given)

    work._rounds = meanwhile
    assert work.push().ok and work_rounds[0].ok
    assert sorted(backup.Backup(tmp_path / "back", server.prefix()).restore().copied) == ["one", "two"]
    assert backup.Backup(tmp_path / "back", server.prefix()).verify(deep=True).ok


def test_only_own_files_of_package_are_skipped(server, tmp_path):
    own = [".lock", ".lock.0f", ".job-lock", ".backup-lock.stale-0f"]
    own += [durable.aside_of("a"), durable.aside_of(".lock.0f")]
    others = ["weights.tar.part", ".lockfile", ".locked", "part", "n" * 255]
    # Of hidden partial files, only those with this package's names are skipped.
    others += [".weights.part", ".a.x.part", f".{'0' * 16}.part.x", f"{durable.aside_of('a')}s"]
    for name in [*own, *others]:
        write(tmp_path / "source", **{name: b"x"})
    report = backup.Backup(tmp_path / "source", server.prefix()).push()
    assert (sorted(report.copied), report.problems) == (sorted(others), [])
    assert sorted(backup.Backup(tmp_path / "back", server.prefix()).restore().copied) == sorted(others)


def test_name_that_is_invalid_in_s3_is_reported(source, server):
    (source / "caf\udce9").write_bytes(b"x")
    report = backup.Backup(source, server.prefix()).push()
    assert "is not UTF-8" in "".join(report.problems) and sorted(report.copied) == ["a", "empty", "sub/b"]


@pytest.mark.parametrize("option", ["--workers", "--attempts"])
def test_number_without_effect_is_rejected(option):
    with pytest.raises(SystemExit, match="3"):
        command.main(["backup", "verify", "s3://bucket/run", option, "0"])


def test_directory_that_cannot_be_made_is_one_sentence(source, server, tmp_path, capsys):
    backup.Backup(source, server.prefix()).push()
    (tmp_path / "file").write_bytes(b"x")
    assert command.main(["backup", "restore", server.prefix().url, str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.endswith(f"ERROR: {tmp_path}/file: File exists\n")


def test_verb_has_to_be_given():
    with pytest.raises(SystemExit, match="3"):
        command.main(["backup"])


def test_folder_in_place_of_a_file_is_restored_and_the_reverse(source, server, tmp_path):
    """Both cannot be restored together, and the earlier one is replaced, as a file is by a later one of its name."""
    assert backup.Backup(source, server.prefix()).push().ok
    (source / "a").unlink()
    shutil.rmtree(source / "sub")
    write(source, a__b__c=b"in a folder", sub=b"a file")
    assert sorted(backup.Backup(source, server.prefix()).push().copied) == ["a/b/c", "sub"]
    assert sorted(backup.Backup(source, server.prefix()).manifest()) == ["a/b/c", "empty", "sub"]
    back = backup.Backup(tmp_path / "back", server.prefix())
    assert back.restore().problems == [] and tree(tmp_path / "back") == tree(source)
    # The objects of the earlier ones stay.
    assert server.prefix().get("a") == b"one"


def test_file_stays_listed_until_the_folder_of_its_name_is_sent(source, server, pauses):
    assert backup.Backup(source, server.prefix()).push().ok
    (source / "a").unlink()
    write(source, a__b=b"in a folder")
    prefix = server.prefix()
    Unwell(prefix, "PutObject", 100, of="/a/b")
    assert not backup.Backup(source, prefix).push().ok
    assert "a" in backup.Backup(source, server.prefix()).manifest()


def test_manifest_of_an_earlier_version_with_both_is_mended(source, server):
    assert backup.Backup(source, server.prefix()).push().ok
    text = json.loads(server.prefix().get(backup.MANIFEST))
    text["files"]["a/b"] = text["files"]["empty/c"] = text["files"]["a"]
    server.prefix().put(backup.MANIFEST, json.dumps(text).encode())
    for name in ("a/b", "empty/c"):
        send_in_one_part(server, f"run/{name}", b"one")
    backup.Backup(source, server.prefix()).push()
    assert sorted(backup.Backup(source, server.prefix()).manifest()) == ["a", "empty", "sub/b"]


@pytest.mark.parametrize("overwrite", [True, False])
def test_folder_in_place_of_a_restored_file_is_kept(source, server, tmp_path, overwrite):
    backup.Backup(source, server.prefix()).push()
    write(tmp_path / "back", a__b=b"of others")
    report = backup.Backup(tmp_path / "back", server.prefix()).restore(overwrite=overwrite)
    (problem,) = report.problems
    assert problem == f"{tmp_path}/back/a is a folder and was a file when it was backed up: move it away"
    assert (tmp_path / "back" / "a" / "b").read_bytes() == b"of others"
