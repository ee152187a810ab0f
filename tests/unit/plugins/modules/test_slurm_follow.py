# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action slurm_follow, as a task has it; slurm_job is a stand-in."""

from __future__ import annotations

import re
import types

import pytest
import yaml
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.mlcluster.aws.plugins.action import slurm_follow
from ansible_collections.mlcluster.aws.plugins.modules import slurm_follow as documented

OPTIONS = {
    **yaml.safe_load(documented.DOCUMENTATION)["options"],
    # Of the documentation that modules of Slurm share.
    "prefix": {"type": "path"},
    "conf": {"type": "path"},
}
DONE = {"failed": False, "job": {"state": "COMPLETED", "ok": True, "nodes": "n1"}}
BROKEN = {
    "failed": False,
    "job": {"state": "FAILED", "ok": False, "exit_code": 3, "stderr_tail": "a\nno \x1b[31mdisk\n"},
}


@pytest.fixture
def follow(monkeypatch):
    """follow(answers, check=False, **options) gives the result, what slurm_job was asked, and the lines."""

    def run(answers, check=False, **options):
        given = {"jobs": [{"name": "small", "job_id": 7, "exit_file": "/e-%j"}], **options}
        task = types.SimpleNamespace(args=given, check_mode=check, async_val=0, action="mlcluster.aws.slurm_follow")
        connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="none"))
        action = slurm_follow.ActionModule(task, connection, None, None, None, None)
        asked, lines, left = [], [], list(answers)

        def execute(module_name, module_args, task_vars):
            asked.append((module_name, module_args))
            answer = left.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(action, "_execute_module", execute)
        monkeypatch.setattr(action._display, "display", lines.append)
        monkeypatch.setattr(slurm_follow.time, "sleep", lambda _seconds: None)
        return action.run(task_vars={}), asked, lines

    return run


def test_its_options_are_the_documented_ones():
    def told(options):
        return {
            name: {**{key: option.get(key) for key in ("type", "elements", "default", "required")},
                   "options": told(option.get("options") or option.get("suboptions") or {})}
            for name, option in options.items()
        }  # fmt: skip

    assert told(slurm_follow.ARGUMENTS) == told(OPTIONS)


def test_a_job_is_asked_for_as_slurm_job_takes_it_and_shown(follow):
    result, asked, lines = follow([DONE], prefix="/opt/slurm", cancel_on_timeout=True)
    assert asked == [
        ("mlcluster.aws.slurm_job", {"job_id": 7, "exit_file": "/e-%j", "timeout": 10, "cancel_on_timeout": False,
                                     "fail_on_error": False, "prefix": "/opt/slurm"})
    ]  # fmt: skip
    assert result["jobs"] == [{"name": "small", "job_id": 7, "job": DONE["job"], "failed": False, "msg": None}]
    assert (result.get("failed"), result["changed"]) == (None, False)
    assert [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in lines] == ["small: job 7 COMPLETED on n1"]


def test_a_failure_fails_the_task_unless_it_may_be(follow):
    result, _asked, _lines = follow([BROKEN])
    told = "small: job 7 is FAILED, exit status 3; it last wrote: no  [31mdisk"
    assert (result["failed"], result["msg"]) == (True, told)
    result, _asked, _lines = follow([BROKEN], fail_on_error=False)
    assert (result.get("failed"), result["jobs"][0]["job"]["exit_code"]) == (None, 3)


def test_a_machine_that_is_gone_for_a_while_is_no_end(follow):
    result, asked, lines = follow([AnsibleConnectionFailure("no \x1b route"), DONE])
    assert (result.get("failed"), len(asked), len(lines)) == (None, 2, 2)
    assert all(line.isprintable() for line in lines)


def test_a_job_that_was_cancelled_is_a_change(follow):
    late = {"failed": True, "changed": True, "msg": "waited", "job": {"state": "CANCELLED"}}
    result, asked, _lines = follow([late], timeout=0, cancel_on_timeout=True)
    assert (result["failed"], result["changed"], asked[0][1]["cancel_on_timeout"]) == (True, True, True)


def test_check_mode_follows_nothing_and_nothing_is_followed_for_nobody(follow):
    assert follow([], check=True)[0]["skipped"]
    assert follow([], jobs=[])[0]["jobs"] == []


@pytest.mark.parametrize("options", [{"every": 0}, {"every": 301}, {"timeout": -1}])
def test_times_that_cannot_be_are_refused(follow, options):
    with pytest.raises(AnsibleActionFail, match="every has to be 1 to 300 seconds, and timeout 0 or more"):
        follow([], **options)
