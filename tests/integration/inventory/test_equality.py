# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin agrees with amazon.aws.aws_ec2 on values and groups, and gives the same hosts from moto."""

from __future__ import annotations

import logging
from datetime import datetime

import pytest

from tests.integration.inventory.conftest import THEIRS
from tests.rig.ec2 import Fleet, Region
from tests.rig.ec2.client import client

TAG = "aws_tags['parallelcluster:{}']"


def tag(name):
    return lambda theirs: theirs["aws_tags"].get(f"parallelcluster:{name}")


# A variable of ec2_nodes, and the expression of the same value in variables of aws_ec2 with the prefix aws_.
SAME = {
    "ec2_instance_id": lambda theirs: theirs["aws_instance_id"],
    "ec2_instance_type": lambda theirs: theirs["aws_instance_type"],
    "ec2_region": lambda theirs: theirs["aws_placement"]["region"],
    "ec2_availability_zone": lambda theirs: theirs["aws_placement"]["availability_zone"],
    "ec2_availability_zone_id": lambda theirs: theirs["aws_placement"]["availability_zone_id"],
    "ec2_account_id": lambda theirs: theirs["aws_owner_id"],
    "ec2_vpc_id": lambda theirs: theirs["aws_vpc_id"],
    "ec2_subnet_id": lambda theirs: theirs["aws_subnet_id"],
    "ec2_image_id": lambda theirs: theirs["aws_image_id"],
    "ec2_state": lambda theirs: theirs["aws_state"]["name"],
    "ec2_lifecycle": lambda theirs: theirs.get("aws_instance_lifecycle", "on-demand"),
    "ec2_private_ip_address": lambda theirs: theirs["aws_private_ip_address"],
    "ec2_public_ip_address": lambda theirs: theirs.get("aws_public_ip_address"),
    "ec2_private_dns_name": lambda theirs: theirs["aws_private_dns_name"],
    "ec2_network_interfaces": lambda theirs: len(theirs["aws_network_interfaces"]),
    "ec2_capacity_reservation_id": lambda theirs: theirs.get("aws_capacity_reservation_id"),
    "ec2_capacity_block_id": lambda theirs: theirs.get("aws_capacity_block_id"),
    "ec2_placement_group": lambda theirs: theirs["aws_placement"]["group_name"] or None,
    "ec2_tags": lambda theirs: theirs["aws_tags"],
    "ec2_cluster_name": tag("cluster-name"),
    "ec2_queue_name": tag("queue-name"),
    "ec2_compute_resource_name": tag("compute-resource-name"),
    "ansible_host": lambda theirs: theirs["ansible_host"],
}
KEYED = {
    "cluster": TAG.format("cluster-name"),
    "role": TAG.format("node-type"),
    "queue": TAG.format("queue-name"),
    "compute_resource": TAG.format("compute-resource-name"),
    "type": "aws_instance_type",
    "az": "aws_placement.availability_zone_id",
}
ROLES = {"role_HeadNode": "head", "role_Compute": "compute", "role_LoginNode": "login"}
FLEETS = (
    Fleet(cluster="train", role="HeadNode", type="c6i.4xlarge", public=True, tags={"Odd": "{{ 1 }} 'x' \"y\" \n é"}),
    Fleet(count=2, cluster="train", role="LoginNode", type="c6i.4xlarge", zone="b"),
    Fleet(
        count=150,
        cluster="train",
        queue="gpu",
        compute_resource="p5",
        interfaces=2,
        placement_group="pg",
        per_reservation=8,
    ),
    Fleet(
        count=100,
        cluster="train",
        queue="trn-east",
        compute_resource="trn1",
        type="trn1.32xlarge",
        zone="c",
        interfaces=1,
    ),
    Fleet(count=40, cluster="eval", queue="g6", compute_resource="g6", type="g6.12xlarge", lifecycle="spot"),
    Fleet(count=30, type="p4d.24xlarge", reservation="cr-0123456789abcdef0", block_days_left=4, interfaces=1),
    Fleet(count=27, name="store", type="i4i.4xlarge", per_reservation=3),
    Fleet(count=5, name="asleep", type="m7g.xlarge", state="stopped"),
)


def theirs(inventory, endpoint):
    """Return the inventory of aws_ec2 with the same groups as ec2_nodes."""
    return inventory.read(
        inventory.file(
            {
                "plugin": THEIRS,
                "endpoint_url": endpoint.url,
                "regions": ["us-east-1"],
                "hostnames": ["instance-id"],
                "hostvars_prefix": "aws_",
                "filters": {"instance-state-name": "running"},
                "compose": {"ansible_host": "aws_private_ip_address"},
                "keyed_groups": [{"prefix": prefix, "key": key} for prefix, key in KEYED.items()],
            },
            name="rig.aws_ec2.yml",
        ),
        **endpoint.environment(),
    )


def test_350_hosts_have_values_and_groups_of_aws_ec2(play, inventory):
    endpoint = play(*FLEETS, page_size=100)
    ours, other = inventory(endpoint), theirs(inventory, endpoint)
    assert len(ours.hosts) == len(other.hosts) == 350
    assert ours.hosts.keys() == other.hosts.keys()
    for name, variables in ours.hosts.items():
        expected = {mine: same(other.hosts[name]) for mine, same in SAME.items()}
        assert {mine: variables[mine] for mine in SAME} == expected, name
        # aws_ec2 has another format of time.
        launched = variables["ec2_launch_time"], other.hosts[name]["aws_launch_time"]
        assert datetime.fromisoformat(launched[0]) == datetime.fromisoformat(launched[1])
    shared = {group for group in other.groups if group.startswith(tuple(f"{prefix}_" for prefix in KEYED))}
    assert len(shared) >= 20
    for group in shared:
        assert ours.groups[ROLES.get(group, group)] == other.groups[group], group
    mine = {group for group in ours.groups if group.startswith(tuple(f"{prefix}_" for prefix in KEYED))}
    assert mine == shared - set(ROLES)


@pytest.fixture(scope="module")
def moto():
    """Yield the URL of moto's server with six instances, and their ids by name."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        api = client(url)
        found = {}
        for name, kind in (
            ("boss", "c6i.4xlarge"),
            ("n1", "p5.48xlarge"),
            ("n2", "p5.48xlarge"),
            ("off", "g6.12xlarge"),
        ):
            role = "HeadNode" if name == "boss" else "Compute"
            tags = {"Name": name, "parallelcluster:cluster-name": "train", "parallelcluster:node-type": role}
            tags["odd"] = "{{ 1 }}"
            made = api.run_instances(
                ImageId="ami-1234abcd",
                InstanceType=kind,
                MinCount=1,
                MaxCount=1,
                TagSpecifications=[
                    {"ResourceType": "instance", "Tags": [{"Key": key, "Value": text} for key, text in tags.items()]}
                ],
            )
            found[name] = made["Instances"][0]["InstanceId"]
        api.stop_instances(InstanceIds=[found["off"]])
        yield url, found
    finally:
        server.stop()


KEYS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_EC2_METADATA_DISABLED": "true"}


def test_inventory_of_moto_is_read(moto, inventory):
    url, ids = moto
    options = {"plugin": "mlcluster.aws.ec2_nodes", "endpoint_url": url, "cluster_name": "train"}
    listed = inventory.read(inventory.file(options), **KEYS)
    assert listed.stderr == ""
    assert set(listed.hosts) == {ids["boss"], ids["n1"], ids["n2"]}
    assert listed.groups["gpu"] == listed.groups["type_p5_48xlarge"] == {ids["n1"], ids["n2"]}
    assert (listed.groups["head"], listed.groups["cluster_train"]) == ({ids["boss"]}, set(listed.hosts))
    node = listed.hosts[ids["n1"]]
    assert node["ec2_tags"]["odd"] == "{{ 1 }}" and node["ansible_host"] == node["ec2_private_ip_address"]
    hardware = node["ec2_accelerators"]
    assert (hardware["source"], hardware["name"], hardware["count"], hardware["efa_max"]) == ("api", "H100", 8, 32)
    assert (hardware["instance_store_count"], hardware["instance_store_gb"]) == (8, 30400)


def test_moto_pages_states_and_health(moto, inventory):
    url, ids = moto
    options = {
        "plugin": "mlcluster.aws.ec2_nodes", "endpoint_url": url, "cluster_name": "train",
        "states": ["running", "stopped"], "enrich": ["health"], "hostnames": ["tag:Name"],
    }  # fmt: skip
    listed = inventory.read(inventory.file(options), **KEYS)
    assert set(listed.hosts) == set(ids)
    assert listed.hosts["off"]["ec2_state"] == "stopped"
    assert listed.hosts["n1"]["ec2_health"]["system"] == "ok"


def test_two_regions_of_moto_are_read(moto, inventory):
    url, ids = moto
    options = {"plugin": "mlcluster.aws.ec2_nodes", "endpoint_url": url, "regions": ["us-east-1", "eu-west-1"]}
    assert set(inventory.read(inventory.file(options), **KEYS).hosts) >= {ids["boss"], ids["n1"], ids["n2"]}


def test_fake_endpoint_agrees_with_moto(moto, play, inventory):
    url, ids = moto
    ours = inventory(play(Region("us-east-1", (Fleet(cluster="train", queue="q", compute_resource="c"),)))).only()
    options = {"plugin": "mlcluster.aws.ec2_nodes", "endpoint_url": url, "filters": {"instance-id": ids["n1"]}}
    other = inventory.read(inventory.file(options), **KEYS).only()
    assert ours.keys() == other.keys()
    for name, value in ours.items():
        if value is not None and other[name] is not None:
            assert type(value) is type(other[name]), name
