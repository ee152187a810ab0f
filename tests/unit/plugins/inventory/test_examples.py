# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example inventories, over the fake endpoint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleParserError
from ansible_collections.mlcluster.aws.plugins.inventory import ec2_nodes

from tests.rig.ec2 import Fault, Fleet, Region

ROOT = Path(__file__).resolve().parents[4]
EXAMPLE_FILES = ROOT / "inventories"
EAST = "us-east-1"


def example(name):
    (path,) = (EXAMPLE_FILES / name).glob("*.ec2_nodes.yml")
    return path.read_text()


def train():
    return (
        Fleet(type="c6i.4xlarge", cluster="train", role="HeadNode", public=True),
        Fleet(count=2, cluster="train", queue="gpu", compute_resource="p5"),
        Fleet(cluster="other", queue="gpu"),
    )


def test_parallelcluster_example_needs_name_of_cluster_only(play, load, monkeypatch, warnings):
    endpoint = play(Region(EAST, train()))
    monkeypatch.setenv("AWS_REGION", EAST)
    inventory = load(example("parallelcluster"), extra_vars={"cluster": "train"})
    head = endpoint.hosts()[0]
    assert inventory.group("compute") == inventory.group("instance_store") == ["gpu-dy-p5-1", "gpu-dy-p5-2"]
    assert inventory.group("head") == [head.private_dns]
    jump = inventory.vars("gpu-dy-p5-1")["ansible_ssh_common_args"]
    assert jump == f"-o ProxyJump=ubuntu@{head.public_ip}"
    assert warnings == []


def test_example_works_without_permission_for_slurm_names(play, load, monkeypatch, warnings):
    endpoint = play(Region(EAST, train(), faults=(Fault("Scan", "AccessDeniedException"),)))
    monkeypatch.setenv("AWS_REGION", EAST)
    inventory = load(example("parallelcluster"), extra_vars={"cluster": "train"})
    assert inventory.hosts == sorted(host.private_dns for host in endpoint.hosts()[:3])
    assert len(warnings) == 1


def test_missing_cluster_name_is_reported_with_option(play, load):
    play(Region(EAST))
    with pytest.raises(AnsibleParserError, match="option cluster_name cannot be evaluated"):
        load(example("parallelcluster"))


def test_empty_name_does_not_select_every_instance(play, load):
    play(Region(EAST, train()))
    with pytest.raises(AnsibleParserError, match="cluster_name: is empty"):
        load(example("parallelcluster"), extra_vars={"cluster": ""})


def test_ec2_example_finds_nodes_by_their_tag(play, load):
    play(
        Region(
            EAST,
            (
                Fleet(tags={"Cluster": "training"}),
                Fleet(tags={"Cluster": "training", "Role": "controller"}, type="c6i.4xlarge"),
                Fleet(tags={"Cluster": "training", "Role": "login"}, type="c6i.4xlarge"),
                Fleet(tags={"Cluster": "other"}),
            ),
        )
    )
    inventory = load(example("ec2"))
    assert len(inventory.hosts) == 3
    for group in ("head", "login", "compute", "gpu", "efa", "instance_store", "cluster_training"):
        assert len(inventory.group(group)) == (3 if group == "cluster_training" else 1), group
    assert inventory.group("compute") == inventory.group("gpu") == inventory.group("instance_store")


def groups_in(hosts):
    """Return the groups of a play's pattern, or of the default of a variable in it."""
    patterns = re.findall(r"default\('([^']*)'\)", hosts) or ([] if "{{" in hosts else [hosts])
    return {name for pattern in patterns for name in re.split("[:,&!]+", pattern) if name} - {"all", "localhost"}


@pytest.mark.parametrize("playbook", sorted((ROOT / "playbooks").glob("*.yml")), ids=lambda path: path.stem)
def test_playbook_groups_are_made_by_plugin(playbook):
    documented = set(re.findall(r"C\(([a-z_]+)\)", ec2_nodes.DOCUMENTATION))
    for one in yaml.safe_load(playbook.read_text()):
        # The site's inventory sets the hosts of Prometheus and Grafana.
        assert groups_in(one.get("hosts", "")) - {"monitoring"} <= documented, playbook.name
