# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a checkpoint is on disk, what the node's own verb sees of it, and which may go; without torch."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import sys
from pathlib import Path

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.checkpoints import directory as checkpoint_store
from mlcluster_data.checkpoints.directory import DirectoryStore, Manifest, TornError, removable, step_name
from mlcluster_data.checkpoints.s3 import S3Store
from mlcluster_data.files import durable
from mlcluster_data.files.durable import FileSum

from tests.data.support.fake_s3 import _server, server

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


def test_a_checkpoint_on_disk(store):
    publish(store, 12)
    manifest = store.manifest(12)
    assert (manifest.step, manifest.world_size, manifest.notes) == (12, 1, {"epoch": 0})
    assert set(manifest.files) == {"__0_0.distcp", ".metadata"}
    assert manifest.files[".metadata"] == durable.digest(store.path / step_name(12) / ".metadata")
    assert checkpoint_store.verify(store, 12) == []


def test_the_nodes_own_verb_reads_the_same(store, capsys):
    """`mlcluster checkpoints`, by which the training job finds, backs up and removes them."""
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
    ("text", "said"),
    [
        (b"", "is no manifest"),
        (b"[1]", "is no manifest"),
        (b'{"schema": "mlcluster.checkpoint/9"}', "has schema mlcluster.checkpoint/9"),
        (Manifest(1, 1, {"../x": FileSum(1, "a")}, {}).text(), "names a file outside"),
        (json.dumps({"schema": checkpoint_store.SCHEMA, "step": "x"}).encode(), "is no manifest"),
    ],
)
def test_what_is_no_manifest_is_told(text, said):
    with pytest.raises(TornError, match=said):
        Manifest.parse(text, "/kept/step-00000001", 1)


def test_a_bit_that_turned_in_a_manifest_is_noticed(store):
    """Step, samples and number of ranks would be another one, and the files as good as ever."""
    publish(store, 12)
    path = store.path / step_name(12) / "complete"
    good = path.read_bytes()
    for place, bit in itertools.product(range(len(good)), range(8)):
        bad = bytearray(good)
        bad[place] ^= 1 << bit
        with pytest.raises(TornError):
            Manifest.parse(bytes(bad), "/kept/step-00000012", 12)
    assert Manifest.parse(good, "/kept/step-00000012", 12) == store.manifest(12)


def test_a_manifest_of_an_earlier_version_is_one(store):
    publish(store, 12)
    path = store.path / step_name(12) / "complete"
    before = json.loads(path.read_text())
    del before["sha256"]
    path.write_text(json.dumps(before))
    assert checkpoint_store.verify(store, 12) == []


def test_the_manifest_of_another_step_is_none(store):
    for step in (11, 12):
        publish(store, step)
    (store.path / step_name(12) / "complete").write_bytes((store.path / step_name(11) / "complete").read_bytes())
    with pytest.raises(TornError, match="step-00000012/complete is that of step 11"):
        store.manifest(12)


def test_what_has_the_name_and_no_manifest_is_told_and_makes_room(store, caplog):
    """As a restore or a copy that ended early leaves it; it stood in the way of every later checkpoint of that step."""
    half = store.path / step_name(12)
    half.mkdir()
    (half / "weights").write_bytes(b"half")
    store.prepare()
    assert f"{half} has no complete, so it is no checkpoint: get it back whole, or move it away" in caplog.text
    publish(store, 12)
    assert checkpoint_store.verify(store, 12) == []
    checkpoint_store.retain(store, 1)
    store.prepare()
    (aside,) = store.path.glob(".strange-step-00000012-*")
    assert (aside / "weights").read_bytes() == b"half" and str(aside) in caplog.text


def test_an_earlier_run_that_still_writes_keeps_nobody_from_beginning(store, monkeypatch, caplog):
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
    """A place, a function that gives what its `latest` says, and the part of the program that writes that."""
    if request.param == "directory":
        latest = tmp_path / "kept" / "latest"
        return DirectoryStore(tmp_path / "kept"), lambda: latest.read_text() if latest.exists() else None, durable.write
    prefix = request.getfixturevalue("server").prefix()
    return S3Store(prefix), lambda: (prefix.get("latest") or b"").decode() or None, prefix.put


def test_a_run_that_ends_before_it_names_its_checkpoint_is_made_good_by_the_next(kept, tmp_path, monkeypatch):
    store, latest, write = kept

    class Killed(BaseException):
        pass

    def ends(name, *given):
        if Path(name).name == "latest":
            raise Killed
        return write(name, *given)

    local = tmp_path / "local"
    store.prepare()
    assert latest() is None
    publish(store, 1, source=local)
    assert latest() == "step-00000001\n"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(durable if isinstance(store, DirectoryStore) else store.prefix, write.__name__, ends)
        publish(store, 2, source=local)
    assert (store.steps(), latest()) == ([2, 1], "step-00000001\n")
    store.prepare()
    assert latest() == "step-00000002\n"
    # Nor does it name one that nobody resumes from any more.
    store.set_aside(2)
    assert latest() == "step-00000001\n"
    store.set_aside(1)
    assert latest() is None


def test_a_latest_that_cannot_be_set_right_keeps_nobody_from_training(store, caplog):
    publish(store, 1)
    (store.path / "latest").unlink()
    (store.path / "latest").mkdir()
    store.prepare()
    assert f"{store.path}/latest does not name the newest checkpoint: " in caplog.text


@pytest.mark.parametrize("when", ["rename", "unlink", "rmdir"])
def test_one_that_another_takes_away_at_the_same_time_is_gone(store, monkeypatch, when):
    for step in (1, 2):
        publish(store, step)
    before, second = getattr(os, when), []

    def meanwhile(path, *given, **named):
        if not second:
            second.append(store)
            checkpoint_store.retain(store, 1)
            store.prepare()
        return before(path, *given, **named)

    monkeypatch.setattr(os, when, meanwhile)
    checkpoint_store.retain(store, 1)
    assert second and sorted(path.name for path in store.path.iterdir()) == ["latest", step_name(2)]


def test_the_form_of_names():
    assert [checkpoint_store.step_of(name) for name in ("step-00000007", "step-123456789", "step-7", "7", ".x")] == [
        7, 123456789, None, None, None,
    ]  # fmt: skip


def test_the_newest_whole_ones_stay_whatever_is_damaged():
    for count in range(6):
        for damaged in itertools.product((False, True), repeat=count):
            steps = list(range(count, 0, -1))
            whole = {step for step, bad in zip(steps, damaged, strict=True) if not bad}
            for keep in (1, 2, 3):
                left = [step for step in steps if step not in removable(steps, whole.__contains__, keep)]
                kept = [step for step in left if step in whole]
                assert kept == sorted(whole, reverse=True)[:keep], (damaged, keep)


def test_to_keep_none_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        removable([1], lambda step: True, 0)


def test_files_are_spread_evenly_and_none_is_left_out():
    files = {f"f{number}": FileSum(size, "") for number, size in enumerate([900, 5, 400, 300, 300, 0])}
    shares = [checkpoint_store.share(files, index, 3) for index in range(3)]
    assert sorted(name for share in shares for name in share) == sorted(files)
    assert sorted(sum(of.size for of in share.values()) for share in shares) == [405, 600, 900]


def test_a_copy_that_fails_leaves_nothing(tmp_path):
    (tmp_path / "source").write_bytes(b"x")
    (tmp_path / "taken").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        durable.copy(tmp_path / "source", tmp_path / "taken")
    assert (tmp_path / "taken").read_bytes() == b"mine"


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    durable.write(tmp_path / "file", b"before")

    def full(*names):
        raise OSError(28, "No space left")

    monkeypatch.setattr(durable.os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        durable.write(tmp_path / "file", b"after")
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_bytes() == b"before"


def test_the_command(store, capsys):
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
    assert capsys.readouterr().out == "step 1: removed\n"
    with pytest.raises(SystemExit, match="3"):
        command.main(["checkpoint", "prune", where, "--keep", "0"])
