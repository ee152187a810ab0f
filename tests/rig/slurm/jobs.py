# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Submit a job to a cluster of the rig and see what became of it, the short way, for tests."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from .cluster import Cluster
from .processes import LIMIT, RigError, tail, wait_for

ENDED = frozenset("BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT".split())


class Job(NamedTuple):
    """What Slurm says of a job: state, exit status and signal of its batch script, nodes, and what it wrote."""

    number: int
    state: str
    exit_code: int
    signal: int
    nodes: str
    output: str


def submit(cluster: Cluster, script: str, *options: str) -> int:
    """Submit a script given as text, with more options of sbatch; gives the job's number.

    Without `--output` among the options it writes to `<root>/output/<number>`.
    """
    folder = cluster.root / "output"
    folder.mkdir(exist_ok=True)
    own = [] if any(option.startswith(("-o", "--output")) for option in options) else [f"--output={folder}/%j"]
    with tempfile.NamedTemporaryFile("w", suffix=".sh", dir=folder, encoding="utf-8") as file:
        file.write(script if script.startswith("#!") else f"#!/bin/bash\n{script}\n")
        file.flush()
        return int(cluster.run("sbatch", "--parsable", *own, *options, file.name).stdout.split(";")[0])


def look(cluster: Cluster, number: int) -> Job:
    """The job as it is now. Raises RigError when Slurm does not know it."""
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


def wait(cluster: Cluster, number: int, *states: str, timeout: float = LIMIT) -> Job:
    """Wait until the job is in one of the states (any final one by default).

    Raises RigError with the job, the nodes and the end of the controller's log.
    """
    wanted = frozenset(states) or ENDED

    def there() -> Job | None:
        job = look(cluster, number)
        return job if job.state in wanted else None

    try:
        return wait_for(f"job {number} to be {' or '.join(sorted(wanted))}", there, timeout, poll=0.1)
    except RigError as exc:
        nodes = cluster.run("sinfo", "--noheader", "--Node", "--format=%N %T %E", check=False).stdout.strip()
        log = tail(cluster.root / "log/slurmctld.log", 30)
        raise RigError(f"{exc}; it is {look(cluster, number)}; the nodes:\n{nodes}\nslurmctld:\n{log}") from exc


def finish(cluster: Cluster, script: str, *options: str, timeout: float = LIMIT) -> Job:
    """Submit a script and wait for its end."""
    return wait(cluster, submit(cluster, script, *options), timeout=timeout)


def release(cluster: Cluster, number: int) -> None:
    """Let a requeued job start now: Slurm holds it back for two minutes."""
    cluster.run("scontrol", "update", f"JobId={number}", "StartTime=now")
