# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import errno
import os
import pwd
import time

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import watch
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.job_labels import Job, add
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandError, Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import FAIL, passed

from tests.unit.fakes.fake_rooted_host import RootedHost


@pytest.fixture
def options(tmp_path):
    return watch.Options(
        str(tmp_path / "textfile"),
        60,
        lock=str(tmp_path / "lock"),
        labels=str(tmp_path / "labels"),
        state=str(tmp_path / "state"),
        runtime_version="1.2.3",
    )


def text(options):
    with open(f"{options.directory}/{watch.FILE}", encoding="utf-8") as stream:
        return stream.read()


def test_run_writes_its_verdicts_and_time(options):
    results = watch.run(Host(), options)
    assert {"node.drain_marker", watch.EFA, watch.NVLINK, watch.JOBS} <= {one.id for one in results}
    found = text(options)
    assert 'check="node.drain_marker"' in found and 'version="1.2.3"' in found
    uptime = float(found.split("mlcluster_watch_uptime_seconds{} ")[1].split()[0])
    with open("/proc/uptime", encoding="ascii") as stream:
        assert 0 <= float(stream.read().split()[0]) - uptime < 60


def test_step_times_of_running_job_are_in_file(options, monkeypatch, tmp_path):
    user = pwd.getpwuid(os.geteuid()).pw_name
    here = Job(7, user, (0,), "train")
    monkeypatch.setattr(watch, "check_jobs", lambda host, **more: [passed(watch.JOBS, [dataclasses.asdict(here)])])
    for number in (7, 8):
        (tmp_path / f"mlcluster-steps.{number}.0").write_text("120 96.5 31.25\n")
    watch.run(Host(), dataclasses.replace(options, steps=str(tmp_path)))
    assert 'mlcluster_job_steps_total{hpc_job="7",process="0"} 120' in text(options)
    assert 'hpc_job="8"' not in text(options)


def test_clock_that_jumps_does_not_change_age(options, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 86400.0)
    watch.run(Host(), options)
    assert "mlcluster_watch_time_seconds{} 86400\n" in text(options)
    assert float(text(options).split("mlcluster_watch_uptime_seconds{} ")[1].split()[0]) > 0


def test_full_disk_keeps_old_metrics_and_reports_it(options):
    class Full(Host):
        def write_text(self, path, text, mode=0o644):
            if path.endswith(watch.FILE):
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write_text(path, text, mode)

    watch.run(Host(), options)
    before = text(options)
    with pytest.raises(NodeError, match=r"could not write .*No space left.*look with 'df'"):
        watch.run(Full(), options)
    assert text(options) == before


def test_two_runs_are_never_at_once(options, monkeypatch):
    monkeypatch.setattr(watch, "LOCK_SECONDS", 0.1)
    with Host().locked(options.lock, 1), pytest.raises(NodeError, match="another mlcluster run holds it"):
        watch.run(Host(), options)


def test_hanging_nvidia_smi_costs_only_its_limit(options, monkeypatch):
    class Hung(Host):
        def which(self, program):
            return f"/usr/bin/{program}" if program == "nvidia-smi" else super().which(program)

        def run(self, argv, timeout=120, check=True, stdin=None):
            if argv[0] == "nvidia-smi":
                time.sleep(600)
            return super().run(argv, timeout, check, stdin)

    monkeypatch.setattr(watch, "SECONDS", 1.0)
    monkeypatch.setattr(watch, "pci_gpus", lambda host: ["0000:51:00.0"])
    began = time.monotonic()
    watch.run(Hung(), options)
    assert time.monotonic() - began < 5
    assert 'check="gpu.nvlink_counters",number="1",status="undeterminable"' in text(options)
    assert 'check="node.drain_marker",number="1",status="' in text(options)


def test_counters_of_nvlink(monkeypatch, tmp_path):
    host = RootedHost(tmp_path)
    monkeypatch.setattr(watch, "pci_gpus", lambda host: ["0000:51:00.0"])
    assert watch.check_nvlink(host)[0].status == "not_applicable"
    host.put("/usr/bin/nvidia-smi", mode=0o755)
    host.answers["nvidia-smi nvlink -gt d"] = "GPU 0: X\n\t Link 0: Data Tx: 4 KiB\n"
    host.answers["nvidia-smi nvlink -e"] = "GPU 0: X\n\t Link 0: Replay Errors: 2\n"
    assert watch.check_nvlink(host)[0].found == {"0": {"data_tx": 4, "replay_errors": 2}}
    host.answers["nvidia-smi nvlink -e"] = CommandError(["nvidia-smi"], None, "", "", "no answer within 4 seconds")
    assert watch.check_nvlink(host)[0].status == "undeterminable"


def test_counters_of_efa(tmp_path):
    host = RootedHost(tmp_path)
    assert watch.check_efa(host)[0].status == "not_applicable"
    top = "/sys/class/infiniband/rdmap0"
    host.put(f"{top}/device/vendor", "0x1d0f\n")
    host.put(f"{top}/ports/1/hw_counters/tx_bytes", "5\n")
    host.put(f"{top}/ports/1/hw_counters/lifespan", "ten\n")
    (verdict,) = watch.check_efa(host)
    assert (verdict.id, verdict.found) == ("efa.counters", {"rdmap0": {"tx_bytes": 5}})


def test_jobs_proved_to_run_here(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    host = RootedHost(tmp_path)
    host.put("/opt/slurm/bin/scontrol", mode=0o755)
    add(host, Job(7, "alice", (1,)))
    shown = "JobId=7 JobName=train UserId=alice(1) GroupId=a(1) JobState=RUNNING NodeList=n1 RunTime=00:00:05\n"
    host.answers["/opt/slurm/bin/scontrol --oneliner show job 7"] = shown
    (verdict,) = watch.check_jobs(host, Slurm(host))
    assert verdict.id == "slurm.job_labels"
    assert watch._jobs([verdict]) == [Job(7, "alice", (1,), "train")]
    assert watch._jobs([passed("gpu.count", 1)]) == []


def test_no_check_of_run_is_longer_than_prolog_waits(options):
    assert all(check.seconds <= watch.SECONDS for check in watch.checks(Host(), options))
    assert watch.SECONDS + 1 < 6, "flock --timeout of prolog.sh.j2"
    assert FAIL not in {one.status for one in watch.check_efa(Host())}
