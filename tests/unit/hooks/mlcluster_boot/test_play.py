# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import ansible_runner
import pytest

from hooks.mlcluster_boot import play, stop
from tests.rig.slurm.processes import wait_for
from tests.unit.parser_help import without_help

PROGRAM = [sys.executable, "-m", "mlcluster_boot.play"]
ROOT = Path(play.__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'hooks'}{os.pathsep}{ROOT / '.collections'}"}
PLAY = "- name: Configure\n  hosts: {hosts}\n  gather_facts: false\n  tasks:\n"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "hosts.ini").write_text(
        f"[nodes]\nlocalhost ansible_connection=local ansible_python_interpreter={sys.executable}\n"
    )
    return tmp_path


def run(project, tasks, hosts="nodes", **options):
    playbook = project / "play.yml"
    playbook.write_text(PLAY.format(hosts=hosts) + tasks)
    stream = io.StringIO()
    outcome = play.run_playbook(
        playbook,
        inventories=[str(project / "hosts.ini")],
        report_dir=project / "reports",
        project_dir=project,
        stream=stream,
        **options,
    )
    return outcome, stream.getvalue()


def test_real_run_leaves_private_report_and_nothing_else(project, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    before = signal.getsignal(signal.SIGTERM)
    tasks = """
    - name: Show
      ansible.builtin.debug:
        msg: "{{ word }} {{ lookup('env', 'ANSIBLE_HOST_KEY_CHECKING') }}"
    - name: Change
      ansible.builtin.set_stats:
        data: {}
      changed_when: true
"""
    outcome, text = run(project, tasks, extra_vars={"word": "from-a-file"})
    assert (outcome.state, outcome.exit_code) == ("successful", 0)
    assert outcome.status["hosts"]["localhost"]["ok"] == 2
    assert outcome.status["hosts"]["localhost"]["changed"] == 1
    assert [task["task"] for task in outcome.status["tasks"]] == ["Show", "Change"]
    assert "s] Show\n" in text
    assert json.loads(outcome.status_file.read_text())["state"] == "successful"
    log = outcome.log_file.read_text()
    assert "from-a-file True" in log
    assert "\x1b" not in log
    directory = outcome.status_file.parent
    assert sorted(entry.name for entry in directory.iterdir()) == ["ansible.log", "status.json"]
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(entry.stat().st_mode) for entry in directory.iterdir()} == {0o600}
    assert (project / "reports" / "latest").resolve() == directory.resolve()
    assert not any("very-secret" in path.read_text() for path in directory.iterdir())
    assert signal.getsignal(signal.SIGTERM) is before


def test_failing_task_is_reported_with_host_task_and_message(project):
    outcome, text = run(project, "    - name: Break it\n      ansible.builtin.fail:\n        msg: the disk is gone\n")
    assert (outcome.state, outcome.exit_code) == ("failed", 1)
    assert "FAILED localhost | Break it\n    the disk is gone\n" in text
    assert outcome.status["failures"][0]["message"] == "the disk is gone"
    assert any(line.startswith("  failed after ") for line in outcome.lines())


def test_no_host_is_not_success(project):
    outcome, text = run(project, "    - name: Show\n      ansible.builtin.ping:\n", hosts="gpu")
    assert (outcome.state, outcome.exit_code) == ("no_hosts", 2)
    assert "no host was configured" in text


def test_unreadable_playbook_shows_output_of_ansible(project):
    outcome, text = run(project, "    - name: Show\n      nosuch.module:\n    nonsense\n")
    assert (outcome.state, outcome.exit_code) == ("error", 2)
    assert "ansible-playbook stopped before it had a result" in text
    assert "play.yml" in text


def left_behind(project):
    """Return the command lines of processes that still work for a run in this project."""
    lines = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            lines.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if "ansible-playbook" in line and (str(project) in line)]


WAIT = "    - name: Wait\n      ansible.builtin.pause:\n        seconds: 3600\n"


def leaping(module, monkeypatch, name):
    """A clock of the module is an hour further from when what is returned is set: how long it takes does not count."""
    begun = threading.Event()
    clock = types.SimpleNamespace(sleep=time.sleep, time=time.time, monotonic=time.monotonic)
    read = getattr(time, name)
    setattr(clock, name, lambda: read() + 3600 * begun.is_set())
    monkeypatch.setattr(module, "time", clock)
    return begun


def test_time_over_is_no_verdict(project, monkeypatch):
    begun = leaping(stop, monkeypatch, "monotonic")

    def watch(status):
        if status["task"] == "Wait":
            begun.set()

    outcome, text = run(project, WAIT, timeout=600, watch=watch)
    assert (outcome.state, outcome.exit_code) == ("timeout", 2)
    assert "the run was stopped (timeout) at Wait" in text
    assert left_behind(project) == []


def test_clock_corrected_during_run_does_not_end_it(project, monkeypatch):
    begun = leaping(ansible_runner.runner, monkeypatch, "time")

    def watch(status):
        if status["task"] == "Wait":
            begun.set()

    # It takes as long as ansible-runner needs to look at its clock a few times.
    outcome, _text = run(project, WAIT.replace("3600", "3"), timeout=600, watch=watch)
    assert begun.is_set() and outcome.state == "successful"


def test_command_line_passes_arguments_on_and_signal_ends_it(project):
    playbook = project / "play.yml"
    playbook.write_text(
        PLAY.format(hosts="nodes") + "    - name: Wait\n      ansible.builtin.pause:\n        seconds: 3600\n"
    )
    command = [*PROGRAM, str(playbook), "-i", "hosts.ini", "--", "--limit", "localhost"]
    environment = {**ENVIRONMENT, "XDG_CACHE_HOME": str(project)}
    child = subprocess.Popen(command, cwd=project, env=environment, stdout=subprocess.PIPE, text=True)
    status_file = project / "mlcluster" / "reports" / "latest" / "status.json"
    wait_for("the task", lambda: status_file.exists() and json.loads(status_file.read_text())["task"] == "Wait")
    child.send_signal(signal.SIGTERM)
    out, _err = child.communicate()
    assert child.returncode == 2
    assert "the run was stopped (canceled) at Wait" in out
    assert json.loads(status_file.read_text())["state"] == "canceled"
    assert left_behind(project) == []


@pytest.mark.parametrize("argv", [[], ["play.yml", "--timeout", "soon"], ["play.yml", "extra"]])
def test_usage_errors_end_with_three(argv):
    done = subprocess.run([*PROGRAM, *argv], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "usage: mlcluster_boot.play" in done.stderr


def test_report_directory_that_cannot_be_made_is_reported(project, capsys):
    (project / "file").write_text("")
    assert play.main(["play.yml", "--report-dir", str(project / "file" / "x")]) == 2
    assert "--report-dir" in capsys.readouterr().err


def test_old_reports_are_pruned_and_other_files_left(tmp_path):
    for day in range(1, 5):
        (tmp_path / f"2026010{day}T000000Z-1").mkdir()
    (tmp_path / "notes").mkdir()
    made = play.Run("site.yml", tmp_path, io.StringIO(), keep=2)
    made.log.close()
    assert sorted(os.listdir(tmp_path)) == sorted(["20260104T000000Z-1", made.directory.name, "latest", "notes"])


def test_clock_set_back_keeps_report_of_run(tmp_path):
    later = [f"2999010{day}T000000Z-1" for day in range(1, 5)]
    for name in later:
        (tmp_path / name).mkdir()
    made = play.Run("site.yml", tmp_path, io.StringIO(), keep=2)
    made.log.close()
    assert made.status_file.is_file()
    assert sorted(os.listdir(tmp_path)) == sorted([later[-1], made.directory.name, "latest"])


def test_full_disk_is_reported_once_and_does_not_end_run(tmp_path, monkeypatch):
    stream = io.StringIO()
    made = play.Run("site.yml", tmp_path, stream, keep=2)

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(play, "write_json", full)
    made.save()
    made.save()
    made.log.close()
    made.event({"event": "playbook_on_task_start", "stdout": "TASK", "event_data": {"task": "Look"}})
    assert stream.getvalue().count("No space left on device") == 1
    assert "Look" in stream.getvalue()


def test_event_that_breaks_tracker_is_logged_and_not_raised(tmp_path, monkeypatch):
    made = play.Run("site.yml", tmp_path, io.StringIO(), keep=2)
    monkeypatch.setattr(made.tracker, "handle", lambda event: 1 / 0)
    assert made.event({"event": "odd"}) is False
    assert "event odd was not understood: ZeroDivisionError" in made.log_file.read_text()


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(play.time, "monotonic", clock)
    return clock


def test_plain_output_has_line_at_each_task_and_after_silence(clock):
    stream = io.StringIO()
    display = play.Display(stream)
    clock.now = 101
    display.task("r : Look")
    for clock.now in range(102, 125):
        display.tick()
    assert stream.getvalue().splitlines() == [
        "[   1s] r : Look",
        "[  11s] still at r : Look (10s)",
        "[  21s] still at r : Look (20s)",
    ]


def test_terminal_has_one_updating_line_no_wider_than_itself(clock, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    display = play.Display(stream)
    display.task("nvme_raid0 : Look at the disks")
    display.line("FAILED")
    display.end()
    assert stream.getvalue() == "\r\x1b[K[   0s] nvme_raid0 \r\x1b[KFAILED\n\r\x1b[K"


def test_closed_stream_does_not_end_run():
    stream = io.StringIO()
    display = play.Display(stream)
    stream.close()
    display.line("unheard")


def test_help_explains_every_argument():
    assert list(without_help(play._parser())) == []
