# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import image as health_image

from tests.unit.fakes.fake_slurm_node import BIN, HELP, IMAGE, NODE, UP, SlurmHost


@pytest.fixture
def host(monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    made = SlurmHost()
    for program in ("scontrol", "srun"):
        made.files[f"{BIN}/{program}"] = ""
    made.files[health_image.RUNTIME_PATH] = ""
    made.files[IMAGE] = ""
    made.commands = {
        f"{BIN}/scontrol ping": UP,
        f"{BIN}/scontrol --details": NODE.format("IDLE", ""),
        f"{BIN}/srun --help": HELP,
    }
    return made
