# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look at the node's Slurm."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers import slurm as enroot_slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult

from tests.unit.fakes import fake_rooted_host as rooted
from tests.unit.plugins.module_utils._node.containers.test_look import STACK


@pytest.fixture
def host(tmp_path):
    return rooted.node(tmp_path)


def test_facts_of_slurm(host):
    host.put("/proc/41/comm", "slurmstepd\n")
    host.put("/proc/42/comm", "slurmd\n")
    found = enroot_slurm.look(host)
    assert (found["prefix"], found["version"], found["header_version"]) == ("/opt/slurm", "22.05.8", "22.05.8")
    assert (found["plugstack"], found["conf_shared"], found["configless"], found["steps"]) == (STACK, False, False, 1)
    assert found["slurmd_unit"]


SQUEUE = "/opt/slurm/bin/squeue --noheader --all"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("", ""),
        ("17\n", "jobs have the node (17)"),
        ("17\n18_3\n", "jobs have the node (17, 18_3)"),
        ("1\n2\n3\n4\n5\n6\n", "(1, 2, 3, 4, 5, ...)"),
        (CommandResult(1, "", "slurm_load_jobs error: Unable to contact slurm controller"), "Unable to contact"),
        (CommandResult(1, "", "squeue: error: Invalid node name here"), "Invalid node name here"),
        (None, "looked for squeue"),
    ],
)
def test_node_is_idle_only_if_slurm_reports_no_job(host, monkeypatch, answer, words):
    """A job without a step counts too, as between the commands of salloc."""
    monkeypatch.setenv("SLURMD_NODENAME", "here")
    if answer is not None:
        host.put("/opt/slurm/bin/squeue")
        host.answers[SQUEUE] = answer
    reason = enroot_slurm.busy(host, enroot_slurm.look(host))
    assert words in reason if words else not reason
    assert answer is None or "--nodelist=here" in host.ran[-1]


def test_running_step_is_reported_without_controller(host):
    host.put("/proc/41/comm", "slurmstepd\n")
    assert enroot_slurm.busy(host, enroot_slurm.look(host)) == "steps of jobs run on the node (1)"
