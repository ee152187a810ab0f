# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A power failure at any moment: the programs start again and lose nothing, and each fsync in the code is needed.

Every program is recorded once. What its disk may hold after each change is laid out, judged, and the program is started
again there. The same with each fsync taken away in turn: one of the judgements has to fail then.
"""

from __future__ import annotations

import ast
import contextlib
import io
import shutil
from pathlib import Path

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.checkpoints import backup
from mlcluster_data.checkpoints import directory as checkpoint_store
from mlcluster_data.checkpoints.directory import DirectoryStore, Manifest, step_name
from mlcluster_data.corpus import collect, validate
from mlcluster_data.files import durable, stage, store
from mlcluster_data.locks.directory import Lock

from tests.data.support.crash import Recorder, lay_out, states
from tests.data.support.fake_s3 import _server, server
from tests.data.support.forked import ranks

__all__ = ["_server", "server"]
PROGRAMS = Path(durable.__file__).parents[1]
SYNCS = {"fsync", "sync", "sync_directory"}
SEED = 1
RESTORED = {"a": b"one", "sub/b": b"two"}


class LostError(Exception):
    """What a judgement found missing or wrong."""


def need(condition: object, what: str) -> None:
    if not condition:
        raise LostError(what)


def fsyncs() -> list[tuple[str, int]]:
    """Every call in the programs that makes something last: file and line."""
    found = []
    for path in sorted(PROGRAMS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in SYNCS:
                found.append((str(path), node.lineno))
    return found


def quiet(*words: str) -> int:
    """Run a command without its output; its exit status."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return command.main([str(word) for word in words])


class Program:
    """One program: what is there before, what it does, and what has to be there after a power failure."""

    def __init__(self, about) -> None:
        self.about = about

    def before(self, disk: Path) -> None:
        """Make what is there and synced when the program starts."""

    def run(self, disk: Path, note) -> None:
        """Do it; note(text) where something is promised."""
        raise NotImplementedError

    def judge(self, disk: Path, notes: tuple[str, ...]) -> None:
        """Raise LostError; may start the program again."""
        raise NotImplementedError


class Write(Program):
    """A file that is replaced, and new ones in new directories."""

    def before(self, disk):
        (disk / "file").write_bytes(b"old")

    def run(self, disk, note):
        durable.write(disk / "file", b"new")
        note("replaced")
        durable.make_directory(disk / "a" / "b")
        note("made")
        with durable.Directory.open(disk) as top, top.below("c", "d", make=True):
            note("below")
        folder = store.Folder(disk)
        folder.create("plan", b"plan")
        note("created")
        (disk.parent / "spool").mkdir()
        for at, place in enumerate((disk, disk.parent / "spool")):
            with durable.Directory.open(place) as here, here.new(".shard") as file:
                file.write(b"shard")
            folder.put(f"shard{at}", place / ".shard", durable.digest(place / ".shard"))
            note(f"put{at}")

    def judge(self, disk, notes):
        found = {
            path.relative_to(disk).as_posix(): path.read_bytes() if path.is_file() else b"" for path in disk.rglob("*")
        }
        need(found.get("file") == b"new" if "replaced" in notes else found.get("file") in (b"old", b"new"), "the file")
        for note, name, content in (("made", "a/b", b""), ("below", "c/d", b""), ("created", "plan", b"plan"),
                                    ("put0", "shard0", b"shard"), ("put1", "shard1", b"shard")):  # fmt: skip
            need(note not in notes or name in found, f"{name} is lost")
            need(found.get(name, content) == content, f"{name} is half")


class Hold(Program):
    """A lock: a lost one does no harm, an empty one would be nobody's."""

    def before(self, disk):
        (disk / "kept").mkdir()

    def run(self, disk, note):
        Lock(disk / "kept").acquire()

    def judge(self, disk, notes):
        lock = Lock(disk / "kept")
        lock.acquire()
        lock.release()


class Checkpoints(Program):
    """Three checkpoints are published, and old ones removed."""

    def _publish(self, kept: DirectoryStore, step: int, source: Path) -> None:
        source.mkdir(exist_ok=True)
        for name in ("__0_0.distcp", ".metadata"):
            (source / name).write_bytes(f"weights of {step}".encode())
        files = {"__0_0.distcp": kept.put(step, "t", source / "__0_0.distcp")}
        kept.publish(step, "t", Manifest(step, 1, files, {}), source / ".metadata")

    def run(self, disk, note):
        kept = DirectoryStore(disk / "kept")
        kept.prepare()
        for step in (1, 2, 3):
            self._publish(kept, step, disk.parent / "local")
            note(f"published {step}")
        checkpoint_store.retain(kept, 1, checkpoint_store.Proofs(kept).good)

    def judge(self, disk, notes):
        kept = DirectoryStore(disk / "kept")
        for _start in range(2):
            # One that was published may have been removed, for a newer one that is good.
            steps = kept.steps() if (disk / "kept").exists() else []
            for step in steps:
                need(checkpoint_store.verify(kept, step) == [], f"{step} is torn")
            for note in notes:
                need(max(steps, default=0) >= int(note.rpartition(" ")[2]), f"{note} is lost")
            kept.prepare()
        latest = disk / "kept" / "latest"
        need(not steps or latest.read_text() == f"{step_name(steps[0])}\n", "latest")
        self._publish(kept, 9, disk.parent / "local")
        need(kept.steps()[0] == 9, "no more can be published")


class Stage(Program):
    """Files are staged, then others from the same source."""

    def before(self, disk):
        self.source = disk.parent / "weights"
        shutil.rmtree(self.source, ignore_errors=True)
        (self.source / "more").mkdir(parents=True)
        for name in ("a", "more/b"):
            (self.source / name).write_bytes(b"first")

    def run(self, disk, note):
        stage.stage(str(self.source), disk / "local")
        note("first")
        for name in ("a", "more/b"):
            (self.source / name).write_bytes(b"second")
        stage.stage(str(self.source), disk / "local")
        note("second")

    def judge(self, disk, notes):
        local = disk / "local"
        for name in ("a", "more/b"):
            there = (local / name).read_bytes() if (local / name).exists() else None
            need(there in ((b"second",) if "second" in notes else (b"first", b"second") if notes else
                           (None, b"first")), f"{name} has {there}")  # fmt: skip
        self.before(disk)
        stage.stage(str(self.source), local)
        need((local / "a").read_bytes() == (local / "more" / "b").read_bytes() == b"first", "staged again")
        need(not list(local.glob(".staging-*")), "a half stays")


class Collect(Program):
    """Documents become inputs."""

    def run(self, disk, note):
        collect.split(["one", "two", "three"], disk / "inputs", 2, {})
        note("done")

    def judge(self, disk, notes):
        there = (disk / "inputs" / "inputs.json").exists()
        need(there or not notes, "the inputs are lost")
        if not there:
            collect.split(["one", "two", "three"], disk / "inputs", 2, {})
        need({result["status"] for result in validate.validate(disk / "inputs")} == {"pass"}, "no good inputs")
        need(not list((disk / "inputs").glob(".collect.*")) or there, "a half stays")


class Preprocess(Program):
    """Inputs become shards, written to a folder of their own first or not."""

    def _run(self, disk: Path, *options: str) -> int:
        inputs, tokenizer, _wanted = self.about
        return quiet("preprocess", "--input", inputs, "--output", disk / "out", "--tokenizer", tokenizer, "--processes",
                     "1", "--length", "32", "--shard-tokens", "5000", *options)  # fmt: skip

    def run(self, disk, note):
        need(self._run(disk) == 0, "it fails")
        note("done")

    def judge(self, disk, notes):
        out = disk / "out"
        _inputs, _tokenizer, wanted = self.about
        need("done" not in notes or self._contents(out) == wanted, "shards are lost")
        if (out / "manifest.json").exists():
            need({result["status"] for result in validate.validate(out)} == {"pass"}, "the manifest promises more")
        need(self._run(disk) == 0, "it does not go on")
        need(self._contents(out) == wanted, "other shards")

    @staticmethod
    def _contents(folder: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.glob("[!.]*") if path.is_file()}


class Restore(Program):
    """A backup comes back."""

    def run(self, disk, note):
        need(backup.Backup(disk / "back", self.about.prefix()).restore().ok, "it fails")
        note("done")

    def judge(self, disk, notes):
        back = disk / "back"
        for _start in range(2):
            for name, content in RESTORED.items():
                there = (back / name).read_bytes() if (back / name).exists() else None
                need(there == content or (there is None and not notes), f"{name} has {there}")
            need(backup.Backup(back, self.about.prefix()).restore().ok, "it cannot be restored again")
            notes = ("done",)


SIMPLE = {"write": Write, "lock": Hold, "checkpoints": Checkpoints, "stage": Stage, "collect": Collect}
# What has to be good for a missing fsync to be noticed soon.
FIRST = {"collect.py": "collect", "stage.py": "stage", "directory.py": "checkpoints"}


def judged(program: Program, folder: Path, skip=(), mixed: int = 3) -> int:
    """Record a program and judge every state; gives how many there were. Raises LostError."""
    disk = folder / "recorded" / "disk"
    disk.mkdir(parents=True)
    program.before(disk)

    def record(_tell):
        recorder = Recorder(disk, set(skip))
        recorder.start()
        program.run(disk, recorder.note)
        return recorder.moments

    (moments,) = ranks(0, record, folder)
    count = 0
    for moment, tree in states(moments, SEED, mixed):
        place = folder / f"{count:05d}" / "disk"
        lay_out(tree, place)
        try:
            program.judge(place, moment.notes)
        except Exception as exc:
            raise LostError(
                f"after {moment.what} ({moment.notes}): {type(exc).__name__}: {exc}; there was {sorted(tree)}"
            ) from exc
        shutil.rmtree(place.parent)
        count += 1
    return count


@pytest.fixture(autouse=True)
def no_job(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", SIMPLE)
def test_nothing_is_lost(tmp_path, name):
    assert judged(SIMPLE[name](None), tmp_path) > 3


@pytest.fixture
def few(tmp_path_factory, texts, tokenizer):
    """Two small inputs, the tokenizer, and the shards that they give."""
    folder = tmp_path_factory.mktemp("few")
    collect.split(texts[:30], folder / "inputs", 2, {})
    about = (folder / "inputs", tokenizer, {})
    assert Preprocess(about)._run(folder) == 0
    return (*about[:2], Preprocess._contents(folder / "out"))


def test_nothing_is_lost_of_shards(tmp_path, few):
    assert judged(Preprocess(few), tmp_path, mixed=1) > 20


def test_nothing_is_lost_of_a_restore(tmp_path, server):
    for name, content in RESTORED.items():
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_bytes(content)
    assert backup.Backup(tmp_path / "source", server.prefix()).push().ok
    assert judged(Restore(server), tmp_path) > 3


def test_each_fsync_is_needed(tmp_path):
    """Taken away it is missed: what these judgements let pass proves something then."""
    found = fsyncs()
    assert len(found) >= 10
    unneeded = []
    for at, (path, line) in enumerate(found):
        first = FIRST.get(Path(path).name, "write")
        for name in sorted(SIMPLE, key=lambda one: one != first):
            try:
                judged(SIMPLE[name](None), tmp_path / f"{at}-{name}", {(path, line)})
            except LostError:
                break
        else:
            unneeded.append(f"{path}:{line}")
    assert unneeded == []
