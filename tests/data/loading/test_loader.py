# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil

import numpy as np
import pytest
import torch
import torch.distributed as dist
import webdataset
from mlcluster_data.errors import CorruptError, DataError
from mlcluster_data.files import s3
from mlcluster_data.loading import loader as subject
from mlcluster_data.loading import order as loader_order
from mlcluster_data.loading import shard_reader
from mlcluster_data.loading.loader import LoaderConfig, make_loader
from mlcluster_data.sharding import tar as shards

from tests.data.support.fake_s3 import BUCKET, Unwell, _server, pauses, server
from tests.data.support.forked import ranks, small_disk

__all__ = ["_server", "pauses", "server"]


@pytest.fixture(autouse=True)
def one_rank(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "WORKER", "NUM_WORKERS"):
        monkeypatch.delenv(name, raising=False)


def as_rank(monkeypatch, rank, world):
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(world))


def ids(batches):
    """Return the numbers of the samples in batches, without padding rows."""
    return [number for batch in batches for number in batch["ids"].tolist() if number >= 0]


def everything(folder):
    """Return {number: ids} of every sample of a data set."""
    dataset = subject.open_dataset(str(folder))
    reader = shard_reader.Reader(shard_reader.Source(str(folder)))
    return {number: row.tolist() for shard in dataset.shards for number, row in reader.samples(shard)}


@pytest.mark.parametrize(("world", "workers"), [(1, 0), (1, 2), (2, 0), (3, 0), (2, 2)])
def test_every_sample_is_read_once_in_equal_steps(shards, monkeypatch, world, workers):
    seen, lengths = [], set()
    for rank in range(world):
        as_rank(monkeypatch, rank, world)
        loader = make_loader(LoaderConfig(str(shards.path), 4, workers=workers, buffer=50))
        batches = list(loader)
        lengths.add(len(batches))
        seen += ids(batches)
    assert len(lengths) == 1
    assert sorted(seen) == sorted(everything(shards.path))
    assert len(seen) == shards.samples


def test_shards_are_divided_as_webdataset_divides_them(monkeypatch):
    for world, workers, shuffle in itertools.product((1, 2, 3), (1, 2), (False, True)):
        geometry = loader_order.Geometry(world, workers, 1, 7, shuffle, 1, 0)
        for rank, worker in itertools.product(range(world), range(workers)):
            as_rank(monkeypatch, rank, world)
            monkeypatch.setenv("WORKER", str(worker))
            monkeypatch.setenv("NUM_WORKERS", str(workers))
            order = loader_order.shard_order(geometry, 20, 3)
            theirs = webdataset.split_by_worker(webdataset.split_by_node(iter(order)))
            assert list(loader_order.shards_of(geometry, 20, 3, rank, worker)) == list(theirs)


@pytest.mark.parametrize("form", shards.FORMS)
def test_labels_are_those_of_causal_model(inputs, preprocess, tmp_path, form):
    assert preprocess(inputs, tmp_path, "--form", form, "--pad", "") == 0
    loader = make_loader(LoaderConfig(str(tmp_path), 8, workers=0))
    expected = everything(tmp_path)
    ends = 0
    for batch in loader:
        there = batch["attention_mask"]
        assert batch["input_ids"].dtype == batch["labels"].dtype == batch["ids"].dtype == torch.int64
        assert there.dtype == torch.bool
        assert batch["input_ids"].shape == batch["labels"].shape == there.shape
        assert there.shape[1] % 8 == 0
        assert torch.equal(batch["labels"][there], batch["input_ids"][there])
        assert (batch["labels"][~there] == -100).all()
        assert (batch["input_ids"][~there] == loader.dataset.pad).all()
        # The end of text has to be a label: otherwise a model does not learn to stop.
        ends += int((batch["labels"] == loader.dataset.eos).sum())
        for number, row, mask in zip(batch["ids"].tolist(), batch["input_ids"], there):
            assert row[mask].tolist() == expected[number]
    assert ends == json.loads((tmp_path / "manifest.json").read_text())["documents"]


def test_rows_have_one_width_on_request(inputs, preprocess, tmp_path):
    assert preprocess(inputs, tmp_path, "--packed") == 0
    loader = make_loader(LoaderConfig(str(tmp_path), 8, workers=0, pad_multiple=32))
    assert {batch["input_ids"].shape[1] for batch in loader} == {32}


@pytest.mark.parametrize("value", [None, "2048", -1])
def test_manifest_with_invalid_numbers_is_one_sentence(shards, tmp_path, value):
    content = json.loads((shards.path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**content, "length": value, "pad": 0}))
    with pytest.raises(DataError, match=r"manifest\.json has no integer for length: make the shards again"):
        make_loader(LoaderConfig(str(tmp_path), 8))


def test_order_changes_with_epoch_and_seed(shards):
    loader = make_loader(LoaderConfig(str(shards.path), 4, workers=0, buffer=30))
    first, second = ids(loader), ids(loader)
    assert loader.epoch == 2
    assert first != second
    assert sorted(first) == sorted(second)
    assert ids(make_loader(LoaderConfig(str(shards.path), 4, workers=0, buffer=30))) == first
    assert ids(make_loader(LoaderConfig(str(shards.path), 4, workers=0, buffer=30, seed=1))) != first
    plain = ids(make_loader(LoaderConfig(str(shards.path), 4, workers=0, shuffle=False)))
    assert plain == list(everything(shards.path))


@pytest.mark.parametrize("options", [{"uneven": "pad"}, {"uneven": "drop"}, {"resampled": True, "epoch_batches": 23}])
def test_run_resumes_at_its_position(shards, monkeypatch, options):
    as_rank(monkeypatch, 1, 3)
    config = LoaderConfig(str(shards.path), 4, workers=0, buffer=30, **options)
    whole = make_loader(config)
    whole.set_epoch(2)
    steps = len(whole)
    expected = [batch["ids"].tolist() for batch in whole]
    states = []
    one = make_loader(config)
    one.set_epoch(2)
    for _batch in one:
        states.append(json.loads(json.dumps(one.state_dict())))
    assert len(states) == len(expected) == steps
    for done, state in enumerate(states, 1):
        other = make_loader(config)
        other.load_state_dict(state)
        assert [batch["ids"].tolist() for batch in other] == expected[done:]
        assert other.epoch == 3


def test_run_with_workers_resumes_at_its_position(shards, monkeypatch):
    as_rank(monkeypatch, 0, 2)
    config = LoaderConfig(str(shards.path), 4, workers=2, buffer=30, prefetch=2)
    expected = [batch["ids"].tolist() for batch in make_loader(config)]
    for done in (1, 5, len(expected) - 1):
        first, second = make_loader(config), make_loader(config)
        begun = [batch["ids"].tolist() for batch in itertools.islice(first, done)]
        second.load_state_dict(first.state_dict())
        assert begun + [batch["ids"].tolist() for batch in second] == expected


def test_shards_before_position_are_not_read(shards, monkeypatch):
    config = LoaderConfig(str(shards.path), 4, workers=0, buffer=20)
    loader = make_loader(config)
    state = {**loader.state_dict(), "batches": len(loader) - 2}
    read = []
    monkeypatch.setattr(
        shard_reader.Reader, "load", lambda self, shard: read.append(shard) or (shards.path / shard.name).read_bytes()
    )
    loader.load_state_dict(state)
    assert len(list(loader)) == 2
    assert len(read) < len(shards.shards) / 4


def test_another_geometry_is_rejected_or_restarts_epoch(shards, monkeypatch):
    old = make_loader(LoaderConfig(str(shards.path), 4, workers=0))
    old.set_epoch(5)
    list(itertools.islice(old, 3))
    as_rank(monkeypatch, 0, 2)
    new = make_loader(LoaderConfig(str(shards.path), 8, workers=0))
    with pytest.raises(DataError, match=r"world 1 to 2, batch 4 to 8.*begin epoch 5 again"):
        new.load_state_dict(old.state_dict())
    new.load_state_dict(old.state_dict(), on_change="restart")
    assert (new.epoch, new.batches) == (5, 0)
    with pytest.raises(DataError, match="state is of the schema None"):
        new.load_state_dict({})


def test_changed_shards_are_rejected(shards, inputs, preprocess, tmp_path):
    assert preprocess(inputs, tmp_path, "--length", "16") == 0
    old, new = (make_loader(LoaderConfig(str(path), 4, workers=0)) for path in (shards.path, tmp_path))
    with pytest.raises(DataError, match=r"something changed \(dataset\)"):
        new.load_state_dict(old.state_dict())


def test_too_few_shards_are_rejected_with_numbers(shards, monkeypatch):
    count = len(shards.shards)
    as_rank(monkeypatch, 0, count)
    words = rf"{count} shards cannot feed {count} ranks x 2 workers = {2 * count} readers: use at most 1 workers, make"
    with pytest.raises(DataError, match=words):
        make_loader(LoaderConfig(str(shards.path), 1, workers=2))
    make_loader(LoaderConfig(str(shards.path), 1, workers=1))
    make_loader(LoaderConfig(str(shards.path), 1, workers=2, resampled=True, epoch_batches=1))
    with pytest.raises(DataError, match="there is no shard"):
        loader_order.Geometry(1, 1, 1, 0, True, 1, 0).check(0, 0)


def test_resampling_ranks_draw_independently(shards, monkeypatch):
    world = len(shards.shards) * 2
    found = []
    for rank in (0, 1, world - 1):
        as_rank(monkeypatch, rank, world)
        loader = make_loader(LoaderConfig(str(shards.path), 4, workers=0, resampled=True, epoch_batches=6, buffer=20))
        batches = list(loader)
        assert len(batches) == len(loader) == 6
        found.append(tuple(ids(batches)))
    assert len(set(found)) == 3


def test_ranks_end_together_with_padding_or_dropping(shards, monkeypatch):
    world = 3
    steps = {}
    for uneven in ("pad", "drop"):
        seen, fillers = [], 0
        for rank in range(world):
            as_rank(monkeypatch, rank, world)
            loader = make_loader(LoaderConfig(str(shards.path), 2, workers=0, uneven=uneven))
            batches = list(loader)
            assert len(batches) == len(make_loader(LoaderConfig(str(shards.path), 2, workers=0, uneven=uneven)))
            for batch in batches:
                if batch["ids"].tolist() == [-1]:
                    fillers += 1
                    assert (batch["labels"] == -100).all()
                    assert batch["attention_mask"].sum() == 1
            seen += ids(batches)
            steps.setdefault(uneven, set()).add(len(batches))
        assert len(seen) == len(set(seen))
        assert (len(seen) == shards.samples, fillers > 0) == (uneven == "pad", uneven == "pad")
    assert min(steps["drop"]) < min(steps["pad"])


def test_ranks_that_synchronize_each_step_do_not_hang(shards, tmp_path):
    def work(_report):
        # Without variables: webdataset gets rank and world size from torch.distributed, workers from this process.
        loader = make_loader(LoaderConfig(str(shards.path), 4, workers=2))
        seen = []
        for batch in loader:
            total = (batch["labels"] != -100).sum()
            dist.all_reduce(total)
            seen += ids([batch])
        return seen

    found = ranks(2, work, tmp_path)
    assert sorted(found[0] + found[1]) == sorted(everything(shards.path))
    assert found[0]
    assert found[1]


@pytest.fixture
def spoiled(shards, tmp_path):
    """Return a copy of the data set in which a shard has a flipped bit."""
    folder = tmp_path / "spoiled"
    shutil.copytree(shards.path, folder)
    path = folder / "shard-00001-00001.tar"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return folder


@pytest.mark.parametrize("workers", [0, 2])
def test_corrupt_shard_is_named_and_ends_run(spoiled, workers):
    with pytest.raises(
        CorruptError, match=r"shard-00001-00001\.tar is corrupt: .*run its preprocess task again"
    ) as caught:
        list(make_loader(LoaderConfig(str(spoiled), 4, workers=workers)))
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, 2])
def test_corrupt_shard_is_reported_and_skipped_by_choice(spoiled, shards, capfd, workers):
    config = LoaderConfig(str(spoiled), 4, workers=workers, on_corrupt="skip", buffer=30)
    loader = make_loader(config)
    batches = list(loader)
    assert len(batches) == len(make_loader(config))
    (lost,) = (row for row in shards.shards if row["name"] == "shard-00001-00001.tar")
    assert len(ids(batches)) == shards.samples - lost["samples"]
    (line,) = capfd.readouterr().err.splitlines()
    assert "shard-00001-00001.tar is corrupt" in line
    assert line.endswith("its samples are left out of this epoch")


def relist(folder, name, **changes):
    content = json.loads((folder / "manifest.json").read_text())
    (row,) = (row for row in content["shards"] if row["name"] == name)
    row.update(changes)
    (folder / "manifest.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda content: b"no tar at all" * 100, "is not a tar of samples"),
        (lambda content: content[: len(content) // 2], "is not a tar of samples|holds"),
        (lambda content: content, "holds .* samples, and the manifest lists"),
    ],
)
def test_invalid_shard_with_right_hash_is_named(shards, tmp_path, spoil, words):
    folder = tmp_path / "set"
    shutil.copytree(shards.path, folder)
    name = "shard-00000-00000.tar"
    content = spoil((folder / name).read_bytes())
    (folder / name).write_bytes(content)
    changes = {"bytes": len(content), "sha256": shard_reader.hashlib.sha256(content).hexdigest()}
    relist(folder, name, **changes, samples=10_000)
    with pytest.raises(CorruptError, match=rf"{name}.*({words})"):
        list(make_loader(LoaderConfig(str(folder), 4, workers=0)))


def test_missing_shard_is_one_sentence(shards, tmp_path):
    shutil.copytree(shards.path, tmp_path / "set")
    (tmp_path / "set" / "shard-00000-00000.tar").unlink()
    with pytest.raises(DataError, match=r"shard-00000-00000\.tar cannot be read"):
        list(make_loader(LoaderConfig(str(tmp_path / "set"), 4, workers=0)))


def test_unfinished_shards_are_one_sentence(tmp_path):
    with pytest.raises(DataError, match="the shards are not finished"):
        make_loader(LoaderConfig(str(tmp_path), 4))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0}, "batch_size is 0: it must be 1 or more"),
        ({"batch_size": 1, "workers": -1}, "workers is -1"),
        ({"batch_size": 1, "uneven": "x"}, "uneven is x: it must be pad or drop"),
        ({"batch_size": 1, "resampled": True}, "resampling needs epoch_batches"),
        ({"batch_size": 1, "epoch_batches": 3}, "set both or neither"),
    ],
)
def test_contradictory_options_are_rejected(options, words):
    with pytest.raises(DataError, match=words):
        LoaderConfig("/nowhere", **options)


def test_shards_are_read_once_and_then_from_local_disk(shards, tmp_path):
    folder, cache = tmp_path / "set", tmp_path / "cache"
    shutil.copytree(shards.path, folder)
    config = LoaderConfig(str(folder), 4, workers=0, cache=str(cache))
    first = ids(make_loader(config))
    for path in folder.glob("*.tar"):
        path.unlink()
    assert ids(make_loader(config)) == first
    assert len(list(cache.iterdir())) == len(shards.shards)


def test_damaged_shard_in_cache_is_fetched_again(shards, tmp_path):
    config = LoaderConfig(str(shards.path), 4, workers=0, cache=str(tmp_path / "cache"))
    first = ids(make_loader(config))
    for path in (tmp_path / "cache").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert ids(make_loader(config)) == first
    dataset = subject.open_dataset(str(shards.path))
    cache = shard_reader.Cache(tmp_path / "cache")
    assert all(cache.read(shard) is not None for shard in dataset.shards)


def test_least_recently_used_shards_leave_cache(shards, tmp_path):
    dataset = subject.open_dataset(str(shards.path))
    first, second, third = dataset.shards[:3]
    cache = shard_reader.Cache(tmp_path, max_bytes=first.bytes + second.bytes + third.bytes - 1)
    for age, shard in enumerate((first, second)):
        cache.keep(shard, (shards.path / shard.name).read_bytes())
        os.utime(cache.path(shard), (100 + age, 100 + age))
    assert cache.read(first) is not None
    cache.keep(third, (shards.path / third.name).read_bytes())
    assert [cache.path(shard).exists() for shard in (first, second, third)] == [True, False, True]


def test_full_cache_disk_is_reported_once(shards, tmp_path, capfd):
    def work(_report):
        small_disk(tmp_path / "small", 32 << 10)
        config = LoaderConfig(str(shards.path), 4, workers=0, cache=str(tmp_path / "small"), cache_bytes=1 << 30)
        return ids(make_loader(config)), [path.name for path in (tmp_path / "small").glob("*.part")]

    ((seen, left),) = ranks(0, work, tmp_path)
    assert sorted(seen) == sorted(everything(shards.path))
    assert left == []
    assert capfd.readouterr().err.count("No space left on device, shards are read without caching them here") == 1


def test_other_cache_errors_are_raised(shards, tmp_path, monkeypatch):
    cache = shard_reader.Cache(tmp_path)

    def broken(*_arguments, **_handles):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="Input/output error"):
        cache.keep(subject.open_dataset(str(shards.path)).shards[0], b"x")
    assert list(tmp_path.iterdir()) == []


def test_shards_are_read_from_failing_s3_with_retries(shards, server, pauses, tmp_path, monkeypatch):
    for path in shards.path.glob("[!.]*"):
        server.prefix("set").put_file(path.name, path)
    monkeypatch.setattr(s3, "ATTEMPTS", 4)
    made = s3.Prefix.__init__

    def shaky(self, url, **options):
        made(self, url, **options)
        Unwell(self, "GetObject", 3)

    monkeypatch.setattr(s3.Prefix, "__init__", shaky)
    where = f"s3://{BUCKET}/set"
    seen = ids(make_loader(LoaderConfig(where, 4, workers=0, cache=str(tmp_path / "cache"))))
    assert sorted(seen) == sorted(everything(shards.path))
    assert len(pauses) >= 6
    server.prefix("set").delete(["shard-00000-00000.tar"])
    with pytest.raises(DataError, match=r"shard-00000-00000\.tar is missing"):
        list(make_loader(LoaderConfig(where, 4, workers=0)))


def test_position_counts_batches_in_worker_order():
    batches = [3, 1, 2]
    order = [(turn, worker) for turn in range(3) for worker in range(3) if turn < batches[worker]]
    for delivered, (turn, worker) in enumerate(order):
        behind = [one for one in order if one[0] == turn].index((turn, worker))
        assert loader_order.position(batches, delivered) == (turn, behind)
    assert loader_order.position(batches, 6) == (3, 0)
    assert loader_order.position(batches, 8) == (3, 2)


def test_batch_without_samples_is_padding(shards):
    dataset = subject.open_dataset(str(shards.path))
    batch = subject.collate([], dataset, 8)
    assert batch["input_ids"].tolist() == [[dataset.pad] * 8]
    assert batch["ids"].tolist() == [-1]
    one = subject.collate([(5, np.array([7, 8]))], dataset, 1)
    assert one["input_ids"].tolist() == one["labels"].tolist() == [[7, 8]]


@pytest.mark.parametrize("workers", [0, 1])
def test_cache_below_file_is_one_sentence(shards, tmp_path, workers):
    (tmp_path / "file").touch()
    loader = make_loader(
        LoaderConfig(str(shards.path), batch_size=4, workers=workers, cache=str(tmp_path / "file" / "cache"))
    )
    with pytest.raises(DataError, match=r"file/cache cannot keep shards \(Not a directory\): use a folder"):
        next(iter(loader))
