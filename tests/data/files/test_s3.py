# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to S3 without valid credentials; the requests themselves are tested by test_backup.py."""

from __future__ import annotations

import boto3
import botocore.exceptions
import pytest
from mlcluster_data.files import s3

ADVICE = "; set AWS_PROFILE or log in, or run this on an instance with an IAM role"


@pytest.fixture
def without_credentials(monkeypatch, tmp_path):
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    # The session that boto3 keeps has the credentials of an earlier test.
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.mark.parametrize(
    ("request_of", "verb"),
    [
        (lambda prefix: prefix.get("x"), "read"),
        (lambda prefix: prefix.list(), "listed"),
        (lambda prefix: prefix.put("x", b""), "written"),
    ],
)
def test_missing_credentials_are_reported_with_advice(without_credentials, request_of, verb):
    with pytest.raises(s3.S3Error) as caught:
        request_of(s3.Prefix("s3://bucket/a"))
    assert str(caught.value).endswith(f" could not be {verb}: Unable to locate credentials{ADVICE}")


def test_missing_profile_is_reported_with_advice(without_credentials, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "nope")
    with pytest.raises(s3.S3Error) as caught:
        s3.Prefix("s3://bucket/a")
    assert str(caught.value) == (
        f"s3://bucket/a cannot be reached: The config profile (nope) could not be found{ADVICE}"
    )


@pytest.mark.parametrize(("code", "advice"), [("ExpiredToken", ADVICE), ("AccessDenied", "")])
def test_rejected_credentials_get_advice(code, advice):
    error = botocore.exceptions.ClientError({"Error": {"Code": code, "Message": "no"}}, "GetObject")
    assert s3._reason(error) == f"{error}{advice}"
