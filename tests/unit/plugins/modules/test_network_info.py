# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""network_info as Ansible runs it: what it hands on, and when a network is complete."""

from __future__ import annotations

import copy

import botocore.exceptions
import pytest
from ansible_collections.mlcluster.aws.plugins.modules import network_info

WHOLE = {
    "vpc": {"id": "vpc-1", "cidr": "10.0.0.0/16", "dns": True},
    "subnets": {
        "public": {"id": "subnet-1", "cidr": "10.0.0.0/24", "zone": "a"},
        "private": {"id": "subnet-2", "cidr": "10.0.128.0/17", "zone": "a"},
    },
    "groups": {"nodes": {"id": "sg-1", "rules": []}, "fsx": {"id": "sg-2", "rules": []}},
}


@pytest.fixture
def look(run_on_controller, monkeypatch):
    """look(found, **options): the module over a network; gives its result and what the look was asked with."""

    def run(found, **options):
        asked = []

        def seen(ec2, *arguments):
            asked.append((ec2, *arguments))
            if isinstance(found, Exception):
                raise found
            return copy.deepcopy(found)

        monkeypatch.setattr(network_info.aws, "client", lambda params, service: (service, params["profile"]))
        monkeypatch.setattr(network_info.network, "look", seen)
        return run_on_controller(network_info, region="us-east-1", name="train", **options), asked

    return run


def test_complete_network_has_outputs(look):
    result, asked = look(WHOLE, profile="me", key_name="k", all_foreign=True)
    assert asked == [(("ec2", "me"), "train", "k", True)]
    assert result["changed"] is False
    assert (result["outputs"]["head_subnet"], result["outputs"]["groups"]) == ("subnet-1", ["sg-1", "sg-2"])


def test_strangers_are_searched_on_request_only(look):
    assert look(WHOLE)[1] == [(("ec2", None), "train", "", False)]


@pytest.mark.parametrize(
    "change",
    [
        {"vpc": None},
        {"subnets": {"public": WHOLE["subnets"]["public"]}},
        {"groups": {"nodes": WHOLE["groups"]["nodes"], "ssh": {"id": "sg-3", "rules": []}}},
    ],
)
def test_incomplete_network_has_no_outputs(look, change):
    assert look({**WHOLE, **change})[0]["outputs"] is None


def test_aws_error_is_one_sentence(look):
    answer = {"Error": {"Code": "UnauthorizedOperation", "Message": "You are not\nauthorized."}}
    result, _asked = look(botocore.exceptions.ClientError(answer, "DescribeVpcs"))
    assert result["msg"] == (
        "looking at the network train in us-east-1 failed: UnauthorizedOperation: You are not authorized "
        "(docs/iam has the policy that the playbook needs)"
    )


def test_name_is_required(run_on_controller):
    assert "missing required arguments: name" in run_on_controller(network_info, region="us-east-1")["msg"]
