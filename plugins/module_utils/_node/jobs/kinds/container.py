# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job kind: containers, compared with their hosts."""

from __future__ import annotations

import posixpath
import re
import typing as t

from ...system.host import Host
from ...verdict import result
from .. import verify_io as io
from ..job import Job
from ..kind import Kind
from ..options import Option, Type, list_of, match
from ..step import container_options, each_node, srun
from ..tasks import judge_task_roots, judge_tasks, read_tasks
from ..work import Work


def run(work: Work) -> None:
    """Record the place of each task in its container, then compare each container with its host."""
    tasks, mlcluster = work.spec.tasks, work.spec.mlcluster
    inside = container_options(work.spec.container)
    launch = srun(ntasks=len(work.nodes) * tasks, ntasks_per_node=tasks, mpi="none")
    work.run(*launch, *inside, *mlcluster, "job-task", work.results)
    facts = work.file("host-%N.json")
    work.run(*each_node(work.nodes, error=work.file("host-%N.err")), *mlcluster, "host-facts", "--output", facts)
    report = {"output": work.file("node-%N.json"), "error": work.file("node-%N.err")}
    required = (word for name in work.spec.values["require"] for word in ("--require", name))
    check = ("health", "--profile", "container", "--json", "--host-facts", facts, *required)
    work.run(*each_node(work.nodes, **report), *inside, *mlcluster, *check)


def judge_container(job: Job, host: Host) -> list[result.Result]:
    """Return the verdicts on the place of tasks in containers, and on each container compared with its host."""
    tasks = read_tasks(host, job.results)
    roots = {node: _host_root(host, posixpath.join(job.results, f"host-{node}.json")) for node in job.nodes}
    return [
        *judge_tasks("container", job, tasks),
        judge_task_roots(tasks, roots),
        *io.node_reports(job, host, "container"),
    ]


def _host_root(host: Host, path: str) -> t.Any:
    """Return the mount at / of a node, which it wrote outside of a container; None if it wrote none."""
    document = host.read_json(path)
    return document.get("root") if isinstance(document, dict) else None


COMPONENT = re.compile(r"[a-z_]+(=[\w.+-]+)?")
KIND = Kind(
    "Do containers start with their tasks, and do they match their hosts?",
    "tasks start in containers on the right nodes, and each container has its requirements and matches its host: "
    "`mlcluster health --profile container`",
    run=run,
    judge=judge_container,
    minutes=30,
    container="always",
    options={
        "require": Option(
            Type(list_of(match(COMPONENT)), "a list of NAME or NAME=VERSION, as mlcluster health --require takes them"),
            ["cuda", "nccl", "plugin", "libfabric", "pytorch"],
        )
    },
    example={"container_image": "/x.sqsh"},
)
