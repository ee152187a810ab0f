# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short functions for tests that submit jobs to a cluster of the rig and wait for them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .cluster import Cluster
from .processes import LIMIT, RigError, tail, wait_for

ENDED = frozenset("BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT".split())


class Job(NamedTuple):
    """Slurm's record of a job: state, exit status and signal of its batch script, nodes, and its output."""

    number: int
    state: str
    exit_code: int
    signal: int
    nodes: str
    output: str


def submit(cluster: Cluster, script: str, *options: str) -> int:
    """Submit the text of a script with these options of sbatch; return the job's number.

    Without the option ``--output`` the job writes to ``<root>/output/<number>``.
    """
    folder = cluster.root / "output"
    folder.mkdir(exist_ok=True)
    own = [] if any(option.startswith(("-o", "--output")) for option in options) else [f"--output={folder}/%j"]
    with tempfile.NamedTemporaryFile("w", suffix=".sh", dir=folder, encoding="utf-8") as file:
        file.write(script if script.startswith("#!") else f"#!/bin/bash\n{script}\n")
        file.flush()
        return int(cluster.run("sbatch", "--parsable", *own, *options, file.name).stdout.split(";")[0])


def look(cluster: Cluster, number: int) -> Job:
    """Return the current record of a job. Raises RigError if Slurm does not know the job."""
    text = cluster.run("scontrol", "--oneliner", "show", "job", str(number)).stdout
    found = dict(word.split("=", 1) for word in text.split() if "=" in word)
    code, _sep, signal = found["ExitCode"].partition(":")
    output = Path(found.get("StdOut", "/nonexistent"))
    return Job(
        number,
        found["JobState"],
        int(code),
        int(signal),
        found.get("NodeList", ""),
        output.read_text(encoding="utf-8", errors="replace") if output.is_file() else "",
    )


def ended(cluster: Cluster, number: int) -> Callable[[], str]:
    """Return a function for ``over`` of wait_for: it returns the job's state and output once the job has ended."""

    def over() -> str:
        job = look(cluster, number)
        return f"the job has ended: {job}" if job.state in ENDED else ""

    return over


def wait(cluster: Cluster, number: int, *states: str, timeout: float = LIMIT) -> Job:
    """Wait until the job is in one of the states (any final one by default).

    Raises RigError with the job, the nodes and the end of the controller's log.
    """
    wanted = frozenset(states) or ENDED
    what = " or ".join(sorted(wanted))

    def there() -> Job | None:
        job = look(cluster, number)
        if job.state in ENDED - wanted:
            raise RigError(f"job {number} was waited for to be {what}, and has ended")
        return job if job.state in wanted else None

    try:
        return wait_for(f"job {number} to be {what}", there, timeout, poll=0.1)
    except RigError as exc:
        nodes = cluster.run("sinfo", "--noheader", "--Node", "--format=%N %T %E", check=False).stdout.strip()
        log = tail(cluster.root / "log/slurmctld.log", 30)
        raise RigError(f"{exc}; it is {look(cluster, number)}; the nodes:\n{nodes}\nslurmctld:\n{log}") from exc


def finish(cluster: Cluster, script: str, *options: str, timeout: float = LIMIT) -> Job:
    """Submit a script and wait for its end."""
    return wait(cluster, submit(cluster, script, *options), timeout=timeout)


def rest(cluster: Cluster) -> None:
    """Cancel all jobs and resume all nodes, for the next test.

    A failed Prolog drains its node twice: by itself, and by slurmd's report, which may come late.
    """
    nodes = cluster.record.spec.names

    def gone() -> bool:
        left = cluster.run("squeue", "--noheader", "--format=%A %T").stdout.split("\n")[:-1]
        for number in [line.split()[0] for line in left if not line.endswith("COMPLETING")]:
            cluster.run("scancel", number, check=False)
        return not left

    def idle() -> bool:
        for node in sorted(set(nodes) - set(cluster.nodes_in("idle"))):
            cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        return cluster.nodes_in("idle") == nodes

    wait_for("every job to be gone", gone)
    wait_for("every node to be idle", idle)


def release(cluster: Cluster, number: int) -> None:
    """Let a requeued job start soon; by default Slurm waits two minutes, so that nodes can clean up the first run."""
    cluster.run("scontrol", "update", f"JobId={number}", "StartTime=now+5")
