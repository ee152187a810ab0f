# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Notices in the instance metadata that EC2 ends this instance: a spot interruption, or maintenance that stops it.

The metadata do not contain the end of a capacity block; the inventory knows it (``ec2_capacity``).
"""

from __future__ import annotations

import argparse
import calendar
import email.utils
import http.client
import json
import logging
import os
import sys
import time
import typing as t
import urllib.parse

from ..system.ask import whole_number
from ..system.host import Host, NodeError
from ..verdict import result

LOGGER = logging.getLogger("mlcluster")
# Amazon EC2 User Guide, "Use the Instance Metadata Service"; the variable is that of the AWS SDKs.
ENDPOINT = "http://169.254.169.254"
ENDPOINT_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
TOKEN_SECONDS = 300
TIMEOUT = 2.0
MAX_BYTES = 1 << 16
# "Spot Instance interruption notices" and "Scheduled events for your instances" of the same guide.
SPOT = "spot/instance-action"
SCHEDULED = "events/maintenance/scheduled"
# Notice period of a spot interruption (same guide): such an end is soon, whatever the clock shows.
SPOT_SECONDS = 120
# Codes of scheduled events that end running programs; system-maintenance may only slow them down.
ENDING = frozenset({"instance-reboot", "system-reboot", "instance-retirement", "instance-stop"})

Get = t.Callable[[str], t.Optional[str]]


class Notice(t.NamedTuple):
    """at: the end of the instance, in seconds since 1970; why: EC2's name of the event."""

    at: float
    why: str


def parse_spot(text: str) -> t.Optional[Notice]:
    """Parse spot/instance-action, {"action": "terminate", "time": "2026-12-01T08:22:00Z"}."""
    try:
        found = json.loads(text)
        at = calendar.timegm(time.strptime(found["time"], "%Y-%m-%dT%H:%M:%SZ"))
        return Notice(at, f"spot {found['action']}")
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def parse_scheduled(text: str) -> list[Notice]:
    """Parse events/maintenance/scheduled, a list with Code, State, NotBefore ("21 Jan 2026 09:00:43 GMT")."""
    try:
        events = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = []
    for event in events if isinstance(events, list) else []:
        if isinstance(event, dict) and event.get("Code") in ENDING and event.get("State") == "active":
            parts = email.utils.parsedate_tz(str(event.get("NotBefore")))
            if parts:
                found.append(Notice(email.utils.mktime_tz(parts), str(event["Code"])))
    return found


def first(get: Get) -> t.Optional[Notice]:
    """Return the earliest notice, None without one. Raises ``NodeError`` if the metadata do not answer."""
    spot = get(SPOT)
    notices = parse_scheduled(get(SCHEDULED) or "")
    notices += [found] if spot and (found := parse_spot(spot)) else []
    return min(notices, default=None)


def metadata(endpoint: str) -> Get:
    """Return get(path), which returns a metadata text, None if it does not exist, and else raises ``NodeError``.

    Uses no proxy: the address is the hypervisor's. Raises ``NodeError`` for an invalid endpoint.
    """
    parts = urllib.parse.urlsplit(endpoint)
    if parts.scheme != "http" or not parts.hostname:
        raise NodeError(f"{ENDPOINT_VARIABLE} is {endpoint!r}: use http://ADDRESS, or leave it out")
    address, port = parts.hostname, parts.port

    def ask(method: str, path: str, headers: t.Mapping[str, str]) -> t.Optional[str]:
        connection = http.client.HTTPConnection(address, port, timeout=TIMEOUT)
        try:
            connection.request(method, f"/latest/{path}", headers=dict(headers))
            answer = connection.getresponse()
            text = answer.read(MAX_BYTES).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as exc:
            raise NodeError(f"the instance metadata at {endpoint} do not answer ({exc})") from exc
        finally:
            connection.close()
        if answer.status not in (200, 404):
            raise NodeError(f"the instance metadata answered {answer.status} for {path}")
        return text if answer.status == 200 else None

    def get(path: str) -> t.Optional[str]:
        token = ask("PUT", "api/token", {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)})
        return ask("GET", f"meta-data/{path}", {"X-aws-ec2-metadata-token": token or ""})

    return get


def add_verbs(subparsers: t.Any) -> None:
    """Register the verb with the mlcluster command."""
    verb = subparsers.add_parser(
        "instance-notice", help="check whether EC2 is going to end this instance soon; exit 1 if so"
    )
    verb.add_argument(
        "--before", type=whole_number(0, 86400 * 14), default=3600, help="how many seconds count as soon (%(default)s)"
    )
    verb.add_argument("--every", type=whole_number(0, 3600), default=0, help="repeat after so many seconds, until then")
    verb.set_defaults(handler=watch)


def _seconds_left(notice: Notice) -> float:
    """Return the seconds until the instance ends, by this node's clock; for spot at most EC2's notice period."""
    left = notice.at - time.time()
    return min(left, SPOT_SECONDS) if notice.why.startswith("spot ") else left


def watch(args: argparse.Namespace, host: t.Optional[Host] = None, get: t.Optional[Get] = None) -> int:
    """Print EC2's notice. Exit 0: none; 1: an end within --before; 2: no metadata, so this is not an EC2 instance."""
    host = host or Host()
    asked = False
    try:
        get = get or metadata(os.environ.get(ENDPOINT_VARIABLE) or ENDPOINT)
    except NodeError as exc:
        LOGGER.error("instance-notice: %s", exc)
        return result.EXIT_USAGE
    while True:
        try:
            notice = first(get)
            asked = True
        except NodeError as exc:
            # After a first answer, missing answers are only delays.
            if not asked:
                LOGGER.error("instance-notice: %s", exc)
                return result.EXIT_UNDETERMINABLE
            notice = None
        if notice and _seconds_left(notice) <= args.before:
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(notice.at))
            LOGGER.warning("instance-notice: %s at %s", notice.why, at)
            sys.stdout.write(f"{notice.why} at {at}\n")
            sys.stdout.flush()
            return result.EXIT_FAIL
        if not args.every:
            return result.EXIT_OK
        host.sleep(args.every)
