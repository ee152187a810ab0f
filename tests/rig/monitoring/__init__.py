# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real engines on 127.0.0.1: node_exporter, Prometheus with the rules, Alertmanager, and a webhook for alerts."""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import socket
import subprocess
import threading
import time
import typing as t
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "playbooks/files/monitoring/mlcluster.rules.yml"
# Limit in seconds, longer than any response takes on a busy machine.
LIMIT = 60.0


class Webhook(http.server.ThreadingHTTPServer):
    """Receives alerts of Alertmanager: ``alerts`` has (name, status, labels) of each in order of arrival."""

    def __init__(self) -> None:
        self.alerts: list[tuple[str, str, dict[str, str]]] = []
        super().__init__(("127.0.0.1", 0), _Answer)


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = t.cast(Webhook, self.server)
        server.alerts += [(one["labels"]["alertname"], one["status"], one["labels"]) for one in body["alerts"]]
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(what: str, probe: Callable[[], t.Any], limit: float = LIMIT) -> t.Any:
    """Return the first true value of a probe. Raises AssertionError at the time limit."""
    ends = time.monotonic() + limit
    while time.monotonic() < ends:
        with contextlib.suppress(OSError, ValueError):
            if found := probe():
                return found
        time.sleep(0.1)
    raise AssertionError(f"waited {limit:.0f} s for {what}")


class Engines:
    """The engines. ``textfile`` is node_exporter's directory; ``webhook`` gets alerts; scrapes run each second."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.textfile = folder, folder / "textfile"
        self.webhook = Webhook()
        self.ports = {name: free_port() for name in ("node", "prometheus", "alertmanager")}
        self.address = f"http://127.0.0.1:{self.ports['prometheus']}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all of them and wait until the node is scraped."""
        self.textfile.mkdir()
        threading.Thread(target=self.webhook.serve_forever, daemon=True).start()
        (self.folder / "targets.json").write_text(
            json.dumps([{"targets": [f"127.0.0.1:{self.ports['node']}"], "labels": {"instance": "n1"}}])
        )
        shutil.copy(RULES, self.folder / "rules.yml")
        (self.folder / "prometheus.yml").write_text(
            f"""\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{self.ports["alertmanager"]}"]}}]}}]}}
scrape_configs:
  - {{job_name: mlcluster_node, file_sd_configs: [{{files: [targets.json]}}]}}
"""
        )
        (self.folder / "alertmanager.yml").write_text(
            f"""\
route: {{receiver: test, group_by: [alertname], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers:
  - {{name: test, webhook_configs: [{{url: "http://127.0.0.1:{self.webhook.server_port}/", send_resolved: true}}]}}
"""
        )
        listen = {name: f"127.0.0.1:{port}" for name, port in self.ports.items()}
        self._launch(
            "prometheus-node-exporter", f"--web.listen-address={listen['node']}",
            "--collector.textfile.directory=textfile",
        )  # fmt: skip
        self._launch(
            "prometheus-alertmanager", f"--web.listen-address={listen['alertmanager']}", "--cluster.listen-address=",
            "--config.file=alertmanager.yml", "--storage.path=alertmanager",
        )  # fmt: skip
        self._launch(
            "prometheus", f"--web.listen-address={listen['prometheus']}", "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
        )  # fmt: skip
        wait_for("Prometheus to scrape the node", lambda: self.query("up == 1"))

    def stop(self) -> None:
        """End all of them."""
        for process in self.processes:
            process.kill()
            process.wait()
        self.webhook.shutdown()
        self.webhook.server_close()

    def query(self, expr: str) -> list[dict[str, t.Any]]:
        """Return the result of a query now. Raises OSError if Prometheus rejects it."""
        words = urllib.parse.urlencode({"query": expr})
        with urllib.request.urlopen(f"{self.address}/api/v1/query?{words}", timeout=10) as answer:  # noqa: S310
            return list(json.load(answer)["data"]["result"])

    def firing(self) -> set[str]:
        """Return the names of the firing alerts."""
        return {one["metric"]["alertname"] for one in self.query('ALERTS{alertstate="firing"}')}

    def _launch(self, program: str, *words: str) -> None:
        path = shutil.which(program)
        assert path, f"{program} is not installed: run make setup"
        log = (self.folder / f"{program}.log").open("wb")
        self.processes.append(subprocess.Popen([path, *words], cwd=self.folder, stdout=log, stderr=log))


@contextlib.contextmanager
def engines(folder: Path) -> Iterator[Engines]:
    """Run engines in a folder during a with statement."""
    found = Engines(folder)
    try:
        found.start()
        yield found
    finally:
        found.stop()
