# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m tests.bench [NAME...]``: run the benchmarks, print a table each, keep the figures as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from tests.bench import (
    bench_boot_hook,
    bench_data,
    bench_imex,
    bench_inventory,
    bench_nvme_raid0,
    bench_push,
    bench_unpacking,
)
from tests.rig.vm.command import RigError
from tests.vm.helpers import ROOT

BENCHES = {
    "boot_hook": bench_boot_hook,
    "data": bench_data,
    "imex": bench_imex,
    "inventory": bench_inventory,
    "nvme_raid0": bench_nvme_raid0,
    "push": bench_push,
    "unpacking": bench_unpacking,
}
OUTPUT = ROOT / "tests" / "output" / "bench"


def main(names: Sequence[str]) -> int:
    """Run the benchmarks named, or all. Returns 0, 1 when one could not be measured, 3 for an unknown name."""
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"there is no benchmark {unknown[0]}: there are {', '.join(BENCHES)}", file=sys.stderr)
        return 3
    for name in names or BENCHES:
        try:
            figures = BENCHES[name].measure()
        except (RigError, AssertionError) as exc:
            print(f"{name} could not be measured: {exc}", file=sys.stderr)
            return 1
        OUTPUT.mkdir(parents=True, exist_ok=True)
        target = OUTPUT / f"{name}.json"
        target.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        print("\n".join([*BENCHES[name].table(figures), f"kept as {target.relative_to(ROOT)}"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
