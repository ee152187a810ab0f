# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict import result


def one(status, **fields):
    if status == result.PASS:
        return result.passed("a.b", 1, **fields)
    return result.Result(id="a.b", status=status, reason="why", **fields)


@pytest.mark.parametrize(
    "statuses, code",
    [
        (["pass"], 0),
        (["not_applicable"], 0),
        (["pass", "not_applicable"], 0),
        (["undeterminable", "pass"], 2),
        (["undeterminable", "not_applicable"], 2),
        (["pass", "fail"], 1),
        (["undeterminable", "fail", "pass"], 1),
        ([], 2),
    ],
)
def test_exit_code_is_zero_only_with_proof(statuses, code):
    assert result.exit_code([one(status) for status in statuses]) == code


@pytest.mark.parametrize(
    "fields, word",
    [
        ({"id": "Storage"}, "id"),
        ({"id": "a..b"}, "id"),
        ({"id": 5}, "id"),
        ({"id": "a.b\n"}, "id"),
        ({"status": "ok"}, "status"),
        ({"severity": "panic"}, "severity"),
        ({"severity": "reboot"}, "severity none"),
        ({"found": None}, "not proved"),
        ({"found": ""}, "not proved"),
        ({"found": " \n"}, "not proved"),
        ({"found": float("nan")}, "found"),
        ({"expected": object()}, "expected"),
        ({"unit": 3}, "unit"),
        ({"seconds": -0.1}, "seconds"),
        ({"seconds": True}, "seconds"),
        ({"seconds": 1e9}, "seconds"),
        ({"seconds": "1"}, "seconds"),
        ({"seconds": float("inf")}, "seconds"),
        ({"scope": {"node": "n"}}, "scope"),
        ({"status": "fail"}, "reason"),
        ({"status": "undeterminable"}, "reason"),
        ({"status": "not_applicable"}, "reason"),
    ],
)
def test_invalid_result_is_rejected_by_field_name(fields, word):
    good = {"id": "a.b", "status": "pass", "found": 1}
    with pytest.raises(result.ResultError, match=word):
        result.Result(**{**good, **fields})


@pytest.mark.parametrize("seconds", [0, 0.5, 1e9 - 1, None])
def test_duration_may_be_zero_and_long(seconds):
    assert result.passed("a.b", 1, seconds=seconds).seconds == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-28T03:00:00Z", 1795834800),
        ("2026-11-28T03:00:00.5Z", 1795834800.5),
        ("2026-11-28T04:00:00+01:00", 1795834800),
        ("2026-13-28T03:00:00Z", None),
        ("2026-11-28T03:00:00", None),
        ("yesterday", None),
        (5, None),
        (None, None),
    ],
)
def test_time_is_that_of_text_with_zone(text, seconds):
    found = result.moment(text)
    assert (found.timestamp() if found else None) == seconds


def test_keys_of_json_are_sorted():
    text = result.dumps(result.passed("a.b", {"b": 1, "a": 2}))
    assert text.startswith('{"expected": null, "found": {"a": 2, "b": 1}, "hint": null, "id": "a.b"')
    assert result.passed("a.b", {"b": 1, "a": 2}).line() == 'PASS a.b: found {"a": 2, "b": 1}'


def test_codes_of_exit():
    codes = (result.EXIT_OK, result.EXIT_FAIL, result.EXIT_UNDETERMINABLE, result.EXIT_USAGE)
    assert codes == (0, 1, 2, 3)


def test_json_has_exactly_the_schema_fields():
    made = result.failed(
        "storage.members",
        "one disk is missing",
        severity="isolate",
        expected=8,
        found=7,
        unit="disks",
        reason="disk_lost",
        hint="replace the instance",
        source="instance type table",
        scope=result.Scope(node="n1", instance_id="i-1", device="/dev/md0"),
        seconds=0.25,
    )
    assert json.loads(result.dumps(made)) == {
        "schema": "mlcluster.result/1",
        "id": "storage.members",
        "status": "fail",
        "severity": "isolate",
        "expected": 8,
        "found": 7,
        "unit": "disks",
        "reason": "disk_lost",
        "message": "one disk is missing",
        "hint": "replace the instance",
        "source": "instance type table",
        "scope": {"node": "n1", "instance_id": "i-1", "device": "/dev/md0"},
        "seconds": 0.25,
    }
    assert result.loads(result.dumps(made)) == made


def test_report_round_trips_and_ends_with_counts():
    report = result.Report(
        host="n1",
        time="2026-11-27T22:40:00Z",
        versions={"mlcluster": "0.1.0"},
        results=[one("pass"), one("fail", severity="reset"), one("undeterminable")],
    )
    data = json.loads(result.dumps(report))
    assert sorted(data) == ["host", "results", "schema", "time", "versions"]
    assert data["schema"] == "mlcluster.report/1"
    assert result.loads(result.dumps(report)) == report
    assert report.lines()[-1] == "n1: 1 pass, 1 fail, 1 undeterminable"
    assert len(report.lines()) == 4
    assert result.Report(host="n1", time="2026-11-27T22:40:00Z").lines() == ["n1: no results"]


RESULT = {"schema": "mlcluster.result/1", "id": "a", "status": "pass", "found": 1}
REPORT = {
    "schema": "mlcluster.report/1",
    "host": "n1",
    "time": "2026-11-27T22:40:00Z",
    "versions": {},
    "results": [],
}


@pytest.mark.parametrize(
    "data, word",
    [
        ([], "schema"),
        ({**RESULT, "schema": "mlcluster.result/2"}, "mlcluster.result/2"),
        ({"schema": "mlcluster.result/1", "status": "pass"}, "lacks the field id"),
        ({**RESULT, "colour": 2}, "colour"),
        ({**RESULT, "scope": {"rack": 1}}, "rack"),
        ({**RESULT, "scope": "n1"}, "scope"),
        ({"schema": "mlcluster.report/1", "host": "n1"}, "time"),
        ({**REPORT, "results": 1}, "list"),
        ({**REPORT, "time": "yesterday"}, "yesterday"),
        ({**REPORT, "time": 5}, "time"),
        ({**REPORT, "host": ""}, "host"),
        ({**REPORT, "host": 5}, "host"),
        ({**REPORT, "versions": {"a": 1}}, "versions"),
        ({**REPORT, "versions": []}, "versions"),
        ({**REPORT, "versions": ["a"]}, "versions"),
        ({**REPORT, "results": [{"schema": "mlcluster.result/1", "id": "a", "status": "maybe"}]}, "maybe"),
    ],
)
def test_other_schema_is_rejected_when_read(data, word):
    with pytest.raises(result.ResultError, match=word):
        result.loads(json.dumps(data))


@pytest.mark.parametrize(
    ("kind", "data", "word"),
    [
        (result.Result, [], "result is .*it must be a JSON object"),
        (result.Report, "x", "report is 'x'; it must be a JSON object"),
        (result.Result, {**RESULT, "schema": "mlcluster.result/2"}, "reads mlcluster.result/1 only"),
        (result.Report, {**REPORT, "schema": "mlcluster.result/1"}, "reads mlcluster.report/1 only"),
        (result.Report, {**REPORT, "colour": 2}, "report has unknown fields colour"),
    ],
)
def test_entry_of_another_type_is_rejected(kind, data, word):
    with pytest.raises(result.ResultError, match=word):
        kind.from_dict(data)


@pytest.mark.parametrize("name", ["node", "instance_id", "device"])
def test_part_of_scope_is_text(name):
    with pytest.raises(result.ResultError, match=f"scope.{name} is 5; it must be text or absent"):
        result.Scope(**{name: 5})


def test_checks_that_do_not_apply_are_no_pass():
    made = [result.not_applicable("a.b", "there is none")]
    assert result.overall(made) == result.overall(made * 2) == "not_applicable"


def test_result_without_absent_fields_is_read():
    assert result.loads(json.dumps(RESULT)) == result.passed("a", 1)
    assert result.loads(json.dumps({**RESULT, "scope": None})) == result.passed("a", 1)
    assert result.loads(json.dumps({**RESULT, "scope": {"node": "n"}})).scope == result.Scope(node="n")


def test_text_that_is_not_json_is_rejected():
    with pytest.raises(result.ResultError, match="not JSON"):
        result.loads("{")
    with pytest.raises(result.ResultError, match="not JSON"):
        result.loads("[" * 200_000)


def test_report_accepts_only_results():
    with pytest.raises(result.ResultError, match="results"):
        result.Report(host="n1", time="2026-11-27T22:40:00Z", results=[{"id": "a"}])


@pytest.mark.parametrize(
    "made, line",
    [
        (
            result.passed("storage.mount", "/data", scope=result.Scope(device="/dev/md0")),
            "PASS storage.mount (/dev/md0): found /data",
        ),
        (
            result.failed(
                "storage.members", "one disk is gone.", expected=8, found=7, unit="disks", hint="Replace it."
            ),
            "FAIL storage.members: one disk is gone. expected 8 disks, found 7 disks. Replace it",
        ),
        (
            result.undeterminable("gpu.count", "the table is out of date", expected=4, found=8, unit="GPUs"),
            "???? gpu.count: the table is out of date. expected 4 GPUs, found 8 GPUs",
        ),
        (result.undeterminable("gds.mode", "tool_missing"), "???? gds.mode: tool_missing"),
        (result.not_applicable("storage.array", "no instance store"), "n/a  storage.array: no instance store"),
        (result.failed("a.b", "two\nlines"), "FAIL a.b: two lines"),
        (result.failed("a.b", "\x1b]0;x\x07boo\0\u202e"), "FAIL a.b: ]0;x boo"),
        (
            result.passed("a.b", "x", scope=result.Scope(device="/home/u/x\nFAIL node.\x1b[2J")),
            "PASS a.b (/home/u/x FAIL node. [2J): found x",
        ),
        (result.passed("a.b", 3, hint="Do nothing."), "PASS a.b: found 3"),
        (result.passed("a.b", 3, message="it is good", expected=3), "PASS a.b: it is good"),
        (result.passed("a.b", 3, reason="why", expected=4, unit="s"), "PASS a.b: expected 4 s, found 3 s"),
        (result.failed("a.b", "it is bad", expected=3), "FAIL a.b: it is bad"),
        (result.Result("a.b", "fail", reason="gone"), "FAIL a.b: gone"),
        (result.Result("a.b", "fail", reason="gone", found=3), "FAIL a.b: found 3"),
        (result.not_applicable("a.b", "none", found=3, hint="Look."), "n/a  a.b: none. Look"),
        (result.passed("a.b", ["x", 1]), 'PASS a.b: found ["x", 1]'),
    ],
)
def test_line_of_a_result(made, line):
    assert made.line() == line


def test_check_of_nothing_expected_states_its_proof():
    one = result.none_expected("gpu.count", "no accelerators", "the table", "GPUs")
    assert (one.status, one.expected, one.found, one.source) == ("not_applicable", 0, 0, "the table")
    assert one.line() == "n/a  gpu.count: no accelerators"


def test_problems_are_neither_pass_nor_not_applicable():
    results = [one("pass"), one("not_applicable"), one("fail"), one("undeterminable")]
    answer = result.answer(results)
    assert [entry["status"] for entry in answer["results"]] == [entry.status for entry in results]
    assert answer["lines"] == [entry.line() for entry in results]
    assert answer["problems"] == answer["lines"][2:]


@pytest.mark.parametrize(("maximum", "text"), [(3, "a; b; c"), (2, "a; b and 1 more"), (1, "a and 2 more")])
def test_first_names_come_with_number_of_others(maximum, text):
    assert result.first_of(["a", "b", "c"], maximum, "; ") == text


def test_worst_severity_is_most_drastic():
    assert result.worst_severity([]) == "none"
    assert result.worst_severity([one("fail", severity="reboot"), one("fail", severity="monitor")]) == "reboot"


@pytest.mark.parametrize("name", ["status", "schema", "id", "severity", "found"])
def test_field_with_two_values_is_rejected(name):
    text = result.dumps(result.failed("gpu.count", "2 are missing", severity="isolate", found=6))
    other = {**json.loads(result.dumps(result.passed("gpu.driver", 8))), "schema": result.REPORT_SCHEMA}
    with pytest.raises(result.ResultError):
        result.loads(f"{text[:-1]}, {json.dumps(name)}: {json.dumps(other[name])}}}")
