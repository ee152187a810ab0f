# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Credentials, regions and clients: all uses of botocore before the first request."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.mlcluster.aws.plugins.module_utils._cluster.aws import UNREACHABLE

# DescribeRegions has the same answer everywhere; this endpoint exists in every account of the standard partition.
FALLBACK_REGION = "us-east-1"
REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d{1,2}")
LONGEST_REASON = 200
# Enough for the sentence of a denied call, which names user, action, resource and type of policy.
LONGEST_MESSAGE = 500
# Data for sts:DecodeAuthorizationMessage, much longer than the sentence before it.
_ENCODED = re.compile(r"\s*Encoded authorization failure message: \S+")
_NOT_ENABLED = "the keys may be wrong, or the region not enabled for this account"
_EXPIRED = "log in again; if that was just now, check the clock of this machine"
HINTS = {
    "AuthFailure": _NOT_ENABLED,
    "OptInRequired": _NOT_ENABLED,
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "RequestExpired": _EXPIRED,
    "EndpointConnectionError": UNREACHABLE,
    "ConnectTimeoutError": UNREACHABLE,
}
ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+")


class AccessError(Exception):
    """AWS cannot be queried at all; the message is one sentence with what to do."""


class RoleError(AccessError):
    """A denied role or one of several profiles; ``is_permanent``: a later request would be denied as well."""

    def __init__(self, text: str, is_permanent: bool) -> None:
        super().__init__(text)
        self.is_permanent = is_permanent


@dataclass(frozen=True)
class Access:
    """Access to AWS. ``roles`` empty: the profile's own credentials. ``profiles``: several profiles instead."""

    profile: str | None = None
    profiles: tuple[str, ...] = ()
    region: str | None = None
    roles: tuple[str, ...] = ()
    external_id: str | None = None
    session_name: str = "mlcluster-ec2-nodes"
    endpoint_url: str | None = None
    max_attempts: int = 5
    retry_mode: str = "standard"
    connect_timeout: int = 5
    read_timeout: int = 20


@dataclass(frozen=True)
class Credentials:
    """Keyword arguments for a client; empty for the credentials of the session. ``label`` names role or profile."""

    label: str = ""
    keys: dict[str, str] = field(default_factory=dict, repr=False)


def check_region(name: str) -> str:
    """Return the name. Raises AccessError for an invalid one, since it becomes part of a host name."""
    if not REGION.fullmatch(name):
        raise AccessError(f"regions: '{name}' is not the name of a region; names look like us-east-1")
    return name


def reason(error: Exception) -> str:
    """Return an error of botocore on one line: AWS's code and message if there are any, and what to do."""
    response = getattr(error, "response", None)
    if isinstance(response, dict) and "Error" in response:
        details = response["Error"]
        name, message = details.get("Code", "unknown"), " ".join(str(details.get("Message", "")).split())
        hint = HINTS.get(name)
        return f"{name}: {_short(_ENCODED.sub('', message), LONGEST_MESSAGE)}" + (f" ({hint})" if hint else "")
    # botocore quotes a truncated answer in full, up to a thousand instances.
    name = type(error).__name__
    hint = HINTS.get(name)
    return _short(f"{name}: {' '.join(str(error).split())}", LONGEST_REASON) + (f" ({hint})" if hint else "")


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


LASTING = ("AccessDenied", "AccessDeniedException", "AuthFailure", "OptInRequired", "UnauthorizedOperation")


def code(error: Exception) -> str | None:
    """Return the code of an AWS error, None for any other error."""
    response = getattr(error, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None


def is_permanent(error: Exception) -> bool:
    """Return whether a later request would be denied as well, so that the answer may be cached without it."""
    return code(error) in LASTING


class Aws:
    """One botocore session for everything, so that the service models are loaded once."""

    def __init__(self, access: Access) -> None:
        """Raises AccessError without botocore, with an unknown profile or without credentials."""
        try:
            import botocore.config
            import botocore.exceptions
            import botocore.parsers
            import botocore.session
        except ImportError as exc:
            raise AccessError(f"botocore is needed and cannot be imported ({exc}); install boto3") from exc

        self.errors: tuple[type[Exception], ...] = (
            botocore.exceptions.BotoCoreError,
            botocore.exceptions.ClientError,
            botocore.parsers.ResponseParserError,
        )
        self._access = access
        self._refused: list[RoleError] = []
        self._keys: list[Credentials] = []
        self._session = self._first_session()
        # As the AWS CLI does: keep times as strings.
        self._session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=lambda text: text)
        self._config = botocore.config.Config(
            retries={"mode": access.retry_mode, "total_max_attempts": access.max_attempts},
            connect_timeout=access.connect_timeout,
            read_timeout=access.read_timeout,
            user_agent_extra="mlcluster.aws.ec2_nodes",
        )

    def _first_session(self) -> Any:
        """Return the session; of several profiles the first that has credentials. Raises AccessError."""
        from botocore.session import Session

        if not self._access.profiles:
            session = Session(profile=self._access.profile)
            self._check_credentials(session, self._access.profile)
            return session
        first = None
        for profile in self._access.profiles:
            session = Session(profile=profile)
            try:
                self._check_credentials(session, profile)
                self._keys.append(self._of_profile(session, profile))
            except AccessError as exc:
                self._refused.append(exc if isinstance(exc, RoleError) else RoleError(str(exc), is_permanent=True))
                continue
            first = first or session
        if first is None:
            raise self._refused[0]
        return first

    def _of_profile(self, session: Any, profile: str) -> Credentials:
        """Return the current keys of a profile: they stay valid for a run of the inventory."""
        try:
            keys = session.get_credentials().get_frozen_credentials()
        except self.errors as exc:
            raise RoleError(
                f"the credentials of profile '{profile}' cannot be loaded: {reason(exc)}", is_permanent(exc)
            ) from exc
        given = {"aws_access_key_id": keys.access_key, "aws_secret_access_key": keys.secret_key}
        return Credentials(
            label=f"profile {profile}", keys={**given, **({"aws_session_token": keys.token} if keys.token else {})}
        )

    @staticmethod
    def _credential_source(profile: str | None) -> str:
        profile = profile or os.environ.get("AWS_PROFILE")
        return f"profile '{profile}'" if profile else "the standard chain (environment, files, instance role)"

    def _check_credentials(self, session: Any, profile: str | None) -> None:
        import botocore.exceptions

        try:
            found = session.get_credentials()
            # Keys in the environment hide a wrong AWS_PROFILE until another setting is read from it.
            session.get_scoped_config()
        except botocore.exceptions.ProfileNotFound as exc:
            raise AccessError(
                f"the AWS profile '{exc.kwargs['profile']}' does not exist; known are "
                f"{', '.join(sorted(self._profiles())) or 'none'}; correct AWS_PROFILE or the option profile, or run "
                "aws configure"
            ) from exc
        except botocore.exceptions.BotoCoreError as exc:
            raise AccessError(
                f"the credentials of {self._credential_source(profile)} cannot be loaded: {reason(exc)}"
            ) from exc
        if found is None:
            raise AccessError(
                f"no AWS credentials were found in {self._credential_source(profile)}; set AWS_PROFILE, log in, or set "
                "the option profile"
            )

    def _profiles(self) -> list[str]:
        import botocore.session

        return list(botocore.session.Session().available_profiles)

    def credentials(self) -> tuple[list[Credentials], list[RoleError]]:
        """Return credentials of each role or profile, or the session's own, and the refusals. Raises AccessError."""
        if self._access.profiles:
            return self._keys, self._refused
        if not self._access.roles:
            return [Credentials()], []
        sts = self.client("sts", self.default_region() or FALLBACK_REGION, Credentials())
        found, refused = [], []
        for role in self._access.roles:
            try:
                found.append(self._assume(sts, role))
            except RoleError as exc:
                refused.append(exc)
        if not found:
            raise refused[0]
        return found, refused

    def _assume(self, sts: Any, role: str) -> Credentials:
        request = {"RoleArn": role, "RoleSessionName": self._access.session_name}
        if self._access.external_id:
            request["ExternalId"] = self._access.external_id
        try:
            given = sts.assume_role(**request)["Credentials"]
        except self.errors as exc:
            raise RoleError(f"the role {role} cannot be assumed: {reason(exc)}", is_permanent(exc)) from exc
        return Credentials(
            label=role,
            keys={
                "aws_access_key_id": given["AccessKeyId"],
                "aws_secret_access_key": given["SecretAccessKey"],
                "aws_session_token": given["SessionToken"],
            },
        )

    def client(self, service: str, region: str, credentials: Credentials) -> Any:
        """Return a client; call it on one thread, since a session is not thread safe."""
        try:
            return self._session.create_client(
                service,
                region_name=region,
                endpoint_url=self._access.endpoint_url,
                config=self._config,
                **credentials.keys,
            )
        except ValueError as exc:
            raise AccessError(f"no {service} client for {region}: {exc}") from exc

    def on(self, event: str, handler: Any) -> None:
        """Register ``handler`` for an event of all clients made later."""
        self._session.register(event, handler)

    def default_region(self) -> str | None:
        """Return the region of the option, the environment or the profile."""
        return self._access.region or self._session.get_config_variable("region")

    def _instance_region(self) -> str | None:
        from botocore.utils import IMDSRegionProvider

        return IMDSRegionProvider(self._session).provide()

    def regions(self, wanted: list[str], credentials: Credentials) -> list[str]:
        """Return the regions to ask: as named, every enabled one for ``all``, else the default. Raises AccessError."""
        if "all" in wanted:
            return self._enabled_regions(credentials)
        if wanted:
            return [check_region(name) for name in dict.fromkeys(wanted)]
        region = self.default_region() or self._instance_region()
        if not region:
            raise AccessError(
                "no region is known from AWS_REGION, the AWS profile or the instance metadata; set the option regions"
            )
        return [check_region(region)]

    def _enabled_regions(self, credentials: Credentials) -> list[str]:
        client = self.client("ec2", self.default_region() or FALLBACK_REGION, credentials)
        try:
            answer = client.describe_regions()
        except self.errors as exc:
            raise AccessError(
                f"regions: all was requested, and DescribeRegions failed: {reason(exc)}; name the regions instead"
            ) from exc
        return sorted(check_region(region["RegionName"]) for region in answer["Regions"])

    def account(self, credentials: Credentials) -> str | None:
        """Return the account, None if STS does not report it."""
        try:
            sts = self.client("sts", self.default_region() or FALLBACK_REGION, credentials)
            return str(sts.get_caller_identity()["Account"])
        except AccessError:
            return None
        except self.errors:
            return None
