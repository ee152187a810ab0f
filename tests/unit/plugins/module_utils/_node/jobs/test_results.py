# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of earlier jobs of the same number, the exit file, and the output that Slurm has open."""

from __future__ import annotations

import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import results as module
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.results import Results
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.work import JobError


@pytest.fixture
def results(tmp_path):
    return Results("x", str(tmp_path / "x-7"))


@pytest.fixture
def output(tmp_path, monkeypatch):
    """The output of the job, as Slurm has it open: it appends."""
    path = tmp_path / "x-7.out"
    path.write_text("of the first\n")
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    monkeypatch.setattr(module, "STDOUT", handle)
    yield path
    os.close(handle)


def earlier(tmp_path):
    (tmp_path / "x-7").mkdir()
    (tmp_path / "x-7" / "report.json").write_text("first")
    (tmp_path / "x-7.exit").write_text("0\n")


def test_missing_results_give_no_answer(results, tmp_path):
    assert results.set_earlier_aside(again=False) == "" and list(tmp_path.iterdir()) == []


def test_output_of_earlier_job_is_kept_beside_own_file(results, tmp_path, output):
    earlier(tmp_path)
    file = output.stat().st_ino
    line = results.set_earlier_aside(again=False)
    assert line == f"what an earlier job of this number left is kept in {tmp_path}/x-7.earlier-1"
    os.write(module.STDOUT, b"of this one\n")
    assert (output.read_text(), output.stat().st_ino) == ("of this one\n", file)
    kept = tmp_path / "x-7.earlier-1.out"
    assert kept.read_text() == "of the first\n" and kept.stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "x-7.earlier-1", "x-7.earlier-1.exit", "x-7.earlier-1.out", "x-7.out",
    ]  # fmt: skip


def test_output_outlasts_power_failure_before_it_is_taken_away(results, tmp_path, output, synced, monkeypatch):
    earlier(tmp_path)
    monkeypatch.setattr(os, "ftruncate", lambda _handle, size: synced.append(f"cut to {size}"))
    results.set_earlier_aside(again=False)
    assert synced[0].startswith(f"{tmp_path}/x-7.earlier-1.out.")
    assert synced[1:] == [str(tmp_path), "cut to 0"]


def test_output_elsewhere_leaves_earlier_output_unchanged(results, tmp_path):
    earlier(tmp_path)
    (tmp_path / "x-7.out").write_text("of the first\n")
    results.set_earlier_aside(again=False)
    assert (tmp_path / "x-7.earlier-1.out").read_text() == "of the first\n"
    assert not (tmp_path / "x-7.out").exists()


def test_only_output_file_is_parted_from_own_output(results, output):
    """By an earlier job that died before it began, or by a program of the site in front of this one."""
    assert results.set_earlier_aside(again=False) == "the lines above are from before this job began"
    assert output.read_text() == "of the first\n"


def test_later_start_keeps_its_results_and_not_its_status(results, tmp_path):
    earlier(tmp_path)
    assert results.set_earlier_aside(again=True) == ""
    assert [path.name for path in tmp_path.iterdir()] == ["x-7"]
    results.take()
    assert (tmp_path / "x-7" / "report.json").read_text() == "first"


@pytest.mark.parametrize("taken", ["", ".exit", ".out"])
def test_name_that_is_taken_in_any_way_is_passed_over(results, tmp_path, taken):
    earlier(tmp_path)
    (tmp_path / f"x-7.earlier-1{taken}").symlink_to("nowhere")
    assert results.set_earlier_aside(again=False).endswith("x-7.earlier-2")


@pytest.mark.parametrize("name", ["x-7", "x-7.exit"])
def test_link_that_leads_nowhere_is_set_aside(results, tmp_path, name):
    (tmp_path / name).symlink_to("nowhere")
    assert results.set_earlier_aside(again=False).endswith("x-7.earlier-1")
    assert not (tmp_path / name).is_symlink()


def test_directory_in_place_of_exit_file_is_set_aside(results, tmp_path):
    (tmp_path / "x-7.exit").mkdir()
    results.set_earlier_aside(again=False)
    results.keep_status(0)
    assert (tmp_path / "x-7.exit").read_text() == "0\n" and (tmp_path / "x-7.earlier-1.exit").is_dir()


def test_results_that_cannot_be_moved_are_left_and_named(results, tmp_path, monkeypatch):
    earlier(tmp_path)

    def refused(*_words):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(JobError, match="is of an earlier job, of root, and could not be renamed: let them"):
        results.set_earlier_aside(again=False)
    assert (tmp_path / "x-7" / "report.json").read_text() == "first"


def test_exit_file_is_written_once_for_each_status(results, tmp_path):
    results.keep_status(2)
    file = (tmp_path / "x-7.exit").stat().st_ino
    results.keep_status(2)
    assert (tmp_path / "x-7.exit").stat().st_ino == file and (tmp_path / "x-7.exit").stat().st_mode & 0o777 == 0o644
    results.keep_status(0)
    assert (tmp_path / "x-7.exit").read_text() == "0\n"


def test_status_that_cannot_be_kept_is_no_error(tmp_path):
    Results("x", str(tmp_path / "absent" / "x-7")).keep_status(0)
    assert list(tmp_path.iterdir()) == []


def test_directory_that_is_there_is_not_made(results, tmp_path):
    (tmp_path / "x-7").mkdir()
    with pytest.raises(JobError, match=rf"x-7 could not be made \(File exists\): check that {tmp_path} exists"):
        results.make()


def test_link_to_directory_is_not_taken(results, tmp_path):
    (tmp_path / "x-7").symlink_to(tmp_path)
    with pytest.raises(JobError, match="x-7 is not of root: let it be moved away, and submit again"):
        results.take()
