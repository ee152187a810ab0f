# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller data for the tools of the role slurm_jobs: whether any job uses one from a package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIO = "fio"


def controller_options(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return no options beyond the variables."""
    return {}


def is_wanted(given: Mapping[str, Any], variables: Mapping[str, Any]) -> bool:
    """Return whether site.yml installs tools on a node.

    Only the job kind local_io uses a program from packages: fio, unless one was named or built. A value that is not a
    list is reported by the role.
    """
    if "slurm_jobs_node_packages" in given:
        return True
    jobs, built = variables.get("slurm_jobs_jobs"), variables.get("slurm_jobs_build")
    takes = any(isinstance(job, Mapping) and job.get("kind") == "local_io" for job in _list(jobs))
    return takes and variables.get("slurm_jobs_fio") == FIO and FIO not in _list(built)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
