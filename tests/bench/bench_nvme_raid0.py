# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of the role nvme_raid0 on a guest with four disks: module executions and seconds, run by run.

A module execution is one program that Ansible starts on the node; tasks that only run on the controller and the
gathering of facts are not counted, loops count once an item. Seconds are wall-clock time of ansible-playbook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.rig.vm import cache
from tests.rig.vm.guest import Guest
from tests.vm import helpers

NAME = "bench"
DISKS = 4


def figures_of(title: str, run: helpers.Run) -> dict[str, Any]:
    """Return one row: the run, its changes, the modules that it started on the node, and its time."""
    return {
        "run": title,
        "changed": run.changed,
        "module_executions": len(run.modules),
        "modules": run.modules,
        "seconds": round(run.seconds, 1),
    }


def measure() -> dict[str, Any]:
    """Check mode, first and second run on a fresh guest. Raises RigError or AssertionError when one fails."""
    with cache.locked(f"guest-{NAME}", "the benchmark's guest"):
        node = Guest(NAME)
        try:
            node.up(disks=DISKS)
            runs = [
                figures_of("check mode", helpers.configure(node, check=True)),
                figures_of("first", helpers.configure(node)),
                figures_of("second", helpers.configure(node)),
                figures_of("verify only", helpers.entry(node, "verify")),
            ]
            return {"bench": "nvme_raid0", "accelerator": node.state["accelerator"], "disks": DISKS, "runs": runs}
        finally:
            node.down()


def table(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures as lines of text."""
    lines = [
        f"nvme_raid0 on {figures['disks']} disks, guest under {figures['accelerator']}",
        f"  {'run':<12}{'changed':>8}{'modules':>9}{'seconds':>9}",
    ]
    return lines + [
        f"  {row['run']:<12}{row['changed']:>8}{row['module_executions']:>9}{row['seconds']:>9}"
        for row in figures["runs"]
    ]
