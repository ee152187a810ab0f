# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The topology.conf that the filter renders, in a controller of Slurm."""

from __future__ import annotations

import os
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.filter.slurm_topology import slurm_topology

from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.spec import Spec

pytestmark = needs_slurm

# As EC2 names network nodes: hexadecimal digits, which must not be taken for a range.
WIDE, NEAR, FAR = "nn-0d1e2f30415263745", "nn-00000000000000019", "nn-00000000000000020"
ALONE = "nn-0aaaaaaaaaaaaaaa1"
PLACES = {"n1": [WIDE, NEAR], "n2": [WIDE, NEAR], "n3": [WIDE, FAR], "n4": [ALONE], "n5": []}


@pytest.fixture(scope="module")
def placed():
    hosts = [{"ec2_slurm_node_name": name, "ec2_network_nodes": path} for name, path in PLACES.items()]
    cluster = Cluster(f"tree-{os.getpid()}")
    yield cluster.up(Spec(nodes=len(PLACES), gpus=0, cpus=1, topology=slurm_topology(hosts)), owned=True)
    cluster.down()


def test_the_controller_reads_the_tree_as_it_was_meant(placed):
    told = placed.run("scontrol", "show", "topology").stdout
    switches = {}
    for line in told.splitlines():
        values = dict(re.findall(r"(\w+)=(\S+)", line))
        switches[values["SwitchName"]] = (int(values["Level"]), values["Nodes"], values.get("Switches"))
    assert switches[NEAR] == (0, "n[1-2]", None)
    assert switches[FAR] == (0, "n3", None)
    assert switches["unplaced"] == (0, "n5", None)
    assert switches[WIDE][:2] == (1, "n[1-3]")
    assert switches["cluster"][:2] == (2, "n[1-5]")
    assert switches.keys() == {NEAR, FAR, WIDE, ALONE, "unplaced", "cluster"}


def test_the_controller_finds_nothing_to_complain_about(placed):
    log = (placed.root / "log/slurmctld.log").read_text(encoding="utf-8")
    assert "Running as primary controller" in log
    # Its words for nodes in no switch and for switches that nothing joins.
    assert not re.search(r"(?i)topology|switches lack access", log), log


def test_a_job_is_put_on_neighbours_and_spans_the_cluster_when_it_has_to(placed):
    one_switch = placed.run("srun", "--nodes=2", "--switches=1", "hostname").stdout.split()
    assert sorted(one_switch) == ["n1", "n2"]
    assert len(placed.run("srun", f"--nodes={len(PLACES)}", "hostname").stdout.split()) == len(PLACES)
