# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import metrics
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.job_labels import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.step_times import StepTimes
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import Report, failed, passed

REPORT = Report("p5-1", "2026-01-31T12:00:00Z", {}, (failed("gpu.count", "lost", severity="isolate"),))
COUNTERS = dict.fromkeys((*metrics.EFA_BY_DEVICE, *metrics.EFA_OVER_ALL, "cmds_err", "alloc_pd_err"), 10)
NVLINK = {"data_tx": 2, "data_rx": 3, **{f"kind{index}_errors": index for index in range(12)}}


def extras(**more):
    fields = {
        "uptime": 99.5,
        "time": 1e9,
        "period": 60,
        "seconds": 0.5,
        "versions": {"kernel": "6.8", "package x-1": "2"},
    }
    return metrics.Extras(**{**fields, **more})


def rendered(**more):
    return metrics.render(REPORT, extras(**more)).splitlines()


def samples(name, **more):
    return [line for line in rendered(**more) if line.startswith(name + "{")]


def test_run_time_is_of_monotonic_clock():
    assert samples("mlcluster_watch_uptime_seconds") == ["mlcluster_watch_uptime_seconds{} 99.5"]
    assert samples("mlcluster_info") == ['mlcluster_info{kernel="6.8",package_x_1="2"} 1']
    assert len(samples("mlcluster_verdict")) == 1


def test_storage_metrics_follow_record():
    record = {
        "state": "intact",
        "owner": "ours",
        "layout": "raid0",
        "volumes": [{"path": "/local", "size_bytes": 5, "serials": ["a", "b"]}],
    }
    assert samples("mlcluster_storage_state", storage=record) == [
        'mlcluster_storage_state{state="intact",owner="ours",layout="raid0"} 1'
    ]
    assert samples("mlcluster_storage_disks", storage=record) == ["mlcluster_storage_disks{} 2"]
    assert samples("mlcluster_storage_bytes", storage=record) == ['mlcluster_storage_bytes{path="/local"} 5']
    assert samples("mlcluster_storage_state", storage={"state": None}) == []


def test_efa_counts_bytes_by_device_and_rest_over_all():
    found = samples("mlcluster_efa_total", efa={"rdmap0": COUNTERS, "rdmap1": COUNTERS})
    assert 'mlcluster_efa_total{device="rdmap1",counter="tx_bytes"} 10' in found
    assert 'mlcluster_efa_total{counter="retrans_pkts"} 20' in found
    assert not [line for line in found if "cmds_err" in line]


def test_sum_over_too_few_devices_is_left_out():
    found = samples("mlcluster_efa_total", efa={"rdmap0": COUNTERS, "rdmap1": {"tx_bytes": 1}})
    assert [line for line in found if "device" not in line] == []


def test_nvlink_data_is_in_bytes_and_kinds_of_errors_are_bounded():
    found = rendered(nvlink={"0": NVLINK})
    assert 'mlcluster_nvlink_bytes_total{gpu="0",direction="rx"} 3072' in found
    assert len([line for line in found if line.startswith("mlcluster_nvlink_errors_total")]) == metrics.MAX_ERROR_KINDS


def test_job_is_label_of_each_of_its_gpus():
    found = samples("mlcluster_job_gpu", jobs=[Job(7, "alice", (0, 1), 'a "b"'), Job(8, "bob", ())])
    assert found == [
        f'mlcluster_job_gpu{{gpu="{gpu}",hpc_job="7",user="alice",job_name="a \\"b\\""}} 1' for gpu in (0, 1)
    ]


def test_steps_are_counted_by_process():
    found = [StepTimes(7, 0, 120, 96.5, 31.25), StepTimes(7, 1, 119, 96.0)]
    assert samples("mlcluster_job_steps_total", steps=found) == [
        'mlcluster_job_steps_total{hpc_job="7",process="0"} 120',
        'mlcluster_job_steps_total{hpc_job="7",process="1"} 119',
    ]
    assert samples("mlcluster_job_step_seconds_total", steps=found) == [
        'mlcluster_job_step_seconds_total{hpc_job="7",process="0",part="all"} 96.5',
        'mlcluster_job_step_seconds_total{hpc_job="7",process="0",part="own"} 31.25',
        'mlcluster_job_step_seconds_total{hpc_job="7",process="1",part="all"} 96',
    ]


def test_largest_node_has_fewer_than_400_series():
    """p5.48xlarge: 32 EFA devices, 8 GPUs, and more verdicts than the light check has."""
    verdicts = [passed(f"gpu.check{index}", index, seconds=0.1) for index in range(30)]
    text = metrics.render(
        Report("p5-1", REPORT.time, {}, tuple(verdicts)),
        extras(
            efa={f"rdmap{index}": COUNTERS for index in range(32)},
            nvlink={str(gpu): NVLINK for gpu in range(8)},
            jobs=[Job(7, "alice", tuple(range(8)), "x")],
            steps=[StepTimes(7, process, 1, 1.0, 1.0) for process in range(8)],
            storage={"state": "intact", "volumes": [{"path": "/local", "size_bytes": 1}]},
        ),
    )
    assert 250 < len([line for line in text.splitlines() if not line.startswith("#")]) < 400


@pytest.mark.parametrize("name", metrics.METRICS)
def test_each_metric_is_written(name):
    storage = {"state": "intact", "volumes": [{"path": "/local", "size_bytes": 1}]}
    everything = {"storage": storage, "efa": {"r": COUNTERS}, "nvlink": {"0": NVLINK}, "jobs": [Job(7, "a", (0,))]}
    everything["steps"] = [StepTimes(7, 0, 1, 1.0)]
    assert samples(name, **everything)
