# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

from ansible_collections.mlcluster.aws.plugins.module_utils._node.cli.report import print_report, report
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import (
    dumps,
    failed,
    loads,
    passed,
    worst_severity,
)


class Clock(Host):
    def now(self):
        return "2026-01-02T03:04:05Z"


def test_report_is_one_document_of_schema():
    results = [passed("storage.mounted", "/data"), failed("storage.size", "too small", severity="reset")]
    document = report(Clock(), results, {"mlcluster.aws": "0.1.0"})
    assert loads(dumps(document)) == document
    assert worst_severity(results) == "reset"
    stored = json.loads(dumps(document))
    assert (stored["schema"], stored["time"]) == ("mlcluster.report/1", "2026-01-02T03:04:05Z")
    assert stored["versions"] == {"mlcluster.aws": "0.1.0"}
    assert [result["id"] for result in stored["results"]] == ["storage.mounted", "storage.size"]


def test_printed_report_ends_with_notes(capsys):
    results = [failed("storage.size", "too small", severity="reset")]
    assert print_report(Clock(), results, {}, as_json=False, notes=["note: x"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "storage.size" in lines[0] and lines[-1] == "note: x"


def test_printed_report_in_json_has_no_notes(capsys):
    assert print_report(Clock(), [passed("a", 1)], {}, as_json=True, notes=["note: x"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "mlcluster.report/1"
