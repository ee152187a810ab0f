# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pwd

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import training
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import step_times
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.job_labels import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.step_times import StepTimes
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

ME = pwd.getpwuid(os.geteuid()).pw_name
OTHER = "daemon" if os.geteuid() else "nobody"


@pytest.mark.parametrize(
    "text, found",
    [
        ("120 96.5 31.25\n", (120, 96.5, 31.25)),
        ("0 0", (0, 0.0, None)),
        ("120 96.5 ", (120, 96.5, None)),
        ("", None),
        ("-1 2", None),
        ("1 nan", None),
        ("1 1e9", None),
        ("\u0661 2", None),
        ("1", None),
        ("1 2 3 4", None),
        ("1 2\n3 4", None),
        ("1" * 16 + " 2", None),
    ],
)
def test_text_of_file(text, found):
    assert step_times.parse(text) == found


def put(folder, process, text="5 2.5 1.0\n", job=7):
    path = folder / f"mlcluster-steps.{job}.{process}"
    path.write_text(text)
    return path


def test_files_of_job_and_its_user_are_read(tmp_path):
    put(tmp_path, 0)
    put(tmp_path, 3, "6 3.5")
    put(tmp_path, 1, "no times")
    put(tmp_path, step_times.MAX_PROCESSES)
    put(tmp_path, 0, job=8)
    found = step_times.read(Host(), [Job(7, ME, (0,))], str(tmp_path))
    assert found == [StepTimes(7, 0, 5, 2.5, 1.0), StepTimes(7, 3, 6, 3.5)]
    assert step_times.read(Host(), [Job(7, OTHER, (0,)), Job(7, "no such user", (0,))], str(tmp_path)) == []


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "long"])
def test_other_files_are_skipped(tmp_path, kind):
    path = tmp_path / "mlcluster-steps.7.0"
    if kind == "link":
        (tmp_path / "other").write_text("5 2.5 1.0\n")
        path.symlink_to(tmp_path / "other")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("5 2.5 1.0" + " " * 200)
    assert step_times.read(Host(), [Job(7, ME, ())], str(tmp_path)) == []


def test_files_of_job_that_has_ended_are_removed(tmp_path):
    put(tmp_path, 0)
    other = put(tmp_path, 0, job=8)
    step_times.remove(Host(), 7, str(tmp_path))
    step_times.remove(Host(), 7, str(tmp_path / "gone"))
    assert list(tmp_path.iterdir()) == [other]


def test_training_job_names_file_that_is_read():
    class Work:
        number = "4711"

    assert training.step_file(Work()) == step_times.base_path("4711")
