# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.job import Job


@pytest.mark.parametrize(
    ("asked", "tasks", "ranks"),
    [
        ({"tasks_per_node": 8}, 8, 8),
        # A script carries its numbers as text.
        ({"tasks_per_node": "8"}, 8, 8),
        ({"tasks_per_node": 1, "workers_per_node": 32}, 1, 32),
        ({"tasks_per_node": 8, "workers_per_node": None}, 8, 8),
    ],
)
def test_ranks_are_tasks_unless_one_task_starts_them(asked, tasks, ranks):
    job = Job(asked, ("n1", "n2"), "/r")
    assert (job.tasks, job.ranks, job.started) == (tasks, ranks, None)
