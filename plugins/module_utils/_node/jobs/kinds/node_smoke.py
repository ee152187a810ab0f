# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kind of job: start tasks on all nodes and see where each one runs."""

from __future__ import annotations

from ...system.host import Host
from ...verdict import result
from ..job import Job
from ..kind import Kind
from ..step import srun
from ..tasks import judge_tasks, read_tasks
from ..work import Work


def run(work: Work) -> None:
    """Start every task, which writes a file of its own: a node that does not see the shared directory is found."""
    tasks = work.spec.tasks
    launch = srun(ntasks=len(work.nodes) * tasks, ntasks_per_node=tasks, mpi="none")
    work.run(*launch, *work.spec.mlcluster, "job-task", work.results)


def judge_smoke(job: Job, host: Host) -> list[result.Result]:
    """Did every task start, where it belongs, with its GPUs, and was the shared directory there?"""
    return judge_tasks("smoke", job, read_tasks(host, job.results))


KIND = Kind(
    "Do the nodes start tasks in the right places, with the shared directory?",
    "every task starts, ranks 0 to 7 on the first node and 8 to 15 on the second; each node has its own name, the "
    "shared directory and its GPUs",
    run=run,
    judge=judge_smoke,
    minutes=5,
)
