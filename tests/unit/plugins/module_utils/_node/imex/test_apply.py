# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

import errno
import itertools
import json
import os

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex import apply, config, plan
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex.job import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.imex.look import look
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult, NodeError

from tests.unit.fakes.fake_imex_host import ADDRESSES, CHANNEL, NODES, TYPE, WHOLE, FakeImexHost, table

OPTIONS = config.Options(instance_type=TYPE, seconds=5)
JOB = Job(7, 0, "n1", True, ADDRESSES)


def make(host, job=JOB):
    facts = {**look(host, OPTIONS), "prologs": {}, "switch": None}
    (result,) = apply.make(host, OPTIONS, job, facts, plan.make_plan(OPTIONS, job, facts))
    return result


def record(host):
    return json.loads(host.files[config.RECORD])


def test_domain_comes_up():
    host = FakeImexHost()
    result = make(host)
    assert (result.id, result.status, result.found) == ("imex.domain", "pass", {"nodes": 3, "version": "580.95.05"})
    assert host.device == (234, 0, 0o666) and host.files[NODES].count("\n") == 3
    assert [line for line in host.ran if line.startswith("systemctl re")] == [
        "systemctl reset-failed nvidia-imex.service",
        "systemctl restart nvidia-imex.service",
    ]
    assert (record(host)["state"], record(host)["members"]) == ("ready", sorted(ADDRESSES.values()))


def test_nodes_outside_domain_are_reported():
    result = make(FakeImexHost(), Job(7, 0, "n1", True, ADDRESSES, ("n4",)))
    assert result.line().endswith("1 nodes of the job are in other blocks, and not in this domain")


def test_wait_for_domain_ends_at_deadline():
    host = FakeImexHost()
    host.tables = [table(["C N N", "I I I", "I I I"], ["INIT_GPU", "UNAVAILABLE", "UNAVAILABLE"]), "", WHOLE]
    assert make(host).status == "pass"
    assert host.clock == pytest.approx(0.025)


def test_pauses_between_questions_grow_up_to_limit():
    host = FakeImexHost()
    host.tables = [table(["C N N", "I I I", "I I I"], ["INIT_GPU", "UNAVAILABLE", "UNAVAILABLE"])] * 40 + [WHOLE]
    pauses = []
    sleep = host.sleep
    host.sleep = lambda seconds: (pauses.append(seconds), sleep(seconds))
    make(host)
    assert pauses[0] == 0.01 and pauses == sorted(pauses) and pauses[-1] == 0.25
    # A second of waiting is ten questions at most, and the first tenth of it five.
    assert (sum(1 for clock in itertools.accumulate(pauses) if clock <= 1), pauses[:3]) == (10, [0.01, 0.015, 0.0225])


def test_running_domain_of_same_start_is_not_restarted():
    host = FakeImexHost()
    make(host)
    host.ran.clear()
    assert make(host).status == "pass"
    assert not [line for line in host.ran if "restart" in line]


@pytest.mark.parametrize(
    ("rows", "severity", "blame", "part"),
    [
        (["C N N", "C C C", "C C C"], "reset", "own", "10.0.0.2 is not joined (N)"),
        (["C C N", "C C N", "I I I"], "monitor", "peer", "10.0.0.3 is not joined (N)"),
        (["C C C", "N C C", "C C C"], "monitor", "peer", "10.0.0.2 does not see this node (N)"),
    ],
)
def test_blame_for_disconnected_pair(rows, severity, blame, part):
    host = FakeImexHost()
    host.tables = [table(rows)]
    result = make(host)
    assert (result.status, result.severity) == ("fail", severity) and part in result.message
    assert (record(host)["state"], record(host)["blame"]) == ("failed", blame)
    assert host.clock == pytest.approx(5, abs=apply.LONGEST_POLL)


def test_mismatch_of_versions_is_not_waited_for():
    host = FakeImexHost()
    host.tables = [table(["C !V! !V!", "!V! C C", "!V! C C"], versions=["570.1", "580.95.05", "580.95.05"])]
    result = make(host)
    assert (result.status, result.severity, host.clock) == ("fail", "reset", 0.0)
    assert "10.0.0.2 is not joined (!V!)" in result.message


def test_daemon_that_cannot_start_ends_wait_with_its_log():
    host = FakeImexHost()
    host.after_restart = None
    host.files[config.LOG] = "[Nov 28] [ERROR] [tid 9] of an earlier start\n"
    host.logs = "[INFO] x\n[Nov 29] [ERROR] [tid 1] failed to bind to port 21007\n[INFO] y\n"
    result = make(host)
    assert (result.id, result.status, host.clock) == ("imex.service", "fail", 0.0)
    assert result.message == "the daemon did not start: failed to bind to port 21007"


@pytest.mark.parametrize(("logs", "before"), [("[INFO] x\n", "y" * 9), ("", "")])
def test_error_of_earlier_start_is_no_reason(logs, before):
    host = FakeImexHost()
    host.after_restart, host.logs = None, logs
    host.files[config.LOG] = f"[Nov 28] [ERROR] [tid 9] of an earlier start {before}\n"
    assert "earlier" not in make(host).message


def test_new_log_is_read_whole():
    host = FakeImexHost()
    host.after_restart, host.logs = None, "[ERROR] again\n"
    host.files[config.LOG] = "[INFO] long\n" * 99
    run = host.run

    def rotated(argv, *more, **options):
        if argv[:2] == ["systemctl", "restart"]:
            host.files[config.LOG] = ""
        return run(argv, *more, **options)

    host.run = rotated
    assert make(host).message == "the daemon did not start: again"


@pytest.mark.parametrize(("mode", "active"), [("required", "inactive"), ("best_effort", "active")])
def test_daemon_of_unstarted_job_is_ended(mode, active):
    host = FakeImexHost()
    host.tables = [table(["C N N", "C C C", "C C C"])]
    facts = {**look(host, OPTIONS), "prologs": {}, "switch": None}
    options = config.Options(mode, instance_type=TYPE, seconds=1)
    apply.make(host, options, JOB, facts, plan.make_plan(options, JOB, facts))
    assert host.unit["ActiveState"] == active


@pytest.mark.parametrize(("status", "severity", "blame"), [("READY", "monitor", "peer"), ("INIT_GPU", "reset", "own")])
def test_missing_table_is_blamed_on_node_not_ready(status, severity, blame):
    host = FakeImexHost()
    host.tables, host.status = [""], status
    result = make(host)
    assert (result.status, result.severity, record(host)["blame"]) == ("fail", severity, blame)
    assert ("this node is READY, and not all others answer" in result.message) == (blame == "peer")
    # Not at each of the questions before: a daemon that has just been started has no table yet.
    assert sum(line.endswith(" -q") for line in host.ran) == 1


def test_daemon_that_ends_at_once_ends_wait():
    host = FakeImexHost()
    host.after_restart, host.tables = "failed", [""]
    result = make(host)
    assert (result.id, host.clock) == ("imex.service", 0.0)
    assert result.message == "the daemon does not run: ActiveState is failed"


def test_refusal_touches_nothing():
    host = FakeImexHost()
    host.unit["LoadState"] = "masked"
    assert (make(host).status, host.device, host.files[NODES]) == ("fail", None, "0.0.0.0\n0.0.0.0\n")
    assert (record(host)["state"], record(host)["blame"]) == ("failed", "own")


def test_unconcerned_job_leaves_no_record():
    host = FakeImexHost()
    assert make(host, Job(7, 0, "n1", False, {})).status == "not_applicable"
    assert config.RECORD not in host.files


def test_channel_that_cannot_be_made_is_failure(monkeypatch):
    host = FakeImexHost()

    def refuse(*_arguments):
        raise PermissionError(1, "Operation not permitted", CHANNEL)

    monkeypatch.setattr(host, "make_character_device", refuse)
    assert "Operation not permitted" in make(host).message


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("path", [NODES, "/etc/nvidia-imex/config.cfg"])
def test_file_that_cannot_be_written_is_failure(number, path):
    host = FakeImexHost()
    write = host.write_text

    def refuse(name, text, mode=0o644):
        if name == path:
            raise OSError(number, os.strerror(number), "/etc/nvidia-imex/.fresh")
        write(name, text, mode)

    host.write_text = refuse
    message = f"could not write {path} ({os.strerror(number)}): look with 'df' and 'mount'"
    assert make(host).message == message
    assert (record(host)["state"], record(host)["blame"], host.device) == ("failed", "own", None)
    assert not [line for line in host.ran if "restart" in line]


def test_record_that_cannot_be_written_starts_no_daemon():
    host = FakeImexHost()

    def refuse(name, _text, _mode=0o644):
        raise OSError(errno.ENOSPC, "No space left on device", name)

    host.write_text = refuse
    with pytest.raises(NodeError, match=r"could not write /run/mlcluster/imex\.json"):
        make(host)
    assert not [line for line in host.ran if "restart" in line]


def test_epilog_takes_domain_away():
    host = FakeImexHost()
    make(host)
    (result,) = apply.remove_domain(host, OPTIONS, 7)
    assert (result.status, host.unit["ActiveState"]) == ("pass", "inactive")
    assert config.RECORD not in host.files


def test_health_check_during_epilog_finds_nothing_wrong(monkeypatch):
    host = FakeImexHost()
    make(host)
    seen = []
    run = host.run

    def watched(argv, *more, **options):
        done = run(argv, *more, **options)
        if argv[:2] == ["systemctl", "stop"]:
            seen.extend(apply.status(host, OPTIONS, Slurm(host)))
        return done

    monkeypatch.setattr(host, "run", watched)
    apply.remove_domain(host, OPTIONS, 7)
    assert [(one.id, one.status) for one in seen][:2] == [("imex.service", "pass"), ("imex.domain", "not_applicable")]


def test_epilog_of_another_job_leaves_it():
    host = FakeImexHost()
    make(host)
    (result,) = apply.remove_domain(host, OPTIONS, 8)
    assert (result.status, host.unit["ActiveState"]) == ("not_applicable", "active")


def test_record_of_own_fault_outlives_job():
    host = FakeImexHost()
    host.after_restart = None
    make(host)
    apply.remove_domain(host, OPTIONS, 7)
    assert record(host)["state"] == "failed"
    (service,) = [one for one in apply.status(host, OPTIONS, Slurm(host)) if one.id == "imex.service"]
    assert (service.status, service.severity) == ("fail", "reset")
    apply.forget(host, OPTIONS, Slurm(host))
    assert config.RECORD not in host.files


@pytest.mark.parametrize("after_restart", [None, "active"])
def test_daemon_that_does_not_stop_is_not_taken_away(monkeypatch, after_restart):
    host = FakeImexHost()
    host.after_restart = after_restart
    make(host)
    answer, refused = host._answer, CommandResult(1, "", "Failed to stop nvidia-imex.service")
    monkeypatch.setattr(host, "_answer", lambda line: refused if "systemctl stop" in line else answer(line))
    (result,) = apply.remove_domain(host, OPTIONS, 7)
    assert (result.status, result.severity) == ("fail", "monitor")


GONE = {
    "COMPLETED": "JobId=7 JobName=x UserId=a(1) JobState=COMPLETED Restarts=0 NodeList=n[1-3]\n",
    "PENDING": "JobId=7 JobName=x UserId=a(1) JobState=PENDING Restarts=1\n",
    "started again": "JobId=7 JobName=x UserId=a(1) JobState=RUNNING Restarts=1 NodeList=n[4-6]\n",
}
STAYS = {
    "COMPLETING": "JobId=7 JobName=x UserId=a(1) JobState=COMPLETING Restarts=0 NodeList=n[1-3]\n",
    "SUSPENDED": "JobId=7 JobName=x UserId=a(1) JobState=SUSPENDED Restarts=0 NodeList=n[1-3]\n",
    "another": "JobId=8 JobName=x UserId=a(1) JobState=COMPLETED Restarts=0\n",
    "twice": GONE["COMPLETED"] * 2,
}


@pytest.mark.parametrize(
    ("text", "idle"), [*((text, True) for text in GONE.values()), *((text, False) for text in STAYS.values())]
)
def test_domain_with_lost_epilog_is_ended(text, idle):
    host = FakeImexHost()
    make(host)
    # Its peers are gone, which would be this node's fault.
    host.tables, host.slurm["show job"] = [table(["C D D", "I I I", "I I I"])], text
    found = {one.id: one.status for one in apply.status(host, OPTIONS, Slurm(host))}
    assert (found["imex.domain"] == "not_applicable") is idle and (found["imex.service"] == "pass")
    if idle:
        assert apply.forget(host, OPTIONS, Slurm(host))[0].status == "pass" and config.RECORD not in host.files


@pytest.mark.parametrize(
    ("part", "idle"), [("slurm_load_jobs error: Invalid job id specified", True), ("Unable to contact", False)]
)
def test_job_unknown_to_slurm_has_no_domain(part, idle):
    host = FakeImexHost()
    make(host)
    answer, refused = host._answer, CommandResult(1, "", part)
    host._answer = lambda line: refused if "show job" in line else answer(line)
    found = {one.id: one.status for one in apply.status(host, OPTIONS, Slurm(host))}
    assert (found["imex.domain"] == "not_applicable") is idle


@pytest.mark.parametrize(("mode", "severity"), [("required", "reset"), ("best_effort", "monitor")])
def test_severity_depends_on_need_for_domain(mode, severity):
    host = FakeImexHost()
    host.unit["LoadState"] = "masked"
    options = config.Options(mode, instance_type=TYPE)
    (service,) = [one for one in apply.status(host, options, Slurm(host)) if one.id == "imex.service"]
    assert (service.status, service.severity) == ("fail", severity)


def test_status_where_nothing_is_done_for_jobs():
    host = FakeImexHost()
    (only,) = apply.status(host, config.Options("none", instance_type=TYPE), Slurm(host))
    assert (only.status, host.ran) == ("not_applicable", [])


def test_domain_of_running_job_is_not_forgotten():
    host = FakeImexHost()
    make(host)
    with pytest.raises(NodeError, match="job 7 has its domain here"):
        apply.forget(host, OPTIONS, Slurm(host))


def test_status_of_idle_node_is_good():
    host = FakeImexHost()
    found = {one.id: one.status for one in apply.status(host, OPTIONS, Slurm(host))}
    assert found == {"imex.service": "pass", "imex.domain": "not_applicable", "imex.channel": "not_applicable"}


def test_status_while_job_has_its_domain():
    host = FakeImexHost()
    make(host)
    assert {one.status for one in apply.status(host, OPTIONS, Slurm(host))} == {"pass"}
    host.unit["ActiveState"] = "failed"
    found = {one.id: one for one in apply.status(host, OPTIONS, Slurm(host))}
    assert (found["imex.service"].status, found["imex.service"].severity) == ("fail", "reset")
    assert "job 7 needs it: ActiveState is failed" in found["imex.service"].message
    assert found["imex.domain"].status == "undeterminable"
