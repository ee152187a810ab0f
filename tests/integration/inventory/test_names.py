# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of hosts."""

from __future__ import annotations

import pytest

from tests.rig.ec2 import Fleet, Region


def test_instance_ids_by_default(play, inventory, cluster):
    endpoint = play(*cluster)
    listed = inventory(endpoint)
    assert set(listed.hosts) == {host.id for host in endpoint.hosts()} and listed.stderr == ""


def test_ansible_62583_hosts_with_same_name_stay_separate(play, inventory):
    endpoint = play(Fleet(count=3, cluster="train", queue="gpu", compute_resource="p5"))
    listed = inventory(endpoint, hostnames=["tag:Name"])
    assert set(listed.hosts) == {f"Compute-{host.id}" for host in endpoint.hosts()}
    assert listed.stderr.count("WARNING") == 1 and "Compute" in listed.stderr
    assert {host["ec2_tags"]["Name"] for host in listed.hosts.values()} == {"Compute"}


def test_collision_across_regions_is_resolved(play, inventory):
    endpoint = play(
        Region("us-east-1", (Fleet(name="one"),)), Region("eu-west-1", (Fleet(name="one"), Fleet(name="two")))
    )
    listed = inventory(endpoint, regions=["us-east-1", "eu-west-1"], hostnames=["tag:Name"])
    ids = [endpoint.hosts(region)[0].id for region in ("us-east-1", "eu-west-1")]
    assert set(listed.hosts) == {f"one-{ids[0]}", f"one-{ids[1]}", "two"}


def test_collision_across_files_is_resolved(play, inventory):
    regions = ("us-east-1", "eu-west-1")
    endpoint = play(*(Region(region, (Fleet(name="head"), Fleet(name=region))) for region in regions))
    named = {"hostnames": ["tag:Name"]}
    first, second = (
        inventory.file(inventory.options(endpoint, regions=[region], **named), f"{region}.ec2_nodes.yml")
        for region in regions
    )
    # With the first file twice, the same instance under the same name is not a collision.
    listed = inventory.read(first, "-i", str(second), "-i", str(first), **endpoint.environment())
    other = endpoint.hosts("eu-west-1")[0].id
    assert set(listed.hosts) == {"head", f"head-{other}", *regions}
    assert listed.hosts[f"head-{other}"]["ec2_region"] == "eu-west-1"
    assert listed.hosts["head"]["ec2_region"] == "us-east-1"


def test_amazon_aws_583_missing_tag_uses_next_preference(play, inventory):
    endpoint = play(Fleet(name="named"), Fleet(), Fleet(name=" "))
    listed = inventory(endpoint, hostnames=["tag:Name", "private_dns"])
    assert set(listed.hosts) == {"named", endpoint.hosts()[1].private_dns, endpoint.hosts()[2].private_dns}


@pytest.mark.parametrize(("preference", "expected"), [("private_dns", "private_dns"), ("private_ip", "ip")])
def test_addresses_as_names(play, inventory, cluster, preference, expected):
    endpoint = play(*cluster)
    listed = inventory(endpoint, hostnames=[preference])
    assert set(listed.hosts) == {getattr(host, expected) for host in endpoint.hosts()}


def test_slurm_node_names_are_used_if_known(play, inventory, cluster):
    endpoint = play(*cluster, dynamodb_page=2)
    listed = inventory(endpoint, hostnames=["slurm_node_name", "instance_id"], enrich=["slurm_names"])
    others = {host.id for host in endpoint.hosts() if host.fleet.role != "Compute"}
    nodes = {"gpu-dy-p5-1", "gpu-dy-p5-2", "gpu-dy-p5-3", "trn-east-dy-trn1-1", "trn-east-dy-trn1-2"}
    assert set(listed.hosts) == others | nodes
    assert listed.hosts["gpu-dy-p5-2"]["ec2_slurm_node_name"] == "gpu-dy-p5-2"


def test_amazon_aws_814_name_never_evaluates_tag(play, inventory):
    endpoint = play(Fleet(name="{{ 40 + 2 }}"), Fleet(name="a b/c;rm"), Fleet(name="-o"), Fleet(name="all"))
    listed = inventory(endpoint, hostnames=["tag:Name"])
    assert len(listed.hosts) == 4 and "42" not in " ".join(listed.hosts)
    for name in listed.hosts:
        assert not set(name) & set("{} ;/[],:!&~*$'\"") and not name.startswith("-")
    assert "all" not in listed.hosts
    tags = {host["ec2_tags"]["Name"] for host in listed.hosts.values()}
    assert tags == {"{{ 40 + 2 }}", "a b/c;rm", "-o", "all"}


def test_name_of_group_is_not_taken_by_host(play, inventory):
    endpoint = play(Fleet(name="gpu"), Fleet(name="type_p5_48xlarge"))
    listed = inventory(endpoint, hostnames=["tag:Name"])
    assert set(listed.hosts) == {f"{host.fleet.name}-{host.id}" for host in endpoint.hosts()}
    assert listed.groups["gpu"] == set(listed.hosts)


def test_unknown_preference_is_one_sentence(play, inventory):
    listed = inventory(play(Fleet()), hostnames=["name"])
    assert "hostnames: 'name' is not known" in listed.stderr and "Traceback" not in listed.stderr


def test_node_with_many_interfaces_is_one_host(play, inventory):
    endpoint = play(Fleet(count=2, type="p5.48xlarge"))
    listed = inventory(endpoint, hostnames=["private_ip"])
    assert set(listed.hosts) == {host.ip for host in endpoint.hosts()}
    for name, host in listed.hosts.items():
        assert host["ansible_host"] == host["ec2_private_ip_address"] == name
        assert host["ec2_network_interfaces"] == 32
