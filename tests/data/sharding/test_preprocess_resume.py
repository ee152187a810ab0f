# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checks of preprocess before it resumes or ends, and entries that other users planted in its folders."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from mlcluster_data.corpus import manifest
from mlcluster_data.files import store
from mlcluster_data.sharding import blocks
from mlcluster_data.sharding import preprocess as subject
from mlcluster_data.sharding import tokenizer as tokenizing

from tests.data.support.fake_s3 import BUCKET, _server, server
from tests.data.support.forked import RankDiedError, ranks
from tests.data.support.planted import PLANTED, give_away, plant

__all__ = ["_server", "server"]


def contents(folder):
    """Return {name: content} of the files that are not hidden."""
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*") if path.is_file()}


def cut_short(path):
    os.truncate(path, path.stat().st_size // 2)


def empty(path):
    os.truncate(path, 0)


def change(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def take_away(path):
    path.unlink()


SHARD = "shard-00001-00001.tar"


@pytest.mark.parametrize("harm", [cut_short, empty, change, take_away])
@pytest.mark.parametrize("rest", ["unfinished", "finished"])
def test_damaged_shard_is_made_again(tmp_path, inputs, preprocess, shards, capsys, harm, rest):
    """A task of another array does so, too, as the data set's manifest lists the shard."""
    shutil.copytree(shards.path, tmp_path / "out")
    if rest == "unfinished":
        (tmp_path / "out" / "manifest.json").unlink()
    harm(tmp_path / "out" / SHARD)
    assert preprocess(inputs, tmp_path / "out") == 0
    assert f"{tmp_path}/out/{SHARD} is missing or was changed: it is made again" in capsys.readouterr().out
    assert contents(tmp_path / "out") == contents(shards.path)


@pytest.mark.parametrize("harm", [cut_short, empty, change, take_away])
def test_manifest_is_not_written_over_damaged_shard(tmp_path, inputs, preprocess, shards, capsys, harm):
    shutil.copytree(shards.path, tmp_path / "out")
    (tmp_path / "out" / "manifest.json").unlink()
    harm(tmp_path / "out" / SHARD)
    assert preprocess(inputs, tmp_path / "out", "--task", "0", "--tasks", "3") == 1
    assert f"{tmp_path}/out/{SHARD} is missing or was changed, so the manifest" in capsys.readouterr().err
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert preprocess(inputs, tmp_path / "out", "--task", "1", "--tasks", "3") == 0
    assert contents(tmp_path / "out") == contents(shards.path)


def test_damaged_shard_in_s3_is_made_again(server, inputs, preprocess, capsys):
    where, few = f"s3://{BUCKET}/set", ("--shard-tokens", "5000")
    assert preprocess(inputs, where, *few) == 0
    prefix = server.prefix("set")
    good = {name: prefix.get(name) for name in prefix.list()}
    name = "shard-00001-00000.tar"
    prefix.put(name, b"x" * len(good[name]))
    prefix.delete(["manifest.json"])
    assert preprocess(inputs, where, *few) == 0
    assert f"{where}/{name} is missing or was changed" in capsys.readouterr().out
    assert {name: prefix.get(name) for name in prefix.list()} == good


def test_every_value_of_part_manifest_is_sealed(tmp_path, inputs, preprocess, shards, capsys):
    shutil.copytree(shards.path, tmp_path / "out")
    part = tmp_path / "out" / "input-00001.json"
    content = json.loads(part.read_text())
    for key, value in content.items():
        for other in (None, [], value + 1 if isinstance(value, int) else f"{value}x"):
            part.write_bytes(manifest.dump({**content, key: other}))
            assert preprocess(inputs, tmp_path / "out") == 1, key
            assert "input-00001.json" in capsys.readouterr().err
    for at, shard in enumerate(content["shards"]):
        other = [*content["shards"][:at], {**shard, "sha256": "0" * 64}, *content["shards"][at + 1 :]]
        part.write_bytes(manifest.dump({**content, "shards": other}))
        assert preprocess(inputs, tmp_path / "out") == 1
        assert "input-00001.json is damaged or was changed: remove it" in capsys.readouterr().err
    part.unlink()
    assert preprocess(inputs, tmp_path / "out") == 0
    assert contents(tmp_path / "out") == contents(shards.path)


def test_shard_is_read_once_per_run(tmp_path, inputs, preprocess, shards, monkeypatch):
    shutil.copytree(shards.path, tmp_path / "out")
    read, proof = [], store.Folder.proof
    monkeypatch.setattr(
        store.Folder, "proof", lambda self, name, wanted: (read.append(name), proof(self, name, wanted))[1]
    )
    assert preprocess(inputs, tmp_path / "out") == 0
    assert sorted(read) == sorted(shard["name"] for shard in shards.shards)
    read.clear()
    assert preprocess(inputs, tmp_path / "again") == 0
    assert read == []


def test_shard_damaged_during_move_is_not_published(tmp_path, inputs, preprocess, capsys, monkeypatch):
    (tmp_path / "spool").mkdir()
    write = subject.shards.write_shard

    def harmed(*given):
        found = write(*given)
        change(found[0])
        return found

    monkeypatch.setattr(subject.shards, "write_shard", harmed)
    assert preprocess(inputs, tmp_path / "out", "--spool", str(tmp_path / "spool")) == 1
    assert "has other content than was written to it, so it is not used" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*.tar"))


def test_worker_without_parent_ends_itself(tokenizer):
    """The parent is killed before the worker has requested a signal at its death, so no signal comes."""
    found, config = tokenizing.load(str(tokenizer))
    definition, _digest = tokenizing.definition_of(found)
    settings = blocks.Settings(definition, tokenizing.ids_of(found, config), False, "fail")

    def work(parent):
        def run(_report):
            blocks.prepare(settings, parent())
            return True

        return run

    assert ranks(0, work(os.getppid), Path("/tmp")) == [True]
    with pytest.raises(RankDiedError) as died:
        ranks(0, work(lambda: os.getppid() + 1), Path("/tmp"))
    assert died.value.status == -signal.SIGKILL


@pytest.mark.parametrize("what", PLANTED)
def test_planted_names_are_replaced_or_rejected(tmp_path, inputs, preprocess, what):
    """Covers every name that a run makes; a run lists them."""
    (tmp_path / "one").mkdir()
    shutil.copy(inputs / "input-00000.jsonl", tmp_path / "one")
    inputs = tmp_path / "one"
    assert preprocess(inputs, tmp_path / "first") == 0
    names = [path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*")]
    # One shard stands for all.
    names = [name for name in names if not name.name.startswith("shard-00000-0000") or name.name[-5] == "0"]
    assert {"plan.json", "manifest.json", "input-00000.json", "shard-00000-00000.tar", ".locks"} <= set(map(str, names))
    (tmp_path / "victims").mkdir()
    victim = tmp_path / "victims" / "file"
    for at, name in enumerate(names):
        out = tmp_path / f"out{at}"
        (out / name).parent.mkdir(parents=True)
        victim.write_bytes(b"precious")
        plant(out / name, what, victim.parent if name.suffix == "" else victim)
        code = preprocess(inputs, out)
        assert victim.read_bytes() == b"precious" and os.listdir(victim.parent) == ["file"], name
        assert not (tmp_path / "absent").exists()
        if code == 0:
            assert contents(out) == contents(tmp_path / "first"), name


@pytest.mark.parametrize("what", ["link", "open to others", "other owner"])
def test_spool_of_others_is_rejected(tmp_path, inputs, preprocess, capsys, what):
    """Its name depends on the output, so that another user may make it first."""
    spool = tmp_path / "spool"
    assert preprocess(inputs, tmp_path / "out", "--spool", str(spool)) == 0
    (own,) = spool.iterdir()
    assert own.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(own)
    (tmp_path / "elsewhere").mkdir()
    if what == "link":
        own.symlink_to(tmp_path / "elsewhere")
    else:
        own.mkdir()
        own.chmod(0o777)
        if what == "other owner":
            own.chmod(0o755)
            give_away(own)
    shutil.rmtree(tmp_path / "out")
    assert preprocess(inputs, tmp_path / "out", "--spool", str(spool)) == 1
    assert str(own) in capsys.readouterr().err
    assert list((tmp_path / "elsewhere").iterdir()) == [] and not list((tmp_path / "out").glob("*.tar"))


def test_shard_changed_after_creation_is_reported_at_end(tmp_path, inputs, preprocess, capsys, monkeypatch):
    finish = subject.finish

    def harmed(job):
        change(tmp_path / "out" / SHARD)
        return finish(job)

    monkeypatch.setattr(subject, "finish", harmed)
    assert preprocess(inputs, tmp_path / "out") == 1
    assert f"{SHARD} is missing or was changed, so the manifest is not written" in capsys.readouterr().err
    assert not (tmp_path / "out" / "manifest.json").exists()
