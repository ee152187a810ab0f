# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A validation with the layout domains on two blocks of nodes of a real Slurm, with a stand-in for nccl-tests."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.filter.slurm_topology import slurm_topology
from ansible_collections.mlcluster.aws.plugins.modules import slurm_info

from tests.integration.slurm.ran import install
from tests.integration.slurm.test_topology import slurm_version
from tests.rig.slurm import scripts
from tests.rig.slurm.cluster import Cluster
from tests.rig.slurm.fixture import needs_slurm
from tests.rig.slurm.spec import Spec

pytestmark = needs_slurm
DOMAINS = "n1,n2,n3 n4,n5"
JOB = {"name": "domains", "kind": "nccl", "layout": "domains", "nodes": 5, "collectives": ["all_reduce"],
       "smallest": "1K", "largest": "4K", "factor": 4}  # fmt: skip


@pytest.fixture(scope="module")
def ultraservers():
    """Yield a cluster of five nodes of two UltraServers."""
    if slurm_version() < (23, 11):
        pytest.skip("Slurm has topology/block since 23.11: run this by python -m tests.rig.slurm.newer")
    cluster = Cluster(f"domains-{os.getpid()}")
    blocks = {name: block for block, names in enumerate(DOMAINS.split()) for name in names.split(",")}
    hosts = [{"ec2_slurm_node_name": name, "ec2_capacity_block_id": f"cb-{block}"} for name, block in blocks.items()]
    spec = Spec(nodes=len(hosts), gpus=1, topology=slurm_topology(hosts, plugin="block"))
    yield cluster.up(spec, owned=True)
    cluster.down()


@pytest.fixture
def validate(ultraservers, run_module, runtime, tmp_path):
    """Return ``validate(**environment)``: it returns the ended process, the report's results and the job's folder."""
    install("collective_perf", tmp_path / "all_reduce_perf")
    facts = run_module(slurm_info, ultraservers)

    def go(**environment):
        role = scripts.Role(
            facts,
            jobs=[JOB],
            dir=str(tmp_path),
            gpus_per_node=1,
            instance_type="p6e-gb200.36xlarge",
            nccl_tests_dir=str(tmp_path),
            mpi="none",
            environment={"STAND_IN_DOMAINS": DOMAINS, **environment},
        )
        assert role.problems == []
        role.install(runtime)
        words = ["/usr/bin/python3", str(tmp_path / "mlcluster.pyz"), "validate", f"--dir={tmp_path}"]
        done = subprocess.run(
            [*words, f"--slurm-conf={ultraservers.root}/etc/slurm.conf"], capture_output=True, text=True, check=False
        )
        folders = sorted((tmp_path / "results").glob("domains-*/"), key=lambda path: path.stat().st_mtime)
        assert folders, done.stdout + done.stderr
        report = json.loads((folders[-1] / "report.json").read_text(encoding="utf-8"))
        return done, report["results"], folders[-1]

    return go


def test_segment_has_at_most_nodes_of_smallest_block(ultraservers):
    job = ("--exclusive", "--output=/dev/null", "--wrap=true")
    asked = [ultraservers.run("sbatch", f"--nodes={size}", f"--segment={size}", *job, check=False) for size in (2, 3)]
    assert [done.returncode for done in asked] == [0, 1]
    assert "Requested topology configuration is not available" in asked[1].stderr


def of(results, check):
    return [one for one in results if one["id"] == check]


def test_each_ultraserver_runs_alone_before_all_nodes(validate):
    done, results, folder = validate()
    runs = [line.split("\t") for line in (folder / "runs.tsv").read_text(encoding="utf-8").splitlines()]
    # The first round runs both UltraServers at once, the second all nodes.
    assert [(run[2], run[3], run[4]) for run in runs] == [
        ("n1,n2,n3", "0", "0"), ("n4,n5", "0", "0"), ("n1,n2,n3,n4,n5", "0", "1")
    ]  # fmt: skip
    assert {one["status"] for one in of(results, "nccl.nvlink_domain.all_reduce")} == {"pass"}
    assert len(of(results, "nccl.nvlink_domain.all_reduce")) == 3
    assert of(results, "nccl.complete")[0]["status"] == "pass"
    # There is no published bandwidth for these nodes.
    assert done.returncode == 2 and of(results, "nccl.bandwidth.all_reduce")[0]["status"] == "undeterminable"


def test_node_that_is_not_in_its_domain_is_found(validate):
    done, results, _folder = validate(STAND_IN_OUTSIDE="n3")
    by_unit = {one["message"].partition(":")[0]: one for one in of(results, "nccl.nvlink_domain.all_reduce")}
    assert {unit: one["status"] for unit, one in by_unit.items()} == {
        "n1+n2+n3": "fail", "n4+n5": "pass", "n1-to-n5-5": "fail"
    }  # fmt: skip
    assert done.returncode == 1 and "n3" in by_unit["n1+n2+n3"]["message"].partition(":")[2]
