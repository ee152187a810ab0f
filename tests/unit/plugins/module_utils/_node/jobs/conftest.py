# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs that run as Slurm runs them, from the files that the role writes; Slurm's programs are stand-ins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.run import load, run_job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

from tests.rig.slurm import scripts

NUMBER = 7
# Runs its step as the first task of node n1.
SRUN = """echo "$*" >>"$JOBS/srun"
while [ "${1#-}" != "$1" ]; do shift; done
SLURM_PROCID=0 SLURM_LOCALID=0 SLURMD_NODENAME=n1 exec "$@\""""
SCONTROL = 'echo "$*" >>"$JOBS/scontrol"; [ "$1" = show ] && [ "$2" = hostnames ] && echo n1; exit 0'


@pytest.fixture(scope="session")
def runtime(tmp_path_factory):
    return scripts.build_runtime(tmp_path_factory.mktemp("runtime"))


class Batch:
    """The directory of the jobs, stand-ins on the PATH, and a way to start a script as job 7 on node n1."""

    def __init__(self, folder, runtime):
        self.folder = folder
        self.runtime = runtime
        self.results = folder / "results"
        self.results.mkdir()
        (folder / "bin").mkdir()
        self.program("srun", SRUN)
        self.program("scontrol", SCONTROL)

    def program(self, name, body):
        """Put a stand-in on the PATH."""
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def install(self, job, **settings):
        """Write what the role writes for one job; return the path of its script."""
        self.role(job, **settings).install(self.runtime)
        return str(self.folder / f"{job['name']}.sbatch")

    def role(self, job, **settings):
        """Return the files of the role for one job."""
        given = {"python": sys.executable, "gpus_per_node": 0, "checks": {"scratch": False}, **settings}
        role = scripts.Role(jobs=[job], dir=str(self.folder), **given)
        assert role.problems == []
        return role

    def start(self, job, output=None, settings=None, words=(), **environment):
        """Run a job to its end. With output, the file that Slurm would open for what it prints; it appends to it."""
        script = self.install(job, **(settings or {}))
        opened = output.open("a") if output else None
        streams = {"stdout": opened or subprocess.PIPE, "stderr": subprocess.STDOUT if opened else subprocess.PIPE}
        run = ["sh", "-c", f'echo $$ >{self.folder}/pid; exec bash "$@"', "sh", script, *words]
        return subprocess.run(
            run,
            **streams,
            text=True,
            check=False,
            timeout=60,
            env=self.variables(environment),
        )

    def run_here(self, job, settings):
        """Run a job to its end in this process, half the cost of ``start``; return its exit status."""
        path = f"{self.folder}/{job['name']}.json"
        Path(path).write_text(self.role(job, **settings).files()[path])
        spec = load(Host(), path)
        mask = os.umask(0o022)
        try:
            return run_job(spec, Host(), self.variables({}), "0")
        finally:
            os.umask(mask)

    def variables(self, environment):
        """Return what Slurm gives the batch step."""
        given = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "MLCLUSTER_"))}
        variables = {
            **given,
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "SLURM_JOB_ID": str(NUMBER),
            "SLURM_JOB_NODELIST": "n1",
            "SLURM_NTASKS": "1",
            "JOBS": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        }
        return {name: value for name, value in variables.items() if value is not None}

    @property
    def status(self):
        """Return the content of the exit file, None if it is missing."""
        (path,) = [*self.results.glob(f"*-{NUMBER}.exit"), None][:1]
        return path and path.read_text()


@pytest.fixture
def batch(tmp_path, runtime):
    return Batch(tmp_path, runtime)


@pytest.fixture
def training(tmp_path):
    """A training of one process that ends at once."""
    return {"name": "t", "kind": "training", "minutes": 60, "command": ["true"], "checkpoints": f"{tmp_path}/c",
            "launcher": "srun", "monitor_seconds": 0, "notice_seconds": 0}  # fmt: skip
