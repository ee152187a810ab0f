# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import stat
import subprocess

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import log

from hooks.mlcluster_boot import options, status
from hooks.mlcluster_boot.node import Role

ROLES = [Role("nvme_raid0", True), Role("site.own.motd", False), Role("slurm_jobs", True)]


@pytest.fixture
def report(tmp_path):
    (tmp_path / "var/lib/mlcluster").mkdir(parents=True)
    now = status.uptime()
    words = ["--root", str(tmp_path), "--started-at", str(now), "--deadline", "100"]
    return status.Report(options.parse_options(words))


def snapshot(state, tasks, failures=()):
    return {
        "state": state,
        "tasks": [{"role": role, "task": "x", "seconds": 1.5, "changed": changed} for role, changed in tasks],
        "failures": [{"role": role, "message": message} for role, message in failures],
        "elapsed": 3.0,
    }


@pytest.mark.parametrize(
    "state, tasks, failed, states",
    [
        ("starting", [], [], "pending pending pending"),
        ("running", [("", 0), ("nvme_raid0", 1)], [], "running pending pending"),
        ("running", [("nvme_raid0", 1), ("", 0), ("motd", 0)], [], "configured running pending"),
        (
            "running",
            [("nvme_raid0", 1), ("motd", 0), ("slurm_jobs", 0)],
            ["site.own.motd"],
            "configured failed running",
        ),
        ("successful", [("nvme_raid0", 1), ("motd", 0), ("slurm_jobs", 0)], [], "configured configured configured"),
        ("timeout", [("nvme_raid0", 1), ("motd", 0)], [], "configured interrupted pending"),
        ("failed", [("nvme_raid0", 1)], ["nvme_raid0"], "failed pending pending"),
    ],
)
def test_states_of_the_roles(state, tasks, failed, states):
    entries = status.role_states(ROLES, snapshot(state, tasks, [("motd", "no"), ("motd", "no room")]), failed)
    assert [entry["state"] for entry in entries] == states.split()
    assert [entry["role"] for entry in entries] == ["nvme_raid0", "site.own.motd", "slurm_jobs"]
    if "site.own.motd" in failed:
        assert entries[1]["message"] == "no room"


def test_the_status_file_is_private_and_whole(report):
    report.update(state="running")
    assert stat.S_IMODE(report.status_file.stat().st_mode) == 0o600
    assert report.document["deadline_seconds"] == 100 and 0 < report.left() <= 100


def test_a_status_that_cannot_be_written_is_said_once(report, monkeypatch, caplog):
    def full(path, document):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(status, "write_json", full)
    report.logger.addHandler(caplog.handler)
    report.update(state="running")
    report.update(state="running")
    report.logger.removeHandler(caplog.handler)
    assert caplog.text.count("No space left on device") == 1


@pytest.mark.parametrize("state, code, told", [("configured", 0, 0), ("failed", 2, 0)])
def test_the_exit_code_of_the_policy_drain(report, state, code, told):
    assert report.finish(state, "x", code) == told
    assert report.document["exit_code"] == code


def test_the_log_goes_with_the_aws_cli_else_with_a_python_that_has_boto3(tmp_path, monkeypatch):
    calls = []

    def run(argv, **options):
        calls.append(argv)
        if argv[0] == "aws":
            raise FileNotFoundError
        missing = argv[0] != "python3"
        return subprocess.CompletedProcess(argv, int(missing), "", "No module named 'boto3'" if missing else "")

    monkeypatch.setattr(status.subprocess, "run", run)
    status.upload(tmp_path / "log", "s3://bucket/a/log", tmp_path)
    assert calls[0][0] == "aws" and calls[-1][-3:] == ["bucket", "a/log", ""]
    assert "--expected-bucket-owner" not in calls[0]
    calls.clear()
    status.upload(tmp_path / "log", "s3://bucket/a/log", tmp_path, "111122223333")
    assert calls[0][-2:] == ["--expected-bucket-owner", "111122223333"] and calls[-1][-1] == "111122223333"

    def absent(argv, **options):
        raise FileNotFoundError(argv[0])

    monkeypatch.setattr(status.subprocess, "run", absent)
    with pytest.raises(FileNotFoundError, match="neither the AWS CLI nor a Python with boto3"):
        status.upload(tmp_path / "log", "s3://bucket/a/log", tmp_path)


def test_two_bundles_are_kept(tmp_path):
    names = [digit * 64 for digit in "1234"]
    for age, name in enumerate(names):
        (tmp_path / name / "x").mkdir(parents=True)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "other").mkdir()
    status.prune(tmp_path, names[3])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([names[0], names[3], "other"])


def test_a_cluster_log_on_a_full_disk_is_passed_over(tmp_path, capfd):
    folder = tmp_path / "var/log/parallelcluster"
    folder.mkdir(parents=True)
    (folder / "mlcluster.log").symlink_to("/dev/full")
    words = ["--root", str(tmp_path), "--started-at", "0", "--deadline", "100"]
    status.Report(options.parse_options(words)).say("hello")
    told = capfd.readouterr().err
    assert "hello" in told and "Traceback" not in told
    # The next one gives back the files of this one.
    log.setup("again", str(tmp_path))
