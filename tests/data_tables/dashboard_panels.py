# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The panels of the Grafana dashboard, as data: ``make_dashboard.py`` writes the JSON, tests run each query."""

from __future__ import annotations

from dataclasses import dataclass

# The dashboard's variables that a query may name, each with its values.
VARIABLES = {"instance": "label_values(mlcluster_watch_uptime_seconds, instance)"}
VARIABLES["hpc_job"] = "label_values(mlcluster_job_gpu, hpc_job)"


@dataclass(frozen=True)
class Query:
    """A query of Prometheus and what its line is called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One panel. kind: stat, table or graph; width: of the 24 columns; red: the value from which a stat is red."""

    title: str
    kind: str
    queries: tuple[Query, ...]
    unit: str = "short"
    width: int = 12
    red: float | None = None
    text: str = ""


NODE = '{instance=~"$instance"}'
GPU = "{{instance}} GPU {{gpu}}"
JOB = '{hpc_job=~"$hpc_job"}'
# dcgm-exporter has the same instance and gpu as the labels of jobs.
OF_JOB = "on (instance, gpu) group_left (hpc_job, user, job_name) mlcluster_job_gpu" + JOB


def one(expr: str, legend: str = "") -> tuple[Query, ...]:
    """Return the queries of a panel that has one."""
    return (Query(expr, legend),)


ROWS: dict[str, tuple[Panel, ...]] = {
    "Cluster": (
        Panel("Nodes that answer", "stat", one('sum(up{job="mlcluster_node"})'), width=4),
        Panel(
            "Nodes with a failure",
            "stat",
            one('count(count by (instance) (mlcluster_verdict{status="fail"})) or vector(0)'),
            width=4,
            red=1,
        ),
        Panel(
            "Verdicts not proved",
            "stat",
            one('count(mlcluster_verdict{status="undeterminable"}) or vector(0)'),
            width=4,
        ),
        Panel(
            "Nodes with old metrics",
            "stat",
            one("count(instance:mlcluster_watch_age:seconds > 2 * mlcluster_watch_period_seconds) or vector(0)"),
            width=4,
            red=1,
        ),
        Panel("Jobs", "stat", one("count(count by (hpc_job) (mlcluster_job_gpu)) or vector(0)"), width=4),
        Panel("GPUs of jobs", "stat", one("count(mlcluster_job_gpu) or vector(0)"), width=4),
        Panel("Failed checks", "table", one('mlcluster_verdict{status="fail"}'), text="One line for each verdict."),
        Panel(
            "Failures by severity",
            "graph",
            one('sum by (severity) (mlcluster_verdict{status="fail"}) or vector(0)', "{{severity}}"),
        ),
        Panel(
            "Healing actions", "stat", one("mlcluster_heal_events", "{{action}}"), text="Lines of the healing journal."
        ),
        Panel("Versions", "table", one("mlcluster_info"), text="Nodes of one queue should not differ."),
        Panel(
            "Nodes that are drained, healed or given up",
            "graph",
            (Query("mlcluster_heal_nodes", "{{state}}"), Query("mlcluster_heal_limit", "limit")),
            text="Written by the head node where healing is switched on.",
        ),
        Panel(
            "Local storage",
            "graph",
            one("count by (state) (mlcluster_storage_state)", "{{state}}"),
            text="Nodes by the state of their local volume.",
        ),
    ),
    "Node": (
        Panel("Verdicts", "table", one("mlcluster_verdict" + NODE)),
        Panel("Age of the metrics", "graph", one("instance:mlcluster_watch_age:seconds" + NODE, "{{instance}}"), "s"),
        Panel(
            "EFA",
            "graph",
            (
                Query('instance:mlcluster_signal:rate5m{instance=~"$instance",signal="efa_tx"}', "{{instance}} sent"),
                Query('instance:mlcluster_signal:rate5m{instance=~"$instance",signal="efa_rx"}', "{{instance}} got"),
            ),
            "Bps",
        ),
        Panel(
            "EFA retransmits and errors",
            "graph",
            one('rate(mlcluster_efa_total{instance=~"$instance",counter!~".*bytes"}[5m])', "{{instance}} {{counter}}"),
            "cps",
        ),
        Panel(
            "NVLink by GPU",
            "graph",
            one(
                "sum by (instance, gpu) (rate(mlcluster_nvlink_bytes_total" + NODE + "[5m]))",
                "{{instance}} GPU {{gpu}}",
            ),
            "Bps",
        ),
        Panel(
            "NVLink errors",
            "graph",
            one(
                "sum by (instance, gpu) (rate(mlcluster_nvlink_errors_total" + NODE + "[5m]))",
                "{{instance}} GPU {{gpu}}",
            ),
            "cps",
        ),
        Panel("GPU utilization", "graph", one("DCGM_FI_DEV_GPU_UTIL" + NODE, GPU), "percent"),
        Panel("GPU temperature", "graph", one("DCGM_FI_DEV_GPU_TEMP" + NODE, GPU), "celsius"),
        Panel("GPU power", "graph", one("DCGM_FI_DEV_POWER_USAGE" + NODE, GPU), "watt"),
        Panel(
            "Free space",
            "graph",
            one(
                'node_filesystem_avail_bytes{instance=~"$instance",fstype=~"xfs|ext4|lustre"}',
                "{{instance}} {{mountpoint}}",
            ),
            "bytes",
        ),
        Panel("Free memory", "graph", one("node_memory_MemAvailable_bytes" + NODE, "{{instance}}"), "bytes"),
        Panel("Load", "graph", one("node_load1" + NODE, "{{instance}}")),
        Panel("Seconds of a run", "graph", one("mlcluster_watch_run_seconds" + NODE, "{{instance}}"), "s"),
        Panel("Seconds of each check", "graph", one("mlcluster_check_seconds" + NODE, "{{instance}} {{check}}"), "s"),
    ),
    "Job": (
        Panel("Nodes of the job", "stat", one("count(count by (instance) (mlcluster_job_gpu" + JOB + "))"), width=6),
        Panel("GPUs of the job", "stat", one("count(mlcluster_job_gpu" + JOB + ")"), width=6),
        Panel("GPUs by job", "table", one("mlcluster_job_gpu" + JOB)),
        Panel(
            "Traffic by node",
            "graph",
            one(
                'instance_job:mlcluster_signal:rate5m{hpc_job=~"$hpc_job",signal=~"efa_tx|nvlink"}',
                "{{instance}} {{signal}}",
            ),
            "Bps",
        ),
        Panel(
            "Own part of a step by node",
            "graph",
            one(
                'instance_job:mlcluster_signal:rate5m{hpc_job=~"$hpc_job",signal="step_seconds"}',
                "{{instance}}",
            ),
            "s",
            text="What the slowest process of a node takes before it waits for others.",
        ),
        Panel(
            "Distance from the median of the job",
            "graph",
            one("instance_job:mlcluster_drift:ratio" + JOB, "{{instance}} {{signal}}"),
            text="-1: no traffic. Only jobs of three nodes or more that have their nodes to themselves.",
        ),
        Panel(
            "GPU utilization of the job",
            "graph",
            one("DCGM_FI_DEV_GPU_UTIL * " + OF_JOB, GPU),
            "percent",
        ),
        Panel(
            "GPU power of the job", "graph", one("sum by (hpc_job) (DCGM_FI_DEV_POWER_USAGE * " + OF_JOB + ")"), "watt"
        ),
        Panel(
            "Failures on nodes of the job",
            "table",
            one('mlcluster_verdict{status="fail"} and on (instance) mlcluster_job_gpu' + JOB),
        ),
    ),
}
