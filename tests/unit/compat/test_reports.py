# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports, timings and caches that an earlier commit wrote, on the controller and by the boot hook."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.jobs import validation
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import CommandResult
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import cache, hardware
from ansible_collections.mlcluster.aws.plugins.plugin_utils._report import document as report_document

from hooks.mlcluster_boot import options, status, waits
from tests.unit.compat import written
from tests.unit.fakes import fake_cluster as scene


def build(*nodes, **more):
    return report_document.build(nodes, "2026-12-01T12:00:00Z", **more)


def test_report_of_node_means_same():
    report = result.loads(written.text("reports/report.json"))
    assert [(one.id, one.status, one.severity) for one in report.results] == [
        ("gpu.count", "pass", "none"),
        ("storage.record", "fail", "isolate"),
        ("gds.mode", "undeterminable", "none"),
        ("efa.devices", "not_applicable", "none"),
    ]
    failed = report.results[1]
    assert (failed.expected, failed.found, failed.hint, failed.source) == (8, 6, "stop it", "test")
    assert (failed.scope.node, failed.scope.device) == ("n2", "/dev/nvme1n1")
    assert (report.host, report.time, report.versions["driver"]) == ("n1", "2026-11-28T12:00:00Z", "580.95.05")
    assert result.exit_code(report.results) == result.EXIT_FAIL
    assert result.dumps(report) + "\n" == written.text("reports/report.json")


def test_single_result_means_same():
    found = result.loads(written.text("reports/result.json"))
    assert found == result.loads(written.text("reports/report.json")).results[1]
    assert result.dumps(found) + "\n" == written.text("reports/result.json")


def test_report_of_data_set_is_read():
    report = result.loads(written.text("data/validated.json"))
    assert report.results
    assert {one.status for one in report.results} == {"pass"}


def test_report_of_job_is_judged_with_its_end():
    ran = {"job_id": 8, "state": "FAILED", "exit_code": 1, "nodes": "n[1-2]", "elapsed_seconds": 3}
    report = written.text("reports/report.json")
    (job,) = validation.collect([{"name": "nccl", "job": ran, "report": report, "message": None}])["jobs"]
    before = written.document("reports/validation.json")["jobs"][1]
    assert job == before


def test_validation_and_timings_are_shown():
    document = build(scene.node("n1"), validation=written.document("reports/validation.json"),
                     run=written.document("reports/run.json"))  # fmt: skip
    # It names neither cluster nor time, so what passed in it is shown and proves nothing now.
    assert [(job["name"], job["status"]) for job in document["jobs"]] == [("smoke", "undeterminable"), ("nccl", "fail")]
    assert document["status"] == "fail"
    assert [problem["id"] for problem in document["problems"]][:1] == ["storage.record"]
    assert document["timings"] == written.document("reports/cluster.json")["timings"]
    assert any(entry.get("role") == "nvme_raid0" or "nvme_raid0" in entry for entry in document["timings"])


def test_report_is_compared_with():
    before = written.document("reports/cluster.json")
    same = build(scene.node("n1"), scene.broken("n2"), scene.silent("n3"), previous=before)["changes"]
    # Only the verdicts that the older report had: today's nodes have one on each subject.
    assert [entry for entry in same.pop("verdicts") if entry["before"]] == []
    assert same == {"since": "2026-11-28T12:00:00Z", "joined": [], "left": [], "versions": []}
    found = build(scene.node("n1"), scene.node("n2"), scene.node("n4"), previous=before)["changes"]
    assert (found["joined"], found["left"]) == (["n4"], ["n3"])
    assert [entry for entry in found["verdicts"] if entry["before"]] == [
        {"node": "n2", "id": "gpu.count", "before": "fail", "after": "pass"}
    ]


def test_status_of_node_keeps_its_keys(tmp_path):
    """Programs of users read it."""
    before = written.document("hook/status.json")
    (tmp_path / "var/lib/mlcluster").mkdir(parents=True)
    words = ["--root", str(tmp_path), "--started-at", str(status.uptime()), "--deadline", "900"]
    report = status.Report(options.parse_options(words))
    report.update()
    now = json.loads(report.status_file.read_text())
    assert set(before) <= set(now)
    assert now["schema"] == before["schema"]
    for name in ("drain_by_hook", "failed_by_hook"):
        assert set(written.document(f"hook/status_{name}.json")) <= set(now)


def test_timers_that_killed_run_stopped_are_started(tmp_path):
    record = tmp_path / "quiet.json"
    record.write_text(written.text("hook/quiet.json"))
    calls = []

    class Systemctl:
        def which(self, program):
            return f"/usr/bin/{program}"

        def run(self, argv, timeout=0):
            calls.append(argv[1:])
            return CommandResult(0, "", "")

    with waits.pause_update_timers(Systemctl(), record, pytest.fail) as stopped:
        assert stopped == ["apt-daily.timer"]
    assert calls[-1] == ["start", "apt-daily.timer"]
    assert not record.exists()


def test_answer_of_ec2_is_readable_under_another_key():
    known = written.document("ec2/asked.json")
    # That key left out the AWS CLI's files, so the entry may be another account's: EC2 is asked again.
    assert cache.key("ec2_nodes", known["asked"], known["environment"]) != known["key"]
    answer = cache.unpack(written.document("ec2/answer.json"), cache.access_key_digest(known["environment"], None))
    assert (answer.regions, answer.account, answer.warnings) == (["us-east-1"], "123456789012", ["one"])
    assert answer.records[0]["tags"] == {"Name": "n1"}
    assert cache.unpack(written.document("ec2/answer.json"), "somebody else") is None


def test_instance_types_are_taken_from_cache():
    path = written.path("ec2/types.json")
    (entry,) = written.document("ec2/types.json")["types"].values()
    kept = hardware.LongCache(path, 3600, lambda: entry["time"] + 60)
    facts = kept.get(["p5.48xlarge"])["p5.48xlarge"]
    assert (facts["count"], facts["efa_max"], facts["source"]) == (8, 32, "api")
