# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kind of job: the collectives of NCCL, by nccl-tests."""

from __future__ import annotations

import typing as t

from ..collectives import judge_collectives
from ..kind import Kind, Values
from ..options import Option, choices
from ..sweep import COLLECTIVES, SWEEP, size_problems


def programs(values: Values, settings: Values, image: str) -> t.Sequence[str]:
    """Return one program of nccl-tests a collective; in a container they are those of the image."""
    return [] if image else [f"{settings['nccl_tests_dir']}/{name}_perf" for name in values["collectives"]]


KIND = Kind(
    "NCCL's collectives: right, over EFA, fast enough?",
    "the collectives are right, went over EFA from every host, and are fast enough: `mlcluster nccl-verdict` for "
    "each run",
    judge=judge_collectives,
    minutes=60,
    mpi=True,
    use="mpi",
    debug="INFO",
    container="may",
    accelerator="gpu",
    baseline=True,
    options={"collectives": Option(choices(*COLLECTIVES, least=1), list(COLLECTIVES)), **SWEEP},
    asked=("collectives", "layout"),
    tools=("nccl_tests_dir",),
    programs=programs,
    problems=size_problems,
)
