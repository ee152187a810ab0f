# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli import log

from hooks import node_facts, node_options, node_status, run_events, run_node
from hooks.node_facts import Role

ROOT = Path(__file__).resolve().parents[3]
ROLES = [Role("nvme_raid0", True), Role("site.own.motd", False), Role("slurm_jobs", True)]


@pytest.fixture
def report(tmp_path):
    (tmp_path / "var/lib/mlcluster").mkdir(parents=True)
    now = node_status.uptime()
    words = ["--root", str(tmp_path), "--started-at", str(now), "--deadline", "100"]
    return node_status.Report(node_options.parse_options(words))


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
    entries = node_status.role_states(ROLES, snapshot(state, tasks, [("motd", "no"), ("motd", "no room")]), failed)
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

    monkeypatch.setattr(node_status, "write_json", full)
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

    monkeypatch.setattr(node_status.subprocess, "run", run)
    node_status.upload(tmp_path / "log", "s3://bucket/a/log", tmp_path)
    assert calls[0][0] == "aws" and calls[-1][-3:] == ["bucket", "a/log", ""]
    assert "--expected-bucket-owner" not in calls[0]
    calls.clear()
    node_status.upload(tmp_path / "log", "s3://bucket/a/log", tmp_path, "111122223333")
    assert calls[0][-2:] == ["--expected-bucket-owner", "111122223333"] and calls[-1][-1] == "111122223333"

    def absent(argv, **options):
        raise FileNotFoundError(argv[0])

    monkeypatch.setattr(node_status.subprocess, "run", absent)
    with pytest.raises(FileNotFoundError, match="neither the AWS CLI nor a Python with boto3"):
        node_status.upload(tmp_path / "log", "s3://bucket/a/log", tmp_path)


def test_two_bundles_are_kept(tmp_path):
    names = [digit * 64 for digit in "1234"]
    for age, name in enumerate(names):
        (tmp_path / name / "x").mkdir(parents=True)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "other").mkdir()
    node_status.prune(tmp_path, names[3])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([names[0], names[3], "other"])


def outcome(state, failures=()):
    return run_events.Outcome(state, snapshot(state, [], failures), Path("/s"), Path("/log"))


@pytest.mark.parametrize(
    "state, sentence, code",
    [
        ("timeout", "the deadline of 100 s came while slurm_jobs was at work: see /log", 2),
        ("canceled", "the run was told to stop; it goes on where it was when it is started again: /log", 2),
        ("failed", "nvme_raid0: no disks", 1),
        ("error", "nvme_raid0: no disks", 2),
    ],
)
def test_what_an_ended_play_means(report, state, sentence, code):
    entry = {"role": "nvme_raid0", "required": True, "state": "failed", "changed": 0, "message": "no\n disks"}
    report.document["roles"] = [entry, {**entry, "role": "slurm_jobs", "state": "interrupted"}]
    with pytest.raises(run_node.NoVerdictError) as told:
        run_node.verdict(report, outcome(state))
    assert (str(told.value), told.value.code) == (sentence, code)


def test_a_play_that_said_nothing_of_a_role_is_told_in_its_own_last_words(report):
    report.document["roles"] = []
    with pytest.raises(run_node.NoVerdictError, match="the play ended as error: b c"):
        run_node.verdict(report, outcome("error", [("", "a\nb\nc")]))


@pytest.mark.parametrize(
    "text, version",
    [
        ('{"components": [{"name": "mlcluster.aws", "version": "1.2.3"}]}', "1.2.3"),
        ('{"components": null}', ""),
        ('{"components": ["mlcluster.aws"]}', ""),
        ("[]", ""),
        ("", ""),
    ],
)
def test_a_manifest_that_says_nothing_ends_no_run(tmp_path, monkeypatch, text, version):
    (tmp_path / "MANIFEST.json").write_text(text)
    monkeypatch.setattr(run_node, "BUNDLE", tmp_path)
    assert run_node._version() == version


def test_a_second_order_to_stop_does_not_break_into_what_puts_the_node_back():
    done = []
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(run_node.StopError, match="SIGTERM"), run_node._told_to_stop():
            try:
                # As logging does it with whatever happens while it writes a line.
                with contextlib.suppress(Exception):
                    os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                done.append("the timers are started")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done == ["the timers are started"]


def test_an_order_to_stop_after_the_play_breaks_into_no_report():
    before = signal.getsignal(signal.SIGTERM)
    try:
        with run_node._told_to_stop():
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_log_has_its_time_to_be_copied_after_the_deadline(report, monkeypatch):
    armed = []
    monkeypatch.setattr(run_node.faulthandler, "dump_traceback_later", lambda after, **_more: armed.append(after))
    monkeypatch.setattr(run_node, "_reported", lambda report: 0)
    root = str(report.options.root)
    assert run_node.run(["--root", root, "--started-at", "0", "--deadline", "0"]) == 0
    assert armed and armed[0] > node_status.SHIP_SECONDS


def test_a_cluster_log_on_a_full_disk_is_passed_over(tmp_path, capfd):
    folder = tmp_path / "var/log/parallelcluster"
    folder.mkdir(parents=True)
    (folder / "mlcluster.log").symlink_to("/dev/full")
    words = ["--root", str(tmp_path), "--started-at", "0", "--deadline", "100"]
    node_status.Report(node_options.parse_options(words)).say("hello")
    told = capfd.readouterr().err
    assert "hello" in told and "Traceback" not in told
    # The next one gives back the files of this one.
    log.setup("again", str(tmp_path))


def test_no_variable_makes_a_role_reboot_the_node():
    node = node_facts.Node("compute", "", "", "", "", ())
    given = {"efa_nccl_reboot_allowed": True, "a": 1}
    found = run_node.extra_variables([Role("efa_nccl", True)], given, Path("/r"), node)
    assert found["efa_nccl_reboot_allowed"] is False and found["a"] == 1
    assert found["configure_node_roles"] == [{"name": "mlcluster.aws.efa_nccl", "key": "efa_nccl", "required": True}]


HANGING = """
import sys, time
sys.path[:0] = [".collections", "."]
from hooks import run_node
run_node.GRACE_SECONDS = 0.1
run_node._reported = lambda report: time.sleep(600)
run_node.run(["--root", sys.argv[1], "--started-at", "0", "--deadline", "0"])
"""


def test_a_runner_that_hangs_after_the_deadline_ends_itself_and_says_where_it_was(tmp_path):
    command = [sys.executable, "-c", HANGING, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Timeout" in done.stderr and "in run" in done.stderr
