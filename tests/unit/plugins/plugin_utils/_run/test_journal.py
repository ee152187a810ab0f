# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of roles, kept until the end of a run."""

from __future__ import annotations

import stat
from pathlib import Path

from ansible import constants
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run import journal
from ansible_collections.mlcluster.aws.plugins.plugin_utils._run.journal import Entry


def test_entries_are_read_in_order_of_writing(tmp_path):
    file = tmp_path / "lines"
    first, second = (
        Entry("n1", "efa_nccl", problems=["a\nb"], results=[]),
        Entry("n2", "efa_nccl", True, True, problems=[], results=[]),
    )
    journal.add([first], file)
    journal.add([second], file)
    assert journal.read(file) == [first, second]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_empty_list_makes_no_file(tmp_path):
    journal.add([], tmp_path / "lines")
    assert list(tmp_path.iterdir()) == [] and journal.read(tmp_path / "lines") == []


def test_forget_removes_all_entries(tmp_path):
    file = tmp_path / "lines"
    journal.add([Entry("n1", "efa_nccl")], file)
    journal.finish(file)
    journal.finish(file)
    assert journal.read(file) == []


def test_each_run_has_its_own_file():
    assert journal.path().parent == Path(constants.DEFAULT_LOCAL_TMP)
