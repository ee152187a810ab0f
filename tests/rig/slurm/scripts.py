# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts of the role slurm_jobs, rendered without a play."""

from __future__ import annotations

import subprocess
import zipapp
import zipfile
from pathlib import Path
from typing import Any

from .cluster import Cluster
from .processes import RigError

ROLE = Path(__file__).parents[3] / "roles" / "slurm_jobs"
MPI_TYPES = ["none", "pmi2", "pmix"]
# The result of the module slurm_info for a cluster of two nodes with eight GPUs in one partition.
FACTS: dict[str, Any] = {
    "healthy": True,
    "problems": [],
    "mpi_types": MPI_TYPES,
    "container_options": 0,
    "accounting": False,
    "accounts": [],
    "qos": [],
    "licenses": {},
    "settings": {},
    "nodes": [{"name": name, "gpus": 8, "partitions": ["main"], "features": [], "flags": [], "reason": None}
              for name in ("n1", "n2")],
    "partitions": [
        {"name": "main", "state": "UP", "default": True, "node_count": 2, "max_nodes": None, "max_seconds": 3600,
         "accounts": None},
    ],
}  # fmt: skip


class Role:
    """The files that the role writes with these options (without their prefix) for the facts of slurm_info.

    inventory has Ansible's variables groups and hostvars.
    """

    def __init__(
        self, facts: dict[str, Any] | None = None, inventory: dict[str, Any] | None = None, **settings: Any
    ) -> None:
        # Importable only after the caller has made the checkout a collection.
        from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import checks, config, files, model
        from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.settings import settings as job_settings
        from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles import slurm_jobs
        from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.variables import read_defaults

        self.facts = facts or FACTS
        self.variables: dict[str, Any] = {
            **read_defaults("slurm_jobs"),
            **(inventory or {}),
            **{f"slurm_jobs_{name}": value for name, value in settings.items()},
        }
        own = {"artifacts": slurm_jobs.artifacts(self.variables), "capacity": slurm_jobs.capacity(self.variables)}
        given = {name: self.variables.get(f"slurm_jobs_{name}") for name in config.ARGUMENT_SPEC}
        self.config = config.parse_jobs({**given, **own})
        self.settings = job_settings(self.config, checks.scratch(self.config.checks))
        found = model.model(self.settings, self.facts)
        # The errors with which the role would fail.
        self.problems: list[str] = found["problems"]
        self.jobs: list[dict[str, Any]] = found["jobs"]
        self._files = files.job_files(self.jobs)

    def scripts(self) -> dict[str, str]:
        """Return {path: text} of the scripts."""
        return {path: text for path, text in self.files().items() if path.endswith(".sbatch")}

    def files(self) -> dict[str, str]:
        """Return {path: text} of the scripts and their JSON files."""
        return {entry.path: entry.text for entry in self._files}

    def install(self, runtime: Path) -> None:
        """Write the files that the role writes, for a cluster of the rig."""
        for path, text in self.files().items():
            script = Path(path)
            (script.parent / "results").mkdir(parents=True, exist_ok=True)
            script.write_text(text, encoding="utf-8")
            (script.parent / "mlcluster.pyz").write_bytes(runtime.read_bytes())
        for source in sorted((ROLE / "files" / "mlcluster_data").rglob("*.py")):
            program = Path(self.config.dir) / source.relative_to(ROLE / "files")
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_bytes(source.read_bytes())


def write_checks(checks: dict[str, Any], imex: str = "required") -> None:
    """Write the scripts of tasks/node_checks.yml with these slurm_jobs_checks and this slurm_jobs_imex."""
    from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import checks as node_checks
    from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import files

    if problems := node_checks.problems(checks):
        raise RigError(f"the role would refuse these checks: {'; '.join(problems)}")
    for entry in files.check_files(node_checks.wanted(checks, imex=imex)):
        script = Path(entry.path)
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(entry.text, encoding="utf-8")
        script.chmod(int(entry.mode, 8))


def build_runtime(folder: Path) -> Path:
    """Build the node runtime into ``folder``, with compiled code in addition to its sources; return its path.

    Otherwise each start compiles the sources, which takes two thirds of a short command's time. Tests of Slurm start it
    hundreds of times.
    """
    # Importable only after the caller has made the checkout a collection.
    from ansible_collections.mlcluster.aws.plugins.plugin_utils import _runtime

    sources, target = folder / "sources", folder / "mlcluster.pyz"
    with zipfile.ZipFile(_runtime.build(cache=folder / "cache")["path"]) as archive:
        archive.extractall(sources)
    compile_all = ["/usr/bin/python3", "-I", "-m", "compileall", "-q", "-b", "--invalidation-mode", "unchecked-hash"]
    subprocess.run([*compile_all, str(sources)], check=True)
    zipapp.create_archive(sources, target, "/usr/bin/env python3")
    target.chmod(0o755)
    return target


def test_only(cluster: Cluster, path: str) -> subprocess.CompletedProcess[str]:
    """Return the result of ``sbatch --test-only``."""
    return cluster.run("sbatch", "--test-only", path, check=False)
