# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published measurements of bus bandwidth, in GB/s as nccl-tests prints them (out of place).

Each entry is for one instance type, number of nodes with a rank for each GPU, collective and size; nothing is
interpolated, and there is no other threshold. Only sizes from 1 GiB, where latency does not matter. Left out: the
minima of AWS's own health check (p5 800 GB/s), which are above AWS's own measurements.
"""

from __future__ import annotations

from typing import Any

_TESTS = "awslabs/awsome-distributed-ai micro-benchmarks/nccl-tests/README.md (95b939c)"
_PCS = "awslabs/awsome-distributed-ai architectures/aws-pcs/tests/compute-test.md (95b939c)"
_MLE = "stas00/ml-engineering network/README.md and todo.md (744d01e), measured on p5en in August 2026 with NCCL 2.27.7"
_GIB = 1 << 30

# Tolerance in percent below the published figure. Our own choice; every caller has an option for it.
TOLERANCE_PERCENT = 10

_FIGURES: tuple[tuple[str, int, str, dict[int, float], str], ...] = (
    ("p4de.24xlarge", 2, "all_reduce", {1: 76.79, 2: 78.33}, _TESTS),
    ("p5.48xlarge", 2, "all_reduce", {1: 436.95, 2: 443.72, 4: 465.87, 8: 479.28, 16: 487.09}, _TESTS),
    ("p5en.48xlarge", 1, "all_reduce", {16: 482.05}, _MLE),
    ("p5en.48xlarge", 4, "all_reduce", {4: 364.87, 16: 369.06}, _MLE),
    ("p6-b200.48xlarge", 4, "all_reduce", {1: 367.0, 4: 375.0, 16: 377.0}, _PCS),
    ("p6-b300.48xlarge", 2, "all_reduce", {16: 654.0, 64: 751.0}, _PCS),
)

# Accelerated types with EFA without a published figure: a regular expression for the whole type, and the reason.
# A run on one of them needs the site's own baseline.
UNPUBLISHED: dict[str, str] = {
    r"p3dn\.24xlarge": "no figure in the sources above",
    r"p6e-.*": "no figure in the sources above",
    r"p4d\.24xlarge": "the sources above have p4de only",
    r"p5\.4xlarge": "one GPU: its bandwidth is that of the network card",
    r"p5e\.48xlarge": "the sources above have p5 and p5en only",
    r"g\w+\..+": "no figure in the sources above",
    r"(inf|trn)\w+\..+": "these figures are of nccl-tests, and Neuron has nccom-test",
}

# All types with a figure have 8 GPUs. Fewer ranks on a node share its network differently: no figure applies to them.
RANKS_PER_NODE = 8


def published(
    instance_type: str | None, nodes: int | None, ranks: int | None, collective: str | None
) -> dict[int, dict[str, Any]]:
    """Return ``busbw`` (GB/s) and ``source`` by size in bytes; empty if nothing was published for exactly this case."""
    if nodes is None or ranks != nodes * RANKS_PER_NODE:
        return {}
    return {
        size * _GIB: {"busbw": busbw, "source": source}
        for kind, number, operation, figures, source in _FIGURES
        if (kind, number, operation) == (instance_type, nodes, collective)
        for size, busbw in figures.items()
    }
