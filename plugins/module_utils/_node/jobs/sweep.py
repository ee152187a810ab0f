# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options and checks that the kinds with collectives share. Pure."""

from __future__ import annotations

import math
import typing as t

from ..._data import instance_types
from ..nccl.table import sweep
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

# In MiB; a power of 2.
MAX_MIB = 16 << 10


def fitting_size(instance_type: str | None) -> str:
    """Return the largest size that nccl-tests can measure on the GPUs of this type, at most 16G, also if unknown.

    With ``-c 1``, nccl-tests allocates three buffers of a size. It keeps 1 GiB of the GPU's memory free, and 1 GiB more
    for each 16 GiB, up to 4 GiB more. Older versions keep less (NVIDIA/nccl-tests, src/common.cu, "Reducing maxBytes").
    """
    accelerators = (instance_types.lookup(instance_type) or {}).get("accelerators") or {}
    memory, size = accelerators.get("memory_mib"), MAX_MIB
    if memory:
        usable = memory - 1024 * (1 + min(math.ceil(memory / (16 << 10)), 4))
        while size > 1 and size * 3 > usable:
            size //= 2
    return f"{size >> 10}G" if size >= 1024 else f"{size}M"


def requested_sizes(asked: t.Mapping[str, t.Any]) -> list[int]:
    """Return the sizes in bytes that a job requests; empty if its script is of a release that did not record them."""
    smallest, largest, factor = (asked.get(name) for name in ("smallest", "largest", "factor"))
    if not is_size(smallest) or not is_size(largest) or not whole(factor, 2):
        return []
    return sweep(size_bytes(smallest), size_bytes(largest), int(str(factor)), factor=True)


def size_problems(values: t.Mapping[str, t.Any], _job: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """Yield a message when the smallest size is above the largest."""
    smallest, largest = values["smallest"], values["largest"]
    if is_size(smallest) and is_size(largest) and size_bytes(smallest) > size_bytes(largest):
        yield f"smallest is {smallest} and largest {largest}: swap them"
