# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence has only the fields of its schema, and nothing that identifies an account."""

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._prove import evidence

RUN = {
    "type": "c5d.large",
    "image": "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20250101",
    "facts": {"kernel": "6.8.0-1018-aws", "system": "Ubuntu 24.04", "hostname": "ip-10-0-0-1", "driver": ""},
    "started": "2026-01-31T12:00:00Z",
    "finished": "2026-01-31T12:40:00Z",
    "steps": [{"name": "site"}, {"name": "verify"}, {"name": "stop"}],
    "done": [{"name": "site", "passed": True, "seconds": 239}, {"name": "verify", "passed": False, "seconds": 10}],
}
VERDICT = {
    "id": "storage.mount",
    "status": "fail",
    "message": "10.1.2.3",
    "scope": {"node": "ip-10-1-2-3"},
    "found": "x",
}
LATER, EARLIER = "2026-01-31T12:10:00Z", "2026-01-31T11:59:59Z"
GOOD = {**VERDICT, "status": "pass"}


def report(*results, time=LATER):
    return json.dumps({"host": "prove-node", "time": time, "results": results}) + "\n"


REPORTS = {"site": report(GOOD), "verify": report(VERDICT)}


def built(reports=None, **change):
    return evidence.build({**RUN, **change}, REPORTS if reports is None else reports, {"ansible-core": "2.19.4"})


def whole(**change):
    """Return the document of a run in which every step passed."""
    steps = evidence.NAMES
    done = [{"name": name, "passed": True, "seconds": 1} for name in steps]
    given = {"steps": [{"name": name} for name in steps], "done": done, **change}
    return built(dict.fromkeys(steps, report(GOOD)), **given)


def test_evidence_has_states_and_verdicts_of_each_step():
    document = built()
    assert [(step["name"], step["state"], step["seconds"]) for step in document["steps"]] == [
        ("site", "passed", 239),
        ("verify", "failed", 10),
        ("stop", "not run", 0),
    ]
    assert document["steps"][1]["verdicts"] == [{"id": "storage.mount", "status": "fail"}]
    assert document["facts"] == {"kernel": "6.8.0-1018-aws", "system": "Ubuntu 24.04"}
    assert document["image"] == RUN["image"]
    assert not [word for word in ("10.1.2.3", "ip-10", "prove-node") if word in json.dumps(document)]


@pytest.mark.parametrize(
    "value",
    [
        "i-0123456789abcdef0",
        "ami-12345678",
        "10.1.2.3",
        "of 123456789012",
        "arn:aws:x",
        "ip-10-0-0-1",
        "a\nb",
        "{{ x }}",
        "é",
    ],
)
def test_identifying_text_is_withheld(value):
    assert evidence.text(value) == evidence.WITHHELD
    assert built(image=value)["image"] == evidence.WITHHELD


@pytest.mark.parametrize(
    "value", ["5.14.0-503.14.1.el9_5.x86_64", "6.1.119-129.201.amzn2023.x86_64", "a private image", "570.86.15"]
)
def test_versions_and_kernels_are_kept(value):
    assert evidence.text(value) == value


def test_only_passed_status_counts_as_passed():
    assert built(done=[{"name": "site", "passed": "true"}])["steps"][0]["state"] == "failed"


def test_unknown_status_is_undeterminable():
    found = evidence.verdicts(report({"id": "a.b", "status": "fine"}), RUN["started"])
    assert found == [{"id": "a.b", "status": "undeterminable"}]


@pytest.mark.parametrize(("time", "counts"), [(LATER, True), (EARLIER, False), (RUN["started"], True), ("soon", False)])
def test_report_from_before_run_has_no_verdicts(time, counts):
    assert bool(evidence.verdicts(report(GOOD, time=time), RUN["started"])) is counts
    assert evidence.verdicts(report(GOOD, time=time), "soon") == []


UNSURE, NOTHING = {**VERDICT, "status": "undeterminable"}, {**VERDICT, "status": "not_applicable"}


@pytest.mark.parametrize(
    ("name", "text", "state"),
    [
        ("verify", report(GOOD), "passed"),
        ("verify", report(GOOD, NOTHING), "passed"),
        # The playbook succeeded, and its report differs or is empty.
        ("verify", report(GOOD, VERDICT), "failed"),
        ("verify", report(GOOD, UNSURE), "failed"),
        ("verify", report(NOTHING), "failed"),
        ("verify", report(), "failed"),
        ("verify", "", "failed"),
        ("verify", report(GOOD, time=EARLIER), "failed"),
        ("verify_after_start", "", "failed"),
        ("site", "", "failed"),
        # These steps have no report.
        ("wait", "", "passed"),
        ("stop", "", "passed"),
        ("uninstall", "", "passed"),
        ("uninstall", report(VERDICT), "failed"),
    ],
)
def test_step_needs_passing_verdicts(name, text, state):
    run = {"steps": [{"name": name}], "done": [{"name": name, "passed": True}]}
    assert built({name: text}, **run)["steps"][0]["state"] == state


def test_unproved_steps_are_named():
    assert evidence.unproved(whole()) == []
    assert evidence.unproved(built()) == [
        "verify has verdicts other than pass: storage.mount", "stop is not run"
    ]  # fmt: skip
    run = {"steps": [{"name": "site"}], "done": [{"name": "site", "passed": True}]}
    assert evidence.unproved(built({}, **run)) == ["site has no passing verdict"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schema": "mlcluster.report/1"}, "is not a document of the schema"),
        ({"account": "123456789012"}, "has the field account"),
        ({"type": "i-0123456789abcdef0"}, "type has an unknown shape"),
        ({"facts": {"hostname": "x"}}, "facts has hostname"),
        ({"versions": {"x": "10.1.2.3"}}, "versions.x has an unknown shape"),
        ({"started": "yesterday"}, "started has an unknown shape"),
        ({"steps": []}, "has no steps"),
        ({"steps": [{"name": "site"}]}, "has a step with other fields"),
        ({"steps": [{"name": "site", "state": "good", "seconds": 1, "verdicts": []}]}, "has no known state"),
        (
            {"steps": [{"name": "site", "state": "passed", "seconds": 1, "verdicts": [{"id": "a", "status": "fine"}]}]},
            "has a verdict with other fields",
        ),
    ],
)
def test_changed_file_is_rejected(change, sentence):
    assert any(sentence in problem for problem in evidence.problems({**whole(), **change}))


def changed(step_name, **fields):
    """Return the steps of a whole run with changed fields of one step."""
    return [{**step, **fields} if step["name"] == step_name else step for step in whole()["steps"]]


FAIL, NO_ID = {"id": "a.b", "status": "fail"}, {"id": "a.b", "status": "not_applicable"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, ""),
        (
            {"steps": changed("verify", verdicts=[FAIL])},
            "the step verify passed and has verdicts other than pass: a.b",
        ),
        ({"steps": changed("wait", verdicts=[FAIL])}, "the step wait passed and has verdicts other than pass: a.b"),
        ({"steps": changed("site", verdicts=[])}, "the step site passed and has no passing verdict"),
        ({"steps": changed("site", verdicts=[NO_ID])}, "the step site passed and has no passing verdict"),
        ({"steps": changed("site", state="failed", verdicts=[FAIL])}, ""),
        ({"steps": changed("wait", state="not run")}, "has a step that was run after one that was not"),
        ({"steps": changed("uninstall", state="not run")}, ""),
        ({"steps": whole()["steps"][:3]}, "has the steps wait, site, verify, and a run has wait, site"),
        ({"steps": whole()["steps"][::-1]}, "and a run has wait, site"),
        ({"steps": changed("wait", name="fly")}, "has the steps fly, site"),
        ({"steps": changed("wait", seconds=True)}, "no known state or no seconds"),
        ({"steps": changed("wait", seconds=-1)}, "no known state or no seconds"),
        ({"steps": changed("wait", seconds=0)}, ""),
        ({"finished": "2026-01-31T11:00:00Z"}, "has finished before it started"),
        ({"finished": RUN["started"]}, ""),
        ({"finished": "withheld"}, ""),
        ({"started": "withheld"}, ""),
    ],
)
def test_contradictory_file_is_rejected(change, sentence):
    problems = evidence.problems({**whole(), **change})
    assert problems == [] if not sentence else any(sentence in problem for problem in problems)


def test_missing_field_is_named():
    document = built()
    del document["facts"]
    assert evidence.problems(document) == ["lacks facts"]


def test_rows_list_passed_and_other_steps():
    assert evidence.rows([built()]) == [
        ("c5d.large", "Ubuntu 24.04, 6.8.0-1018-aws", "site", "failed: verify; not run: stop")
    ]
    assert evidence.rows([]) == []
