# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.client import Slurm
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm.follow import (
    Entry,
    Follow,
    Looker,
    Options,
    follow,
    sentence,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult

from tests.unit.plugins.module_utils._node.slurm.test_job import DOWN, Scripted, line, printed


def job(state, **more):
    return {"state": state, "nodes": None, "reason": None, "restarts": 0, "exit_code": None, "ok": False, **more}


def continues(state, **more):
    """Return a look whose wait ended before the job."""
    return {"failed": True, "msg": "waited 10 seconds", "job": job(state, **more)}


def ended(state, **more):
    return {"failed": False, "job": job(state, ok=state == "COMPLETED", **more)}


UNANSWERED = {
    "failed": True,
    "msg": "queried job 1 for 10 seconds and the controller did not answer: it may continue",
}


class Scene:
    """Answers by job, in order, the last one repeated; a clock that advances with each look."""

    def __init__(self, answers, timeout=100.0, cancel=False):
        self.answers = {number: list(given) for number, given in answers.items()}
        self.lines, self.asked, self.now = [], [], 0.0
        self.entries = [Entry(f"job{number}", number, None) for number in answers]
        Follow(self.look, self.lines.append, lambda: self.now, Options(timeout, 10.0, cancel)).run(self.entries)

    def look(self, entry, seconds, cancel):
        given = self.answers[entry.job_id]
        answer = given.pop(0) if len(given) > 1 else given[0]
        self.asked.append((entry.job_id, seconds, cancel))
        self.now += seconds if answer.get("failed") else min(seconds, 1.0)
        return answer


def test_each_change_is_reported_once():
    waits = continues("PENDING", reason="Priority")
    scene = Scene(
        {
            1: [waits, continues("RUNNING", nodes="n1"), ended("COMPLETED", nodes="n1")],
            2: [waits, waits, ended("FAILED", exit_code=3)],
        }
    )
    assert scene.lines == [
        "job1: job 1 PENDING (Priority)",
        "job2: job 2 PENDING (Priority)",
        "job1: job 1 RUNNING on n1",
        "job1: job 1 COMPLETED on n1",
        "job2: job 2 FAILED, exit status 3",
    ]
    assert [sentence(entry) for entry in scene.entries] == [None, "job2: job 2 is FAILED, exit status 3"]


def test_unchanged_job_is_reported_every_minute():
    scene = Scene({1: [continues("RUNNING", elapsed_seconds=5)]}, timeout=200)
    assert scene.lines.count("job1: job 1 RUNNING, 5 s") == 4


def test_early_end_is_not_looked_up_again():
    scene = Scene(
        {1: [continues("RUNNING"), continues("RUNNING"), ended("COMPLETED")], 2: [ended("COMPLETED"), UNANSWERED]}
    )
    assert [entry.over for entry in scene.entries] == [True, True]
    assert [number for number, _seconds, _cancel in scene.asked].count(2) == 1


def test_missing_answer_is_not_an_end_and_is_reported_once():
    scene = Scene({1: [continues("RUNNING"), UNANSWERED, UNANSWERED, ended("COMPLETED")]})
    assert scene.lines == ["job1: job 1 RUNNING", "job1: job 1 no answer", "job1: job 1 COMPLETED"]
    assert sentence(scene.entries[0]) is None


def test_timeout_cancels_only_on_request():
    scene = Scene({1: [continues("RUNNING")], 2: [ended("COMPLETED")]}, timeout=25)
    assert not any(cancel for _number, _seconds, cancel in scene.asked)
    message = "waited 25 seconds for the end of job 1 and it is RUNNING: it continues: scontrol show job 1"
    assert (scene.entries[0].msg, scene.entries[1].over) == (message, True)
    scene = Scene({1: [continues("RUNNING"), continues("RUNNING"), continues("CANCELLED")]}, timeout=25, cancel=True)
    assert [cancel for _number, _seconds, cancel in scene.asked] == [False, False, True]
    assert scene.entries[0].msg.endswith("it is CANCELLED: it was cancelled")
    assert not scene.entries[0].over and scene.entries[0].job["state"] == "CANCELLED"


def test_useless_look_ends_wait():
    missing = {"failed": True, "msg": "looked for scontrol and did not find it"}
    scene = Scene({1: [missing], 2: [missing]})
    assert [sentence(entry) for entry in scene.entries] == [f"job{number}: {missing['msg']}" for number in (1, 2)]
    assert scene.now < 100


def test_zero_timeout_looks_once():
    scene = Scene({1: [continues("RUNNING")]}, timeout=0)
    assert scene.asked == [(1, 0, False)]


def test_unanswered_cancel_is_not_reported_as_cancelled():
    scene = Scene({1: [continues("RUNNING", nodes="n1"), UNANSWERED]}, timeout=30.0, cancel=True)
    assert scene.asked[-1] == (1, 10.0, True)
    assert sentence(scene.entries[0]) == (
        "job1: waited 30 seconds for the end of job 1 and it is RUNNING: cancelling it got no "
        "answer, so it may continue: scancel 1"
    )
    scene = Scene({1: [continues("RUNNING", nodes="n1")]}, timeout=30.0, cancel=True)
    assert scene.entries[0].msg.endswith("it is RUNNING: it was cancelled")


def test_look_returns_job_and_end():
    host = Scripted(scontrol=[printed(line(7, "RUNNING")), printed(line(7, "FAILED", code="3:0"))])
    looker = Looker(Slurm(host, "/slurm"))
    first, second = (looker.look(Entry("small", 7, None), 0, False) for _look in range(2))
    assert (first["failed"], first["job"]["state"]) == (True, "RUNNING")
    assert (second["failed"], second["job"]["exit_code"]) == (False, 3)


def test_unanswered_look_has_no_job():
    """An answer to the previous look does not count for this one."""
    looker = Looker(Slurm(Scripted(scontrol=[printed(line(7, "RUNNING")), DOWN]), "/slurm"))
    entry = Entry("small", 7, None)
    assert "job" in looker.look(entry, 0, False)
    silent = looker.look(entry, 2, False)
    assert silent["failed"] and "job" not in silent and "the controller did not answer" in silent["msg"]


def test_look_cancels_only_on_request():
    answers = {"scontrol": [*[printed(line(7, "RUNNING"))] * 2, printed(line(7, "CANCELLED"))],
               "scancel": [CommandResult(0, "", "")]}  # fmt: skip
    host = Scripted(**answers)
    seen = Looker(Slurm(host, "/slurm")).look(Entry("small", 7, None), 0, True)
    assert seen["failed"] and seen["job"]["state"] == "CANCELLED"
    assert [call[-2].rpartition("/")[2] for call in host.calls if "/slurm/bin/scancel" in call] == ["scancel"]
    host = Scripted(scontrol=[printed(line(7, "RUNNING"))], scancel=[CommandResult(1, "", "no")])
    Looker(Slurm(host, "/slurm")).look(Entry("small", 7, None), 0, False)
    assert not any("/slurm/bin/scancel" in call for call in host.calls)


def test_lines_start_with_time_of_day():
    lines = []
    host = Scripted(scontrol=[printed(line(7, "COMPLETED"))])
    entry = Entry("small", 7, None)
    follow(Slurm(host, "/slurm"), [entry], lines.append, 10)
    (only,) = lines
    assert entry.over and only[2] == only[5] == ":" and only[8:] == " small: job 7 COMPLETED"
