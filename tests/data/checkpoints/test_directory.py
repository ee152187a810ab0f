# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checkpoints on disk, without torch: their files, ``mlcluster checkpoints``, and the choice of removable ones."""

from __future__ import annotations

import errno
import importlib.util
import itertools
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.checkpoints import directory as checkpoint_store
from mlcluster_data.checkpoints.directory import (
    DirectoryStore,
    Manifest,
    StoreError,
    TornError,
    removable,
    step_name,
)
from mlcluster_data.checkpoints.s3 import S3Store
from mlcluster_data.errors import DataError
from mlcluster_data.files import durable, s3
from mlcluster_data.files.durable import FileSum

from tests.data.support.fake_s3 import _server, server
from tests.data.support.planted import PLANTED, plant

__all__ = ["_server", "server"]
NODE = Path(__file__).resolve().parents[3] / "plugins" / "module_utils" / "_node"


def publish(store, step: int, content: bytes = b"weights", source: Path | None = None) -> None:
    source = source or store.path.parent / "local"
    source.mkdir(exist_ok=True)
    for name in ("__0_0.distcp", ".metadata"):
        (source / name).write_bytes(content)
    files = {"__0_0.distcp": store.put(step, "t", source / "__0_0.distcp")}
    store.publish(step, "t", Manifest(step, 1, files, {"epoch": 0}), source / ".metadata")


@pytest.fixture
def store(tmp_path):
    found = DirectoryStore(tmp_path / "kept")
    found.prepare()
    return found


def test_checkpoint_is_published_and_listed(store):
    publish(store, 12)
    manifest = store.manifest(12)
    assert (manifest.step, manifest.world_size, manifest.notes) == (12, 1, {"epoch": 0})
    assert set(manifest.files) == {"__0_0.distcp", ".metadata"}
    assert manifest.files[".metadata"] == durable.digest(store.path / step_name(12) / ".metadata")
    assert checkpoint_store.verify(store, 12) == []


def test_runtime_reads_same_checkpoints(store, capsys):
    """The training job finds, backs up and removes checkpoints by ``mlcluster checkpoints``."""
    root = NODE.parents[2]
    finder = root / ".collections"
    sys.path.insert(0, str(finder))
    try:
        verb = importlib.import_module("ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.checkpoints")
        host = importlib.import_module(
            "ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host"
        ).Host()
    finally:
        sys.path.remove(str(finder))
    for step in (99, 100, 101):
        publish(store, step)
    os.truncate(store.path / step_name(101) / "__0_0.distcp", 3)
    assert verb.MANIFEST == checkpoint_store.SCHEMA
    (store.path / ".incoming-step-00000102-t").mkdir()
    found = verb.find(host, str(store.path), "complete")
    assert [(entry.step, entry.complete) for entry in found] == [(101, False), (100, True), (99, True)]
    assert verb.latest(found).path == str(store.path / step_name(100))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", "is not a manifest"),
        (b"[1]", "is not a manifest"),
        (b'{"schema": "mlcluster.checkpoint/9"}', "has schema mlcluster.checkpoint/9"),
        (Manifest(1, 1, {"../x": FileSum(1, "a")}, {}).text(), "names a file outside"),
        (json.dumps({"schema": checkpoint_store.SCHEMA, "step": "x"}).encode(), "is not a manifest"),
    ],
)
def test_invalid_manifest_is_reported(text, expected):
    with pytest.raises(TornError, match=expected):
        Manifest.parse(text, "/kept/step-00000001", 1)


def test_flipped_bit_in_manifest_is_detected(store):
    """Step, samples or number of ranks would be wrong although the files are good."""
    publish(store, 12)
    path = store.path / step_name(12) / "complete"
    good = path.read_bytes()
    for place, bit in itertools.product(range(len(good)), range(8)):
        bad = bytearray(good)
        bad[place] ^= 1 << bit
        with pytest.raises(TornError):
            Manifest.parse(bytes(bad), "/kept/step-00000012", 12)
    assert Manifest.parse(good, "/kept/step-00000012", 12) == store.manifest(12)


def test_manifest_of_later_version_is_not_torn(store):
    """It would be set aside, and removed once the training has come as far again."""
    publish(store, 12)
    path = store.path / step_name(12) / "complete"
    later = json.loads(path.read_text())
    del later["sha256"]
    later["schema"] = "mlcluster.checkpoint/2"
    later["sha256"] = checkpoint_store._seal(later)
    path.write_text(json.dumps(later))
    with pytest.raises(checkpoint_store.StoreError, match=r"has schema mlcluster.checkpoint/2 .* use the version that"):
        store.manifest(12)
    later["step"] = 13
    path.write_text(json.dumps(later))
    with pytest.raises(TornError):
        store.manifest(12)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"schema": "mlcluster.checkpoint/1", "step": 1e999}'])
def test_manifest_beyond_all_bounds_is_torn(text):
    with pytest.raises(TornError):
        Manifest.parse(text, "/kept/step-00000001", 1)


def test_manifest_of_earlier_version_is_accepted(store):
    publish(store, 12)
    path = store.path / step_name(12) / "complete"
    before = json.loads(path.read_text())
    del before["sha256"]
    path.write_text(json.dumps(before))
    assert checkpoint_store.verify(store, 12) == []


def test_manifest_of_another_step_does_not_count(store):
    for step in (11, 12):
        publish(store, step)
    (store.path / step_name(12) / "complete").write_bytes((store.path / step_name(11) / "complete").read_bytes())
    with pytest.raises(TornError, match="step-00000012/complete is that of step 11"):
        store.manifest(12)


def test_entry_without_manifest_is_reported_and_set_aside(store, caplog):
    """An interrupted restore or copy leaves such an entry, which would block later checkpoints of its step."""
    half = store.path / step_name(12)
    half.mkdir()
    (half / "weights").write_bytes(b"half")
    store.prepare()
    assert f"{half} has no complete, so it is not a checkpoint: get it back whole, or move it away" in caplog.text
    publish(store, 12)
    assert checkpoint_store.verify(store, 12) == []
    checkpoint_store.retain(store, 1, checkpoint_store.Proofs(store).good)
    store.prepare()
    (aside,) = store.path.glob(".strange-step-00000012-*")
    assert (aside / "weights").read_bytes() == b"half" and str(aside) in caplog.text


def test_writes_of_earlier_run_do_not_stop_new_run(store, monkeypatch, caplog):
    left = store.path / ".incoming-step-00000009-t"
    left.mkdir()
    before = os.rmdir

    def written_meanwhile(path, *given, **named):
        (left / "more").write_bytes(b"x")
        before(path, *given, **named)

    monkeypatch.setattr(os, "rmdir", written_meanwhile)
    store.prepare()
    assert f"{left} stays for now: " in caplog.text and "Directory not empty" in caplog.text
    monkeypatch.undo()
    store.prepare()
    assert not left.exists()


@pytest.fixture(params=["directory", "s3"])
def kept(request, tmp_path):
    """Return a store, a function that reads its ``latest``, and the class and method that write ``latest``."""
    if request.param == "directory":
        latest = tmp_path / "kept" / "latest"

        def content():
            return latest.read_text() if latest.exists() else None

        return DirectoryStore(tmp_path / "kept"), content, durable.Directory, "write"
    prefix = request.getfixturevalue("server").prefix()
    return S3Store(prefix), lambda: (prefix.get("latest") or b"").decode() or None, s3.Prefix, "put"


def test_next_run_names_checkpoint_of_interrupted_run(kept, tmp_path, monkeypatch):
    store, latest, writer, verb = kept
    write = getattr(writer, verb)

    class Killed(BaseException):
        pass

    def ends(self, name, *given):
        if name == "latest":
            raise Killed
        return write(self, name, *given)

    local = tmp_path / "local"
    store.prepare()
    assert latest() is None
    publish(store, 1, source=local)
    assert latest() == "step-00000001\n"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(writer, verb, ends)
        publish(store, 2, source=local)
    assert (store.steps(), latest()) == ([2, 1], "step-00000001\n")
    store.prepare()
    assert latest() == "step-00000002\n"
    # It does not name a checkpoint that was set aside, either.
    store.set_aside(2)
    assert latest() == "step-00000001\n"
    store.set_aside(1)
    assert latest() is None


def test_unrepairable_latest_does_not_stop_training(store, caplog):
    publish(store, 1)
    (store.path / "latest").unlink()
    (store.path / "latest").mkdir()
    store.prepare()
    assert f"{store.path}/latest does not name the newest checkpoint: " in caplog.text


@pytest.mark.parametrize("when", ["replace", "unlink", "rmdir"])
def test_concurrent_removals_of_checkpoint_succeed(store, monkeypatch, when):
    for step in (1, 2):
        publish(store, step)
    before, second = getattr(os, when), []

    def meanwhile(path, *given, **named):
        if not second:
            second.append(store)
            checkpoint_store.retain(store, 1, checkpoint_store.Proofs(store).good)
            store.prepare()
        return before(path, *given, **named)

    monkeypatch.setattr(os, when, meanwhile)
    checkpoint_store.retain(store, 1, checkpoint_store.Proofs(store).good)
    assert second and sorted(path.name for path in store.path.iterdir()) == ["latest", step_name(2)]


UNREADABLE = {
    "list": ("stat", "complete", lambda store, _files: store.steps()),
    "manifest": ("open", "complete", lambda store, _files: store.manifest(1)),
    "size of a file": ("stat", "__0_0.distcp", lambda store, files: store.check(1, files, None)),
    "content of a file": ("open", "__0_0.distcp", lambda store, files: store.check(1, files, None)),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_unreadable_file_is_neither_missing_nor_torn(store, monkeypatch, what):
    """With a server of Lustre away, a good checkpoint would be set aside, or another one loaded."""
    function, name, read = UNREADABLE[what]
    publish(store, 1)
    files, real = store.manifest(1).files, getattr(os, function)

    def away(path, *given, **named):
        if str(path).endswith(name):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real(path, *given, **named)

    monkeypatch.setattr(os, function, away)
    with pytest.raises(OSError, match="Input/output error"):
        read(store, files)


def test_names_of_steps_are_parsed():
    assert [checkpoint_store.step_of(name) for name in ("step-00000007", "step-123456789", "step-7", "7", ".x")] == [
        7, 123456789, None, None, None,
    ]  # fmt: skip


def test_newest_complete_checkpoints_are_kept():
    for count in range(6):
        for damaged in itertools.product((False, True), repeat=count):
            steps = list(range(count, 0, -1))
            whole = {step for step, bad in zip(steps, damaged, strict=True) if not bad}
            for keep in (1, 2, 3):
                left = [step for step in steps if step not in removable(steps, whole.__contains__, keep)]
                kept = [step for step in left if step in whole]
                assert kept == sorted(whole, reverse=True)[:keep], (damaged, keep)


def test_keeping_no_checkpoint_is_rejected():
    with pytest.raises(ValueError, match="at least 1"):
        removable([1], lambda step: True, 0)


def test_files_are_divided_evenly_and_completely():
    files = {f"f{number}": FileSum(size, "") for number, size in enumerate([900, 5, 400, 300, 300, 0])}
    shares = [checkpoint_store.share(files, index, 3) for index in range(3)]
    assert sorted(name for share in shares for name in share) == sorted(files)
    assert sorted(sum(of.size for of in share.values()) for share in shares) == [405, 600, 900]


def test_empty_files_are_spread_evenly():
    files = {f"f{number}": FileSum(0, "") for number in range(6)}
    assert [len(checkpoint_store.share(files, index, 3)) for index in range(3)] == [2, 2, 2]


def test_checkpoint_command_lists_and_removes(store, capsys):
    where = str(store.path)
    assert command.main(["checkpoint", "list", where]) == 1
    assert "holds no checkpoint" in capsys.readouterr().err
    for step in (1, 2, 3):
        publish(store, step)
    assert command.main(["checkpoint", "list", where]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "step 3: 2 files, 14 bytes, 1 ranks"
    assert command.main(["checkpoint", "verify", where]) == 0
    assert capsys.readouterr().out == "step 3: good\n"
    (store.path / step_name(3) / "__0_0.distcp").write_bytes(b"WEIGHTS")
    assert command.main(["checkpoint", "verify", where, "--all"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("step 3: ") and "has other content than was written" in out[0] and out[1] == "step 2: good"
    assert command.main(["checkpoint", "prune", where, "--keep", "2"]) == 0
    assert capsys.readouterr().out == ""
    assert command.main(["checkpoint", "prune", where, "--keep", "1"]) == 0
    assert capsys.readouterr().out == "step 1: removed\n"
    with pytest.raises(SystemExit, match="3"):
        command.main(["checkpoint", "prune", where, "--keep", "0"])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


@pytest.fixture(params=["directory", "s3"])
def place(request, tmp_path):
    """Return a store, the command's argument for it, and a function that flips a bit in a step's weights."""
    if request.param == "directory":
        found = DirectoryStore(tmp_path / "kept")
        found.prepare()
        return found, str(found.path), lambda step: flip(found.path / step_name(step) / "__0_0.distcp")
    prefix = request.getfixturevalue("server").prefix()

    def flip_object(step: int) -> None:
        name = f"{step_name(step)}/__0_0.distcp"
        prefix.put(name, b"WEIGHTS")

    return S3Store(prefix), prefix.url, flip_object


def test_prune_does_not_count_checkpoint_with_flipped_bit(place, tmp_path, capsys, caplog):
    store, where, flip_bit = place
    for step in (1, 2, 3, 4):
        publish(store, step, source=tmp_path / "local")
    flip_bit(4)
    assert command.main(["checkpoint", "prune", where, "--keep", "1"]) == 0
    assert capsys.readouterr().out == "step 1: removed\nstep 2: removed\n"
    assert store.steps() == [4, 3] and checkpoint_store.verify(store, 3) == []
    assert f"{where}/step-00000004 does not count as a good checkpoint, so older ones stay" in caplog.text


def test_prune_keeps_all_without_good_checkpoint(place, tmp_path, capsys):
    store, where, flip_bit = place
    for step in (1, 2, 3):
        publish(store, step, source=tmp_path / "local")
        flip_bit(step)
    assert command.main(["checkpoint", "prune", where, "--keep", "1"]) == 0
    assert capsys.readouterr().out == "" and store.steps() == [3, 2, 1]


def test_checkpoint_is_read_once_unless_it_changes(place, tmp_path, monkeypatch):
    store, _where, flip_bit = place
    for step in (1, 2):
        publish(store, step, source=tmp_path / "local")
    read, check = [], store.check
    monkeypatch.setattr(store, "check", lambda step, *rest: (read.append(step), check(step, *rest))[1])
    proofs = checkpoint_store.Proofs(store)
    assert [proofs.known(2), proofs.good(2), proofs.good(2), proofs.known(2)] == [None, True, True, True]
    assert read == [2]
    flip_bit(2)
    assert [proofs.known(2), proofs.good(2), proofs.good(2), proofs.known(2)] == [None, False, False, False]
    assert read == [2, 2]
    store.remove(2)
    assert [proofs.known(2), proofs.good(2)] == [None, False]


def test_change_within_one_tick_of_the_clock_is_noticed(store, monkeypatch):
    """The change keeps the size. Kernels before 6.13 give a file the time of their last tick, of 4 ms."""
    exact, tick = durable.Signature.of, 4_000_000

    def ticks(state):
        found = exact(state)
        times = (found.modified // tick * tick, found.changed // tick * tick)
        return durable.Signature(found.inode, found.size, *times)

    monkeypatch.setattr(durable.Signature, "of", ticks)
    publish(store, 1)
    path = next((store.path / checkpoint_store.step_name(1)).glob("*.distcp"))
    contents = path.read_bytes(), b"x" * path.stat().st_size
    for _try in range(30):
        proofs = checkpoint_store.Proofs(store)
        with open(path, "r+b", buffering=0) as file:
            file.write(contents[0])
            before = proofs.look(1)
            file.seek(0)
            file.write(contents[1])
            proofs.add(1, before, [])
        assert proofs.known(1) is None


SECOND = 10**9


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ([], 0.0),
        ([100 * SECOND + 1], 0.02),
        ([100 * SECOND, 99 * SECOND + 1], 0.02),
        ([100 * SECOND, 90 * SECOND], 2.0),
        ([97 * SECOND], 2.0),
        # The clock of the server is ahead, or behind.
        ([200 * SECOND], 2.0),
        ([40 * SECOND], 2.0),
        ([40 * SECOND - 1], 0.0),
        ([30 * SECOND, 100 * SECOND], 2.0),
    ],
)
def test_times_of_whole_seconds_wait_longer(changed, expected):
    signature = {str(at): durable.Signature(1, 1, 1, time) for at, time in enumerate(changed)}
    assert checkpoint_store.tick_of(signature, 100 * SECOND) == expected
    assert checkpoint_store.tick_of({"a": ("size", "entity tag")}, 100 * SECOND) == 0
    assert checkpoint_store.tick_of(None, 100 * SECOND) == 0


def test_checkpoint_that_changes_during_the_wait_is_not_known(store, monkeypatch):
    publish(store, 1)
    path = store.path / checkpoint_store.step_name(1) / "complete"
    waited = []
    monkeypatch.setattr(checkpoint_store.time, "sleep", lambda wait: (waited.append(wait), os.truncate(path, 9)))
    proofs = checkpoint_store.Proofs(store)
    assert proofs.look(1) is None and waited == [checkpoint_store.FINE_SECONDS]
    proofs.add(1, None, [])
    assert proofs.known(1) is None


def test_nothing_is_read_without_removable_checkpoint(store, monkeypatch):
    for step in (1, 2):
        publish(store, step)
    monkeypatch.setattr(store, "check", lambda *_given: pytest.fail("something was read"))
    assert checkpoint_store.retain(store, 2, checkpoint_store.Proofs(store).good) == []


def test_only_a_store_that_is_not_in_place_copies_files(place, tmp_path):
    store, _where, _flip = place
    publish(store, 1, source=tmp_path / "local")
    (tmp_path / "copies").mkdir()
    assert store.check(1, store.manifest(1).files, tmp_path / "copies") == []
    assert sorted(os.listdir(tmp_path / "copies")) == ([] if store.in_place else [".metadata", "__0_0.distcp"])


def test_torn_checkpoints_stay_until_good_one_of_step(place, tmp_path):
    store, _where, flip_bit = place
    for step in (1, 2, 3):
        publish(store, step, source=tmp_path / "local")
    store.set_aside(2)
    flip_bit(3)
    checkpoint_store.retain(store, 3, checkpoint_store.Proofs(store).good)
    assert store.has_torn()
    publish(store, 4, source=tmp_path / "local")
    checkpoint_store.retain(store, 3, checkpoint_store.Proofs(store).good)
    assert not store.has_torn()


def test_mark_of_backup_is_not_change(store):
    publish(store, 1)
    before = store.signature(1)
    (store.path / step_name(1) / ".backed-up").write_bytes(b"")
    assert store.signature(1) == before
    (store.path / step_name(1) / ".metadata").write_bytes(b"other")
    assert store.signature(1) != before


def test_copy_with_unusual_name_does_not_count(store):
    """Otherwise the newest checkpoint would count twice, and one checkpoint more would be removed."""
    for step in (1, 2, 3):
        publish(store, step)
    shutil.copytree(store.path / step_name(3), store.path / "step-000000003")
    assert store.steps() == [3, 2, 1]
    assert checkpoint_store.retain(store, 2) == [1]
    assert store.steps() == [3, 2] and (store.path / "step-000000003").is_dir()
    assert checkpoint_store.step_of(step_name(10**9)) == 10**9


def test_only_leftovers_of_saves_and_removals_are_removed(store):
    names = [".incoming-step-00000009-t", ".removing-step-00000001", ".removing-step-00000001-0123abcd"]
    others = [".incoming-data", ".incoming-step-9-t", ".removing-notes", ".removing-step-00000001-kept"]
    for name in (*names, *others):
        (store.path / name).mkdir(parents=True)
        (store.path / name / "file").write_bytes(b"x")
    store.prepare()
    assert sorted(path.name for path in store.path.glob(".[ir]*")) == sorted(others)
    assert all((store.path / name / "file").exists() for name in others)


def test_only_unfinished_files_of_this_package_are_removed(store):
    digits = "0123456789abcdef"
    ours = [f".latest.{digits}.part", f"..lock.{digits}.part", f".lock.{digits}", f".job-lock.stale-{digits}"]
    others = [
        ".lock",
        ".job-lock",
        ".latest",
        ".locker",
        ".latest.bak",
        ".lock.old",
        "..lock.notes",
        f".lock.{digits}.mine",
        ".job-lock.7",
        f".latest.{digits}",
    ]
    store.path.mkdir(parents=True, exist_ok=True)
    for name in (*ours, *others):
        (store.path / name).write_text("x")
    store.prepare()
    assert sorted(path.name for path in store.path.iterdir()) == sorted(others)


@pytest.mark.parametrize("content", ["global_step100", "100\n", "step-1", "step-00000001\nmine"])
def test_latest_of_another_program_is_kept(store, content, caplog):
    """DeepSpeed and Megatron cannot resume without theirs."""
    store.path.mkdir(parents=True, exist_ok=True)
    (store.path / "latest").write_text(content)
    store.prepare()
    publish(store, 1)
    store.prepare()
    assert len(caplog.records) == 2 and caplog.text.count(f"{store.path}/latest is of another program") == 2
    assert (store.path / "latest").read_text() == content and store.steps() == [1]


@pytest.mark.parametrize("content", ["", "step-00000007\n", "step-00000007"])
def test_latest_of_this_package_is_renewed(store, content):
    store.path.mkdir(parents=True, exist_ok=True)
    (store.path / "latest").write_text(content)
    publish(store, 1)
    assert (store.path / "latest").read_text() == "step-00000001\n"


@pytest.mark.parametrize("what", ["link", "dangling link", "directory"])
def test_latest_that_is_no_file_does_not_fail_a_save(store, tmp_path, what):
    """A site may have a link of that name; the checkpoint itself is published by then."""
    store.path.mkdir(parents=True, exist_ok=True)
    (tmp_path / "theirs").write_bytes(b"step-00000007")
    plant(store.path / "latest", what, tmp_path / "theirs")
    publish(store, 1)
    assert store.steps() == [1]
    assert (store.path / "latest").is_dir() if what == "directory" else (store.path / "latest").is_symlink()


def test_name_of_checkpoint_is_synced_beside_foreign_latest(store, monkeypatch):
    """Retention removes older checkpoints next, which a power failure must not leave as the only ones."""
    store.path.mkdir(parents=True, exist_ok=True)
    (store.path / "latest").write_text("global_step100")
    synced = []
    monkeypatch.setattr(durable.Directory, "sync", lambda self: synced.append(os.listdir(self.descriptor)))
    publish(store, 1)
    assert step_name(1) in synced[-1]


def test_removed_checkpoint_loses_its_name_before_its_files(store, monkeypatch, synced):
    """Otherwise a power failure could leave a partial checkpoint with its name."""
    publish(store, 1)
    del synced[:]
    real, removed = durable.remove_tree, []
    monkeypatch.setattr(durable, "remove_tree", lambda path: (removed.append((path.name, list(synced))), real(path)))
    store.remove(1)
    ((name, before),) = removed
    assert before == [(str(store.path), sorted([name, "latest"]))] and name.startswith(".removing-step-00000001-")


def test_next_run_ends_a_removal_that_was_killed(store, monkeypatch):
    publish(store, 1)

    class Killed(BaseException):
        pass

    def ends(_path):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(durable, "remove_tree", ends)
        store.remove(1)
    assert store.steps() == [] and len(list(store.path.glob(".removing-*"))) == 1
    store.prepare()
    assert os.listdir(store.path) == []


def test_temporary_file_that_goes_meanwhile_is_no_error(store, monkeypatch):
    monkeypatch.setattr(os, "listdir", lambda _place: [".lock.0123456789abcdef"])
    store.prepare()


def test_latest_is_written_only_where_it_is_missing(store, monkeypatch, caplog):
    publish(store, 1)
    (store.path / "latest").unlink()
    store.prepare()
    assert (store.path / "latest").read_text() == "step-00000001\n" and caplog.records == []
    monkeypatch.setattr(durable, "write", lambda *_given: pytest.fail("latest was written"))
    store.prepare()


def test_new_directory_gives_no_warning(tmp_path, caplog):
    DirectoryStore(tmp_path / "new").prepare()
    assert caplog.records == []


def test_lock_makes_its_directory_and_takes_its_time(tmp_path):
    store = DirectoryStore(tmp_path / "new")
    assert [store.lock()._program.stale_seconds, store.lock(0.5)._program.stale_seconds] == [30.0, 0.5]
    assert (tmp_path / "new").is_dir()


def test_checkpoint_is_never_published_twice(store):
    publish(store, 1)
    with pytest.raises(StoreError, match="is there already: resume from it"):
        publish(store, 1, b"another")
    assert (store.path / step_name(1) / "__0_0.distcp").read_bytes() == b"weights"


def test_discarded_checkpoint_leaves_no_files(store, tmp_path):
    (tmp_path / "weights").write_bytes(b"x")
    store.put(1, "t", tmp_path / "weights")
    for _twice in range(2):
        store.discard(1, "t")
        assert os.listdir(store.path) == []


def test_torn_ones_are_forgotten_up_to_a_step(store):
    for step in (1, 2, 3):
        publish(store, step)
        store.set_aside(step)
    store.forget_torn(2)
    (left,) = (checkpoint_store.torn_step(name) for name in os.listdir(store.path))
    assert left == 3


def test_killed_removal_does_not_block_later_run(store):
    publish(store, 1)
    left = store.path / ".removing-step-00000001"
    left.mkdir()
    (left / "file").write_bytes(b"x")
    store.remove(1)
    assert store.steps() == [] and left.exists()


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("name", ["latest", step_name(7), f".incoming-{step_name(7)}-t", ".lock", ".job-lock"])
def test_planted_names_are_replaced_or_rejected(store, tmp_path, what, name):
    (tmp_path / "victims").mkdir()
    victim = tmp_path / "victims" / "file"
    victim.write_bytes(b"precious")
    plant(store.path / name, what, victim if name.startswith(("latest", ".lock", ".job")) else victim.parent)
    lock = store.lock(0.5)
    try:
        lock.acquire()
        publish(store, 7)
        assert checkpoint_store.verify(store, 7) == []
    except (OSError, DataError) as error:
        assert name in str(error)
    finally:
        lock.release()
    assert victim.read_bytes() == b"precious" and os.listdir(victim.parent) == ["file"]
    assert not (tmp_path / "absent").exists()


def test_time_of_manifest_is_that_of_its_making():
    made = Manifest.parse(Manifest(1, 1, {}, {}).text(), "kept", 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made.created)
    given = Manifest(1, 1, {}, {}, "2026-01-02T03:04:05Z")
    assert Manifest.parse(given.text(), "kept", 1) == given


def test_formatting_of_manifest_does_not_matter(store):
    publish(store, 12)
    path = store.path / step_name(12) / "complete"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(content.items()))))
    assert checkpoint_store.verify(store, 12) == []


@pytest.mark.parametrize("harm", ["missing", "directory", "shorter"])
def test_checkpoint_with_lost_file_does_not_replace_good_one(store, capsys, harm):
    for step in (1, 2, 3):
        publish(store, step)
    lost = store.path / step_name(3) / "__0_0.distcp"
    lost.unlink()
    if harm == "directory":
        lost.mkdir()
    elif harm == "shorter":
        lost.write_bytes(b"weight")
    (problem,) = checkpoint_store.verify(store, 3)
    assert problem.startswith(f"{lost} ")
    assert command.main(["checkpoint", "prune", str(store.path), "--keep", "2"]) == 0
    assert capsys.readouterr().out == "" and store.steps() == [3, 2, 1]
