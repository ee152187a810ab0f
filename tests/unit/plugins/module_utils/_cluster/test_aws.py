# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of AWS as one sentence, with the next step."""

from __future__ import annotations

import botocore.exceptions
import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._cluster import aws

URL = "https://ec2.us-easst-1.invalid"


@pytest.mark.parametrize(
    ("error", "start", "hint"),
    [
        (botocore.exceptions.EndpointConnectionError(endpoint_url=URL), "Could not connect", aws.UNREACHABLE),
        (botocore.exceptions.ConnectTimeoutError(endpoint_url=URL), "Connect timeout", aws.UNREACHABLE),
        (botocore.exceptions.NoCredentialsError(), "Unable to locate", "set AWS_PROFILE, or log in"),
        (
            botocore.exceptions.ProfileNotFound(profile="lab"),
            "The config profile (lab)",
            "correct AWS_PROFILE or the option profile, or run aws configure",
        ),
        (
            botocore.exceptions.ClientError({"Error": {"Code": "ExpiredToken", "Message": "old."}}, "X"),
            "old",
            "log in again",
        ),
    ],
    ids=["endpoint", "time limit", "keys", "profile", "token"],
)
def test_error_names_next_step(error, start, hint):
    with pytest.raises(aws.AwsError) as caught, aws.doing("looking at the network n1"):
        raise error
    assert f": {start}" in str(caught.value) and str(caught.value).endswith(f"({hint})")
    assert str(caught.value).startswith("looking at the network n1 failed: ")


def test_error_without_next_step_has_none():
    assert aws.reason(botocore.exceptions.NoRegionError()).startswith("NoRegionError: You must specify a region")
    assert not aws.reason(botocore.exceptions.NoRegionError()).endswith(")")
