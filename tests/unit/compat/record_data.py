# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Record one of each file that the programs for data of commit deef7eb write; see record.py beside this."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import re
import shutil
import socket
import sys
import tempfile
import types
import typing as t
from pathlib import Path

# The file beside this one, whatever the checkout in which it runs.
from record import EPOCH, put


def programs(name: str) -> t.Any:
    return importlib.import_module(f"mlcluster_data.{name}")


def owner() -> t.Any:
    """A process of another node: what names the machine that records is replaced."""
    made = dataclasses.replace(programs("lock").Owner("0123456789abcdef", "n1", "boot-1", "pid:[4026531836]", 4711, 815,
                                                      "12", "0", "one"))  # fmt: skip
    programs("lock").myself = lambda: made
    return made


def copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def locks(out: Path, work: Path) -> None:
    keep, owner_of = programs("lock").myself, owner()
    folder = work / "locked"
    folder.mkdir()
    held = programs("lock").DirectoryLock(folder)
    held.acquire()
    for name in (".lock", ".job-lock"):
        put(out, f"data/lock/{name.removeprefix('.')}.json", (folder / name).read_text())
    held.release()
    put(out, "data/lock/in_s3.json", programs("lock_s3").S3Lock(types.SimpleNamespace(), 1.0)._content())
    assert owner_of.host == "n1"
    programs("lock").myself = keep


def corpus(out: Path, work: Path) -> None:
    """A data set, and the same where only the first of two tasks has run."""
    scene, command = importlib.import_module("tests.data.corpus"), programs("__main__")
    texts = [text[:120] for text in scene.documents(16)]
    tokenizer = scene.tokenizer(work / "tokenizer", texts, size=270)
    copy(tokenizer, out / "data" / "tokenizer")
    programs("collect").split(texts, work / "inputs", 2, {})
    copy(work / "inputs", out / "data" / "inputs")
    words = ["preprocess", "--input", str(work / "inputs"), "--tokenizer", str(tokenizer), "--length", "32",
             "--form", "npy", "--processes", "1", "--shard-tokens", "2000"]  # fmt: skip
    assert command.main([*words, "--output", str(work / "shards"), "--tasks", "1", "--task", "0"]) == 0
    copy(work / "shards", out / "data" / "shards")
    assert command.main([*words, "--output", str(work / "half"), "--tasks", "2", "--task", "0"]) == 0
    copy(work / "half", out / "data" / "half")
    put(out, "data/words.json", words[5:])
    with (out / "data" / "validated.json").open("w") as stream, contextlib.redirect_stdout(stream):
        command.main(["validate", str(work / "shards"), "--json"])
    loader = programs("loader")
    opened = loader.make_loader(loader.LoaderConfig(str(work / "shards"), 2, buffer=8, seed=7))
    batches = iter(opened)
    seen = [next(batches)["ids"].tolist() for _batch in range(3)]
    put(out, "data/loader_state.json", opened.state_dict())
    put(out, "data/loader_batches.json", [*seen, *[batch["ids"].tolist() for batch in batches]])


def checkpoints(out: Path, work: Path) -> None:
    """Real ones of torch: two good ones, one with the mark of a copy in S3, one set aside, one half made."""
    place = importlib.import_module("tests.data.checkpoint_place").Place(work / "place")
    place.root.mkdir()
    place.save(2, 4, 6, keep=9)
    store = programs("checkpoint_store").DirectoryStore(place.kept)
    (place.kept / "step-00000002" / mark_of_a_copy()).touch()
    store.set_aside(6)
    put(place.kept, ".incoming-step-00000008-t/data", b"half")
    copy(place.kept, out / "data" / "checkpoints")
    journal = programs("journal").Journal(work / "journal" / "m-metrics.jsonl")
    for step in range(1, 6):
        journal.write(step, loss=1.0 / step, samples=4 * step)
    journal.close()
    put(out, "data/journal.jsonl", journal.path.read_bytes() + b'{"step": 6, "lo')


def mark_of_a_copy() -> str:
    """As kinds/training.sh.j2 has it."""
    text = Path("roles/slurm_jobs/templates/kinds/training.sh.j2").read_text()
    return t.cast("re.Match[str]", re.search(r"touch -- .*/(\.[a-z-]+)", text))[1]


def staged(out: Path, work: Path) -> None:
    source = work / "weights"
    put(source, "model.safetensors", b"w" * 1000)
    put(source, "more/config.json", "{}")
    for path in (source / "model.safetensors", source / "more/config.json"):
        os.utime(path, ns=(EPOCH * 10**9, EPOCH * 10**9))
    programs("stage").stage(str(source), work / "staged")
    copy(work / "staged", out / "data" / "staged")


def backed_up(out: Path, work: Path) -> None:
    """The bucket as a folder, and what the source keeps of it."""
    rig = importlib.import_module("tests.data.s3_rig")
    source = work / "source"
    put(source, "a", b"one")
    put(source, "sub/b", b"two" * 100)
    put(source, "empty", b"")
    for path in source.rglob("*"):
        os.utime(path, ns=(EPOCH * 10**9, EPOCH * 10**9))
    with contextlib.contextmanager(rig._server.__wrapped__)() as server:
        report = programs("backup").Backup(source, server.prefix("run")).push()
        assert report.ok and len(report.copied) == 3
        listed = server.client.list_objects_v2(Bucket=rig.BUCKET)["Contents"]
        for entry in listed:
            found = server.client.get_object(Bucket=rig.BUCKET, Key=entry["Key"])["Body"].read()
            put(out, f"data/bucket/{entry['Key']}", found)
    sums = json.loads((source / ".mlcluster-sums.json").read_text())
    put(out, "data/sums.json", sums)


def main(out: Path) -> None:
    socket.gethostname = lambda: "n1"
    with tempfile.TemporaryDirectory(prefix="mlcluster-record-") as name:
        for part in (locks, corpus, checkpoints, staged, backed_up):
            part(out, Path(name))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
