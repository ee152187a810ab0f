# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mlcluster_data import __main__ as command

FILES = Path(__file__).resolve().parents[2] / "roles" / "slurm_jobs" / "files"


def test_without_a_command_the_commands_are_listed(capsys):
    assert command.main([]) == 3
    assert command.main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in command.COMMANDS)


def test_an_unknown_command_is_refused(capsys):
    assert command.main(["no-such"]) == 3
    assert "there is no command no-such" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(command.COMMANDS))
def test_every_command_has_help(name, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main([name, "--help"])
    assert stop.value.code == 0
    words = "".join(capsys.readouterr().out.split()).lower()
    assert "".join(command.COMMANDS[name][1].split()).lower() in words


def test_wrong_usage_ends_with_3(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["validate", "folder", "--no-such-option"])
    assert stop.value.code == 3
    assert "unrecognized arguments" in capsys.readouterr().err


def test_a_package_that_is_missing_is_one_sentence(monkeypatch, capsys):
    def missing(*_names):
        raise ModuleNotFoundError("No module named 'no_such_package'", name="no_such_package")

    monkeypatch.setattr(command.importlib, "import_module", missing)
    assert command.main(["validate", "folder"]) == 1
    assert "validate needs the Python package no_such_package" in capsys.readouterr().err


def test_it_runs_as_a_module():
    result = subprocess.run(
        [sys.executable, "-m", "mlcluster_data", "--help"], cwd=FILES, capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("usage: python -m mlcluster_data")
