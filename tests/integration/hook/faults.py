# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTTP proxy with faults on request, in front of a local S3; it also stands in for instance metadata."""

from __future__ import annotations

import http.client
import re
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

ERROR = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'


@dataclass(frozen=True)
class Request:
    """A request: ``path`` without the query, ``region`` of the signature, expected bucket ``owner`` (or empty)."""

    method: str
    path: str
    node: str
    region: str
    owner: str


@dataclass
class Answer:
    """A response. ``cut`` sends only half of the body; ``hang`` sends nothing until the proxy is closed.

    ``slow``: the end of the body comes in this many pieces, one a second, so that a timeout between two pieces does
    not end the download.
    """

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False
    slow: int = 0


# A fault takes a request and returns a response, or None to pass the request on.
Fault = Callable[[Request], "Answer | None"]


def error(status: int, code: str, message: str = "", **headers: str) -> Answer:
    """Return an error response in S3's format."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    body = ERROR.format(code=code, message=message or code).encode()
    return Answer(status, body, {"Content-Type": "application/xml", **names})


def times(count: int, answer: Answer, path: str = "") -> Fault:
    """Return a fault that answers the first ``count`` requests with ``path`` in their path."""
    lock, left = threading.Lock(), [count]

    def fault(request: Request) -> Answer | None:
        with lock:
            if path in request.path and left[0] > 0:
                left[0] -= 1
                return answer
        return None

    return fault


class Proxy:
    """The proxy: ``url`` replaces the endpoint's; ``requests`` records requests; ``faults`` are tried in order.

    ``certificate``: a file with key and certificate, for https.
    """

    def __init__(self, upstream: str, certificate: Path | None = None) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                proxy.answer(self)

            do_GET = do_HEAD = do_PUT = do_POST = handle_any  # noqa: N815

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            # Fifty nodes connect at once.
            request_queue_size = 128

            def handle_error(self, *args: object) -> None:
                """Ignore connections that a killed client has broken."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.server.server_port}"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            # The thread that answers does the handshake.
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the proxy and all hanging responses."""
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    def paths(self) -> list[str]:
        """Return the requested paths, in order."""
        return [request.path for request in self.requests]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer a request by a fault or else by the endpoint."""
        length = int(handler.headers.get("Content-Length") or 0)
        payload = handler.rfile.read(length) if length else b""
        parts = urlsplit(handler.path)
        scope = re.search(r"Credential=[^/]+/\d+/([^/]+)/", handler.headers.get("Authorization", ""))
        request = Request(
            handler.command,
            parts.path,
            parse_qs(parts.query).get("node", [""])[0],
            scope[1] if scope else "",
            handler.headers.get("x-amz-expected-bucket-owner", ""),
        )
        with self._lock:
            self.requests.append(request)
            found = next((answer for fault in self.faults if (answer := fault(request)) is not None), None)
        if found is not None and (found.cut or found.slow):
            whole = self._forward(handler, payload)
            found = Answer(whole.status, whole.body, whole.headers, cut=found.cut, slow=found.slow)
        self._send(handler, found or self._forward(handler, payload))

    def _forward(self, handler: BaseHTTPRequestHandler, payload: bytes) -> Answer:
        parts = urlsplit(handler.path)
        connection = http.client.HTTPConnection(self.upstream, timeout=600)
        try:
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            headers = {name: value for name, value in handler.headers.items() if name.lower() != "proxy-connection"}
            headers["Host"] = self.upstream
            connection.request(handler.command, target, body=payload, headers=headers)
            reply = connection.getresponse()
            kept = {n: v for n, v in reply.getheaders() if n.lower() not in ("transfer-encoding", "connection", "date")}
            return Answer(reply.status, reply.read(), kept)
        finally:
            connection.close()

    def _send(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        if answer.hang:
            self.closing.wait()
            handler.close_connection = True
            return
        handler.send_response(answer.status)
        length = answer.headers.get("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            if name.lower() != "content-length":
                handler.send_header(name, value)
        handler.send_header("Content-Length", length)
        handler.end_headers()
        if handler.command != "HEAD":
            whole = len(answer.body) // 2 if answer.cut else len(answer.body)
            handler.wfile.write(answer.body[: whole - answer.slow])
            for place in range(whole - answer.slow, whole):
                self.closing.wait(1)
                handler.wfile.write(answer.body[place : place + 1])
        if answer.cut:
            handler.close_connection = True
