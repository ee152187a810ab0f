# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import setup
from tests.build.packages import SetupError

LEFT_OUT = ".venv-data: left out, so the parts slurm and data cannot run: Installing torch-cpu.txt failed"
AS_BEFORE = (
    ".venv-data: left out as before, so the parts slurm and data cannot run: torch could not be had with these pins; "
    "make setup RETRY=1 tries again"
)

# The suite itself is started by make, which tells what it starts that it is inside.
OUTSIDE_MAKE = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with the two lists of pins, where RETRY is not set and Python is the right one."""
    for name in ("data.txt", "torch-cpu.txt"):
        (tmp_path / name).write_text("torch==1\n")
    monkeypatch.setattr(setup, "CHECKOUT", tmp_path)
    monkeypatch.setattr(setup.environments, "find_python", lambda name: sys.executable)
    monkeypatch.delenv("RETRY", raising=False)
    return tmp_path


@pytest.fixture
def torch(checkout, monkeypatch):
    """An index without torch, until torch.there; torch() sets up, and gives what was said and how often it tried."""

    def make(where, *_given, **_options):
        ask.tried += 1
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir()
        if not ask.there:
            raise SetupError("Installing torch-cpu.txt failed")

    def ask():
        said, before = [], ask.tried
        setup.ensure_data(checkout, said.append)
        return said, ask.tried - before

    ask.tried, ask.there = 0, False
    monkeypatch.setattr(setup.environments, "ensure_environment", make)
    return ask


def test_where_torch_cannot_be_had_everything_else_is_set_up_and_it_is_tried_once(torch):
    assert torch() == ([LEFT_OUT], 1)
    assert torch() == torch() == ([AS_BEFORE], 0)


def test_it_is_tried_again_when_the_pins_change(torch, checkout):
    torch()
    (checkout / "torch-cpu.txt").write_text("torch==2\n")
    assert torch() == ([LEFT_OUT], 1)
    assert torch() == ([AS_BEFORE], 0)
    (checkout / "data.txt").write_text("numpy==2\n")
    assert torch()[1] == 1


def test_it_is_tried_again_when_that_is_asked_for_and_after_make_clean(torch, checkout, monkeypatch):
    torch()
    monkeypatch.setenv("RETRY", "1")
    assert torch() == ([LEFT_OUT], 1)
    monkeypatch.delenv("RETRY")
    assert torch() == ([AS_BEFORE], 0)
    shutil.rmtree(checkout / ".venv-data")
    assert torch()[1] == 1


def test_once_it_was_had_nothing_is_left_of_that(torch, monkeypatch):
    torch()
    torch.there = True
    monkeypatch.setenv("RETRY", "1")
    assert torch() == ([], 1)
    monkeypatch.delenv("RETRY")
    # From here on it is for the environment's own stamp to say whether there is anything to do.
    assert torch() == ([], 1)


def test_make_hands_the_variable_on_and_clean_takes_the_mark_away(tmp_path):
    makefile = Path(setup.__file__).parents[2] / "Makefile"
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "RETRY is $RETRY"\n')
    python.chmod(0o755)
    for given, told in (([], "RETRY is \n"), (["RETRY=1"], "RETRY is 1\n")):
        command = ["make", "--file", str(makefile), f"PYTHON={python}", "setup", *given]
        done = subprocess.run(command, cwd=tmp_path, env=OUTSIDE_MAKE, capture_output=True, text=True, check=True)
        assert done.stdout == told
    (tmp_path / ".venv-data").mkdir()
    (tmp_path / ".venv-data" / setup.NOT_HAD).touch()
    subprocess.run(["make", "--file", str(makefile), "clean"], cwd=tmp_path, capture_output=True, check=True)
    assert not (tmp_path / ".venv-data").exists()


def test_without_its_python_the_data_environment_is_left_out(checkout, monkeypatch):
    monkeypatch.setattr(setup.sys, "version_info", (3, 13, 0))
    monkeypatch.setattr(setup.environments, "find_python", lambda name: None)
    said = []
    setup.ensure_data(checkout, said.append)
    assert "needs Python 3.11" in said[0]
