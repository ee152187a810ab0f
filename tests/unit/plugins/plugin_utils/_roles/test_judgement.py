# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines of a look, and when a role fails."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.plan import (
    Package,
    Plan,
    not_concerned,
    refused,
)
from ansible_collections.mlcluster.aws.plugins.plugin_utils._roles.judgement import judge

GOOD = "PASS gds.driver: 580"
BAD = "FAIL gds.mode (/data): none"


def answer(plan=None, problems=(), failed=None):
    plan = plan or Plan("gds", notes=("EFA is newer and kept",))
    lines = [GOOD, *problems]
    texts = {"lines": lines, "problems": list(problems), "info": ["CUDA 13.0"], "details": ["the log"]}
    return {"plan": plan.to_dict(), "failed": failed, **texts}


DIFFERENT = Plan("gds", packages=(Package("fio"),))


def test_node_with_nothing_to_do_shows_its_verdicts():
    done = judge(answer(), required=True, is_final=True)
    assert (done.lines, done.failure) == (("EFA is newer and kept", "CUDA 13.0", GOOD), None)


def test_problem_fails_required_role_and_is_reported():
    found = answer(problems=[BAD])
    assert judge(found, required=True, is_final=True).failure == f"{BAD}\nthe log"
    judged = judge(found, required=False, is_final=True)
    assert (judged.failure, judged.lines[-2:]) == (None, (BAD, "the log"))
    assert judge(found, required=True, is_final=True, is_check=True).failure is None


def test_node_before_change_is_not_judged():
    assert judge(answer(DIFFERENT, [BAD]), required=True, is_final=False).failure is None
    foretold = judge(answer(DIFFERENT, [BAD]), required=True, is_final=False, is_check=True)
    assert (foretold.lines, foretold.failure) == (("would change packages",), None)


def test_remaining_differences_are_problem():
    left = judge(answer(DIFFERENT), required=True, is_final=True)
    assert left.failure == "the run left differences: packages\nthe log"
    assert judge(answer(DIFFERENT), required=False, is_final=True).failure is None


def test_earlier_error_counts_with_unmet_request():
    earlier_problems = ["apt failed"]
    assert judge(answer(DIFFERENT), True, True, earlier_problems=earlier_problems).failure.startswith(
        "apt failed; the run left"
    )
    assert judge(answer(), True, True, earlier_problems=earlier_problems).failure is None


@pytest.mark.parametrize("is_check", [True, False])
def test_refusal_is_reported_and_fails_required_role(is_check):
    found = answer(refused("gds", ["the driver is too old"]))
    assert judge(found, True, False, is_check).failure == "the driver is too old\nthe log"
    judged = judge(found, False, False, is_check)
    assert (judged.failure, judged.lines[:2]) == (None, ("nothing is changed: the driver is too old", GOOD))
    bad = answer(refused("gds", ["the driver is too old"]), [BAD])
    assert judge(bad, True, False, is_check).failure == f"the driver is too old; {BAD}\nthe log"


def test_not_concerned_node_has_reason():
    found = answer(not_concerned("gds", "no NVIDIA driver is loaded on this node"))
    assert judge(found, True, True).lines == ("no NVIDIA driver is loaded on this node: nothing is done",)
    assert judge({**found, "problems": [BAD]}, True, True).failure == BAD
    assert judge({**found, "problems": [BAD]}, False, True).failure is None


def test_look_without_answer_always_fails():
    found = answer(refused("gds", ["the look gave no answer"]), failed="the look gave no answer")
    assert judge(found, required=False, is_final=False, is_check=True).failure == "the look gave no answer"
