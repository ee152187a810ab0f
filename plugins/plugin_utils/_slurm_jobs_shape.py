# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of jobs, their options, and what is wrong with settings before any cluster is asked. Pure."""

from __future__ import annotations

import dataclasses
import datetime
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types
from ansible_collections.mlcluster.aws.plugins.module_utils._node import slurm_request

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# What stands in a #SBATCH line. Slurm, not a shell, takes it apart there, and blanks, quotes, # and \ mean something.
PLAIN = re.compile(r"[A-Za-z0-9_./%@:,+=&|*!()\[\]-]+")
# nccl-tests takes a number of bytes with one of these units (its common.cu, parsesize).
SIZE = re.compile(r"[1-9][0-9]{0,17}[KMGT]?")
# Names of buckets (Amazon S3 User Guide, bucket naming rules), and keys without what a shell or S3 gives a meaning to.
BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*()=-]+)*")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:?\d\d)", re.ASCII)
VERSION = re.compile(r"[0-9][A-Za-z0-9._]{0,31}")
COMPONENT = re.compile(r"[a-z_]+(=[\w.+-]+)?")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce")
LAYOUTS = ("all", "single", "pairs", "bisect")
# Those of the six that nccom-test has, by its own long names (its user guide, "Required Arguments").
NCCOM_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
GDS_MODES = ("nvfs", "p2pdma", "compat")
COMMON = frozenset(
    "name kind nodes minutes partition account qos constraint options container_image container_mounts".split()
)


@dataclasses.dataclass(frozen=True)
class Kind:
    """What all jobs of a kind share; the template of that name has their commands.

    tasks: "one" or "gpu" a node. use: what the environment is for (None: none is set). container: never, may or always.
    accelerator: the only sort of node it fits. required: options without a default. asked: the options that the verdict
    needs. tools: settings with paths. array: a task for each of many inputs, which shares its node with others.
    """

    title: str
    nodes: int | str = 2
    tasks: str = "gpu"
    minutes: int = 20
    mpi: bool = False
    use: str | None = None
    debug: str | None = None
    container: str = "never"
    accelerator: str | None = None
    requeue: bool = False
    signal: bool = False
    array: bool = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    required: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


KINDS: dict[str, Kind] = {
    "node_smoke": Kind(
        "Do the nodes start tasks, each where it belongs, and do they see the shared directory?", minutes=5
    ),
    "nccl": Kind(
        "NCCL's collectives: right, over EFA, fast enough?",
        minutes=60,
        mpi=True,
        use="mpi",
        debug="INFO",
        container="may",
        accelerator="gpu",
        options={
            "collectives": list(COLLECTIVES),
            "layout": "all",
            "smallest": "8",
            "largest": "16G",
            "factor": 2,
            "iterations": 20,
            "warmup": 5,
            "step_minutes": 15,
        },
        asked=("collectives", "layout"),
        tools=("nccl_tests_dir",),
    ),
    "nccom": Kind(
        "Neuron's collectives: right, over EFA, fast enough?",
        tasks="one",
        minutes=60,
        use="host",
        accelerator="neuron",
        options={
            "collectives": ["all_reduce", "all_gather", "reduce_scatter"],
            "layout": "all",
            "workers_per_node": 0,
            "launch": "slurm",
            "datatype": "fp32",
            "smallest": "8",
            "largest": "1G",
            "factor": 2,
            "iterations": 20,
            "warmup": 5,
            "step_minutes": 15,
            "arguments": [],
        },
        required=("workers_per_node",),
        asked=("collectives", "layout", "workers_per_node"),
        tools=("nccom_test",),
    ),
    "gds_io": Kind(
        "Which way do files reach the GPUs of each node, and how fast?",
        nodes="all",
        tasks="one",
        minutes=30,
        accelerator="gpu",
        options={"mounts": [], "modes": [], "size_mib": 1024, "least_gib": 0},
        required=("mounts",),
        asked=("mounts",),
        tools=("gdsio",),
    ),
    "gpu_efa": Kind("What does each node say of its GPUs, EFA, storage and versions?", tasks="one", minutes=15),
    "container": Kind(
        "Do containers start where their tasks belong, and do they fit their hosts?",
        minutes=30,
        container="always",
        options={"require": ["cuda", "nccl", "plugin", "libfabric", "pytorch"]},
    ),
    "local_io": Kind(
        "Are the local disks of each node as fast as those of the others?",
        nodes="all",
        tasks="one",
        minutes=30,
        options={"directories": [], "size": "4G", "seconds": 30, "processes": 4, "median_percent": 20},
        asked=("directories", "median_percent"),
        tools=("fio",),
    ),
    "fsx_io": Kind(
        "Is the shared file system as fast as it should be, with nothing read from memory?",
        minutes=120,
        mpi=True,
        options={
            "directory": "",
            "memory_percent": 110,
            "items": 1000,
            "least_write_mib": 0,
            "least_read_mib": 0,
        },
        asked=("least_write_mib", "least_read_mib"),
        tools=("ior", "mdtest"),
    ),
    "training": Kind(
        "A training that is told when its time ends, goes back into the queue, and resumes",
        minutes=1440,
        use="host",
        debug="WARN",
        container="may",
        requeue=True,
        signal=True,
        options={
            "command": [],
            "launcher": "torchrun",
            "directory": "",
            "checkpoints": "",
            "marker": "complete",
            "signal_seconds": 600,
            "grace_seconds": 480,
            "requeues": 20,
            "keep": 3,
            "backup": "",
            "monitor_seconds": 30,
            "notice_seconds": 5,
            "ends_at": "",
        },
        required=("command", "checkpoints"),
        tools=("aws",),
    ),
    "preprocess": Kind(
        "Text into shards of tokens, a task for each input, which goes on where it was when it is started again",
        nodes=1,
        tasks="one",
        minutes=240,
        container="may",
        requeue=True,
        array=True,
        options={
            "input": "",
            "output": "",
            "tokenizer": "",
            "limit": 16,
            "tasks": 0,
            "cpus_per_task": 8,
            "spool": "",
            "arguments": [],
        },
        required=("input", "output", "tokenizer"),
        tools=("data_python",),
    ),
}


def _whole(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _path(value: Any) -> bool:
    return (
        isinstance(value, str)
        and posixpath.isabs(value)
        and posixpath.normpath(value) == value != "/"
        and bool(PLAIN.fullmatch(value))
        and "%" not in value
    )


def _time(value: Any) -> bool:
    if not TIME.fullmatch(str(value)):
        return False
    try:
        datetime.datetime.strptime(str(value), "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        return False
    return True


CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "collectives": (
        lambda value: bool(value) and isinstance(value, list) and all(entry in COLLECTIVES for entry in value),
        f"a list of {', '.join(COLLECTIVES)}",
    ),
    "layout": (lambda value: value in LAYOUTS, f"one of {', '.join(LAYOUTS)}"),
    "smallest": (lambda value: bool(SIZE.fullmatch(str(value))), "bytes, such as 8, 64K, 1M or 16G"),
    "largest": (lambda value: bool(SIZE.fullmatch(str(value))), "bytes, such as 8, 64K, 1M or 16G"),
    "factor": (lambda value: _whole(value, 2), "a whole number from 2"),
    "iterations": (_whole, "a whole number from 1"),
    "warmup": (lambda value: _whole(value, 0), "a whole number from 0"),
    "require": (
        lambda value: (
            isinstance(value, list) and all(re.fullmatch(r"[a-z_]+(=[\w.+-]+)?", str(each)) for each in value)
        ),
        "a list of NAME or NAME=VERSION, as mlcluster health --require takes them",
    ),
    "workers_per_node": (_whole, "how many ranks (logical NeuronCores) a node has, such as 32 on trn1.32xlarge"),
    "launch": (lambda value: value in ("slurm", "mpi"), "slurm or mpi, as the nccom-test there is takes it"),
    "datatype": (lambda value: bool(re.fullmatch(r"[a-z]+[0-9]+", str(value))), "a type of nccom-test, such as fp32"),
    "arguments": (
        lambda value: isinstance(value, list) and all(isinstance(each, (str, int)) for each in value),
        "a list of words",
    ),
    "mounts": (
        lambda value: bool(value) and isinstance(value, list) and all(_path(each) for each in value),
        "a list of absolute paths",
    ),
    "modes": (
        lambda value: isinstance(value, list) and all(each in GDS_MODES for each in value),
        f"a list of {', '.join(GDS_MODES)}, any of which will do",
    ),
    "size_mib": (_whole, "a whole number of MiB"),
    "least_gib": (
        lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf"),
        "GiB/s, 0 where it is not known",
    ),
    "directories": (
        lambda value: isinstance(value, list) and all(_path(each) for each in value),
        "a list of absolute paths",
    ),
    "directory": (_path, "an absolute path"),
    "size": (lambda value: bool(SIZE.fullmatch(str(value))), "bytes, such as 4G"),
    "seconds": (_whole, "a whole number of seconds"),
    "processes": (_whole, "a whole number from 1"),
    "median_percent": (lambda value: _whole(value) and value < 100, "a percentage below 100"),
    "memory_percent": (_whole, "a percentage of a node's memory"),
    "items": (_whole, "a whole number from 1"),
    "least_write_mib": (lambda value: _whole(value, 0), "a whole number of MiB/s, 0 where it is not known"),
    "least_read_mib": (lambda value: _whole(value, 0), "a whole number of MiB/s, 0 where it is not known"),
    "command": (
        lambda value: bool(value) and isinstance(value, list) and all(isinstance(each, (str, int)) for each in value),
        "the program and its arguments as a list",
    ),
    "launcher": (lambda value: value in ("torchrun", "srun"), "torchrun or srun"),
    "checkpoints": (_path, "an absolute path on the shared file system"),
    "marker": (lambda value: bool(NAME.fullmatch(str(value))), "the name of a file"),
    "signal_seconds": (lambda value: _whole(value, 0) and value <= 65535, "seconds up to 65535, 0 for no signal"),
    "grace_seconds": (_whole, "a whole number of seconds"),
    "requeues": (lambda value: _whole(value, 0), "a whole number from 0"),
    "keep": (_whole, "a whole number from 1"),
    "backup": (lambda value: bool(BUCKET.fullmatch(str(value))), "s3://BUCKET/PREFIX without a slash at its end"),
    "monitor_seconds": (lambda value: _whole(value, 0), "a whole number of seconds, 0 for no monitor"),
    "notice_seconds": (lambda value: _whole(value, 0), "a whole number of seconds, 0 for no look"),
    "ends_at": (
        lambda value: value in ("", "never") or _time(value),
        "a time such as 2026-12-01T11:30:00Z, or never",
    ),
    "input": (_path, "the absolute path of a folder with inputs, on the shared file system"),
    "output": (
        lambda value: _path(value) or bool(BUCKET.fullmatch(str(value))),
        "an absolute path on the shared file system, or s3://BUCKET/PREFIX",
    ),
    "tokenizer": (
        lambda value: isinstance(value, str) and bool(value) and not value.startswith("-") and value.isprintable(),
        "the path of a tokenizer.json or its folder, or a hub id",
    ),
    "limit": (_whole, "how many tasks run at once, a whole number from 1"),
    "tasks": (lambda value: _whole(value, 0), "a whole number, 0 for a task for each input"),
    "cpus_per_task": (_whole, "a whole number from 1"),
    "spool": (_path, "an absolute path on the local disks of the nodes"),
    "step_minutes": (_whole, "a whole number of minutes"),
    "minutes": (_whole, "a whole number of minutes"),
    "nodes": (lambda value: value == "all" or _whole(value), "a whole number, or all"),
}


def shape_problems(settings: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for everything that no cluster could carry out."""
    yield from _setting_problems(settings)
    jobs = settings["jobs"]
    names = [job.get("name") for job in jobs if isinstance(job, Mapping)]
    for index, job in enumerate(jobs):
        yield from _job_problems(index, job, names)


def _setting_problems(settings: Mapping[str, Any]) -> Iterator[str]:
    if not _path(settings["dir"]):
        yield (
            f"dir is {settings['dir']!r}: give the absolute path of a directory that all nodes share, of letters, "
            "digits and _ . / - only, since Slurm's own lines in a script know no safe quoting"
        )
    for key in ("partition", "account", "qos", "constraint"):
        if settings.get(key) and not PLAIN.fullmatch(str(settings[key])):
            yield f"{key} is {settings[key]!r}: it has characters that a #SBATCH line cannot carry"
    kind = settings.get("instance_type")
    if kind and instance_types.lookup(kind) is None:
        yield f"instance_type is {kind!r} and the table of the collection does not have it: leave it out, or correct it"
    ends_at = settings["ends_at"]
    if not CHECKS["ends_at"][0](ends_at) or ends_at == "never":
        yield f"ends_at is {ends_at!r}: give a time such as 2026-12-01T11:30:00Z"
    for tool, version in settings["build_versions"].items():
        if not VERSION.fullmatch(str(version)):
            yield f"build_versions has {version!r} for {tool}: give a version such as 4.0.0"
    gpus = settings.get("gpus_per_node")
    if gpus is not None:
        known = ((instance_types.lookup(kind) or {}).get("accelerators") or {}).get("count")
        if not _whole(gpus, 0):
            yield f"gpus_per_node is {gpus!r}: give a whole number"
        elif known is not None and gpus > known:
            yield f"gpus_per_node is {gpus} and {kind} has {known}: give at most that"
    for key in ("container_mounts", "jobs"):
        if not isinstance(settings[key], Sequence) or isinstance(settings[key], str):
            yield f"{key} must be a list"
    yield from _text_problems("", settings)


def _text_problems(who: str, found: Mapping[str, Any]) -> Iterator[str]:
    image = found.get("container_image", "")
    if not isinstance(image, str) or "\n" in image or "\0" in image:
        yield f"{who}container_image must be one line of text"
    mounts = found.get("container_mounts", [])
    for mount in mounts if isinstance(mounts, list) else []:
        # Pyxis takes a list of mounts apart at its commas, and a mount at its colons.
        if not re.fullmatch(r"/[^,:\s]*:/[^,:\s]*(:[a-z,+-]+)?", str(mount)):
            yield f"{who}container_mounts has {mount!r}: give SOURCE:TARGET or SOURCE:TARGET:FLAGS, without blanks"


def _job_problems(index: int, job: Any, names: Sequence[Any]) -> Iterator[str]:
    name = job.get("name") if isinstance(job, Mapping) else None
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield f"job {index + 1} is called {name!r}: give a name of letters, digits, '.', '_' and '-'"
        return
    who = f"job {name}: "
    if names.index(name) != index:
        yield f"{who}two jobs are called so: give each its own name, for files go by it"
    kind = KINDS.get(job.get("kind"))
    if kind is None:
        yield f"{who}kind is {job.get('kind')!r}: choose one of {', '.join(KINDS)}"
        return
    allowed = COMMON | set(kind.options)
    unknown = sorted(str(key) for key in job if key not in allowed)
    if unknown:
        yield f"{who}unknown keys {', '.join(unknown)}: a {job['kind']} job takes {', '.join(sorted(allowed))}"
    for key, value in job.items():
        if key in CHECKS and not CHECKS[key][0](value):
            yield f"{who}{key} is {value!r}: give {CHECKS[key][1]}"
        elif key in ("partition", "account", "qos", "constraint") and not PLAIN.fullmatch(str(value)):
            yield f"{who}{key} is {value!r}: it has characters that a #SBATCH line cannot carry"
    yield from _text_problems(who, job)
    yield from (f"{who}{key} is missing: give {CHECKS[key][1]}" for key in kind.required if key not in job)
    if job["kind"] == "training":
        yield from (f"{who}{problem}" for problem in _training_problems(job, kind))
    if kind.array:
        yield from (f"{who}{problem}" for problem in _array_problems(job))
    if job["kind"] == "nccom":
        if job.get("layout") in ("pairs", "bisect") and job.get("launch") != "mpi":
            yield f"{who}layout is {job['layout']} and nccom-test takes all nodes of a job by slurm: set launch to mpi"
        yield from (
            f"{who}nccom-test has no {name}: choose from {', '.join(NCCOM_COLLECTIVES)}"
            for name in job.get("collectives", ())
            if name in COLLECTIVES and name not in NCCOM_COLLECTIVES
        )
    yield from (f"{who}{problem}" for problem in _option_problems(job.get("options", {})))


def _training_problems(job: Mapping[str, Any], kind: Kind) -> Iterator[str]:
    """Times that do not leave a training the time to save."""
    signal, grace = (job.get(key, kind.options[key]) for key in ("signal_seconds", "grace_seconds"))
    minutes = job.get("minutes", kind.minutes)
    if not all(_whole(value) for value in (signal, grace, minutes)):
        return
    if grace >= signal:
        yield f"grace_seconds is {grace} and signal_seconds {signal}: give less, or Slurm ends the job before it saves"
    if signal >= minutes * 60:
        yield f"signal_seconds is {signal} and the job has {minutes * 60}: give less, or it is signalled at its start"


def _array_problems(job: Mapping[str, Any]) -> Iterator[str]:
    """What the script of an array works out by itself."""
    if job.get("nodes", 1) != 1:
        yield f"nodes is {job['nodes']} and a task has one node: leave it out, and set limit for how many run at once"
    options = job.get("options", {})
    for key in options if isinstance(options, Mapping) else ():
        if key in ("array", "cpus-per-task", "cpus_per_task"):
            yield f"options has {key}: set limit, tasks or cpus_per_task of the job instead"


def _option_problems(options: Any) -> Iterator[str]:
    if not isinstance(options, Mapping):
        yield "options must be a mapping of sbatch's long options"
        return
    try:
        parsed = slurm_request.parse_options(options)
    except slurm_request.RequestError as exc:
        yield from exc.problems
        return
    for key, value in parsed.items():
        if value is not None and not PLAIN.fullmatch(value):
            yield f"options has {key}={value!r}: it has characters that a #SBATCH line cannot carry"
        if key in ("container-image", "export", "output", "error", "chdir"):
            yield f"options has {key}: the script takes care of that itself, so leave it out"
