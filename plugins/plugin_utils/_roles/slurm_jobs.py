# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller data for the role slurm_jobs: sources of tools, reservations, and its files."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible_collections.mlcluster.aws.plugins.plugin_utils import _artifacts, _runtime
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import role_directory

FILES = role_directory("slurm_jobs") / "files"
DATA = "mlcluster_data"
# Options of the controller and of tasks_from run only.
CONTROLLER_SPEC: dict[str, dict[str, Any]] = {
    "slurm_jobs_build_sha256": {"type": "dict"},
    "slurm_jobs_build_mirror": {"type": "str"},
    "slurm_jobs_nodes_group": {"type": "str"},
    "slurm_jobs_run": {"type": "list", "elements": "str"},
    "slurm_jobs_run_nodes": {"type": "str"},
    "slurm_jobs_run_nodelist": {"type": "list", "elements": "str"},
    "slurm_jobs_run_cluster": {"type": "str"},
    "slurm_jobs_run_timeout": {"type": "int"},
    "slurm_jobs_run_drain": {"type": "bool"},
    "slurm_jobs_run_undrain": {"type": "list", "elements": "str"},
    "slurm_jobs_run_accept_undeterminable": {"type": "bool"},
}
_CAPACITY = ("type", "end")


def controller_options(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return artifacts, capacity, data_sums and runtime_sha256."""
    return {
        "artifacts": artifacts(variables),
        "capacity": capacity(variables),
        "data_sums": data_sums(),
        "runtime_sha256": _runtime.run_sum(constants.DEFAULT_LOCAL_TMP),
    }


def controller_problems(variables: Mapping[str, Any]) -> list[str]:
    """Return the errors in a lock."""
    found = []
    try:
        _own_lock(variables)
    except _artifacts.ArtifactError as exc:
        found.append(f"slurm_jobs_lock_file: {exc}")
    return found


@functools.cache
def data_sums() -> dict[str, str]:
    """Return the sha256 of each data program, by its path below slurm_jobs_dir. Raises AnsibleError without any."""
    sources = sorted((FILES / DATA).rglob("*.py"))
    if not sources:
        raise AnsibleError(f"no Python file is in {FILES / DATA}: install the collection again")
    return {path.relative_to(FILES).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in sources}


def artifacts(variables: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return version, url and sha256 of the sources of each tool to build."""
    locks: list[dict[str, Any]] = []
    with contextlib.suppress(_artifacts.ArtifactError):
        locks += _own_lock(variables)
    versions, sums = variables["slurm_jobs_build_versions"], variables["slurm_jobs_build_sha256"]
    mirror = variables["slurm_jobs_build_mirror"]
    found = {}
    for tool in variables["slurm_jobs_build"]:
        version = versions.get(tool)
        row = _artifacts.find(tool, version=str(version) if version else None, locks=[*locks, *_collection_lock()])
        name = row["url"].rpartition("/")[2]
        found[tool] = {
            "version": row["version"],
            "url": f"{mirror}/{name}" if mirror else row["url"],
            "sha256": str((sums.get(tool) if isinstance(sums, Mapping) else "") or row["sha256"]),
        }
    return found


def _own_lock(variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    path = variables.get("slurm_jobs_lock_file")
    return _artifacts.read_lock(path) if path else []


def _collection_lock() -> list[dict[str, Any]]:
    return _artifacts.read_lock(_artifacts.collection_lock())


def capacity(variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the inventory's data on the nodes' capacity reservations, each once; empty if it was not collected."""
    unique = {(one.get("type"), one.get("end")): one for one in _of_nodes(variables)}
    return [{key: one.get(key) for key in _CAPACITY} for one in unique.values()]


def _of_nodes(variables: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    hosts = (variables.get("groups") or {}).get(variables["slurm_jobs_nodes_group"], [])
    others = variables.get("hostvars") or {}
    for host in hosts:
        # Problems of another host's variables are reported by that host.
        with contextlib.suppress(AnsibleError, KeyError, TypeError):
            found = others[host].get("ec2_capacity")
            if isinstance(found, Mapping):
                yield found
