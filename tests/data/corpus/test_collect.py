# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
from types import SimpleNamespace

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.corpus import collect, validate
from mlcluster_data.errors import DataError
from mlcluster_data.locks import directory as lock

from tests.data.support.forked import RankDiedError, die_at_byte, die_at_change, ranks, small_disk
from tests.data.support.planted import PLANTED, plant


def read(folder):
    """Return every document of the inputs of a folder, input by input."""
    return [
        json.loads(line)["text"]
        for path in sorted(folder.glob("input-*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def test_documents_are_divided_evenly_and_stay_whole(tmp_path, capsys):
    texts = [f"document {number}\nsecond line é" for number in range(50)]
    for number, text in enumerate(texts):
        (tmp_path / f"{number:02d}.txt").write_text(text)
    assert command.main(["collect", str(tmp_path), "--inputs", "4", "--output", str(tmp_path / "out")]) == 0
    assert sorted(read(tmp_path / "out")) == sorted(texts)
    assert all("é".encode() in path.read_bytes() for path in (tmp_path / "out").glob("input-*"))
    content = json.loads((tmp_path / "out" / "inputs.json").read_text())
    sizes = [row["bytes"] for row in content["files"]]
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) < 100
    assert "4 inputs, 50 documents" in capsys.readouterr().out
    assert [result["status"] for result in validate.validate(tmp_path / "out")] == ["pass"] * 3


def test_articles_are_reported_by_their_headings(tmp_path):
    (tmp_path / "wiki.txt").write_text(" = One = \n\n x \n\n = Two = \n y \n")
    options = [
        "--document",
        "heading",
        "--boundary",
        " = [^=].* = $",
        "--inputs",
        "2",
        "--output",
        str(tmp_path / "out"),
    ]
    assert command.main(["collect", str(tmp_path / "wiki.txt"), *options]) == 0
    assert read(tmp_path / "out") == [" = One = \n\n x ", " = Two = \n y "]


def stand_in(monkeypatch, rows):
    """Install a stand-in for the datasets library, with the functions that the program uses."""
    asked = []

    def load_dataset(*arguments, **options):
        asked.append((arguments, options))
        if isinstance(rows, Exception):
            raise rows
        return iter(rows)

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return asked


def test_datasets_library_is_source_where_it_is_installed(tmp_path, monkeypatch):
    asked = stand_in(monkeypatch, [{"text": text} for text in (" = A = \n", "", "x", " = B = \n", "y")])
    options = [
        "--document",
        "heading",
        "--boundary",
        "^ = [^=].* = $",
        "--inputs",
        "2",
        "--output",
        str(tmp_path / "out"),
    ]
    assert command.main(["collect", "hf:owner/name:config:test", *options]) == 0
    assert asked == [(("owner/name", "config"), {"split": "test", "streaming": True})]
    # wikitext has a blank at the end of a line, which the pattern of headings needs.
    assert read(tmp_path / "out") == [" = A = \n\nx", " = B = \ny"]


def test_dataset_on_disk_is_read_by_real_library(tmp_path, monkeypatch, capsys):
    """Reads rows in wikitext's format from a Parquet file."""
    pytest.importorskip("datasets", reason="the environment was set up before the lock had it: make setup")
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    table = arrow.table({"text": [" = One = \n", "", " a \n", " = Two = \n", " b \n"]})
    parquet.write_table(table, tmp_path / "train-00000-of-00001.parquet")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    source = f"hf:{tmp_path}"
    how = ["--document", "heading", "--boundary", "^ = [^=].* = $", "--inputs", "2", "--output"]
    assert command.main(["collect", source, *how, str(tmp_path / "out")]) == 0
    assert read(tmp_path / "out") == [" = One = \n\n a ", " = Two = \n b "]
    assert command.main(["validate", str(tmp_path / "out")]) == 0
    for wrong, words in ((f"{source}::test", "Bad split: test"), (f"{source}-none", "cannot be loaded")):
        assert command.main(["collect", wrong, "--output", str(tmp_path / "other")]) == 1
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"body": "x"}], "has no column 'text'"),
        (ConnectionError("no route\nlong story"), r"cannot be loaded \(no route\)"),
        (ValueError("gated"), "cannot be loaded"),
    ],
)
def test_unavailable_dataset_is_one_sentence(tmp_path, monkeypatch, capsys, rows, words):
    stand_in(monkeypatch, rows)
    assert command.main(["collect", "hf:owner/name", "--output", str(tmp_path / "out")]) == 1
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert line.startswith("ERROR: hf:owner/name")
    with pytest.raises(DataError, match=words):
        list(collect.datasets_documents("hf:owner/name", collect.Division(), "text"))


def test_missing_datasets_library_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="needs the Python package datasets"):
        list(collect.datasets_documents("hf:owner/name", collect.Division(), "text"))


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (lambda folder: (folder / "a.txt").write_text(""), [], "holds no document"),
        (lambda folder: (folder / "a.txt").write_text("x"), ["--inputs", "2"], "1 documents cannot fill 2 inputs"),
        (lambda folder: (folder / "a.txt").mkdir(), [], "holds no text"),
    ],
)
def test_uncollectable_source_is_one_sentence(tmp_path, capsys, make, options, words):
    make(tmp_path)
    assert command.main(["collect", str(tmp_path), "--output", str(tmp_path / "out"), *options]) == 1
    assert words in capsys.readouterr().err
    assert not list(tmp_path.glob("out/*"))


def test_inputs_are_not_made_twice(tmp_path):
    collect.split(["a", "b"], tmp_path, 2, {})
    with pytest.raises(DataError, match="holds inputs already"):
        collect.split(["c", "d"], tmp_path, 2, {})


def test_ten_inputs_are_made_by_default(tmp_path):
    (tmp_path / "a.txt").write_text("line\n" * 30)
    words = ["collect", str(tmp_path / "a.txt"), "--document", "line", "--output", str(tmp_path / "out")]
    assert command.main(words) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [*collect.names_of(10), "inputs.json"]


def visible(synced, folder):
    """Return the names without those of hidden files that a folder had at each of its syncs."""
    return [[name for name in held if name[0] != "."] for place, held in synced if place == str(folder)]


def test_names_of_inputs_are_synced_before_their_manifest(tmp_path, synced):
    """Their checksums are synced first: without these, inputs count as foreign files after a power failure."""
    collect.split(["a", "b"], tmp_path, 1, {})
    assert visible(synced, tmp_path) == [[], ["input-00000.jsonl"], ["input-00000.jsonl", "inputs.json"]]
    listed = [held for _place, held in synced].index(["input-00000.jsonl", "names.json"])
    assert listed < [place for place, _held in synced].index(str(tmp_path))


def test_second_concurrent_run_is_rejected(tmp_path):
    held = lock.Lock(tmp_path)
    held.acquire()
    try:
        with pytest.raises(lock.LockedError, match=f"in use by process {os.getpid()}"):
            collect.split(["a"], tmp_path, 1, {})
    finally:
        held.release()


def test_run_killed_at_any_change_leaves_nothing_or_all(tmp_path):
    outcomes = []
    for number in range(1, 60):
        folder = tmp_path / str(number)

        def work(_report, number=number, folder=folder):
            die_at_change(number, folder)
            collect.split(["a", "b", "c"], folder, 2, {})

        try:
            ranks(0, work, tmp_path)
            outcomes.append("done")
        except RankDiedError as died:
            assert died.status == -signal.SIGKILL
            outcomes.append("killed")
        if not (folder / "inputs.json").exists():
            collect.split(["a", "b", "c"], folder, 2, {})
        assert sorted(read(folder)) == ["a", "b", "c"]
        assert [result["status"] for result in validate.validate(folder)] == ["pass"] * 3
        if outcomes[-1] == "done":
            break
    assert outcomes[-1] == "done"
    assert outcomes.count("killed") > 10


def test_run_killed_during_write_leaves_no_partial_file(tmp_path):
    def work(_report):
        die_at_byte(1000)
        collect.split(["a" * 600, "b" * 600], tmp_path / "out", 1, {})

    with pytest.raises(RankDiedError):
        ranks(0, work, tmp_path)
    assert list((tmp_path / "out").glob(".collect*/*")) and not list((tmp_path / "out").glob("input*"))
    collect.split(["a", "b"], tmp_path / "out", 1, {})
    assert not list((tmp_path / "out").glob(".collect*"))


def test_full_disk_is_one_sentence_and_leaves_nothing(tmp_path):
    def work(_report):
        small_disk(tmp_path / "small", 1 << 20)
        try:
            collect.split(("x" * 10_000 for _document in range(1000)), tmp_path / "small", 1, {})
        except DataError as error:
            return str(error), os.listdir(tmp_path / "small")
        return None

    ((message, left),) = ranks(0, work, tmp_path)
    assert "No space left on device" in message
    assert message.endswith("make room or choose another")
    assert left == []


def test_source_in_folder_for_inputs_is_rejected_and_stays(tmp_path):
    """A source may have the name of an input and would be replaced while it is read."""
    source = tmp_path / "input-00000.jsonl"
    source.write_text('{"text": "mine"}\n')
    assert command.main(["collect", str(source), "--output", str(tmp_path), "--inputs", "1"]) == 1
    assert source.read_text() == '{"text": "mine"}\n'


DAMAGED = {
    "cut off": lambda packed: packed[:-9],
    "no gzip": lambda packed: b"no gzip at all",
    "a bit in its data": lambda packed: packed[:40] + bytes([packed[40] ^ 1]) + packed[41:],
    "a bit in its sum": lambda packed: packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:],
}


@pytest.mark.parametrize("damage", DAMAGED)
@pytest.mark.parametrize("name", ["b.jsonl.gz", "b.txt.gz"])
def test_damaged_gzip_file_is_reported_or_skipped(tmp_path, capsys, damage, name):
    """The whole file is skipped: documents before the damage may differ from the packed ones, too."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.txt").write_text("good")
    lines = "".join(f'{{"text": "{number} {"x" * number}"}}\n' for number in range(200))
    (source / name).write_bytes(DAMAGED[damage](gzip.compress(lines.encode())))
    words = ["collect", str(source), "--inputs", "1", "--output", str(tmp_path / "out")]
    assert command.main(words) == 1
    error = capsys.readouterr().err
    assert f"ERROR: {source / name} is a damaged gzip file (" in error and "Traceback" not in error
    assert not list((tmp_path / "out").iterdir())
    assert command.main([*words, "--on-bad", "skip"]) == 0
    assert read(tmp_path / "out") == ["good"]
    assert "1 documents" in (out := capsys.readouterr().out) and ", 1 left out" in out


def test_deeply_nested_line_is_named_or_skipped(tmp_path, capsys):
    source = tmp_path / "a.jsonl"
    source.write_text('{"text": "good"}\n' + "[" * 200_000 + "]" * 200_000 + "\n")
    words = ["collect", str(source), "--inputs", "1", "--output", str(tmp_path / "out")]
    assert command.main(words) == 1
    assert f"ERROR: {source}: line 2 is nested too deeply to be read" in capsys.readouterr().err
    assert command.main([*words, "--on-bad", "skip"]) == 0
    assert read(tmp_path / "out") == ["good"]


@pytest.mark.parametrize("what", ["link", "link to a file"])
def test_planted_link_is_not_cleared(tmp_path, what):
    """Files of killed runs are removed by name, and any user may make a link of such a name."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_bytes(b"precious")
    (tmp_path / "out").mkdir()
    target = tmp_path / "precious" if what == "link" else tmp_path / "precious" / "file"
    planted = tmp_path / "out" / ".collect.0123456789abcdef"
    planted.symlink_to(target)
    collect.split(["a", "b"], tmp_path / "out", 1, {})
    assert planted.is_symlink()
    assert (tmp_path / "precious" / "file").read_bytes() == b"precious"
    assert read(tmp_path / "out") == ["a", "b"]


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("name", ["input-00000.jsonl", "inputs.json"])
def test_planted_names_of_inputs_are_not_followed(tmp_path, what, name):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "out").mkdir()
    plant(tmp_path / "out" / name, what, victim)
    try:
        collect.split(["a", "b"], tmp_path / "out", 1, {})
    except DataError:
        assert name == "input-00000.jsonl" or what != "dangling link"
    else:
        assert read(tmp_path / "out") == ["a", "b"] and what == "dangling link"
    assert victim.read_bytes() == b"precious" and not (tmp_path / "absent").exists()


def test_input_that_collect_did_not_make_is_kept(tmp_path):
    """A folder of inputs made by hand has no manifest."""
    mine = tmp_path / "input-00001.jsonl"
    mine.write_text('{"text": "precious"}\n')
    with pytest.raises(DataError, match=r"input-00001\.jsonl is there already and no run of collect made it"):
        collect.split(["a", "b"], tmp_path, 2, {})
    assert [path.name for path in tmp_path.iterdir()] == [mine.name]
    assert mine.read_text() == '{"text": "precious"}\n'


def test_input_that_appears_before_its_name_is_given_is_kept(tmp_path):
    def documents():
        yield from ("a", "b")
        (tmp_path / "input-00001.jsonl").write_text("precious")

    with pytest.raises(DataError, match="File exists"):
        collect.split(documents(), tmp_path, 2, {})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"input-00001.jsonl": "precious"}


@pytest.mark.parametrize(
    "name", [".collect.old", ".collect.", ".collect.0123456789abcdeg", ".collect.0123456789abcdef0"]
)
def test_folder_of_another_program_is_kept(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "precious").touch()
    (tmp_path / ".collect.0123456789abcdef").mkdir()
    collect.remove_aside(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name / "precious").exists()


def test_folder_of_another_user_is_kept(tmp_path, monkeypatch):
    (tmp_path / ".collect.0123456789abcdef").mkdir()
    monkeypatch.setattr(collect.os, "geteuid", lambda: 12345)
    collect.remove_aside(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("change", [b"changed", None])
def test_named_inputs_of_killed_run_go_unless_changed(tmp_path, synced, change):
    def work(_report):
        def write(folder, name, content):
            if name == "inputs.json":
                os.kill(os.getpid(), signal.SIGKILL)
            real(folder, name, content)

        real, collect.Directory.write = collect.Directory.write, write
        collect.split(["a", "b"], tmp_path / "out", 2, {})

    with pytest.raises(RankDiedError):
        ranks(0, work, tmp_path)
    left = tmp_path / "out" / "input-00000.jsonl"
    assert left.exists()
    if change is None:
        collect.remove_aside(tmp_path / "out")
        (cleared,) = [held for place, held in synced if place == str(tmp_path / "out")]
        # The list is removed last: without it, inputs that a power failure restores count as foreign files.
        assert "input-00000.jsonl" not in cleared and any(name.startswith(".collect.") for name in cleared)
        collect.split(["c", "d"], tmp_path / "out", 2, {})
        assert read(tmp_path / "out") == ["c", "d"]
    else:
        left.write_bytes(change)
        with pytest.raises(DataError, match="no run of collect made it"):
            collect.split(["c", "d"], tmp_path / "out", 2, {})
        assert left.read_bytes() == change


def test_text_in_the_folder_of_the_inputs_is_rejected(tmp_path, capsys):
    """A folder of its own below is none of that, and the folder may be named by a link."""
    (tmp_path / "in" / "below").mkdir(parents=True)
    (tmp_path / "in" / "a.txt").write_text("x")
    (tmp_path / "in" / "below" / "b.txt").write_text("y")
    (tmp_path / "link").symlink_to("in")
    for output in ("in", "link"):
        words = ["collect", str(tmp_path / "in" / "a.txt"), "--inputs", "1", "--output", str(tmp_path / output)]
        assert command.main(words) == 1
        assert "a.txt is in the folder for the inputs, where a file of its name" in capsys.readouterr().err
    words = ["collect", str(tmp_path / "in" / "below"), "--inputs", "1", "--output", str(tmp_path / "in")]
    assert command.main(words) == 0


@pytest.mark.parametrize(
    "words",
    [["a.txt"], ["--output", "out"], ["a.txt", "--output", "out", "--inputs", "901"], ["a.txt", "--output", ""]],
)
def test_missing_or_impossible_option_is_wrong_usage(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(SystemExit) as ended:
        command.main(["collect", *words])
    assert ended.value.code == 3 and os.listdir(tmp_path) == ["a.txt"]


def test_progress_comes_to_the_size_of_all_files(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("x" * 600)
    (tmp_path / "b.txt").write_text("y" * 400)
    words = ["collect", str(tmp_path), "--inputs", "2", "--output", str(tmp_path / "out")]
    assert command.main(words) == 0
    assert capsys.readouterr().err.startswith("collect: 100% of 1k, ")
    assert collect.INPUTS_MOST == 900


def test_collected_folder_leaves_nothing_open(tmp_path):
    """The folder of the unfinished files is removed, and 900 inputs are many open files."""
    before = len(os.listdir("/proc/self/fd"))
    collect.split(["one", "two"], tmp_path / "out", 2, {})
    # The error holds the run's frames, so that nothing is closed by chance.
    with pytest.raises(DataError, match="1 documents cannot fill 2 inputs") as caught:
        collect.split(["one"], tmp_path / "other", 2, {})
    assert len(os.listdir("/proc/self/fd")) == before and caught.value
