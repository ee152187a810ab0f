# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics of a node in the text format of Prometheus. Pure; ``METRICS`` is the list of all of them."""

from __future__ import annotations

import dataclasses
import typing as t

from ..verdict.formats import Sample, family, prometheus
from ..verdict.result import Report
from .job_labels import Job
from .step_times import StepTimes

METRICS: dict[str, tuple[str, str]] = {
    "mlcluster_watch_uptime_seconds": ("gauge", "Uptime of the node when these metrics were written."),
    "mlcluster_watch_time_seconds": ("gauge", "Time at which these metrics were written, by the node's clock."),
    "mlcluster_watch_period_seconds": ("gauge", "Seconds between two runs."),
    "mlcluster_watch_run_seconds": ("gauge", "How long this run took."),
    "mlcluster_info": ("gauge", "1; the versions are labels."),
    "mlcluster_storage_state": ("gauge", "1; what the boot unit found of the local storage is a label."),
    "mlcluster_storage_disks": ("gauge", "Disks of the local storage."),
    "mlcluster_storage_bytes": ("gauge", "Size of the local storage."),
    "mlcluster_efa_total": ("counter", "A counter of the EFA driver; bytes by device, all others over all devices."),
    "mlcluster_nvlink_bytes_total": ("counter", "Bytes over all NVLinks of a GPU."),
    "mlcluster_nvlink_errors_total": ("counter", "Errors of all NVLinks of a GPU, by kind."),
    "mlcluster_job_gpu": ("gauge", "1 for each GPU that a job has."),
    "mlcluster_job_steps_total": ("counter", "Steps of a training, by its process on this node."),
    "mlcluster_job_step_seconds_total": (
        "counter",
        "Seconds of those steps: all of them, and those in which the process waited for no other (own).",
    ),
}
# Counters of the EFA driver that are useful on a dashboard (CloudWatch User Guide, Collect EFA metrics), so that 32
# devices with 30 counters each do not make a thousand series.
EFA_BY_DEVICE = ("tx_bytes", "rx_bytes")
EFA_OVER_ALL = (
    "rx_drops",
    "rdma_read_bytes",
    "rdma_write_bytes",
    "rdma_write_recv_bytes",
    "retrans_bytes",
    "retrans_pkts",
    "retrans_timeout_events",
    "impaired_remote_conn_events",
    "unresponsive_remote_events",
)
# Of each GPU; the names are nvidia-smi's, and a newer driver may have more.
MAX_ERROR_KINDS = 8
_DATA = {"data_tx": "tx", "data_rx": "rx"}


@dataclasses.dataclass(frozen=True)
class Extras:
    """Results of a run besides its verdicts. An unreadable mapping is empty, and gives no sample.

    efa: {device: {counter: value}}. nvlink: {index of the GPU: {counter: value}}, data in KiB. storage: the record of
    the boot unit.
    """

    uptime: float
    time: float
    period: int
    seconds: float
    versions: t.Mapping[str, str]
    storage: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    efa: t.Mapping[str, t.Mapping[str, int]] = dataclasses.field(default_factory=dict)
    nvlink: t.Mapping[str, t.Mapping[str, int]] = dataclasses.field(default_factory=dict)
    jobs: t.Sequence[Job] = ()
    steps: t.Sequence[StepTimes] = ()


def render(report: Report, extras: Extras) -> str:
    """Return the complete text of the file."""
    samples: dict[str, list[Sample]] = {
        "mlcluster_watch_uptime_seconds": [({}, extras.uptime)],
        "mlcluster_watch_time_seconds": [({}, extras.time)],
        "mlcluster_watch_period_seconds": [({}, extras.period)],
        "mlcluster_watch_run_seconds": [({}, extras.seconds)],
        "mlcluster_info": [({_label_name(name): text for name, text in sorted(extras.versions.items())}, 1)],
        **_storage(extras.storage),
        "mlcluster_efa_total": _efa(extras.efa),
        **_nvlink(extras.nvlink),
        "mlcluster_job_gpu": [
            ({"gpu": str(gpu), "hpc_job": str(job.job_id), "user": job.user, "job_name": job.name or ""}, 1)
            for job in extras.jobs
            for gpu in job.gpus
        ],
        **_steps(extras.steps),
    }
    parts = [family(name, METRICS[name][1], found, METRICS[name][0]) for name, found in samples.items()]
    return prometheus([report]) + "".join(parts)


def _label_name(text: str) -> str:
    return "".join(char if char.isalnum() and char.isascii() else "_" for char in text)


def _storage(record: t.Mapping[str, t.Any]) -> dict[str, list[Sample]]:
    if not isinstance(record.get("state"), str):
        return {}
    words = {name: str(record[name]) for name in ("state", "owner", "layout") if isinstance(record.get(name), str)}
    volumes = [volume for volume in record.get("volumes") or [] if isinstance(volume, dict)]
    return {
        "mlcluster_storage_state": [(words, 1)],
        "mlcluster_storage_disks": [({}, sum(len(volume.get("serials") or ()) for volume in volumes))],
        "mlcluster_storage_bytes": [
            ({"path": str(volume.get("path"))}, volume["size_bytes"])
            for volume in volumes
            if isinstance(volume.get("size_bytes"), int)
        ],
    }


def _efa(devices: t.Mapping[str, t.Mapping[str, int]]) -> list[Sample]:
    found: list[Sample] = [
        ({"device": device, "counter": counter}, values[counter])
        for device, values in devices.items()
        for counter in EFA_BY_DEVICE
        if counter in values
    ]
    for counter in EFA_OVER_ALL:
        values = [of[counter] for of in devices.values() if counter in of]
        # The sum over fewer devices than before would look like a counter that was reset.
        if values and len(values) == len(devices):
            found.append(({"counter": counter}, sum(values)))
    return found


def _steps(found: t.Sequence[StepTimes]) -> dict[str, list[Sample]]:
    counts: list[Sample] = []
    seconds: list[Sample] = []
    for one in found:
        words = {"hpc_job": str(one.job_id), "process": str(one.process)}
        counts.append((words, one.steps))
        seconds.append(({**words, "part": "all"}, one.seconds))
        if one.own is not None:
            seconds.append(({**words, "part": "own"}, one.own))
    return {"mlcluster_job_steps_total": counts, "mlcluster_job_step_seconds_total": seconds}


def _nvlink(gpus: t.Mapping[str, t.Mapping[str, int]]) -> dict[str, list[Sample]]:
    data: list[Sample] = []
    errors: list[Sample] = []
    for gpu, counters in gpus.items():
        for name, direction in _DATA.items():
            if name in counters:
                data.append(({"gpu": gpu, "direction": direction}, counters[name] * 1024))
        kinds = sorted(name for name in counters if name.endswith("errors"))
        errors += [({"gpu": gpu, "kind": kind}, counters[kind]) for kind in kinds[:MAX_ERROR_KINDS]]
    return {"mlcluster_nvlink_bytes_total": data, "mlcluster_nvlink_errors_total": errors}
