# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of AWS, or of a part of it."""

from __future__ import annotations

import re

import pytest
from ansible.errors import AnsibleParserError

from tests.rig.ec2 import Fault, Fleet, Region, Role

EAST, WEST = "us-east-1", "us-west-2"
ONE = (Fleet(),)


@pytest.mark.parametrize(
    ("region", "reason"),
    [
        (Region(EAST, ONE, faults=(Fault(code="UnauthorizedOperation"),)), "UnauthorizedOperation: You are not"),
        (Region(EAST, ONE, opt_in="not-opted-in"), "AuthFailure: .*region not enabled for this account"),
        (Region(EAST, ONE, faults=(Fault(code="OptInRequired"),)), "OptInRequired: .*not enabled"),
        (Region(EAST, ONE, faults=(Fault(code="drop"),)), "ConnectionClosedError: Connection was closed"),
        (Region(EAST, ONE, faults=(Fault(code="cut"),)), "ResponseParserError: Unable to parse response"),
        (Region(EAST, ONE, faults=(Fault(code="RequestLimitExceeded"),)), "RequestLimitExceeded: Request limit"),
    ],
    ids=["denied", "amazon.aws-2669-not-opted-in", "opt-in-required", "unreachable", "cut", "throttled-to-death"],
)
def test_failed_region_is_named_and_others_stay(play, load, warnings, region, reason):
    play(region, Region(WEST, ONE))
    inventory = load(regions=[EAST, WEST], max_attempts=2)
    assert [inventory.vars(host)["ec2_region"] for host in inventory.hosts] == [WEST]
    (warning,) = warnings
    assert warning.startswith("mlcluster.aws.ec2_nodes: DescribeInstances failed in us-east-1: ")
    assert re.search(reason, warning)


def test_strict_regions_makes_it_error(play, load):
    play(Region(EAST, ONE, faults=(Fault(),)), Region(WEST, ONE))
    with pytest.raises(AnsibleParserError, match=r"failed in us-east-1: Unauth.*strict_regions is set"):
        load(regions=[EAST, WEST], strict_regions=True)


def test_no_answering_region_is_error(play, load):
    play(Region(EAST, faults=(Fault(),)), Region(WEST, faults=(Fault(),)))
    with pytest.raises(AnsibleParserError, match=r"and 1 more regions failed.*no region answered"):
        load(regions=[EAST, WEST])


def test_temporary_throttling_is_waited_out(play, load, warnings):
    endpoint = play(Region(EAST, ONE, faults=(Fault("DescribeInstances", "RequestLimitExceeded", times=1),)))
    assert len(load(regions=EAST).hosts) == 1
    assert endpoint.count("DescribeInstances") == 2
    assert warnings == []


def test_no_credentials_is_one_sentence(play, load, monkeypatch):
    play(Region(EAST))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(
        AnsibleParserError, match=r"no AWS credentials were found in the standard chain.*; set AWS_PROF"
    ):
        load(regions=EAST)


def test_unknown_profile_is_named_with_known_ones(play, load, tmp_path):
    play(Region(EAST))
    (tmp_path / "aws-config").write_text("[profile lab]\nregion = us-west-2\n")
    with pytest.raises(AnsibleParserError, match="the AWS profile 'home' does not exist; known are lab"):
        load(regions=EAST, profile="home")


@pytest.mark.parametrize("keys", [True, False], ids=["with keys", "without keys"])
def test_unknown_profile_of_environment_is_named_too(play, load, monkeypatch, keys):
    play(Region(EAST))
    monkeypatch.setenv("AWS_PROFILE", "home")
    if not keys:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(AnsibleParserError, match="the AWS profile 'home' does not exist; known are none"):
        load(regions=EAST)


def test_half_credentials_are_one_sentence(play, load, monkeypatch):
    play(Region(EAST))
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(AnsibleParserError, match=r"credentials of the standard chain .* cannot be loaded: Partial"):
        load(regions=EAST)


ROLE, OTHER = "arn:aws:iam::111122223333:role/inventory", "arn:aws:iam::444455556666:role/inventory"


def test_amazon_aws_1908_several_roles_give_hosts_of_all(play, load):
    play(
        Region(EAST, (Fleet(), Fleet(account="444455556666"))),
        roles=(Role(ROLE, "111122223333", "secret"), Role(OTHER, "444455556666", "secret")),
    )
    inventory = load(regions=EAST, assume_role_arn=[ROLE, OTHER], assume_role_external_id="secret")
    accounts = {inventory.vars(host)["ec2_account_id"] for host in inventory.hosts}
    assert accounts == {"111122223333", "444455556666"}


def test_amazon_aws_566_regions_are_listed_with_role(play, load, monkeypatch):
    denied = Fault("DescribeRegions", account="444455556666")
    endpoint = play(Region(EAST, ONE, faults=(denied,)), roles=(Role(ROLE, "111122223333"),))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIARIGOTHER")
    assert len(load(regions="all", assume_role_arn=ROLE).hosts) == 1
    assert [call.account for call in endpoint.calls if call.operation == "DescribeRegions"] == ["111122223333"]


def test_denied_role_is_one_sentence(play, load):
    play(Region(EAST), roles=(Role(ROLE, "111122223333", "secret"),))
    with pytest.raises(AnsibleParserError, match=f"the role {ROLE} cannot be assumed: AccessDenied: User"):
        load(regions=EAST, assume_role_arn=ROLE, assume_role_external_id="wrong")


def test_denied_describe_regions_hints_at_option(play, load):
    play(Region(EAST, faults=(Fault("DescribeRegions"),)))
    with pytest.raises(AnsibleParserError, match=r"DescribeRegions failed: Unauthorized.*; name the regions instead"):
        load(regions="all")


def test_undescribed_types_come_from_table(play, load, warnings):
    play(Region(EAST, (Fleet(), Fleet(type="c6i.4xlarge")), faults=(Fault("DescribeInstanceTypes"),)))
    inventory = load(regions=EAST)
    facts = {
        inventory.vars(host)["ec2_instance_type"]: inventory.vars(host)["ec2_accelerators"] for host in inventory.hosts
    }
    assert facts["p5.48xlarge"]["source"] == "table"
    assert facts["p5.48xlarge"]["efa_max"] == 32
    assert facts["c6i.4xlarge"]["source"] == "unknown"
    assert facts["c6i.4xlarge"]["count"] is None
    assert len(inventory.group("gpu")) == 1
    assert "DescribeInstanceTypes failed in us-east-1" in warnings[0]
    assert "nothing is known about c6i.4xlarge" in warnings[1]


@pytest.mark.parametrize(
    ("name", "operation", "variable", "empty"),
    [
        ("health", "DescribeInstanceStatus", "ec2_health", None),
        ("topology", "DescribeInstanceTopology", "ec2_network_nodes", []),
        ("capacity", "DescribeCapacityReservations", "ec2_capacity", None),
        ("ssm", "DescribeInstanceInformation", "ec2_ssm_ping_status", None),
        ("slurm_names", "Scan", "ec2_slurm_node_name", None),
    ],
)
def test_failed_enrichment_affects_nothing_else(play, load, warnings, name, operation, variable, empty):
    play(Region(EAST, (Fleet(cluster="train", queue="q"),), faults=(Fault(operation, "AccessDenied"),)))
    inventory = load(regions=EAST, enrich=[name], max_attempts=1)
    (host,) = inventory.hosts
    assert inventory.vars(host)[variable] == empty
    (warning,) = warnings
    assert warning == (
        f"mlcluster.aws.ec2_nodes: {name} is missing for 1 hosts of us-east-1: {operation} failed: "
        "AccessDenied: AccessDenied"
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("html-407", r"HTTP407: something that is not AWS answered with HTTP 407 \(Sign in first\); the proxy asks"),
        ("html-429", r"TooManyRequestsException: something that is not AWS answered with HTTP 429"),
        ("short", r"ResponseParserError: Unable to parse response"),
    ],
)
def test_foreign_answer_is_reported_with_status(play, load, warnings, code, words):
    play(Region(EAST, ONE, faults=(Fault("DescribeInstances", code),)), Region(WEST, ONE))
    inventory = load(regions=[EAST, WEST], max_attempts=2)
    assert [inventory.vars(host)["ec2_region"] for host in inventory.hosts] == [WEST]
    (warning,) = warnings
    assert re.search(words, warning)


@pytest.mark.parametrize("code", ["html-429", "short"])
def test_single_foreign_answer_is_retried(play, load, warnings, code):
    endpoint = play(Region(EAST, ONE, faults=(Fault("DescribeInstances", code, times=1),)))
    assert len(load(regions=EAST).hosts) == 1
    assert endpoint.count("DescribeInstances") == 2
    assert warnings == []


def test_one_denied_role_is_warning_and_others_stay(play, load, warnings):
    play(Region(EAST, ONE), roles=(Role(ROLE, "111122223333"),))
    inventory = load(regions=EAST, assume_role_arn=[ROLE, OTHER])
    assert len(inventory.hosts) == 1
    (warning,) = warnings
    assert re.search(rf"the role {OTHER} cannot be assumed: .*; its hosts are missing from the inventory", warning)
    with pytest.raises(AnsibleParserError, match=f"the role {OTHER} cannot be assumed"):
        load(regions=EAST, assume_role_arn=[ROLE, OTHER], strict_regions=True)
