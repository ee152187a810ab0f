# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of jobs: the options, with the tools that the role builds in their places."""

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.config import parse_jobs
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.settings import places, settings


def test_built_tools_take_place_of_those_of_nodes():
    row = {"version": "4.0.0", "url": "", "sha256": ""}
    found = settings(parse_jobs({"build": ["ior"], "artifacts": {"ior": row}}), "/nvme/jobs")
    place = "/fsx/mlcluster/jobs/tools/ior-4.0.0/bin"
    assert (found["ior"], found["mdtest"], found["fio"]) == (f"{place}/ior", f"{place}/mdtest", "fio")
    assert found["scratch"] == "/nvme/jobs"


def test_version_is_as_set_before_controller_reports_it():
    assert places(parse_jobs({"build": ["fio"], "build_versions": {"fio": "9.1"}})) == {
        "fio": "/fsx/mlcluster/jobs/tools/fio-9.1"
    }
