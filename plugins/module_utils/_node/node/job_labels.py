# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs by GPU of this node, for the labels of metrics.

A Prolog adds a job, an Epilog removes it. Neither is reliable: a job is shown only while it has a process here or
Slurm reports that it runs here. Everything is below ``/run``, so nothing outlives a boot.

    /run/mlcluster/jobs/4711.json  the job, for root only
    /run/mlcluster/gpu-jobs/0      numbers of the jobs on GPU 0, a line each: the format of dcgm-exporter's
                                   --hpc-job-mapping-dir
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ..slurm import parse
from ..slurm.client import Slurm, node_name, unknown_job
from ..slurm.look import ON_NODES
from ..system.host import Host, NodeError

DIRECTORY = "/run/mlcluster"
SCHEMA = "mlcluster.job_labels/1"
# A job that an earlier version recorded still runs after an upgrade.
READABLE = (SCHEMA, "mlcluster.job/1")
MAX_GPUS = 64
# The title of the process that slurmd starts for each step of a job.
_STEP = re.compile(r"slurmstepd: \[(\d{1,10})\.")


@dataclasses.dataclass(frozen=True)
class Job:
    """A job on this node: its GPUs by index; name is None until Slurm has reported it."""

    job_id: int
    user: str
    gpus: tuple[int, ...]
    name: str | None = None


def parse_gpus(text: str) -> tuple[int, ...]:
    """Return the GPUs in ``SLURM_JOB_GPUS``; other words, such as a MIG instance, are skipped."""
    words = [word.strip() for word in text.split(",")]
    return tuple(sorted({int(word) for word in words if re.fullmatch(r"[0-9]{1,2}", word) and int(word) < MAX_GPUS}))


def add(host: Host, job: Job, directory: str = DIRECTORY) -> None:
    """Record a job and publish it. Raises ``NodeError``."""
    _write(host, job, directory)
    publish(host, known(host, directory), directory)


def remove(host: Host, job_id: int, directory: str = DIRECTORY) -> None:
    """Remove the record of a job. Raises ``NodeError``."""
    try:
        host.remove(f"{directory}/jobs/{job_id}.json")
    except OSError as exc:
        raise NodeError(f"could not remove the label of job {job_id} ({exc.strerror}): run as root") from exc
    publish(host, known(host, directory), directory)


def known(host: Host, directory: str = DIRECTORY) -> list[Job]:
    """Return the recorded jobs by number; other files are skipped."""
    found = []
    for name in host.listdir(f"{directory}/jobs"):
        if not re.fullmatch(r"[1-9][0-9]{0,9}\.json", name):
            continue
        data = host.read_json(f"{directory}/jobs/{name}")
        if isinstance(data, dict) and data.get("schema") in READABLE and isinstance(data.get("gpus"), list):
            gpus = tuple(gpu for gpu in data["gpus"] if _is_gpu(gpu))
            label = data.get("name")
            found.append(Job(int(name[:-5]), str(data.get("user")), gpus, label if isinstance(label, str) else None))
    return sorted(found, key=lambda job: job.job_id)


def _is_gpu(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_GPUS


def refresh(host: Host, slurm: Slurm, seconds: float, directory: str = DIRECTORY) -> list[Job]:
    """Return the jobs that are proved to run here, with their names; records of ended jobs are removed.

    Slurm is asked once for each job's name, and again only for a job without a process here. A job without an answer of
    Slurm is left out, and its record is kept.
    """
    running = steps(host)
    labels = []
    for job in known(host, directory):
        live: bool | None = job.job_id in running
        if not live or job.name is None:
            reported, name = ask(slurm, job.job_id, seconds)
            live = live or reported
            if name is not None and job.name is None:
                job = dataclasses.replace(job, name=name)
                _write(host, job, directory)
        if live is False:
            remove(host, job.job_id, directory)
        elif live:
            labels.append(job)
    publish(host, labels, directory)
    return labels


def steps(host: Host) -> set[int]:
    """Return the jobs with a step on this node."""
    found = set()
    for pid in host.listdir("/proc"):
        if pid.isdecimal() and (host.read_text(f"/proc/{pid}/comm") or "").strip() == "slurmstepd":
            title = _STEP.match((host.read_text(f"/proc/{pid}/cmdline") or "").replace("\0", " "))
            if title:
                found.add(int(title.group(1)))
    return found


def ask(slurm: Slurm, job_id: int, seconds: float) -> tuple[bool | None, str | None]:
    """Return whether Slurm has the job on this node (None: unknown), and its name."""
    try:
        completed = slurm.run("scontrol", "--oneliner", "show", "job", str(job_id), timeout=seconds)
        if unknown_job(completed):
            return False, None
        if completed.rc != 0:
            return None, None
        # For the first task of an array Slurm shows all tasks.
        own = [job for job in parse.jobs(completed.stdout, job_id) if job["job_id"] == job_id]
    except NodeError:
        return None, None
    if len(own) != 1:
        return None, None
    on_node = own[0]["state"] in ON_NODES.split(",") and node_name() in parse.expand(own[0]["nodes"])
    return on_node, own[0]["name"] or ""


def publish(host: Host, jobs: t.Sequence[Job], directory: str = DIRECTORY) -> None:
    """Write the file of each GPU, and remove those of GPUs without a job. Raises ``NodeError``."""
    place = f"{directory}/gpu-jobs"
    wanted: dict[str, str] = {}
    for job in jobs:
        for gpu in job.gpus:
            wanted[str(gpu)] = wanted.get(str(gpu), "") + f"{job.job_id}\n"
    try:
        for name in host.listdir(place):
            if name not in wanted:
                host.remove(f"{place}/{name}")
        for name, text in wanted.items():
            if host.read_text(f"{place}/{name}") != text:
                host.write_text(f"{place}/{name}", text, 0o644)
    except OSError as exc:
        raise NodeError(f"could not write {place} ({exc.strerror}): run as root, and look with 'df'") from exc


def _write(host: Host, job: Job, directory: str) -> None:
    document: dict[str, t.Any] = {"schema": SCHEMA, "user": job.user, "gpus": list(job.gpus), "name": job.name}
    path = f"{directory}/jobs/{job.job_id}.json"
    try:
        host.write_text(path, json.dumps(document) + "\n", 0o600)
    except OSError as exc:
        raise NodeError(f"could not write {path} ({exc.strerror or exc}): run as root, and look with 'df'") from exc
