# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdict on several validation jobs, and the ends of jobs that are not a pass whatever their reports state."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.validation import collect
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result

PASSED = result.passed("smoke.tasks", 16)
BAD = result.failed("nccl.nodes", "n2 fails by itself", severity="isolate", scope=result.Scope(node="n2"))
UNSURE = result.undeterminable("nccl.bandwidth", "no_figure", message="no figure")


def report(*results):
    return result.dumps(result.Report("n1", "2026-11-28T03:00:00Z", {}, results))


def run(state="COMPLETED", code=0, text="", name="smoke", **job):
    found = {"job_id": 7, "state": state, "exit_code": code, "nodes": "n[1-2]", "elapsed_seconds": 3, **job}
    return {"name": name, "job": found, "report": text, "message": None}


def test_worst_stands_for_all():
    found = collect([run(text=report(PASSED)), run("FAILED", 1, report(PASSED, BAD)), run("FAILED", 2, report(UNSURE))])
    assert (found["status"], found["exit_code"]) == ("fail", 1)
    assert [job["status"] for job in found["jobs"]] == ["pass", "fail", "undeterminable"]
    assert found["bad_nodes"] == {"n2": "mlcluster: nccl.nodes: n2 fails by itself"}
    assert [line.split()[-1] for line in found["lines"]] == ["verdict", "PASS", "FAIL", "????"]
    assert len(found["problems"]) == 2


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        (run("TIMEOUT", 0, report(PASSED)), "fail"),
        (run("NODE_FAIL", 0, ""), "fail"),
        (run("OUT_OF_MEMORY", 125, ""), "fail"),
        (run("CANCELLED", 0, report(PASSED)), "undeterminable"),
        (run("LOST", None, report(PASSED)), "undeterminable"),
        (run("COMPLETED", 0, ""), "undeterminable"),
        (run("COMPLETED", 0, "{torn"), "undeterminable"),
        (run("COMPLETED", 0, report()), "undeterminable"),
        (run("FAILED", 3, ""), "undeterminable"),
        (run("FAILED", 139, ""), "fail"),
        # The report is a pass, and the script ended otherwise; or the other way round.
        (run("FAILED", 1, report(PASSED)), "undeterminable"),
        (run("COMPLETED", 0, report(BAD)), "fail"),
        ({"name": "x", "job": None, "report": None, "message": "sbatch does not take it"}, "undeterminable"),
    ],
)
def test_end_that_proves_nothing_is_no_pass(ended, status):
    found = collect([ended])
    assert (found["status"], found["jobs"][0]["status"]) == (status, status)
    assert any(entry["id"] == "job.end" for entry in found["jobs"][0]["results"])


@pytest.mark.parametrize(
    "entry",
    [
        result.failed("gpu.ecc", "errors", severity="reset", scope=result.Scope(node="n2")),
        result.failed("nccl.nodes", "some node", severity="isolate"),
        result.undeterminable("nccl.nodes", "no_pass", severity="isolate", scope=result.Scope(node="n2")),
    ],
)
def test_only_isolating_failure_of_a_node_makes_it_bad(entry):
    code = 1 if entry.status == "fail" else 2
    found = collect([run("FAILED", code, report(PASSED, entry))])
    assert (found["exit_code"], found["bad_nodes"]) == (code, {})


def test_table_has_row_for_each_job():
    found = collect([run(text=report(PASSED)), {"name": "pairs", "job": None, "report": None, "message": "no nodes"}])
    assert found["lines"] == [
        "job    id  nodes   state          seconds  verdict",
        "smoke  7   n[1-2]  COMPLETED      3        PASS",
        "pairs  -   -       NOT SUBMITTED  -        ????",
    ]
    (given,) = collect([run(elapsed_seconds=0, text=report(PASSED))])["lines"][1:]
    assert given.split() == ["smoke", "7", "n[1-2]", "COMPLETED", "0", "PASS"]


@pytest.mark.parametrize(
    ("ended", "message", "expected", "found"),
    [
        ({"name": "x", "job": None, "report": None, "message": "sbatch rejects it"}, "sbatch rejects it", None, None),
        ({"name": "x", "job": None, "report": None, "message": None}, "x was not submitted", None, None),
        (run("LOST", None), "job 7 is LOST with exit status None", None, None),
        ({**run("LOST", None), "message": "looked for job 7"}, "looked for job 7", None, None),
        (run("TIMEOUT", 0), "job 7 is TIMEOUT with exit status 0", "COMPLETED", "TIMEOUT"),
        ({**run("TIMEOUT", 0), "message": "it took too long"}, "it took too long", "COMPLETED", "TIMEOUT"),
        ({**run(), "report": None}, "job 7 is COMPLETED with exit status 0 and left no report", None, None),
        (run("FAILED", 139), "job 7 is FAILED with exit status 139 and left no report", 0, 139),
        (
            run("FAILED", 139, stderr_tail="a\nb\n", stdout_tail="c\n"),
            "job 7 is FAILED with exit status 139 and left no report; it last wrote: b",
            0,
            139,
        ),
        (
            run(text=result.dumps(PASSED)),
            "job 7 is COMPLETED with exit status 0 and left a report without results",
            None,
            None,
        ),
    ],
)
def test_end_of_job_is_explained(ended, message, expected, found):
    (entry,) = collect([ended])["jobs"][0]["results"]
    assert (entry["id"], entry["message"], entry["expected"], entry["found"]) == ("job.end", message, expected, found)


def test_nothing_at_all_is_no_pass():
    assert collect([])["exit_code"] == 2


def test_jobs_last_words_are_kept():
    (problem,) = collect([run("FAILED", 2, "", stdout_tail="a\nno program\n")])["problems"]
    assert problem.endswith("it last wrote: no program")


def test_report_of_earlier_job_of_number_accuses_no_node():
    """A job that was cancelled while it waited wrote none."""
    found = collect([run("CANCELLED", 0, report(BAD), nodes=None)])
    assert (found["status"], found["bad_nodes"]) == ("undeterminable", {})
    assert collect([run("CANCELLED", 0, report(BAD))])["bad_nodes"] != {}


@pytest.mark.parametrize(
    ("since", "status"),
    [
        (None, "pass"),
        ("2026-11-28T02:50:00Z", "pass"),
        # Clocks differ a little.
        ("2026-11-28T03:10:00Z", "pass"),
        ("2026-11-28T03:10:01Z", "undeterminable"),
        ("soon", "undeterminable"),
    ],
)
def test_report_from_before_its_job_is_of_another(since, status):
    found = collect([{**run(text=report(PASSED)), "since": since}])
    assert found["status"] == status
    assert status == "pass" or found["jobs"][0]["results"][0]["reason"] == "no_report"


@pytest.mark.parametrize(
    ("time", "status"),
    [
        ("", "pass"),
        ("2026-11-28T03:00:00Z", "pass"),
        ("2026-11-28T02:50:00Z", "pass"),
        ("2026-11-28T02:49:59Z", "undeterminable"),
    ],
)
def test_report_of_time_to_come_is_no_pass(time, status):
    found = collect([run(text=report(PASSED))], time=time)
    assert found["status"] == status
    assert status == "pass" or "dated in the future" in found["jobs"][0]["results"][0]["message"]


def test_validation_carries_cluster_time_and_nodes():
    found = collect([], "train", "2026-01-31T12:00:00Z", ["n1"])
    assert (found["cluster"], found["time"], found["nodes"]) == ("train", "2026-01-31T12:00:00Z", ["n1"])


def test_job_without_passing_verdict_is_no_pass():
    nothing = result.not_applicable("io.stripes", "no_lustre")
    judged = collect([run(text=report(nothing))])
    assert (judged["status"], judged["exit_code"]) == ("undeterminable", 2)
    assert "nothing was proved" in judged["problems"][0]


@pytest.mark.parametrize(
    ("state", "code", "signal", "status"),
    [
        ("COMPLETED", 0, 0, "pass"),
        ("FAILED", 0, 9, "undeterminable"),
        ("FAILED", 0, 0, "undeterminable"),
        ("COMPLETED", 0, 9, "undeterminable"),
        ("COMPLETED", None, 0, "undeterminable"),
    ],
)
def test_report_does_not_outweigh_end_of_job(state, code, signal, status):
    given = run(state, code, report(PASSED))
    given["job"]["signal"] = signal
    found = collect([given])
    assert (found["status"], found["exit_code"]) == (status, 0 if status == "pass" else 2)
    assert status == "pass" or "one of them is wrong" in found["problems"][0]
    assert not signal or "by signal 9" in found["problems"][0]
