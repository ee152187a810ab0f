# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role slurm_jobs, their defaults and limits.

The role has three parts, each with its own options: the scripts of jobs, the scripts that Slurm runs on every node, and
the packages that jobs need.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..imex.config import MODES as IMEX_MODES
from . import checks as node_checks
from .settings import settings

PREFIX = "slurm_jobs_"
BUILDS = ("ior", "fio", "nccl-tests")
JOBS: list[dict[str, t.Any]] = [
    {"name": "node_smoke", "kind": "node_smoke"},
    {"name": "nccl", "kind": "nccl"},
    {"name": "nccl_single", "kind": "nccl", "layout": "single", "nodes": 1},
    {"name": "nccl_pairs", "kind": "nccl", "layout": "pairs", "collectives": ["all_reduce"], "largest": "1G"},
    {"name": "nccl_bisect", "kind": "nccl", "layout": "bisect", "collectives": ["all_reduce"], "largest": "1G"},
    {"name": "gpu_efa", "kind": "gpu_efa"},
]
_SLURM: dict[str, dict[str, t.Any]] = {"slurm_prefix": {"type": "path"}, "slurm_conf": {"type": "path"}}

# The role's options; those from artifacts on are added by the controller: version, url and sha256 of the sources of
# each tool to build; the reservations of the inventory; the sha256 of each data program, by its path below dir, and of
# the runtime.
ARGUMENT_SPEC: dict[str, dict[str, t.Any]] = {
    "dir": {"type": "str", "default": "/fsx/mlcluster/jobs"},
    "require_mount": {"type": "bool", "default": True},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "results_mode": {"type": "str", "default": "1777"},
    "partition": {"type": "str", "default": ""},
    "account": {"type": "str", "default": ""},
    "qos": {"type": "str", "default": ""},
    "constraint": {"type": "str", "default": ""},
    "instance_type": {"type": "str"},
    "gpus_per_node": {"type": "int"},
    "mpi": {"type": "str", "default": "auto"},
    "environment": {"type": "dict", "default": {}},
    "versions": {"type": "dict", "default": {}},
    "container_image": {"type": "str", "default": ""},
    "container_mounts": {"type": "list", "elements": "str", "default": []},
    "nccl_tests_dir": {"type": "str", "default": "/opt/nccl-tests/build"},
    "local_dir": {"type": "str", "default": "/data/scratch"},
    "fio": {"type": "str", "default": "fio"},
    "ior": {"type": "str", "default": "ior"},
    "mdtest": {"type": "str", "default": "mdtest"},
    "build": {"type": "list", "elements": "str", "choices": list(BUILDS), "default": []},
    "build_versions": {"type": "dict", "default": {}},
    "mpi_home": {"type": "str", "default": "/opt/amazon/openmpi"},
    "cuda_home": {"type": "str", "default": "/usr/local/cuda"},
    "nccom_test": {"type": "str", "default": "/opt/aws/neuron/bin/nccom-test"},
    "gdsio": {"type": "str", "default": ""},
    "aws": {"type": "str", "default": "aws"},
    "data_python": {"type": "str", "default": "python3"},
    "ends_at": {"type": "str", "default": ""},
    "baseline": {"type": "str", "default": ""},
    "tolerance_percent": {"type": "int", "default": 10},
    "python": {"type": "str", "default": "/usr/bin/python3"},
    "jobs": {"type": "list", "elements": "dict", "default": JOBS},
    **_SLURM,
    "required": {"type": "bool", "default": True},
    "node_checks": {"type": "str", "choices": ["none", "scripts", "slurm"], "default": "none"},
    "checks": {"type": "dict", "default": {}},
    "imex": {"type": "str", "choices": list(IMEX_MODES), "default": IMEX_MODES[0]},
    "artifacts": {"type": "dict", "default": {}},
    "capacity": {"type": "list", "elements": "dict", "default": []},
    "data_sums": {"type": "dict", "default": {}},
    "runtime_sha256": {"type": "str", "default": ""},
}
CHECKS_SPEC: dict[str, dict[str, t.Any]] = {
    "checks": ARGUMENT_SPEC["checks"],
    "imex": ARGUMENT_SPEC["imex"],
    **_SLURM,
}
TOOLS_SPEC: dict[str, dict[str, t.Any]] = {"node_packages": {"type": "list", "elements": "str", "default": ["fio"]}}

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+._-]*(=[A-Za-z0-9.+:~_-]+)?")
_ACCOUNT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*")


@dataclasses.dataclass(frozen=True)
class JobsConfig:
    """The options of the scripts of jobs."""

    dir: str = "/fsx/mlcluster/jobs"
    require_mount: bool = True
    owner: str = "root"
    group: str = "root"
    results_mode: str = "1777"
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    instance_type: str | None = None
    gpus_per_node: int | None = None
    mpi: str = "auto"
    environment: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    versions: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    container_image: str = ""
    container_mounts: list[str] = dataclasses.field(default_factory=list)
    nccl_tests_dir: str = "/opt/nccl-tests/build"
    local_dir: str = "/data/scratch"
    fio: str = "fio"
    ior: str = "ior"
    mdtest: str = "mdtest"
    build: list[str] = dataclasses.field(default_factory=list)
    build_versions: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    mpi_home: str = "/opt/amazon/openmpi"
    cuda_home: str = "/usr/local/cuda"
    nccom_test: str = "/opt/aws/neuron/bin/nccom-test"
    gdsio: str = ""
    aws: str = "aws"
    data_python: str = "python3"
    ends_at: str = ""
    baseline: str = ""
    tolerance_percent: int = 10
    python: str = "/usr/bin/python3"
    jobs: list[dict[str, t.Any]] = dataclasses.field(default_factory=lambda: list(JOBS))
    slurm_prefix: str | None = None
    slurm_conf: str | None = None
    required: bool = True
    node_checks: str = "none"
    checks: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    imex: str = IMEX_MODES[0]
    artifacts: t.Mapping[str, t.Mapping[str, str]] = dataclasses.field(default_factory=dict)
    capacity: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    data_sums: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    runtime_sha256: str = ""


@dataclasses.dataclass(frozen=True)
class ChecksConfig:
    """The options of the scripts that Slurm runs on a node before and after jobs, and as its health check."""

    checks: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    imex: str = IMEX_MODES[0]
    slurm_prefix: str | None = None
    slurm_conf: str | None = None


@dataclasses.dataclass(frozen=True)
class ToolsConfig:
    """The packages with tools that jobs need on a node, each as name or name=version."""

    node_packages: tuple[str, ...] = ("fio",)


def parse_jobs(raw: t.Mapping[str, t.Any]) -> JobsConfig:
    """Build a ``JobsConfig`` from options of the types of ``ARGUMENT_SPEC``."""
    return JobsConfig(**{key: raw[key] for key in ARGUMENT_SPEC if raw.get(key) is not None})


def parse_checks(raw: t.Mapping[str, t.Any]) -> ChecksConfig:
    """Build a ``ChecksConfig`` from options of the types of ``CHECKS_SPEC``."""
    return ChecksConfig(**{key: raw[key] for key in CHECKS_SPEC if raw.get(key) is not None})


def parse_tools(raw: t.Mapping[str, t.Any]) -> ToolsConfig:
    """Build a ``ToolsConfig`` from options of the types of ``TOOLS_SPEC``."""
    return ToolsConfig(**{key: tuple(raw[key]) for key in TOOLS_SPEC if raw.get(key) is not None})


def jobs_problems(raw: t.Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each option that no cluster could carry out, with the names of the role's variables."""
    # It imports all job kinds, and most nodes of a cluster have no scripts of jobs to write.
    from .model_problems import shape_problems

    config = parse_jobs(raw)
    found = [_in_full(problem) for problem in shape_problems(settings(config))]
    strange = sorted(set(config.build) - set(BUILDS))
    if strange:
        found.append(f"slurm_jobs_build has {', '.join(strange)}: choose of {', '.join(BUILDS)}")
    for name, account in (("owner", config.owner), ("group", config.group)):
        if not _ACCOUNT.fullmatch(account):
            found.append(f"slurm_jobs_{name} is {account!r}: use the name of an account")
    return found + ([] if config.node_checks == "none" else checks_problems(raw))


def checks_problems(raw: t.Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each invalid setting in ``checks``."""
    return node_checks.problems(parse_checks(raw).checks)


def tools_problems(raw: t.Mapping[str, t.Any]) -> list[str]:
    """Return a sentence about invalid names of packages; none if all are valid."""
    strange = [spec for spec in parse_tools(raw).node_packages if not _PACKAGE.fullmatch(spec)]
    if not strange:
        return []
    problem = (
        f"slurm_jobs_node_packages has {', '.join(strange)}: use names of packages, each with =VERSION if it is to be "
        "pinned"
    )
    return [problem]


def _in_full(problem: str) -> str:
    """Return a sentence that begins with an option, with the role's variable in the place of the option."""
    option = problem.partition(" ")[0]
    return f"{PREFIX}{problem}" if option in ARGUMENT_SPEC else problem
