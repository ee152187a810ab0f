# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""site.yml over the EC2 inventory, in which the guest is one of the instances.

Only the storage play runs: other roles would reject the guest, as its instance type is a Trainium type.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.rig.ec2 import Endpoint, Fleet, Region, Scenario
from tests.rig.vm.guest import Guest
from tests.vm import helpers
from tests.vm.conftest import GuestFactory

pytestmark = pytest.mark.vm

NODE = "trn-dy-trn1-1"
SCENARIO = Scenario(
    regions=(
        Region(
            "us-east-1",
            (
                Fleet(cluster="train", role="HeadNode", type="c6i.4xlarge", public=True),
                Fleet(cluster="train", queue="trn", compute_resource="trn1", type="trn1.32xlarge"),
                Fleet(cluster="train", queue="trn", compute_resource="trn1", type="trn1.32xlarge", state="stopped"),
                Fleet(cluster="other", queue="gpu", compute_resource="p5"),
            ),
        ),
    )
)


def inventory(folder: Path, node: Guest) -> Path:
    """Write the inventory of a ParallelCluster user; ``compose`` adds the guest's real address."""
    options = {
        "plugin": "mlcluster.aws.ec2_nodes",
        "cluster_name": "train",
        "enrich": ["slurm_names"],
        "hostnames": ["slurm_node_name", "instance_id"],
        # Constants of the rig, as Jinja literals.
        "compose": {name: json.dumps(value) for name, value in node.host_variables().items()},
    }
    path = folder / "rig.ec2_nodes.yml"
    path.write_text(yaml.safe_dump(options), encoding="utf-8")
    return path


def site(source: Path, endpoint: Endpoint) -> dict[str, int]:
    """Run site.yml and return the recap's counts for the node; fail the test if the run fails."""
    environment = {
        **os.environ,
        **endpoint.environment(),
        "AWS_DEFAULT_REGION": "us-east-1",
        "XDG_CACHE_HOME": str(source.parent / "cache"),
        "ANSIBLE_CONFIG": str(helpers.ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        "PATH": f"{helpers.BIN}{os.pathsep}{os.environ['PATH']}",
    }
    argv = [str(helpers.BIN / "ansible-playbook"), "-i", str(source), str(helpers.ROOT / "site.yml")]
    argv += ["--tags", "nvme_raid0", "--limit", "instance_store"]
    done = subprocess.run(
        argv, cwd=helpers.ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    recap = dict(re.findall(r"^(\S+) +: (ok=.*)$", done.stdout, re.MULTILINE))
    assert list(recap) == [NODE], recap
    return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", recap[NODE])}


def test_site_playbook_configures_node_of_inventory(guest: GuestFactory, tmp_path: Path) -> None:
    node = guest(disks=4)
    with Endpoint(SCENARIO) as endpoint:
        source = inventory(tmp_path, node)
        first = site(source, endpoint)
        assert first["changed"] and not first["failed"] and not first["unreachable"]
        helpers.expect_volume(node)
        again = site(source, endpoint)
        assert (again["changed"], again["failed"]) == (0, 0)
        # Each run requests instances and names once; instance types are cached.
        assert [endpoint.count(name) for name in ("DescribeInstances", "Scan", "DescribeInstanceTypes")] == [2, 2, 1]
