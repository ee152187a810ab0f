# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that hang, crash or print, as real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.parallel import (
    Check,
    Job,
    Outcome,
    run_all,
    run_jobs,
    session_members,
    still_stuck,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import passed

from tests.rig.slurm.processes import started_at, wait_for

FOREVER = 3600


def good(name):
    return Check(name, lambda host: [passed(name, "well")], FOREVER)


@pytest.fixture
def run(tmp_path):
    return lambda *checks, seconds=FOREVER: run_all(Host(), checks, seconds, str(tmp_path / "state"))


def test_verdicts_come_in_order_of_checks_with_their_seconds(run):
    verdicts = run(good("a"), Check("b", lambda host: [passed("b.one", 1), passed("b.two", 2, seconds=0.5)], FOREVER))
    assert [(v.id, v.status, v.found) for v in verdicts] == [
        ("a", "pass", "well"),
        ("b.one", "pass", 1),
        ("b.two", "pass", 2),
    ]
    assert (verdicts[2].seconds, all(v.seconds is not None for v in verdicts)) == (0.5, True)


class Hurried(Host):
    """A host on which half an hour has passed as soon as a file exists."""

    def __init__(self, sign):
        self.sign = sign

    def monotonic(self):
        return super().monotonic() + 1800 * self.sign.exists()


def test_hanging_check_does_not_delay_others(tmp_path):
    """The time of each step depends on the machine."""

    def hang(host):
        program = subprocess.Popen(["sleep", str(FOREVER)])
        (tmp_path / "new").write_text(str(program.pid))
        (tmp_path / "new").rename(tmp_path / "pid")
        program.wait()

    def answer(host):
        wait_for("the other one", (tmp_path / "pid").exists)
        (tmp_path / "over").touch()
        return [passed("fine", "well")]

    checks = [Check("slow", hang, 600), Check("fine", answer, FOREVER)]
    slow, fine = run_all(Hurried(tmp_path / "over"), checks, FOREVER, str(tmp_path / "state"))
    reason = "no answer within 600.0 seconds"
    assert (slow.status, slow.reason, fine.status) == ("undeterminable", reason, "pass")
    # Its child is gone too.
    pid = int((tmp_path / "pid").read_text())
    wait_for("its end", lambda: started_at(pid) is None)


def test_limit_of_all_together_counts_as_well(run):
    slow, other = run(*(Check(name, lambda host: time.sleep(FOREVER), FOREVER) for name in "ab"), seconds=0.3)
    assert (slow.status, slow.reason) == ("undeterminable", "no answer within 0.3 seconds")
    # The other one has started later.
    assert (other.status, other.reason[:16]) == ("undeterminable", "no answer within")


def test_check_that_ignores_signals_is_ended(run):
    def deaf(host):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(FOREVER)

    assert run(Check("deaf", deaf, 0.3))[0].reason == "no answer within 0.3 seconds"


def test_check_that_crashes_reports_it(run):
    killed, failing = run(
        Check("killed", lambda host: os.kill(os.getpid(), signal.SIGKILL), FOREVER),
        Check("failing", lambda host: 1 / 0, FOREVER),
    )
    assert (killed.status, killed.reason) == ("undeterminable", "the process of this check crashed")
    assert failing.reason == "stopped by an unexpected ZeroDivisionError: division by zero"


def test_more_than_pipe_holds_and_process_that_keeps_pipe_open(run):
    long = Check("long", lambda host: [passed("long", "x" * 1_000_000)], FOREVER)

    def daemon(host):
        if os.fork() == 0:
            time.sleep(FOREVER)
        return [passed("daemon", "left a child")]

    found, left = run(long, Check("daemon", daemon, FOREVER))
    assert (len(found.found), left.status, left.found) == (1_000_000, "pass", "left a child")


def test_nothing_of_check_reaches_streams_of_its_caller(run, capfd):
    def chatter(host):
        os.write(1, b"noise")
        os.write(2, b"noise")
        subprocess.run(["echo", "noise"], check=True)
        return [passed("chatter", os.read(0, 10).decode() or "no input")]

    assert run(Check("chatter", chatter, FOREVER))[0].found == "no input"
    assert capfd.readouterr() == ("", "")


def test_check_outlives_its_parent_by_no_more_than_its_limit(tmp_path):
    def hang(host):
        mine = os.getppid()
        (tmp_path / "pid").write_text(str(os.getpid()))
        while os.getppid() == mine:
            time.sleep(0.01)
        (tmp_path / "left").write_text(str(signal.getitimer(signal.ITIMER_REAL)[0]))
        # Its hour passes at once.
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        time.sleep(FOREVER)

    parent = os.fork()
    if parent == 0:
        try:
            run_all(Host(), [Check("slow", hang, FOREVER)], FOREVER, str(tmp_path))
        finally:
            os._exit(0)
    wait_for("the check", lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    pid = int((tmp_path / "pid").read_text())
    wait_for("its end", lambda: started_at(pid) is None)
    assert 0 < float((tmp_path / "left").read_text()) <= FOREVER + 1


class Stuck(Host):
    """A host on which nvidia-smi of session 77 sleeps in the kernel; the format is that of proc(5)."""

    def __init__(self, state="D"):
        self.state = state

    def listdir(self, path):
        return ["1", "4711", "self"] if path == "/proc" else super().listdir(path)

    def read_text(self, path):
        lines = {
            "/proc/1/stat": "1 (systemd) S 0 1 1 0 -1 4194560 1 2\n",
            "/proc/4711/stat": f"4711 (nvidia-smi (x)) {self.state} 77 77 77 0 -1 4194560 1 2\n",
        }
        return lines[path] if path in lines else super().read_text(path)


def test_check_stuck_in_kernel_is_not_started_again(tmp_path):
    (tmp_path / "gpu").write_text("77\n")
    assert session_members(Stuck(), 77) == ["nvidia-smi (x) (pid 4711)"]
    started = tmp_path / "started"
    verdicts = run_all(Stuck(), [Check("gpu", lambda host: started.touch() or [], FOREVER)], FOREVER, str(tmp_path))
    assert (verdicts[0].status, started.exists()) == ("undeterminable", False)
    assert verdicts[0].reason == "nvidia-smi (x) (pid 4711) of an earlier run of this check still hangs in the kernel"


def test_once_it_is_gone_check_runs_again(tmp_path):
    (tmp_path / "gpu").write_text("77\n")
    assert run_all(Stuck("S"), [good("gpu")], FOREVER, str(tmp_path))[0].status == "pass"
    assert not (tmp_path / "gpu").exists()


@pytest.mark.parametrize("text", ["", "x", "-1", "77 78"])
def test_damaged_memory_stops_nothing(tmp_path, text):
    (tmp_path / "gpu").write_text(text)
    assert still_stuck(Stuck(), str(tmp_path), "gpu") is None


def refuse(host):
    raise NodeError("asked lspci and got no answer: install it")


def test_jobs_answer_by_name_and_keep_error_message(tmp_path):
    jobs = [Job("a", lambda host: {"plan": [1, None]}, FOREVER), Job("b", refuse, FOREVER)]
    outcomes = run_jobs(Host(), jobs, FOREVER, str(tmp_path))
    assert (outcomes["a"].answer, outcomes["a"].problem) == ({"plan": [1, None]}, None)
    assert (outcomes["b"].answer, outcomes["b"].problem) == (None, "asked lspci and got no answer: install it")


def test_job_that_still_hangs_has_hint(tmp_path):
    (tmp_path / "gpu").write_text("77\n")
    outcome = run_jobs(Stuck(), [Job("gpu", lambda host: 1, FOREVER)], FOREVER, str(tmp_path))["gpu"]
    assert outcome == Outcome(problem=outcome.problem, hint=outcome.hint)
    assert "state D" in outcome.hint
