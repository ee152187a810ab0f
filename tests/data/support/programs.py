# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The data programs for tests that kill them: the work of each, and the check of its disk after any end."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
from pathlib import Path

from mlcluster_data import __main__ as command
from mlcluster_data.checkpoints import backup
from mlcluster_data.checkpoints import directory as checkpoint_store
from mlcluster_data.checkpoints.directory import DirectoryStore, Manifest, step_name
from mlcluster_data.checkpoints.s3 import S3Store
from mlcluster_data.corpus import collect, validate
from mlcluster_data.errors import DataError
from mlcluster_data.files import durable, journal, stage, store
from mlcluster_data.files.durable import Directory
from mlcluster_data.locks.directory import Lock

from tests.data.support.forked import ranks

RESTORED = {"a": b"one", "sub/b": b"two"}


class LostError(Exception):
    """A check found missing or wrong data."""


def need(condition: object, what: str) -> None:
    if not condition:
        raise LostError(what)


def quiet(*words: str) -> int:
    """Run a command without its output; return its exit status."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return command.main([str(word) for word in words])


class Program:
    """A program: its disk before, its work, and the check of its disk after a power failure."""

    def __init__(self, about) -> None:
        self.about = about

    def before(self, disk: Path) -> None:
        """Make the files that are on the disk and synced when the program starts."""

    def run(self, disk: Path, note) -> None:
        """Do the work; call ``note(text)`` for each promise."""
        raise NotImplementedError

    def judge(self, disk: Path, notes: tuple[str, ...]) -> None:
        """Raise LostError if data are lost; this may start the program again."""
        raise NotImplementedError


class Write(Program):
    """Replace a file, and write new files to new directories."""

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
    """Hold a lock; it may be lost, but it must not be empty, that is without an owner."""

    def before(self, disk):
        (disk / "kept").mkdir()

    def run(self, disk, note):
        Lock(disk / "kept").acquire()

    def judge(self, disk, notes):
        lock = Lock(disk / "kept")
        lock.acquire()
        lock.release()


class Checkpoints(Program):
    """Publish three checkpoints, and remove old ones."""

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
            # A published checkpoint may be removed if a newer one is good.
            steps = kept.steps() if (disk / "kept").exists() else []
            for step in steps:
                need(checkpoint_store.verify(kept, step) == [], f"{step} is torn")
            for note in notes:
                need(max(steps, default=0) >= int(note.rpartition(" ")[2]), f"{note} is lost")
            kept.prepare()
        self._check_latest(disk / "kept" / "latest", steps)
        self._publish(kept, 9, disk.parent / "local")
        need(kept.steps()[0] == 9, "no more can be published")

    def _check_latest(self, latest: Path, steps: list[int]) -> None:
        need(not steps or latest.read_text() == f"{step_name(steps[0])}\n", "latest")


class CheckpointsOfTwo(Checkpoints):
    """Publish checkpoints beside the ``latest`` of another program, so that no write of that file syncs their names."""

    def before(self, disk):
        (disk / "kept").mkdir()
        (disk / "kept" / "latest").write_bytes(b"global_step7")

    def _check_latest(self, latest, steps):
        need(latest.read_bytes() == b"global_step7", "the latest of the other program is lost")


class Stage(Program):
    """Stage files, and then others from the same source."""

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
    """Collect documents into inputs."""

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


class CollectAgain(Collect):
    """Collect where the disk is full once all inputs have their names, and again."""

    def run(self, disk, note):
        write = Directory.write

        def full(folder, name, content):
            if name == "inputs.json":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
            write(folder, name, content)

        Directory.write = full
        with contextlib.suppress(DataError):
            collect.split(["one", "two", "three"], disk / "inputs", 2, {})
        Directory.write = write
        super().run(disk, note)


class Preprocess(Program):
    """Make shards of inputs, with or without a spool folder."""

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
    """Restore a backup."""

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


class RestoreOver(Program):
    """Restore a checkpoint over another one of its name, whose files have the same sizes."""

    NAMES = ("__0_0.distcp", ".metadata")

    def _save(self, folder: Path, content: str) -> None:
        kept, source = DirectoryStore(folder), folder.parent / "local"
        kept.prepare()
        source.mkdir(exist_ok=True)
        for name in self.NAMES:
            (source / name).write_bytes(content.encode())
        files = {self.NAMES[0]: kept.put(1, "t", source / self.NAMES[0])}
        kept.publish(1, "t", Manifest(1, 1, files, {}), source / self.NAMES[1])

    def _restore(self, back: Path) -> bool:
        return backup.Backup(back, self.about.prefix("over")).restore(overwrite=True).ok

    def before(self, disk):
        self.about.prefix("over").delete(list(self.about.prefix("over").list()))
        source = disk.parent / "backed up"
        self._save(source, "wanted")
        need(backup.Backup(source, self.about.prefix("over")).push().ok, "it is not backed up")
        self._save(disk / "back", "others")

    def run(self, disk, note):
        need(self._restore(disk / "back"), "it fails")
        note("done")

    def judge(self, disk, notes):
        kept = DirectoryStore(disk / "back")
        need(kept.steps() == [1] or not notes, "the checkpoint is lost")
        for step in kept.steps():
            need(checkpoint_store.verify(kept, step) == [], "files of two checkpoints look like one")
        need(self._restore(disk / "back"), "it cannot be restored again")
        for name in self.NAMES:
            need((disk / "back" / step_name(1) / name).read_bytes() == b"wanted", f"{name} is another one")


class Push(Program):
    """Back a directory up, each time with other content."""

    def before(self, disk):
        for entry in self.about.prefix("push").list():
            self.about.prefix("push").delete([entry])
        for name, content in RESTORED.items():
            (disk / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (disk / "source" / name).write_bytes(content)

    def run(self, disk, note):
        need(backup.Backup(disk / "source", self.about.prefix("push")).push().ok, "it fails")
        note("done")

    def judge(self, disk, notes):
        copies = backup.Backup(disk / "source", self.about.prefix("push"))
        need(set(copies.manifest()) == set(RESTORED) or not notes, "files are not in the manifest")
        if copies.manifest():
            need(copies.verify(deep=True).ok, "the manifest promises what is missing")
        need(backup.Backup(disk / "source", self.about.prefix("push")).push().ok, "it does not go on")
        for name, content in RESTORED.items():
            need(self.about.prefix("push").get(name) == content, f"{name} is another one")


class S3Checkpoints(Program):
    """Publish checkpoints in S3, and remove old ones."""

    def _publish(self, kept: S3Store, step: int, source: Path) -> None:
        source.mkdir(exist_ok=True)
        for name in ("__0_0.distcp", ".metadata"):
            (source / name).write_bytes(f"weights of {step}".encode())
        files = {"__0_0.distcp": kept.put(step, "t", source / "__0_0.distcp")}
        kept.publish(step, "t", Manifest(step, 1, files, {}), source / ".metadata")

    def before(self, disk):
        prefix = self.about.prefix("kept")
        prefix.delete(list(prefix.list()))

    def run(self, disk, note):
        kept = S3Store(self.about.prefix("kept"))
        kept.prepare()
        for step in (1, 2, 3):
            self._publish(kept, step, disk.parent / "local")
            note(f"published {step}")
        checkpoint_store.retain(kept, 1, checkpoint_store.Proofs(kept).good)

    def judge(self, disk, notes):
        kept = S3Store(self.about.prefix("kept"))
        for _start in range(2):
            steps = kept.steps()
            for step in steps:
                need(checkpoint_store.verify(kept, step) == [], f"{step} is torn")
            for note in notes:
                need(max(steps, default=0) >= int(note.rpartition(" ")[2]), f"{note} is lost")
            kept.prepare()
        self._publish(kept, 9, disk.parent / "local")
        need(kept.steps()[0] == 9, "no more can be published")


class Train(Program):
    """Run a small training, which is started again until it ends."""

    def _words(self, disk: Path) -> list[str]:
        places = {"data-dir": self.about, "checkpoint-dir": disk / "kept", "local-dir": disk / "local",
                  "log-dir": disk / "log", "output-dir": disk / "out"}  # fmt: skip
        small = "--workers 0 --width 16 --layers 1 --heads 2 --batch-size 32 --warmup-steps 2 --checkpoint-freq 4"
        small += " --keep 2 --distributed-backend gloo --log-freq 1 --model-name small"
        return ["train", *small.split(), *[f"--{name}={value}" for name, value in places.items()]]

    def run(self, disk, note):
        need(quiet(*self._words(disk)) == 0, "it fails")
        note("done")

    def judge(self, disk, notes):
        kept = DirectoryStore(disk / "kept")
        steps = kept.steps() if (disk / "kept").exists() else []
        for step in steps:
            need(checkpoint_store.verify(kept, step) == [], f"{step} is torn")
        weights = disk / "out" / "small.pt"
        need(weights.exists() or not notes, "the weights are lost")
        need(ranks(0, lambda _report: quiet(*self._words(disk)), disk.parent) == [0], "it does not go on")
        lines = [line["step"] for line in journal.read(disk / "log" / "small-metrics.jsonl") if "loss" in line]
        need(lines == list(range(1, max(lines) + 1)), f"steps {lines}")
        need(weights.exists(), "no weights")


SIMPLE = {"write": Write, "lock": Hold, "checkpoints": Checkpoints, "checkpoints of two": CheckpointsOfTwo,
          "stage": Stage, "collect": Collect, "collect again": CollectAgain}  # fmt: skip
