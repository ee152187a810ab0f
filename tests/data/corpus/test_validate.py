# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mlcluster_data import __main__ as command
from mlcluster_data.corpus import collect, validate

from plugins.module_utils._node.verdict import result

FILES = Path(__file__).resolve().parents[3] / "roles" / "slurm_jobs" / "files"


@pytest.fixture
def copied(tmp_path, inputs, shards):
    """Return copies of the inputs and the shards, for tests that damage them."""
    shutil.copytree(inputs, tmp_path / "inputs")
    shutil.copytree(shards.path, tmp_path / "shards")
    return tmp_path


def test_inputs_and_shards_pass(copied, capsys):
    for name in ("inputs", "shards"):
        assert command.main(["validate", str(copied / name), "--json"]) == 0
        report = result.Report.from_dict(json.loads(capsys.readouterr().out))
        assert {one.status for one in report.results} == {"pass"}
    assert command.main(["validate", str(copied / "inputs"), "--seed", "3"]) == 0
    assert "pass           data.sample: input-0000" in capsys.readouterr().out


def test_standard_library_is_enough(copied):
    program = (
        f"import sys; sys.path.insert(0, {str(FILES)!r}); from mlcluster_data.__main__ import main; sys.exit(main())"
    )
    finished = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, "validate", str(copied / "inputs"), "--jobs", "2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "120 documents, UTF-8 and SHA-256 right" in finished.stdout


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def shorten(path):
    path.write_bytes(path.read_bytes()[:-700])


def relist(path, **changes):
    """Change the first entry of a manifest."""
    content = json.loads(path.read_text())
    content["files" if "files" in content else "shards"][0].update(changes)
    path.write_text(json.dumps(content))


def respell(path, old, new):
    """Change bytes, and the hash and size in the manifest with them."""
    content = path.read_bytes().replace(old, new, 1)
    path.write_bytes(content)
    digest = validate.hashlib.sha256(content).hexdigest()
    relist(path.with_name("inputs.json"), bytes=len(content), sha256=digest)


@pytest.mark.parametrize(
    ("spoil", "folder", "words"),
    [
        (lambda folder: (folder / "input-00001.jsonl").unlink(), "inputs", "input-00001.jsonl is missing"),
        (lambda folder: shorten(folder / "input-00001.jsonl"), "inputs", "input-00001.jsonl has"),
        (lambda folder: flip(folder / "input-00001.jsonl"), "inputs", "input-00001.jsonl has another SHA-256"),
        (lambda folder: (folder / "more.jsonl").touch(), "inputs", "more.jsonl is not in the manifest"),
        (lambda folder: relist(folder / "inputs.json", documents=7), "inputs", "documents, not 7"),
        (
            lambda folder: respell(folder / "input-00000.jsonl", b'"text": "', b'"text": "\xff'),
            "inputs",
            "input-00000.jsonl: line 1: byte 24 of the line is 0xff, which is not UTF-8",
        ),
        (
            lambda folder: respell(folder / "input-00000.jsonl", b'"text"', b'"body"'),
            "inputs",
            'no text in the field "text"',
        ),
        (lambda folder: (folder / "shard-00000-00000.tar").unlink(), "shards", "shard-00000-00000.tar is missing"),
        (lambda folder: flip(folder / "shard-00000-00000.tar"), "shards", "shard-00000-00000.tar has another SHA-256"),
        (lambda folder: shorten(folder / "shard-00001-00000.tar"), "shards", "shard-00001-00000.tar has"),
        (lambda folder: (folder / "shard-9.tar").touch(), "shards", "shard-9.tar is not in the manifest"),
        (lambda folder: relist(folder / "manifest.json", samples=1), "shards", "samples, its shards add up to"),
    ],
)
def test_problem_is_named(copied, capsys, spoil, folder, words):
    spoil(copied / folder)
    assert command.main(["validate", str(copied / folder), "--jobs", "1"]) == 1
    printed = capsys.readouterr().out
    assert words in printed
    assert "fail" in printed


def test_only_existing_files_of_part_are_checked(copied, capsys):
    shards = copied / "shards"
    first, *others = sorted(shards.glob("*.tar"))
    for path in others:
        path.unlink()
    assert command.main(["validate", str(shards)]) == 1
    assert command.main(["validate", "--part", str(shards)]) == 0
    assert "1 shards of the sizes in the manifest" in capsys.readouterr().out
    first.write_bytes(first.read_bytes()[:-1])
    assert command.main(["validate", "--part", str(shards)]) == 1
    first.unlink()
    assert command.main(["validate", "--part", str(shards)]) == 1
    assert "has none of the" in capsys.readouterr().err


def test_many_problems_are_counted(tmp_path):
    verdict = validate.judged("data.content", [f"problem {number}" for number in range(9)], 1, "")
    assert verdict["message"].endswith("problem 4 and 4 more")
    assert verdict["found"] == 9


def test_missing_manifest_is_undeterminable(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("x\n")
    assert command.main(["validate", str(tmp_path)]) == 2
    assert "no manifest to compare them with" in capsys.readouterr().out
    (tmp_path / "b.txt").write_bytes(b"\xff\n")
    (tmp_path / "c.txt").touch()
    assert command.main(["validate", str(tmp_path), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["results"]
    assert "b.txt: line 1: byte 1" in found["message"]
    assert "c.txt is empty" in found["message"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ('{"schema": "other/1"}', "is of the schema other/1"),
        ('{"schema": "mlcluster.inputs/1", "files": [{"name": 1}]}', "does not have just"),
        (
            '{"schema": "mlcluster.inputs/1", "files": [{"name": "a", "documents": "1", "bytes": 1, "sha256": ""}]}',
            "text and numbers confused",
        ),
    ],
)
def test_invalid_manifest_is_one_sentence(tmp_path, capsys, content, words):
    (tmp_path / "inputs.json").write_text(content)
    assert command.main(["validate", str(tmp_path)]) == 1
    assert words in capsys.readouterr().err


def test_missing_folder_is_one_sentence(tmp_path, capsys):
    assert command.main(["validate", str(tmp_path / "none")]) == 1
    assert "is not a folder" in capsys.readouterr().err


def test_sample_is_same_for_same_seed(inputs):
    files = collect.manifest.inputs_of(inputs)
    assert validate.sample(inputs, files, 5) == validate.sample(inputs, files, 5)
    assert {one["input"] for one in validate.sample(inputs, files, 5)} == {file.name for file in files}
