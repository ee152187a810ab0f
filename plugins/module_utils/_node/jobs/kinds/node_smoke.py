# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job kind: start tasks on all nodes and check where each one runs."""

from __future__ import annotations

from ...system.host import Host
from ...verdict import result
from ..job import Job
from ..kind import Kind
from ..step import srun
from ..tasks import judge_tasks, read_tasks
from ..work import Work


def run(work: Work) -> None:
    """Start every task. Each writes its own file, which finds a node that does not see the shared directory."""
    tasks = work.spec.tasks
    launch = srun(ntasks=len(work.nodes) * tasks, ntasks_per_node=tasks, mpi="none")
    work.run(*launch, *work.spec.mlcluster, "job-task", work.results)


def judge_smoke(job: Job, host: Host) -> list[result.Result]:
    """Return the verdicts on the tasks: started, in the right place, with their GPUs and the shared directory."""
    return judge_tasks("smoke", job, read_tasks(host, job.results))


KIND = Kind(
    "Do the nodes start tasks in the right places, with the shared directory?",
    "every task starts, ranks 0 to 7 on the first node and 8 to 15 on the second; each node has its own name, the "
    "shared directory and its GPUs",
    run=run,
    judge=judge_smoke,
    minutes=5,
)
