# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clusters of these tests, one a session of each kind, and a way to run a module against one."""

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

# Before the first import of ansible_collections: templates find the collection's filters by it.
finder.install()

__all__ = ["shared_slurm", "slurm_accounting"]

Runner = Callable[..., dict[str, t.Any]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests that stay with one process if several share the work: those of a file share its clusters, and those
    with nodes that have directories of this machine to themselves take turns with them."""
    for item in items:
        file = item.path.stem
        item.add_marker(
            pytest.mark.xdist_group(
                "checked" if file in ("test_health", "test_heal", "test_scratch", "test_watch") else file
            )
        )


@pytest.fixture
def slurm(shared_slurm: Cluster) -> Cluster:
    """The cluster of all these tests, at rest: what the one before left may still be on its way out, or have failed."""
    jobs.rest(shared_slurm)
    return shared_slurm


@pytest.fixture
def run_module(capsys: pytest.CaptureFixture[str]) -> Runner:
    """run_module(module, cluster, check=False, **options) gives what the module printed."""

    def run(module: types.ModuleType, cluster: Cluster, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        arguments = {**options, "conf": f"{cluster.root}/etc/slurm.conf", "_ansible_check_mode": check}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """script(*lines) writes a batch script into an empty directory and gives its path."""

    def write(*lines: str, name: str = "job.sbatch") -> str:
        path = tmp_path / name
        path.write_text("\n".join(("#!/bin/bash", *lines, "")), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def facts(slurm: Cluster, run_module: Runner) -> dict[str, t.Any]:
    """The cluster as slurm_info shows it."""
    from ansible_collections.mlcluster.aws.plugins.modules import slurm_info

    return run_module(slurm_info, slurm)


@pytest.fixture
def slow_to_kill(slurm: Cluster) -> Iterator[Cluster]:
    """The cluster, which gives jobs more time for their end than it gives those of other tests."""
    before = slurm.record.spec.settings.get("KillWait", "2")
    slurm.configure(KillWait="40")
    yield slurm
    slurm.configure(KillWait=before)


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The node runtime."""
    return scripts.build_runtime(tmp_path_factory.mktemp("runtime"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stand-ins for nccl-tests that are real MPI programs."""
    folder = tmp_path_factory.mktemp("nccl")
    for name in ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce"):
        install("collective_perf", folder / f"{name}_perf")
    return folder


@pytest.fixture
def ran(slurm: Cluster, facts: dict[str, t.Any], runtime: Path, programs: Path, tmp_path: Path) -> Callable[..., Ran]:
    """ran(job, *options, **settings) renders one job, submits it as a user would, and gives what became of it."""

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
