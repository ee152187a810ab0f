# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wire format: XML of nested values, errors and responses."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
STS_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"
# Readers normalize plain carriage returns and newlines.
CONTROL = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}


def identifier(prefix: str, *parts: Any, digits: int = 17) -> str:
    """Return an id in AWS's format, the same for the same parts."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:digits]
    return f"{prefix}{digest}"


def xml(value: Any) -> str:
    """Return the elements of a mapping, the items of a list, or the text of a scalar; None members are left out."""
    if isinstance(value, dict):
        return "".join(_element(name, content) for name, content in value.items() if content is not None)
    if isinstance(value, (list, tuple)):
        return "".join(_element("item", content) for content in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return escape(str(value), CONTROL)


def _element(name: str, content: Any) -> str:
    inner = xml(content)
    return f"<{name}>{inner}</{name}>" if inner else f"<{name}/>"


@dataclass(frozen=True)
class Answer:
    """An HTTP response."""

    body: bytes
    status: int = 200
    kind: str = "text/xml;charset=UTF-8"


class ApiError(Exception):
    """An error of the API: AWS's ``code`` and ``message``, and the HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


def ec2(action: str, members: str) -> Answer:
    """Return a response of EC2's query API; ``members`` is XML."""
    request = identifier("", action, digits=32)
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{action}Response xmlns="{NAMESPACE}">'
    return Answer(f"{text}<requestId>{request}</requestId>{members}</{action}Response>".encode())


def sts(action: str, members: dict[str, Any]) -> Answer:
    """Return a response of STS."""
    body = {f"{action}Result": members, "ResponseMetadata": {"RequestId": identifier("", action, digits=32)}}
    return Answer(f'<{action}Response xmlns="{STS_NAMESPACE}">{xml(body)}</{action}Response>'.encode(), kind="text/xml")


def as_json(members: dict[str, Any]) -> Answer:
    """Return a response of a JSON service."""
    return Answer(json.dumps(members).encode(), kind="application/x-amz-json-1.1")


def error(service: str, problem: ApiError) -> Answer:
    """Return the error response for ``problem`` in the format of the service."""
    if service in ("ssm", "dynamodb"):
        body = json.dumps({"__type": f"com.amazonaws.{service}#{problem.code}", "message": problem.message})
        return Answer(body.encode(), problem.status, "application/x-amz-json-1.1")
    members = {"Code": problem.code, "Message": problem.message}
    request = identifier("", problem.code, digits=32)
    if service == "sts":
        text = xml({"Error": {"Type": "Sender", **members}, "RequestId": request})
        return Answer(f'<ErrorResponse xmlns="{STS_NAMESPACE}">{text}</ErrorResponse>'.encode(), problem.status)
    text = xml({"Response": {"Errors": {"Error": members}, "RequestID": request}})
    return Answer(f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode(), problem.status)
