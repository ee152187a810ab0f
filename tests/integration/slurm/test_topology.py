# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real controller of Slurm with the topology.conf that the filter renders."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.filter.slurm_topology import slurm_topology
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex import parse

from tests.rig.slurm import jobs
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.spec import Spec

pytestmark = needs_slurm

# Names of network nodes in EC2's format: their hexadecimal digits must not be read as a range.
WIDE, NEAR, FAR = "nn-0d1e2f30415263745", "nn-00000000000000019", "nn-00000000000000020"
ALONE = "nn-0aaaaaaaaaaaaaaa1"
PLACES = {"n1": [WIDE, NEAR], "n2": [WIDE, NEAR], "n3": [WIDE, FAR], "n4": [ALONE], "n5": []}


@pytest.fixture(scope="module")
def placed():
    hosts = [{"ec2_slurm_node_name": name, "ec2_network_nodes": path} for name, path in PLACES.items()]
    cluster = Cluster(f"tree-{os.getpid()}")
    yield cluster.up(Spec(nodes=len(PLACES), gpus=0, cpus=1, topology=slurm_topology(hosts)), owned=True)
    cluster.down()


def test_controller_reads_expected_tree(placed):
    shown = placed.run("scontrol", "show", "topology").stdout
    switches = {}
    for line in shown.splitlines():
        values = dict(re.findall(r"(\w+)=(\S+)", line))
        switches[values["SwitchName"]] = (int(values["Level"]), values["Nodes"], values.get("Switches"))
    assert switches[NEAR] == (0, "n[1-2]", None)
    assert switches[FAR] == (0, "n3", None)
    assert switches["unplaced"] == (0, "n5", None)
    assert switches[WIDE][:2] == (1, "n[1-3]")
    assert switches["cluster"][:2] == (2, "n[1-5]")
    assert switches.keys() == {NEAR, FAR, WIDE, ALONE, "unplaced", "cluster"}


def test_controller_log_has_no_errors(placed):
    log = (placed.root / "log/slurmctld.log").read_text(encoding="utf-8")
    assert "Running as primary controller" in log
    # The messages for nodes without a switch and for switches that are not connected.
    assert not re.search(r"(?i)topology|switches lack access", log), log


def test_job_gets_neighbours_and_spans_cluster_if_needed(placed):
    one_switch = placed.run("srun", "--nodes=2", "--switches=1", "hostname").stdout.split()
    assert sorted(one_switch) == ["n1", "n2"]
    assert len(placed.run("srun", f"--nodes={len(PLACES)}", "hostname").stdout.split()) == len(PLACES)


BLOCKS = {"n1": "cb-a", "n2": "cb-a", "n3": "cb-b", "n4": "cb-b", "n5": None}


def slurm_version():
    """Return major and minor release of this machine's Slurm."""
    text = subprocess.run(["slurmd", "-V"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


@pytest.fixture(scope="module")
def blocked():
    """Yield a cluster with nodes of two UltraServers and a node outside of both."""
    if slurm_version() < (23, 11):
        pytest.skip("Slurm has topology/block since 23.11: run this by python -m tests.rig.slurm.newer")
    hosts = [{"ec2_slurm_node_name": name, "ec2_capacity_block_id": block} for name, block in BLOCKS.items()]
    cluster = Cluster(f"block-{os.getpid()}")
    spec = Spec(nodes=len(BLOCKS), gpus=0, cpus=1, topology=slurm_topology(hosts, plugin="block"))
    yield cluster.up(spec, owned=True)
    cluster.down()


@pytest.mark.newer
def test_controller_has_block_for_each_ultraserver(blocked):
    found = parse.blocks(blocked.run("scontrol", "show", "topology").stdout)
    assert found == {"cb-a": "n[1-2]", "cb-b": "n[3-4]"}


@pytest.mark.newer
def test_segment_of_job_is_in_one_block(blocked):
    blocked.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")
    try:
        # n2 and n3 are free and adjacent, and are of different UltraServers.
        job = jobs.finish(blocked, "true", "--nodes=2", "--segment=2", "--exclusive")
        assert job.nodes == "n[3-4]"
    finally:
        blocked.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    both = jobs.finish(blocked, "true", "--nodes=4", "--segment=2", "--exclusive")
    assert both.nodes == "n[1-4]"
    assert jobs.finish(blocked, "true", "--nodes=2", "--segment=1", "--exclusive").state == "COMPLETED"


def test_node_outside_blocks_runs_jobs_alone(blocked):
    among = blocked.run("sbatch", "--output=/dev/null", "--nodelist=n5", "--exclusive", "--wrap=true", check=False)
    assert among.returncode and "Requested topology configuration is not available" in among.stderr
    # The options stand for a partition without nodes of blocks.
    assert jobs.finish(blocked, "true", "--nodelist=n5", "--exclude=n[1-4]", "--exclusive").state == "COMPLETED"


def test_segment_larger_than_each_block_starts_no_job(blocked):
    asked = blocked.run(
        "sbatch", "--output=/dev/null", "--nodes=3", "--segment=3", "--exclusive", "--wrap=true", check=False
    )
    assert asked.returncode and "Requested topology configuration is not available" in asked.stderr
