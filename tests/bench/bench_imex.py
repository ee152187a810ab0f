# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seconds that the IMEX domain of a job adds to its Prolog, beside the daemon's own.

Jobs on two nodes of a real Slurm, in turn with the role's Prolog, with the same one without IMEX, and with the line
``mlcluster imex up`` alone. Daemon, control program and systemctl are stand-ins in Python, which start slower than the
real ones; the daemon logs its own time. CPU seconds are of all processes that a Prolog waits for, without the daemon,
so that they hold on a busy machine too.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.integration.slurm.imex_rig import ETC, Ultra, ultra_cluster
from tests.rig.slurm import jobs
from tests.unit.plugins.inventory import finder

ROUNDS = 5
NODES = ("n1", "n2")
COST = Path(__file__).with_name("cost.py")
WAYS = ("with IMEX", "without", "imex up alone")


def wrapped(ultra: Ultra, name: str, hooks: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with a Prolog that leaves what the real one cost."""
    path = ultra.folder / f"measured-{name.replace(' ', '-')}"
    target = f"{ultra.folder}/cost.$SLURM_JOB_ID.$SLURMD_NODENAME"
    path.write_text(
        f"#!/bin/sh\nexec /usr/bin/python3 -I {ultra.folder}/cost.py {target} {hooks['Prolog']}\n", encoding="utf-8"
    )
    path.chmod(0o755)
    return {**hooks, "Prolog": str(path)}


def one_job(ultra: Ultra) -> dict[str, float]:
    """Run a job and return what its Prologs cost, the slower and the dearer of its nodes, and the daemon's own time."""
    for node in NODES:
        ultra.path(node, f"{ETC}/log").unlink(missing_ok=True)
    job = jobs.finish(ultra.cluster, "true", "--exclusive", "--nodelist=n[1-2]")
    assert job.state == "COMPLETED", job
    costs = [json.loads((ultra.folder / f"cost.{job.number}.{node}").read_text(encoding="utf-8")) for node in NODES]
    own = [own_seconds(ultra.path(node, f"{ETC}/log")) for node in NODES]
    return {
        "wall": max(cost["wall_seconds"] for cost in costs),
        "cpu": max(cost["cpu_seconds"] for cost in costs),
        "daemon": max(own),
    }


def own_seconds(log: Path) -> float:
    """Return how long a daemon took from its start until it was joined with all nodes, 0 where none was started."""
    text = log.read_text(encoding="utf-8") if log.is_file() else ""
    found = re.findall(r"(?:READY|connected to all) after ([0-9.]+) s", text)
    return max(map(float, found), default=0.0)


def measure() -> dict[str, Any]:
    """Measure each way in turn, ROUNDS times. Raises RigError."""
    # The runtime is built of the checkout as the collection.
    finder.install()
    with ultra_cluster(f"bench-imex-{os.getpid()}", nodes=len(NODES)) as ultra:
        (ultra.folder / "cost.py").write_text(COST.read_text(encoding="utf-8"), encoding="utf-8")
        ways = (ultra.role_hooks(), ultra.role_hooks("none"), ultra.hooks())
        settings = {name: wrapped(ultra, name, hooks) for name, hooks in zip(WAYS, ways, strict=True)}
        rounds: list[dict[str, dict[str, float]]] = []
        for _round in range(ROUNDS):
            row = {}
            for name in WAYS:
                ultra.cluster.configure(**settings[name])
                row[name] = one_job(ultra)
            rounds.append(row)
    return {
        "load": os.getloadavg()[0],
        "ways": {name: {key: summary([row[name][key] for row in rounds]) for key in rounds[0][name]} for name in WAYS},
        "added": {
            "wall": summary([row[WAYS[0]]["wall"] - row[WAYS[1]]["wall"] for row in rounds]),
            "cpu": summary([row[WAYS[0]]["cpu"] - row[WAYS[1]]["cpu"] for row in rounds]),
            "wall beside the daemon": summary(
                [row[WAYS[0]]["wall"] - row[WAYS[1]]["wall"] - row[WAYS[0]]["daemon"] for row in rounds]
            ),
        },
    }


def summary(values: list[float]) -> list[float]:
    """Least, median and most."""
    return [round(value, 3) for value in (min(values), statistics.median(values), max(values))]


def table(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures as lines of text."""
    lines = [f"load {figures['load']:.1f}; least, median and most of {ROUNDS} jobs on {len(NODES)} nodes, seconds"]
    for name, row in figures["ways"].items():
        lines += [f"{name:<14} {key:<7} {values}" for key, values in row.items()]
    lines += [f"IMEX adds      {key}: {values}" for key, values in figures["added"].items()]
    return lines


if __name__ == "__main__":
    print("\n".join(table(measure())))
    sys.exit(0)
