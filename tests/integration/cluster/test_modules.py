# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules of the controller on an account of moto."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import fsx_lustre, instance_offers_info, network_info

from tests.integration.cluster.conftest import REGION

# A public key made for this test; its private key was deleted.
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBrk7mTbmn3vXZmf0bBoxsZpRBnMN8zZH2AqmQmZmHcS test"
REQUEST = {"name": "checkpoints", "gib": 7200, "throughput": 1000, "efa": True}
PLACE = {"subnet": "subnet-0123456789abcdef1", "groups": ["sg-0123456789abcdef0"]}


def test_offers_of_jakarta_are_listed(run_module):
    found = run_module(instance_offers_info, types=["p5e.48xlarge", "c6i.4xlarge", "p5e.48xlarge"])
    assert found["changed"] is False
    assert {"p5e.48xlarge", "c7i.4xlarge"} <= set(found["offered"])
    assert "c6i.4xlarge" not in found["offered"]
    assert found["types"]["p5e.48xlarge"]["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"] == 32
    assert list(found["types"]) == ["p5e.48xlarge"]


def test_filesystem_is_predicted_made_once_and_adopted(run_module):
    # Before the network is created, a dry run has no subnet.
    foretold = run_module(fsx_lustre, check=True, **REQUEST)
    assert (foretold["changed"], foretold["id"]) == (True, "")
    made = run_module(fsx_lustre, **REQUEST, **PLACE)
    assert made["actions"] == ["make checkpoints with 7200 GiB and 1000 MB/s for each TiB"]
    again = run_module(fsx_lustre, **REQUEST, **PLACE)
    assert (again["changed"], again["id"]) == (False, made["id"])
    adopted = run_module(fsx_lustre, name="any", efa=True, file_system_id=made["id"])
    assert (adopted["changed"], adopted["id"]) == (False, made["id"])
    other = run_module(fsx_lustre, **{**REQUEST, "gib": 4800}, **PLACE)
    assert other["msg"] == (f"{made['id']} has gib 7200 and not 4800; change the variables, or the file system by hand")


def test_filesystem_of_another_cluster_is_shared_only_on_purpose(run_module):
    made = run_module(fsx_lustre, cluster="old", **REQUEST, **PLACE)
    refused = run_module(fsx_lustre, cluster="train", **REQUEST, **PLACE)["msg"]
    assert f"found that of another cluster ({made['id']} of old); set its id to share it" in refused
    assert run_module(fsx_lustre, cluster="old", **REQUEST, **PLACE)["id"] == made["id"]
    shared = run_module(fsx_lustre, cluster="train", name="any", efa=True, file_system_id=made["id"])
    assert (shared["changed"], shared["id"]) == (False, made["id"])


@pytest.mark.parametrize("broken", ["file system", "tie"])
@pytest.mark.parametrize("check", [False, True])
def test_failed_filesystem_is_reported_with_reason(run_module, monkeypatch, broken, check):
    made = run_module(fsx_lustre, **REQUEST, **PLACE)
    tie = {"FileSystemPath": "/datasets", "DataRepositoryPath": "s3://data"}
    failed = {"Lifecycle": "FAILED", "FailureDetails": {"Message": "no permission for s3://data"}}
    real = fsx_lustre.fsx.find

    def find(*given):
        return {**real(*given), **(failed if broken == "file system" else {})}

    # moto has no failed file systems.
    monkeypatch.setattr(fsx_lustre.fsx, "find", find)
    monkeypatch.setattr(fsx_lustre.fsx, "associations", lambda client, identifier: [{**tie, **failed}])
    monkeypatch.setattr(fsx_lustre.fsx.time, "sleep", lambda seconds: pytest.fail("it waits"))
    links = [{"path": "/datasets", "s3": "s3://data"}]
    output = run_module(fsx_lustre, check=check, associations=links, **REQUEST, **PLACE)["msg"]
    what = made["id"] if broken == "file system" else f"an association of {made['id']} (/datasets)"
    assert output == f"{what} is FAILED: no permission for s3://data; repair or delete it by hand"


def test_missing_subnet_of_filesystem_is_reported(run_module):
    output = run_module(fsx_lustre, **REQUEST)["msg"]
    assert output == "there is no file system checkpoints, and to make one subnet, groups are needed"


def test_missing_network_is_reported(run_module):
    found = run_module(network_info, name="train")
    assert (found["network"]["vpc"], found["network"]["vpcs"], found["outputs"]) == (None, 0, None)
    assert found["network"]["zones"][0] == "ap-southeast-3a"


def tagged(kind, name, **tags):
    every = {"Name": name, **tags}
    return [{"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in every.items()]}]


def test_foreign_resources_are_reported(run_module, aws_account):
    ec2 = aws_account.client("ec2", REGION)
    ours = {"mlcluster:network": "train"}
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc", "train", **ours))["Vpc"]["VpcId"]

    def subnet(cidr, name, **tags):
        specifications = tagged("subnet", name, **tags)
        made = ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, TagSpecifications=specifications)
        return made["Subnet"]["SubnetId"]

    public = subnet("10.0.0.0/24", "train-public", **ours)
    look = run_module(network_info, name="train")["network"]
    assert (list(look["subnets"]), look["foreign"]) == (["public"], [])

    others = [
        subnet("10.0.2.0/24", "train-public", **ours),
        subnet("10.0.3.0/24", "private"),
        subnet("10.0.4.0/24", ""),
    ]
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    mine = ec2.create_vpc_endpoint(VpcId=vpc, ServiceName=f"com.amazonaws.{REGION}.dynamodb", RouteTableIds=[table])
    nat = ec2.create_nat_gateway(SubnetId=others[1], AllocationId=ec2.allocate_address()["AllocationId"])
    way = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(VpcId=vpc, InternetGatewayId=way)
    ec2.create_security_group(VpcId=vpc, GroupName="{{ 7 * 7 }}", Description="other")
    ec2.import_key_pair(KeyName="old", PublicKeyMaterial=KEY)
    far = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    link = ec2.create_vpc_peering_connection(VpcId=vpc, PeerVpcId=far)["VpcPeeringConnection"]["VpcPeeringConnectionId"]
    vpn = ec2.create_vpn_gateway(Type="ipsec.1")["VpnGateway"]["VpnGatewayId"]
    ec2.attach_vpn_gateway(VpcId=vpc, VpnGatewayId=vpn)
    out = ec2.create_egress_only_internet_gateway(VpcId=vpc)["EgressOnlyInternetGateway"]["EgressOnlyInternetGatewayId"]
    acl = ec2.create_network_acl(VpcId=vpc)["NetworkAcl"]["NetworkAclId"]
    transit = ec2.create_transit_gateway()["TransitGateway"]["TransitGatewayId"]
    wire = ec2.create_transit_gateway_vpc_attachment(TransitGatewayId=transit, VpcId=vpc, SubnetIds=[others[1]])
    wire = wire["TransitGatewayVpcAttachment"]["TransitGatewayAttachmentId"]
    look = run_module(network_info, name="train", key_name="old", all_foreign=True)["network"]
    (kept,) = look["subnets"].values()
    assert (look["nat"], look["endpoint"], look["routes"], look["groups"]) == (None, None, {}, {})
    assert (look["key"], look["key_ours"], look["igw"], look["igw_ours"]) == ("old", False, way, False)
    gone = {public, *others} - {kept["id"]}
    expected = {f"subnet {name}" for name in gone} | {
        f"route table {table}",
        f"endpoint {mine['VpcEndpoint']['VpcEndpointId']} of com.amazonaws.{REGION}.dynamodb",
        f"NAT gateway {nat['NatGateway']['NatGatewayId']}",
        f"internet gateway {way}",
        "security group {{ 7 * 7 }}",
        f"peering {link}",
        f"VPN gateway {vpn}",
        f"egress-only internet gateway {out}",
        f"network access list {acl}",
        f"transit gateway attachment {wire}",
    }
    assert expected <= set(look["foreign"])
    assert len(gone) == 3


def test_second_gateway_with_tag_is_reported_as_foreign(aws_account, run_module):
    ec2 = aws_account.client("ec2", REGION)
    tags = [{"Key": "mlcluster:network", "Value": "train"}]

    def tagged(kind):
        return [{"ResourceType": kind, "Tags": tags}]

    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc"))["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    way = ec2.create_internet_gateway(TagSpecifications=tagged("internet-gateway"))["InternetGateway"]
    ec2.attach_internet_gateway(VpcId=vpc, InternetGatewayId=way["InternetGatewayId"])
    nats, ends = set(), set()
    for _again in range(2):
        address = ec2.allocate_address()["AllocationId"]
        request = {"SubnetId": subnet, "AllocationId": address, "TagSpecifications": tagged("natgateway")}
        nats.add(ec2.create_nat_gateway(**request)["NatGateway"]["NatGatewayId"])
        request = {"ServiceName": f"com.amazonaws.{REGION}.s3", "TagSpecifications": tagged("vpc-endpoint")}
        ends.add(ec2.create_vpc_endpoint(VpcId=vpc, **request)["VpcEndpoint"]["VpcEndpointId"])
    look = run_module(network_info, name="train")["network"]
    assert (look["igw"], look["igw_ours"]) == (way["InternetGatewayId"], True)
    (nat,) = nats - {look["nat"]["id"]}
    (end,) = ends - {look["endpoint"]["id"]}
    wanted = [f"NAT gateway {nat}", f"endpoint {end} of com.amazonaws.{REGION}.s3", f"subnet {subnet}"]
    assert look["foreign"] == sorted(wanted)


@pytest.mark.parametrize("module", [network_info, fsx_lustre])
def test_missing_profile_is_reported(run_module, module):
    output = run_module(module, name="train", profile="absent")["msg"]
    assert output.startswith("no ")
    assert "ProfileNotFound: The config profile (absent) could not be found" in output
