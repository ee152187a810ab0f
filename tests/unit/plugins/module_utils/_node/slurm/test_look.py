# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look at a machine without Slurm; what a cluster answers is tested on a real one (tests/integration/slurm)."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.look import survey
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError


class Bare(Host):
    def which(self, program: str) -> None:
        return None

    def exists(self, path: str) -> bool:
        return False

    def listdir(self, path: str) -> list[str]:
        return []


@pytest.mark.parametrize("prefix", [None, "/nonexistent"])
def test_machine_without_slurm_is_reported(prefix):
    found = survey(Slurm(Bare(), prefix=prefix))
    assert (found["installed"], found["healthy"], found["nodes"], found["controllers"]) == (False, False, [], [])
    places = "on the system path, in /opt/slurm and as the only one in /opt/aws/pcs/scheduler"
    assert found["problems"] == [f"looked for Slurm {places} and found none on this machine"]


def test_given_prefix_without_slurm_is_error():
    with pytest.raises(NodeError, match=r"looked for scontrol in /no/such/bin and did not find it"):
        survey(Slurm(Bare(), prefix="/no/such"))
