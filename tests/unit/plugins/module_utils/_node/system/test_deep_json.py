# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""JSON from files that jobs, containers and services write, nested deeper than Python's reader goes."""

from __future__ import annotations

import os

from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import marker as health_marker
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import s3 as health_s3
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import verify_io as slurm_verdict_io
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import directories as scratch
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import notice as slurm_notice
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

DEEP = "[" * 200000


def test_too_deep_json_is_none():
    assert health_s3._first(DEEP) is None
    assert slurm_notice.parse_spot(DEEP) is None
    assert slurm_notice.parse_scheduled(DEEP) == []
    assert slurm_verdict_io.ior_figures(DEEP) == {}
    assert isinstance(slurm_verdict_io.fio_figure('{"a":' * 200000, "read"), str)


def test_marker_stays_marker(tmp_path):
    deep = tmp_path / "drain.json"
    deep.write_text(DEEP)
    assert health_marker.read_marker(Host(), str(deep)).reason.startswith("[")


def test_record_of_job_is_none_that_was_made_here(tmp_path):
    (tmp_path / "job-1").mkdir()
    (tmp_path / "job-1" / "job.json").write_text("[" * 4096)
    handle = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert scratch._read(handle, "job-1") is None
    finally:
        os.close(handle)
