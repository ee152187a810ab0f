# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""slurm_info as Ansible runs it, on what a cluster of Slurm 22.05 was recorded to answer."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.look import EMPTY
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, Host
from ansible_collections.mlcluster.aws.plugins.modules import slurm_info

RECORDED = Path(__file__).parents[2] / "fixtures/slurm-22.05"
ANSWERS = {
    "scontrol ping": "ping.txt",
    "scontrol show config": "config.txt",
    "scontrol --details --oneliner show node": "nodes.txt",
    "scontrol --details --oneliner show partition": "partitions.txt",
    "srun --mpi=list": "mpi.txt",
    "srun --help": "help.txt",
}
TEXTS = {
    "scontrol --version": "slurm 22.05.8",
    "scontrol --oneliner show licenses": "LicenseName=matlab Total=2 Used=0 Free=2 Reserved=0 Remote=no",
}


class Recorded(Host):
    """A head node; failing are beginnings of command lines that end with 1."""

    def __init__(self, failing=(), installed=True):
        self.failing, self.installed = tuple(failing), installed

    def which(self, program):
        return f"/usr/bin/{program}" if self.installed else None

    def exists(self, path):
        return self.installed and path.startswith("/usr/bin/")

    def run(self, argv, timeout=120, check=True, stdin=None):
        words = [word for word in argv if word != "env" and not word.startswith("SLURM_")]
        line = " ".join([words[0].rpartition("/")[2], *words[1:]])
        if line.startswith(self.failing or "\0"):
            return CommandResult(1, "", "slurm_load: Unable to contact slurm controller")
        if line in ANSWERS:
            return CommandResult(0, (RECORDED / ANSWERS[line]).read_text(encoding="utf-8"), "")
        return CommandResult(0, TEXTS.get(line, ""), "")


@pytest.mark.parametrize("check", [False, True])
def test_cluster_is_reported_whole(run_module, check):
    found = run_module(slurm_info, Recorded(), check=check)
    assert (found["changed"], found["healthy"], found["installed"], found["problems"]) == (False, True, True, [])
    assert (found["version"], found["licenses"]) == ("22.05.8", {"matlab": 2})
    assert found["nodes"] and {"pmi2", "pmix"} <= set(found["mpi_types"])
    assert {node for entry in found["partitions"] for node in [entry["name"]]} == {
        partition for node in found["nodes"] for partition in node["partitions"]
    }


def test_unanswered_part_is_reported_with_rest(run_module):
    found = run_module(slurm_info, Recorded(failing=["squeue", "scontrol --oneliner show licenses"]))
    assert (found["healthy"], found["jobs"], found["licenses"]) == (True, [], {})
    assert [problem.split(" ended with")[0].split()[0] for problem in found["problems"]] == ["squeue", "scontrol"]
    assert found["nodes"]


def test_missing_controller_and_slurm_are_reported(run_module):
    down = run_module(slurm_info, Recorded(failing=["scontrol ping"]))
    assert (down["healthy"], down["installed"], down["nodes"]) == (False, True, [])
    assert down["problems"][0].startswith("looked for a running controller and found none")
    bare = run_module(slurm_info, Recorded(installed=False))
    assert (bare["healthy"], bare["installed"]) == (False, False)


def test_all_returned_keys_are_documented(run_module):
    documented = yaml.safe_load(slurm_info.RETURN)
    assert set(EMPTY) <= set(documented)
    found = run_module(slurm_info, Recorded())
    assert set(found) - {"changed", "invocation"} <= set(documented)
