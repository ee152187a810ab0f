# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kind of job: the local disks of each node, by fio."""

from __future__ import annotations

import posixpath

from ...system.host import Host
from ...verdict import result
from .. import verify_io as io
from ..job import Job
from ..kind import Kind, Values
from ..options import COUNT, PATHS, SECONDS, SIZE, Option, Type, whole


def fill(values: Values, settings: Values) -> Values:
    """Return the local directory of the role where the job names none."""
    return {} if values["directories"] else {"directories": [settings["local_dir"]]}


def judge_local_io(job: Job, host: Host) -> list[result.Result]:
    """fio on each place of each node, against the median of the nodes."""
    figures: dict[str, dict[str, float | str]] = {}
    for at, place in enumerate(job.asked["directories"]):
        for mode in io.MEASURES:
            figures[f"{place} {mode}"] = {
                node: io.fio_figure(host.read_text(posixpath.join(job.results, f"fio-{at}-{mode}-{node}.json")), mode)
                for node in job.nodes
            }
    return io.judge_fio(figures, float(job.asked["median_percent"]))


KIND = Kind(
    "Are the local disks of each node as fast as those of the others?",
    "fio on the local disks of every node, past the page cache; a node below the median of at least three fails. "
    "`directories` is by default `slurm_jobs_local_dir`",
    judge=judge_local_io,
    nodes="all",
    tasks="one",
    minutes=30,
    options={
        "directories": Option(PATHS, []),
        "size": Option(Type(SIZE.accepts, "bytes, such as 4G"), "4G"),
        "seconds": Option(SECONDS, 30),
        "processes": Option(COUNT, 4),
        "median_percent": Option(Type(lambda value: whole(value) and value < 100, "a percentage below 100"), 20),
    },
    asked=("directories", "median_percent"),
    tools=("fio",),
    fill=fill,
)
