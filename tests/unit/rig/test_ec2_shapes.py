# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake endpoint's shapes: every element is one that botocore knows, and moto has the same for an instance."""

from __future__ import annotations

import logging
from datetime import datetime
from xml.etree import ElementTree

import pytest

from plugins.module_utils._data import instance_types
from tests.rig.ec2 import Endpoint, Fleet, Region, Scenario, types, wire
from tests.rig.ec2.client import client

FLEETS = (
    Fleet(cluster="train", role="HeadNode", type="c6i.4xlarge", public=True, ipv6=True),
    Fleet(count=2, cluster="train", queue="gpu", compute_resource="p5", per_reservation=2, public=True),
    Fleet(type="p4d.24xlarge", reservation="cr-0123456789abcdef0", block_days_left=3, lifecycle="capacity-block"),
    Fleet(state="terminated", type="m7g.xlarge", name="gone"),
    Fleet(state="stopped", type="trn1.32xlarge", health="impaired", event="instance-retirement"),
)


@pytest.fixture(scope="module")
def endpoint():
    with Endpoint(Scenario(regions=(Region("us-east-1", FLEETS), Region("eu-north-1", opt_in="not-opted-in")))) as it:
        yield it


def unknown(element: ElementTree.Element, shape, path: str) -> list[str]:
    """Return the paths of elements that the service model does not have, or has with another type."""
    if shape.type_name == "list":
        wrong = [f"{path}/{child.tag}" for child in element if not child.tag.endswith("}item")]
        return wrong + [text for child in element for text in unknown(child, shape.member, path)]
    if shape.type_name != "structure":
        return [path] if len(element) else []
    members = {member.serialization.get("name", name): member for name, member in shape.members.items()}
    found = []
    for child in element:
        name = child.tag.rsplit("}", 1)[-1]
        if name in members:
            found += unknown(child, members[name], f"{path}/{name}")
        elif name != "requestId":
            found.append(f"{path}/{name}")
    return found


CALLS = {
    "DescribeInstances": {},
    "DescribeInstanceStatus": {"IncludeAllInstances": True},
    "DescribeInstanceTopology": {},
    "DescribeInstanceTypes": {},
    "DescribeCapacityReservations": {},
    "DescribeCapacityBlocks": {},
    "DescribeRegions": {"AllRegions": True},
}


@pytest.mark.parametrize("operation", CALLS)
def test_every_element_is_in_service_model(endpoint, operation):
    api = client(endpoint.url)
    bodies = []
    api.meta.events.register("before-parse.ec2", lambda response_dict, **_more: bodies.append(response_dict["body"]))
    answer = api._make_api_call(operation, CALLS[operation])
    assert next(value for key, value in answer.items() if key != "ResponseMetadata")
    shape = api.meta.service_model.operation_model(operation).output_shape
    assert unknown(ElementTree.fromstring(bodies[0]), shape, operation) == []


def test_values_come_out_with_their_types(endpoint):
    reservations = client(endpoint.url).describe_instances()["Reservations"]
    assert [len(entry["Instances"]) for entry in reservations] == [1, 2, 1, 1, 1]
    first, second = reservations[1]["Instances"]
    assert (first["AmiLaunchIndex"], second["AmiLaunchIndex"]) == (0, 1)
    assert isinstance(first["LaunchTime"], datetime) and first["State"] == {"Code": 16, "Name": "running"}
    assert len(first["NetworkInterfaces"]) == 32
    assert [card["InterfaceType"] for card in first["NetworkInterfaces"]] == ["efa"] + ["efa-only"] * 31
    assert "PrivateIpAddress" not in first["NetworkInterfaces"][1]
    assert len({card["MacAddress"] for one in (first, second) for card in one["NetworkInterfaces"]}) == 64
    gone = reservations[3]["Instances"][0]
    assert gone["PrivateDnsName"] == "" and "PrivateIpAddress" not in gone and gone["NetworkInterfaces"] == []


@pytest.mark.parametrize("text", ["{{ 1 }} {% x %}", "a\nb\r\nc\td", "<&>\"'", "ünïcødé 節點 🚀", "x" * 256, " edges "])
def test_any_tag_text_survives_wire(text):
    with Endpoint(Scenario(regions=(Region("us-east-1", (Fleet(tags={"odd": text}),)),))) as endpoint:
        (entry,) = client(endpoint.url).describe_instances()["Reservations"]
    assert {"Key": "odd", "Value": text} in entry["Instances"][0]["Tags"]


def same_kind(mine, theirs, path: str) -> list[str]:
    """Return where the types of values that both have differ."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        both = mine.keys() & theirs.keys()
        return [text for key in both for text in same_kind(mine[key], theirs[key], f"{path}.{key}")]
    if isinstance(mine, list) and isinstance(theirs, list):
        return same_kind(mine[0], theirs[0], f"{path}[]") if mine and theirs else []
    return [] if type(mine) is type(theirs) else [f"{path}: {type(mine).__name__}, moto has {type(theirs).__name__}"]


# Fields that moto still sends and EC2 does not, or only for older instances.
MOTO_ONLY = {"KernelId", "RamdiskId", "SriovNetSupport", "StateReason"}


def test_instance_has_fields_of_moto(endpoint, monkeypatch):
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        api = client(f"http://{host}:{port}")
        tags = [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "x"}]}]
        api.run_instances(
            ImageId="ami-1234abcd", InstanceType="p5.48xlarge", MinCount=2, MaxCount=2, TagSpecifications=tags
        )
        theirs = api.describe_instances()["Reservations"][0]
    finally:
        server.stop()
    mine = client(endpoint.url).describe_instances()["Reservations"][1]
    for reservation in (mine, theirs):
        assert {instance["State"]["Name"] for instance in reservation["Instances"]} == {"running"}
    assert same_kind(mine, theirs, "reservation") == []
    mine, theirs = mine["Instances"][0], theirs["Instances"][0]
    assert theirs.keys() - mine.keys() <= MOTO_ONLY
    cards = mine["NetworkInterfaces"][0].keys(), theirs["NetworkInterfaces"][0].keys()
    assert cards[1] <= cards[0]


@pytest.mark.parametrize("name", types.KINDS)
def test_types_agree_with_table_of_collection(name):
    mine, table = types.describe(name), instance_types.lookup(name)
    if table is None:
        assert not {"gpuInfo", "neuronInfo", "instanceStorageInfo"} & mine.keys()
        return
    (disks,) = mine["instanceStorageInfo"]["disks"]
    assert (disks["count"], disks["sizeInGB"]) == (table["instance_store"]["count"], table["instance_store"]["size_gb"])
    assert mine["networkInfo"].get("efaInfo", {}).get("maximumEfaInterfaces", 0) == table["efa_interfaces"]
    assert (mine["memoryInfo"]["sizeInMiB"], mine["vCpuInfo"]["defaultVCpus"]) == (table["memory_mib"], table["vcpus"])
    devices = mine.get("gpuInfo", {}).get("gpus", []) + mine.get("neuronInfo", {}).get("neuronDevices", [])
    known = [] if table["accelerators"] is None else [table["accelerators"]]
    assert [(one["name"], one["count"], one["memory_mib"]) for one in known] == [
        (one["name"], one["count"], one["memoryInfo"]["sizeInMiB"]) for one in devices
    ]


def test_xml_leaves_out_nothing_but_none():
    assert wire.xml({"a": None, "b": "", "c": [], "d": False, "e": 0, "f": [1, {"g": "<"}]}) == (
        "<b/><c/><d>false</d><e>0</e><f><item>1</item><item><g>&lt;</g></item></f>"
    )
