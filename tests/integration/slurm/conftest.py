# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures: a cluster of each type per session, and functions that run modules and jobs on it."""

from __future__ import annotations

import json
import types
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from tests.integration.slurm.ran import Ran, install
from tests.rig.slurm import jobs, scripts
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import slurm as shared_slurm
from tests.rig.slurm.fixture import slurm_accounting
from tests.unit.plugins.inventory import finder

# This has to run before the first import of ansible_collections: templates find the collection's filters by it.
finder.install()

__all__ = ["shared_slurm", "slurm_accounting"]

Runner = Callable[..., dict[str, t.Any]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests for pytest-xdist, which runs each group in one process.

    Tests of a file share its clusters. Tests whose nodes use directories of this machine run one after another.
    """
    for item in items:
        file = item.path.stem
        item.add_marker(
            pytest.mark.xdist_group(
                "checked" if file in ("test_health", "test_heal", "test_scratch", "test_watch") else file
            )
        )


@pytest.fixture
def slurm(shared_slurm: Cluster) -> Cluster:
    """Return the shared cluster, after jobs of the previous test have ended and nodes are available again."""
    jobs.rest(shared_slurm)
    return shared_slurm


@pytest.fixture
def run_module(capsys: pytest.CaptureFixture[str]) -> Runner:
    """Return ``run_module(module, cluster, check=False, **options)``, which returns the module's result."""

    def run(module: types.ModuleType, cluster: Cluster, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        arguments = {**options, "conf": f"{cluster.root}/etc/slurm.conf", "_ansible_check_mode": check}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """Return ``script(*lines)``, which writes a batch script into an empty directory and returns its path."""

    def write(*lines: str, name: str = "job.sbatch") -> str:
        path = tmp_path / name
        path.write_text("\n".join(("#!/bin/bash", *lines, "")), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def facts(slurm: Cluster, run_module: Runner) -> dict[str, t.Any]:
    """Return the cluster's facts as slurm_info returns them."""
    from ansible_collections.mlcluster.aws.plugins.modules import slurm_info

    return run_module(slurm_info, slurm)


@pytest.fixture
def slow_to_kill(slurm: Cluster) -> Iterator[Cluster]:
    """Yield the cluster with a longer KillWait: jobs have more time to end than in other tests."""
    before = slurm.record.spec.settings.get("KillWait", "2")
    slurm.configure(KillWait="40")
    yield slurm
    slurm.configure(KillWait=before)


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the node runtime."""
    return scripts.build_runtime(tmp_path_factory.mktemp("runtime"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with stand-ins for nccl-tests that are real MPI programs."""
    folder = tmp_path_factory.mktemp("nccl")
    for name in ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce"):
        install("collective_perf", folder / f"{name}_perf")
    return folder


@pytest.fixture
def ran(slurm: Cluster, facts: dict[str, t.Any], runtime: Path, programs: Path, tmp_path: Path) -> Callable[..., Ran]:
    """Return ``ran(job, *options, **settings)``: it renders a job, submits it, and returns its results."""

    def run(job: dict[str, t.Any], *options: str, **settings: t.Any) -> Ran:
        given = {"dir": str(tmp_path), "gpus_per_node": 2, "nccl_tests_dir": str(programs), **settings}
        role = scripts.Role(facts, jobs=[job], **given)
        assert role.problems == []
        role.install(runtime)
        path = str(tmp_path / f"{job['name']}.sbatch")
        asked = scripts.test_only(slurm, path)
        assert asked.returncode == 0, asked.stderr
        number = int(slurm.run("sbatch", "--parsable", *options, path).stdout)
        return Ran(jobs.wait(slurm, number), tmp_path, job["name"])

    return run
