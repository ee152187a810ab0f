# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The look at a node: answers of several roles, and the result of a look without an answer."""

from __future__ import annotations

import hashlib
import json
import time

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.domains import Domain
from ansible_collections.mlcluster.aws.plugins.module_utils._node.node.look import look_all
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import (
    File,
    Plan,
    Report,
    not_concerned,
    refused,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.verdict.result import failed, not_applicable, passed

AS_WANTED = {"mode": "0600", "uid": 0, "gid": 0, "is_link": False, "is_dir": False}
WANTED = File("limits", "/etc/limits", "unlimited\n")


class Machine(Host):
    """files: {path: text}, owned by root."""

    def __init__(self, **files):
        self.files = files

    def sha256(self, path):
        return hashlib.sha256(self.files[path].encode()).hexdigest() if path in self.files else None

    def stat(self, path):
        return AS_WANTED if path in self.files else None


def domain(role="one", look=lambda host, config: config, plan=None, seconds=60.0, **more):
    return Domain(
        role=role,
        groups=("gpu",),
        spec={"mode": {"type": "str", "default": "compat"}, "probe": {"type": "str", "default": "active"}},
        problems=lambda raw: [],
        parse=dict,
        look=look,
        seconds=lambda config: seconds,
        plan=plan or (lambda facts, config: Plan("one")),
        verify=lambda facts, config: [passed("one.a", 1), failed("one.b", "is bad"), not_applicable("one.c", "no")],
        report=lambda facts, config: Report(("shown",), ("log",), {"mlcluster_one": facts}),
        **more,
    )


@pytest.fixture
def ask(tmp_path):
    def run(*domains, host=None, options=None, **more):
        asked = {entry.role: options or {} for entry in domains}
        registry = {entry.role: entry for entry in domains}
        answers = look_all(host or Machine(), asked, domains=registry, state_directory=str(tmp_path), **more)
        return answers[domains[0].role] if len(domains) == 1 else answers

    return run


def test_answer_has_plan_verdicts_and_report(ask):
    answer = ask(domain(plan=lambda facts, config: Plan("one", files=(WANTED,))))
    assert answer["plan"]["differences"] == ["limits", "role options"]
    assert [entry["id"] for entry in answer["results"]] == ["one.a", "one.b", "one.c"]
    assert len(answer["lines"]) == 3
    assert answer["problems"] == ["FAIL one.b: is bad"]
    assert (answer["info"], answer["details"], answer["failed"]) == (["shown"], ["log"], None)
    assert answer["facts"] == {"mlcluster_one": {"mode": "compat", "probe": "active"}}


def test_options_of_role_are_kept_where_it_may_act(ask):
    first = ask(domain(), options={"mode": "nvfs"})
    (entry,) = first["plan"]["files"]
    assert json.loads(entry["text"])["options"] == {"mode": "nvfs", "probe": "active"}
    kept = Machine(**{entry["path"]: entry["text"]})
    assert ask(domain(), options={"mode": "nvfs"}, host=kept)["plan"]["empty"]
    assert ask(domain(), options={"mode": "compat"}, host=kept)["plan"]["differences"] == ["role options"]
    for nothing in (not_concerned("one", "no GPU"), refused("one", ["no driver"])):
        assert ask(domain(plan=lambda facts, config, nothing=nothing: nothing))["plan"]["files"] == []


def test_transient_option_is_not_kept(ask):
    (first,), (second,) = (
        ask(domain(transient={"probe"}), options={"mode": "nvfs", "probe": probe})["plan"]["files"]
        for probe in ("active", "passive")
    )
    assert first == second
    assert json.loads(first["text"])["options"] == {"mode": "nvfs"}


def test_read_only_look_has_own_options_and_keeps_requested(ask):
    careful = domain(read_only={"probe": "passive"})
    answer = ask(careful, read_only=True)
    assert answer["facts"]["mlcluster_one"]["probe"] == "passive"
    assert json.loads(answer["plan"]["files"][0]["text"])["options"]["probe"] == "active"
    assert ask(careful)["facts"]["mlcluster_one"]["probe"] == "active"


def refuse(host, config):
    raise NodeError("queried dpkg-query and got no answer: run it by hand")


def crash(host, config):
    raise ZeroDivisionError("by zero")


def hang(host, config):
    time.sleep(3600)


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (refuse, "queried dpkg-query and got no answer: run it by hand"),
        (crash, "stopped by an unexpected ZeroDivisionError: by zero"),
        (hang, "no answer within 0.2 seconds"),
        (lambda host, config: object(), "is not JSON serializable"),
    ],
)
def test_look_without_answer_refuses_without_delay(ask, look, words):
    # The others need a process, which takes longer than that on a busy machine.
    answers = ask(domain("bad", look, seconds=0.2 if look is hang else 60), domain("good"))
    assert words in answers["bad"]["failed"]
    assert answers["bad"]["failed"].startswith("the look of role bad gave no answer (")
    plan = answers["bad"]["plan"]
    assert (list(plan["refusals"]), plan["empty"]) == ([answers["bad"]["failed"]], True)
    assert answers["good"]["failed"] is None
