# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two backups that send to one prefix at the same time, with their requests in random order: nothing is mixed or lost.

The local S3 does not check a condition and write atomically, as S3 does, so one request is answered at a time.
"""

from __future__ import annotations

import hashlib
import random
import threading
import types

import botocore.awsrequest
import pytest
from mlcluster_data.checkpoints import backup
from mlcluster_data.checkpoints.backup_order import current, merged, possible
from mlcluster_data.checkpoints.directory import INDEX, DirectoryStore, Manifest, step_name, verify
from mlcluster_data.checkpoints.s3 import S3Store
from mlcluster_data.files import s3
from mlcluster_data.files.durable import FileSum

from tests.data.support.fake_s3 import BUCKET, _server, server

__all__ = ["_server", "server"]
NAMES = ("__0_0.distcp", "__1_0.distcp", INDEX)
MIB = 1 << 20


class KilledError(BaseException):
    """The end of a backup in the middle of its work."""


def save(folder, step, content, shards=NAMES):
    """Write a checkpoint whose files have the same sizes, whatever the content."""
    place = folder / f"step-{step:08d}"
    place.mkdir(parents=True, exist_ok=True)
    sums = {}
    for name in shards:
        text = content + name.encode()
        (place / name).write_bytes(text)
        sums[name] = FileSum(len(text), hashlib.sha256(text).hexdigest())
    (place / "complete").write_bytes(Manifest(step, 1, sums, {}, created="once").text())
    (folder / "latest").write_text(f"step-{step:08d}\n")


class Runner(threading.Thread):
    """A backup in a thread that waits before each request until it may send it."""

    def __init__(self, folder, server):
        super().__init__(daemon=True)
        self.may, self.waits = threading.Semaphore(0), threading.Semaphore(0)
        self.killed, self.report, self.error = False, None, None
        prefix = server.prefix()
        prefix._client.meta.events.register("before-send.s3", self._gate)
        self.work = backup.Backup(folder, prefix, workers=1)
        self.start()
        self.waits.acquire()

    def _gate(self, **_about):
        self.waits.release()
        self.may.acquire()
        if self.killed:
            raise KilledError

    def run(self):
        try:
            self.report = self.work.push()
        except (KilledError, backup.BackupError) as exc:
            self.error = exc
        self.waits.release()

    def go_on(self):
        """Let one request be answered."""
        self.may.release()
        self.waits.acquire()


def together(folders, server, rng, kill=False):
    """Send all folders at the same time; return the backups."""
    runners = [Runner(folder, server) for folder in folders]
    dying, left = (rng.choice(runners), rng.randrange(30)) if kill else (None, 0)
    while living := [one for one in runners if one.report is None and one.error is None]:
        one = rng.choice(living)
        if one is dying:
            left -= 1
            one.killed = left < 0
        one.go_on()
    for one in runners:
        one.join()
    return runners


def content(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not backup._is_own(path.name)
    }


def wholes(prefix):
    """Return the content of each folder in the bucket that has a manifest of a checkpoint."""
    names = prefix.list()
    folders = {name.rpartition("/")[0] for name in names if name.endswith("/complete")}
    return [
        {name.rpartition("/")[2]: prefix.get(name) for name in names if name.startswith(f"{folder}/")}
        for folder in sorted(folders)
    ]


def has(wholes, files):
    return any(files.items() <= whole.items() for whole in wholes)


def checkpoint_of(files, step=1):
    begin = f"step-{step:08d}/"
    return {name.removeprefix(begin): text for name, text in files.items() if name.startswith(begin)}


def folders_of(tmp_path, rng):
    """Make two directories with checkpoints and files of the same names, and mostly of other content."""
    folders = []
    for number in (1, 2):
        folder = tmp_path / f"source-{number}"
        own = rng.choice([b"first", b"other"])
        save(folder, 1, own, rng.choice([NAMES, NAMES, (*NAMES, "__2_0.distcp")]))
        if rng.random() < 0.3:
            save(folder, 2, rng.choice([b"third", b"forth"]))
        (folder / "notes").write_bytes(rng.choice([b"one", b"two"]))
        (folder / f"own-{number}").write_bytes(own)
        folders.append(folder)
    return folders


def judge(prefix, runners, folders, tmp_path, was_killed, ruined):
    """Fail if the bucket mixes two checkpoints or lacks what a backup reported as sent.

    ruined: the manifest of a checkpoint that lost a file in the bucket before.
    """
    files = [content(folder) for folder in folders]
    sent = wholes(prefix)
    # Each manifest of a checkpoint in the bucket is beside its own files.
    known = [checkpoint_of(one, step) for one in files for step in (1, 2)]
    for whole in sent:
        if whole["complete"] == ruined:
            continue
        assert any(one.items() <= whole.items() for one in known if one.get("complete") == whole["complete"])
    for step in S3Store(prefix).steps():
        assert verify(S3Store(prefix), step) == [] or prefix.get(f"{step_name(step)}/complete") == ruined
    if prefix.get(backup.MANIFEST) is None:
        return
    # A backup that was killed has replaced plain files and not yet listed them.
    problems = backup.Backup(tmp_path, prefix).verify(deep=True).problems
    assert [one for one in problems if not was_killed or "/step-" in one] == []
    listed = backup.Backup(tmp_path, prefix).manifest()
    got = {name: prefix.get(of.object_name(name)) for name, of in listed.items()}
    for step in (1, 2):
        mine = checkpoint_of(got, step)
        assert not mine or mine in [checkpoint_of(one, step) for one in files]
    for one, mine in zip(runners, files):
        if one.report and one.report.ok:
            # A later checkpoint of that name may have other files.
            plain = [name for name in mine if not name.startswith("step-") or name.endswith("/complete")]
            assert set(plain) <= got.keys()
            assert has(sent, checkpoint_of(mine)) and has(sent, checkpoint_of(mine, 2))
            assert all(got[name] in (mine[name], *[other.get(name) for other in files]) for name in plain)
            assert all(got[name] == mine[name] for name in mine if name.startswith("own-"))
        elif one.report:
            assert all("by another program" in problem for problem in one.report.problems)


def in_random_order(server, tmp_path, seed):
    """Send twice at the same time, then one after the other; return whether all was sent at once."""
    rng, ruined = random.Random(seed), b""
    # Making a client takes as long as all requests of a backup.
    prefix = server.prefix()
    folders = folders_of(tmp_path, rng)
    if rng.random() < 0.4:
        save(tmp_path / "earlier", 1, b"older", rng.choice([NAMES, NAMES[1:]]))
        (tmp_path / "earlier" / "notes").write_bytes(b"old")
        assert backup.Backup(tmp_path / "earlier", prefix).push().ok
        if rng.random() < 0.3:
            server.client.delete_object(Bucket=BUCKET, Key=f"run/step-00000001/{rng.choice([*NAMES, 'complete'])}")
            ruined = (tmp_path / "earlier" / step_name(1) / "complete").read_bytes()
    earlier = [tmp_path / "earlier"] if (tmp_path / "earlier").exists() else []
    kill = rng.random() < 0.4
    runners = together(folders, server, rng, kill)
    every = [*folders, *earlier]
    done = [one.report is not None and one.report.ok for one in runners]
    judge(prefix, runners, every, tmp_path, kill, ruined)
    # At last each of them comes to its end, also from what the other one left.
    for folder in folders:
        assert any(backup.Backup(folder, prefix).push().ok for _run in range(2)), "it never ends"
        sent = wholes(prefix)
        assert has(sent, checkpoint_of(content(folder))) and has(sent, checkpoint_of(content(folder), 2))
    judge(prefix, runners, every, tmp_path, was_killed=False, ruined=ruined)
    back = tmp_path / "back"
    assert backup.Backup(back, prefix).restore().ok
    assert [verify(DirectoryStore(back), step) for step in DirectoryStore(back).steps()] in ([[]], [[], []])
    assert content(back).items() >= {**content(folders[1]), "own-1": (folders[0] / "own-1").read_bytes()}.items()
    return all(done)


@pytest.mark.parametrize("seed", range(20))
def test_backups_in_random_order_mix_and_lose_nothing(server, tmp_path, seed):
    in_random_order(server, tmp_path, seed)


@pytest.mark.slow
def test_many_backups_in_random_order_lose_nothing(server, tmp_path):
    ends = []
    for seed in range(1000, 1200):
        server.empty()
        ends.append(in_random_order(server, tmp_path / str(seed), seed))
    # Both kinds of end were tried: all sent at once, and one refused or killed.
    assert 10 < sum(ends) < 190


def during(prefix, operation, name, work):
    """Do some work right before the first request of an operation for a name is sent."""
    done = []

    def watch(request, **_about):
        if not done and request.url.partition("?")[0].endswith(f"/{name}"):
            done.append(True)
            work()

    prefix._client.meta.events.register(f"before-send.s3.{operation}", watch)


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("parts", [1, 3])
def test_object_written_by_others_meanwhile_is_kept(server, tmp_path, is_there, parts):
    source = tmp_path / "source"
    source.mkdir()
    if is_there:
        (source / "notes").write_bytes(b"before")
        assert backup.Backup(source, server.prefix()).push().ok
    (source / "notes").write_bytes(b"x" * (5 * MIB * (parts - 1) + 1))
    prefix = server.prefix(part=5 * MIB)
    operation = "PutObject" if parts == 1 else "UploadPart"
    during(prefix, operation, "notes", lambda: server.prefix().put("notes", b"theirs"))
    report = backup.Backup(source, prefix).push()
    (problem,) = report.problems
    url = f"s3://{BUCKET}/run/notes"
    assert problem.startswith(f"{url} was written by another program meanwhile, so {source}/notes was not sent over it")
    assert report.copied == [] and prefix.get("notes") == b"theirs"
    assert "Uploads" not in server.client.list_multipart_uploads(Bucket=BUCKET)
    # Once the other one is at its end, it is sent over that.
    assert backup.Backup(source, prefix).push().copied == ["notes"]


def test_object_removed_by_others_meanwhile_is_named(server, tmp_path):
    save(tmp_path / "source", 1, b"first")
    (tmp_path / "source" / "notes").write_bytes(b"one")
    assert backup.Backup(tmp_path / "source", server.prefix()).push().ok
    (tmp_path / "source" / "notes").write_bytes(b"two")
    prefix = server.prefix()
    during(prefix, "PutObject", "notes", lambda: server.prefix().delete(["notes"]))
    assert "was written by another program meanwhile" in "".join(
        backup.Backup(tmp_path / "source", prefix).push().problems
    )


def test_same_file_sent_by_others_meanwhile_counts_as_sent(server, tmp_path):
    """As when the first try of a request arrived and its answer did not."""
    source = tmp_path / "source"
    save(source, 1, b"first")
    prefix = server.prefix()
    name = f"step-00000001/{NAMES[0]}"
    during(prefix, "PutObject", name, lambda: server.prefix().put_file(name, source / name))
    assert backup.Backup(source, prefix).push().ok
    assert backup.Backup(source, prefix).verify(deep=True).ok


def test_file_replaced_after_it_was_sent_is_not_listed(server, tmp_path):
    source = tmp_path / "source"
    save(source, 1, b"first")
    (source / "notes").write_bytes(b"one")
    prefix = server.prefix()
    during(prefix, "PutObject", "latest", lambda: server.prefix().put("notes", b"theirs"))
    report = backup.Backup(source, prefix, workers=1).push()
    (problem,) = report.problems
    assert problem.startswith(f"s3://{BUCKET}/run/notes was replaced by another program after it was sent: wait for")
    assert set(backup.Backup(source, prefix).manifest()) == content(source).keys() - {"notes"}
    assert backup.Backup(source, prefix).verify(deep=True).ok


def refuse(request, **_about):
    if not {"If-None-Match", "If-Match"} & set(request.headers):
        return None
    body = b"<Error><Code>NotImplemented</Code><Message>A header is not implemented.</Message></Error>"
    raw = types.SimpleNamespace(stream=lambda: iter([body]), read=lambda: body)
    return botocore.awsrequest.AWSResponse(request.url, 501, {"Content-Type": "application/xml"}, raw)


def forget(request, **_about):
    for header in ("If-None-Match", "If-Match"):
        del request.headers[header]


@pytest.mark.parametrize(
    ("event", "handler", "words"),
    [
        ("before-sign", forget, "the server ignores If-None-Match"),
        ("before-send", refuse, "the server has no conditional writes"),
    ],
)
def test_server_without_conditions_is_named_once(server, tmp_path, caplog, event, handler, words):
    source = tmp_path / "source"
    save(source, 1, b"first")
    (source / "large").write_bytes(bytes(6 * MIB))
    assert backup.Backup(source, server.prefix(part=5 * MIB)).push().ok
    save(source, 1, b"again")
    (source / "large").write_bytes(bytes(7 * MIB))
    prefix = server.prefix(part=5 * MIB)
    prefix._client.meta.events.register(f"{event}.s3", handler)
    assert backup.Backup(source, prefix, workers=1).push().ok
    assert caplog.text.count(f"{prefix.url}: check that no other backup writes at the same time ({words})") == 1
    assert backup.Backup(source, server.prefix()).verify(deep=True).ok


def test_boto3_without_conditions_is_named_once(server, tmp_path, caplog):
    save(tmp_path / "source", 1, b"first")
    (tmp_path / "source" / "large").write_bytes(bytes(6 * MIB))
    prefix = server.prefix(part=5 * MIB)
    for operation in ("PutObject", "CompleteMultipartUpload"):
        shape = prefix._client.meta.service_model.operation_model(operation).input_shape
        shape.members.pop("IfNoneMatch")
    assert backup.Backup(tmp_path / "source", prefix).push().ok
    assert caplog.text.count("this boto3 has no conditional writes, which came with 1.35.69") == 1


def test_unfinished_copy_of_another_checkpoint_is_left(server, tmp_path):
    """Its program may be sending the rest just now."""
    save(tmp_path / "other", 1, b"other")
    save(tmp_path / "source", 1, b"first")
    name = f"step-00000001/{NAMES[1]}"
    server.prefix().put_file(name, tmp_path / "other" / name)
    assert backup.Backup(tmp_path / "source", server.prefix()).push().ok
    assert server.prefix().get(name) == b"other" + NAMES[1].encode()
    assert backup.Backup(tmp_path / "source", server.prefix()).verify(deep=True).ok
    listed = backup.Backup(tmp_path / "source", server.prefix()).manifest()
    assert {of.object_name(name).count(".again/") for name, of in listed.items() if name.startswith("step-")} == {1}


def copy_of(text, key="", etag=""):
    return backup.Copy(len(text), text, etag or f"tag of {text}", 0, 0, key)


ONE = {"step-00000001/complete": copy_of("A"), "step-00000001/data": copy_of("a")}
TWO = {"step-00000001/complete": copy_of("B"), "step-00000001/more": copy_of("b")}
MORE = {"notes": copy_of("n")}


@pytest.mark.parametrize(
    ("before", "proved", "now", "expected"),
    [
        ({}, ONE, {}, ONE),
        # Both sent a checkpoint of that name: the later manifest lists that of its own run.
        ({}, ONE, TWO, ONE),
        ({}, ONE, ONE, ONE),
        # Only the others did.
        (ONE, ONE, TWO, TWO),
        (ONE, ONE | {"step-00000001/data": copy_of("a", etag="new")}, TWO, TWO),
        # Neither did.
        (ONE, ONE | {"step-00000001/data": copy_of("a", etag="new")}, ONE | MORE,
         ONE | {"step-00000001/data": copy_of("a", etag="new")} | MORE),
        (ONE, TWO, ONE, TWO),
        # A lost file is not listed any more, unless others have sent it meanwhile.
        (ONE | MORE, ONE, ONE | MORE, ONE),
        (ONE | MORE, ONE, ONE | {"notes": copy_of("m")}, ONE | {"notes": copy_of("m")}),
        (ONE, ONE, {}, {}),
    ],
)  # fmt: skip
def test_manifest_lists_files_of_one_checkpoint_of_a_name(before, proved, now, expected):
    assert merged(before, proved, now) == expected


def objects_of(files, **other):
    return {of.object_name(name): s3.Remote(of.size, other.get(name.rpartition("/")[2], of.etag))
            for name, of in files.items()}  # fmt: skip


def test_replaced_object_takes_its_checkpoint_from_the_list():
    again = {name: copy_of(of.sha256, key=name.replace("/", ".again/")) for name, of in TWO.items()}
    there = {**objects_of(ONE), **objects_of(again, more="theirs"), **objects_of(MORE)}
    assert current(ONE, again | MORE, there) == (ONE | MORE, ["step-00000001/more"])
    assert current({}, again | MORE, there) == (MORE, ["step-00000001/more"])
    assert current(ONE, again | MORE, {**there, **objects_of(again)}) == (again | MORE, [])
    assert current(ONE | MORE, ONE, objects_of(ONE)) == (ONE, [])
    # Files that this run did not change are not judged again.
    assert current(ONE, ONE, {}) == (ONE, [])
    assert current({}, MORE, objects_of(MORE, notes="theirs")) == ({}, ["notes"])


@pytest.mark.parametrize(
    ("names", "own", "expected"),
    [
        ("a a/b ab", "a", "a ab"),
        ("a a/b a/b/c ab", "a/b/c", "a/b/c ab"),
        ("a a/b", "", "a a/b"),
        # A name that is not listed replaces nothing.
        ("a/b", "a", "a/b"),
        ("step-00000001 step-00000001/complete", "step-00000001/complete other", "step-00000001/complete"),
    ],
)
def test_later_folder_takes_the_place_of_a_file_and_the_reverse(names, own, expected):
    assert list(possible(dict.fromkeys(names.split(), "of"), own.split())) == expected.split()
