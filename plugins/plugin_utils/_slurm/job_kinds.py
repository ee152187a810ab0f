# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of jobs, and what each of their options has to be. Pure."""

from __future__ import annotations

import dataclasses
import datetime
import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any

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
MOST = 10**15
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


def whole(value: Any, least: int = 1) -> bool:
    """Whether it is a whole number from that on, and one that a shell can count with."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST


def is_path(value: Any) -> bool:
    """Whether it is an absolute path that a #SBATCH line and a shell can carry."""
    return (
        isinstance(value, str)
        and posixpath.isabs(value)
        and posixpath.normpath(value) == value != "/"
        and bool(PLAIN.fullmatch(value))
        and "%" not in value
    )


def _size(value: Any) -> bool:
    return (whole(value) or isinstance(value, str)) and bool(SIZE.fullmatch(str(value)))


def _one_of(*words: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in words


def _match(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and bool(pattern.fullmatch(value))


def _list_of(check: Callable[[Any], bool], least: int = 0) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) >= least and all(check(each) for each in value)


def _word(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool) and "\0" not in str(value)


def size_bytes(text: Any) -> int:
    """Bytes of a size such as 8, 64K or 1G."""
    number, unit = re.fullmatch(r"(\d+)([KMGT]?)", str(text)).groups()  # type: ignore[union-attr]
    return int(number) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]


def _time(value: Any) -> bool:
    if not isinstance(value, str) or not TIME.fullmatch(value):
        return False
    try:
        datetime.datetime.strptime(value, "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        return False
    return True


CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "collectives": (_list_of(_one_of(*COLLECTIVES), 1), f"a list of {', '.join(COLLECTIVES)}"),
    "layout": (_one_of(*LAYOUTS), f"one of {', '.join(LAYOUTS)}"),
    "smallest": (_size, "bytes, such as 8, 64K, 1M or 16G"),
    "largest": (_size, "bytes, such as 8, 64K, 1M or 16G"),
    "factor": (lambda value: whole(value, 2), "a whole number from 2"),
    "iterations": (whole, "a whole number from 1"),
    "warmup": (lambda value: whole(value, 0), "a whole number from 0"),
    "require": (
        _list_of(_match(COMPONENT)),
        "a list of NAME or NAME=VERSION, as mlcluster health --require takes them",
    ),
    "workers_per_node": (whole, "how many ranks (logical NeuronCores) a node has, such as 32 on trn1.32xlarge"),
    "launch": (_one_of("slurm", "mpi"), "slurm or mpi, as the nccom-test there is takes it"),
    "datatype": (_match(re.compile(r"[a-z]+[0-9]+")), "a type of nccom-test, such as fp32"),
    "arguments": (_list_of(_word), "a list of words"),
    "mounts": (_list_of(is_path, 1), "a list of absolute paths"),
    "modes": (_list_of(_one_of(*GDS_MODES)), f"a list of {', '.join(GDS_MODES)}, any of which will do"),
    "size_mib": (whole, "a whole number of MiB"),
    "least_gib": (
        lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf"),
        "GiB/s, 0 where it is not known",
    ),
    "directories": (_list_of(is_path), "a list of absolute paths"),
    "directory": (is_path, "an absolute path"),
    "size": (_size, "bytes, such as 4G"),
    "seconds": (whole, "a whole number of seconds"),
    "processes": (whole, "a whole number from 1"),
    "median_percent": (lambda value: whole(value) and value < 100, "a percentage below 100"),
    "memory_percent": (whole, "a percentage of a node's memory"),
    "items": (whole, "a whole number from 1"),
    "least_write_mib": (lambda value: whole(value, 0), "a whole number of MiB/s, 0 where it is not known"),
    "least_read_mib": (lambda value: whole(value, 0), "a whole number of MiB/s, 0 where it is not known"),
    "command": (_list_of(_word, 1), "the program and its arguments as a list"),
    "launcher": (_one_of("torchrun", "srun"), "torchrun or srun"),
    "checkpoints": (is_path, "an absolute path on the shared file system"),
    "marker": (_match(NAME), "the name of a file"),
    "signal_seconds": (lambda value: whole(value, 0) and value <= 65535, "seconds up to 65535, 0 for no signal"),
    "grace_seconds": (whole, "a whole number of seconds"),
    "requeues": (lambda value: whole(value, 0), "a whole number from 0"),
    "keep": (whole, "a whole number from 1"),
    "backup": (_match(BUCKET), "s3://BUCKET/PREFIX without a slash at its end"),
    "monitor_seconds": (lambda value: whole(value, 0), "a whole number of seconds, 0 for no monitor"),
    "notice_seconds": (lambda value: whole(value, 0), "a whole number of seconds, 0 for no look"),
    "ends_at": (
        lambda value: _one_of("", "never")(value) or _time(value),
        "a time such as 2026-12-01T11:30:00Z, or never",
    ),
    "input": (is_path, "the absolute path of a folder with inputs, on the shared file system"),
    "output": (
        lambda value: is_path(value) or _match(BUCKET)(value),
        "an absolute path on the shared file system, or s3://BUCKET/PREFIX",
    ),
    "tokenizer": (
        lambda value: isinstance(value, str) and bool(value) and not value.startswith("-") and value.isprintable(),
        "the path of a tokenizer.json or its folder, or a hub id",
    ),
    "limit": (whole, "how many tasks run at once, a whole number from 1"),
    "tasks": (lambda value: whole(value, 0), "a whole number, 0 for a task for each input"),
    "cpus_per_task": (whole, "a whole number from 1"),
    "spool": (is_path, "an absolute path on the local disks of the nodes"),
    "step_minutes": (whole, "a whole number of minutes"),
    "minutes": (whole, "a whole number of minutes"),
    "nodes": (lambda value: _one_of("all")(value) or whole(value), "a whole number, or all"),
}
