# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import outcome as slurm_result
from ansible_collections.mlcluster.aws.plugins.module_utils._node.slurm import parse


def job(state: str, code: int = 0, **other) -> dict:
    return {**slurm_result.blank(7), "state": state, "exit_code": code, **other}


def test_array_has_state_of_worst_task():
    tasks = [
        job("COMPLETED", nodes="n1", elapsed_seconds=3),
        job("FAILED", 3, nodes="n2", elapsed_seconds=9, restarts=1),
        job("FAILED", 7, nodes="n2"),
        job("CANCELLED"),
    ]
    found = slurm_result.summary(tasks)
    assert (found["state"], found["exit_code"], found["nodes"], found["elapsed_seconds"], found["restarts"]) == (
        "FAILED",
        7,
        "n1,n2",
        9,
        1,
    )
    assert slurm_result.summary([*tasks, job("RUNNING")])["state"] == "RUNNING"
    assert slurm_result.summary([*tasks, job("LOST")])["state"] == "LOST"


@pytest.mark.parametrize(
    ("states", "ok"),
    [
        ([("COMPLETED", 0), ("COMPLETED", 0)], True),
        ([("COMPLETED", 0), ("LOST", None)], False),
        ([("COMPLETED", 0), ("RUNNING", 0)], False),
        ([("COMPLETED", 1)], False),
        ([("CANCELLED", 0)], False),
    ],
)
def test_only_zero_exit_of_all_parts_is_success(states, ok):
    assert slurm_result.summary([job(*state) for state in states])["ok"] is ok


@pytest.mark.parametrize(
    ("state", "reason", "settled"),
    [
        ("RUNNING", None, False),
        ("COMPLETING", None, False),
        ("PENDING", "Resources", False),
        ("PENDING", "BeginTime", False),
        ("PENDING", "DependencyNeverSatisfied", True),
        ("NODE_FAIL", None, True),
    ],
)
def test_settled_states(state, reason, settled):
    assert slurm_result.settled([job("COMPLETED"), job(state, reason=reason)]) is settled
    assert not slurm_result.settled([])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0\n", ("COMPLETED", 0, 0)),
        (" 3 ", ("FAILED", 3, 0)),
        ("137", ("FAILED", 137, 9)),
        ("128", ("FAILED", 128, 0)),
        ("129", ("FAILED", 129, 1)),
        ("192", ("FAILED", 192, 64)),
        ("193", ("FAILED", 193, 0)),
        ("1", ("FAILED", 1, 0)),
        ("255", ("FAILED", 255, 0)),
        ("", None),
        (None, None),
        ("0 1", None),
        ("-1", None),
    ],
)
def test_exit_file_is_parsed(text, expected):
    found = slurm_result.from_exit_file(7, text)
    assert (found and (found["state"], found["exit_code"], found["signal"])) == expected


def test_job_of_which_only_number_is_known():
    found = slurm_result.blank(7)
    assert (found.pop("job_id"), found.pop("state"), found.pop("signal"), found.pop("restarts")) == (7, "LOST", 0, 0)
    assert set(found.values()) == {None}


def test_array_is_named_by_its_own_number():
    tasks = [job("FAILED", 3, job_id=9, array_job_id=7), job("FAILED", 3, job_id=8, array_job_id=7, signal=9)]
    found = slurm_result.summary(tasks)
    assert (found["job_id"], found["signal"], found["elapsed_seconds"], found["nodes"]) == (7, 9, None, None)
    assert slurm_result.summary([job("FAILED", 3)])["job_id"] == 7


def test_part_without_exit_status_comes_after_others():
    found = slurm_result.summary([job("FAILED", None, signal=1), job("FAILED", 2, signal=3), job("FAILED", 0)])
    assert (found["exit_code"], found["signal"]) == (2, 3)
    # Of equal parts the one with the lowest number counts.
    found = slurm_result.summary([job("LOST", None, job_id=9, reason="b"), job("LOST", 0, job_id=8, reason="a")])
    assert (found["job_id"], found["reason"]) == (8, "a")
    # No exit status is less than the status 1, and no number less than the number 1.
    assert slurm_result.summary([job("FAILED", None, job_id=1), job("FAILED", 1, job_id=2)])["exit_code"] == 1
    assert slurm_result.summary([job("FAILED", job_id=1), job("FAILED", job_id=None)])["job_id"] is None


def test_earlier_values_fill_only_gaps():
    earlier = job("RUNNING", 5, signal=9, stdout="/old", stderr="/e", name="x")
    found = slurm_result.merged(job("LOST", None, stdout="/new"), earlier)
    assert (found["state"], found["exit_code"], found["signal"]) == ("LOST", None, 0)
    assert (found["stdout"], found["stderr"], found["name"]) == ("/new", "/e", "x")
    assert slurm_result.merged(job("LOST", None), None) == job("LOST", None)


def test_later_look_keeps_earlier_values():
    earlier = job("RUNNING", 0, stdout="/o", restarts=1, reason="None")
    found = slurm_result.merged(job("FAILED", 3), earlier)
    assert (found["state"], found["exit_code"], found["stdout"], found["restarts"], found["reason"]) == (
        "FAILED",
        3,
        "/o",
        1,
        None,
    )


@pytest.mark.parametrize(
    ("found", "tail", "sentence"),
    [
        (job("FAILED", 3, nodes="n1"), "a\nb\n", "job 7 ended FAILED with exit status 3 on n1; it last wrote: b"),
        (job("FAILED", 3, reason="NonZeroExitCode"), "", "job 7 ended FAILED with exit status 3; it wrote nothing"),
        (job("FAILED", 3), "\n \n", "job 7 ended FAILED with exit status 3; it wrote nothing"),
        (job("FAILED", 0, signal=9), "", "job 7 ended FAILED by signal 9; it wrote nothing"),
        (job("NODE_FAIL", 0, reason="NodeDown"), "", "job 7 ended NODE_FAIL (NodeDown); it wrote nothing"),
        (
            job("LOST", None),
            "",
            "looked for job 7 and neither the controller, nor the accounting, nor an exit file knows",
        ),
        (job("PENDING", 0, reason="BadConstraints"), "", "job 7 never starts (BadConstraints): no set of nodes can"),
    ],
)
def test_outcome_is_one_sentence(found, tail, sentence):
    assert slurm_result.sentence(found, tail).startswith(sentence)


HET = "JobId={0} HetJobId=7 HetJobOffset={1} JobName=x UserId=a(1) JobState={2} ExitCode={3} NodeList={4}"


@pytest.mark.parametrize(
    ("first", "second", "state", "code"),
    [
        (("COMPLETED", "0:0"), ("COMPLETED", "0:0"), "COMPLETED", 0),
        (("COMPLETED", "0:0"), ("FAILED", "3:0"), "FAILED", 3),
        (("NODE_FAIL", "0:0"), ("COMPLETED", "0:0"), "NODE_FAIL", 0),
        (("COMPLETED", "0:0"), ("RUNNING", "0:0"), "RUNNING", 0),
    ],
)
def test_components_of_heterogeneous_job_are_one_job(first, second, state, code):
    text = "\n".join([HET.format(7, 0, *first, "n1"), HET.format(8, 1, *second, "n2")])
    (one,) = slurm_result.whole(parse.jobs(text, of=7))
    assert (one["job_id"], one["state"], one["exit_code"], one["nodes"]) == (7, state, code, "n1,n2")
    ends = enumerate((first, second))
    rows = [f"{7 + at}|7+{at}|{word}|{status}|None|p|n{at + 1}|9|x" for at, (word, status) in ends]
    (one,) = slurm_result.whole(parse.parse_sacct("\n".join(rows)))
    assert (one["job_id"], one["state"], one["exit_code"], one["nodes"]) == (7, state, code, "n1,n2")


@pytest.mark.parametrize("components", [1, 3])
def test_any_number_of_components_is_one_job(components):
    rows = [f"{7 + at}|7+{at}|COMPLETED|0:0|None|p|n{at}|9|x" for at in range(components)]
    (one,) = slurm_result.whole(parse.parse_sacct("\n".join(rows)))
    assert (one["job_id"], one["nodes"]) == (7, ",".join(f"n{at}" for at in range(components)))


def test_component_that_never_starts_stops_the_whole_job():
    """Each component waits for its own reason, and none starts before the others."""
    words = [HET.format(7 + at, at, "PENDING", "0:0", "(null)") for at in (0, 1)]
    text = "\n".join(f"{word} Reason={why}" for word, why in zip(words, ("Priority", "PartitionTimeLimit")))
    (one,) = slurm_result.whole(parse.jobs(text, of=7))
    assert (one["job_id"], one["reason"]) == (7, "PartitionTimeLimit")
    assert slurm_result.settled([one])


def test_other_jobs_stay_apart():
    rows = ["7|7|COMPLETED|0:0|None|p|n1|9|x", "9|8_1|FAILED|1:0|None|p|n2|9|x", "10|8_2|COMPLETED|0:0|None|p|n3|9|x"]
    found = parse.parse_sacct("\n".join(rows))
    assert slurm_result.whole(found) == found and slurm_result.whole([]) == []


def test_job_that_a_signal_ended_is_no_success():
    assert slurm_result.summary([job("COMPLETED")])["ok"] is True
    assert slurm_result.summary([job("COMPLETED"), job("COMPLETED", signal=9)])["ok"] is False
