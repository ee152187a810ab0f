# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Prometheus that scrapes the nodes, an alert for an injected fault, and its end."""

from __future__ import annotations

import json
import time
import typing as t
import urllib.parse

from testinfra.host import Host

LIMIT = 120.0


def query(host: Host, expr: str) -> list[dict[str, t.Any]]:
    """Return the result of a query of the host's Prometheus."""
    address = f"http://127.0.0.1:9090/api/v1/query?{urllib.parse.urlencode({'query': expr})}"
    code = f"import urllib.request as u; print(u.urlopen({address!r}).read().decode())"
    done = host.run(f'python3 -c "{code}"')
    return list(json.loads(done.stdout)["data"]["result"]) if done.rc == 0 else []


def wait(host: Host, expr: str) -> list[dict[str, t.Any]]:
    """Return the first result of a query that is not empty."""
    ends = time.monotonic() + LIMIT
    while time.monotonic() < ends:
        if found := query(host, expr):
            return found
        time.sleep(1)
    raise AssertionError(f"{expr} gave nothing in {LIMIT:.0f} s")


def test_each_node_is_scraped_with_its_name(host: Host) -> None:
    found = wait(host, 'mlcluster_watch_period_seconds{job="mlcluster_node"} == 5')
    assert any(one["metric"]["instance"].startswith("mlcluster-monitor_cluster-") for one in found)
    assert wait(host, 'up{job="mlcluster_node"} == 1')
    assert wait(host, 'abs(instance:mlcluster_watch_age:seconds{job="mlcluster_node"}) < 60')


def test_fault_fires_and_clears(host: Host) -> None:
    # Each Prometheus watches both nodes, and may still have the cleared fault of the other one.
    name = host.backend.get_pytest_id().rpartition("/")[2]
    labels = f'alertname="MlclusterIsolate",alertstate="firing",check="node.drain_marker",instance="{name}"'
    fault = f"ALERTS{{{labels}}}"
    assert query(host, fault) == []
    host.check_output("mlcluster drain-marker --set 'the driver did not build'")
    assert wait(host, fault)
    host.check_output("mlcluster drain-marker --clear")
    wait(host, f"absent({fault})")


def test_timers_run(host: Host) -> None:
    for name in ("mlcluster-watch", "mlcluster-heal", "mlcluster-heal-node"):
        assert host.service(f"{name}.timer").is_running and host.service(f"{name}.timer").is_enabled
    assert json.loads(host.file("/etc/mlcluster/heal.json").content_string)["most"] == "10%"
    assert json.loads(host.file("/var/lib/grafana/dashboards/mlcluster.json").content_string)["uid"] == "mlcluster-aws"
