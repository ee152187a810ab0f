# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inputs that changed after collection: preprocess rejects them, so that no document is missing or replaced."""

from __future__ import annotations

import errno
import os
import re
import shutil

import pytest
from mlcluster_data.files import store


def cut(path):
    """Remove the second half of the lines, as after an interrupted copy."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: len(lines) // 2]))


def turn_a_letter(path):
    path.write_bytes(path.read_bytes().replace(b" ", b"_", 1))


@pytest.mark.parametrize(
    ("change", "words"),
    [(cut, r"has \d+ bytes and had \d+ when"), (turn_a_letter, "has another SHA-256 than it had when")],
)
def test_input_that_differs_from_collected_one_is_rejected(tmp_path, inputs, preprocess, capsys, change, words):
    shutil.copytree(inputs, tmp_path / "in")
    change(tmp_path / "in" / "input-00001.jsonl")
    assert preprocess(tmp_path / "in", tmp_path / "out") == 1
    assert re.search(f"/in/input-00001.jsonl {words}", capsys.readouterr().err)
    assert not (tmp_path / "out" / "manifest.json").exists() and not list((tmp_path / "out").glob("shard-00001-*"))
    shutil.copy(inputs / "input-00001.jsonl", tmp_path / "in")
    assert preprocess(tmp_path / "in", tmp_path / "out") == 0


def test_input_changed_since_its_first_shards_is_rejected(tmp_path, inputs, preprocess, capsys, monkeypatch):
    """This holds without a manifest of the inputs, too: a killed task must not resume in another text."""
    source, full = tmp_path / "in", []
    source.mkdir()
    shutil.copy(inputs / "input-00000.jsonl", source)
    put = store.Folder.put

    def filling_up(self, name, path, wanted):
        full.append(name)
        if len(full) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return put(self, name, path, wanted)

    monkeypatch.setattr(store.Folder, "put", filling_up)
    assert preprocess(source, tmp_path / "out") == 1
    monkeypatch.undo()
    turn_a_letter(source / "input-00000.jsonl")
    assert preprocess(source, tmp_path / "out") == 1
    assert "/in/input-00000.jsonl has another SHA-256 than it had when" in capsys.readouterr().err
    shutil.copy(inputs / "input-00000.jsonl", source)
    assert preprocess(source, tmp_path / "out") == 0


@pytest.mark.parametrize("name", ["manifest.json", "input-00001.json", "shard-00000-00000.tar"])
def test_file_of_another_program_is_not_replaced(tmp_path, inputs, preprocess, capsys, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("precious")
    assert preprocess(inputs, tmp_path / "out") == 1
    assert f"out/{name} would be replaced, and there is no plan.json of the run" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {name: "precious"}


def test_task_that_begins_beside_another_continues(tmp_path, inputs, preprocess, monkeypatch):
    """The other one wrote its plan and a file between the two looks at the folder."""
    assert preprocess(inputs, tmp_path / "out") == 0
    read, looks = store.Folder.read, []

    def plan_comes(self, name):
        looks.append(name)
        return None if looks == ["plan.json"] else read(self, name)

    monkeypatch.setattr(store.Folder, "read", plan_comes)
    assert preprocess(inputs, tmp_path / "out") == 0
    assert looks[:2] == ["plan.json", "plan.json"]
