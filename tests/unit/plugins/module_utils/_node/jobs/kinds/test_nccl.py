# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sizes that a job of kind nccl measures if it names none."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds.nccl import KIND


@pytest.mark.parametrize(
    ("job", "instance_type", "largest"),
    [
        ({}, "p5.48xlarge", "16G"),
        ({}, "", "16G"),
        ({}, "p4d.24xlarge", "8G"),
        ({"smallest": "12G"}, "p4d.24xlarge", "12G"),
        # A size that the job names is kept: the verdict reports what was not measured.
        ({"largest": "16G"}, "p4d.24xlarge", "16G"),
    ],
)
def test_largest_size_fits_unless_job_names_one(job, instance_type, largest):
    values = KIND.values(job)
    values.update(KIND.fill(values, {"instance_type": instance_type}))
    assert values["largest"] == largest and KIND.options["largest"].type.accepts(largest)
