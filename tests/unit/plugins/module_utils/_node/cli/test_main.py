# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import main as cli


class Provider:
    """A part of the runtime whose one verb does what the test says."""

    def __init__(self, handler):
        self.handler = handler

    def add_verbs(self, subparsers):
        parser = subparsers.add_parser("probe")
        parser.add_argument("--level", type=int, default=0)
        parser.set_defaults(handler=self.handler)


def run(monkeypatch, tmp_path, handler, *argv):
    monkeypatch.setattr(cli, "PROVIDERS", (Provider(handler),))
    return cli.main(list(argv), version="9.9.9", log_dir=str(tmp_path))


def test_version_is_the_runtimes_own(monkeypatch, tmp_path, capsys):
    assert run(monkeypatch, tmp_path, None, "version") == 0
    assert capsys.readouterr().out.startswith("mlcluster 9.9.9 (Python ")


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_handlers_exit_code_is_the_commands(monkeypatch, tmp_path, code):
    assert run(monkeypatch, tmp_path, lambda args: code, "probe") == code


def test_arguments_and_version_reach_the_handler(monkeypatch, tmp_path):
    seen = []
    run(monkeypatch, tmp_path, lambda args: seen.append((args.level, args.runtime_version)), "probe", "--level", "3")
    assert seen == [(3, "9.9.9")]


@pytest.mark.parametrize("argv", [[], ["nosuch"], ["probe", "--nosuch"], ["probe", "--level", "high"]])
def test_usage_errors_end_with_three(monkeypatch, tmp_path, argv, capsys):
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, tmp_path, lambda args: 0, *argv)
    assert stop.value.code == 3
    assert "usage: mlcluster" in capsys.readouterr().err


def test_help_ends_with_zero(monkeypatch, tmp_path):
    with pytest.raises(SystemExit) as stop:
        run(monkeypatch, tmp_path, lambda args: 0, "--help")
    assert stop.value.code == 0


def test_an_unexpected_error_is_one_sentence_and_a_logged_traceback(monkeypatch, tmp_path, capsys):
    def broken(args):
        raise RuntimeError("lsblk said\nnonsense")

    assert run(monkeypatch, tmp_path, broken, "probe") == 2
    path = tmp_path / "probe.log"
    assert capsys.readouterr().err == (
        f"mlcluster probe: stopped by an unexpected RuntimeError: lsblk said nonsense; the details are in {path}\n"
    )
    assert "Traceback" in path.read_text()


def test_an_interrupt_has_no_verdict(monkeypatch, tmp_path, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    assert run(monkeypatch, tmp_path, interrupted, "probe") == 2
    assert "interrupted" in capsys.readouterr().err


def test_every_verb_there_is(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    out = capsys.readouterr().out
    for verb in ("storage-boot", "storage-info", "version"):
        assert re.search(rf"^    {verb}\s", out, re.MULTILINE)
