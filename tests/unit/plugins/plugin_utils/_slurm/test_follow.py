# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.mlcluster.aws.plugins.plugin_utils._slurm.follow import Entry, Follow, Wishes, sentence


def job(state, **more):
    return {"state": state, "nodes": None, "reason": None, "restarts": 0, "exit_code": None, "ok": False, **more}


def goes_on(state, **more):
    """What slurm_job gives when the wait is over before the job."""
    return {"failed": True, "msg": "waited 10 seconds", "job": job(state, **more)}


def ended(state, **more):
    return {"failed": False, "job": job(state, ok=state == "COMPLETED", **more)}


SILENT = {"failed": True, "msg": "asked for job 1 for 10 seconds and the controller did not answer: it may go on"}


# What Ansible gives of a module that was killed, as by the kernel for want of memory.
KILLED = {"failed": True, "msg": "MODULE FAILURE", "module_stdout": "", "module_stderr": "", "rc": -9}


class Scene:
    """Answers by job, one after the other, the last one again and again; a clock that moves with each look."""

    def __init__(self, answers, timeout=100.0, cancel=False):
        self.answers = {number: list(given) for number, given in answers.items()}
        self.lines, self.asked, self.now = [], [], 0.0
        self.entries = [Entry(f"job{number}", number, None) for number in answers]
        Follow(self.look, self.lines.append, lambda: self.now, Wishes(timeout, 10.0, cancel)).run(self.entries)

    def look(self, entry, seconds, cancel):
        given = self.answers[entry.job_id]
        answer = given.pop(0) if len(given) > 1 else given[0]
        self.asked.append((entry.job_id, seconds, cancel))
        self.now += seconds if answer.get("failed") else min(seconds, 1.0)
        return answer


def test_each_change_is_a_line_and_nothing_is_said_twice():
    waits = goes_on("PENDING", reason="Priority")
    scene = Scene(
        {
            1: [waits, goes_on("RUNNING", nodes="n1"), ended("COMPLETED", nodes="n1")],
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


def test_what_goes_on_is_spoken_of_every_minute():
    scene = Scene({1: [goes_on("RUNNING", elapsed_seconds=5)]}, timeout=200)
    assert scene.lines.count("job1: job 1 RUNNING, 5 s") == 4


def test_an_end_that_is_seen_early_is_not_asked_for_again():
    scene = Scene({1: [goes_on("RUNNING"), goes_on("RUNNING"), ended("COMPLETED")], 2: [ended("COMPLETED"), SILENT]})
    assert [entry.result()["failed"] for entry in scene.entries] == [False, False]
    assert [number for number, _seconds, _cancel in scene.asked].count(2) == 1


def test_silence_is_no_end_and_is_said_once():
    unreachable = {"failed": True, "unreachable": True, "msg": "ssh: no route"}
    scene = Scene({1: [goes_on("RUNNING"), SILENT, SILENT, unreachable, ended("COMPLETED")]})
    assert scene.lines == ["job1: job 1 RUNNING", "job1: job 1 nobody answers", "job1: job 1 COMPLETED"]
    assert sentence(scene.entries[0]) is None


def test_time_that_is_over_cancels_only_where_it_was_wished():
    scene = Scene({1: [goes_on("RUNNING")], 2: [ended("COMPLETED")]}, timeout=25)
    assert not any(cancel for _number, _seconds, cancel in scene.asked)
    told = "waited 25 seconds for the end of job 1 and it is RUNNING: it goes on, and job_id follows it further"
    assert (scene.entries[0].msg, scene.entries[1].over) == (told, True)
    scene = Scene({1: [goes_on("RUNNING"), goes_on("RUNNING"), goes_on("CANCELLED")]}, timeout=25, cancel=True)
    assert [cancel for _number, _seconds, cancel in scene.asked] == [False, False, True]
    assert scene.entries[0].msg.endswith("it is CANCELLED: it was cancelled")
    assert scene.entries[0].result()["failed"] and scene.entries[0].result()["job"]["state"] == "CANCELLED"


def test_a_look_that_can_tell_nothing_ends_the_wait():
    missing = {"failed": True, "msg": "looked for scontrol and did not find it"}
    scene = Scene({1: [missing], 2: [missing]})
    assert [sentence(entry) for entry in scene.entries] == [f"job{number}: {missing['msg']}" for number in (1, 2)]
    assert scene.now < 100


def test_one_look_where_there_is_no_time():
    scene = Scene({1: [goes_on("RUNNING")]}, timeout=0)
    assert scene.asked == [(1, 0, False)]


def test_a_look_that_was_killed_ends_no_wait():
    scene = Scene({1: [goes_on("RUNNING", nodes="n1"), KILLED, ended("COMPLETED", nodes="n1")]})
    assert scene.lines == ["job1: job 1 RUNNING on n1", "job1: job 1 nobody answers", "job1: job 1 COMPLETED on n1"]
    assert [sentence(entry) for entry in scene.entries] == [None]


def test_nothing_is_called_cancelled_that_nobody_could_cancel():
    for unanswered in (SILENT, KILLED):
        scene = Scene({1: [goes_on("RUNNING", nodes="n1"), unanswered]}, timeout=30.0, cancel=True)
        assert scene.asked[-1] == (1, 10.0, True)
        assert sentence(scene.entries[0]) == (
            "job1: waited 30 seconds for the end of job 1 and it is RUNNING: it was to be cancelled and nobody "
            "answered, so it may go on: scancel 1"
        )
    scene = Scene({1: [goes_on("RUNNING", nodes="n1")]}, timeout=30.0, cancel=True)
    assert scene.entries[0].msg.endswith("it is RUNNING: it was cancelled")
