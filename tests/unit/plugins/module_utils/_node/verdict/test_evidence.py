# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.evidence import (
    MAX_NAMED,
    MISSING,
    UNREAD,
    Field,
    Subject,
    above,
    below,
    decide,
    exactly,
    find_problems,
    is_number,
    is_text,
    lookup,
    never,
    within,
)

ERRORS = Field(
    "errors.hard", good=exactly(0), bad=above(0), text="had {} hard errors", severity="reset", label="hard_errors"
)
STATE = Field("state", good=exactly("up"), bad=exactly("down"), text="is down", severity="isolate")
BOTH = (ERRORS, STATE)
GOOD = {"errors": {"hard": 0}, "state": "up"}


def subject(name="gpu0", raw=None, **facts):
    return Subject({**GOOD, **facts}, name, raw or {})


def test_pass_needs_all_fields_good():
    result = decide("a.b", BOTH, [subject("gpu0"), subject("gpu1")], "all good", expected=0)
    assert (result.status, result.found, result.expected) == ("pass", "all good", 0)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "state is missing"),
        ("", "state reads nothing"),
        ("UP", "state reads 'UP'"),
        (True, "state reads 'True'"),
        ("\x1b[2Jx", "state reads '[2Jx'"),
        ("x" * 500, f"state reads '{'x' * 80}'"),
        ({}, "state reads '{}'"),
    ],
)
def test_unknown_value_is_undeterminable_and_named(value, words):
    result = decide("a.b", BOTH, [subject("gpu0"), subject("gpu1", state=value)], "good", hint="look")
    assert (result.status, result.reason, result.message) == ("undeterminable", UNREAD, f"gpu1 {words}")
    assert result.hint == "look"


def test_missing_field_and_raw_text_are_named():
    assert decide("a.b", BOTH, [Subject({"state": "up"})], "x").message == "hard_errors is missing"
    raw = {"errors.hard": "Unknown Error"}
    result = decide("a.b", BOTH, [subject(raw=raw, errors={"hard": None})], "x")
    assert result.message == "gpu0 hard_errors reads 'Unknown Error'"


def test_bad_outweighs_unknown():
    result = decide("a.b", BOTH, [subject("gpu0", state=None), subject("gpu1", errors={"hard": 3})], "x")
    assert (result.status, result.severity, result.message) == ("fail", "reset", "gpu1 had 3 hard errors")
    assert result.scope.device == "gpu1"


def test_worst_finding_of_each_subject_is_named():
    bad = [subject("gpu0", errors={"hard": 3}, state="down"), subject("gpu1", errors={"hard": 1})]
    result = decide("a.b", BOTH, bad, "x")
    assert (result.severity, result.message) == ("isolate", "gpu0 is down; gpu1 had 1 hard errors")
    assert result.scope.device is None
    assert decide("a.b", BOTH[::-1], bad[:1], "x").message == "gpu0 is down"


def test_first_of_equally_bad_findings_is_named():
    fields = (STATE, Field("other", exactly(0), exactly(1), "is other", "isolate"))
    assert decide("a.b", fields, [subject(state="down", other=1)], "x").message == "gpu0 is down"


@pytest.mark.parametrize(("fields", "subjects"), [(BOTH, []), ((), [subject()]), ((), [])])
def test_no_fields_or_subjects_are_undeterminable(fields, subjects):
    result = decide("a.b", fields, subjects, "x")
    assert (result.status, result.message) == ("undeterminable", "there is nothing to judge")


def test_field_that_does_not_apply_is_not_evidence():
    field = Field("extra", exactly(1), when=lambda facts: facts["state"] == "up")
    assert decide("a.b", (field, STATE), [subject(extra=1)], "x").status == "pass"
    assert decide("a.b", (field, STATE), [subject()], "x").status == "undeterminable"
    assert decide("a.b", (field, STATE), [subject(state="down")], "x").message == "gpu0 is down"
    never_applies = Field("extra", exactly(1), when=lambda facts: False)
    assert decide("a.b", (never_applies, STATE), [subject()], "x").status == "pass"


def test_long_list_is_shortened():
    names = [subject(f"gpu{number}", state=None) for number in range(MAX_NAMED + 2)]
    message = decide("a.b", BOTH, names, "x").message
    assert message.count("state is missing") == MAX_NAMED == 8
    assert message.endswith(" and 2 more")
    assert not decide("a.b", BOTH, names[:MAX_NAMED], "x").message.endswith("more")


def test_first_unknown_field_gives_reason_and_hint():
    first = Field("state", exactly("up"), reason="cut", unknown="it ends at {}", hint="run it again")
    result = decide("a.b", (first, ERRORS), [Subject({"state": "row 3"})], "x", hint="look", source="here")
    assert (result.reason, result.hint, result.source) == ("cut", "run it again", "here")
    assert result.message == "it ends at row 3; hard_errors is missing"
    assert decide("a.b", (ERRORS, first), [Subject({"state": "x"})], "x", hint="look").hint == "look"


def test_no_value_is_bad_by_default():
    assert never(1) is False
    result = decide("a.b", (Field("state", exactly("up")),), [subject(state="down")], "x")
    assert (result.status, result.severity) == ("undeterminable", "none")


def test_weigh_keeps_order():
    findings = find_problems(BOTH, [subject("gpu0", state="down", errors={"hard": 2}), subject("gpu1", state=None)])
    assert [finding.text for finding in findings.bad] == ["had 2 hard errors", "is down"]
    assert [finding.sentence() for finding in findings.unknown] == ["gpu1 state is missing"]


def test_lookup_follows_dotted_path():
    assert lookup({"a": {"b": None}}, "a.b") is None
    for facts in ({}, {"a": 1}, {"a": {}}, None):
        assert lookup(facts, "a.b") is MISSING
    assert repr(MISSING) == "MISSING"


@pytest.mark.parametrize(
    ("test", "good", "bad"),
    [
        (exactly(0), [0], [False, 0.0, None, "0", 1, MISSING]),
        (exactly(True, "on"), [True, "on"], [1, "True", None]),
        (within(1, 3), [1, 2.5, 3], [0.9, 3.1, math.nan, math.inf, True, "2", None, MISSING]),
        (within(1), [1, 1e300], [math.inf, math.nan]),
        (above(0), [1, 0.5], [0, -1, math.nan, math.inf, True, None, "1"]),
        (below(2), [1, -1], [2, -math.inf, math.nan, True, None, "1"]),
        (is_number, [0, -1.5], [math.nan, math.inf, True, "1", None]),
        (is_text, ["x"], ["", "  ", None, 1, MISSING]),
    ],
)
def test_field_tests_reject_other_values(test, good, bad):
    assert [value for value in good if not test(value)] == []
    assert [value for value in bad if test(value)] == []
