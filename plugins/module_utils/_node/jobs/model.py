# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The data model of the role slurm_jobs: from a cluster and a list of jobs to the content of each script. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..._data import instance_types
from ..efa import environment as nccl_env
from ..slurm import request as slurm_request
from ..system.host import NodeError
from . import mounts
from .kind import Kind
from .kinds import JOB_KINDS
from .model_problems import shape_problems
from .spec import Container, Spec

Job = dict[str, Any]
# Slurm's names of the launch types of Open MPI programs, best first (Slurm's MPI guide).
MPI_TYPES = ("pmix", "pmi2")
NEURON_TYPE = "trn1.32xlarge"


def model(settings: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return ``jobs`` (the content of each script) and ``problems`` (one sentence each; with any, ``jobs`` is empty).

    ``settings`` are the role's variables without their prefix; ``facts`` is what ``slurm_info`` returned, None if it
    has not run yet.
    """
    if settings.get("gpus_per_node") == "":
        # Without a number the role sets None, which ansible-core before 2.19 renders as an empty string.
        settings = {**settings, "gpus_per_node": None}
    problems = list(shape_problems(settings))
    if problems:
        return {"jobs": [], "problems": problems}
    jobs = []
    for requested in settings["jobs"]:
        kind = JOB_KINDS[requested["kind"]]
        if kind.accelerator and _accelerator(settings) not in (None, kind.accelerator):
            continue
        try:
            job = _job(settings, requested, kind, facts)
        except NodeError as exc:
            problems.append(f"job {requested['name']}: {exc}")
            continue
        jobs.append(job)
        if facts is not None:
            problems += [f"job {requested['name']}: {problem}" for problem in _cluster_problems(job, facts)]
    return {"jobs": [] if problems else jobs, "problems": problems}


def _accelerator(settings: Mapping[str, Any]) -> str | None:
    known = instance_types.lookup(settings.get("instance_type"))
    return ((known or {}).get("accelerators") or {}).get("kind")


def _known(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return instance_types.lookup(settings.get("instance_type")) or {}


def per_node(settings: Mapping[str, Any], partition: str, facts: Mapping[str, Any] | None) -> int:
    """Return the accelerators of a node: as set, or of the instance type, or of the partition's nodes; else 0."""
    if settings.get("gpus_per_node") is not None:
        return int(settings["gpus_per_node"])
    accelerators = _known(settings).get("accelerators") or {}
    if accelerators:
        return int(accelerators["count"])
    counts = [node["gpus"] for node in _nodes(partition, facts)]
    return min(counts, default=0)


def _nodes(partition: str, facts: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    if facts is None:
        return []
    chosen = slurm_request.chosen_partitions({"partition": partition or None}, facts)
    names = {entry["name"] for entry in chosen}
    return [node for node in facts["nodes"] if names & set(node["partitions"])]


def _mpi(settings: Mapping[str, Any], facts: Mapping[str, Any] | None) -> str:
    """Return the value of ``srun --mpi``. Raises NodeError if the cluster offers no suitable type."""
    wanted = settings["mpi"]
    offered = None if facts is None else facts["mpi_types"]
    if wanted != "auto":
        if offered is not None and wanted not in offered:
            raise NodeError(f"mpi is {wanted} and srun offers {', '.join(offered) or 'nothing'}: choose one of those")
        return str(wanted)
    if offered is None:
        return MPI_TYPES[0]
    for name in MPI_TYPES:
        if name in offered:
            return name
    raise NodeError(
        f"its ranks connect over {' or '.join(MPI_TYPES)}, and srun offers {', '.join(offered) or 'nothing'}: "
        "install Slurm's PMIx plugin"
    )


def _environment(settings: Mapping[str, Any], kind: Kind, container: bool) -> list[str]:
    """Return NAME=value for the tasks, from the collection's table. Raises NodeError for a harmful variable."""
    if kind.use is None:
        return []
    known = _known(settings)
    versions = {key: str(value) for key, value in settings["versions"].items() if value}
    # The table's values for Neuron are the same for every instance type with EFA.
    family = NEURON_TYPE if kind.accelerator == "neuron" else None
    setting = nccl_env.Setting(
        instance_type=settings.get("instance_type") or family, use="container" if container else kind.use, **versions
    )
    nccl_options = nccl_env.Options(
        debug=kind.debug,
        # A test must not fall back to sockets silently.
        pin_network=kind.debug == "INFO" and instance_types.has_efa(known),
        extra=dict(settings["environment"]),
    )
    found: Mapping[str, str] = nccl_env.render(setting, nccl_options)["variables"]
    return [f"{name}={value}" for name, value in found.items()]


def _job(settings: Mapping[str, Any], requested: Mapping[str, Any], kind: Kind, facts: Mapping[str, Any] | None) -> Job:
    name, base = requested["name"], settings["dir"]
    partition = requested.get("partition") or settings["partition"]
    gpus = per_node(settings, partition, facts)
    values = kind.values(requested)
    tasks = 1 if kind.tasks == "one" or values.get("launcher") == "torchrun" else max(gpus, 1)
    values.update(kind.fill(values, settings))
    image = requested.get("container_image", settings["container_image"]) if kind.container != "never" else ""
    if kind.container == "always" and not image:
        raise NodeError("it runs in a container and none is named: set container_image")
    nodes = requested.get("nodes", kind.nodes)
    if nodes == "all":
        nodes = max(len(_nodes(partition, facts)), 1)
    job: Job = {
        "name": name,
        "kind": requested["kind"],
        "title": kind.title,
        "dir": base,
        "python": settings["python"],
        "path": f"{base}/{name}.sbatch",
        "array": kind.array,
        "judged": kind.judge is not None,
        "output": f"{base}/results/{name}-{'%A_%a' if kind.array else '%j'}.out",
        "exit_file": f"{base}/results/{name}-{'%A_%a' if kind.array else '%j'}.exit",
        "nodes": nodes,
        "tasks": tasks,
        "gpus": gpus,
        "mpi": _mpi(settings, facts) if kind.mpi else "none",
        "environment": _environment(settings, kind, bool(image)),
        "image": image,
        "instance_type": settings.get("instance_type") or "",
        "mounts": _mounts(settings, requested, kind, values) if image else [],
        "workdir": values.get("directory") or base,
        "values": values,
        "tools": {tool: settings[tool] for tool in kind.tools},
        "needs": list(_needs(settings, kind, values, image)),
        "asked": json.dumps(_asked(settings, requested, kind, gpus, tasks, values), sort_keys=True),
    }
    job["directives"] = _directives(settings, requested, kind, job)
    job["spec"] = _spec(settings, job)
    return job


def _spec(settings: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, str]:
    """Return the file beside the script: its path, its text, and the first digits of the text's SHA-256."""
    container = Container(job["image"], tuple(job["mounts"]), job["workdir"]) if job["image"] else None
    spec = Spec(
        **{key: job[key] for key in ("name", "kind", "dir", "python", "nodes", "tasks", "gpus", "mpi")},
        environment=dict(variable.split("=", 1) for variable in job["environment"]),
        container=container,
        scratch=settings.get("scratch") or "",
        sbatch=tuple(line["name"] for line in job["directives"]),
        values=job["values"],
        tools=job["tools"],
        asked=json.loads(job["asked"]),
    )
    text = spec.text()
    # In the script, so that two jobs of one script only count as the same if they run the same.
    return {"path": spec.path, "text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()[:16]}


def _needs(settings: Mapping[str, Any], kind: Kind, values: Mapping[str, Any], image: str) -> Iterator[tuple[str, str]]:
    """Yield what the job requires, as (program, directory, file or image, absolute path)."""
    wanted = [("program", program) for program in kind.needed_programs(values, settings, image)]
    wanted += [("directory", values["directory"])] if values.get("directory") else []
    wanted += [("file", settings["baseline"])] if settings["baseline"] and kind.baseline else []
    wanted += [("image", image)] if image else []
    yield from ((what, path) for what, path in wanted if path.startswith("/") and "\n" not in path)


def _mounts(
    settings: Mapping[str, Any], requested: Mapping[str, Any], kind: Kind, values: Mapping[str, Any]
) -> list[str]:
    """Return the mounts of the job's containers. Raises NodeError if they do not cover the paths of the job."""
    paths = [mounts.Path("slurm_jobs_dir", settings["dir"], True)]
    paths += [
        mounts.Path(option, values[option], written)
        for option, written in kind.paths.items()
        # An option may also be no path, such as a tokenizer of the hub or a prefix in S3.
        if str(values[option]).startswith("/")
    ]
    return mounts.container_mounts(paths, requested.get("container_mounts", settings["container_mounts"]))


def _asked(
    settings: Mapping[str, Any],
    requested: Mapping[str, Any],
    kind: Kind,
    gpus: int,
    tasks: int,
    values: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the facts that the verdict needs and that no output contains."""
    return {
        "kind": requested["kind"],
        "name": requested["name"],
        "tasks_per_node": tasks,
        "gpus_per_node": gpus,
        "instance_type": settings.get("instance_type") or None,
        "tolerance_percent": settings["tolerance_percent"],
        "baseline": settings["baseline"] or None,
        **{key: values[key] for key in kind.asked},
    }


def _directives(
    settings: Mapping[str, Any], requested: Mapping[str, Any], kind: Kind, job: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the #SBATCH lines in order: name, and value (None for an option without a value)."""
    lines: dict[str, Any] = {
        "job-name": job["name"],
        "nodes": job["nodes"],
        "ntasks-per-node": job["tasks"],
        **_share(kind, job["values"]),
        "time": requested.get("minutes", kind.minutes),
        "output": job["output"],
        "chdir": settings["dir"],
    }
    if job["gpus"] and _accelerator(settings) != "neuron" and not kind.array:
        lines["gpus-per-node"] = job["gpus"]
    for key in ("partition", "account", "qos", "constraint"):
        value = requested.get(key) or settings.get(key)
        if value:
            lines[key] = value
    lines["requeue" if kind.requeue else "no-requeue"] = None
    if kind.signal and job["values"]["signal_seconds"]:
        lines["signal"] = f"B:USR1@{job['values']['signal_seconds']}"
    # A cluster with a new head node counts its jobs from 1 again, and truncating is Slurm's default.
    lines["open-mode"] = "append"
    for key, value in slurm_request.parse_options(requested.get("options", {})).items():
        lines[key] = value
    return [{"name": key, "value": value} for key, value in lines.items()]


def _share(kind: Kind, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for a job's share of its nodes: whole nodes, or the requested cores."""
    if kind.array:
        # Submitted unchanged, the single task does all the work; the script itself determines the number of tasks.
        return {"cpus-per-task": values["cpus_per_task"], "array": 0}
    # All the memory of the nodes: with memory-based scheduling a job otherwise gets the default share.
    return {"exclusive": None, "mem": 0}


def _cluster_problems(job: Job, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons why this cluster cannot run a job with valid settings."""
    options = {line["name"]: None if line["value"] is None else str(line["value"]) for line in job["directives"]}
    huge = slurm_request.huge_problems(options)
    if huge:
        yield from huge
        return
    yield from slurm_request.partition_problems(options, facts)
    yield from slurm_request.account_problems(options, facts)
    yield from slurm_request.other_problems(options, facts)
    if job["image"] and not facts["container_options"]:
        yield "it runs in a container and srun offers no --container-image here: enable Pyxis first"
