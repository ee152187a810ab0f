# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action node_verb in a task; the module is a stand-in."""

from __future__ import annotations

import types

import pytest
import yaml
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.mlcluster.aws.plugins.action import node_verb
from ansible_collections.mlcluster.aws.plugins.modules import node_verb as documented

STARTED = {"directory": "/tmp/d"}
# Ansible's result for a module that was killed, as by the kernel without free memory.
KILLED = {"failed": True, "msg": "MODULE FAILURE", "module_stdout": "", "module_stderr": "", "rc": -9}


def looked(text="", offset=0, over=False, rc=None, errors="", **outcome):
    return {"text": text, "offset": offset, "over": over, "rc": rc, "errors": errors, "outcome": outcome}


@pytest.fixture
def verb(monkeypatch):
    """verb(answers, **options) returns the result, the module's arguments, and the lines."""

    def run(answers, **options):
        given = {"verb": ["validate", "smoke"], **options}
        task = types.SimpleNamespace(args=given, check_mode=False, async_val=0, action="mlcluster.aws.node_verb")
        connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="none"))
        action = node_verb.ActionModule(task, connection, None, None, None, None)
        asked, lines, left = [], [], list(answers)
        clock = iter(range(0, 100_000, 100))

        def execute(module_name, module_args, task_vars):
            asked.append(module_args)
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(action, "_execute_module", execute)
        monkeypatch.setattr(action._display, "display", lines.append)
        monkeypatch.setattr(node_verb.time, "sleep", lambda _seconds: None)
        monkeypatch.setattr(node_verb.time, "monotonic", lambda: next(clock))
        return action.run(task_vars={}), asked, lines

    return run


def test_options_of_task_are_documented():
    documented_options = yaml.safe_load(documented.DOCUMENTATION)["options"]
    assert set(node_verb.ARGUMENTS) == set(documented_options) - {"directory", "offset", "forget"}
    assert documented.ARGUMENTS["interval"]["default"] == node_verb.ARGUMENTS["interval"]["default"]


def test_lines_are_shown_as_they_come(verb):
    looks = [looked("one\n", 4), looked("t\x1bwo\nthree\n", 12), looked("", 12, True, 0, changed=True), {}]
    answer, asked, lines = verb([STARTED, *looks], stdin="x")
    assert lines == ["one", "t wo", "three"]
    assert (answer["changed"], answer["rc"], answer["outcome"]) == (True, 0, {"changed": True})
    assert asked[0] == {"verb": ["validate", "smoke"], "stdin": "x", "interval": 10}
    assert [entry.get("offset") for entry in asked[1:4]] == [0, 4, 12]
    assert asked[4] == {"directory": "/tmp/d", "forget": True}


def test_failure_is_error_output_of_verb(verb):
    answer, *_rest = verb([STARTED, looked("", 0, True, 1, "validation is fail\n", changed=True), {}])
    assert (answer["failed"], answer["msg"], answer["changed"]) == (True, "validation is fail", True)


@pytest.mark.parametrize(
    ("rc", "why"), [(None, "ended without an exit status"), (2, "ended with 2 without error output")]
)
def test_end_without_error_output_is_reported(verb, rc, why):
    answer, *_rest = verb([STARTED, looked("", 0, True, rc), {}])
    assert answer["failed"] and f"validate {why}" in answer["msg"]


def test_silence_is_waited_out(verb):
    lost = AnsibleConnectionFailure("ssh: no route")
    answer, _asked, lines = verb([STARTED, looked("a\n", 2), lost, KILLED, looked("b\n", 4, True, 0), {}])
    assert lines == ["a", "b"] and answer["rc"] == 0


def test_silence_without_end_fails(verb):
    answer, *_rest = verb([STARTED, AnsibleConnectionFailure("ssh: no route")])
    assert answer["failed"]
    assert answer["msg"].startswith("the node does not answer: ssh: no route; submitted jobs continue")


def test_failed_look_ends_task(verb):
    answer, *_rest = verb([STARTED, {"failed": True, "msg": "/tmp/d is not a directory of a verb"}])
    assert answer["failed"] and answer["msg"] == "/tmp/d is not a directory of a verb"


def test_verb_that_did_not_start_is_not_followed(verb):
    answer, asked, _lines = verb([{"failed": True, "msg": "looked for the node runtime"}])
    assert (answer["failed"], answer["msg"], len(asked)) == (True, "looked for the node runtime", 1)


@pytest.mark.parametrize("options", [{"interval": 0}, {"interval": 301}, {"verb": []}])
def test_invalid_options_are_rejected(verb, options):
    with pytest.raises(AnsibleActionFail):
        verb([STARTED], **options)
