# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The previous report, in a directory that others may write to."""

from __future__ import annotations

import os

import pytest
from ansible_collections.mlcluster.aws.plugins.action import cluster_report

SCHEMA = cluster_report._report_model.SCHEMA


@pytest.mark.parametrize("text", ["", "5", '{"schema": "other"}', "[" * 200000, "\udcff"])
def test_invalid_previous_report_is_ignored(tmp_path, text):
    path = tmp_path / "report.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    assert cluster_report._previous(path) is None


def test_pipe_is_skipped_and_report_is_read(tmp_path):
    path = tmp_path / "report.json"
    assert cluster_report._previous(path) is None
    os.mkfifo(path)
    assert cluster_report._previous(path) is None
    path.unlink()
    path.write_text(f'{{"schema": "{SCHEMA}"}}')
    assert cluster_report._previous(path) == {"schema": SCHEMA}


def test_link_target_is_not_written(tmp_path):
    other, path = tmp_path / "other", tmp_path / "report.json"
    other.write_text("mine")
    path.symlink_to(other)
    cluster_report._write(path, "text")
    assert other.read_text() == "mine" and path.read_text() == "text" and not path.is_symlink()
