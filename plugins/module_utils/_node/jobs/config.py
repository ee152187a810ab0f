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
from ..system.argument_types import given, spec_of
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


# The role's options; those from artifacts on are added by the controller: version, url and sha256 of the sources of
# each tool to build; the reservations of the inventory; the sha256 of each data program, by its path below dir, and of
# the runtime.
ARGUMENT_SPEC = spec_of(
    JobsConfig,
    build={"choices": list(BUILDS)},
    node_checks={"choices": ["none", "scripts", "slurm"]},
    slurm_prefix={"type": "path"},
    slurm_conf={"type": "path"},
    imex={"choices": list(IMEX_MODES)},
)


@dataclasses.dataclass(frozen=True)
class ChecksConfig:
    """The options of the scripts that Slurm runs on a node before and after jobs, and as its health check."""

    checks: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    imex: str = IMEX_MODES[0]
    slurm_prefix: str | None = None
    slurm_conf: str | None = None


CHECKS_SPEC = {name: ARGUMENT_SPEC[name] for name in ("checks", "imex", "slurm_prefix", "slurm_conf")}


@dataclasses.dataclass(frozen=True)
class ToolsConfig:
    """The packages with tools that jobs need on a node, each as name or name=version."""

    node_packages: tuple[str, ...] = ("fio",)


TOOLS_SPEC = spec_of(ToolsConfig)


def parse_jobs(raw: t.Mapping[str, t.Any]) -> JobsConfig:
    """Build a ``JobsConfig`` from options of the types of ``ARGUMENT_SPEC``."""
    return JobsConfig(**{key: raw[key] for key in ARGUMENT_SPEC if raw.get(key) is not None})


def parse_checks(raw: t.Mapping[str, t.Any]) -> ChecksConfig:
    """Build a ``ChecksConfig`` from options of the types of ``CHECKS_SPEC``."""
    return ChecksConfig(**given(raw, CHECKS_SPEC))


def parse_tools(raw: t.Mapping[str, t.Any]) -> ToolsConfig:
    """Build a ``ToolsConfig`` from options of the types of ``TOOLS_SPEC``."""
    return ToolsConfig(**given(raw, TOOLS_SPEC))


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
