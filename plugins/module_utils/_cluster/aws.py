# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""AWS clients for the modules that run on the controller, with errors in one sentence."""

from __future__ import annotations

import contextlib
import typing as t

OPTIONS: dict[str, dict[str, t.Any]] = {
    "region": {"type": "str", "required": True},
    "profile": {"type": "str"},
    "endpoint_url": {"type": "str"},
}
USER_AGENT = "mlcluster.aws"
ATTEMPTS = 8
UNREACHABLE = "check the name of the region, and the way to it: DNS, route, proxy or a VPC endpoint"
# By AWS's code of an error, or by botocore's class of one without a code.
HINTS = {
    "AuthFailure": "the keys may be wrong, or the region not enabled for this account",
    "ExpiredToken": "log in again",
    "ExpiredTokenException": "log in again",
    "UnauthorizedOperation": "docs/iam has the policy that the playbook needs",
    "AccessDenied": "docs/iam has the policy that the playbook needs",
    "AccessDeniedException": "docs/iam has the policy that the playbook needs",
    "EndpointConnectionError": UNREACHABLE,
    "ConnectTimeoutError": UNREACHABLE,
    "NoCredentialsError": "set AWS_PROFILE, or log in",
    "ProfileNotFound": "correct AWS_PROFILE or the option profile, or run aws configure",
}


class AwsError(Exception):
    """AWS could not be asked, or denied the request; the message is one sentence."""


def code(error: BaseException) -> str:
    """Return the code of an AWS error, empty for any other error."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def reason(error: BaseException) -> str:
    """Return an error of botocore on one line: AWS's code and message if there are any, and what to do."""
    name = code(error)
    if not name:
        kind = type(error).__name__
        hint = HINTS.get(kind)
        return f"{kind}: {' '.join(str(error).split())}" + (f" ({hint})" if hint else "")
    response = t.cast("dict[str, t.Any]", getattr(error, "response"))  # noqa: B009
    message = " ".join(str(response["Error"].get("Message", "")).split()).rstrip(".")
    hint = HINTS.get(name)
    return f"{name}: {message}" + (f" ({hint})" if hint else "")


@contextlib.contextmanager
def doing(what: str) -> t.Iterator[None]:
    """Turn botocore's errors into AwsError; ``what`` names the attempt."""
    import botocore.exceptions

    try:
        yield
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as exc:
        raise AwsError(f"{what} failed: {reason(exc)}") from exc


def client(params: t.Mapping[str, t.Any], service: str, connections: int = 10) -> t.Any:
    """Return a client of ``service``. Raises AwsError without boto3, or for a missing profile."""
    try:
        import boto3
        import botocore.config
        import botocore.exceptions
    except ImportError as exc:
        raise AwsError(
            f"boto3 is needed where the playbook runs and cannot be imported ({exc}); install boto3"
        ) from exc
    config = botocore.config.Config(
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=connections,
        user_agent_extra=USER_AGENT,
    )
    try:
        session = boto3.session.Session(profile_name=params.get("profile"), region_name=params["region"])
        return session.client(service, endpoint_url=params.get("endpoint_url"), config=config)
    except (botocore.exceptions.BotoCoreError, ValueError) as exc:
        raise AwsError(f"no {service} client for {params['region']}: {reason(exc)}") from exc


def pages(operation: t.Callable[..., dict[str, t.Any]], key: str, **request: t.Any) -> list[dict[str, t.Any]]:
    """Return all entries under ``key`` of an operation that pages with NextToken."""
    found: list[dict[str, t.Any]] = []
    while True:
        answer = operation(**request)
        found.extend(answer.get(key, []))
        token = answer.get("NextToken")
        if not token:
            return found
        request["NextToken"] = token


def tags_of(entry: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return the tags of an entry as a mapping."""
    return {tag["Key"]: tag["Value"] for tag in entry.get("Tags") or []}
