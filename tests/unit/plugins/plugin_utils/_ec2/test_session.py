# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import botocore.exceptions
import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import session

DENIED = (
    "You are not authorized to perform this operation. User: arn:aws:iam::111122223333:user/me is not authorized to "
    "perform: ec2:DescribeInstances. Encoded authorization failure message: "
)


def error(code, message="no", operation="DescribeInstances"):
    return botocore.exceptions.ClientError({"Error": {"Code": code, "Message": message}}, operation)


@pytest.mark.parametrize("name", ["us-east-1", "us-gov-west-1", "ap-southeast-12", "eusc-de-east-1"])
def test_valid_region_name_is_returned(name):
    assert session.check_region(name) == name


@pytest.mark.parametrize("name", ["", "us-east-1a", "us-east-1.evil.example", "us-east-1/", "US-EAST-1", "us-east-1\n"])
def test_region_name_of_other_host_is_rejected(name):
    with pytest.raises(session.AccessError, match="is not the name of a region; names look like us-east-1"):
        session.check_region(name)


def test_reason_of_denied_call_leaves_encoded_part_out():
    line = session.reason(error("UnauthorizedOperation", DENIED + "x" * 3000))
    assert line == f"UnauthorizedOperation: {DENIED.partition(' Encoded')[0]}"


@pytest.mark.parametrize("code", sorted(session.HINTS))
def test_reason_has_hint_if_known(code):
    assert session.reason(error(code, "no\n  more")) == f"{code}: no more ({session.HINTS[code]})"


def test_unreachable_endpoint_has_hint():
    line = session.reason(botocore.exceptions.EndpointConnectionError(endpoint_url="https://ec2.us-easst-1.invalid"))
    assert line.endswith(
        '"https://ec2.us-easst-1.invalid" (check the name of the region, and the way to it: '
        "DNS, route, proxy or a VPC endpoint)"
    )


def test_reason_is_one_line_of_bounded_length():
    line = session.reason(ValueError("a\nb" * 500))
    assert line.startswith("ValueError: a ba b") and len(line) == session.LONGEST_REASON + 1
    assert len(session.reason(error("X", "y" * 9999))) == len("X: ") + session.LONGEST_MESSAGE + 1


@pytest.mark.parametrize(
    ("given", "code", "is_permanent"),
    [
        (error("AccessDenied"), "AccessDenied", True),
        (error("UnauthorizedOperation"), "UnauthorizedOperation", True),
        (error("RequestLimitExceeded"), "RequestLimitExceeded", False),
        (botocore.exceptions.NoCredentialsError(), None, False),
        (ValueError("AccessDenied"), None, False),
    ],
)
def test_only_denial_is_permanent(given, code, is_permanent):
    assert (session.code(given), session.is_permanent(given)) == (code, is_permanent)


@pytest.mark.parametrize(
    ("arn", "sound"),
    [
        ("arn:aws:iam::111122223333:role/a/b", True),
        ("arn:aws-us-gov:iam::111122223333:role/x", True),
        ("arn:aws:iam::111122223333:user/x", False),
        ("arn:aws:iam::1111:role/x", False),
        ("role/x", False),
    ],
)
def test_arn_of_role(arn, sound):
    assert bool(session.ROLE.fullmatch(arn)) is sound


def test_keys_of_role_are_not_in_repr():
    keys = {"aws_secret_access_key": "not-a-secret"}
    assert "not-a-secret" not in repr(session.Credentials("role", keys))


@pytest.fixture
def aws(monkeypatch, tmp_path):
    """Return a function that makes a session of stub keys, without requests."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASTUB")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return lambda **access: session.Aws(session.Access(**access))


def test_missing_profile_is_named(aws):
    with pytest.raises(session.AccessError, match="the AWS profile 'lab' does not exist; known are none"):
        aws(profile="lab")


@pytest.fixture
def two_profiles(aws, monkeypatch, tmp_path):
    """aws() with AWS CLI files of two profiles, the second with a session token."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (tmp_path / "AWS_SHARED_CREDENTIALS_FILE").write_text(
        "[one]\naws_access_key_id = A1\naws_secret_access_key = s1\n"
        "[two]\naws_access_key_id = A2\naws_secret_access_key = s2\naws_session_token = t2\n",
        encoding="utf-8",
    )
    (tmp_path / "AWS_CONFIG_FILE").write_text("[profile one]\nregion = eu-west-1\n", encoding="utf-8")
    return aws


def test_several_profiles_give_keys_of_each(two_profiles):
    made = two_profiles(profiles=("one", "two"))
    found, refused = made.credentials()
    assert [one.label for one in found] == ["profile one", "profile two"] and refused == []
    assert [one.keys["aws_access_key_id"] for one in found] == ["A1", "A2"]
    assert ["aws_session_token" in one.keys for one in found] == [False, True]
    assert made.regions([], found[1]) == ["eu-west-1"]


def test_denied_profile_leaves_others(two_profiles):
    found, refused = two_profiles(profiles=("lab", "two")).credentials()
    assert [one.label for one in found] == ["profile two"]
    assert [(str(one), one.is_permanent) for one in refused] == [
        (
            (
                "the AWS profile 'lab' does not exist; known are one, two; correct AWS_PROFILE or the option profile, "
                "or run aws configure"
            ),
            True,
        )
    ]
    with pytest.raises(session.AccessError, match="the AWS profile 'lab' does not exist"):
        two_profiles(profiles=("lab", "bal"))


def test_session_without_credentials_is_rejected(aws, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(session.AccessError, match="no AWS credentials were found in the standard chain"):
        aws()


def test_regions_to_ask_follow_option(aws, monkeypatch):
    made = aws(region="us-east-1")
    none = session.Credentials()
    assert made.regions(["us-west-2", "eu-west-1", "us-west-2"], none) == ["us-west-2", "eu-west-1"]
    assert made.regions([], none) == ["us-east-1"]
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    assert aws().regions([], none) == ["eu-central-1"]
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(session.AccessError, match="no region is known from AWS_REGION"):
        aws().regions([], none)


class Sts:
    """STS that denies the roles named "no"."""

    def assume_role(self, **request):
        assert set(request) == {"RoleArn", "RoleSessionName"} and request["RoleSessionName"] == "mlcluster-ec2-nodes"
        if request["RoleArn"].endswith("/no"):
            raise error("AccessDenied", "not you", "AssumeRole")
        return {"Credentials": {"AccessKeyId": "A", "SecretAccessKey": "s", "SessionToken": "t"}}


def test_denied_role_is_skipped_if_another_works(aws, monkeypatch):
    monkeypatch.setattr(session.Aws, "client", lambda self, service, region, credentials: Sts())
    yes, no = (f"arn:aws:iam::111122223333:role/{name}" for name in ("yes", "no"))
    found, refused = aws(roles=(no, yes)).credentials()
    assert [one.label for one in found] == [yes] and found[0].keys["aws_session_token"] == "t"
    assert [(str(one), one.is_permanent) for one in refused] == [
        (f"the role {no} cannot be assumed: AccessDenied: not you", True)
    ]
    with pytest.raises(session.RoleError, match="cannot be assumed"):
        aws(roles=(no,)).credentials()
    assert aws().credentials() == ([session.Credentials()], [])
