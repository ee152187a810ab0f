# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options and checks that the kinds with collectives share. Pure."""

from __future__ import annotations

import typing as t

from .options import COUNT, COUNT_OR_NONE, LAYOUT, MINUTES, SIZE, Option, Type, is_size, size_bytes, whole

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce")
SWEEP: dict[str, Option] = {
    "layout": Option(LAYOUT, "all"),
    "smallest": Option(SIZE, "8"),
    "largest": Option(SIZE, "16G"),
    "factor": Option(Type(lambda value: whole(value, 2), "an integer from 2"), 2),
    "iterations": Option(COUNT, 20),
    "warmup": Option(COUNT_OR_NONE, 5),
    "step_minutes": Option(MINUTES, 15),
}


def size_problems(values: t.Mapping[str, t.Any], _job: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """Yield a message when the smallest size is above the largest."""
    smallest, largest = values["smallest"], values["largest"]
    if is_size(smallest) and is_size(largest) and size_bytes(smallest) > size_bytes(largest):
        yield f"smallest is {smallest} and largest {largest}: swap them"
