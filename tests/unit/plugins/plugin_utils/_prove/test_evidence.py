# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence has the fields of its schema only, and nothing that tells whose the instance was."""

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
REPORTS = {"verify": json.dumps({"host": "prove-node", "results": [VERDICT]}) + "\n"}


def built(**change):
    return evidence.build({**RUN, **change}, REPORTS, {"ansible-core": "2.19.4"})


def test_evidence_has_states_and_verdicts_of_each_step():
    document = built()
    assert evidence.problems(document) == []
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
def test_what_names_somebody_is_withheld(value):
    assert evidence.text(value) == evidence.WITHHELD
    assert built(image=value)["image"] == evidence.WITHHELD


@pytest.mark.parametrize(
    "value", ["5.14.0-503.14.1.el9_5.x86_64", "6.1.119-129.201.amzn2023.x86_64", "a private image", "570.86.15"]
)
def test_versions_and_kernels_are_kept(value):
    assert evidence.text(value) == value


def test_only_what_says_so_has_passed():
    assert built(done=[{"name": "site", "passed": "true"}])["steps"][0]["state"] == "failed"


def test_a_status_that_is_unknown_is_undeterminable():
    assert evidence.verdicts('{"results": [{"id": "a.b", "status": "fine"}]}') == [
        {"id": "a.b", "status": "undeterminable"}
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schema": "mlcluster.report/1"}, "is no document of the schema"),
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
def test_a_file_that_was_changed_is_found_out(change, sentence):
    assert any(sentence in problem for problem in evidence.problems({**built(), **change}))


def test_a_document_that_lacks_a_field_is_named():
    document = built()
    del document["facts"]
    assert evidence.problems(document) == ["lacks facts"]


def test_rows_say_what_passed_and_what_did_not():
    assert evidence.rows([built()]) == [
        ("c5d.large", "Ubuntu 24.04, 6.8.0-1018-aws", "site", "failed: verify; not run: stop")
    ]
    assert evidence.rows([]) == []
