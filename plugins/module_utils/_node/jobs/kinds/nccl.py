# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job kind: the collectives of NCCL, by nccl-tests."""

from __future__ import annotations

import typing as t

from ..collectives import judge_collectives
from ..kind import Kind, Values
from ..layouts import run_layout
from ..options import LAYOUTS, SIZE, Option, choice, choices, size_bytes
from ..step import container_options, srun, unset_disabled_plugin_in_shell, with_variables
from ..sweep import COLLECTIVES, SWEEP, fitting_size, size_problems
from ..work import Work

PROGRAMS = "set efa_nccl_tests: build, or slurm_jobs_nccl_tests_dir"


def fill(values: Values, settings: Values) -> Values:
    """Return the largest size that fits into the memory of a GPU if the job names none."""
    if values["largest"]:
        return {}
    return {"largest": max(fitting_size(settings.get("instance_type")), values["smallest"], key=size_bytes)}


def programs(values: Values, settings: Values, image: str) -> t.Sequence[str]:
    """Return the program of nccl-tests for each collective; none in a container, whose image has them."""
    return [] if image else [f"{settings['nccl_tests_dir']}/{name}_perf" for name in values["collectives"]]


def program(work: Work, collective: str) -> str:
    """Return the program of a collective."""
    return f"{work.spec.tools['nccl_tests_dir']}/{collective}_perf"


def run(work: Work) -> None:
    """Run each collective on the groups of nodes of the layout, through MPI."""
    if work.spec.container is None:
        for collective in work.spec.values["collectives"]:
            work.require(program(work, collective), PROGRAMS)
    run_layout(work, lambda collective, group: launch(work, collective, group), work.spec.tasks)


def launch(work: Work, collective: str, group: t.Sequence[str]) -> tuple[str, ...]:
    """Return the command of a collective on these nodes."""
    spec, values = work.spec, work.spec.values
    step = srun(
        nodes=len(group),
        nodelist=",".join(group),
        ntasks=len(group) * spec.tasks,
        ntasks_per_node=spec.tasks,
        mpi=spec.mpi,
        kill_on_bad_exit=1,
        time=values["step_minutes"],
    )
    return (
        *(*step, *container_options(spec.container), *with_variables(spec.environment, spec.container)),
        *unset_disabled_plugin_in_shell(spec.environment, spec.container),
        program(work, collective),
        *("-b", str(values["smallest"]), "-e", str(values["largest"]), "-f", str(values["factor"])),
        *("-n", str(values["iterations"]), "-w", str(values["warmup"])),
        # Every result is compared, otherwise no run proves its correctness; one rank for each GPU.
        *("-c", "1", "-g", "1"),
    )


KIND = Kind(
    "NCCL's collectives: right, over EFA, fast enough?",
    "the collectives are correct, use EFA on every host, and are fast enough: `mlcluster nccl-verdict` for each run. "
    "`largest` is by default 16G, or what fits into the memory of a GPU of `slurm_jobs_instance_type`",
    run=run,
    judge=judge_collectives,
    minutes=60,
    mpi=True,
    use="mpi",
    debug="INFO",
    container="may",
    accelerator="gpu",
    baseline=True,
    options={
        "collectives": Option(choices(*COLLECTIVES, minimum=1), list(COLLECTIVES)),
        **SWEEP,
        "largest": Option(SIZE, ""),
        "layout": Option(choice(*LAYOUTS, "domains"), "all"),
    },
    asked=("collectives", "layout"),
    tools=("nccl_tests_dir",),
    fill=fill,
    programs=programs,
    problems=size_problems,
)
