# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import client
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import find_prefix, node_name
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, Host

PCS = "/opt/aws/pcs/scheduler"


class Machine(Host):
    def __init__(self, *prefixes: str) -> None:
        self.programs = {f"{prefix}/bin/srun" for prefix in prefixes}
        self.versions = [prefix.rsplit("/", 1)[1] for prefix in prefixes if prefix.startswith(PCS)]

    def exists(self, path: str) -> bool:
        return path in self.programs

    def listdir(self, path: str) -> list[str]:
        return ["agent", *self.versions] if path == PCS and self.versions else []


@pytest.mark.parametrize(
    "prefixes, expected",
    [
        ((), None),
        (("/opt/slurm",), "/opt/slurm"),
        ((f"{PCS}/slurm-25.05",), f"{PCS}/slurm-25.05"),
        (("/opt/slurm", f"{PCS}/slurm-25.05"), "/opt/slurm"),
        # Which of the two is the cluster's cannot be seen here, and the older one could not read its slurm.conf.
        ((f"{PCS}/slurm-24.11", f"{PCS}/slurm-25.05"), None),
    ],
)
def test_prefix_is_found(prefixes: tuple[str, ...], expected: str | None):
    assert find_prefix(Machine(*prefixes), "srun") == expected


def test_version_without_program_is_skipped():
    machine = Machine(f"{PCS}/slurm-25.05")
    machine.versions.append("slurm-24.11")
    assert find_prefix(machine, "srun") == f"{PCS}/slurm-25.05"


def test_node_name_is_slurm_name_or_short_host_name(monkeypatch):
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    monkeypatch.setattr(client.socket, "gethostname", lambda: "n7.cluster.internal")
    assert node_name() == "n7"
    monkeypatch.setenv("SLURMD_NODENAME", "queue-dy-p5-1")
    assert node_name() == "queue-dy-p5-1"


@pytest.mark.parametrize(
    ("code", "text", "unanswered"),
    [(1, "Unable to contact slurm controller", True), (1, "Invalid user id", False), (0, "timed out", False)],
)
def test_unanswered_command_is_recognized(code, text, unanswered):
    assert client.is_unanswered(CommandResult(code, "", text)) is unanswered


@pytest.mark.parametrize(
    ("local", "program", "unset"),
    [
        (False, "squeue", ["SQUEUE_STATES"]),
        (True, "squeue", ["SLURM_CLUSTERS", "SQUEUE_STATES"]),
        (True, "scontrol", ["SLURM_CLUSTERS"]),
        (False, "scontrol", []),
    ],
)
def test_variables_that_narrow_answer_are_unset(monkeypatch, local, program, unset):
    for name in ("SQUEUE_STATES", "SLURM_CLUSTERS", "SLURM_CONF"):
        monkeypatch.setenv(name, "x")
    machine = Machine("/opt/slurm")
    machine.programs |= {"/opt/slurm/bin/squeue", "/opt/slurm/bin/scontrol"}
    argv = client.Slurm(machine, local=local).argv(program, "-h")
    assert [word.partition("=")[2] for word in argv if word.startswith("--unset=")] == unset
    assert argv[-2:] == [f"/opt/slurm/bin/{program}", "-h"]
