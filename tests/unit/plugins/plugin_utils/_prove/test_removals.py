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
        "keys": [{"key_name": "prove-1", "tags": tags}],
        "groups": [{"group_id": "sg-1", "group_name": "prove-1", "tags": tags}],
    }


OWN = {"instances": ["i-1"], "volumes": ["vol-1"]}


def names(answer):
    return answer["instances"] + answer["volumes"] + answer["keys"] + answer["groups"]


def test_everything_of_run_is_removed():
    answer = removals.removals(found(OURS), "prove-1", launched=OWN)
    assert (names(answer), answer["runs"]) == (["i-1", "vol-1", "prove-1", "sg-1"], ["prove-1"])
    assert answer["kept"] == []


@pytest.mark.parametrize("launched", [None, {}, {"instances": None}, {"instances": ["i-2"], "volumes": ["vol-2"]}])
def test_run_without_its_record_removes_nothing(launched):
    """ "Launch more like this" of EC2 copies the tags."""
    answer = removals.removals(found(OURS), "prove-1", launched=launched)
    assert (names(answer), answer["kept"]) == ([], ["i-1", "vol-1", "prove-1", "sg-1"])


def test_copy_is_kept_with_its_volume_key_and_group():
    everything = found(OURS)
    everything["instances"].append({"instance_id": "i-2", "state": {"name": "stopped"}, "tags": OURS})
    everything["volumes"].append({"id": "vol-2", "tags": OURS})
    answer = removals.removals(everything, "prove-1", launched=OWN)
    assert (names(answer), answer["kept"]) == (["i-1", "vol-1"], ["i-2", "vol-2", "prove-1", "sg-1"])


@pytest.mark.parametrize(("kind", "key"), [("keys", "key_name"), ("groups", "group_name")])
def test_key_or_group_of_another_name_is_kept(kind, key):
    everything = found(OURS)
    everything[kind][0][key] = "copy"
    answer = removals.removals(everything, "prove-1", launched=OWN)
    assert (answer[kind], len(answer["kept"])) == ([], 1)


RECORD = {"region": "us-east-1", "run": "prove-1", "id": "0123"}
WITH_ID = {**OURS, plan.ID_TAG: "0123"}


def test_key_and_group_are_removed_without_an_instance():
    """Of a run that ended before it launched one."""
    everything = {**found(WITH_ID, "terminated"), "volumes": []}
    assert names(removals.removals(everything, "prove-1", launched=RECORD)) == ["prove-1", "sg-1"]
    # Without the record, they may be of another run of that name.
    assert removals.removals(everything, "prove-1")["kept"] == ["prove-1", "sg-1"]


@pytest.mark.parametrize("tags", [OURS, {**OURS, plan.ID_TAG: "4567"}])
def test_key_and_group_without_the_recorded_id_are_kept(tags):
    everything = {**found(tags, "terminated"), "volumes": []}
    answer = removals.removals(everything, "prove-1", launched=RECORD)
    assert (names(answer), answer["kept"]) == ([], ["prove-1", "sg-1"])


@pytest.mark.parametrize(("token", "removed"), [("0123", ["i-1"]), ("4567", []), ("", []), (None, [])])
def test_instance_is_found_by_the_recorded_token(token, removed):
    everything = {"instances": [{**found(WITH_ID)["instances"][0], "client_token": token}]}
    answer = removals.removals(everything, "prove-1", launched=RECORD)
    assert (answer["instances"], answer["kept"]) == (removed, [] if removed else ["i-1"])


@pytest.mark.parametrize("record", [None, {}, {**RECORD, "id": ""}, {**RECORD, "id": None}])
def test_empty_token_is_no_proof(record):
    everything = {"instances": [{**found(OURS)["instances"][0], "client_token": ""}]}
    assert removals.removals(everything, "prove-1", launched=record)["instances"] == []


def test_volume_of_the_terminated_instance_is_removed():
    """The controller died before it had the ids of the volumes."""
    disks = [{"ebs": {"volume_id": "vol-1"}}, {"ebs": None}, {}]
    before = {**found(WITH_ID)["instances"][0], "client_token": "0123", "block_device_mappings": disks}
    everything = {**found(WITH_ID, "terminated"), "before": [before]}
    assert names(removals.removals(everything, "prove-1", launched=RECORD)) == ["vol-1", "prove-1", "sg-1"]
    # Of an instance with another token it may be a copy.
    everything["before"] = [{**before, "client_token": "4567"}]
    assert names(removals.removals(everything, "prove-1", launched=RECORD)) == []


@pytest.mark.parametrize(
    ("entry", "lost"),
    [
        ({"client_token": "0123", "tags": {}}, ["i-1"]),
        ({"client_token": "0123", "tags": {plan.RUN_TAG: "prove-1"}}, ["i-1"]),
        ({"client_token": "0123", "tags": OURS}, []),
        ({"client_token": "4567", "tags": {}}, []),
        ({"client_token": "0123", "tags": {}, "state": {"name": "terminated"}}, []),
    ],
)
def test_launched_instance_without_tags_is_lost(entry, lost):
    answer = removals.removals({"launched": [{"instance_id": "i-1", **entry}]}, "prove-1", launched=RECORD)
    assert (answer["lost"], answer["instances"]) == (lost, [])


@pytest.mark.parametrize(
    ("more", "now", "is_unsettled"),
    [
        ({}, 100, False),
        ({"requested": 100}, 399, True),
        ({"requested": 100}, 400, False),
        ({"requested": 100, "refused": "VcpuLimitExceeded"}, 101, False),
        ({"requested": 100, "instances": ["i-1"]}, 101, False),
        ({"requested": "100"}, 101, False),
    ],
)
def test_launch_without_an_answer_is_unsettled_for_minutes(more, now, is_unsettled):
    assert removals.is_unsettled({**RECORD, **more}, now) is is_unsettled


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
    answer = removals.removals(found(tags), "prove-1", launched=OWN)
    assert names(answer) == [] == answer["kept"]


@pytest.mark.parametrize("state", ["pending", "running", "stopping", "stopped", "shutting-down"])
def test_instance_not_terminated_is_reported_as_left(state):
    assert removals.removals(found(OURS, state), "prove-1", launched=OWN)["instances"] == ["i-1"]


def test_terminated_instance_is_gone():
    assert removals.removals(found(OURS, "terminated"), "prove-1", launched=OWN)["instances"] == []


@pytest.mark.parametrize("run", ["*", "", "prove-*", None, "all"])
def test_invalid_run_name_removes_nothing(run):
    answer = removals.removals(found({**OURS, plan.RUN_TAG: str(run)}), str(run), launched=OWN)
    assert names(answer) == [] and answer["problem"].startswith("nothing was removed: prove_on_aws_sweep is ")


def test_list_shows_runs_and_removes_nothing():
    answer = removals.removals(found(OURS), "list", launched=OWN)
    assert (names(answer), answer["runs"], answer["problem"], answer["kept"]) == ([], ["prove-1"], "", [])


def test_invalid_region_is_rejected():
    assert "prove_on_aws_region is ''" in removals.removals({}, "prove-1", "")["problem"]


def test_sweep_in_another_region_than_the_run_is_rejected():
    """It would find nothing, and report that nothing is left."""
    launched = {**OWN, "region": "us-west-2"}
    assert removals.removals({}, "prove-1", "us-east-1", launched)["problem"] == (
        "nothing was removed: prove-1 was launched in us-west-2, not in us-east-1; add -e prove_on_aws_region=us-west-2"
    )
    assert removals.removals({}, "prove-1", "us-west-2", launched)["problem"] == ""
    # A record of an earlier version.
    assert removals.removals({}, "prove-1", "us-east-1", OWN)["problem"] == ""
