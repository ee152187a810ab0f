# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checkpoints of several ranks: atomic in all cases, the newest good one is loaded, none is lost."""

from __future__ import annotations

import functools
import os
import shutil
import signal

import pytest
import torch
import torch.distributed as dist
from mlcluster_data.checkpoints import directory as checkpoint_store
from mlcluster_data.checkpoints.directory import DirectoryStore, step_name
from mlcluster_data.checkpoints.s3 import S3Store
from mlcluster_data.checkpoints.save import Checkpointer, CheckpointError
from mlcluster_data.locks import directory as locks
from mlcluster_data.locks.directory import Lock

from tests.data.support.checkpoint_place import Place, damage, empty, filled, in_s3, looked, own
from tests.data.support.fake_s3 import BUCKET, Unwell, _server, pauses, server
from tests.data.support.forked import HALF, RankDiedError, die_at_change, die_in_file, ranks, small_disk
from tests.data.support.planted import give_away

__all__ = ["_server", "pauses", "server"]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_saved_state_is_loaded_on_each_rank(place):
    outcomes = place.save(3, 7, count=2)
    assert [[outcome.error for outcome in found] for found in outcomes] == [["", ""], ["", ""]]
    assert place.load(count=2) == [(7, True, {"rank": rank, "step": 7}) for rank in (0, 1)]
    assert place.names() == ["latest", step_name(3), step_name(7)]
    assert (place.kept / "latest").read_text() == f"{step_name(7)}\n"
    assert [path for path in place.local.rglob("*") if path.is_file()] == []


def test_load_without_checkpoint_returns_none(place):
    assert place.load() == [None]


def test_change_of_state_during_save_is_not_saved(place):
    def work(report):
        opened = place.open()
        state = filled(5)
        opened.save(5, state, own(5))
        state["model"]["shared"].fill_(-1)
        return opened.close()

    ranks(1, work, place.root)
    assert place.load() == [(5, True, {"rank": 0, "step": 5})]


def test_other_rank_count_loads_shared_state_only(place):
    place.save(4, count=2)
    assert place.load(count=1) == [(4, True, None)]
    assert place.load(count=3) == [(4, True, None)] * 3


def test_ranks_with_separate_disks_save_and_load(place):
    def work(report):
        opened = Checkpointer(DirectoryStore(place.kept), place.root / f"disk-{dist.get_rank()}")
        opened.save(6, filled(6), own(6))
        return opened.close().error

    assert ranks(2, work, place.root) == ["", ""]
    assert place.load(count=2)[1] == (6, True, {"rank": 1, "step": 6})


@pytest.mark.parametrize("how", ["a byte", "cut off", "no data", "no index", "no JSON", "index unlisted"])
def test_torn_checkpoint_is_set_aside_and_previous_is_loaded(place, how):
    place.save(1, 2)
    damage(place.kept / step_name(2), how)
    assert place.load() == [(1, True, {"rank": 0, "step": 1})]
    assert any(name.startswith(".torn-step-00000002") for name in place.names())
    assert [outcome.error for outcome in place.save(2)[0]] == [""]
    assert place.load() == [(2, True, {"rank": 0, "step": 2})]
    assert place.names() == ["latest", step_name(1), step_name(2)]


def test_checkpoint_without_manifest_does_not_count(place):
    place.save(1, 2)
    (place.kept / step_name(2) / "complete").unlink()
    assert place.load() == [(1, True, {"rank": 0, "step": 1})]


def test_good_checkpoint_of_other_model_is_error_and_stays(place):
    place.save(1)

    def work(report):
        return place.open().load({"model": {"shared": torch.zeros(7), "third": torch.zeros(2)}})

    with pytest.raises(CheckpointError, match="does not fit this model"):
        ranks(1, work, place.root)
    assert place.load() == [(1, True, {"rank": 0, "step": 1})]


def test_requested_number_of_checkpoints_is_kept(place):
    place.save(1, 2, 3, 4, 5, keep=2)
    assert place.names() == ["latest", step_name(4), step_name(5)]


def test_torn_checkpoint_does_not_replace_good_one(place):
    place.save(1, 2, 3)
    for step in (2, 3):
        damage(place.kept / step_name(step), "cut off")

    def work(report):
        opened = place.open(keep=1)
        checkpoint_store.retain(opened.store, opened.keep, checkpoint_store.Proofs(opened.store).good)
        opened.close()

    ranks(1, work, place.root)
    assert step_name(1) in place.names()


def test_existing_entry_of_step_is_rejected_and_kept(place):
    place.save(2)
    (outcome,) = place.save(2)[0]
    assert "is there already" in outcome.error
    assert place.load() == [(2, True, {"rank": 0, "step": 2})] and ".incoming" not in " ".join(place.names())


@pytest.mark.parametrize("full", ["kept", "local"])
def test_full_disk_is_reported_and_good_checkpoint_stays(place, full):
    if os.geteuid():
        pytest.skip("mounting a small disk needs root")

    def work(report):
        disk = place.root / full
        small_disk(disk, 400_000)
        opened = place.open(keep=5)
        opened.save(1, filled(1), own(1))
        first = opened.wait()
        (disk / "ballast").write_bytes(b"x" * 340_000)
        opened.save(2, {"model": {"shared": torch.zeros(200_000), "other": torch.zeros(3)}}, own(2))
        second = opened.wait()
        left = [path.name for path in disk.iterdir() if path.name.startswith(".incoming")]
        (disk / "ballast").unlink()
        opened.save(3, filled(3), own(3))
        third = opened.close()
        return first.error, second.error, left, third.error, looked(place.open())

    first, second, left, third, state = ranks(1, work, place.root)[0]
    assert (first, left, third, state) == ("", [], "", (3, True, {"rank": 0, "step": 3}))
    assert "step 2 was not published" in second
    assert ("No space left on device" if full == "kept" else f"{place.local}/") in second


def broken(step, token, source):
    raise OSError(5, "Input/output error")


def test_error_on_one_rank_is_reported_to_all(place):
    def work(report):
        opened = place.open()
        if dist.get_rank() == 1:
            opened.store.put = broken
        opened.save(1, filled(1), own(1))
        return opened.close().error

    found = ranks(2, work, place.root)
    assert found[0] == found[1] and "rank 1 on" in found[0] and "Input/output error" in found[0]
    assert place.load() == [None]


# Killed at any moment


def begin_and_die(place: Place, how) -> tuple[bool, bool]:
    """Resume from step 1, save step 2 and keep only that, killed at the point that ``how`` sets.

    Return whether step 2 was reported as published, and whether the run ended without a kill.
    """

    def work(report):
        how()
        opened = place.open(keep=1)
        assert looked_at_start(opened) == 1
        opened.save(2, filled(2), own(2))
        report(opened.wait().error)
        opened.close()
        return "done"

    try:
        assert ranks(1, work, place.root) == ["done"]
    except RankDiedError as died:
        assert died.status in (-signal.SIGKILL, -signal.SIGXFSZ), died
        return died.reported == [""], False
    return True, True


def looked_at_start(opened: Checkpointer) -> int:
    loaded = opened.load(empty())
    return loaded.manifest.step if loaded else 0


def go_on(place: Place):
    """Return the checkpoint that the next run finds, and whether it can save."""

    def work(report):
        opened = place.open()
        state = empty()
        loaded = opened.load(state)
        step = loaded.manifest.step
        same = torch.equal(state["model"]["shared"], filled(step)["model"]["shared"])
        opened.save(step + 10, filled(step + 10), own(step + 10))
        return step, same, opened.close().error

    found = ranks(1, work, place.root)[0]
    hidden = [name for name in place.names() if name.startswith((".incoming", ".removing", ".lock", ".latest"))]
    return *found, hidden


@pytest.fixture(scope="module")
def first_checkpoint(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("first"))
    place.save(1)
    return place.kept


def die_everywhere(tmp_path, first_checkpoint, death, look=lambda place, done: None):
    """Kill a save at each point of ``death(number, root)``, and start the next run; return the number of points."""
    number, done = 0, False
    while not done:
        number += 1
        place = Place(tmp_path / str(number))
        shutil.copytree(first_checkpoint, place.kept)
        published, done = begin_and_die(place, functools.partial(death, number, place.root))
        look(place, done)
        step, same, error, hidden = go_on(place)
        assert (same, error, hidden) == (True, "", []), number
        assert step == 2 or not published, number
        shutil.rmtree(place.root)
    return number - 1


def test_save_killed_at_any_change_loses_no_published_step(tmp_path, first_checkpoint):
    deaths = die_everywhere(tmp_path, first_checkpoint, functools.partial(die_at_change, but="job-lock"))
    # All points were tried: changes of the lock, the save, its publication, and a removal.
    assert deaths >= 25


def test_save_killed_in_any_file_loses_nothing(tmp_path, first_checkpoint):
    def look(place, done):
        halves = [path for path in place.root.rglob("*") if path.is_file() and path.stat().st_size == HALF]
        assert len(halves) == (not done)

    deaths = die_everywhere(tmp_path, first_checkpoint, die_in_file, look)
    # The files: both locks, data and index on the node and in the store, the manifest, and the newest name.
    assert deaths >= 8


def test_lock_of_killed_run_is_replaced_and_of_live_run_not(place):
    place.save(1)
    lock = Lock(place.kept)
    lock.acquire()
    try:
        with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()}"):
            place.load()
    finally:
        lock.release()
    assert place.load() == [(1, True, {"rank": 0, "step": 1})]


def test_run_that_lost_its_lock_publishes_nothing(place):
    def work(report):
        opened = place.open()
        (place.kept / locks.NAME).unlink()
        other = Lock(place.kept)
        other.acquire()
        opened.save(1, filled(1), own(1))
        outcome = opened.close()
        other.release()
        return outcome.error

    assert "another run has taken the lock" in ranks(1, work, place.root)[0]
    assert place.load() == [None]


# In S3


def test_s3_rejects_concurrent_training_and_accepts_later_one(place, server):
    def work(report):
        first = Checkpointer(S3Store(server.prefix()), place.local)
        refused = ""
        try:
            Checkpointer(S3Store(server.prefix()), place.local)
        except CheckpointError as exc:
            refused = str(exc)
        first.save(1, filled(1), own(1))
        outcome = first.close()
        Checkpointer(S3Store(server.prefix()), place.local).close()
        return refused, outcome.error

    ((refused, error),) = ranks(1, work, place.root)
    assert "s3://checkpoints/run is in use by process" in refused and error == ""
    assert ".lock" not in " ".join(server.prefix().list())


def test_s3_publishes_nothing_after_lost_lock(place, server):
    def work(report):
        opened = Checkpointer(S3Store(server.prefix()), place.local)
        server.client.delete_object(Bucket="checkpoints", Key="run/.lock")
        opened.save(1, filled(1), own(1))
        return opened.close().error

    assert "another run has taken the lock" in ranks(1, work, place.root)[0]
    # Its files stay until the next start, as the new owner of the lock may be writing the same step.
    assert S3Store(server.prefix()).steps() == [] and server.prefix().list(step_name(1))
    assert in_s3(place, server, looked) == [None] and server.prefix().list() == {}


def save_four(opened):
    opened.save(4, filled(4), own(4))
    return opened.close().error


def test_s3_keeps_checkpoints_as_directory_does(place, server):
    def save(opened):
        for step in (1, 2, 3):
            opened.save(step, filled(step), own(step))
        return opened.close().error

    assert in_s3(place, server, save, count=2, keep=2) == ["", ""]
    assert in_s3(place, server, looked, count=2) == [(3, True, {"rank": rank, "step": 3}) for rank in (0, 1)]
    folders = {name.partition("/")[0] for name in server.prefix().list()}
    assert folders == {"latest", step_name(2), step_name(3)}
    server.client.put_object(Bucket=BUCKET, Key=f"run/{step_name(3)}/.metadata", Body=b"torn")
    server.client.put_object(Bucket=BUCKET, Key=f"run/{step_name(9)}/__0_0.distcp", Body=b"left by a killed run")
    assert in_s3(place, server, looked) == [(2, True, None)]
    assert not server.prefix().list(step_name(9)) and server.prefix().list(f".torn-{step_name(3)}")
    torn = server.prefix().list(f"{step_name(3)}/")
    assert f"{step_name(3)}/.metadata" in torn and len(torn) > 1
    assert in_s3(place, server, looked) == [(2, True, None)]
    assert server.prefix().list(f"{step_name(3)}/") == torn, "the next start removed what was set aside"
    assert in_s3(place, server, save_four) == [""]
    assert not server.prefix().list(".torn-") and not server.prefix().list(step_name(3))


def test_step_that_is_saved_again_in_s3_stays(place, server):
    def save_three(opened):
        opened.save(3, filled(3), own(3))
        return opened.close().error

    assert in_s3(place, server, save_three) == [""]
    server.client.put_object(Bucket=BUCKET, Key=f"run/{step_name(3)}/.metadata", Body=b"torn")
    assert in_s3(place, server, looked) == [None]
    assert in_s3(place, server, save_three) == [""]
    assert not server.prefix().list(".torn-")
    assert in_s3(place, server, looked) == [(3, True, {"rank": 0, "step": 3})]


def test_temporary_failure_of_s3_is_retried(place, server):
    def save(opened):
        Unwell(opened.store.prefix, "PutObject", 1)
        opened.save(1, filled(1), own(1))
        return opened.close().error

    assert in_s3(place, server, save) == [""]
    assert in_s3(place, server, looked) == [(1, True, {"rank": 0, "step": 1})]


def test_failing_s3_is_reported_and_nothing_is_published(place, server):
    def save(opened):
        opened.store.prefix = server.prefix(attempts=1)
        Unwell(opened.store.prefix, "PutObject", 100)
        opened.save(1, filled(1), own(1))
        return opened.close().error

    (error,) = in_s3(place, server, save)
    assert "was not published" in error and "SlowDown" in error
    assert in_s3(place, server, looked) == [None]


@pytest.mark.parametrize("what", ["link", "open to others", "other owner", "above"])
def test_local_directory_of_others_is_rejected(place, what):
    """Its name depends on the destination, so that another user may make it first."""
    place.save(1)
    (own,) = place.local.iterdir()
    assert own.stat().st_mode & 0o777 == 0o700
    (place.root / "elsewhere").mkdir()
    if what == "link":
        own.rmdir()
        own.symlink_to(place.root / "elsewhere")
    elif what == "open to others":
        own.chmod(0o777)
    else:
        give_away(own if what == "other owner" else place.local)
    with pytest.raises(CheckpointError, match=str(place.local)):
        place.save(2)
    assert list((place.root / "elsewhere").iterdir()) == [] and step_name(2) not in place.names()


@pytest.mark.parametrize("count", [1, 2])
def test_checkpoint_with_flipped_bit_keeps_older_ones(place, count, monkeypatch):
    """The training continues, and removes only checkpoints that are older than enough verified ones."""
    place.save(1, 2, count=count)
    damage(place.kept / step_name(2), "a byte")
    read = place.root / "read"

    def work(report):
        opened = place.open(keep=2)
        check = opened.store.check
        opened.store.check = lambda step, *rest: (read.open("a").write(f"{step} "), check(step, *rest))[1]
        for step in (3, 4, 5):
            opened.save(step, filled(step), own(step))
        opened.close()

    ranks(count, work, place.root)
    assert place.names() == ["latest", *map(step_name, (4, 5))]
    assert sorted(read.read_text().split()) == sorted("12345" * count)


def test_damaged_checkpoints_are_not_counted(place):
    place.save(1, 2, 3, keep=5)
    for step in (2, 3):
        damage(place.kept / step_name(step), "a byte")
    place.save(4, keep=2)
    assert place.names() == ["latest", *map(step_name, (1, 2, 3, 4))]
    place.save(5, keep=2)
    assert place.names() == ["latest", *map(step_name, (4, 5))]
