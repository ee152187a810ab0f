# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP side: which service, account and region a request means, faults, counting, answering."""

from __future__ import annotations

import dataclasses
import json
import re
import threading
import time
import urllib.parse
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Optional

from . import services
from .hosts import Host, expand
from .operations import OPERATIONS, Regional
from .query import page_number
from .scenario import Fault, Region, Scenario
from .wire import Answer, ApiError, error

SCOPE = re.compile(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/")
STATUS = {
    "RequestLimitExceeded": 503,
    "UnauthorizedOperation": 403,
    "AuthFailure": 401,
    "OptInRequired": 401,
    "InternalError": 500,
    "Unavailable": 503,
    "ThrottlingException": 400,
    "AccessDeniedException": 400,
    "AccessDenied": 403,
}
MESSAGES = {
    "RequestLimitExceeded": "Request limit exceeded.",
    "UnauthorizedOperation": "You are not authorized to perform this operation.",
    "AuthFailure": "AWS was not able to validate the provided access credentials",
    "OptInRequired": "You are not subscribed to this service. Please go to http://aws.amazon.com to subscribe.",
    "InternalError": "An internal error has occurred",
}


class Call(NamedTuple):
    """One request as it was understood."""

    service: str
    operation: str
    region: str
    account: str
    parameters: dict[str, Any]


class DropError(Exception):
    """Close the connection: without an answer, or in the middle of ``answer``."""

    def __init__(self, answer: Optional[Answer] = None) -> None:
        super().__init__()
        self.answer = answer


class State:
    """Everything that requests share; safe for several threads."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.calls: list[Call] = []
        self.keys = dict(scenario.accounts)
        self.lock = threading.Lock()
        self._left = {id(fault): fault.times for region in scenario.regions for fault in region.faults}
        self._hosts = {region.name: expand(region) for region in scenario.regions}
        self._regional: dict[tuple[str, str], Regional] = {}

    def hosts(self, region: str, account: str) -> list[Host]:
        """Return the instances that an account sees in a region."""
        return [host for host in self._hosts.get(region, ()) if host.fleet.account == account]

    def regional(self, region: Region, account: str) -> Regional:
        """Return the EC2 of one region for one account."""
        key = (region.name, account)
        if key not in self._regional:
            self._regional[key] = Regional(self.scenario, region, self.hosts(*key))
        return self._regional[key]

    def fault(self, call: Call) -> Optional[Fault]:
        """Return the fault that strikes this call; one with ``times`` is used up by it."""
        region = self.scenario.region(call.region)
        for fault in region.faults if region else ():
            if fault.operation not in ("*", call.operation) or fault.account not in ("", call.account):
                continue
            if fault.page is not None and fault.page != page_number(call.parameters):
                continue
            left = self._left[id(fault)]
            if left is None or left > 0:
                self._left[id(fault)] = None if left is None else left - 1
                return fault
        return None

    def answer(self, call: Call, key: str) -> Answer:
        """Return the answer to a call. Raises ApiError, or DropError for a connection that breaks."""
        with self.lock:
            account = self.keys.get(key, "")
            self.calls.append(call._replace(account=account))
            fault = self.fault(self.calls[-1])
        region = self.scenario.region(call.region)
        if region and region.latency_ms:
            time.sleep(region.latency_ms / 1000)
        if fault and fault.code == "drop":
            raise DropError()
        if fault and fault.code.startswith("html-"):
            page = "<html><head><title>Sign in first</title></head><body><hr>proxy.example</body></html>"
            return Answer(page.encode(), int(fault.code[5:]), "text/html")
        if fault and fault.code not in ("cut", "short"):
            text = fault.message or MESSAGES.get(fault.code, fault.code)
            raise ApiError(fault.code, text, STATUS.get(fault.code, 400))
        with self.lock:
            result = self._dispatch(call._replace(account=account), region)
        if fault and fault.code == "short":
            return dataclasses.replace(result, body=result.body[: len(result.body) // 2])
        if fault:
            raise DropError(result)
        return result

    def _dispatch(self, call: Call, region: Optional[Region]) -> Answer:
        if not call.account:
            refusals = {"ec2": ("AuthFailure", 401), "sts": ("InvalidClientTokenId", 403)}
            code, status = refusals.get(call.service, ("UnrecognizedClientException", 400))
            raise ApiError(code, "The security token included in the request is invalid", status)
        if call.service == "sts":
            return services.sts_operation(self.scenario, self.keys, call.account, call.operation, call.parameters)
        if region is None or region.opt_in == "not-opted-in":
            raise ApiError("AuthFailure", MESSAGES["AuthFailure"], 401)
        if call.service == "ssm":
            return services.ssm_operation(self.hosts(region.name, call.account), call.operation, call.parameters)
        if call.service == "dynamodb":
            seen = self.hosts(region.name, call.account)
            return services.dynamodb_operation(self.scenario, seen, call.operation, call.parameters)
        if call.operation not in OPERATIONS:
            raise ApiError("InvalidAction", f"The action {call.operation} is not valid for this web service.")
        return OPERATIONS[call.operation](self.regional(region, call.account), call.parameters)


class Handler(BaseHTTPRequestHandler):
    """One connection; ``state`` is set by the endpoint."""

    protocol_version = "HTTP/1.1"
    # Without it the answer's two small writes wait for an acknowledgement.
    disable_nagle_algorithm = True
    state: State

    def log_message(self, *_words: Any) -> None:
        """Requests are counted, not logged."""

    def send(self, answer: Answer, whole: bool = True) -> None:
        """Write an answer, or half of it."""
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body if whole else answer.body[: len(answer.body) // 2])

    def do_PUT(self) -> None:
        """The token of the metadata service."""
        self.send(services.metadata_token(self.path, self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")))

    def do_GET(self) -> None:
        """The metadata service, and what was counted."""
        if self.path == "/_rig/calls":
            with self.state.lock:
                counted = Counter(f"{call.operation}@{call.region}" for call in self.state.calls)
            self.send(Answer(json.dumps(counted).encode(), kind="application/json"))
        else:
            token = self.headers.get("X-aws-ec2-metadata-token")
            self.send(services.metadata(self.state.scenario, self.path, token))

    def read(self) -> tuple[Call, str]:
        """Return the call in a request and the access key id that it is signed with."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        scope = SCOPE.search(self.headers.get("Authorization", ""))
        key, region, service = scope.groups() if scope else ("", "", "")
        target = self.headers.get("X-Amz-Target", "")
        if target:
            return Call(service, target.rsplit(".", 1)[-1], region, "", json.loads(body or b"{}")), key
        asked = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
        return Call(service, asked.pop("Action", ""), region, "", asked), key

    def do_POST(self) -> None:
        """One call of the API."""
        call, key = self.read()
        try:
            self.send(self.state.answer(call, key))
        except ApiError as problem:
            self.send(error(call.service, problem))
        except DropError as drop:
            if drop.answer:
                self.send(drop.answer, whole=False)
            self.close_connection = True
        except ConnectionError:
            # The client did not wait for a slow answer.
            self.close_connection = True


class Endpoint:
    """A running endpoint; a context manager.

    ``url`` answers all services. ``calls`` is every request so far, ``count`` counts them.
    """

    def __init__(self, scenario: Scenario, port: int = 0) -> None:
        self.state = State(scenario)
        handler = type("BoundHandler", (Handler,), {"state": self.state})
        self.server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    @property
    def calls(self) -> list[Call]:
        with self.state.lock:
            return list(self.state.calls)

    def count(self, operation: str = "", region: str = "") -> int:
        """Return how many calls there were, of one operation and in one region if they are given."""
        return sum(operation in ("", c.operation) and region in ("", c.region) for c in self.calls)

    def hosts(self, region: str = "us-east-1") -> list[Host]:
        """Return the instances of a region, for a test to compare with."""
        return self.state._hosts[region]

    def prepare(self) -> None:
        """Make the shapes of all instances now, so that answering costs no time later."""
        for region in self.state.scenario.regions:
            for host in self.hosts(region.name):
                host.xml()

    def environment(self, key: str = "AKIARIGMAIN") -> dict[str, str]:
        """Environment variables that make an AWS SDK use this endpoint and no file or other service of the user's."""
        return {
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": "not-a-secret",
            "AWS_ENDPOINT_URL": self.url,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.url,
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }
