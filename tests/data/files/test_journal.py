# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The journal of a training in a directory to which other users may write."""

from __future__ import annotations

import pytest
from mlcluster_data.files.journal import Journal, read

from tests.data.support.planted import PLANTED, plant


@pytest.mark.parametrize("what", PLANTED)
def test_planted_entry_gets_no_lines(tmp_path, what, caplog):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "log").mkdir()
    plant(tmp_path / "log" / "metrics.jsonl", what, victim)
    journal = Journal(tmp_path / "log" / "metrics.jsonl")
    journal.write(1, loss=1.0)
    assert f"{tmp_path}/log/metrics.jsonl cannot be written (" in caplog.text
    assert victim.read_bytes() == b"precious" and not (tmp_path / "absent").exists()


@pytest.mark.parametrize("what", ["link", "pipe"])
def test_link_and_pipe_are_rejected_as_journal(tmp_path, what):
    (tmp_path / "victim").write_text('{"step": 1}\n')
    plant(tmp_path / "metrics.jsonl", what, tmp_path / "victim")
    assert read(tmp_path / "metrics.jsonl") == []


def test_directory_in_place_of_journal_ends_start(tmp_path):
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(IsADirectoryError):
        Journal(tmp_path / "metrics.jsonl").rewind(0)


@pytest.mark.parametrize("what", sorted(set(PLANTED) - {"directory"}))
def test_planted_entry_is_replaced_at_start(tmp_path, what):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    plant(tmp_path / "metrics.jsonl", what, victim)
    journal = Journal(tmp_path / "metrics.jsonl")
    journal.rewind(0)
    journal.write(1, loss=1.0)
    assert read(journal.path) == [{"step": 1, "loss": 1.0}] and victim.read_bytes() == b"precious"


def test_lines_of_earlier_training_are_kept_at_begin(tmp_path):
    lines = [{"step": 1, "loss": 2.0}, {"step": 1, "checkpoint": {"step": 1, "error": ""}}]
    for number in (1, 2):
        journal = Journal(tmp_path / "metrics.jsonl")
        for line in lines:
            journal.write(**line)
        journal.rewind(0)
        assert read(journal.path) == []
        assert read(tmp_path / f"metrics.jsonl.earlier-{number}") == lines


def test_lines_before_first_checkpoint_are_not_kept(tmp_path):
    journal = Journal(tmp_path / "metrics.jsonl")
    journal.write(1, loss=2.0)
    journal.write(1, checkpoint={"step": 1, "error": "full"})
    journal.rewind(0)
    assert read(journal.path) == [] and [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_resumed_training_keeps_one_file(tmp_path):
    journal = Journal(tmp_path / "metrics.jsonl")
    journal.write(1, checkpoint={"step": 1, "error": ""})
    journal.write(2, loss=1.0)
    journal.rewind(1)
    assert [line["step"] for line in read(journal.path)] == [1] and len(list(tmp_path.iterdir())) == 1
