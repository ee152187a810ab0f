# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import network

WANTED = {
    "name": "train",
    "cidr": "10.0.0.0/16",
    "public_cidr": "10.0.0.0/24",
    "private_cidr": "10.0.128.0/17",
    "zone": "",
    "ssh_cidrs": ["10.9.0.0/16"],
    "grafana_cidrs": [],
    "grafana_port": 443,
    "key_name": "",
    "key_public": "",
}
NOTHING = {"vpc": None, "vpcs": 0, "key": None, "key_ours": False, "zones": ["a", "b"], "foreign": [], "loose": []}
WHOLE = {
    **NOTHING,
    "vpcs": 1,
    "vpc": {"id": "vpc-1", "cidr": "10.0.0.0/16", "dns": True},
    "subnets": {
        "public": {"id": "subnet-1", "cidr": "10.0.0.0/24", "zone": "b", "is_public": True},
        "private": {"id": "subnet-2", "cidr": "10.0.128.0/17", "zone": "b", "is_public": False},
    },
    "igw": "igw-1",
    "nat": {"id": "nat-1", "interfaces": []},
    "endpoint": {"id": "vpce-1", "tables": ["rtb-1", "rtb-2"]},
    "routes": {
        "public": {"id": "rtb-1", "out": "igw-1", "subnets": ["subnet-1"]},
        "private": {"id": "rtb-2", "out": "nat-1", "subnets": ["subnet-2"]},
    },
    "groups": {
        "nodes": {"id": "sg-1", "rules": ["all from itself"], "egress": ["all from 0.0.0.0/0", "all from itself"]},
        "fsx": {"id": "sg-2", "rules": ["tcp 1018-1023 from itself", "tcp 988 from itself"]},
        "ssh": {"id": "sg-3", "rules": ["tcp 22 from 10.9.0.0/16"]},
    },
}


def plan(found, **changes):
    return network.plan(found, {**WANTED, **changes})


def changed(change):
    found = copy.deepcopy(WHOLE)
    change(found)
    return found


def test_whole_network_lacks_nothing_and_keeps_its_zone():
    assert plan(WHOLE) == {"refusals": [], "actions": [], "todo": [], "zone": "b"}


def test_empty_account_lacks_all_parts_in_order():
    assert plan(NOTHING)["todo"] == [
        "vpc", "igw", "subnet_public", "subnet_private", "nat", "route_public", "route_private", "endpoint",
        "group_nodes", "group_fsx", "group_ssh",
    ]  # fmt: skip
    assert plan(NOTHING)["zone"] == "a"


@pytest.mark.parametrize(
    ("change", "todo"),
    [
        (lambda it: it["vpc"].update(dns=False), ["vpc"]),
        (lambda it: it.update(igw=None), ["igw", "route_public"]),
        (lambda it: it.update(nat=None), ["nat", "route_private"]),
        (lambda it: it["subnets"].pop("private"), ["subnet_private", "route_private"]),
        (lambda it: it["routes"]["private"].update(out="igw-1"), ["route_private"]),
        (lambda it: it["routes"].pop("public"), ["route_public", "endpoint"]),
        (lambda it: it.update(endpoint=None), ["endpoint"]),
        (lambda it: it["endpoint"].update(tables=["rtb-2"]), ["endpoint"]),
        (lambda it: it["groups"].pop("nodes"), ["group_nodes"]),
        # Half made by a killed run: EC2 gives a new group only this rule, and a new subnet no public addresses.
        (lambda it: it["groups"]["nodes"].update(egress=["all from 0.0.0.0/0"]), ["group_nodes"]),
        (lambda it: it["groups"]["nodes"].update(egress=["all from itself"]), ["group_nodes"]),
        (lambda it: it["subnets"]["public"].update(is_public=False), ["subnet_public"]),
        (lambda it: it["subnets"]["private"].update(is_public=True), ["subnet_private"]),
        (lambda it: it["groups"]["ssh"].update(rules=["tcp 22 from 0.0.0.0/0"]), ["group_ssh"]),
    ],
)
def test_only_differences_are_changed(change, todo):
    assert plan(changed(change))["todo"] == todo


def test_grafana_and_key_are_optional():
    options = {
        "grafana_cidrs": ["10.8.0.0/16"],
        "grafana_port": 3000,
        "key_name": "k",
        "key_public": "ssh-ed25519 AAAA",
    }
    assert plan(WHOLE, **options)["todo"] == ["group_grafana", "key"]
    assert plan(WHOLE, **options)["actions"][0] == "security group grafana: tcp 3000 from 10.8.0.0/16"
    # Without the option the rule is removed again.
    assert plan(WHOLE, ssh_cidrs=[])["actions"] == ["security group ssh: no rule"]


@pytest.mark.parametrize(
    ("found", "changes", "sentence"),
    [
        ({**NOTHING, "vpcs": 2}, {}, "2 VPCs carry the tag mlcluster:network=train; take it off those"),
        (NOTHING, {"zone": "z"}, "cluster_zone is 'z'; the region has a, b"),
        (NOTHING, {"key_name": "k"}, "there is no key pair 'k'; set cluster_key_public to import your public key"),
        (WHOLE, {"cidr": "10.0.0.0/15"}, "the VPC vpc-1 has 10.0.0.0/16 and not 10.0.0.0/15, which cannot be changed"),
        (WHOLE, {"zone": "a"}, "the public subnet subnet-1 is 10.0.0.0/24 in b and not 10.0.0.0/24 in a"),
        (NOTHING, {"cidr": "10.0.0.0/33"}, "cluster_network_cidr is '10.0.0.0/33'"),
        (NOTHING, {"public_cidr": "10.1.0.0/24"}, "cluster_network_public_cidr 10.1.0.0/24 is not within"),
        (NOTHING, {"private_cidr": "10.0.0.0/20"}, "overlap; choose others"),
        (NOTHING, {"ssh_cidrs": ["0.0.0.0/0"]}, "cluster_ssh_cidrs has '0.0.0.0/0', every address"),
        (NOTHING, {"grafana_cidrs": ["x"]}, "cluster_grafana_cidrs has 'x'"),
    ],
)
def test_impossible_changes_are_refused(found, changes, sentence):
    assert [refusal for refusal in plan(found, **changes)["refusals"] if sentence in refusal]


def test_outputs_describe_network():
    assert network.outputs(WHOLE) == {
        "head_subnet": "subnet-1",
        "compute_subnet": "subnet-2",
        "cidr": "10.0.0.0/16",
        "zone": "b",
        "groups": ["sg-1", "sg-2"],
        "head_groups": ["sg-3"],
    }


@pytest.mark.parametrize("people", [["10.9.0.1"], ["10.9.0.1/32", "10.9.0.1"]])
def test_networks_are_compared_as_ec2_writes_them(people):
    assert network.wanted_rules("ssh", {**WANTED, "ssh_cidrs": people}) == ["tcp 22 from 10.9.0.1/32"]


def test_all_wrong_options_are_reported_at_once():
    options = {
        **WANTED, "cidr": "10.0.0.0/8", "public_cidr": "no", "ssh_cidrs": ["::/0", "2001:db8::/32", "10.0.0.1/8", ""],
        "grafana_port": 0,
    }  # fmt: skip
    found = network.option_problems(options)
    assert len(found) == 7
    assert all(len(sentence.splitlines()) == 1 for sentence in found)


class FakeEc2:
    """An account without a VPC; its gateways are in ``answers`` by operation, and everything else is empty."""

    def __init__(self, **answers):
        self.answers = answers

    def __getattr__(self, operation):
        key = {
            "describe_internet_gateways": "InternetGateways", "describe_nat_gateways": "NatGateways",
            "describe_addresses": "Addresses", "describe_availability_zones": "AvailabilityZones",
            "describe_vpcs": "Vpcs",
        }[operation]  # fmt: skip
        return lambda **request: {key: self.answers.get(key, [])}


def test_leftovers_are_found_without_a_vpc():
    """A killed run leaves a gateway that is not attached, and one that is still being deleted."""
    ours, theirs = [{"Key": network.TAG, "Value": "train"}], [{"Key": network.TAG, "Value": "train2"}]
    ways = [
        {"InternetGatewayId": "igw-2", "Tags": ours}, {"InternetGatewayId": "igw-1", "Tags": ours, "Attachments": []},
        {"InternetGatewayId": "igw-3", "Tags": ours, "Attachments": [{"VpcId": "vpc-1"}]},
        {"InternetGatewayId": "igw-4", "Tags": theirs}, {"InternetGatewayId": "igw-5"},
    ]  # fmt: skip
    nats = [
        {"NatGatewayId": "nat-1", "State": "deleting", "Tags": ours},
        {"NatGatewayId": "nat-2", "State": "deleted", "Tags": ours},
        {"NatGatewayId": "nat-3", "State": "deleting", "Tags": theirs},
    ]
    found = network.look(FakeEc2(InternetGateways=ways, NatGateways=nats), "train", "")
    assert (found["loose"], found["deleting"]) == (["igw-1", "igw-2"], ["nat-1"])
