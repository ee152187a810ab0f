# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find steps of Slurm jobs on this node, without asking Slurm."""

from __future__ import annotations

from .host import Host


def running_steps(host: Host) -> int | None:
    """Return the number of job steps here: each has a process slurmstepd. None if /proc shows no process."""
    processes = [name for name in host.listdir("/proc") if name.isdecimal()]
    names = [host.read_text(f"/proc/{name}/comm") for name in processes]
    return sum(1 for name in names if name and name.strip() == "slurmstepd") if processes else None


def jobs_problem(steps: int | None, change: str, option: str) -> str | None:
    """Return why ``change`` must wait for running jobs; None without a step. ``option`` is the switch that allows it.

    ``steps`` is the result of ``running_steps``; an unknown number also refuses.
    """
    if steps == 0:
        return None
    found = "it is not known whether Slurm jobs run" if steps is None else f"{steps} steps of Slurm jobs run"
    return (
        f"{change} would change what running Slurm jobs use, and nothing was done ({found} here): drain the node and "
        f"wait for its jobs, or set {option}: false"
    )
