# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mlcluster_data import __main__ as command

from tests.unit.parser_help import without_help

FILES = Path(__file__).resolve().parents[2] / "roles" / "slurm_jobs" / "files"


def test_without_command_commands_are_listed(capsys):
    assert command.main([]) == 3
    assert command.main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in command.COMMANDS)


def test_unknown_command_is_rejected(capsys):
    assert command.main(["no-such"]) == 3
    assert "there is no command no-such" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(command.COMMANDS))
def test_every_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main([name, "--help"])
    assert stop.value.code == 0
    words = "".join(capsys.readouterr().out.split()).lower()
    assert "".join(command.COMMANDS[name][1].split()).lower() in words


@pytest.mark.parametrize("name", sorted(command.COMMANDS))
def test_help_explains_every_argument(name):
    parser = command.Parser(prog=name)
    importlib.import_module(f"mlcluster_data.{command.COMMANDS[name][0]}").add_arguments(parser)
    assert list(without_help(parser)) == []


@pytest.mark.parametrize(
    "words",
    [
        ("validate", "/nonexistent/x"),
        ("array", "/nonexistent/x"),
        ("checkpoint", "list", "/nonexistent/x"),
        ("collect", "/nonexistent/x", "--out", "/nonexistent/y"),
        ("stage", "/nonexistent/x", "--to", "/nonexistent/y"),
    ],
    ids=" ".join,
)
def test_missing_input_ends_with_1(words, capsys):
    assert command.main(words) == 1
    assert capsys.readouterr().err.startswith("ERROR: /nonexistent/x")


def test_wrong_usage_ends_with_3(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["validate", "folder", "--no-such-option"])
    assert stop.value.code == 3
    assert "unrecognized arguments" in capsys.readouterr().err


def test_missing_package_is_one_sentence(monkeypatch, capsys):
    def missing(*_names):
        raise ModuleNotFoundError("No module named 'no_such_package'", name="no_such_package")

    monkeypatch.setattr(command.importlib, "import_module", missing)
    assert command.main(["validate", "folder"]) == 1
    assert "validate needs the Python package no_such_package" in capsys.readouterr().err


def test_package_runs_as_module():
    result = subprocess.run(
        [sys.executable, "-m", "mlcluster_data", "--help"], cwd=FILES, capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("usage: python -m mlcluster_data")


# For every path argument of a command: its other required arguments, with the path argument last.
PLACES = {
    "array": ["array"],
    "backup": ["backup", "push", "there", ""],
    "backup-directory": ["backup", "push"],
    "checkpoint": ["checkpoint", "list"],
    "collect": ["collect"],
    "collect-output": ["collect", "there", "--output"],
    "hold": ["hold"],
    "preprocess": ["preprocess", "--output", "o", "--tokenizer", "t", "--input"],
    "preprocess-output": ["preprocess", "--input", "there", "--tokenizer", "t", "--output"],
    "preprocess-tokenizer": ["preprocess", "--input", "there", "--output", "o", "--tokenizer"],
    "stage": ["stage", "--to", "o"],
    "stage-to": ["stage", "there", "--to"],
    "train": ["train", "--data-dir"],
    "train-checkpoints": ["train", "--data-dir", "there", "--checkpoint-dir"],
    "train-log": ["train", "--data-dir", "there", "--log-dir"],
    "validate": ["validate"],
}


@pytest.mark.parametrize("words", PLACES.values(), ids=PLACES)
def test_empty_path_is_wrong_usage(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        command.main([*words, ""])
    assert stop.value.code == 3
    assert "it is empty: set a path" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


NINES = "9" * 5000
# For every number of processes, threads, objects or bytes of memory: its command's required arguments.
NUMBERS = {
    "array-tasks": ["array", "there", "--tasks"],
    "array-limit": ["array", "there", "--limit"],
    "backup-workers": ["backup", "verify", "s3://bucket/x", "--workers"],
    "backup-attempts": ["backup", "verify", "s3://bucket/x", "--attempts"],
    "checkpoint-keep": ["checkpoint", "prune", "there", "--keep"],
    "collect-inputs": ["collect", "there", "--output", "o", "--inputs"],
    **{
        f"preprocess-{name}": ["preprocess", "--input", "there", "--output", "o", "--tokenizer", "t", f"--{name}"]
        for name in ("length", "shard-tokens", "processes", "task", "tasks")
    },
    **{
        f"train-{name}": ["train", "--data-dir", "there", f"--{name}"]
        for name in ("batch-size", "workers", "shuffle-buffer", "width", "layers", "heads", "epochs", "warmup-steps",
                     "checkpoint-freq", "keep", "log-freq")
    },
    "validate-jobs": ["validate", "there", "--jobs"],
}  # fmt: skip


@pytest.mark.parametrize("number", [NINES, "9" * 18, "-1", "1.5", "x"], ids=["nines", "large", "negative", "part", "x"])
@pytest.mark.parametrize("words", NUMBERS.values(), ids=NUMBERS)
def test_excessive_number_is_wrong_usage(words, number, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        command.main([*words[:-1], f"{words[-1]}={number}"])
    assert stop.value.code == 3
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"{number[:60]} is not an integer from " in error and len(error) < 200
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "x" * 151])
def test_model_name_must_be_valid_file_name(name, capsys):
    with pytest.raises(SystemExit, match="3"):
        command.main(["train", "--data-dir", "there", f"--model-name={name}"])
    assert "is not a name for a file" in capsys.readouterr().err


@pytest.fixture
def crooked(tmp_path, monkeypatch):
    """Change to a directory with a file, texts, directories with names of files, and an empty directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("inputs/inputs.json", "shards/manifest.json", "named/a.jsonl", "tokenizer/tokenizer.json", "empty"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file").write_text("text")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("text")
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield tmp_path
    # The trainer has replaced these signal handlers.
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("collect texts --inputs 1 --output file", "file cannot be used (file: File exists)"),
        ("collect texts --inputs 1 --output file/x", "file/x cannot be used (file/x: Not a directory)"),
        ("collect file/x --output o", "file/x is missing"),
        ("array inputs", "array could not continue (inputs/inputs.json: Is a directory)"),
        ("array named", "named/a.jsonl: Is a directory and has the name of an input"),
        ("array file/x", "file/x is not a folder"),
        ("validate inputs", "validate could not continue (inputs/inputs.json: Is a directory)"),
        ("validate shards", "validate could not continue (shards/manifest.json: Is a directory)"),
        ("validate file/x", "file/x is not a folder"),
        ("stage texts --to file/x", "file/x: Not a directory): fix that, or choose another folder"),
        ("stage file/x --to o", "file/x cannot be read (file/x: Not a directory)"),
        ("checkpoint list file/x", "file/x cannot be used (file/x: Not a directory)"),
        ("checkpoint prune empty", "empty holds no checkpoint"),
        ("hold file/x", "file/x could not be held for one job (Not a directory)"),
        ("hold empty/x", "empty/x could not be held for one job (No such file or directory)"),
        ("preprocess --input inputs --output o --tokenizer tokenizer", "inputs/inputs.json: Is a directory"),
        ("preprocess --input file/x --output o --tokenizer tokenizer", "file/x is not a folder"),
        ("train --data-dir shards --checkpoint-dir c", "shards/manifest.json cannot be read (Is a directory)"),
        ("train --data-dir file/x --checkpoint-dir c", "file/x/manifest.json is missing"),
        ("train --data-dir texts --checkpoint-dir c --output-dir file/x", "choose another --output-dir"),
        ("train --data-dir texts --checkpoint-dir c --tensorboard-dir file/x", "choose another --tensorboard-dir"),
    ],
)
def test_path_of_wrong_type_is_one_sentence(words, message, crooked, capsys):
    assert command.main(words.split()) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ERROR: ")]
    assert len(errors) == 1 and message in errors[0]


@pytest.mark.parametrize("what", ["pipe", "device", "directory"])
@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["hold"], ".job-lock"),
        (["validate"], "inputs.json"),
        (["validate"], "manifest.json"),
        (["array", "--limit=1"], "inputs.json"),
    ],
    ids=["hold", "inputs", "shards", "array"],
)
def test_special_file_is_one_sentence_without_wait(tmp_path, words, name, what):
    place = tmp_path / name
    if what == "pipe":
        os.mkfifo(place)
    elif what == "device":
        place.symlink_to("/dev/zero")
    else:
        place.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "mlcluster_data", *words, str(tmp_path)],
        cwd=FILES, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    reasons = {"directory": "Is a directory", "pipe": "not a plain file", "device": "not a plain file"}
    # The programs make locks as regular files, so a link is not a lock.
    linked = what == "device" and name == ".job-lock"
    assert ("is a symbolic link, which is not followed" if linked else reasons[what]) in done.stderr


@pytest.mark.parametrize(
    ("version", "argument", "needed", "variable"),
    [
        ((3, 6), "hold", "3.9", "slurm_jobs_python"),
        ((3, 6), "train", "3.10", "slurm_jobs_data_python"),
        ((3, 9), "--help", "3.10", "slurm_jobs_data_python"),
    ],
)
def test_too_old_python_is_one_sentence(tmp_path, version, argument, needed, variable):
    old = ".".join(map(str, version))
    ran = with_python(tmp_path, version, argument)
    assert (ran.returncode, ran.stdout) == (3, "")
    found = f"mlcluster_data needs Python {needed} or newer and {sys.executable} is {old}: start it with a newer one"
    assert ran.stderr == f"{found}, a job by {variable}\n"


def test_hold_runs_on_oldest_python_of_nodes(tmp_path):
    ran = with_python(tmp_path, (3, 9), "hold", str(tmp_path / "held"))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"holds {tmp_path}/held\n", "")


def with_python(folder, version, *arguments):
    """Run the package by this Python with the version number of another one."""
    (folder / "held").mkdir()
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.version_info = {(*version, 0, 'final', 0)}\n")
    return subprocess.run(
        [sys.executable, "-m", "mlcluster_data", *arguments],
        env={**os.environ, "PYTHONPATH": f"{folder}:{FILES}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
