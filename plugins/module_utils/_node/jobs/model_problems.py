# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors in the settings of the role slurm_jobs that are found without a cluster. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from ..._data import instance_types
from ..slurm import request as slurm_request
from .kinds import JOB_KINDS
from .options import (
    END_TIME,
    MINUTES,
    NAME,
    NODES,
    PLAIN,
    Type,
    is_path,
    whole,
)

# Settings of the role and of each job that Slurm splits in a #SBATCH line.
_PLACES = ("partition", "account", "qos", "constraint")
# Settings with one line of text: a path, a program, or nothing.
_TEXTS = (
    "mpi", "nccl_tests_dir", "local_dir", "fio", "ior", "mdtest", "nccom_test", "gdsio", "aws", "data_python",
    "baseline", "python",
)  # fmt: skip
# Options of sbatch for which a job has a key, or on which its script relies.
_OWN = {
    "job-name": "name",
    "nodes": "nodes",
    "time": "minutes",
    **{key: key for key in _PLACES},
    # Pyxis adds these to the mounts of each step of the job.
    "container-mounts": "container_mounts",
}
_SCRIPTS_OWN = frozenset({
    "container-image", "container-name", "container-workdir", "export", "output", "error", "chdir", "ntasks",
    "ntasks-per-node", "signal", "requeue", "no-requeue", "open-mode",
})  # fmt: skip
# Keys that jobs of every kind have.
COMMON = frozenset(
    "name kind nodes minutes partition account qos constraint options container_image container_mounts".split()
)
_COMMON_TYPES: dict[str, Type] = {"minutes": MINUTES, "nodes": NODES}
# A file's path that is not absolute: below the working directory or a home, or with the suffix of a squashfs file.
_RELATIVE_IMAGE = re.compile(r"[.~]|(?!/)(?!.*://).*\.(sqsh|squashfs|sqfs)\Z", re.IGNORECASE | re.DOTALL)
# Pyxis splits a list of mounts at commas and a mount at colons, and writes each between double quotes for bash to read.
_MOUNT = re.compile(r"""/[^,:\s"'$`\\]*:(?P<target>/[^,:\s"'$`\\]*)(:(?P<flags>[a-z+]+))?""")
# Source: enroot-mount.c of Enroot 4.1.2. It ignores an unknown flag, and mounts what was to be read-only for writing.
_FLAGS = frozenset(
    "ro rw exec noexec dev nodev suid nosuid sync async atime noatime relatime norelatime diratime nodiratime bind "
    "rbind private rprivate slave rslave shared rshared unbindable runbindable nofail silent".split()
)
VERSION = re.compile(r"[0-9][A-Za-z0-9._]{0,31}")


def shape_problems(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each setting that no cluster could carry out."""
    yield from _setting_problems(settings)
    jobs = settings["jobs"]
    if not isinstance(jobs, list):
        yield f"jobs is {jobs!r}: use a list of jobs"
        return
    names = [job.get("name") for job in jobs if isinstance(job, Mapping)]
    for index, job in enumerate(jobs):
        yield from _job_problems(index, job, names)
    yield from (
        f"baseline is {settings['baseline']} and the job {name} has that file for itself: give one of them another name"
        for name in names
        if isinstance(name, str) and settings["baseline"] == f"{settings['dir']}/{name}.json"
    )
    yield from _shared_places([job for job in jobs if isinstance(job, Mapping)])


def _line(value: Any) -> bool:
    return isinstance(value, str) and "\n" not in value and "\0" not in value


def _setting_problems(settings: Mapping[str, Any]) -> Iterator[str]:
    if not is_path(settings["dir"]):
        yield (
            f"dir is {settings['dir']!r}: use the absolute path of a directory that all nodes share, of letters, "
            "digits and _ . / - only, since Slurm's own lines in a script know no safe quoting"
        )
    mode = str(settings["results_mode"])
    if not re.fullmatch(r"0?[01]?[0-7]{3}", mode):
        yield f"results_mode is {mode}: use an octal mode in quotes, such as '1777'"
    elif int(mode, 8) & 0o022 and not int(mode, 8) & 0o1000:
        yield (
            f"results_mode is {mode}: other users could replace the results of a job, also of root; use "
            "1777, with which users remove only their own, or 0755"
        )
    yield from _place_problems("", settings)
    yield from (f"{key} is {settings[key]!r}: use one line of text" for key in _TEXTS if not _line(settings[key]))
    ends_at = settings["ends_at"]
    if not END_TIME.accepts(ends_at) or ends_at == "never":
        yield f"ends_at is {ends_at!r}: use a time such as 2026-12-01T11:30:00Z"
    for key in ("environment", "versions", "build_versions"):
        if not isinstance(settings[key], Mapping):
            yield f"{key} is {settings[key]!r}: use a dictionary"
    for tool, version in settings["build_versions"].items() if isinstance(settings["build_versions"], Mapping) else ():
        if not VERSION.fullmatch(str(version)):
            yield f"build_versions has {version!r} for {tool}: use a version such as 4.0.0"
    percent = settings["tolerance_percent"]
    if not whole(percent, 0) or percent >= 100:
        yield f"tolerance_percent is {percent!r}: use a percentage below 100"
    yield from _hardware_problems(settings)
    yield from _text_problems("", settings)


def _hardware_problems(settings: Mapping[str, Any]) -> Iterator[str]:
    kind, gpus = settings.get("instance_type"), settings.get("gpus_per_node")
    if kind and instance_types.lookup(kind) is None:
        yield f"instance_type is {kind!r} and the table of the collection does not have it: leave it out, or correct it"
    if gpus is not None:
        known = ((instance_types.lookup(kind) or {}).get("accelerators") or {}).get("count")
        if not whole(gpus, 0):
            yield f"gpus_per_node is {gpus!r}: use an integer"
        elif known is not None and gpus > known:
            yield f"gpus_per_node is {gpus} and {kind} has {known}: use at most that"


def _place_problems(who: str, found: Mapping[str, Any]) -> Iterator[str]:
    for key in _PLACES:
        value = found.get(key, "")
        if not isinstance(value, str):
            yield f"{who}{key} is {value!r}: use a string"
        elif value and not PLAIN.fullmatch(value):
            yield f"{who}{key} is {value!r}: it has characters that a #SBATCH line cannot carry"


def _text_problems(who: str, found: Mapping[str, Any]) -> Iterator[str]:
    image = found.get("container_image", "")
    if not _line(image):
        yield f"{who}container_image must be one line of text"
    elif _RELATIVE_IMAGE.match(image):
        # Pyxis looks for such a name in a registry, or in the directory where srun was started.
        yield (
            f"{who}container_image is {image!r}: use the absolute path of a .sqsh file, or the name of an image in a "
            "registry"
        )
    mounts = found.get("container_mounts", [])
    if not isinstance(mounts, list):
        yield f"{who}container_mounts must be a list"
        return
    for mount in mounts:
        parts = _MOUNT.fullmatch(mount) if isinstance(mount, str) else None
        unknown = sorted(set(((parts and parts["flags"]) or "rw").split("+")) - _FLAGS)
        if parts is None:
            yield (
                f"{who}container_mounts has {mount!r}: use SOURCE:TARGET or SOURCE:TARGET:FLAG+FLAG, without blanks, "
                "quotes, commas, $ and \\"
            )
        elif not parts["target"].strip("/."):
            yield f"{who}container_mounts has {mount!r}, which hides the whole image: give a directory below /"
        elif unknown:
            yield (
                f"{who}container_mounts has {mount!r}: Enroot ignores the flag {unknown[0]!r}: choose ro, rw or "
                "another one of mount"
            )


def _job_problems(index: int, job: Any, names: Sequence[Any]) -> Iterator[str]:
    name = job.get("name") if isinstance(job, Mapping) else None
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield f"job {index + 1} is called {name!r}: use a name of letters, digits, '.', '_' and '-'"
        return
    who = f"job {name}: "
    if names.index(name) != index and names.count(name) > 1:
        yield f"{who}two jobs have this name: give each its own, since files are named by it"
    kind = JOB_KINDS.get(job["kind"]) if isinstance(job.get("kind"), str) else None
    if kind is None:
        yield f"{who}kind is {job.get('kind')!r}: choose one of {', '.join(JOB_KINDS)}"
        return
    allowed = COMMON | set(kind.options)
    unknown = sorted(str(key) for key in job if key not in allowed)
    if unknown:
        yield f"{who}unknown keys {', '.join(unknown)}: a {job['kind']} job takes {', '.join(sorted(allowed))}"
    types = {**_COMMON_TYPES, **{name: option.type for name, option in kind.options.items()}}
    wrong = {key: types[key].wanted for key, value in job.items() if key in types and not types[key].accepts(value)}
    yield from (f"{who}{key} is {job[key]!r}: use {wanted}" for key, wanted in wrong.items())
    yield from _place_problems(who, job)
    yield from _text_problems(who, job)
    yield from (
        f"{who}{key} is missing: use {option.type.wanted}"
        for key, option in kind.options.items()
        if option.required and key not in job
    )
    yield from (f"{who}{problem}" for problem in kind.problems(kind.values(job), job))
    yield from (f"{who}{problem}" for problem in _option_problems(job.get("options", {})))


def _option_problems(options: Any) -> Iterator[str]:
    if not isinstance(options, Mapping):
        yield "options must be a dictionary of sbatch's long options"
        return
    try:
        parsed = slurm_request.parse_options(options)
    except slurm_request.RequestError as exc:
        yield from exc.problems
        return
    for key, value in parsed.items():
        if value is not None and not PLAIN.fullmatch(value):
            yield f"options has {key}={value!r}: it has characters that a #SBATCH line cannot carry"
        if key in _OWN:
            yield f"options has {key}: set {_OWN[key]} of the job instead"
        if key in _SCRIPTS_OWN:
            yield f"options has {key}: the script sets that itself, so leave it out"


def _shared_places(jobs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each two jobs that would write into the same directory, or one below that of the other."""
    places = []
    for job in jobs:
        kind = JOB_KINDS.get(str(job.get("kind")))
        if kind and kind.writes and kind.options[kind.writes].type.accepts(job.get(kind.writes)):
            places.append((job, kind.writes, str(job[kind.writes])))
    for (one, key, place), (other, other_key, other_place) in combinations(places, 2):
        if f"{place}/".startswith(f"{other_place}/") or f"{other_place}/".startswith(f"{place}/"):
            yield (
                f"jobs {one.get('name')} and {other.get('name')} would write into the same directory, {key} {place} "
                f"and {other_key} {other_place}: give each its own"
            )
