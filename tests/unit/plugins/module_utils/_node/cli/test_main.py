# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli

from tests.unit.parser_help import without_help


class Provider:
    """A part of the runtime with one verb, whose action the test sets."""

    def __init__(self, handler):
        self.handler = handler

    def add_verbs(self, subparsers):
        parser = subparsers.add_parser("probe")
        parser.add_argument("--level", type=int, default=0)
        parser.set_defaults(handler=self.handler)


def run(monkeypatch, tmp_path, handler, *argv):
    monkeypatch.setattr(cli, "load", lambda words: [Provider(handler)])
    return cli.main(list(argv), version="9.9.9", log_dir=str(tmp_path))


def test_version_is_that_of_runtime(monkeypatch, tmp_path, capsys):
    assert run(monkeypatch, tmp_path, None, "version") == 0
    assert capsys.readouterr().out.startswith("mlcluster 9.9.9 (Python ")


@pytest.mark.parametrize("code", [0, 1, 2])
def test_exit_code_is_that_of_handler(monkeypatch, tmp_path, code):
    assert run(monkeypatch, tmp_path, lambda args: code, "probe") == code


def test_arguments_and_version_reach_handler(monkeypatch, tmp_path):
    seen = []
    run(monkeypatch, tmp_path, lambda args: seen.append((args.level, args.runtime_version)), "probe", "--level", "3")
    assert seen == [(3, "9.9.9")]


@pytest.mark.parametrize("argv", [[], ["nosuch"], ["probe", "--nosuch"], ["probe", "--level", "high"]])
def test_usage_error_exits_with_3(monkeypatch, tmp_path, argv, capsys):
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, tmp_path, lambda args: 0, *argv)
    assert stop.value.code == 3
    assert "usage: mlcluster" in capsys.readouterr().err


def test_help_exits_with_0(monkeypatch, tmp_path):
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, tmp_path, lambda args: 0, "--help")
    assert stop.value.code == 0


def test_unexpected_error_is_one_sentence_with_logged_traceback(monkeypatch, tmp_path, capsys):
    def broken(args):
        raise RuntimeError("lsblk printed\nnonsense")

    assert run(monkeypatch, tmp_path, broken, "probe") == 2
    path = tmp_path / "probe.log"
    assert capsys.readouterr().err == (
        f"mlcluster probe: stopped by an unexpected RuntimeError: lsblk printed nonsense; the details are in {path}\n"
    )
    assert "Traceback" in path.read_text()


def test_interrupt_has_no_verdict(monkeypatch, tmp_path, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    assert run(monkeypatch, tmp_path, interrupted, "probe") == 2
    assert "interrupted" in capsys.readouterr().err


def test_help_lists_all_verbs(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    out = capsys.readouterr().out
    for verb in ("storage-boot", "storage-info", "version"):
        assert re.search(rf"^    {verb}\s", out, re.MULTILINE)


@pytest.mark.parametrize("verb", [verb for verbs in cli.PARTS.values() for verb in verbs])
def test_help_of_verb_begins_with_its_purpose(verb, capsys):
    with pytest.raises(SystemExit):
        cli.main([verb, "--help"])
    usage, purpose, *_rest = capsys.readouterr().out.split("\n\n")
    assert usage.startswith(f"usage: mlcluster {verb}") and purpose[0].isupper() and purpose.endswith(".")


def test_help_explains_every_argument_and_action():
    assert list(without_help(cli.build_parser("9.9.9"))) == []


def test_missing_help_is_found():
    parser = argparse.ArgumentParser(prog="p")
    parser.add_argument("--silent")
    parser.add_argument("--hidden", help=argparse.SUPPRESS)
    commands = parser.add_subparsers()
    commands.add_parser("bare")
    commands.add_parser("act", help="do it").add_argument("action", choices=["up", "down"], help="up: make it")
    assert list(without_help(parser)) == ["p --silent", "p --hidden", "p bare", "p act action down"]


def test_version_is_an_option_too(capsys):
    for words in (["version"], ["--version"]):
        with pytest.raises(SystemExit) if words != ["version"] else contextlib.nullcontext():
            cli.main(words, version="1.2.3")
        assert capsys.readouterr().out.startswith("mlcluster 1.2.3 (Python ")


def test_parts_register_listed_verbs():
    for name, verbs in cli.PARTS.items():
        (part,) = cli.load([verbs[0]])
        assert part.__name__.endswith(f"._node.{name}")
        subparsers = argparse.ArgumentParser().add_subparsers()
        part.add_verbs(subparsers)
        assert tuple(subparsers.choices) == verbs


def test_all_parts_are_listed():
    folder = Path(cli.__file__).parents[1]
    parts = {
        ".".join(path.relative_to(folder).with_suffix("").parts)
        for path in folder.rglob("*.py")
        if "\ndef add_verbs(" in path.read_text(encoding="utf-8")
    }
    assert parts == set(cli.PARTS)


@pytest.mark.parametrize("words", [(), ("nosuch",), ("--help",)])
def test_missing_verb_imports_all_parts(words):
    assert len(cli.load(words)) == len(cli.PARTS)


@pytest.mark.parametrize(("verb", "others"), [("imex", ("health", "jobs", "storage", "efa")), ("scratch", ("nccl",))])
def test_verb_imports_only_its_part(verb, others):
    code = "import sys; from {0} import main; main.load([sys.argv[1]]); print(*sorted(sys.modules))"
    package = cli.__name__.rpartition(".")[0]
    argv = [sys.executable, "-c", code.format(package), verb]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    rooms = package.rpartition(".")[0]
    assert not [name for name in done.stdout.split() if name.startswith(tuple(f"{rooms}.{one}." for one in others))]
