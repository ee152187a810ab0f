# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import types

import botocore.session
import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import parse, trim
from botocore.parsers import EC2QueryParser

from tests.rig.ec2 import Endpoint, load
from tests.rig.ec2.client import client

ODD = b"""<?xml version="1.0" encoding="UTF-8"?>
<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId><reservationSet>
<item><ownerId>1</ownerId><groupSet/><instancesSet><item><instanceId> i-1&lt;&amp; </instanceId><keyName/>
<unknown>x</unknown><ebsOptimized>true</ebsOptimized><enaSupport>yes</enaSupport><amiLaunchIndex>7</amiLaunchIndex><tagSet/>
<launchTime>2026-01-01T00:00:00.000Z</launchTime><cpuOptions><coreCount>96</coreCount></cpuOptions><placement/>
<blockDeviceMapping><item><deviceName>/dev/xvda</deviceName><ebs><deleteOnTermination>false</deleteOnTermination></ebs>
</item></blockDeviceMapping></item></instancesSet></item><item><instancesSet/></item></reservationSet>
<nextToken>t &amp; u</nextToken></DescribeInstancesResponse>"""


@pytest.fixture(scope="module")
def model():
    return botocore.session.Session().get_service_model("ec2").operation_model("DescribeInstances")


def answer(body, status=200):
    return {"body": body, "status_code": status, "headers": {}}


def as_text(value):
    """Return the value with times as the original strings."""
    if isinstance(value, datetime.datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S}.000Z"
    if isinstance(value, dict):
        return {key: as_text(item) for key, item in value.items()}
    return [as_text(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("scenario", ["hostile", "small", "p5-200"])
def test_instances_of_endpoint_are_those_of_botocore(scenario):
    with Endpoint(load(scenario)) as endpoint:
        api = client(endpoint.url)
        wanted = as_text(api.describe_instances())
        api.meta.events.register(trim.EVENT, parse.Instances().before_parse)
        found = api.describe_instances()
    assert wanted["Reservations"] != []
    for whole in (wanted, found):
        del whole["ResponseMetadata"]
    assert found == wanted


def test_unusual_elements_are_parsed_like_botocore(model):
    parser = EC2QueryParser(timestamp_parser=lambda text: text)
    wanted = parser.parse(answer(ODD), model.output_shape)
    response, more = answer(ODD), {}
    parse.Instances().before_parse(response, more, model, event_name="x")
    assert b"instanceId" not in response["body"]
    assert {**parser.parse(response, model.output_shape), **more} == wanted
    (instance,) = more["Reservations"][0]["Instances"]
    assert instance["KeyName"] == "" and instance["EbsOptimized"] is True and instance["EnaSupport"] is False


@pytest.mark.parametrize(
    ("body", "status"),
    [(ODD, 500), (b"<html>no", 200), (b"<DescribeInstancesResponse/>", 200), (None, 200)],
    ids=["error", "no XML", "no reservations", "no body"],
)
def test_other_content_is_left_to_botocore(model, body, status):
    response, more = answer(body, status), {}
    parse.Instances().before_parse(response, more, model)
    assert (response, more) == (answer(body, status), {})


def test_numbers_are_parsed_as_numbers():
    node = types.SimpleNamespace(text="1.5")
    assert parse.reader(types.SimpleNamespace(type_name="double"))(node) == 1.5
    assert parse.reader(types.SimpleNamespace(type_name="string"))(types.SimpleNamespace(text=None)) == ""
