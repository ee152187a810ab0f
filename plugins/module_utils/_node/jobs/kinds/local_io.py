# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job kind: the local disks of each node, by fio."""

from __future__ import annotations

import json
import posixpath
import typing as t

from ...gds.mount import block_devices, resolve
from ...system.host import Host, NodeError
from ...system.mounts import read_mounts
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


def look_place(host: Host, path: str) -> dict[str, t.Any]:
    """Return the file system and the disks of a directory of this node, or the ``problem`` without ``disks``."""
    try:
        mounts = read_mounts(host)
    except NodeError as exc:
        return {"problem": str(exc), "disks": []}
    devices = block_devices(host)
    found, root = (resolve(one, mounts, devices) for one in (host.realpath(path), "/"))
    # A bind mount of a directory of the root file system has a mount point of its own.
    same = found["mount_point"] == "/" or (found["kname"] is not None and found["kname"] == root["kname"])
    return {
        "root": same,
        "mount_point": found["mount_point"],
        "fstype": found["fstype"],
        "disks": [{"kname": disk["kname"], "model": disk["model"]} for disk in found["disks"]],
    }


def measure(work: Work, words: t.Sequence[str]) -> int:
    """Run fio in a directory of this node, then remove it here, since a job that is being ended cannot start a step."""
    (at, place), values, status = words, work.spec.values, 0
    with work.place(place, "set slurm_jobs_local_dir to a directory that you may write to"):
        # Only this node sees its mounts.
        found = {} if work.dry else look_place(work.host, place)
        work.write(f"place-{at}-{work.nodes[0]}.json", json.dumps(found) + "\n")
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
    """Return the verdicts on fio in each place of each node, against the median of the nodes.

    Figures of a place that is not on local disks are left out: they prove nothing about these.
    """
    results: list[result.Result] = []
    figures: dict[str, dict[str, float | str]] = {}
    for at, place in enumerate(job.asked["directories"]):
        records = {node: host.read_json(posixpath.join(job.results, f"place-{at}-{node}.json")) for node in job.nodes}
        verdicts, proved = io.judge_places(place, records)
        results += verdicts
        for mode in io.MEASURES:
            figures[f"{place} {mode}"] = {
                node: io.fio_figure(host.read_text(posixpath.join(job.results, f"fio-{at}-{mode}-{node}.json")), mode)
                for node in job.nodes
                if node in proved
            }
    return results + io.judge_fio(figures, float(job.asked["median_percent"]))


KIND = Kind(
    "Are the local disks of each node as fast as those of other nodes?",
    "the local disks of every node are fast enough, by fio without the page cache; a node below the median of at "
    "least three fails. A directory that is not on the instance store, such as one of the root disk, proves nothing. "
    "`directories` is by default `slurm_jobs_local_dir`",
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
