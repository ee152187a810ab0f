# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""instance_offers_info as Ansible runs it: its requests, and their types."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.modules import instance_offers_info


class Ec2:
    """Offers two types, one a page, as the API may answer; keeps what was asked."""

    def __init__(self):
        self.asked = []

    def describe_instance_type_offerings(self, **request):
        self.asked.append({key: value for key, value in request.items() if key != "NextToken"})
        if "NextToken" in request:
            return {"InstanceTypeOfferings": [{"InstanceType": "p5e.48xlarge"}]}
        return {"InstanceTypeOfferings": [{"InstanceType": "c7i.4xlarge"}], "NextToken": "more"}

    def describe_instance_types(self, InstanceTypes):  # noqa: N803
        self.asked.append(InstanceTypes)
        return {"InstanceTypes": [{"InstanceType": name} for name in InstanceTypes]}


@pytest.fixture
def ask(run_on_controller, monkeypatch):
    def run(**options):
        ec2 = Ec2()
        monkeypatch.setattr(instance_offers_info.aws, "client", lambda params, service: ec2)
        return run_on_controller(instance_offers_info, region="us-east-1", **options), ec2.asked

    return run


def test_only_offered_types_are_described(ask):
    result, asked = ask(types=["p5e.48xlarge", "p4d.24xlarge", "p5e.48xlarge"])
    assert asked == [{"LocationType": "region"}] * 2 + [["p5e.48xlarge"]]
    assert result["offered"] == ["c7i.4xlarge", "p5e.48xlarge"]
    assert (result["changed"], list(result["types"])) == (False, ["p5e.48xlarge"])


def test_zone_is_queried_by_name(ask):
    _result, asked = ask(types=[], zone="us-east-1a")
    place = {"LocationType": "availability-zone", "Filters": [{"Name": "location", "Values": ["us-east-1a"]}]}
    assert asked == [place, place]


def test_types_without_offer_are_not_described(ask):
    result, asked = ask(types=["p4d.24xlarge"])
    assert (result["types"], len(asked)) == ({}, 2)


def test_types_are_required(run_on_controller):
    assert "missing required arguments: types" in run_on_controller(instance_offers_info, region="us-east-1")["msg"]
