# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups without configuration, the constructed options, and connections of hosts."""

from __future__ import annotations

import pytest
import yaml

from tests.integration.inventory.conftest import ROOT
from tests.rig.ec2 import Fleet


def of(endpoint, **wanted):
    """Return the ids of the hosts whose fleet has these values."""
    return {h.id for h in endpoint.hosts() if all(getattr(h.fleet, k) == v for k, v in wanted.items())}


def test_parallelcluster_nodes_are_grouped_by_role(play, inventory, cluster):
    endpoint = play(*cluster)
    groups = inventory(endpoint).groups
    everything = {host.id for host in endpoint.hosts()}
    accelerated = of(endpoint, role="Compute")
    assert {name: members for name, members in groups.items() if members} == {
        "head": of(endpoint, role="HeadNode"),
        "login": of(endpoint, role="LoginNode"),
        "compute": accelerated,
        "cluster_train": everything,
        "queue_gpu": of(endpoint, queue="gpu"),
        "queue_trn_east": of(endpoint, queue="trn-east"),
        "compute_resource_p5": of(endpoint, compute_resource="p5"),
        "compute_resource_trn1": of(endpoint, compute_resource="trn1"),
        "type_c6i_4xlarge": of(endpoint, type="c6i.4xlarge"),
        "type_p5_48xlarge": of(endpoint, type="p5.48xlarge"),
        "type_trn1_32xlarge": of(endpoint, type="trn1.32xlarge"),
        "az_use1_az1": everything,
        "gpu": of(endpoint, type="p5.48xlarge"),
        "neuron": of(endpoint, type="trn1.32xlarge"),
        "efa": accelerated,
        "instance_store": accelerated,
    }


def test_ansible_40581_group_names_are_safe_and_raw_name_is_kept(play, inventory):
    endpoint = play(Fleet(cluster="my-cluster.1", queue="p5 east/2", compute_resource="ünï"))
    listed = inventory(endpoint)
    assert {"cluster_my_cluster_1", "queue_p5_east_2", "compute_resource__n_"} <= set(listed.groups)
    host = listed.only()
    assert (host["ec2_cluster_name"], host["ec2_queue_name"]) == ("my-cluster.1", "p5 east/2")
    assert host["ec2_compute_resource_name"] == "ünï"
    assert listed.stderr == ""


def test_two_clusters_have_group_each(play, inventory):
    endpoint = play(Fleet(count=2, cluster="a", queue="q", compute_resource="c"), Fleet(cluster="b", role="HeadNode"))
    groups = inventory(endpoint).groups
    assert (len(groups["cluster_a"]), len(groups["cluster_b"])) == (2, 1)


def test_ansible_11898_impaired_and_retiring_nodes(play, inventory):
    endpoint = play(Fleet(), Fleet(health="impaired"), Fleet(event="instance-retirement"), Fleet(event="system-reboot"))
    _fine, impaired, retiring, _reboot = (host.id for host in endpoint.hosts())
    groups = inventory(endpoint, enrich=["health"]).groups
    assert (groups["impaired"], groups["retiring"]) == ({impaired}, {retiring})
    assert not {"impaired", "retiring"} & set(inventory(endpoint).groups)


def test_network_nodes_make_tree_of_groups(play, inventory):
    endpoint = play(Fleet(count=9, interfaces=1))
    listed = inventory(endpoint, enrich=["topology"])
    for host in endpoint.hosts():
        top, middle, leaf = (f"topology_{name.replace('-', '_')}" for name in host.network_nodes)
        assert host.id in listed.groups[leaf]
        assert leaf in listed.children[middle] and middle in listed.children[top]


def test_ansible_79664_tags_do_not_make_groups(play, inventory):
    many = Fleet(count=20, type="c6i.4xlarge", tags={f"key{number}": "value" for number in range(30)})
    groups = inventory(play(many)).groups
    assert set(groups) <= {"all", "ungrouped", "type_c6i_4xlarge", "az_use1_az1"}


def test_own_tags_define_node_type(play, inventory):
    tags = {"Cluster": "own", "Role": "controller", "Partition": "p"}
    endpoint = play(Fleet(tags=tags), Fleet(tags={"Cluster": "own"}))
    keys = {"cluster": "Cluster", "node_type": "Role", "queue": "Partition"}
    groups = inventory(endpoint, tag_keys=keys, default_node_type="compute").groups
    first, second = (host.id for host in endpoint.hosts())
    assert (groups["head"], groups["compute"], groups["queue_p"]) == ({first}, {second}, {first})
    assert groups["cluster_own"] == {first, second}


def test_ansible_51883_keyed_groups_from_composed_variables(play, inventory, cluster):
    endpoint = play(*cluster)
    listed = inventory(
        endpoint,
        compose={"rack": "ec2_availability_zone_id | upper", "copy": "ec2_queue_name"},
        keyed_groups=[{"key": "rack", "prefix": "rack"}, {"key": "ec2_tags['parallelcluster:version']", "prefix": "v"}],
        groups={"big": "ec2_accelerators.count >= 16", "mine": "rack == 'USE1-AZ1' and ec2_node_type == 'login'"},
    )
    assert listed.groups["rack_USE1_AZ1"] == listed.groups["v_3_13_0"] == set(listed.hosts)
    assert listed.groups["big"] == of(endpoint, type="trn1.32xlarge")
    assert listed.groups["mine"] == of(endpoint, role="LoginNode")
    assert {host["copy"] for host in listed.hosts.values()} == {None, "gpu", "trn-east"}
    assert listed.stderr == ""


def test_constructed_options_obey_strict(play, inventory):
    endpoint = play(Fleet())
    wrong = {"x": "ec2_tags['absent'].y"}
    assert "x" not in inventory(endpoint, compose=wrong).only()
    assert inventory(endpoint, compose=wrong, strict=True).hosts == {}


def test_random_values_are_computed_for_each_host(play, inventory):
    # An expression with lookups or random values must not be evaluated once for all hosts.
    endpoint = play(Fleet(count=4))
    listed = inventory(endpoint, compose={"n": "range(1000000000) | random", "who": "inventory_hostname | default('')"})
    assert len({host["n"] for host in listed.hosts.values()}) == 4


def test_extra_vars_in_constructed_options(play, inventory):
    listed = inventory(play(Fleet()), "-e", "suffix=x", compose={"y": "ec2_state ~ suffix"}, use_extra_vars=True)
    assert listed.only()["y"] == "runningx"


def test_amazon_aws_49_address_is_always_explicit(play, inventory, cluster):
    endpoint = play(*cluster)
    listed = inventory(endpoint, hostnames=["tag:Name"])
    assert {host["ansible_host"] for host in listed.hosts.values()} == {host.ip for host in endpoint.hosts()}
    public = inventory(endpoint, address="public_ip").hosts
    head = endpoint.hosts()[0]
    assert public[head.id]["ansible_host"] == head.public_ip
    assert public[endpoint.hosts()[2].id]["ansible_host"] == endpoint.hosts()[2].ip


def test_bastion_is_head_node_of_same_cluster(play, inventory, cluster):
    other = (
        Fleet(cluster="b", role="HeadNode", type="c6i.4xlarge"),
        Fleet(cluster="b", queue="q", compute_resource="c"),
    )
    endpoint = play(*cluster, *other)
    listed = inventory(endpoint, connection="ssh_bastion", bastion_user="ubuntu")
    for host in endpoint.hosts():
        variables = listed.hosts[host.id]
        head = next(one for one in endpoint.hosts() if one.fleet.cluster == host.fleet.cluster)
        if host is head:
            assert "ansible_ssh_common_args" not in variables
            assert variables["ansible_host"] == (host.public_ip or host.ip)
        else:
            assert variables["ansible_host"] == host.ip
            jump = f"ubuntu@{head.public_ip or head.ip}"
            assert jump in variables["ansible_ssh_common_args"] and "ProxyJump" in variables["ansible_ssh_common_args"]


def test_excluded_bastion_is_still_used(play, inventory, cluster):
    endpoint = play(*cluster)
    listed = inventory(endpoint, connection="ssh_bastion", include="node_type == 'compute'")
    assert len(listed.hosts) == 5 and listed.stderr == ""
    assert all(endpoint.hosts()[0].public_ip in host["ansible_ssh_common_args"] for host in listed.hosts.values())


def test_own_bastion_is_used(play, inventory, cluster):
    listed = inventory(play(*cluster), connection="ssh_bastion", bastion_host="jump.example.org", bastion_port=2222)
    assert all("jump.example.org:2222" in host["ansible_ssh_common_args"] for host in listed.hosts.values())


@pytest.mark.parametrize("option", ["bastion_user", "bastion_host"])
def test_bastion_cannot_inject_arguments(play, inventory, cluster, option):
    listed = inventory(play(*cluster), connection="ssh_bastion", **{option: "x -o ProxyCommand=touch"})
    assert listed.hosts == {} and option in listed.stderr


def test_amazon_aws_2652_ssm_connects_by_instance_id(play, inventory, cluster):
    endpoint = play(*cluster)
    listed = inventory(endpoint, connection="ssm", ssm_bucket="my-bucket", hostnames=["private_dns"])
    for host in endpoint.hosts():
        variables = listed.hosts[host.private_dns]
        assert variables["ansible_connection"] == "amazon.aws.aws_ssm"
        assert variables["ansible_host"] == variables["ansible_aws_ssm_instance_id"] == host.id
        assert variables["ansible_aws_ssm_region"] == "us-east-1"
        assert variables["ansible_aws_ssm_bucket_name"] == "my-bucket"


def test_site_yml_finds_its_hosts_without_any_mapping(play, inventory, cluster):
    plays = yaml.safe_load((ROOT / "playbooks" / "site.yml").read_text(encoding="utf-8"))
    endpoint = play(*cluster)
    path = inventory.file(inventory.options(endpoint, cluster_name="train"))
    argv = ["ansible-playbook", "-i", str(path), str(ROOT / "playbooks" / "site.yml"), "--list-hosts"]
    environment = {**inventory.environment, **endpoint.environment()}
    status, out, _err = inventory.zygote.run(argv, inventory.folder, environment)
    assert status == 0 and len(plays) == out.count("play #")
    storage = out.split(": Configure local NVMe")[1].split("play #")[0]
    assert all(name in storage for name in of(endpoint, role="Compute")) and "hosts (5)" in storage


@pytest.mark.parametrize("folder", ["ec2", "parallelcluster"])
def test_example_works_unchanged(play, inventory, folder):
    # Only the environment is set, to the endpoint; the example is unchanged.
    endpoint = play(
        Fleet(
            cluster="train",
            role="HeadNode",
            type="c6i.4xlarge",
            public=True,
            tags={"Cluster": "training", "Role": "head"},
        ),
        Fleet(count=2, cluster="train", queue="gpu", compute_resource="p5", tags={"Cluster": "training"}),
    )
    listed = inventory.read(ROOT / "inventories" / folder, "-e", "cluster=train", **endpoint.environment())
    assert len(listed.hosts) == 3 and listed.stderr == ""
    assert [len(listed.groups[name]) for name in ("head", "compute", "gpu", "instance_store")] == [1, 2, 2, 2]
    if folder == "parallelcluster":
        assert {"gpu-dy-p5-1", "gpu-dy-p5-2"} < set(listed.hosts)
        assert endpoint.hosts()[0].public_ip in listed.hosts["gpu-dy-p5-1"]["ansible_ssh_common_args"]
