# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clusters of these tests, one a session of each kind, and a way to run a module against one."""

from __future__ import annotations

import json
import types
import typing as t
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args

from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import slurm, slurm_accounting

__all__ = ["slurm", "slurm_accounting"]

Runner = Callable[..., dict[str, t.Any]]


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
