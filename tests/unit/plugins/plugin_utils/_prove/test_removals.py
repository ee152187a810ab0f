# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sweep removes resources with both tags, and nothing else."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.plugin_utils._prove import plan, removals

OURS = plan.tags("prove-1")


def found(tags, state="running"):
    return {
        "instances": [{"instance_id": "i-1", "state": {"name": state}, "tags": tags}],
        "volumes": [{"id": "vol-1", "tags": tags}],
        "keys": [{"key_name": "key", "tags": tags}],
        "groups": [{"group_id": "sg-1", "tags": tags}],
    }


def names(answer):
    return answer["instances"] + answer["volumes"] + answer["keys"] + answer["groups"]


def test_everything_of_run_is_removed():
    answer = removals.removals(found(OURS), "prove-1")
    assert (names(answer), answer["runs"]) == (["i-1", "vol-1", "key", "sg-1"], ["prove-1"])


@pytest.mark.parametrize(
    "tags",
    [
        None,
        {},
        {plan.RUN_TAG: "prove-1"},
        {plan.PROJECT_TAG: plan.PROJECT},
        {plan.RUN_TAG: "prove-1", plan.PROJECT_TAG: "somebody"},
        {plan.RUN_TAG: "prove-10", plan.PROJECT_TAG: plan.PROJECT},
    ],
)
def test_resource_without_both_tags_is_kept(tags):
    assert names(removals.removals(found(tags), "prove-1")) == []


@pytest.mark.parametrize("state", ["pending", "running", "stopping", "stopped", "shutting-down"])
def test_instance_not_terminated_is_reported_as_left(state):
    assert removals.removals(found(OURS, state), "prove-1")["instances"] == ["i-1"]


def test_terminated_instance_is_gone():
    assert removals.removals(found(OURS, "terminated"), "prove-1")["instances"] == []


@pytest.mark.parametrize("run", ["*", "", "prove-*", None, "all"])
def test_invalid_run_name_removes_nothing(run):
    answer = removals.removals(found({**OURS, plan.RUN_TAG: str(run)}), str(run))
    assert names(answer) == [] and answer["problem"].startswith("nothing was removed: prove_on_aws_sweep is ")


def test_list_shows_runs_and_removes_nothing():
    answer = removals.removals(found(OURS), "list")
    assert (names(answer), answer["runs"], answer["problem"]) == ([], ["prove-1"], "")


def test_invalid_region_is_rejected():
    assert "prove_on_aws_region is ''" in removals.removals({}, "prove-1", "")["problem"]
