# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import slurm_info

from tests.rig.slurm import jobs
from tests.rig.slurm.fixture import needs_slurm

pytestmark = needs_slurm


@pytest.mark.newer
def test_cluster_is_described(slurm, run_module):
    number = jobs.submit(slurm, "sleep 60", "--nodes=1", "--nodelist=n1", "--gres=gpu:3", "--job-name=a b|c JobState=X")
    jobs.wait(slurm, number, "RUNNING")
    slurm.run("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=gpu 3: State=IDLE fell off")
    try:
        found = run_module(slurm_info, slurm)
    finally:
        slurm.run("scancel", str(number))
        slurm.run("scontrol", "update", "NodeName=n2", "State=RESUME")
    assert (found["changed"], found["healthy"], found["problems"]) == (False, True, [])
    assert slurm.run("sinfo", "--version").stdout.split() == ["slurm-wlm", found["version"]]
    assert {"pmi2", "pmix"} <= set(found["mpi_types"])
    nodes = {node["name"]: node for node in found["nodes"]}
    assert [(node["gpus"], node["gpus_allocated"], node["state"]) for node in nodes.values()] == [
        (8, 3, "MIXED"),
        (8, 0, "IDLE"),
    ]
    assert (nodes["n2"]["flags"], nodes["n2"]["reason"], nodes["n2"]["reason_by"]) == (
        ["DRAIN"],
        "gpu 3: State=IDLE fell off",
        "root",
    )
    assert [(node["availability"], node["availability_reason"]) for node in nodes.values()] == [
        ("takes", "partly allocated"),
        ("closed", "drained"),
    ]
    assert (found["jobs_by_node"], found["jobs"][0]["name"]) == ({"n1": [number]}, "a b|c JobState=X")
    assert [(entry["name"], entry["node_count"], entry["max_seconds"]) for entry in found["partitions"]] == [
        ("main", 2, 3600)
    ]
    assert (found["container_options"], found["accounting"], found["accounts"]) == (0, False, [])
    assert found["settings"]["MinJobAge"] == "300 sec"


def test_accounts_are_listed_with_accounting(slurm_accounting, run_module):
    slurm_accounting.run("sacctmgr", "--immediate", "add", "account", "research")
    slurm_accounting.run("sacctmgr", "--immediate", "add", "user", "root", "account=research")
    found = run_module(slurm_info, slurm_accounting)
    assert (found["accounting"], found["accounts"], found["qos"]) == (True, ["research", "root"], ["normal"])
    assert {"account": "research", "user": "root", "partition": None, "qos": ["normal"]} in found["associations"]


@pytest.mark.parametrize("kind", ["slurm"])
def test_stopped_controller_is_reported(kind, request, run_module):
    cluster = request.getfixturevalue(kind)
    cluster.stop("slurmctld")
    try:
        found = run_module(slurm_info, cluster)
    finally:
        cluster.start("slurmctld")
    assert (found.get("failed", False), found["healthy"], found["nodes"]) == (False, False, [])
    assert [entry["up"] for entry in found["controllers"]] == [False]
    assert found["problems"][0].startswith("looked for a running controller and found none (Slurmctld(primary) at ")


def test_missing_slurm_is_one_sentence(slurm, run_module):
    found = run_module(slurm_info, slurm, prefix="/no/such")
    assert found["msg"].startswith(
        "looked for scontrol in /no/such/bin and did not find it: set prefix to the directory above"
    )
