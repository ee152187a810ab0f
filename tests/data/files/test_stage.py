# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.errors import DataError
from mlcluster_data.files import durable, s3, stage
from mlcluster_data.files.durable import Signature
from mlcluster_data.locks import directory as locks

from tests.data.support.fake_s3 import BUCKET, _server, pauses, server
from tests.data.support.forked import FORK, RankDiedError, die_at_change, ranks, small_disk
from tests.data.support.planted import PLANTED, plant
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


def test_changed_or_missing_file_is_copied_again(weights, tmp_path):
    local = tmp_path / "local"
    assert stage.stage(str(weights), local) == 2
    (weights / "more" / "config.json").write_text('{"a": 1}')
    assert stage.stage(str(weights), local) == 1
    (local / "model.safetensors").unlink()
    assert stage.stage(str(weights), local) == 1
    (local / "model.safetensors").write_bytes(b"short")
    assert stage.stage(str(weights), local) == 1
    assert found(local) == found(weights)


def test_file_in_place_of_staged_folder_is_refused(weights, tmp_path):
    local = tmp_path / "local"
    stage.stage(str(weights), local)
    (local / "more" / "config.json").unlink()
    (local / "more").rmdir()
    (local / "more").write_bytes(b"precious")
    with pytest.raises(DataError, match=r"more/config\.json belongs there: move it away"):
        stage.stage(str(weights), local)
    assert (local / "more").read_bytes() == b"precious"


def test_unfinished_file_of_another_program_is_kept(weights, tmp_path):
    local = tmp_path / "local"
    local.mkdir()
    kept = [durable.aside_of("other.json"), f".{stage.MARK}.notes"]
    for name in kept:
        (local / name).write_bytes(b"precious")
    (local / durable.aside_of(stage.MARK)).write_bytes(b"")
    stage.stage(str(weights), local)
    assert sorted(path.name for path in local.iterdir() if path.name.endswith((".part", ".notes"))) == sorted(kept)


def test_second_staging_waits_for_first(weights, tmp_path, monkeypatch):
    local, copied, refused = tmp_path / "local", durable.copy, []

    def copy(source, file):
        with open(local / locks.STAGE_NAME, "rb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                refused.append(source.name)
        return copied(source, file)

    monkeypatch.setattr(durable, "copy", copy)
    assert stage.stage(str(weights), local) == 2
    assert sorted(refused) == ["config.json", "model.safetensors"]


def test_single_file_is_source(weights, tmp_path):
    assert stage.stage(str(weights / "model.safetensors"), tmp_path / "local") == 1
    assert list(found(tmp_path / "local")) == ["model.safetensors"]


def test_weights_come_from_s3(weights, tmp_path, server):
    for name, content in found(weights).items():
        server.prefix("weights").put(name, content)
    # The S3 console makes such objects for folders.
    server.prefix("weights").put("sub/", b"")
    assert stage.stage(f"s3://{BUCKET}/weights", tmp_path / "local") == 2
    assert found(tmp_path / "local") == found(weights)
    assert stage.stage(f"s3://{BUCKET}/weights", tmp_path / "local") == 0


def test_one_rank_of_node_copies_while_others_wait(weights, tmp_path):
    local = tmp_path / "local"

    def copying(wait):
        room = stage._check_space
        stage._check_space = lambda *words: (wait(), room(*words))[1]
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
    """Return whether a process waits for a lock, which /proc/locks marks with an arrow (proc_locks(5))."""
    lines = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any(words[1] == "->" and words[5] == str(pid) for words in lines)


def test_killed_staging_never_counts_as_complete(weights, tmp_path):
    killed = 0
    for number in range(1, 60):
        local = tmp_path / str(number)

        def work(_report, number=number, local=local):
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
        assert not list(local.rglob("*.part")) and not list(local.glob(".staging-*"))
    assert killed > 5


def test_too_little_room_is_one_sentence(weights, tmp_path):
    def work(_report):
        small_disk(tmp_path / "small", 64 << 10)
        with pytest.raises(DataError) as caught:
            stage.stage(str(weights), tmp_path / "small")
        return str(caught.value), found(tmp_path / "small")

    ((message, left),) = ranks(0, work, tmp_path)
    assert "free, and 100kB are to be staged: make room there" in message
    assert left == {}


def test_unreadable_source_is_one_sentence(weights, tmp_path, monkeypatch):
    def unreadable(source, target):
        raise PermissionError(13, os.strerror(13), str(source))

    monkeypatch.setattr(durable, "copy", unreadable)
    with pytest.raises(DataError, match=r"could not be staged in .*Permission denied"):
        stage.stage(str(weights), tmp_path / "local")


def test_nothing_to_stage_is_one_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no file"):
        stage.stage(str(tmp_path / "empty"), tmp_path / "local")


def test_names_outside_folder_are_rejected(tmp_path, server, monkeypatch):
    monkeypatch.setattr(s3.Prefix, "list", lambda self: {"../outside": s3.Remote(1, "e")})
    with pytest.raises(DataError, match=r"has the name '\.\./outside', which leads out of the folder"):
        stage.stage(f"s3://{BUCKET}/weights", tmp_path / "local")


def test_partial_files_of_others_are_kept(weights, tmp_path):
    """A preprocess task or another staging may be writing below /data."""
    name = next(path.name for path in weights.iterdir() if path.is_file())
    local = tmp_path / "local"
    (local / "other" / ".staging-2").mkdir(parents=True)
    (local / f".staging-{'1' * 16}").mkdir()
    (local / ".staging-area").mkdir()
    kept = [local / ".shard-00000-00000.tar.x.part", local / "other" / ".staging-2" / "0", local / f".{name}.0.part"]
    kept.append(local / ".staging-area" / "notes")
    gone = [local / f".staging-{'1' * 16}" / "00000000", local / f".{stage.MARK}.0123456789abcdef.part"]
    for path in (*kept, *gone):
        path.write_bytes(b"x")
    stage.stage(str(weights), local)
    assert all(path.exists() for path in kept) and not any(path.exists() for path in gone)


def test_leftovers_go_where_all_files_are_there(weights, tmp_path):
    local = tmp_path / "local"
    stage.stage(str(weights), local)
    (local / f".staging-{'1' * 16}").mkdir()
    (local / f"..staged.json.{'1' * 16}.part").touch()
    own = [local / name for name in (".staging-area", "..staged.json.mine.part")]
    for path in own:
        path.mkdir()
    assert stage.stage(str(weights), local) == 0
    assert sorted(local.glob(".*stag*.part")) + sorted(local.glob(".staging-*")) == own[::-1]


def test_file_taken_away_meanwhile_is_reported(weights, tmp_path, monkeypatch):
    rename = durable.Directory.rename

    def taken(self, name, to, other=None):
        rename(self, name, to, other)
        (other or self).remove(to)

    monkeypatch.setattr(durable.Directory, "rename", taken)
    with pytest.raises(DataError, match="was removed: see which program does that, and stage it again"):
        stage.stage(str(weights), tmp_path / "local")
    assert not (tmp_path / "local" / stage.MARK).exists()


def test_progress_of_staging_counts_bytes_of_each_file(weights, tmp_path, monkeypatch):
    counted = []
    monkeypatch.setattr(stage.Progress, "advance", lambda self, *given: counted.append((*given, self.total)))
    stage.stage(str(weights), tmp_path / "local")
    assert sorted(counted) == [(2, "more/config.json", 100_002), (100_000, "model.safetensors", 100_002)]


def test_folder_to_stage_to_has_to_be_given(weights):
    with pytest.raises(SystemExit, match="3"):
        command.main(["stage", str(weights)])


def test_hidden_files_of_source_are_staged(tmp_path):
    """Only the name of staging's own folder is skipped, not every name with its prefix."""
    (tmp_path / "source" / ".staging-area").mkdir(parents=True)
    for name in (".staging-notes", ".staging-area/a"):
        (tmp_path / "source" / name).write_bytes(b"kept")
    assert stage.stage(str(tmp_path / "source"), tmp_path / "local") == 2
    assert found(tmp_path / "local") == found(tmp_path / "source")


@pytest.mark.parametrize("text", ["[]", "null", '{"a": 1}', '{"a": []}', "{"])
def test_damaged_mark_does_not_count(weights, tmp_path, text):
    copied = stage.stage(str(weights), tmp_path / "local")
    (tmp_path / "local" / stage.MARK).write_text(text)
    assert stage.stage(str(weights), tmp_path / "local") == copied


def test_order_of_keys_in_mark_does_not_matter(weights, tmp_path):
    """As another program that reads and writes it leaves them."""
    stage.stage(str(weights), tmp_path / "local")
    mark = tmp_path / "local" / stage.MARK
    mark.write_text(json.dumps(dict(reversed(json.loads(mark.read_text()).items()))))
    assert stage.stage(str(weights), tmp_path / "local") == 0


@pytest.mark.parametrize(("old", "new"), [(stage.SCHEMA, "other/1"), ('"size": 2', '"size": 3')])
def test_changed_mark_does_not_count(weights, tmp_path, old, new):
    stage.stage(str(weights), tmp_path / "local")
    mark = tmp_path / "local" / stage.MARK
    assert old in mark.read_text()
    mark.write_text(mark.read_text().replace(old, new))
    assert stage.stage(str(weights), tmp_path / "local") == 2


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["ds", "ds/part-0.tar"], "'ds', which is a file and a folder of other files"),
        (["a/b", "a/b/c/d"], "'a/b', which is a file and a folder of other files"),
        (["n" * 256], "which has a part of 256 bytes, and 255 are allowed"),
        (["a//b"], "'a//b', which has an empty part"),
        (["./a"], "'./a', which has an empty part"),
        (["/etc/passwd"], "'/etc/passwd', which leads out of the folder"),
        (["a\0b"], "which has a null byte in it"),
    ],
)
def test_names_are_checked_before_first_byte(tmp_path, server, monkeypatch, names, message):
    monkeypatch.setattr(s3.Prefix, "list", lambda self: {name: s3.Remote(1, "e") for name in [*names, "good"]})
    monkeypatch.setattr(s3.Prefix, "fetch", lambda *_given: pytest.fail("something was fetched"))
    with pytest.raises(DataError, match=re.escape(message)):
        stage.stage(f"s3://{BUCKET}/weights", tmp_path / "local")
    assert not (tmp_path / "local").exists()


@pytest.mark.parametrize("length", [240, 241, 250, 255])
def test_long_names_are_staged(tmp_path, length):
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / ("n" * length)).write_bytes(b"x")
    assert stage.stage(str(tmp_path / "weights"), tmp_path / "local") == 1
    assert found(tmp_path / "local") == {"n" * length: b"x"}
    assert stage.stage(str(tmp_path / "weights"), tmp_path / "local") == 0


def test_staged_folder_can_be_source(weights, tmp_path):
    """Its mark, lock and temporary files are not copied."""
    stage.stage(str(weights), tmp_path / "local")
    aside = tmp_path / "local" / f".staging-{'1' * 16}"
    aside.mkdir()
    (aside / "00000000").write_bytes(b"half")
    assert stage.stage(str(tmp_path / "local"), tmp_path / "second") == 2
    assert found(tmp_path / "second") == found(weights)
    assert stage.stage(str(tmp_path / "local"), tmp_path / "second") == 0


@pytest.mark.parametrize(("there", "source"), [("a/b", "a"), ("a", "a/b")])
def test_obstacle_is_reported_before_first_byte(tmp_path, monkeypatch, there, source):
    for place in (tmp_path / "local" / there, tmp_path / "weights" / source, tmp_path / "weights" / "first"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"x")
    # Judged before the obstacle, and not made.
    (tmp_path / "weights" / "0").mkdir()
    (tmp_path / "weights" / "0" / "second").write_bytes(b"x")
    monkeypatch.setattr(durable, "copy", lambda *_given: pytest.fail("something was copied"))
    with pytest.raises(DataError, match=rf"{tmp_path}/local/a.* but {source} belongs there: move it away"):
        stage.stage(str(tmp_path / "weights"), tmp_path / "local")
    assert not (tmp_path / "local" / "0").exists()


def flip(path):
    """Change the content and keep size and times, as a failing disk does."""
    state = path.stat()
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.fixture
def job(monkeypatch):
    def run(number):
        monkeypatch.setenv("SLURM_JOB_ID", str(number))

    run(1)
    return run


@pytest.fixture
def failing_disk(monkeypatch):
    """Hide changes of the time stamps, as on a failing disk."""
    of = Signature.of
    monkeypatch.setattr(stage.Signature, "of", lambda state: Signature(1, of(state).size, 1, 1))


def test_flipped_bit_is_found_once_in_run(weights, tmp_path, job, failing_disk, monkeypatch):
    local = tmp_path / "local"
    assert stage.stage(str(weights), local) == 2
    flip(local / "model.safetensors")
    read, digest = [], durable.Directory.digest
    monkeypatch.setattr(durable.Directory, "digest", lambda self, name: (read.append(name), digest(self, name))[1])
    assert stage.stage(str(weights), local) == 0
    assert read == []
    job(2)
    assert stage.stage(str(weights), local) == 1
    assert found(local) == found(weights) and sorted(read) == ["config.json", "model.safetensors"]
    # Other ranks of this run do not read the files again, and a run with intact files does not copy.
    for number, times in ((2, 2), (3, 4), (3, 4)):
        job(number)
        assert stage.stage(str(weights), local) == 0
        assert len(read) == times


def test_mark_is_written_once_in_run(weights, tmp_path, job, monkeypatch):
    marked, mark = [], stage._mark
    monkeypatch.setattr(stage, "_mark", lambda *given: (marked.append(given[1]), mark(*given)))
    for number in (1, 1, 2, 2):
        job(number)
        stage.stage(str(weights), tmp_path / "local")
    assert len(marked) == 2 and marked[0] != marked[1]


def test_change_that_keeps_size_and_time_is_staged_again(weights, tmp_path, job):
    local = tmp_path / "local"
    stage.stage(str(weights), local)
    flip(local / "model.safetensors")
    assert stage.stage(str(weights), local) == 1
    assert found(local) == found(weights)


def test_runs_differ_by_job_restart_and_starting_process(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_CLUSTER_NAME"):
        monkeypatch.delenv(name, raising=False)
    runs = [stage.this_run()]
    assert runs[0] == stage.this_run() and str(os.getppid()) in runs[0]
    monkeypatch.setattr(os, "getppid", lambda: 1)
    runs.append(stage.this_run())
    for name, value in (("JOB_ID", "7"), ("RESTART_COUNT", "1"), ("CLUSTER_NAME", "b"), ("JOB_ID", "8")):
        monkeypatch.setenv(f"SLURM_{name}", value)
        runs.append(stage.this_run())
    assert len(set(runs)) == len(runs)


def test_run_outside_of_a_job_names_start_of_its_parent(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert stage.this_run() == f"{locks.myself().boot}/{os.getppid()}/{locks._started(os.getppid())}"


def test_run_of_unreadable_parent_is_no_other_run(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    # Above the highest number that Linux gives to a process.
    monkeypatch.setattr(os, "getppid", lambda: (1 << 22) + 1)
    first, second = stage.this_run(), stage.this_run()
    assert first != second and all(re.fullmatch("[0-9a-f]{16}", run) for run in (first, second))


@pytest.mark.parametrize("name", ["model.safetensors", "more/config.json"])
def test_unstaged_file_of_same_name_is_kept(weights, tmp_path, name):
    local = tmp_path / "local"
    (local / name).parent.mkdir(parents=True)
    (local / name).write_bytes(b"years of work")
    with pytest.raises(DataError, match=rf"{local}/{name} was not staged, and {name} of the source would replace it"):
        stage.stage(str(weights), local)
    assert found(local) == {name: b"years of work"} and not (local / stage.MARK).exists()
    (local / name).unlink()
    assert stage.stage(str(weights), local) == 2


@pytest.mark.parametrize("damage", ["none", "mark", "names", "both"])
def test_damaged_staged_file_is_replaced(weights, tmp_path, damage):
    local = tmp_path / "local"
    stage.stage(str(weights), local)
    if damage in ("mark", "both"):
        (local / stage.MARK).write_text("{")
    if damage in ("names", "both"):
        (local / stage.NAMES).write_text("[")
    (weights / "model.safetensors").write_bytes(b"v" * 99)
    if damage == "both":
        with pytest.raises(DataError, match="was not staged"):
            stage.stage(str(weights), local)
        return
    stage.stage(str(weights), local)
    assert found(local) == found(weights)


def test_sparse_file_with_attributes_has_its_content(tmp_path):
    """docs/data.md lists what is not copied."""
    source = tmp_path / "source"
    source.mkdir()
    with open(source / "a", "wb") as file:
        file.truncate(8 << 20)
        file.write(b"begin")
    os.chmod(source / "a", 0o750)  # noqa: S103 - its bits are not copied
    with contextlib.suppress(OSError):
        os.setxattr(source / "a", "user.about", b"weights")
    assert stage.stage(str(source), tmp_path / "local") == 1
    copy = tmp_path / "local" / "a"
    assert copy.read_bytes() == b"begin" + bytes((8 << 20) - 5)
    assert (copy.stat().st_mode & 0o777, copy.stat().st_blocks * 512 >= 8 << 20) == (0o644, True)
    assert "user.about" not in os.listxattr(copy)


def test_mark_lists_new_and_earlier_names(weights, tmp_path):
    local, other = tmp_path / "local", tmp_path / "other"
    other.mkdir()
    (other / "second").write_bytes(b"2")
    stage.stage(str(weights), local)
    stage.stage(str(other), local)
    (weights / "model.safetensors").write_bytes(b"v" * 99)
    stage.stage(str(weights), local)
    assert found(local) == {**found(weights), "second": b"2"}


def test_killed_restaging_leaves_no_mark(weights, tmp_path, job, failing_disk):
    """A kept mark of replaced files would confirm new files if the old source were staged again."""
    local, model = tmp_path / "local", weights / "model.safetensors"
    stage.stage(str(weights), local)
    before = model.stat()
    model.write_bytes(b"v" * 100_000)
    (weights / "more" / "config.json").write_text('{"a": 2}')

    def work(_report):
        room = stage._mark
        stage._mark = lambda *_given: os.kill(os.getpid(), signal.SIGKILL)
        stage.stage(str(weights), local)
        return room

    with pytest.raises(RankDiedError):
        ranks(0, work, tmp_path)
    assert (local / "model.safetensors").read_bytes() == b"v" * 100_000 and not (local / stage.MARK).exists()
    model.write_bytes(b"w" * 100_000)
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
    stage.stage(str(weights), local)
    assert found(local) == found(weights)


def test_source_changed_during_copy_is_error(weights, tmp_path, monkeypatch):
    copy = durable.copy

    def growing(source, file):
        with open(source, "ab") as other:
            other.write(b"more")
        return copy(source, file)

    monkeypatch.setattr(durable, "copy", growing)
    with pytest.raises(DataError, match=r"changed while .* was read: stage it again"):
        stage.stage(str(weights), tmp_path / "local")
    assert found(tmp_path / "local") == {} and not (tmp_path / "local" / stage.MARK).exists()


@pytest.mark.parametrize("what", PLANTED)
def test_planted_names_are_replaced_or_rejected(weights, tmp_path, what):
    stage.stage(str(weights), tmp_path / "first")
    names = [path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*")]
    names += [Path(".lock"), Path(".job-lock")]
    assert {str(name) for name in names} >= {stage.MARK, ".stage-lock", "more", "more/config.json", "model.safetensors"}
    (tmp_path / "victims").mkdir()
    victim = tmp_path / "victims" / "file"
    for at, name in enumerate(names):
        local = tmp_path / f"local{at}"
        (local / name).parent.mkdir(parents=True)
        victim.write_bytes(b"precious")
        plant(local / name, what, victim.parent if str(name) == "more" else victim)
        try:
            stage.stage(str(weights), local)
            assert found(local) == found(weights)
        except DataError:
            pass
        assert victim.read_bytes() == b"precious" and os.listdir(victim.parent) == ["file"], name
        assert not (tmp_path / "absent").exists()


def test_staged_files_are_readable_by_all(weights, tmp_path):
    (weights / "model.safetensors").chmod(0o400)
    stage.stage(str(weights), tmp_path / "local")
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "local").rglob("*.[js]*")} == {0o644}


@pytest.mark.parametrize(("number", "advice"), [(28, "make room there"), (122, "make room there"), (5, "fix that")])
def test_advice_follows_error(weights, tmp_path, monkeypatch, number, advice):
    def failing(source, file):
        raise OSError(number, os.strerror(number), str(source))

    monkeypatch.setattr(durable, "copy", failing)
    with pytest.raises(DataError, match=rf"could not be staged in .*\): {advice}, or choose another folder"):
        stage.stage(str(weights), tmp_path / "local")


@pytest.mark.parametrize(("free", "fits"), [(100_002, True), (100_001, False)])
def test_free_space_is_checked_to_byte(weights, tmp_path, monkeypatch, free, fits):
    monkeypatch.setattr(os, "statvfs", lambda _place: SimpleNamespace(f_bavail=free, f_frsize=1))
    if fits:
        assert stage.stage(str(weights), tmp_path / "local") == 2
    else:
        with pytest.raises(DataError, match="make room there"):
            stage.stage(str(weights), tmp_path / "local")


@pytest.mark.parametrize(("length", "shown"), [(300, "x" * 300), (301, f"{'x' * 300}...")])
def test_only_name_over_300_characters_is_shortened(length, shown):
    (problem,) = stage._problems(["x" * length])
    assert problem.startswith(f"'{shown}', which ")


def test_mark_of_earlier_version_confirms_files_by_size(tmp_path):
    for name in ("changed", "same"):
        (tmp_path / name).write_bytes(b"abc")
    (tmp_path / stage.MARK).write_text('{"missing": [3, "x"], "changed": [4, "x"], "same": [3, "x"]}')
    with durable.Directory.open(tmp_path) as folder:
        assert list(stage._staged_earlier(folder)) == ["same"]


def test_source_with_link_to_folder_is_not_staged_in_part(weights, tmp_path):
    (weights / "more files").symlink_to(tmp_path)
    with pytest.raises(DataError, match=r"cannot be read \(.*more files: is a link to a folder, which is not followed"):
        stage.stage(str(weights), tmp_path / "local")
    assert not (tmp_path / "local").exists()
