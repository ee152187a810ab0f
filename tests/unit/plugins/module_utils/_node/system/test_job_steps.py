# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job steps by the processes of the node."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.job_steps import jobs_problem, running_steps


class Processes(Host):
    """names: the command of each process by its id, None for one that has ended."""

    def __init__(self, names: Mapping[str, str | None]) -> None:
        self.names = names

    def listdir(self, path: str) -> list[str]:
        return [*self.names, "meminfo"] if self.names else []

    def read_text(self, path: str) -> str | None:
        name = self.names.get(path.split("/")[2])
        return None if name is None else f"{name}\n"


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        ({"1": "systemd", "7": "slurmd"}, 0),
        ({"1": "systemd", "7": "slurmstepd", "8": "slurmstepd", "9": None}, 2),
        ({}, None),
    ],
)
def test_steps_are_counted_by_their_processes(names: Mapping[str, str | None], steps: int | None) -> None:
    assert running_steps(Processes(names)) == steps


def test_only_node_that_is_known_to_be_idle_is_changed() -> None:
    assert jobs_problem(0, "enroot", "enroot_pyxis_safe_mode") is None
    busy = str(jobs_problem(2, "lustre-client", "fsx_lustre_safe_mode"))
    assert busy.startswith(
        "lustre-client would change what running Slurm jobs use, and nothing was done (2 steps of Slurm jobs"
    )
    assert busy.endswith("drain the node and wait for its jobs, or set fsx_lustre_safe_mode: false")
    assert "not known whether Slurm jobs run" in str(jobs_problem(None, "it", "switch"))
