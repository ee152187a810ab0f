# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.errors import DataError
from mlcluster_data.files import durable, s3, stage

from tests.data.support.fake_s3 import BUCKET, _server, pauses, server
from tests.data.support.forked import FORK, RankDiedError, die_at_change, ranks, small_disk
from tests.data.support.processes import stands_still

__all__ = ["_server", "pauses", "server"]


@pytest.fixture
def weights(tmp_path):
    folder = tmp_path / "weights"
    (folder / "more").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"w" * 100_000)
    (folder / "more" / "config.json").write_text("{}")
    return folder


def found(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name[0] != "."
    }


def test_files_are_copied_once(weights, tmp_path, capsys):
    local = tmp_path / "local"
    assert command.main(["stage", str(weights), "--to", str(local)]) == 0
    assert "2 files copied" in capsys.readouterr().out
    assert found(local) == found(weights)
    assert command.main(["stage", str(weights), "--to", str(local)]) == 0
    assert "all files are there already" in capsys.readouterr().out


def test_what_changed_or_went_missing_is_copied_again(weights, tmp_path):
    local = tmp_path / "local"
    assert stage.stage(str(weights), local) == 2
    (weights / "more" / "config.json").write_text('{"a": 1}')
    assert stage.stage(str(weights), local) == 1
    (local / "model.safetensors").unlink()
    assert stage.stage(str(weights), local) == 1
    (local / "model.safetensors").write_bytes(b"short")
    assert stage.stage(str(weights), local) == 1
    assert found(local) == found(weights)


def test_one_file_is_a_source_too(weights, tmp_path):
    assert stage.stage(str(weights / "model.safetensors"), tmp_path / "local") == 1
    assert list(found(tmp_path / "local")) == ["model.safetensors"]


def test_weights_come_from_s3(weights, tmp_path, server):
    for name, content in found(weights).items():
        server.prefix("weights").put(name, content)
    # As the console makes them for a folder.
    server.prefix("weights").put("sub/", b"")
    assert stage.stage(f"s3://{BUCKET}/weights", tmp_path / "local") == 2
    assert found(tmp_path / "local") == found(weights)
    assert stage.stage(f"s3://{BUCKET}/weights", tmp_path / "local") == 0


def test_of_the_ranks_of_a_node_one_copies_and_the_others_wait(weights, tmp_path):
    local = tmp_path / "local"

    def copying(wait):
        room = stage._room
        stage._room = lambda *words: (wait(), room(*words))[1]
        return stage.stage(str(weights), local) == 2

    mine, theirs = FORK.Pipe()
    other = FORK.Process(target=lambda: theirs.send(stage.stage(str(weights), local)))
    with stands_still(copying):
        other.start()
        while not waits_for_a_lock(other.pid):
            assert other.is_alive()
            time.sleep(0.01)
        assert found(local) == {}
    other.join()
    assert mine.recv() == 0 and found(local) == found(weights)


def waits_for_a_lock(pid):
    """As proc_locks(5) has it: whoever waits stands behind an arrow."""
    lines = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any(words[1] == "->" and words[5] == str(pid) for words in lines)


def test_killed_at_any_change_it_is_never_taken_for_complete(weights, tmp_path):
    killed = 0
    for number in range(1, 60):
        local = tmp_path / str(number)

        def work(_tell, number=number, local=local):
            die_at_change(number, local)
            return stage.stage(str(weights), local)

        try:
            ranks(0, work, tmp_path)
            break
        except RankDiedError as died:
            assert died.status == -signal.SIGKILL
            killed += 1
        assert (local / stage.MARK).exists() <= (found(local) == found(weights))
        stage.stage(str(weights), local)
        assert found(local) == found(weights)
        assert not list(local.rglob("*.part"))
    assert killed > 5


def test_too_little_room_is_one_sentence(weights, tmp_path):
    def work(_tell):
        small_disk(tmp_path / "small", 64 << 10)
        with pytest.raises(DataError) as caught:
            stage.stage(str(weights), tmp_path / "small")
        return str(caught.value), found(tmp_path / "small")

    ((message, left),) = ranks(0, work, tmp_path)
    assert "free, and 100kB are to be staged: make room there" in message
    assert left == {}


def test_a_source_that_cannot_be_read_is_one_sentence(weights, tmp_path, monkeypatch):
    def unreadable(source, target):
        raise PermissionError(13, os.strerror(13), str(source))

    monkeypatch.setattr(durable, "copy", unreadable)
    with pytest.raises(DataError, match=r"could not be staged in .*Permission denied"):
        stage.stage(str(weights), tmp_path / "local")


def test_nothing_to_stage_is_one_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no file"):
        stage.stage(str(tmp_path / "empty"), tmp_path / "local")


def test_names_that_lead_out_of_the_folder_are_refused(tmp_path, server, monkeypatch):
    monkeypatch.setattr(s3.Prefix, "list", lambda self: {"../outside": s3.Remote(1, "e")})
    with pytest.raises(DataError, match=r"has the name \.\./outside, which leads out of the folder"):
        stage.stage(f"s3://{BUCKET}/weights", tmp_path / "local")


def test_halves_of_others_stay(weights, tmp_path):
    """Below /data a preprocess task, or another staging, may be writing at this moment."""
    name = next(path.name for path in weights.iterdir() if path.is_file())
    local = tmp_path / "local"
    (local / "other").mkdir(parents=True)
    kept = [local / ".shard-00000-00000.tar.x.part", local / "other" / f".{name}.0123abcd.part", local / ".mine.part"]
    gone = local / f".{name}.0123abcd.part"
    for path in (*kept, gone):
        path.write_bytes(b"x")
    stage.stage(str(weights), local)
    assert all(path.exists() for path in kept) and not gone.exists()


@pytest.mark.parametrize("text", ["[]", "null", '{"a": 1}', '{"a": []}', "{"])
def test_a_mark_that_is_damaged_is_none(weights, tmp_path, text):
    copied = stage.stage(str(weights), tmp_path / "local")
    (tmp_path / "local" / stage.MARK).write_text(text)
    assert stage.stage(str(weights), tmp_path / "local") == copied
