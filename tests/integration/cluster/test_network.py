# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network of a cluster from its creation to its removal."""

from __future__ import annotations

import pytest

from tests.integration.cluster.conftest import REGION
from tests.integration.cluster.policies import check_changes, check_policy

# Each play starts a dozen programs, which are slow on a busy machine.
pytestmark = pytest.mark.timeout(1800)

REQUEST = {
    "cluster_name": "train",
    "cluster_zone": "",
    "cluster_ssh_cidrs": ["10.9.0.0/16"],
    "cluster_grafana_cidrs": ["10.8.0.0/16"],
    "cluster_key_name": "train-key",
    # A public key made for this test; its private key was deleted.
    "cluster_key_public": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBrk7mTbmn3vXZmf0bBoxsZpRBnMN8zZH2AqmQmZmHcS test",
}


# These correct a network that differs.
UNASKED = (
    "ec2:ModifyVpcEndpoint", "ec2:ReplaceRoute", "ec2:RevokeSecurityGroupEgress",
    "ec2:RevokeSecurityGroupIngress",
)  # fmt: skip


def vpcs(ec2):
    return [
        vpc["VpcId"] for vpc in ec2.describe_vpcs(Filters=[{"Name": "tag:mlcluster:network", "Values": ["*"]}])["Vpcs"]
    ]


def test_network_is_predicted_made_and_kept(aws_account, play):
    ec2 = aws_account.client("ec2", REGION)

    foretold = play("create_network", "--check", **REQUEST)
    assert foretold.status == 0, foretold.output
    assert foretold.changed == 1
    for part in (
        "VPC 10.0.0.0/16",
        "NAT gateway",
        "S3 gateway endpoint",
        "tcp 22 from 10.9.0.0/16",
        "key pair train-key",
    ):
        assert part in foretold.output
    assert vpcs(ec2) == []

    aws_account.forget()
    made = play("create_network", **REQUEST)
    assert made.status == 0, made.output
    (vpc,) = vpcs(ec2)
    inside = [{"Name": "vpc-id", "Values": [vpc]}]
    groups = {group["GroupName"]: group for group in ec2.describe_security_groups(Filters=inside)["SecurityGroups"]}
    nodes = groups["train-nodes"]
    for rules in (nodes["IpPermissions"], nodes["IpPermissionsEgress"]):
        itself = [pair["GroupId"] for rule in rules if rule["IpProtocol"] == "-1" for pair in rule["UserIdGroupPairs"]]
        assert itself == [nodes["GroupId"]], "EFA needs everything from and to the group itself"
    subnets = {subnet["CidrBlock"]: subnet for subnet in ec2.describe_subnets(Filters=inside)["Subnets"]}
    assert not subnets["10.0.128.0/17"]["MapPublicIpOnLaunch"]
    assert subnets["10.0.0.0/24"]["MapPublicIpOnLaunch"]
    (endpoint,) = ec2.describe_vpc_endpoints(Filters=inside)["VpcEndpoints"]
    assert (endpoint["ServiceName"], len(endpoint["RouteTableIds"])) == (f"com.amazonaws.{REGION}.s3", 2)

    again = play("create_network", **REQUEST)
    assert (again.status, again.changed) == (0, 0), again.output
    check_policy("create_network", aws_account.operations(), UNASKED)
    check_changes("create_network", aws_account.changes(), "train")


def test_name_with_wildcards_matches_no_other_network(aws_account):
    from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import network

    ec2 = aws_account.client("ec2", REGION)
    theirs = [{"Key": network.TAG, "Value": "theirs"}]
    ec2.create_vpc(CidrBlock="10.2.0.0/16", TagSpecifications=[{"ResourceType": "vpc", "Tags": theirs}])
    ec2.allocate_address(Domain="vpc", TagSpecifications=[{"ResourceType": "elastic-ip", "Tags": theirs}])
    ec2.create_key_pair(KeyName="theirs")
    for name in ("*", "their?", "the*"):
        found = network.look(ec2, name, name)
        assert (found["vpcs"], found["addresses"], found["key"]) == (0, [], None)
    found = network.look(ec2, "theirs", "theirs")
    assert (found["vpcs"], len(found["addresses"]), found["key"]) == (1, 1, "theirs")


def test_destroy_rejects_name_with_wildcards(play):
    refused = play("destroy_network", cluster_delete_confirm="train", cluster_network_name="trai?", **REQUEST)
    assert refused.status == 2
    assert "use a name on one line without *, ? and backslashes" in refused.output


def addresses(ec2):
    return [entry["PublicIp"] for entry in ec2.describe_addresses()["Addresses"]]


@pytest.mark.slow
def test_network_is_removed_with_consent_and_key_is_kept(aws_account, play):
    ec2 = aws_account.client("ec2", REGION)
    # The previous run was killed when it had an address and no gateway.
    aws_account.kill_at("ec2:CreateNatGateway")
    assert play("create_network", **REQUEST).status == 2
    (address,) = addresses(ec2)
    aws_account.kill_at("")
    assert play("create_network", **REQUEST).status == 0
    assert addresses(ec2) == [address]
    (vpc,) = vpcs(ec2)
    aws_account.forget()
    kept = play("destroy_network", **REQUEST)
    assert kept.status == 2
    assert "nothing was deleted; to delete the network train, confirm with its cluster's name" in kept.output
    assert "file system and its backups" in kept.output
    assert vpcs(ec2) == [vpc]
    gone = play("destroy_network", cluster_delete_confirm="train", **REQUEST)
    assert gone.status == 0, gone.output
    assert (vpcs(ec2), addresses(ec2)) == ([], [])
    assert [key["KeyName"] for key in ec2.describe_key_pairs()["KeyPairs"]] == ["train-key"]
    twice = play("destroy_network", cluster_delete_confirm="train", **REQUEST)
    assert (twice.status, twice.changed) == (0, 0), twice.output
    check_policy("destroy_network", aws_account.operations(), ("ec2:DeleteKeyPair",))
    check_changes("destroy_network", aws_account.changes(), "train")


def state(ec2):
    """Return the network without the ids of its parts."""
    found = {}
    for entry in ec2.describe_vpcs(Filters=[{"Name": "tag:mlcluster:network", "Values": ["*"]}])["Vpcs"]:
        vpc = entry["VpcId"]
        names = ("enableDnsSupport", "enableDnsHostnames")
        dns = [ec2.describe_vpc_attribute(VpcId=vpc, Attribute=name) for name in names]
        inside = [{"Name": "vpc-id", "Values": [vpc]}]
        subnets = {one["SubnetId"]: one for one in ec2.describe_subnets(Filters=inside)["Subnets"]}
        tables = ec2.describe_route_tables(Filters=inside)["RouteTables"]
        groups = ec2.describe_security_groups(Filters=inside)["SecurityGroups"]
        found.setdefault("vpcs", []).append(
            {
                "cidr": entry["CidrBlock"],
                "dns": [one[f"{name[0].upper()}{name[1:]}"]["Value"] for one, name in zip(dns, names, strict=True)],
                "subnets": sorted((one["CidrBlock"], one["MapPublicIpOnLaunch"]) for one in subnets.values()),
                "tables": sorted(
                    (
                        sorted(way.split("-")[0] for route in table["Routes"] for way in targets(route)),
                        sorted(
                            subnets[one["SubnetId"]]["CidrBlock"] for one in table["Associations"] if "SubnetId" in one
                        ),
                    )
                    for table in tables
                ),
                "endpoints": [
                    len(one["RouteTableIds"]) for one in ec2.describe_vpc_endpoints(Filters=inside)["VpcEndpoints"]
                ],
                "groups": {one["GroupName"]: (rules(one, ""), rules(one, "Egress")) for one in groups},
            }
        )
    ways = ec2.describe_internet_gateways()["InternetGateways"]
    found["ways"] = sorted((len(one["Attachments"]), len(one["Tags"])) for one in ways)
    nats = [one for one in ec2.describe_nat_gateways()["NatGateways"] if one["State"] != "deleted"]
    found["nats"] = [len(one["NatGatewayAddresses"]) for one in nats]
    found["addresses"] = len(addresses(ec2))
    found["keys"] = [one["KeyName"] for one in ec2.describe_key_pairs()["KeyPairs"]]
    return found


def targets(route):
    return [value for key, value in route.items() if key in ("GatewayId", "NatGatewayId") and value]


def rules(group, way):
    return sorted(
        (rule["IpProtocol"], rule.get("FromPort", 0), other)
        for rule in group[f"IpPermissions{way}"]
        for other in [
            *(one["CidrIp"] for one in rule["IpRanges"]),
            *("itself" if one["GroupId"] == group["GroupId"] else "other" for one in rule["UserIdGroupPairs"]),
        ]
    )


@pytest.fixture(scope="module")
def complete():
    """The state of a network that was created in one run; the first test sets it."""
    return {}


# Changes after which a part exists and is not complete, or costs money and is not in use.
HALF_MADE = (
    "CreateInternetGateway", "CreateSubnet", "AllocateAddress", "CreateNatGateway", "CreateRouteTable", "CreateRoute",
    "CreateVpcEndpoint", "CreateSecurityGroup", "AuthorizeSecurityGroupIngress",
)  # fmt: skip
HALF_REMOVED = ("DeleteNatGateway", "DisassociateRouteTable", "DetachInternetGateway", "DeleteVpc")


@pytest.mark.slow
@pytest.mark.parametrize("operation", HALF_MADE)
def test_next_run_continues_a_killed_creation(aws_account, play, complete, operation):
    ec2 = aws_account.client("ec2", REGION)
    if not complete:
        assert play("create_network", **REQUEST).status == 0
        complete.update(state(ec2))
        aws_account.reset()
    aws_account.kill_at(f"controller after ec2:{operation}")
    assert play("create_network", **REQUEST).status == -9
    aws_account.kill_at("")
    again = play("create_network", **REQUEST)
    assert again.status == 0, again.output
    assert state(ec2) == complete


@pytest.mark.slow
@pytest.mark.parametrize("operation", HALF_REMOVED)
def test_next_run_continues_a_killed_removal(aws_account, play, operation):
    ec2 = aws_account.client("ec2", REGION)
    assert play("create_network", **REQUEST).status == 0
    aws_account.kill_at(f"controller after ec2:{operation}")
    assert play("destroy_network", cluster_delete_confirm="train", **REQUEST).status == -9
    aws_account.kill_at("")
    again = play("destroy_network", cluster_delete_confirm="train", **REQUEST)
    assert again.status == 0, again.output
    assert state(ec2) == {"ways": [], "nats": [], "addresses": 0, "keys": ["train-key"]}


@pytest.mark.slow
def test_leftovers_are_removed_and_foreign_parts_block(aws_account, play):
    ec2 = aws_account.client("ec2", REGION)
    aws_account.kill_at("ec2:CreateNatGateway")
    play("create_network", **REQUEST)
    aws_account.kill_at("")
    (vpc,) = vpcs(ec2)
    theirs = ec2.allocate_address(Domain="vpc")["PublicIp"]
    subnet = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["Subnets"][0]["SubnetId"]
    card = ec2.create_network_interface(SubnetId=subnet, Description="left over")["NetworkInterface"]
    other = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    peering = ec2.create_vpc_peering_connection(VpcId=other, PeerVpcId=vpc)["VpcPeeringConnection"]
    vpn = ec2.create_vpn_gateway(Type="ipsec.1")["VpnGateway"]["VpnGatewayId"]
    ec2.attach_vpn_gateway(VpcId=vpc, VpnGatewayId=vpn)
    service = f"com.amazonaws.{REGION}.ssm"
    inside = {"VpcId": vpc, "VpcEndpointType": "Interface", "SubnetIds": [subnet]}
    endpoint = ec2.create_vpc_endpoint(ServiceName=service, **inside)["VpcEndpoint"]["VpcEndpointId"]
    refused = play("destroy_network", cluster_delete_confirm="train", **REQUEST)
    assert refused.status == 2
    for output in (
        f"network interface {card['NetworkInterfaceId']} (left over)",
        f"peering {peering['VpcPeeringConnectionId']}",
        f"VPN gateway {vpn}",
        f"endpoint {endpoint} of {service}",
    ):
        assert output in refused.output
    assert len(addresses(ec2)) == 2
    ec2.delete_network_interface(NetworkInterfaceId=card["NetworkInterfaceId"])
    ec2.delete_vpc_peering_connection(VpcPeeringConnectionId=peering["VpcPeeringConnectionId"])
    ec2.detach_vpn_gateway(VpcId=vpc, VpnGatewayId=vpn)
    ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint])
    gone = play("destroy_network", cluster_delete_confirm="train", **REQUEST)
    assert gone.status == 0, gone.output
    assert (vpcs(ec2), addresses(ec2)) == ([], [theirs])


@pytest.mark.slow
def test_resource_without_our_tag_is_kept(aws_account, play):
    ec2 = aws_account.client("ec2", REGION)

    def tagged(kind, name):
        tags = {"mlcluster:network": "train", "Name": name}
        return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}]

    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc", "train"))["Vpc"]["VpcId"]
    request = {"VpcId": vpc, "CidrBlock": "10.0.0.0/24", "TagSpecifications": tagged("subnet", "train-public")}
    subnet = ec2.create_subnet(**request)["Subnet"]["SubnetId"]
    way = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(VpcId=vpc, InternetGatewayId=way)
    lent = ec2.allocate_address(Domain="vpc")
    busy = ec2.allocate_address(Domain="vpc", TagSpecifications=tagged("elastic-ip", "train"))
    card = ec2.create_network_interface(SubnetId=ec2.describe_subnets()["Subnets"][0]["SubnetId"])["NetworkInterface"]
    ec2.associate_address(AllocationId=busy["AllocationId"], NetworkInterfaceId=card["NetworkInterfaceId"])
    idle = ec2.allocate_address(Domain="vpc", TagSpecifications=tagged("elastic-ip", "train"))
    nat = {"AllocationId": lent["AllocationId"], "TagSpecifications": tagged("natgateway", "train")}
    ec2.create_nat_gateway(SubnetId=subnet, **nat)

    refused = play("destroy_network", cluster_delete_confirm="train", **REQUEST)
    assert refused.status == 2
    assert f"the network train is not taken down, for it holds internet gateway {way}; delete" in refused.output
    remaining = refused.output.partition("kept:")[2].partition("TASK [")[0]
    for kept in (f"internet gateway {way}", f"address {lent['PublicIp']}", f"address {busy['PublicIp']}"):
        assert kept in remaining
    assert idle["PublicIp"] not in remaining
    assert [entry["InternetGatewayId"] for entry in ec2.describe_internet_gateways()["InternetGateways"]] == [way]

    # After its owner removes the foreign gateway, the playbook makes a new one.
    ec2.detach_internet_gateway(VpcId=vpc, InternetGatewayId=way)
    ours = ec2.create_internet_gateway(TagSpecifications=tagged("internet-gateway", "train"))["InternetGateway"]
    ec2.attach_internet_gateway(VpcId=vpc, InternetGatewayId=ours["InternetGatewayId"])
    gone = play("destroy_network", cluster_delete_confirm="train", **REQUEST)
    assert gone.status == 0, gone.output
    assert vpcs(ec2) == []
    assert [entry["InternetGatewayId"] for entry in ec2.describe_internet_gateways()["InternetGateways"]] == [way]
    assert sorted(addresses(ec2)) == sorted([lent["PublicIp"], busy["PublicIp"]])
