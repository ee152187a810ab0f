# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host variables: lean, prefixed, complete; hardware facts and enrichments."""

from __future__ import annotations

import pytest

from tests.rig.ec2 import Fleet, Region, types
from tests.rig.ec2.operations import block_end

FIELDS = {
    "ec2_instance_id", "ec2_instance_type", "ec2_region", "ec2_availability_zone", "ec2_availability_zone_id",
    "ec2_account_id", "ec2_vpc_id", "ec2_subnet_id", "ec2_image_id", "ec2_state", "ec2_launch_time", "ec2_lifecycle",
    "ec2_private_ip_address", "ec2_public_ip_address", "ec2_private_dns_name", "ec2_network_interfaces",
    "ec2_capacity_reservation_id", "ec2_capacity_block_id", "ec2_placement_group", "ec2_tags", "ec2_cluster_name",
    "ec2_node_type", "ec2_queue_name", "ec2_compute_resource_name", "ec2_accelerators",
}  # fmt: skip


def test_amazon_aws_535_every_variable_has_prefix(play, inventory):
    endpoint = play(Fleet(cluster="train", queue="gpu", compute_resource="p5"))
    assert set(inventory(endpoint).only()) == FIELDS | {"ansible_host"}
    other = inventory(endpoint, hostvars_prefix="node_").only()
    assert set(other) == {name.replace("ec2_", "node_") for name in FIELDS} | {"ansible_host"}


def test_amazon_aws_2857_no_warning_about_reserved_names(play, inventory, cluster):
    listed = inventory(play(*cluster))
    assert listed.stderr == ""
    assert all(host["ec2_tags"]["Name"] for host in listed.hosts.values())


def test_values_are_those_of_api(play, inventory):
    fleet = Fleet(
        cluster="train", queue="gpu", compute_resource="p5", zone="b", placement_group="pg-1", public=True,
        reservation="cr-0123456789abcdef0", block_days_left=2, lifecycle="capacity-block", tags={"Owner": "ml"},
    )  # fmt: skip
    endpoint = play(fleet)
    (host,), variables = endpoint.hosts(), inventory(endpoint).only()
    assert {name: variables[f"ec2_{name}"] for name in ("instance_id", "instance_type", "region", "state")} == {
        "instance_id": host.id, "instance_type": "p5.48xlarge", "region": "us-east-1", "state": "running",
    }  # fmt: skip
    assert (variables["ec2_private_ip_address"], variables["ec2_public_ip_address"]) == (host.ip, host.public_ip)
    assert variables["ec2_private_dns_name"] == host.private_dns
    assert (variables["ec2_placement_group"], variables["ec2_lifecycle"]) == ("pg-1", "capacity-block")
    assert variables["ec2_capacity_reservation_id"] == "cr-0123456789abcdef0"
    assert variables["ec2_capacity_block_id"].startswith("cb-")
    assert variables["ec2_tags"] == host.tags
    assert (variables["ec2_cluster_name"], variables["ec2_queue_name"]) == ("train", "gpu")
    assert variables["ec2_account_id"] == "111122223333"


def test_amazon_aws_1550_id_of_availability_zone(play, inventory):
    variables = inventory(play(Fleet(zone="c"))).only()
    assert (variables["ec2_availability_zone"], variables["ec2_availability_zone_id"]) == ("us-east-1c", "use1-az3")


def test_launch_time_is_iso_text(play, inventory):
    assert inventory(play(Fleet())).only()["ec2_launch_time"] == "2026-11-20T10:11:12+00:00"


def test_values_that_instance_lacks_are_null(play, inventory):
    variables = inventory(play(Fleet(state="terminated")), states=["terminated"]).only()
    for name in ("private_ip_address", "public_ip_address", "private_dns_name", "placement_group", "cluster_name"):
        assert variables[f"ec2_{name}"] is None, name
    assert variables["ec2_lifecycle"] == "on-demand" and variables["ec2_network_interfaces"] == 0
    assert variables["ansible_host"] == variables["ec2_instance_id"]


@pytest.mark.parametrize("name", types.KINDS)
def test_accelerators_of_each_type(play, inventory, name):
    kind = types.KINDS[name]
    found = inventory(play(Fleet(type=name))).only()["ec2_accelerators"]
    assert found["source"] == "api"
    assert found["kind"] == ("gpu" if kind.gpus else "neuron" if kind.neurons else None)
    assert found["count"] == kind.gpus + kind.neurons
    assert (found["name"] or "") == kind.gpu + kind.neuron
    assert found["memory_mib"] == kind.gpu_memory + kind.neuron_memory
    assert (found["instance_store_count"], found["instance_store_gb"]) == (kind.disks, kind.disks * kind.disk_gb)
    assert (found["vcpus"], found["ram_mib"], found["network_gbps"]) == (kind.vcpus, kind.memory, kind.gbps)
    assert found["efa_max"] == kind.efa and found["efa_attached"] == kind.efa


def test_fewer_efa_interfaces_than_type_are_found(play, inventory):
    found = inventory(play(Fleet(efa=30, interfaces=32))).only()["ec2_accelerators"]
    assert (found["efa_max"], found["efa_attached"]) == (32, 30)


def test_table_answers_without_call(play, inventory):
    endpoint = play(Fleet())
    found = inventory(endpoint, hardware="table").only()["ec2_accelerators"]
    assert (found["source"], found["count"], found["efa_attached"]) == ("table", 8, 32)
    assert endpoint.count("DescribeInstanceTypes") == 0


def test_full_record_is_set_on_request(play, inventory):
    endpoint = play(Fleet(interfaces=3))
    whole = inventory(endpoint, full_record=True).only()["ec2_instance"]
    assert len(whole["NetworkInterfaces"]) == 3 and whole["CpuOptions"]["CoreCount"] == 96
    assert whole["SecurityGroups"][0]["GroupName"] == "nodes"
    assert inventory(endpoint).only()["ec2_network_interfaces"] == 3


def test_health_and_events(play, inventory):
    endpoint = play(Fleet(), Fleet(health="impaired"), Fleet(event="instance-retirement"))
    listed = inventory(endpoint, enrich=["health"])
    fine, impaired, ending = (listed.hosts[host.id]["ec2_health"] for host in endpoint.hosts())
    assert (fine["system"], fine["instance"], fine["events"]) == ("ok", "ok", [])
    assert (impaired["system"], impaired["instance"]) == ("ok", "impaired")
    assert ending["events"][0]["code"] == "instance-retirement"
    assert ending["events"][0]["not_before"] == "2026-12-04T00:00:00+00:00"


def test_topology_sorts_neighbours_together(play, inventory):
    endpoint = play(Fleet(count=9, interfaces=1), Fleet(type="c6i.4xlarge"))
    listed = inventory(endpoint, enrich=["topology"])
    *nodes, head = endpoint.hosts()
    for host in nodes:
        assert listed.hosts[host.id]["ec2_network_nodes"] == host.network_nodes
        assert listed.hosts[host.id]["ec2_topology_path"] == "/".join(host.network_nodes)
    assert listed.hosts[head.id]["ec2_network_nodes"] == []


def test_topology_of_many_nodes_comes_in_pages(play, inventory):
    endpoint = play(Fleet(count=230, interfaces=1))
    listed = inventory(endpoint, enrich=["topology", "health"])
    assert all(len(host["ec2_network_nodes"]) == 3 for host in listed.hosts.values())
    assert endpoint.count("DescribeInstanceTopology") == 3 and endpoint.count("DescribeInstanceStatus") == 1


def test_end_of_capacity_block(play, inventory):
    endpoint = play(Fleet(reservation="cr-0aaaaaaaaaaaaaaa1", block_days_left=5), Fleet(reservation="cr-0bbb"), Fleet())
    listed = inventory(endpoint, enrich=["capacity"])
    block, plain, none = (listed.hosts[host.id]["ec2_capacity"] for host in endpoint.hosts())
    assert (block["type"], block["state"]) == ("capacity-block", "active")
    assert block["end"] == block_end(5).replace(".000Z", "+00:00")
    assert plain["end"] is None and none is None


@pytest.mark.parametrize("count", [41, 1001])
def test_amazon_aws_1713_ssm_status_of_many_hosts(play, inventory, count):
    endpoint = play(Fleet(count=count, interfaces=1, type="c6i.4xlarge"), Fleet(ssm="ConnectionLost"), Fleet(ssm=""))
    listed = inventory(endpoint, enrich=["ssm"])
    statuses = [host["ec2_ssm_ping_status"] for host in listed.hosts.values()]
    assert [statuses.count(word) for word in ("Online", "ConnectionLost", None)] == [count, 1, 1]
    assert endpoint.count("DescribeInstanceInformation") == -(-(count + 1) // 50)


def test_enrichment_is_one_call_a_region_and_none_if_empty(play, inventory, cluster):
    endpoint = play(Region("us-east-1", cluster), Region("eu-west-1"))
    enrich = ["health", "topology", "capacity", "ssm", "slurm_names"]
    inventory(endpoint, regions=["us-east-1", "eu-west-1"], enrich=enrich)
    assert endpoint.count(region="eu-west-1") == 1
    # Including the calls for types and instances.
    assert endpoint.count(region="us-east-1") == 7
