# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kind of job: the collectives of Neuron, by nccom-test."""

from __future__ import annotations

import re
import typing as t

from ..collectives import judge_collectives
from ..kind import Kind, Values
from ..options import COUNT, WORDS, Option, Type, choice, choices, match, size_bytes
from ..sweep import COLLECTIVES, SWEEP, size_problems

# Those of nccl-tests that nccom-test has, by its own long names (its user guide, "Required Arguments").
OFFERED = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
DATATYPE = Type(match(re.compile(r"[a-z]+[0-9]+")), "a type of nccom-test, such as fp32")


def fill(values: Values, _settings: Values) -> Values:
    """Return the sizes in bytes, which is what nccom-test takes."""
    return {key: size_bytes(values[key]) for key in ("smallest", "largest")}


def problems(values: Values, job: Values) -> t.Iterator[str]:
    """Yield what is wrong with sizes, or with a layout that this way to launch cannot have."""
    yield from size_problems(values, job)
    if values["layout"] in ("pairs", "bisect") and values["launch"] != "mpi":
        yield f"layout is {values['layout']} and nccom-test takes all nodes of a job by slurm: set launch to mpi"
    chosen = values["collectives"]
    for name in chosen if isinstance(chosen, list) else ():
        if name in COLLECTIVES and name not in OFFERED:
            yield f"nccom-test has no {name}: choose from {', '.join(OFFERED)}"


KIND = Kind(
    "Neuron's collectives: right, over EFA, fast enough?",
    "the same for Neuron's collectives, by `nccom-test --check`; its output names no ranks, so only EFA counters prove "
    "the way. `launch` is `mpi` for an older nccom-test, and for pairs and bisect",
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
        "collectives": Option(choices(*COLLECTIVES, least=1), ["all_reduce", "all_gather", "reduce_scatter"]),
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
