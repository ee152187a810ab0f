# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action prove_evidence, as a task has it."""

from __future__ import annotations

import json
import types

import pytest
import yaml
from ansible_collections.mlcluster.aws.plugins.action import prove_evidence
from ansible_collections.mlcluster.aws.plugins.modules import prove_evidence as documented

REPORT = json.dumps({"time": "2026-01-31T12:01:00Z", "results": [{"id": "a.b", "status": "pass"}]}) + "\n"


@pytest.fixture
def write(tmp_path):
    """write(check_mode=..., **options) gives the result of the task; its file is tmp_path/evidence.json."""

    def run(check_mode=False, **options):
        given = {
            "path": str(tmp_path / "evidence.json"), "reports": str(tmp_path), "type": "c5d.large", "image": "x",
            "started": "2026-01-31T12:00:00Z", "steps": [{"name": "site"}], **options,
        }  # fmt: skip
        task = types.SimpleNamespace(args=given, check_mode=check_mode, async_val=0, action="prove_evidence")
        connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="none"))
        return prove_evidence.ActionModule(task, connection, None, None, None, None).run(task_vars={})

    return run


def test_every_option_is_documented(write):
    options = yaml.safe_load(documented.DOCUMENTATION)["options"]
    assert set(options) == {"path", "reports", "type", "image", "started", "steps", "done"}


def test_file_has_facts_and_verdicts_of_reports(write, tmp_path):
    (tmp_path / "facts.json").write_text('{"kernel": "6.8.0-1018-aws", "hostname": "secret"}', encoding="utf-8")
    (tmp_path / "site.jsonl").write_text(REPORT, encoding="utf-8")
    result = write(done=[{"name": "site", "passed": True, "seconds": 3}])
    document = json.loads((tmp_path / "evidence.json").read_text(encoding="utf-8"))
    assert result["evidence"] == document and result["unproved"] == []
    assert (document["facts"], document["steps"][0]["verdicts"]) == (
        {"kernel": "6.8.0-1018-aws"},
        [{"id": "a.b", "status": "pass"}],
    )


def test_step_without_report_is_not_proved(write):
    result = write(done=[{"name": "site", "passed": True, "seconds": 3}])
    assert result["unproved"] == ["site has no passing verdict"]
    assert result["evidence"]["steps"][0]["state"] == "failed"


def test_check_mode_writes_nothing(write, tmp_path):
    assert not write(check_mode=True).get("failed")
    assert not (tmp_path / "evidence.json").exists()


def test_report_that_is_invalid_fails_in_one_sentence(write, tmp_path):
    (tmp_path / "site.jsonl").write_text("{}\n", encoding="utf-8")
    assert "no evidence was written to" in write()["msg"]
