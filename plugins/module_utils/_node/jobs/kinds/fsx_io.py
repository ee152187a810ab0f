# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job kind: the shared file system, by IOR and mdtest."""

from __future__ import annotations

import json
import posixpath
import re

from ...system.host import Host
from ...verdict import result
from ...verdict.evidence import is_integer
from .. import verify_io as io
from ..job import Job
from ..kind import Kind, Values
from ..options import COUNT, MIB_PER_SECOND, PATH, Option, Type
from ..step import srun
from ..work import JobError, Work

_RAN = ("size", "memory", "ior", "mdtest")
_MEMORY = re.compile(r"^MemTotal:\s+(\d+) kB", re.MULTILINE)
MIB = 1 << 20
PROGRAMS = "build IOR once on the shared file system, and set slurm_jobs_ior and slurm_jobs_mdtest"


def fill(values: Values, settings: Values) -> Values:
    """Return the directory of results if the job names none."""
    return {} if values["directory"] else {"directory": f"{settings['dir']}/results"}


def run(work: Work) -> None:
    """Run IOR and mdtest over all nodes in a directory of this job."""
    spec, values = work.spec, work.spec.values
    for tool in ("ior", "mdtest"):
        work.require(spec.tools[tool], PROGRAMS)
    found = _MEMORY.search(work.host.read_text("/proc/meminfo") or "")
    if not found:
        raise JobError("/proc/meminfo has no MemTotal, and the files must be larger than the memory: look at this node")
    memory = int(found.group(1)) * 1024
    # Whole transfers of 1 MiB, together more than the memory of a node.
    block = memory * values["memory_percent"] // 100 // spec.tasks // MIB + 1
    # The name is unique, so the directory may be removed without checking its owner.
    place = posixpath.join(values["directory"], f"mlcluster-io-{work.unique}")
    launch = srun(ntasks=len(work.nodes) * spec.tasks, ntasks_per_node=spec.tasks, mpi=spec.mpi, kill_on_bad_exit=1)
    # The files have terabytes, for which the site pays.
    with work.place(place, "set directory to one on the shared file system that you may write to"):
        work.run("lfs", "getstripe", "-d", place, stdout=work.file("stripes.txt"), stderr="/dev/null")
        ior = work.run(
            # -C -Q: each task reads what a task of another node wrote. -e: the write ends when the data are on the
            # servers.
            *(*launch, spec.tools["ior"], "-a", "POSIX", "-w", "-r", "-e", "-F", "-C", "-Q", str(spec.tasks)),
            *("-t", "1m", "-b", f"{block}m", "-o", f"{place}/ior"),
            *("-O", "summaryFormat=JSON", "-O", f"summaryFile={work.file('ior.json')}"),
            stdout=work.file("ior.out"),
            stderr=work.file("ior.out"),
        )
        mdtest = work.run(
            *(*launch, spec.tools["mdtest"], "-F", "-u", "-n", str(values["items"]), "-d", f"{place}/mdtest"),
            stdout=work.file("mdtest.out"),
            stderr=work.file("mdtest.out"),
        )
        ran = {"size": block * spec.tasks * MIB, "memory": memory, "ior": ior, "mdtest": mdtest}
        work.write("ran.json", json.dumps(ran) + "\n")


def judge_fsx_io(job: Job, host: Host) -> list[result.Result]:
    """Return the verdicts on IOR and mdtest, and on whether their figures prove anything."""
    ran = host.read_json(posixpath.join(job.results, "ran.json"))
    if not isinstance(ran, dict) or not all(is_integer(ran.get(key)) for key in _RAN):
        return [result.undeterminable("io.ior.write", "not_run", message="the job ended before IOR and mdtest did")]
    minima = {"write": job.asked["least_write_mib"], "read": job.asked["least_read_mib"]}
    ior = host.read_text(posixpath.join(job.results, "ior.json"))
    mdtest = host.read_text(posixpath.join(job.results, "mdtest.out"))
    other = io.ior_problem(ior, len(job.nodes), job.tasks)
    stripes = host.read_text(posixpath.join(job.results, "stripes.txt"))
    striped = (
        result.passed("io.stripes", stripes.strip()[:2000], message="see stripes.txt")
        if stripes and stripes.strip()
        else result.not_applicable("io.stripes", "no_lustre", message="lfs reported nothing for the directory")
    )
    return [
        *io.judge_ior(io.ior_figures(ior), minima, ran["ior"], other),
        io.judge_cache(ran["size"], ran["memory"], len(job.nodes), other),
        io.judge_mdtest(io.mdtest_figures(mdtest), ran["mdtest"], io.mdtest_problem(mdtest, len(job.nodes), job.tasks)),
        striped,
    ]


KIND = Kind(
    "Is the shared file system fast enough, without reads from memory?",
    "IOR and mdtest on the shared file system are fast enough, with more data than a node's memory; each task "
    "reads the data of another node. Stripes are recorded; files are removed, except after a kill. `directory` is "
    "by default that of results",
    run=run,
    judge=judge_fsx_io,
    minutes=120,
    mpi=True,
    options={
        "directory": Option(PATH, ""),
        "memory_percent": Option(Type(COUNT.accepts, "a percentage of a node's memory"), 110),
        "items": Option(COUNT, 1000),
        "least_write_mib": Option(MIB_PER_SECOND, 0),
        "least_read_mib": Option(MIB_PER_SECOND, 0),
    },
    asked=("least_write_mib", "least_read_mib"),
    tools=("ior", "mdtest"),
    fill=fill,
)
