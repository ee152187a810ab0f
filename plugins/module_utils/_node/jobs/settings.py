# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The input of ``model``: options of the role slurm_jobs, with the paths of tools that the role builds. Pure."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from .config import JobsConfig


def settings(config: JobsConfig, scratch: str = "") -> dict[str, t.Any]:
    """Return the settings of jobs; ``scratch`` is the parent of their directories on a node, empty without one."""
    tools = places(config)
    return {
        "dir": config.dir,
        "results_mode": config.results_mode,
        "partition": config.partition,
        "account": config.account,
        "qos": config.qos,
        "constraint": config.constraint,
        "instance_type": config.instance_type or None,
        "gpus_per_node": config.gpus_per_node,
        "mpi": config.mpi,
        "environment": config.environment,
        "versions": config.versions,
        "container_image": config.container_image,
        "container_mounts": config.container_mounts,
        "nccl_tests_dir": f"{tools['nccl-tests']}/build" if "nccl-tests" in tools else config.nccl_tests_dir,
        "local_dir": config.local_dir,
        "fio": f"{tools['fio']}/bin/fio" if "fio" in tools else config.fio,
        "ior": f"{tools['ior']}/bin/ior" if "ior" in tools else config.ior,
        "mdtest": f"{tools['ior']}/bin/mdtest" if "ior" in tools else config.mdtest,
        "nccom_test": config.nccom_test,
        "gdsio": config.gdsio,
        "aws": config.aws,
        "data_python": config.data_python,
        "ends_at": config.ends_at,
        "capacity": config.capacity,
        "build_versions": config.build_versions,
        "baseline": config.baseline,
        "tolerance_percent": config.tolerance_percent,
        "python": config.python,
        "scratch": scratch,
        "jobs": config.jobs,
    }


def places(config: JobsConfig) -> dict[str, str]:
    """Return the directory of each tool that the role builds, by its name."""
    versions = {tool: row["version"] for tool, row in config.artifacts.items()}
    return {
        tool: f"{config.dir}/tools/{tool}-{versions.get(tool, config.build_versions.get(tool, ''))}"
        for tool in config.build
    }
