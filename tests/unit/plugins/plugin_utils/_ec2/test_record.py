# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime
import json

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import options as _ec2_options
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import record as _ec2_record

UTC = datetime.timezone.utc


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-11-20T10:11:12.000Z", "2026-11-20T10:11:12+00:00"),
        ("2026-11-20T10:11:12Z", "2026-11-20T10:11:12+00:00"),
        ("2026-11-20T10:11:12.500Z", "2026-11-20T10:11:12.500+00:00"),
        ("2026-11-20T10:11:12+00:00", "2026-11-20T10:11:12+00:00"),
        (datetime.datetime(2026, 11, 20, 10, 11, 12, tzinfo=UTC), "2026-11-20T10:11:12+00:00"),
        (1795687872, "2026-11-26T10:11:12+00:00"),
        (None, None),
    ],
)
def test_times_are_iso_text(given, expected):
    assert _ec2_record.iso_time(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("HeadNode", "head"),
        ("Compute", "compute"),
        ("LoginNode", "login"),
        (" Worker", "compute"),
        ("db", None),
        ("", None),
    ],
)
def test_node_types(given, expected):
    assert _ec2_record.node_type(given) == expected


def test_bare_instance_has_every_field():
    record = _ec2_record.make({"InstanceId": "i-1"}, None, "us-east-1", _ec2_options.TAG_KEYS, "login")
    assert set(record) == set(_ec2_record.FIELDS) - {"accelerators"} | {"efa_attached", "ipv6_address"}
    assert (record["lifecycle"], record["node_type"], record["tags"]) == ("on-demand", "login", {})


def test_whole_instance_is_flat():
    instance = {
        "InstanceId": "i-1",
        "InstanceType": "p5.48xlarge",
        "InstanceLifecycle": "capacity-block",
        "CapacityBlockId": "cb-1",
        "CapacityReservationId": "cr-1",
        "PrivateIpAddress": "10.0.0.1",
        "PrivateDnsName": "",
        "Placement": {"AvailabilityZone": "us-east-1a", "AvailabilityZoneId": "use1-az1", "GroupName": ""},
        "State": {"Code": 16, "Name": "running"},
        "Tags": [{"Key": "parallelcluster:queue-name", "Value": "q-1"}, {"Key": "empty"}],
        "NetworkInterfaces": [{"InterfaceType": "interface"}, {"InterfaceType": "efa"}, {"InterfaceType": "efa-only"}],
    }
    record = _ec2_record.make(instance, "111122223333", "us-east-1", _ec2_options.TAG_KEYS, None)
    assert (record["network_interfaces"], record["efa_attached"]) == (3, 2)
    assert (record["lifecycle"], record["capacity_block_id"]) == ("capacity-block", "cb-1")
    assert (record["private_dns_name"], record["placement_group"]) == (None, None)
    assert (record["queue_name"], record["cluster_name"]) == ("q-1", None)
    assert record["tags"]["empty"] == ""


def test_plain_data_survive_json():
    given = {"a": [1, (True, None)], 2: datetime.datetime(2026, 1, 1, tzinfo=UTC), "b": b"x"}
    plain = _ec2_record.plain(given)
    assert json.loads(json.dumps(plain)) == plain
    assert plain["2"] == "2026-01-01T00:00:00+00:00"
