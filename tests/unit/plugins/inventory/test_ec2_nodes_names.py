# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names and connections of hosts."""

from __future__ import annotations

from tests.rig.ec2 import Fault, Fleet, Region

EAST = "us-east-1"


def test_ansible_62583_three_hosts_named_compute_are_three_hosts(play, load, warnings):
    endpoint = play(Region(EAST, (Fleet(count=3, name="Compute"), Fleet(name="login"))))
    inventory = load(regions=EAST, hostnames=["tag:Name"])
    expected = {f"Compute-{host.id}" for host in endpoint.hosts() if host.fleet.count == 3} | {"login-1"}
    assert len(inventory.hosts) == 4
    assert expected - {"login-1"} < set(inventory.hosts)
    (warning,) = warnings
    assert "got the instance id appended" in warning
    assert "Compute" in warning


def test_host_name_of_group_or_controller_is_changed(play, load):
    endpoint = play(Region(EAST, (Fleet(name="gpu"), Fleet(name="localhost", type="c6i.4xlarge"), Fleet(name="plain"))))
    inventory = load(regions=EAST, hostnames=["tag:Name"])
    ids = [host.id for host in endpoint.hosts()]
    assert inventory.hosts == sorted([f"gpu-{ids[0]}", f"localhost-{ids[1]}", "plain"])


def test_amazon_aws_583_missing_tag_falls_through_to_next(play, load):
    endpoint = play(Region(EAST, (Fleet(tags={"Host": "a"}), Fleet(tags={"Other": "b"}), Fleet())))
    inventory = load(regions=EAST, hostnames=["tag:Host", "tag:Other", "private_dns"])
    assert inventory.hosts == sorted(["a", "b", endpoint.hosts()[2].private_dns])


def test_amazon_aws_814_name_from_tag_is_never_evaluated(play, load):
    play(Region(EAST, (Fleet(tags={"Host": "x{{ 1 + 1 }}, y[1:3] \n'\""}),)))
    (host,) = load(regions=EAST, hostnames=["tag:Host"]).hosts
    assert not set(host) & set("{}[],: \n'\"")


def test_amazon_aws_950_host_with_32_interfaces_is_one_host(play, load):
    endpoint = play(Region(EAST, (Fleet(type="p5.48xlarge"),)))
    inventory = load(regions=EAST, hostnames=["private_ip"])
    assert inventory.hosts == [endpoint.hosts()[0].ip]
    assert inventory.vars(inventory.hosts[0])["ec2_network_interfaces"] == 32


def test_amazon_aws_49_address_is_always_explicit(play, load):
    endpoint = play(Region(EAST, (Fleet(public=True), Fleet())))
    public, private = endpoint.hosts()
    for address, first, second in (
        ("private_ip", public.ip, private.ip),
        ("public_ip", public.public_ip, private.ip),
        ("private_dns", public.private_dns, private.private_dns),
    ):
        inventory = load(regions=EAST, address=address)
        assert inventory.vars(public.id)["ansible_host"] == first
        assert inventory.vars(private.id)["ansible_host"] == second


def two_clusters():
    return tuple(
        fleet
        for name in ("one", "two")
        for fleet in (
            Fleet(type="c6i.4xlarge", cluster=name, role="HeadNode", public=True),
            Fleet(cluster=name, queue="q", compute_resource="c"),
        )
    )


def test_bastion_is_head_node_of_same_cluster(play, load, warnings):
    endpoint = play(Region(EAST, two_clusters()))
    inventory = load(regions=EAST, connection="ssh_bastion", bastion_user="ubuntu")
    heads = {host.fleet.cluster: host for host in endpoint.hosts() if host.fleet.role == "HeadNode"}
    for host in endpoint.hosts():
        variables = inventory.vars(host.id)
        if host.fleet.role == "HeadNode":
            assert variables["ansible_host"] == host.public_ip
            assert "ansible_ssh_common_args" not in variables
        else:
            head = heads[host.fleet.cluster]
            assert variables["ansible_host"] == host.ip
            assert variables["ansible_ssh_common_args"] == f"-o ProxyJump=ubuntu@{head.public_ip}"
    assert warnings == []


def test_excluded_head_node_is_still_bastion(play, load):
    play(Region(EAST, two_clusters()[:2]))
    inventory = load(regions=EAST, connection="ssh_bastion", exclude="node_type == 'head'")
    (host,) = inventory.hosts
    assert "ProxyJump=54." in inventory.vars(host)["ansible_ssh_common_args"]


def test_cluster_without_head_node_is_reported(play, load, warnings):
    play(Region(EAST, two_clusters()[1:2]))
    inventory = load(regions=EAST, connection="ssh_bastion")
    assert "ansible_ssh_common_args" not in inventory.vars(inventory.hosts[0])
    assert "no head node was found for one" in warnings[0]


def test_own_bastion_is_used(play, load):
    endpoint = play(Region(EAST, two_clusters()))
    inventory = load(regions=EAST, connection="ssh_bastion", bastion_host="jump.example.org", bastion_port=2222)
    for host in endpoint.hosts():
        assert inventory.vars(host.id)["ansible_ssh_common_args"] == "-o ProxyJump=jump.example.org:2222"


def test_amazon_aws_2652_ssm_has_options_of_connection_plugin(play, load):
    endpoint = play(Region(EAST, (Fleet(),)))
    (host,) = endpoint.hosts()
    variables = load(regions=EAST, connection="ssm", ssm_bucket="files").vars(host.id)
    assert {name: value for name, value in variables.items() if name.startswith("ansible_")} == {
        "ansible_host": host.id,
        "ansible_connection": "amazon.aws.aws_ssm",
        "ansible_aws_ssm_instance_id": host.id,
        "ansible_aws_ssm_region": EAST,
        "ansible_aws_ssm_bucket_name": "files",
    }


def test_slurm_names_as_host_names(play, load):
    endpoint = play(Region(EAST, two_clusters()), dynamodb_page=1)
    inventory = load(regions=EAST, cluster_name="one", enrich=["slurm_names"], hostnames=["slurm_node_name"])
    head, node = endpoint.hosts()[:2]
    assert inventory.hosts == sorted([head.id, "q-dy-c-1"])
    assert inventory.vars("q-dy-c-1")["ec2_instance_id"] == node.id


def test_amazon_aws_1957_ssm_status_beyond_forty_hosts(play, load):
    endpoint = play(Region(EAST, (Fleet(count=120, type="c6i.4xlarge"), Fleet(ssm=""), Fleet(ssm="ConnectionLost"))))
    inventory = load(regions=EAST, enrich=["ssm"])
    found = [inventory.vars(host)["ec2_ssm_ping_status"] for host in inventory.hosts]
    assert sorted(map(str, found)) == ["ConnectionLost", "None"] + 120 * ["Online"]
    assert endpoint.count("DescribeInstanceInformation") == 3


def test_ansible_11898_impaired_and_retiring_are_groups(play, load):
    endpoint = play(
        Region(
            EAST, (Fleet(), Fleet(health="impaired"), Fleet(event="instance-retirement"), Fleet(event="system-reboot"))
        )
    )
    inventory = load(regions=EAST, enrich=["health"])
    ids = [host.id for host in endpoint.hosts()]
    assert inventory.group("impaired") == [ids[1]]
    assert inventory.group("retiring") == [ids[2]]
    assert inventory.vars(ids[0])["ec2_health"] == {"system": "ok", "instance": "ok", "ebs": "ok", "events": []}
    assert inventory.vars(ids[3])["ec2_health"]["events"][0]["code"] == "system-reboot"


def test_health_of_more_nodes_than_one_call(play, load):
    endpoint = play(Region(EAST, (Fleet(count=130, type="c6i.4xlarge"), Fleet(health="impaired"))))
    assert len(load(regions=EAST, enrich=["health"]).group("impaired")) == 1
    assert endpoint.count("DescribeInstanceStatus") == 1


def test_topology_nests_network_nodes(play, load):
    endpoint = play(Region(EAST, (Fleet(count=150, leaf=4),)))
    inventory = load(regions=EAST, enrich=["topology"])
    host = endpoint.hosts()[0]
    variables = inventory.vars(host.id)
    assert variables["ec2_network_nodes"] == host.network_nodes
    assert variables["ec2_topology_path"] == "/".join(host.network_nodes)
    leaf = f"topology_{host.network_nodes[2].replace('-', '_')}"
    middle, top = (f"topology_{node.replace('-', '_')}" for node in host.network_nodes[1::-1])
    assert len(inventory.group(leaf)) == 4
    assert len(inventory.group(middle)) == 16
    assert len(inventory.group(top)) == 64


def test_capacity_has_end_of_block(play, load):
    endpoint = play(Region(EAST, (Fleet(reservation="cr-1", block_days_left=2), Fleet(reservation="cr-2"), Fleet())))
    inventory = load(regions=EAST, enrich=["capacity"])
    block, reserved, none = (inventory.vars(host.id)["ec2_capacity"] for host in endpoint.hosts())
    assert block == {"id": "cr-1", "type": "capacity-block", "state": "active", "end": "2026-11-22T11:30:00+00:00"}
    assert reserved["end"] is None
    assert none is None


def test_hosts_of_one_type_may_differ_in_interfaces(play, load):
    endpoint = play(Region(EAST, (Fleet(count=3), Fleet(efa=0, interfaces=1))))
    inventory = load(regions=EAST)
    attached = [inventory.vars(host.id)["ec2_accelerators"]["efa_attached"] for host in endpoint.hosts()]
    assert attached == [32, 32, 32, 0]
    assert inventory.group("efa") == sorted(host.id for host in endpoint.hosts()[:3])


def test_own_tags_define_node_type(play, load):
    play(
        Region(
            EAST,
            (
                Fleet(tags={"Role": "controller", "Cluster": "llm"}),
                Fleet(tags={"Role": "database", "Cluster": "llm", "Queue": "p5-east"}),
            ),
        )
    )
    inventory = load(
        regions=EAST,
        cluster_name="llm",
        tag_keys={"cluster": "Cluster", "node_type": "Role", "queue": "Queue"},
        default_node_type="compute",
    )
    assert (len(inventory.group("head")), len(inventory.group("compute"))) == (1, 1)
    (node,) = inventory.group("queue_p5_east")
    assert inventory.vars(node)["ec2_queue_name"] == "p5-east"


def test_instance_types_are_asked_for_once_and_kept(play, load):
    endpoint = play(Region(EAST, (Fleet(count=3), Fleet(type="c6i.4xlarge"))), Region("us-west-2", (Fleet(),)))
    first = load(regions=[EAST, "us-west-2"])
    second = load(regions=[EAST, "us-west-2"])
    assert endpoint.count("DescribeInstanceTypes") == 1
    assert [first.vars(host) for host in first.hosts] == [second.vars(host) for host in second.hosts]
    load(regions=EAST, hardware_cache_timeout=0)
    assert endpoint.count("DescribeInstanceTypes") == 2
    load(regions=EAST, hardware="table", hardware_cache_timeout=0)
    assert endpoint.count("DescribeInstanceTypes") == 2


def test_full_record_only_when_asked(play, load):
    play(Region(EAST, (Fleet(type="p4d.24xlarge"),), faults=(Fault("DescribeInstanceTypes"),)))
    lean, full = load(regions=EAST), load(regions=EAST, full_record=True)
    (host,) = full.hosts
    assert "ec2_instance" not in lean.vars(host)
    record = full.vars(host)["ec2_instance"]
    assert len(record["NetworkInterfaces"]) == 4
    assert record["InstanceId"] == host
    assert {name: value for name, value in full.vars(host).items() if name != "ec2_instance"} == lean.vars(host)


def test_later_group_keeps_its_name(play, load, warnings):
    endpoint = play(Region(EAST, (Fleet(name="big"), Fleet(name="small"))))
    big = endpoint.hosts()[0].id
    inventory = load(regions=EAST, hostnames=["tag:Name"], groups={"big": "ec2_instance_type is defined"})
    assert inventory.hosts == [f"big-{big}", "small"]
    assert len(inventory.group("big")) == 2 and len(warnings) == 1


def test_host_variables_do_not_reach_group_of_same_name(play, load):
    endpoint = play(Region(EAST, (Fleet(name="one", tags={"Of": "two"}), Fleet(name="two", tags={"Of": "one"}))))
    keyed = [{"key": "ec2_tags.Of", "prefix": "", "separator": ""}]
    inventory = load(regions=EAST, hostnames=["tag:Name"], keyed_groups=keyed, compose={"mine": "ec2_tags.Name"})
    assert inventory.hosts == ["one", "two"]
    for name in inventory.hosts:
        assert inventory.data.hosts[name].vars["mine"] == name
        assert inventory.data.groups[name].vars == {}
    assert {inventory.vars(name)["ec2_instance_id"] for name in inventory.hosts} == {h.id for h in endpoint.hosts()}
