# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dashboard: its JSON file, and each of its queries on a real Prometheus."""

from __future__ import annotations

import json
import re
import time

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import heal, healing, metrics
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.job_labels import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.step_times import StepTimes
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.formats import family
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import (
    Report,
    failed,
    passed,
    undeterminable,
)

from tests.data_tables.dashboard_panels import ROWS, VARIABLES
from tests.rig.monitoring import ROOT, engines, wait_for

DASHBOARD = ROOT / "playbooks/files/monitoring/mlcluster.dashboard.json"
# Of dcgm-exporter's default counters (NVIDIA/dcgm-exporter, etc/default-counters.csv).
DCGM = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER")
# Queries that compare the nodes of a job have no result on one node. promtool tests these.
OF_PEERS = "instance_job:mlcluster_drift:ratio"
CASES = [(row, panel, query) for row, panels in ROWS.items() for panel in panels for query in panel.queries]


def test_json_equals_panel_definitions():
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    shown = [
        (panel["title"], [(target["expr"], target["legendFormat"]) for target in panel.get("targets", [])])
        for panel in board["panels"]
    ]
    wanted = []
    for row, panels in ROWS.items():
        wanted.append((row, []))
        wanted += [(panel.title, [(query.expr, query.legend) for query in panel.queries]) for panel in panels]
    assert shown == wanted, "run make dashboard"
    named = {one["name"]: one.get("query") for one in board["templating"]["list"]}
    assert named == {"datasource": "prometheus", **VARIABLES}, "run make dashboard"


def write(folder, step):
    """Write every metric of a node with a job on its GPUs, as the runtime does."""
    counters = dict.fromkeys((*metrics.EFA_BY_DEVICE, *metrics.EFA_OVER_ALL), step * 10**9)
    extras = metrics.Extras(
        uptime=time.clock_gettime(time.CLOCK_BOOTTIME), time=time.time(), period=60,
        seconds=0.5, versions={"kernel": "6.8"},
        storage={"state": "intact", "volumes": [{"path": "/local", "size_bytes": 5, "serials": ["a"]}]},
        efa={"rdmap0": counters}, nvlink={"0": {"data_tx": step * 10**6, "crc_errors": step}},
        jobs=[Job(7, "alice", (0, 1), "train")], steps=[StepTimes(7, 0, 60 * step, 60.0 * step, 12.0 * step)],
    )  # fmt: skip
    results = (
        failed("gpu.count", "lost", severity="isolate", seconds=0.1),
        passed("efa.devices", 32, seconds=0.2),
        undeterminable("node.clock", "no answer"),
    )
    text = metrics.render(Report("n1", "2026-01-31T12:00:00Z", {}, results), extras)
    text += "".join(family(name, "x", [({"gpu": gpu}, step) for gpu in "01"]) for name in DCGM)
    text += heal.metrics(healing.Policy(), [], [healing.Event(1.0, "n2", "reboot", ("gpu.xid",), "x")])
    (folder / "new").write_text(text, encoding="utf-8")
    (folder / "new").rename(folder / "mlcluster.prom")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    with engines(tmp_path_factory.mktemp("engines")) as found:
        write(found.textfile, 1)
        wait_for("the first scrape", lambda: found.query("mlcluster_info"))
        write(found.textfile, 2)
        wait_for("a rate", lambda: found.query('instance_job:mlcluster_signal:rate5m{signal="pcie_replays"} > 0'))
        yield found


@pytest.mark.parametrize(("row", "panel", "query"), CASES, ids=lambda value: getattr(value, "title", ""))
def test_each_query_has_result(prometheus, row, panel, query):
    expr = query.expr
    for name in VARIABLES:
        expr = expr.replace(f"${name}", ".+")
    assert "$" not in expr
    found = prometheus.query(expr)
    assert found or OF_PEERS in expr
    for label in re.findall(r"\{\{(\w+)\}\}", query.legend):
        assert all(label in one["metric"] for one in found if one["metric"]), f"no label {label} in {found}"


@pytest.mark.parametrize("name", VARIABLES)
def test_each_variable_has_values(prometheus, name):
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", VARIABLES[name]).groups()
    assert all(label in one["metric"] for one in prometheus.query(metric)) and prometheus.query(metric)


def test_query_of_missing_metric_has_no_result(prometheus):
    assert prometheus.query('mlcluster_verdicts{status="fail"}') == []
