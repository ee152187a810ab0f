# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Serves a folder over HTTP as a mirror and logs the requests; it needs the standard library only.

    python3 server.py FOLDER [PORT] [LOG]

A path below /truncated/ announces the whole file of the rest of the path, and ends in its middle.
"""

from __future__ import annotations

import http.server
import sys
from pathlib import Path

TRUNCATED = "/truncated"


class Mirror(http.server.ThreadingHTTPServer):
    """Serves ``folder`` on 127.0.0.1; each request is a line in ``log``."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int = 0, log: Path | None = None) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.folder = folder.resolve()
        self.log = log

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Handles a request."""

    server: Mirror

    def do_GET(self) -> None:
        """Answer with the file, with half of it, or with 404."""
        cut = self.path.startswith(f"{TRUNCATED}/")
        path = (self.server.folder / self.path.removeprefix(TRUNCATED).lstrip("/")).resolve()
        if not path.is_relative_to(self.server.folder) or not path.is_file():
            self.send_error(404)
            return
        data = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log the request with its result."""
        if self.server.log:
            with self.server.log.open("a", encoding="utf-8") as handle:
                handle.write(f"{self.command} {self.path} {int(code)}\n")

    def log_error(self, *args: object) -> None:
        """Print nothing: errors are in the log of requests."""


if __name__ == "__main__":
    given = sys.argv[1:]
    mirror = Mirror(Path(given[0]), int(given[1]) if given[1:] else 8080, Path(given[2]) if given[2:] else None)
    print(f"mirror of {mirror.folder} on {mirror.url}", flush=True)
    mirror.serve_forever()
