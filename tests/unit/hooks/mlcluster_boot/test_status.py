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
from tests.data.support.planted import PLANTED, plant

ROLES = [Role("nvme_raid0", True), Role("site.own.motd", False), Role("slurm_jobs", True)]


def snapshot(state, tasks, outcomes=()):
    """Return a play's status; ``outcomes`` are (role, state)."""
    words = {"failed": {"task": "Make | Make the array", "message": "no\n room"}}
    return {
        "state": state,
        "tasks": [{"role": role, "task": "x", "seconds": 1.5, "changed": changed} for role, changed in tasks],
        "outcomes": {role: {"state": state, **words.get(state, {})} for role, state in outcomes},
        "elapsed": 3.0,
    }


DONE = [("nvme_raid0", "configured"), ("site.own.motd", "configured"), ("slurm_jobs", "configured")]
FLOP = [("nvme_raid0", "configured"), ("site.own.motd", "failed")]


@pytest.mark.parametrize(
    "state, tasks, outcomes, states",
    [
        ("starting", [], [], "pending pending pending"),
        ("running", [("", 0), ("nvme_raid0", 1)], [], "running pending pending"),
        # The tasks of its rescue run, or those of the next role: nothing is known of how it ended.
        ("running", [("nvme_raid0", 1), ("", 0)], [], "running pending pending"),
        ("running", [("nvme_raid0", 1), ("", 0), ("motd", 0)], DONE[:1], "configured running pending"),
        ("running", [("nvme_raid0", 1), ("motd", 0), ("slurm_jobs", 0)], FLOP, "configured failed running"),
        ("successful", [("nvme_raid0", 1), ("motd", 0), ("slurm_jobs", 0)], DONE, "configured configured configured"),
        ("successful", [("nvme_raid0", 1), ("motd", 0)], [], "interrupted interrupted pending"),
        # No task of a role has the tag of the phase.
        ("successful", [("", 0)], DONE, "configured configured configured"),
        ("timeout", [("nvme_raid0", 1), ("motd", 0)], DONE[:1], "configured interrupted pending"),
        ("failed", [("nvme_raid0", 1)], [("nvme_raid0", "failed")], "failed pending pending"),
    ],
)
def test_states_of_roles(state, tasks, outcomes, states):
    entries = status.role_states(ROLES, snapshot(state, tasks, outcomes))
    assert [entry["state"] for entry in entries] == states.split()
    assert [entry["role"] for entry in entries] == ["nvme_raid0", "site.own.motd", "slurm_jobs"]
    for entry in entries:
        assert entry["state"] != "failed" or (entry["task"], entry["message"]) == ("Make | Make the array", "no\n room")


def test_each_role_that_ended_has_one_line_with_task_and_message(report, caplog):
    report.logger.addHandler(caplog.handler)
    report.roles(ROLES, snapshot("running", [("nvme_raid0", 2), ("motd", 0)], DONE[:1]))
    for _time in range(2):
        report.roles(ROLES, snapshot("running", [("nvme_raid0", 2), ("motd", 0)], FLOP))
    report.roles(ROLES, snapshot("failed", [("slurm_jobs", 0)], [*FLOP, ("slurm_jobs", "failed")]))
    report.logger.removeHandler(caplog.handler)
    failure = "at 'Make | Make the array': no room"
    assert [record.getMessage() for record in caplog.records] == [
        "role nvme_raid0 configured after 1.5 s, 2 changed",
        f"role site.own.motd failed after 1.5 s {failure}; it is best effort, so the run continues",
        f"role slurm_jobs failed after 1.5 s {failure}",
    ]


def test_status_file_is_private_and_whole(report):
    report.update(state="running")
    assert stat.S_IMODE(report.status_file.stat().st_mode) == 0o600
    assert report.document["deadline_seconds"] == 100 and 0 < report.left() <= 100


def test_status_that_cannot_be_written_is_reported_once(report, monkeypatch, caplog):
    def full(path, document):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(status, "write_json", full)
    report.logger.addHandler(caplog.handler)
    report.update(state="running")
    report.update(state="running")
    report.logger.removeHandler(caplog.handler)
    assert caplog.text.count("No space left on device") == 1


@pytest.mark.parametrize("state, code, exit_code", [("configured", 0, 0), ("failed", 2, 0)])
def test_exit_code_of_policy_drain(report, state, code, exit_code):
    assert report.finish(state, "x", code) == exit_code
    assert report.document["exit_code"] == code


def test_log_is_uploaded_by_aws_cli_or_boto3(tmp_path, monkeypatch):
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


@pytest.fixture
def cluster_log(tmp_path):
    """Return the path of the log in ParallelCluster's directory, which every user may write to."""
    folder = tmp_path / "var/log/parallelcluster"
    folder.mkdir(parents=True)
    return folder / "mlcluster.log"


WORDS = ["--started-at", "0", "--deadline", "100", "--root"]


def test_cluster_log_has_lines_of_run(tmp_path, cluster_log):
    cluster_log.write_text("earlier\n")
    status.Report(options.parse_options([*WORDS, str(tmp_path)])).info("hello")
    log.setup("again", str(tmp_path))
    assert cluster_log.read_text().startswith("earlier\n") and "on_node_configured: hello" in cluster_log.read_text()


@pytest.mark.parametrize("what", ["second name", *PLANTED])
def test_planted_cluster_log_is_not_written_to(tmp_path, cluster_log, capfd, what):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    if what == "second name":
        os.link(victim, cluster_log)
    else:
        plant(cluster_log, what, victim)
    mode = victim.stat().st_mode
    status.Report(options.parse_options([*WORDS, str(tmp_path)])).info("hello")
    log.setup("again", str(tmp_path))
    assert "mlcluster.log (" in capfd.readouterr().err
    assert (victim.read_text(), victim.stat().st_mode) == ("kept", mode) and not (tmp_path / "absent").exists()
    assert what != "other owner" or cluster_log.read_bytes() == b"theirs"


def test_cluster_log_on_full_disk_is_skipped(tmp_path, cluster_log, monkeypatch, capfd):
    open_log = log.open_log

    def full(path, mode, own=False):
        return open("/dev/full", "a", encoding="utf-8") if own else open_log(path, mode)

    monkeypatch.setattr(log, "open_log", full)
    status.Report(options.parse_options([*WORDS, str(tmp_path)])).info("hello")
    errors = capfd.readouterr().err
    assert "hello" in errors and "Traceback" not in errors
    # The next one gives back the files of this one.
    log.setup("again", str(tmp_path))
