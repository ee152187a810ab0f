# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Data sets, checkpoints, locks and backups that an earlier commit wrote (recorded as in tests/unit/compat)."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.checkpoints import backup, directory
from mlcluster_data.checkpoints import s3 as checkpoints_s3
from mlcluster_data.checkpoints.directory import DirectoryStore
from mlcluster_data.corpus import manifest
from mlcluster_data.files import journal, stage
from mlcluster_data.files.durable import Directory
from mlcluster_data.loading import shard_reader
from mlcluster_data.loading.loader import LoaderConfig, make_loader
from mlcluster_data.locks import directory as lock
from mlcluster_data.locks import s3 as lock_s3

from tests.data.support.checkpoint_place import Place
from tests.data.support.fake_s3 import BUCKET, _server, server

__all__ = ["_server", "server"]
FIXTURES = Path(__file__).parents[1] / "unit" / "compat" / "fixtures" / "deef7eb" / "data"
COMMANDS = json.loads((FIXTURES.parent / "jobs" / "commands.json").read_text(encoding="utf-8"))


def document(name: str):
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


def copied(name: str, to: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / name, to / name))


@pytest.fixture(autouse=True)
def one_rank(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "WORKER", "NUM_WORKERS", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)


def test_inputs_and_shards_are_complete(tmp_path):
    assert [file.documents for file in manifest.inputs_of(FIXTURES / "inputs")] == [8, 8]
    for name in ("inputs", "shards"):
        assert command.main(["validate", str(copied(name, tmp_path))]) == 0


def preprocess(tmp_path: Path, output: Path, task: int, tasks: int) -> int:
    words = ["--input", str(FIXTURES / "inputs"), "--output", str(output), "--tokenizer", str(FIXTURES / "tokenizer")]
    return command.main(["preprocess", *words, *document("words.json"), "--task", str(task), "--tasks", str(tasks)])


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*") if path.is_file()}


def test_finished_data_set_is_not_changed(tmp_path, capsys):
    shards = copied("shards", tmp_path)
    assert preprocess(tmp_path, shards, 0, 1) == 0
    assert capsys.readouterr().out.count("shards exist already") == 2
    assert contents(shards) == contents(FIXTURES / "shards")


def test_half_finished_data_set_is_completed(tmp_path):
    """Plan and part of the first task are from the recording; the second task runs now."""
    half = copied("half", tmp_path)
    assert preprocess(tmp_path, half, 1, 2) == 0
    made, before = contents(half), contents(FIXTURES / "shards")
    # The part manifest of the second task has a seal; its other content is the same.
    parts = [name for name in made if made[name] != before[name]]
    assert set(made) == set(before) and len(parts) == 1
    found = manifest.parse_sealed(made[parts[0]], parts[0], manifest.PART_SCHEMA)
    assert found == json.loads(before[parts[0]])


def test_order_of_data_resumes_from_state():
    wanted, state = document("loader_batches.json"), document("loader_state.json")
    config = LoaderConfig(str(FIXTURES / "shards"), 2, buffer=8, seed=7)
    fresh = make_loader(config)
    assert [batch["ids"].tolist() for batch in fresh] == wanted
    resumed = make_loader(config)
    resumed.load_state_dict(state)
    assert [batch["ids"].tolist() for batch in resumed] == wanted[state["batches"] :]


def test_samples_are_read():
    content = manifest.parse((FIXTURES / "shards" / "manifest.json").read_bytes(), "", manifest.DATASET_SCHEMA)
    reader = shard_reader.Reader(shard_reader.Source(str(FIXTURES / "shards")))
    found = [
        ids for shard in manifest.entries(manifest.Shard, content, "shards", "") for _n, ids in reader.samples(shard)
    ]
    assert (len(found), sum(map(len, found))) == (content["samples"], content["tokens"])


def test_checkpoint_is_verified_and_loaded(tmp_path):
    place = Place(tmp_path)
    place.kept = copied("checkpoints", tmp_path)
    store = DirectoryStore(place.kept)
    assert store.steps() == [4, 2]
    assert [directory.verify(store, step) for step in (4, 2)] == [[], []]
    assert (store.manifest(4).step, store.manifest(4).world_size) == (4, 1)
    assert place.load() == [(4, True, {"rank": 0, "step": 4})]


def test_checkpoints_are_listed_and_pruned(tmp_path):
    kept = copied("checkpoints", tmp_path)
    store = DirectoryStore(kept)
    store.prepare()
    assert (kept / "latest").read_text() == "step-00000004\n"
    assert not list(kept.glob(".incoming-*"))
    # The torn checkpoint is removed once the training reaches its step again.
    assert len(list(kept.glob(".torn-step-00000006-*"))) == 1
    store.forget_torn(6)
    assert not list(kept.glob(".torn-*"))
    assert directory.retain(store, 1) == [2]


def test_current_checkpoint_has_fields_of_earlier_one(tmp_path):
    """A job that was submitted before an upgrade may resume from it."""
    place = Place(tmp_path)
    place.save(4)
    before, now = (
        json.loads((folder / "step-00000004" / "complete").read_text())
        for folder in (FIXTURES / "checkpoints", place.kept)
    )
    assert (set(now), now["schema"], set(now["files"])) == (set(before), before["schema"], set(before["files"]))


@pytest.mark.parametrize("name", ["lock", "job-lock"])
def test_lock_of_earlier_version_is_respected(name, tmp_path):
    path = tmp_path / f".{name}"
    shutil.copy(FIXTURES / "lock" / f"{name}.json", path)
    held = lock.Lock(tmp_path, stale_seconds=0.4, name=path.name)
    with Directory.open(path.parent) as here:
        found = held._read(here, path.name)
    assert str(found) == "process 4711 of job 12 on n1"
    assert dataclasses.asdict(found) == document(f"lock/{name}.json")
    # No process updates the lock, so its owner counts as dead.
    assert held.acquire() == found
    assert set(json.loads(path.read_text())) == set(document(f"lock/{name}.json"))
    held.release()


def test_lock_of_earlier_run_of_job_is_taken(tmp_path, monkeypatch):
    for name, value in (("JOB_ID", "12"), ("RESTART_COUNT", "1"), ("CLUSTER_NAME", "one")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    shutil.copy(FIXTURES / "lock" / "lock.json", tmp_path / ".lock")
    held = lock.Lock(tmp_path, stale_seconds=600)
    assert held.acquire().pid == 4711
    held.release()


def test_lock_in_s3_is_respected(server):
    prefix = server.prefix()
    prefix.put(".lock", (FIXTURES / "lock" / "in_s3.json").read_bytes())
    held = lock_s3.S3Lock(prefix, stale_seconds=0.4)
    assert held.acquire() == lock.Owner(**document("lock/lock.json"))
    held.release()


def test_checkpoints_in_s3_are_verified(server):
    for path in (FIXTURES / "checkpoints").rglob("*"):
        if path.is_file() and not path.relative_to(FIXTURES / "checkpoints").parts[0].startswith("."):
            server.prefix().put(str(path.relative_to(FIXTURES / "checkpoints")), path.read_bytes())
    store = checkpoints_s3.S3Store(server.prefix())
    assert store.steps() == [4, 2]
    assert directory.verify(store, 4) == []


def test_staged_files_are_not_copied_again(tmp_path):
    folder = copied("staged", tmp_path)
    source = tmp_path / "weights"
    for name, (_size, changed) in document("staged/.staged.json").items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(FIXTURES / "staged" / name, source / name)
        os.utime(source / name, ns=(changed, changed))
    assert stage.stage(str(source), folder) == 0
    os.utime(source / "model.safetensors", ns=(changed + 1, changed + 1))
    assert stage.stage(str(source), folder) == 1


def test_journal_resumes_at_checkpoint(tmp_path):
    path = tmp_path / "m-metrics.jsonl"
    shutil.copy(FIXTURES / "journal.jsonl", path)
    assert [line["step"] for line in journal.read(path)] == [1, 2, 3, 4, 5]
    going_on = journal.Journal(path)
    going_on.rewind(4)
    going_on.write(5, loss=0.1)
    going_on.close()
    assert [(line["step"], line["loss"]) for line in journal.read(path)][3:] == [(4, 0.25), (5, 0.1)]


@pytest.fixture
def bucket(server):
    """Return the recorded backup, uploaded to the local S3."""
    for path in (FIXTURES / "bucket").rglob("*"):
        if path.is_file():
            name = str(path.relative_to(FIXTURES / "bucket"))
            server.client.put_object(Bucket=BUCKET, Key=name, Body=path.read_bytes())
    return server


def test_backup_is_verified_and_restored(bucket, tmp_path):
    report = backup.Backup(tmp_path / "back", bucket.prefix("run")).verify(deep=True)
    assert (sorted(report.same), report.problems) == (["a", "empty", "sub/b"], [])
    report = backup.Backup(tmp_path / "back", bucket.prefix("run")).restore()
    assert (sorted(report.copied), report.problems) == (["a", "empty", "sub/b"], [])
    for name in ("a", "empty", "sub/b"):
        assert (tmp_path / "back" / name).read_bytes() == (FIXTURES / "bucket" / "run" / name).read_bytes()


def test_backup_is_continued(bucket, tmp_path):
    source = copied("bucket", tmp_path) / "run"
    (source / ".mlcluster-backup.json").unlink()
    shutil.copy(FIXTURES / "sums.json", source / ".mlcluster-sums.json")
    (source / "new").write_bytes(b"four")
    report = backup.Backup(source, bucket.prefix("run")).push()
    assert (report.copied, sorted(report.same), report.problems) == (["new"], ["a", "empty", "sub/b"], [])


def test_checksums_of_backup_are_computed_again(tmp_path):
    """Recorded checksums lack the inode's change time, without which a changed file may look unchanged."""
    shutil.copy(FIXTURES / "sums.json", tmp_path / ".mlcluster-sums.json")
    assert backup.Backup(tmp_path, None)._sums() == {}


CALLS = sorted({tuple(words[1:]) for found in COMMANDS.values() for words in found if words[0] == "mlcluster_data"})


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_command_of_earlier_script_is_accepted(words, monkeypatch):
    asked = []
    module = __import__(f"mlcluster_data.{command.COMMANDS[words[0]][0]}", fromlist=["run"])
    monkeypatch.setattr(module, "run", lambda args: asked.append(args) or 0)
    assert command.main(list(words)) == 0
    assert len(asked) == 1


def test_no_class_of_package_is_pickled():
    """Only Torch's index is pickled: a module of this package in it could never be renamed."""
    for name in (".metadata", "__0_0.distcp"):
        assert b"mlcluster_data" not in (FIXTURES / "checkpoints" / "step-00000004" / name).read_bytes()
