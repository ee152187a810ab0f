# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.health import profiles
from ansible_collections.mlcluster.aws.plugins.module_utils._node.scratch import made
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result

BASE = "/local/jobs"
PASS = result.passed("scratch.make", f"{BASE}/job-7/tmp")
FAIL = result.failed("scratch.make", "user 9 of the job is not known", severity="reset")
LATE = result.undeterminable("scratch.make", "no answer within 4.0 seconds")


@pytest.fixture(autouse=True)
def record(tmp_path, monkeypatch):
    monkeypatch.setattr(made, "RECORD", str(tmp_path / "scratch.json"))
    return tmp_path / "scratch.json"


def recorded(*verdicts):
    for job, verdict in enumerate(verdicts, 7):
        made.remember(Host(), BASE, job, verdict)
    return made.verify(Host(), BASE)


@pytest.mark.parametrize(
    ("verdicts", "status", "text"),
    [
        ([PASS], "pass", "job 7 at "),
        ([FAIL], "fail", "user 9 of the job is not known"),
        ([LATE], "fail", "no answer within 4.0 seconds"),
        ([FAIL, PASS], "pass", "job 8 at "),
        ([PASS, LATE], "fail", "job 8 at "),
        ([], "not_applicable", "no readable record"),
    ],
)
def test_last_job_decides(verdicts, status, text):
    found = recorded(*verdicts)
    assert (found.id, found.status, found.scope.device) == ("scratch.make", status, BASE)
    assert text in str(found.found or found.message or found.reason)


@pytest.mark.parametrize(
    "change", [{"schema": "mlcluster.scratch_made/2"}, {"base": "/other"}, {"status": "good"}, None]
)
def test_unknown_record_is_no_pass_and_drains_no_node(record, change):
    recorded(PASS)
    record.write_text(json.dumps({**json.loads(record.read_text()), **change}) if change else "{")
    found = recorded()
    assert found.status == "not_applicable"
    assert profiles.blocking([found], fail_closed=True) == []


def test_missing_directory_keeps_no_later_job_away():
    found = recorded(FAIL)
    assert found.severity == "monitor" and profiles.blocking([found], fail_closed=True) == []


@pytest.mark.parametrize(("earlier", "status"), [(PASS, "not_applicable"), (FAIL, "fail")])
def test_pass_of_an_earlier_job_does_not_outlast_a_full_disk(monkeypatch, earlier, status):
    recorded(earlier)

    def full(*_given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Host, "write_text", full)
    with pytest.raises(NodeError, match="No space left on device"):
        recorded(FAIL)
    assert made.verify(Host(), BASE).status == status
