# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job kind: the full health check on each node."""

from __future__ import annotations

from ...system.host import Host
from ...verdict import result
from .. import verify_io as io
from ..job import Job
from ..kind import Kind
from ..step import each_node
from ..work import Work


def run(work: Work) -> None:
    """Run the full health check on each node."""
    report = {"output": work.file("node-%N.json"), "error": work.file("node-%N.err")}
    instance_type = work.spec.asked.get("instance_type")
    check = ("health", "--profile", "full", "--json", *(("--instance-type", instance_type) if instance_type else ()))
    work.run(*each_node(work.nodes, **report), *work.spec.mlcluster, *check)


def judge_gpu_efa(job: Job, host: Host) -> list[result.Result]:
    """Return the verdicts of each node on its GPUs, EFA and other parts, with the node's name."""
    return io.node_reports(job, host, "node")


KIND = Kind(
    "Are the GPUs, EFA, storage and versions of each node good?",
    "GPUs, EFA, GPUDirect Storage and versions of each node: `mlcluster health --profile full` once on each",
    run=run,
    judge=judge_gpu_efa,
    tasks="one",
    minutes=15,
)
