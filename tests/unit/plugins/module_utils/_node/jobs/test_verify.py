# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts that a script passes about its job."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import verify
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.job import Job
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.kinds import JOB_KINDS
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs.verify import judge_job, parse_asked
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import dumps, passed

SOUND = {"kind": "nccl", "name": "x", "tasks_per_node": 8}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "training"},
        {"kind": "no-such"},
        {"kind": None},
        {"name": 5},
        {"tasks_per_node": 0},
        {"tasks_per_node": "8"},
        {"tasks_per_node": True},
    ],
)
def test_asked_of_wrong_shape_is_rejected(change):
    assert parse_asked(json.dumps(SOUND)) == SOUND
    with pytest.raises(NodeError, match="--asked"):
        parse_asked(json.dumps({**SOUND, **change}))


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_asked_that_is_no_object_is_rejected(text):
    with pytest.raises(NodeError, match="--asked must be a JSON object"):
        parse_asked(text)


@pytest.mark.parametrize("kind", [name for name, kind in JOB_KINDS.items() if not kind.judge])
def test_kind_without_judge_has_no_verdict(kind, tmp_path):
    with pytest.raises(NodeError, match="have no verdict"):
        judge_job(Job({"kind": kind}, ("n1",), str(tmp_path)), Host())


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_invalid_number_is_rejected(word):
    with pytest.raises(NodeError, match="--asked must be a JSON object"):
        parse_asked(json.dumps({**SOUND, "tolerance_percent": 0})[:-2] + word + "}")


@pytest.mark.parametrize("tasks", [1, 10**6])
def test_asked_with_number_of_tasks_is_taken(tasks):
    assert parse_asked(json.dumps({**SOUND, "tasks_per_node": tasks}))["tasks_per_node"] == tasks


class Clock(Host):
    """This machine at one time, with the files that were written."""

    def __init__(self):
        self.written = {}

    def now(self):
        return "2026-11-28T12:00:00Z"

    def write_text(self, path, text, mode=0o644):
        self.written[path] = text


@pytest.mark.parametrize(("name", "shown"), [("n1", "n1"), ("", "unknown")])
def test_report_of_job_is_written_and_returned(monkeypatch, name, shown):
    monkeypatch.setattr(verify.platform, "node", lambda: name)
    host, results = Clock(), [passed("smoke.tasks", 4)]
    report = verify.write_report(host, "/r/x", results, "1.2.3")
    assert (report.host, report.versions, report.results) == (shown, {"mlcluster.aws": "1.2.3"}, tuple(results))
    assert host.written == {"/r/x/report.json": dumps(report) + "\n"}


def test_verdicts_of_job_are_those_of_its_kind(tmp_path):
    job = Job({"kind": "node_smoke", "name": "x", "tasks_per_node": 1, "gpus_per_node": 0}, ("n1",), str(tmp_path))
    found = judge_job(job, Host())
    assert found == JOB_KINDS["node_smoke"].judge(job, Host())
    assert [one.status for one in found if one.id == "smoke.tasks"] == ["fail"]
