# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import botocore.exceptions
import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import enrich


class Client:
    """A client whose operations return one page each time, or raise; it records the requests."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def get_paginator(self, operation):
        client = self

        class Paginator:
            def paginate(self, **request):
                client.asked.append((operation, request))
                answer = client.answers[operation]
                answer = answer(request) if callable(answer) else answer
                if isinstance(answer, Exception):
                    raise answer
                return [answer, {}]

        return Paginator()


def error(code, operation):
    return botocore.exceptions.ClientError({"Error": {"Code": code, "Message": "no"}}, operation)


def record(number, **more):
    return {
        "instance_id": f"i-{number}",
        "instance_type": "p5.48xlarge",
        "state": "running",
        "cluster_name": "a",
        "node_type": "compute",
        "capacity_reservation_id": None,
        **more,
    }


def statuses(*numbers, **more):
    return {
        "InstanceStatuses": [
            {"InstanceId": f"i-{number}", "InstanceStatus": {"Status": "ok"}, **more} for number in numbers
        ]
    }


def test_health_of_running_nodes_is_asked_by_id():
    client, records = Client(describe_instance_status=statuses(1)), [record(1), record(2)]
    enrich.health(client, records)
    assert client.asked == [("describe_instance_status", {"IncludeAllInstances": False, "InstanceIds": ["i-1", "i-2"]})]
    assert records[0]["health"] == {"system": None, "instance": "ok", "ebs": None, "events": []}
    # An instance that EC2 does not report has no health.
    assert records[1]["health"] is None


def test_completed_events_are_left_out():
    events = [
        {"InstanceEventId": "e1", "Code": "instance-reboot", "Description": "[Completed] reboot"},
        {"InstanceEventId": "e2", "Code": "instance-stop", "Description": "[Canceled] stop"},
        {
            "InstanceEventId": "e3",
            "Code": "instance-retirement",
            "Description": "gone",
            "NotBefore": "2026-11-20T10:11:12Z",
        },
    ]
    records = [record(1)]
    enrich.health(Client(describe_instance_status=statuses(1, Events=events)), records)
    (event,) = records[0]["health"]["events"]
    assert (event["id"], event["not_before"], event["not_before_deadline"]) == ("e3", "2026-11-20T10:11:12+00:00", None)


def test_many_or_terminated_nodes_use_sweep():
    sweep = {"PaginationConfig": {"PageSize": 1000}, "IncludeAllInstances": True}
    client = Client(describe_instance_status=statuses(1))
    enrich.health(client, [record(number, state="stopped") for number in range(enrich.IDS_PER_CALL + 1)])
    assert client.asked == [("describe_instance_status", sweep)]
    gone = error(enrich.GONE, "DescribeInstanceStatus")
    client = Client(describe_instance_status=lambda request: gone if "InstanceIds" in request else statuses(1))
    records = [record(1)]
    enrich.health(client, records)
    assert len(client.asked) == 2 and records[0]["health"]["instance"] == "ok"


@pytest.mark.parametrize(("code", "number"), [("UnauthorizedOperation", 1), (enrich.GONE, enrich.IDS_PER_CALL + 1)])
def test_other_error_of_health_is_raised(code, number):
    client, records = Client(describe_instance_status=error(code, "X")), [record(at) for at in range(number)]
    with pytest.raises(botocore.exceptions.ClientError):
        enrich.health(client, records)
    assert "health" not in records[0]


def test_topology_is_asked_by_types_and_sorts_neighbours():
    answer = {"Instances": [{"InstanceId": "i-1", "NetworkNodes": ["nn-1", "nn-2"]}]}
    client, records = Client(describe_instance_topology=answer), [record(1), record(2, instance_type="trn1.2xlarge")]
    enrich.topology(client, records)
    ((_operation, request),) = client.asked
    assert request["Filters"] == [{"Name": "instance-type", "Values": ["p5.48xlarge", "trn1.2xlarge"]}]
    assert [one["topology_path"] for one in records] == ["nn-1/nn-2", ""]
    assert [one["network_nodes"] for one in records] == [["nn-1", "nn-2"], []]
    client = Client(describe_instance_topology={})
    enrich.topology(client, [record(number, instance_type=f"t{number}.x") for number in range(201)])
    assert [len(request["Filters"][0]["Values"]) for _operation, request in client.asked] == [200, 1]


def test_capacity_of_reservation():
    answer = {"CapacityReservations": [{"CapacityReservationId": "cr-1", "State": "active"}]}
    records = [record(1, capacity_reservation_id="cr-1"), record(2, capacity_reservation_id="cr-2"), record(3)]
    enrich.capacity(Client(describe_capacity_reservations=answer), records)
    assert records[0]["capacity"] == {"id": "cr-1", "type": "default", "state": "active", "end": None}
    assert [one["capacity"] for one in records[1:]] == [None, None]


def test_ssm_status_is_set_for_known_nodes():
    records = [record(1), record(2)]
    answer = {"InstanceInformationList": [{"InstanceId": "i-1", "PingStatus": "Online"}]}
    enrich.ssm(Client(describe_instance_information=answer), records)
    assert [one["ssm_ping_status"] for one in records] == ["Online", None]


def test_slurm_names_are_read_from_each_cluster_table():
    item = {"Id": {"S": "q-dy-1"}, "InstanceId": {"S": "i-2"}}
    missing = error("ResourceNotFoundException", "Scan")

    def scan(request):
        return missing if request["TableName"].endswith("-a") else {"Items": [item, {"Id": {"S": "q-dy-2"}}]}

    records = [
        record(1),
        record(2, cluster_name="b"),
        record(3, cluster_name="c", node_type="head"),
        record(4, cluster_name=None),
    ]
    client = Client(scan=scan)
    with pytest.raises(botocore.exceptions.ClientError):
        enrich.slurm_names(client, records)
    assert [request["TableName"] for _operation, request in client.asked] == [
        f"{enrich.SLURM_TABLE_PREFIX}{cluster}" for cluster in "ab"
    ]
    assert ["slurm_node_name" in one for one in records] == [False, True, True, True]
    assert [one["slurm_node_name"] for one in records[1:]] == ["q-dy-1", None, None]


@pytest.mark.parametrize("name", sorted(enrich.ENRICHMENTS))
def test_failed_enrichment_leaves_its_keys_empty(name):
    known = record(1)
    assert enrich.add_missing_keys(known, name) is True
    assert all(not known[key] for key in enrich.ENRICHMENTS[name].keys)
    assert enrich.add_missing_keys(known, name) is False
