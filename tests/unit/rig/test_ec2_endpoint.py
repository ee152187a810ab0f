# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fake endpoint's behaviour: pages, limits, failures, accounts, the services beside EC2, and its command."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from tests.rig.ec2 import Endpoint, Fault, Fleet, Region, Role, Scenario, load
from tests.rig.ec2 import scenario as scenarios
from tests.rig.ec2.client import client

ROOT = Path(__file__).resolve().parents[3]
ROLE = "arn:aws:iam::444455556666:role/reader"
FLEETS = (
    Fleet(cluster="train", role="HeadNode", type="c6i.4xlarge"),
    Fleet(count=11, cluster="train", queue="gpu", compute_resource="p5", interfaces=1, tags={"Stage": "a[1]"}),
    Fleet(count=2, state="stopped", type="m7g.xlarge", name="spare"),
    Fleet(type="m7g.xlarge", account="444455556666", ssm=""),
)


def play(*faults: Fault, **more):
    roles = (Role(ROLE, "444455556666", external_id="secret-word"),)
    return Endpoint(Scenario(regions=(Region("us-east-1", FLEETS, faults, **more),), roles=roles, dynamodb_page=4))


@pytest.fixture(scope="module")
def endpoint():
    with play() as running:
        yield running


def ids(answer):
    return [instance["InstanceId"] for entry in answer["Reservations"] for instance in entry["Instances"]]


def refused(call, *args, **named):
    with pytest.raises(ClientError) as caught:
        call(*args, **named)
    return caught.value.response["Error"]["Code"]


def test_pages_are_whole_and_in_order(endpoint):
    api = client(endpoint.url)
    pages = list(api.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5}))
    assert [len(ids(page)) for page in pages] == [5, 5, 4]
    assert [name for page in pages for name in ids(page)] == [host.id for host in endpoint.hosts()[:14]]
    statuses = api.get_paginator("describe_instance_status").paginate(PaginationConfig={"PageSize": 5})
    assert sum(len(page["InstanceStatuses"]) for page in statuses) == 12
    nodes = api.get_paginator("describe_instance_topology").paginate(PaginationConfig={"PageSize": 4})
    assert [len(page["Instances"]) for page in nodes] == [4, 4, 3]


def test_filters_are_those_of_ec2(endpoint):
    api = client(endpoint.url)

    def found(**wanted):
        return len(ids(api.describe_instances(Filters=[{"Name": n, "Values": v} for n, v in wanted.items()])))

    assert found(**{"instance-state-name": ["running"]}) == 12
    assert found(**{"tag:parallelcluster:queue-name": ["g?u"], "instance-state-name": ["running", "stopped"]}) == 11
    assert found(**{"tag:Stage": ["a[1]"]}) == 11
    assert found(**{"tag-key": ["parallelcluster:*"]}) == 12
    assert found(**{"tag:Name": ["nothing"]}) == 0
    wrong = [{"Name": "state", "Values": ["running"]}]
    assert refused(api.describe_instances, Filters=wrong) == "InvalidParameterValue"


def test_limits_are_those_of_ec2(endpoint):
    api = client(endpoint.url)
    names = [f"i-{number:017x}" for number in range(201)]
    most = [{"Name": "instance-id", "Values": names[:200]}]
    assert ids(api.describe_instances(Filters=most)) == []
    over = [{"Name": "instance-id", "Values": names}]
    assert refused(api.describe_instances, Filters=over) == "FilterLimitExceeded"
    known = [endpoint.hosts()[0].id]
    assert refused(api.describe_instances, InstanceIds=known, MaxResults=5) == "InvalidParameterCombination"
    assert refused(api.describe_instances, InstanceIds=names[:1]) == "InvalidInstanceID.NotFound"
    assert refused(api.describe_instances, MaxResults=4) == "InvalidParameterValue"
    assert refused(api.describe_instances, NextToken="made-up") == "InvalidParameterValue"
    assert refused(api.describe_instance_status, InstanceIds=names[:101]) == "InvalidParameterValue"
    assert refused(api.describe_instance_types, InstanceTypes=["x9.large"]) == "InvalidInstanceType"


def test_tags_may_change_between_two_looks():
    fleet = Fleet(tags={"role": "worker"}, tags_later={"role": "excluded"})
    with Endpoint(Scenario(regions=(Region("us-east-1", (fleet,)),))) as endpoint:
        api = client(endpoint.url)
        looks = [api.describe_instances()["Reservations"][0]["Instances"][0]["Tags"] for _look in range(3)]
    assert [tags[0]["Value"] for tags in looks] == ["worker", "excluded", "excluded"]


def test_fault_strikes_given_number_of_times():
    with play(Fault("DescribeInstances", "RequestLimitExceeded", times=2)) as endpoint:
        api = client(endpoint.url)
        assert [refused(api.describe_instances) for _call in range(2)] == ["RequestLimitExceeded"] * 2
        assert len(ids(api.describe_instances())) == 14
        assert endpoint.count("DescribeInstances", "us-east-1") == 3


def test_fault_can_wait_for_page():
    with play(Fault("DescribeInstances", "InternalError", page=1)) as endpoint:
        api = client(endpoint.url)
        first = api.describe_instances(MaxResults=5)
        again = {"MaxResults": 5, "NextToken": first["NextToken"]}
        assert refused(api.describe_instances, **again) == "InternalError"


@pytest.mark.parametrize(("code", "raises"), [("drop", BotoCoreError), ("cut", ResponseParserError)])
def test_connection_can_break(code, raises):
    with play(Fault("DescribeInstances", code, times=1)) as endpoint:
        api = client(endpoint.url)
        with pytest.raises(raises):
            api.describe_instances()
        assert len(ids(api.describe_instances())) == 14


def test_disabled_region_is_hidden_and_refuses():
    regions = (Region("us-east-1", FLEETS), Region("ap-east-1", FLEETS, opt_in="not-opted-in"))
    with Endpoint(Scenario(regions=regions)) as endpoint:
        api = client(endpoint.url)
        assert [entry["RegionName"] for entry in api.describe_regions()["Regions"]] == ["us-east-1"]
        assert len(api.describe_regions(AllRegions=True)["Regions"]) == 2
        assert refused(client(endpoint.url, region="ap-east-1").describe_instances) == "AuthFailure"


def test_account_sees_itself_and_role_its_own(endpoint):
    assert len(ids(client(endpoint.url, key="AKIARIGOTHER").describe_instances())) == 1
    assert refused(client(endpoint.url, key="AKIANOBODY").describe_instances) == "AuthFailure"
    assert refused(client(endpoint.url, "sts", key="AKIANOBODY").get_caller_identity) == "InvalidClientTokenId"
    sts = client(endpoint.url, "sts")
    assert sts.get_caller_identity()["Account"] == "111122223333"
    asked = {"RoleArn": ROLE, "RoleSessionName": "test"}
    assert refused(sts.assume_role, **asked) == "AccessDenied"
    key = sts.assume_role(**asked, ExternalId="secret-word")["Credentials"]["AccessKeyId"]
    assert client(endpoint.url, "sts", key=key).get_caller_identity()["Account"] == "444455556666"
    assert len(ids(client(endpoint.url, key=key).describe_instances())) == 1


def test_ssm_pages_and_leaves_out_hosts_without_agent(endpoint):
    pages = (
        client(endpoint.url, "ssm")
        .get_paginator("describe_instance_information")
        .paginate(PaginationConfig={"PageSize": 5})
    )
    assert [len(page["InstanceInformationList"]) for page in pages] == [5, 5, 4]
    other = client(endpoint.url, "ssm", key="AKIARIGOTHER")
    assert other.describe_instance_information()["InstanceInformationList"] == []


def test_dynamodb_pages_node_names_of_one_cluster(endpoint):
    api = client(endpoint.url, "dynamodb")
    pages = list(api.get_paginator("scan").paginate(TableName="parallelcluster-slurm-train"))
    assert [page["Count"] for page in pages] == [4, 4, 3]
    names = [item["Id"]["S"] for page in pages for item in page["Items"]]
    assert names == [f"gpu-dy-p5-{number}" for number in range(1, 12)]
    assert refused(api.scan, TableName="parallelcluster-slurm-other") == "ResourceNotFoundException"


def test_capacity_shows_end_of_block():
    fleet = Fleet(count=2, reservation="cr-0123456789abcdef0", block_days_left=14)
    with Endpoint(Scenario(regions=(Region("us-east-1", (fleet,)),))) as endpoint:
        api = client(endpoint.url)
        (entry,) = api.describe_capacity_reservations()["CapacityReservations"]
        (block,) = api.describe_capacity_blocks()["CapacityBlocks"]
    assert (entry["EndDateType"], entry["TotalInstanceCount"]) == ("limited", 2)
    assert entry["EndDate"] == block["EndDate"] and entry["EndDate"].isoformat() == "2026-12-04T11:30:00+00:00"


def ask(url, path, method="GET", **headers):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)
    try:
        named = {f"X-aws-ec2-metadata-{name.replace('_', '-')}": value for name, value in headers.items()}
        connection.request(method, path, headers=named)
        return connection.getresponse().read()
    finally:
        connection.close()


def test_metadata_service_knows_home_region(endpoint):
    assert ask(endpoint.url, "/latest/api/token", "PUT", token_ttl_seconds="60") == b"token"
    assert ask(endpoint.url, "/latest/meta-data/placement/region", token="token") == b"us-east-1"
    assert ask(endpoint.url, "/latest/meta-data/placement/region") != b"us-east-1"


def test_network_nodes_make_tree(endpoint):
    hosts = endpoint.hosts()
    assert hosts[0].network_nodes == hosts[3].network_nodes
    assert hosts[3].network_nodes[:2] == hosts[4].network_nodes[:2]
    assert hosts[3].network_nodes[2] != hosts[4].network_nodes[2]


@pytest.mark.parametrize("path", sorted(scenarios.SCENARIOS.glob("*.yml")), ids=lambda path: path.stem)
def test_named_scenarios_load(path):
    assert sum(fleet.count for region in load(path.stem).regions for fleet in region.fleets)


def test_scenario_with_wrong_word_reports_it():
    with pytest.raises(scenarios.ScenarioError, match=r"us-east-1\.fleets: cout is not a field"):
        scenarios.from_dict({"regions": {"us-east-1": {"fleets": [{"cout": 3}]}}})
    with pytest.raises(scenarios.ScenarioError, match=r"neither a scenario file nor one of: .*small"):
        load("no-such-scenario")


def test_command_serves_on_free_port():
    command = [sys.executable, "-m", "tests.rig.ec2", "--scenario", "small"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            ready = json.loads(process.stdout.readline())
            assert len(ids(client(ready["url"]).describe_instances())) == 8
            assert json.loads(ask(ready["url"], "/_rig/calls")) == {"DescribeInstances@us-east-1": 1}
        finally:
            process.terminate()
