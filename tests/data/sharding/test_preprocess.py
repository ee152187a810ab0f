# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

import numpy as np
import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.corpus import collect, manifest, validate
from mlcluster_data.errors import DataError
from mlcluster_data.files import s3, store
from mlcluster_data.loading import shard_reader
from mlcluster_data.locks import directory as lock
from mlcluster_data.sharding import array as preprocess_array
from mlcluster_data.sharding import blocks
from mlcluster_data.sharding import preprocess as subject
from mlcluster_data.sharding import tokenizer as tokenizing

from tests.data.support.fake_s3 import BUCKET, Unwell, _server, pauses, server
from tests.data.support.forked import RankDiedError, die_at_byte, die_at_change, ranks, small_disk

__all__ = ["_server", "pauses", "server"]


def contents(folder):
    """Return {name: content} of the files that are not hidden."""
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*") if path.is_file()}


def samples(folder):
    """Return {number: ids} of every sample of a finished data set."""
    content = manifest.parse((folder / "manifest.json").read_bytes(), "", manifest.DATASET_SCHEMA)
    reader = shard_reader.Reader(shard_reader.Source(str(folder)))
    found = {}
    for shard in manifest.entries(manifest.Shard, content, "shards", ""):
        for number, ids in reader.samples(shard):
            assert number not in found
            found[number] = ids
    return found


def test_every_document_is_in_shards_with_its_end(shards, inputs, tokenizer):
    found, config = tokenizing.load(str(tokenizer))
    ids = tokenizing.ids_of(found, config)
    found.encode_special_tokens = True
    rebuilt: dict[tuple[int, int], list[int]] = {}
    for number, row in sorted(samples(shards.path).items()):
        assert len(row) <= 32
        rebuilt.setdefault((number >> 48, number >> 18 & (1 << 30) - 1), []).extend(row.tolist())
    expected = {}
    for at, file in enumerate(manifest.inputs_of(inputs)):
        for number, line in enumerate((inputs / file.name).read_text().splitlines()):
            expected[at, number] = [*found.encode(json.loads(line)["text"], add_special_tokens=False).ids, ids.eos]
    assert rebuilt == expected
    assert shards.tokens == sum(map(len, expected.values()))
    assert (shards.documents, shards.dtype, shards.pad, shards.eos) == (120, "<u2", ids.pad, ids.eos)


def test_output_is_valid_and_reported(shards):
    assert [result["status"] for result in validate.validate(shards.path)] == ["pass", "pass"]
    assert len(shards.shards) > 10
    assert all(row["tokens"] < 800 + 1000 for row in shards.shards)


@pytest.mark.parametrize(
    "options",
    [
        ("--processes", "2"),
        ("--whole",),
        ("--tasks", "1", "--task", "0"),
    ],
)
def test_shards_depend_on_text_only(tmp_path, inputs, preprocess, shards, options, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4096)
    assert preprocess(inputs, tmp_path, *options) == 0
    assert contents(tmp_path) == contents(shards.path)


def test_tasks_divide_inputs_and_last_one_writes_manifest(tmp_path, inputs, preprocess, shards, capsys):
    assert preprocess(inputs, tmp_path, "--task", "1", "--tasks", "2") == 0
    assert "other tasks are still running" in capsys.readouterr().out
    assert {name[:11] for name in contents(tmp_path) if name.endswith(".tar")} == {"shard-00001"}
    assert preprocess(inputs, tmp_path, "--task", "0", "--tasks", "2") == 0
    assert contents(tmp_path) == contents(shards.path)


@pytest.mark.parametrize(
    ("options", "environment", "expected"),
    [
        ({}, {}, (0, 1)),
        ({"task": 2, "tasks": 5}, {"SLURM_ARRAY_TASK_ID": "9", "SLURM_ARRAY_TASK_COUNT": "10"}, (2, 5)),
        ({}, {"SLURM_ARRAY_TASK_ID": "9", "SLURM_ARRAY_TASK_COUNT": "10"}, (9, 10)),
        (
            {},
            {
                "SLURM_ARRAY_TASK_ID": "14",
                "SLURM_ARRAY_TASK_COUNT": "3",
                "SLURM_ARRAY_TASK_MIN": "10",
                "SLURM_ARRAY_TASK_STEP": "2",
            },
            (2, 3),
        ),
    ],
)
def test_task_reads_its_index_and_count(options, environment, expected):
    args = argparse.Namespace(**{"task": None, "tasks": None, **options})
    assert subject.tasks_of(args, environment) == expected


def test_invalid_task_is_rejected():
    with pytest.raises(DataError, match="task 3 of 3 does not exist"):
        subject.tasks_of(argparse.Namespace(task=3, tasks=3), {})


def test_more_tasks_than_inputs_have_nothing_to_do(tmp_path, inputs, preprocess, capsys):
    assert preprocess(inputs, tmp_path, "--task", "7", "--tasks", "9") == 0
    assert "0 of 3 inputs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "expected"), [((10,), "0-9"), ((10, 4), "0-3"), ((3, 10), "0-2"), ((10, None, 8), "0-9%8")]
)
def test_range_of_array(arguments, expected):
    assert preprocess_array.spec(*arguments) == expected


def test_range_comes_from_inputs(inputs, capsys):
    assert command.main(["array", str(inputs), "--limit", "2"]) == 0
    assert capsys.readouterr().out == "0-2%2\n"
    assert command.main(["array", str(inputs), "--limit", "0"]) == 0
    with pytest.raises(DataError, match="an array needs an input"):
        preprocess_array.spec(0)
    most = preprocess_array.ARRAY_MOST
    assert preprocess_array.spec(most) == f"0-{most - 1}"
    assert preprocess_array.spec(most + 1, tasks=8) == "0-7"
    with pytest.raises(DataError, match=f"{most + 1} tasks are more than an array of Slurm can have"):
        preprocess_array.spec(most + 1)


def test_killed_run_resumes_after_its_last_complete_shard(tmp_path, inputs, preprocess, shards):
    killed, made = 0, set()
    for number in range(1, 400, 2):
        folder = tmp_path / "out"

        def work(_report, number=number, folder=folder):
            die_at_change(number, folder)
            return preprocess(inputs, folder, "--tasks", "3", "--task", "0")

        try:
            ranks(0, work, tmp_path)
            break
        except RankDiedError as died:
            assert died.status == -signal.SIGKILL
            killed += 1
        # Every file with a shard's name is complete, and shards in the manifest are not made again.
        for name, content in contents(folder).items():
            if name.endswith(".tar"):
                assert content == (shards.path / name).read_bytes()
        part = folder / "input-00000.json"
        if part.exists():
            listed = {row["name"] for row in json.loads(part.read_text())["shards"]}
            assert made <= listed
            made = listed
    assert killed >= 8
    assert preprocess(inputs, tmp_path / "out") == 0
    assert contents(tmp_path / "out") == contents(shards.path)
    assert not list((tmp_path / "out").glob(".shard*"))


def test_finished_shards_are_not_made_again(tmp_path, inputs, preprocess, shards, capsys):
    shutil.copytree(shards.path, tmp_path / "out")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.tar")}
    assert preprocess(inputs, tmp_path / "out") == 0
    assert "exist already" in capsys.readouterr().out
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.tar")} == before


def test_run_killed_during_shard_leaves_no_partial_shard(tmp_path, inputs, preprocess, shards):
    def work(_report):
        die_at_byte(6000)
        return preprocess(inputs, tmp_path / "out", "--shard-tokens", "5000")

    with pytest.raises(RankDiedError):
        ranks(0, work, tmp_path)
    assert list((tmp_path / "out").glob(".shard*.part"))
    assert not list((tmp_path / "out").glob("*.tar"))
    own = tmp_path / "out" / ".shard-00000-mine.part"
    own.write_text("of another program")
    assert preprocess(inputs, tmp_path / "out", "--shard-tokens", "5000") == 0
    assert list((tmp_path / "out").glob(".shard*")) == [own]
    assert samples(tmp_path / "out").keys() == samples(shards.path).keys()


def test_missing_shard_is_made_again(tmp_path, inputs, preprocess, shards):
    shutil.copytree(shards.path, tmp_path / "out")
    (tmp_path / "out" / "shard-00001-00002.tar").unlink()
    assert preprocess(inputs, tmp_path / "out") == 0
    assert contents(tmp_path / "out") == contents(shards.path)


@pytest.mark.parametrize("spool", [False, True])
def test_full_disk_is_one_sentence_and_next_run_resumes(tmp_path, inputs, preprocess, shards, capfd, spool):
    small = tmp_path / "small"
    places = (tmp_path / "out", "--spool", str(small)) if spool else (small,)

    def work(_report):
        small_disk(small, 24 << 10)
        status = preprocess(inputs, *places)
        left = [path.name for path in small.rglob("*.part")]
        return status, left, {path.name for path in places[0].glob("*.tar")}

    ((status, left, made),) = ranks(0, work, tmp_path)
    error = capfd.readouterr().err.splitlines()[-1]
    if spool:
        # The spool has one shard at a time, for which there is space.
        assert status == 0
        assert contents(tmp_path / "out") == contents(shards.path)
        return
    assert status == 1
    assert "No space left on device" in error
    assert error.endswith("start the same task again, which continues after its last whole shard")
    assert left == []
    assert made


def test_second_array_on_same_output_is_rejected(tmp_path, inputs, preprocess, capsys):
    assert preprocess(inputs, tmp_path, "--task", "0", "--tasks", "3") == 0
    held = lock.Lock(tmp_path / ".locks" / "input-00001")
    held.path.parent.mkdir(parents=True)
    held.acquire()
    try:
        assert preprocess(inputs, tmp_path) == 1
    finally:
        held.release()
    assert f"in use by process {os.getpid()}" in capsys.readouterr().err
    assert preprocess(inputs, tmp_path) == 0


def test_lock_of_killed_task_is_replaced(tmp_path, inputs, preprocess, shards, capsys):
    folder = tmp_path / ".locks" / "input-00000"
    folder.mkdir(parents=True)

    def work(_report):
        lock.Lock(folder).acquire()
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RankDiedError):
        ranks(0, work, tmp_path)
    assert preprocess(inputs, tmp_path) == 0
    assert "which has ended, was removed" in capsys.readouterr().out
    assert contents(tmp_path) == contents(shards.path)


@pytest.mark.parametrize("options", [("--length", "16"), ("--packed",), ("--form", "json"), ("--on-bad", "skip")])
def test_another_plan_on_same_output_is_rejected(tmp_path, inputs, preprocess, capsys, options):
    assert preprocess(inputs, tmp_path, "--task", "0", "--tasks", "3") == 0
    assert preprocess(inputs, tmp_path, *options) == 1
    assert "holds shards with other settings" in capsys.readouterr().err


def test_changed_inputs_are_another_plan(tmp_path, texts, preprocess, capsys):
    collect.split(texts[:10], tmp_path / "in", 1, {})
    assert preprocess(tmp_path / "in", tmp_path / "out") == 0
    shutil.rmtree(tmp_path / "in")
    collect.split(texts[:11], tmp_path / "in", 1, {})
    assert preprocess(tmp_path / "in", tmp_path / "out") == 1
    assert "(inputs differ, see plan.json)" in capsys.readouterr().err


def spoiled(folder, *lines):
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(b'{"text": "first words"}\n' + b"\n".join(lines) + b'\n{"text": "last words"}\n')
    return folder


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"text": "\xff"}', "a.jsonl: line 2: byte 11 of the line is 0xff, which is not UTF-8"),
        (b"{", "a.jsonl: line 2 is not JSON"),
        (b'{"body": "x"}', 'a.jsonl: line 2 has no text in the field "text"'),
        (b'{"text": "\\udc00"}', "a.jsonl: line 2 holds half a surrogate pair"),
    ],
)
def test_bad_line_is_reported_and_skipped_by_choice(tmp_path, preprocess, capsys, line, words):
    source = spoiled(tmp_path / "in", line)
    assert preprocess(source, tmp_path / "out") == 1
    assert words in capsys.readouterr().err
    assert preprocess(source, tmp_path / "skip", "--on-bad", "skip") == 0
    content = json.loads((tmp_path / "skip" / "manifest.json").read_text())
    assert (content["documents"], content["skipped"], content["replaced"]) == (2, 1, 0)


def test_bad_bytes_are_replaced_by_choice(tmp_path, preprocess):
    source = spoiled(tmp_path / "in", b'{"text": "a\xffb"}')
    assert preprocess(source, tmp_path / "out", "--on-bad", "replace") == 0
    content = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (content["documents"], content["skipped"], content["replaced"]) == (3, 0, 1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: None, "is not a folder"),
        (lambda folder: folder.mkdir(), "holds no input"),
        (lambda folder: (folder.mkdir(), (folder / "a.txt").touch()), "a.txt holds no document"),
        (lambda folder: (folder.mkdir(), (folder / "a.txt").mkdir()), "a.txt: Is a directory"),
    ],
)
def test_unreadable_inputs_are_one_sentence(tmp_path, preprocess, capsys, make, words):
    make(tmp_path / "in")
    assert preprocess(tmp_path / "in", tmp_path / "out") == 1
    assert words in capsys.readouterr().err


def test_unwritable_folders_are_one_sentence(tmp_path, inputs, preprocess, capsys):
    (tmp_path / "file").touch()
    for places in ((tmp_path / "file" / "out",), (tmp_path / "out", "--spool", str(tmp_path / "file" / "spool"))):
        assert preprocess(inputs, *places) == 1
        assert "Not a directory): use a folder that can be written" in capsys.readouterr().err


def test_empty_input_is_skipped_by_choice(tmp_path, preprocess):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").touch()
    (tmp_path / "in" / "b.txt").write_text("one document\n\nanother\n")
    assert preprocess(tmp_path / "in", tmp_path / "out", "--on-bad", "skip") == 0
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["documents"] == 2


def test_line_of_50_mb_is_one_document(tmp_path, preprocess):
    (tmp_path / "in").mkdir()
    with open(tmp_path / "in" / "a.txt", "wb") as file:
        file.write(b"short\n" + (b"x" * 200 + b" ") * ((50 << 20) // 201) + b"end\nshort\n")
    assert preprocess(tmp_path / "in", tmp_path / "out", "--length", "4096") == 0
    content = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert content["documents"] == 3
    assert [row["documents"] for row in content["shards"]] == [2, 1]


def test_line_that_is_not_a_document_is_rejected(tmp_path, preprocess, capsys, monkeypatch):
    monkeypatch.setattr(blocks, "LINE_MOST", 10_000)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 100)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("short\n" + "x" * 20_000 + "\n")
    assert preprocess(tmp_path / "in", tmp_path / "out") == 1
    assert "a.txt: the line after byte" in capsys.readouterr().err


def test_blocks_are_whole_lines(tmp_path):
    rng = np.random.default_rng(1)
    content = b"".join(b"x" * int(count) + b"\n" for count in rng.integers(0, 300, 200)) + b"without end"
    (tmp_path / "a").write_bytes(content)
    found = list(blocks.ranges(tmp_path / "a", 0, 500))
    assert b"".join(content[start:end] for start, end in found) == content
    assert all(content[:end].endswith(b"\n") for _start, end in found[:-1])


def test_shards_are_written_to_failing_s3_with_retries(server, pauses, inputs, preprocess, tmp_path, monkeypatch):
    unwell = []

    class Shaky(s3.Prefix):
        def __init__(self, url):
            super().__init__(url, attempts=4)
            unwell.append(Unwell(self, "PutObject", 3))

    monkeypatch.setattr(s3, "Prefix", Shaky)
    few = ("--shard-tokens", "5000")
    assert preprocess(inputs, f"s3://{BUCKET}/set", *few) == 0
    assert len(pauses) == 3
    assert preprocess(inputs, tmp_path, *few) == 0
    listed = store.at(f"s3://{BUCKET}/set")
    assert {name: listed.read(name) for name in listed.signatures()} == contents(tmp_path)


def test_failing_s3_is_one_sentence(server, pauses, inputs, preprocess, capsys, monkeypatch):
    class Sick(s3.Prefix):
        def __init__(self, url):
            super().__init__(url, attempts=2)
            Unwell(self, "PutObject", 1000)

    monkeypatch.setattr(s3, "Prefix", Sick)
    assert preprocess(inputs, f"s3://{BUCKET}/set") == 1
    assert "could not be written" in capsys.readouterr().err.splitlines()[-1]


def test_killed_worker_is_one_sentence(inputs, tokenizer):
    found, config = tokenizing.load(str(tokenizer))
    definition, _digest = tokenizing.definition_of(found)
    settings = blocks.Settings(definition, tokenizing.ids_of(found, config), False, "fail")
    with blocks.Pool(settings, 2) as pool:
        with pytest.raises(BrokenProcessPool):
            pool._pool.submit(os._exit, 9).result()
        with pytest.raises(DataError, match="was ended, most likely for lack of memory"):
            list(pool.encode(inputs / "input-00000.jsonl", 0))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"STEP": "0"}, "SLURM_ARRAY_TASK_STEP=0 is not a task of an array"),
        ({"ID": "x"}, "SLURM_ARRAY_TASK_ID=x, SLURM_ARRAY_TASK_COUNT=4,"),
        ({"COUNT": "9" * 5000}, "is not a task of an array: start it with sbatch --array, or use --task and --tasks"),
    ],
)
def test_invalid_slurm_variables_are_one_sentence(changes, words):
    environment = {f"SLURM_ARRAY_TASK_{name}": value for name, value in {"ID": "1", "COUNT": "4", **changes}.items()}
    with pytest.raises(DataError, match=words):
        subject.tasks_of(SimpleNamespace(task=None, tasks=None), environment)


def test_default_processes_are_cores_of_task(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    assert subject.cores() == 8
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert subject.cores() == 3


@pytest.mark.parametrize(
    "damage", [{"ends": [1]}, {"ends": None}, {"ends": "x"}, {"complete": "yes"}, {"skipped": None}, {"plan": None}]
)
def test_damaged_part_manifest_is_one_sentence(shards, inputs, preprocess, tmp_path, capsys, damage):
    shutil.copytree(shards.path, tmp_path / "out")
    part = tmp_path / "out" / "input-00000.json"
    part.write_text(json.dumps({**json.loads(part.read_text()), **damage}))
    assert preprocess(inputs, tmp_path / "out") == 1
    assert "remove" in capsys.readouterr().err
