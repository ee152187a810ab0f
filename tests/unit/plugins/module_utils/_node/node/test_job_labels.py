# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node import job_labels
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.job_labels import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult

from tests.unit.fakes.fake_rooted_host import RootedHost

SHOW = "JobId=7 JobName=train llama UserId=alice(1000) GroupId=a(1000) JobState={} NodeList={} RunTime=00:00:05\n"
GONE = CommandResult(1, "", "slurm_load_jobs error: Invalid job id specified\n")
SILENT = CommandResult(1, "", "Unable to contact slurm controller")


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    host = RootedHost(tmp_path)
    host.put("/opt/slurm/bin/scontrol", mode=0o755)
    job_labels.add(host, Job(7, "alice", (0, 3)))
    return host


def refresh(host, answer):
    host.answers["/opt/slurm/bin/scontrol --oneliner show job 7"] = answer
    host.ran.clear()
    return job_labels.refresh(host, Slurm(host), 1)


def step(host, job=7):
    host.put("/proc/55/comm", "slurmstepd\n")
    host.put("/proc/55/cmdline", f"slurmstepd: [{job}.extern]\0")


def test_job_of_prolog_is_shown_for_its_gpus(host):
    assert host.text("/run/mlcluster/gpu-jobs/3") == "7\n"
    assert (host.root and host.stat("/run/mlcluster/jobs/7.json"))["mode"] == "0600"
    assert refresh(host, SHOW.format("RUNNING", "n[1-2]")) == [Job(7, "alice", (0, 3), "train llama")]


def test_slurm_is_asked_once_for_name_of_job_with_step(host):
    step(host)
    refresh(host, SHOW.format("RUNNING", "n1"))
    assert refresh(host, SILENT) == [Job(7, "alice", (0, 3), "train llama")]
    assert host.ran == []


@pytest.mark.parametrize(
    "answer", [GONE, SHOW.format("COMPLETED", "n1"), SHOW.format("RUNNING", "n2"), SHOW.format("PENDING", "(null)")]
)
def test_record_of_job_without_epilog_is_removed(host, answer):
    assert refresh(host, answer) == []
    assert job_labels.known(host) == []
    assert host.listdir("/run/mlcluster/gpu-jobs") == []


def test_job_without_proof_is_kept_but_not_shown(host):
    assert refresh(host, SILENT) == []
    assert host.listdir("/run/mlcluster/gpu-jobs") == []
    assert [job.job_id for job in job_labels.known(host)] == [7]
    step(host, job=70)
    assert refresh(host, SILENT) == []


def test_epilog_removes_only_its_job(host):
    job_labels.add(host, Job(8, "bob", (3,)))
    assert host.text("/run/mlcluster/gpu-jobs/3") == "7\n8\n"
    job_labels.remove(host, 7)
    assert (host.listdir("/run/mlcluster/gpu-jobs"), host.text("/run/mlcluster/gpu-jobs/3")) == (["3"], "8\n")
    job_labels.remove(host, 7)


def test_invalid_record_of_job_is_skipped(host):
    host.put("/run/mlcluster/jobs/9.json", "[]")
    host.put("/run/mlcluster/jobs/10.json", '{"schema": "mlcluster.job_labels/1", "gpus": [true, -1, 99, 2]}')
    host.put("/run/mlcluster/jobs/11.json", '{"schema": "mlcluster.report/1", "gpus": [2]}')
    host.put("/run/mlcluster/jobs/x.json", "{")
    assert [(job.job_id, job.gpus) for job in job_labels.known(host)] == [(7, (0, 3)), (10, (2,))]


def test_record_of_earlier_version_is_read(host):
    host.put("/run/mlcluster/jobs/12.json", '{"schema": "mlcluster.job/1", "gpus": [1], "user": "ann"}')
    assert job_labels.known(host)[-1] == Job(12, "ann", (1,))


@pytest.mark.parametrize(
    ("text", "gpus"), [("", ()), ("0,1", (0, 1)), ("3, 1,3", (1, 3)), ("MIG-1/2,x,-1,400", ()), ("7\n", (7,))]
)
def test_gpus_of_prolog(text, gpus):
    assert job_labels.parse_gpus(text) == gpus
