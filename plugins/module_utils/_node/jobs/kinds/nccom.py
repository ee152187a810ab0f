# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job kind: the collectives of Neuron, by nccom-test."""

from __future__ import annotations

import re
import typing as t

from ..collectives import judge_collectives
from ..kind import Kind, Values
from ..layouts import run_layout
from ..options import COUNT, WORDS, Option, Type, choice, choices, match, size_bytes
from ..ports import address, choose_port, sockets, taken
from ..step import srun, with_variables
from ..sweep import COLLECTIVES, SWEEP, size_problems
from ..work import Work

# The port on the starting node where it collects the figures of several nodes, unless an option sets another (its user
# guide). Older versions have no such option, so it is only set if needed.
COLLECTOR = 60006

# The collectives of nccl-tests that nccom-test has, by its own long names (its user guide, "Required Arguments").
OFFERED = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
DATATYPE = Type(match(re.compile(r"[a-z]+[0-9]+")), "a type of nccom-test, such as fp32")


def fill(values: Values, _settings: Values) -> Values:
    """Return the sizes in bytes, the unit of nccom-test."""
    return {key: size_bytes(values[key]) for key in ("smallest", "largest")}


def problems(values: Values, job: Values) -> t.Iterator[str]:
    """Yield errors in the sizes, and layouts that the launch option does not support."""
    yield from size_problems(values, job)
    if values["layout"] in ("pairs", "bisect") and values["launch"] != "mpi":
        yield f"layout is {values['layout']} and nccom-test takes all nodes of a job by slurm: set launch to mpi"
    chosen = values["collectives"]
    for name in chosen if isinstance(chosen, list) else ():
        if name in COLLECTIVES and name not in OFFERED:
            yield f"nccom-test has no {name}: choose from {', '.join(OFFERED)}"


def run(work: Work) -> None:
    """Run each collective on the groups of nodes of the layout."""
    work.require(work.spec.tools["nccom_test"], "install aws-neuronx-tools, or set slurm_jobs_nccom_test")
    # One pair after the other, because each nccom-test collects its figures on a port of this node.
    ranks = work.spec.values["workers_per_node"]
    run_layout(work, lambda collective, group: launch(work, collective, group), ranks, parallel_pairs=False)


def launch(work: Work, collective: str, group: t.Sequence[str]) -> tuple[str, ...]:
    """Return the command of a collective on these nodes; several nodes need free ports."""
    spec, values, count = work.spec, work.spec.values, len(group)
    limit, test = values["step_minutes"], spec.tools["nccom_test"]
    what = (
        *("--nworkers", str(count * values["workers_per_node"]), "--nnodes", str(count)),
        *("--minbytes", str(values["smallest"]), "--maxbytes", str(values["largest"])),
        *("--stepfactor", str(values["factor"])),
        *("--iters", str(values["iterations"]), "--warmup_iters", str(values["warmup"])),
        # --check: every result is compared, otherwise no run proves its correctness.
        *("--datatype", values["datatype"], "--check", "--non-interactive", *map(str, values["arguments"])),
    )
    if count == 1:
        step = srun(nodes=1, nodelist=group[0], ntasks=1, mpi="none", time=limit)
        return (*step, *with_variables(spec.environment), test, *what, collective)
    gathers = COLLECTOR
    if taken(COLLECTOR, sockets(work, work.nodes[0])):
        gathers = choose_port(work, work.nodes[0])
        what += ("--data-collector-port", str(gathers))
    variables = dict(spec.environment)
    if values["launch"] == "slurm":
        # It uses all nodes of the job, since it only supports a whole allocation.
        where: tuple[str, ...] = (*("--slurm-mode", "--slurm-job-id", work.number), collective)
    else:
        # The ranks connect to the first host, on a port that is free there.
        port = choose_port(work, group[0], gathers)
        variables["NEURON_RT_ROOT_COMM_ID"] = f"{address(work, group[0])}:{port}"
        where = (collective, "--hosts", *group)
    return ("timeout", f"{limit}m", *with_variables(variables), test, *what, *where)


KIND = Kind(
    "Neuron's collectives: right, over EFA, fast enough?",
    "the same for Neuron's collectives, by `nccom-test --check`; its output has no ranks, so only EFA counters "
    "prove the fabric. `launch` is `mpi` for an older nccom-test, and for pairs and bisect",
    run=run,
    judge=judge_collectives,
    tasks="one",
    minutes=60,
    use="host",
    accelerator="neuron",
    baseline=True,
    options={
        "workers_per_node": Option(
            Type(COUNT.accepts, "how many ranks (logical NeuronCores) a node has, such as 32 on trn1.32xlarge"),
            0,
            required=True,
        ),
        "collectives": Option(choices(*COLLECTIVES, minimum=1), ["all_reduce", "all_gather", "reduce_scatter"]),
        "launch": Option(
            Type(choice("slurm", "mpi").accepts, "slurm or mpi, as the nccom-test there is takes it"), "slurm"
        ),
        "datatype": Option(DATATYPE, "fp32"),
        "arguments": Option(WORDS, []),
        **SWEEP,
        "largest": Option(SWEEP["largest"].type, "1G"),
    },
    asked=("collectives", "layout", "workers_per_node"),
    tools=("nccom_test",),
    example={"workers_per_node": 32},
    fill=fill,
    problems=problems,
)
