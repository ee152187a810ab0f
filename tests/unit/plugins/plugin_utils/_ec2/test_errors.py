# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.errors import before_parse

PAGE = b"<html><head><title>Sign in &lt;first&gt;</title></head></html>"
AWS = b"<Response><Errors><Error><Code>AuthFailure</Code><Message>no</Message></Error></Errors></Response>"


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(407, "HTTP407", "HTTPS_PROXY"), (403, "HTTP403", "HTTP 403"), (429, "TooManyRequestsException", "HTTP 429")],
)
def test_proxy_page_becomes_named_error(status, code, words):
    answer = {"status_code": status, "body": PAGE}
    before_parse(answer, operation_model=None)
    body = answer["body"].decode()
    assert f"<Code>{code}</Code>" in body and words in body and "something that is not AWS" in body
    assert "<title>" not in body


@pytest.mark.parametrize(
    "answer",
    [
        {"status_code": 401, "body": AWS},
        {"status_code": 200, "body": PAGE},
        {"status_code": 503, "body": PAGE},
        {"status_code": 404, "body": None},
    ],
)
def test_answers_and_errors_of_aws_are_left_unchanged(answer):
    before = dict(answer)
    before_parse(answer)
    assert answer == before
