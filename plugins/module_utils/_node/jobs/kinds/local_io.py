# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job kind: the local disks of each node, by fio."""

from __future__ import annotations

import posixpath
import typing as t

from ...system.host import Host
from ...verdict import result
from .. import verify_io as io
from ..job import Job
from ..kind import Kind, Values
from ..options import COUNT, PATHS, SECONDS, SIZE, Option, Type, whole
from ..step import each_node
from ..work import JobError, Work

ABSENT = "on every node as a directory that you may write to: set slurm_jobs_local_dir to what they have"
PROGRAM = (
    "install the package fio, as tasks_from node_tools of the role slurm_jobs does on each node, or set slurm_jobs_fio "
    "or slurm_jobs_build"
)


def fill(values: Values, settings: Values) -> Values:
    """Return the local directory of the role if the job names none."""
    return {} if values["directories"] else {"directories": [settings["local_dir"]]}


def run(work: Work) -> None:
    """Measure each directory on all nodes at once."""
    work.require(work.spec.tools["fio"], PROGRAM)
    everywhere = each_node(work.nodes)
    for at, directory in enumerate(work.spec.values["directories"]):
        if work.run(*everywhere, "test", "-d", directory, "-a", "-w", directory):
            raise JobError(f"{directory} is not {ABSENT}")
        # The name is unique, so the directory may be removed without checking its owner.
        place = posixpath.join(directory, f"mlcluster-fio-{work.unique}")
        work.on_each_node(str(at), place)


def measure(work: Work, words: t.Sequence[str]) -> int:
    """Run fio in a directory of this node, then remove it here, since a job that is being ended cannot start a step."""
    (at, place), values, status = words, work.spec.values, 0
    with work.place(place, "set slurm_jobs_local_dir to a directory that you may write to"):
        for mode in io.MEASURES:
            prefix = work.file(f"fio-{at}-{mode}-{work.nodes[0]}")
            status = work.run(
                *(work.spec.tools["fio"], "--name=data", f"--directory={place}"),
                # Without the page cache, so that the disks are measured instead of the memory.
                *("--direct=1", "--ioengine=libaio", "--iodepth=32", f"--size={values['size']}"),
                *(f"--numjobs={values['processes']}", "--time_based", f"--runtime={values['seconds']}"),
                *("--group_reporting", "--output-format=json"),
                *(f"--rw={mode}", "--bs=4k" if mode == "randread" else "--bs=1M"),
                stdout=f"{prefix}.json",
                stderr=f"{prefix}.err",
            )
    return status


def judge_local_io(job: Job, host: Host) -> list[result.Result]:
    """Return the verdicts on fio in each place of each node, against the median of the nodes."""
    figures: dict[str, dict[str, float | str]] = {}
    for at, place in enumerate(job.asked["directories"]):
        for mode in io.MEASURES:
            figures[f"{place} {mode}"] = {
                node: io.fio_figure(host.read_text(posixpath.join(job.results, f"fio-{at}-{mode}-{node}.json")), mode)
                for node in job.nodes
            }
    return io.judge_fio(figures, float(job.asked["median_percent"]))


KIND = Kind(
    "Are the local disks of each node as fast as those of other nodes?",
    "the local disks of every node are fast enough, by fio without the page cache; a node below the median of at "
    "least three fails. `directories` is by default `slurm_jobs_local_dir`",
    run=run,
    on_node=measure,
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
