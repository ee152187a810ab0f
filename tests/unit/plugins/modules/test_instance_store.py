# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import RECORD_PATH
from ansible_collections.mlcluster.aws.plugins.modules import instance_store

from tests.unit.fakes import fake_storage_scene as scene


@pytest.fixture
def run(run_module):
    return lambda host, **options: run_module(instance_store, host, **options)


def kinds(result):
    return [action["action"] for action in result["actions"]]


def test_fresh_node_gets_volume_and_second_run_is_unchanged(run):
    host = scene.node(4)
    first = run(host, directories=[{"path": "scratch", "mode": "1777"}])
    assert first["changed"]
    assert (first["plan"]["situation"], first["local_storage"]["state"]) == ("fresh", "intact")
    assert kinds(first)[:2] == ["write_intent", "create_array"]
    assert [disk["owner"] for disk in first["disks"]] == ["none"] * 4
    second = run(host, directories=[{"path": "scratch", "mode": "1777"}])
    assert (second["changed"], second["actions"]) == (False, [])
    assert [disk["owner"] for disk in second["disks"]] == ["ours"] * 4
    assert second["diff"]["before"] == second["diff"]["after"]


def test_check_mode_reports_same_actions_and_writes_nothing(run):
    host = scene.node(4)
    planned = run(host, check=True, fstype="xfs")
    assert planned["changed"]
    assert planned["local_storage"] is None
    assert host.changes() == []
    assert host.locks == []
    done = run(host, fstype="xfs")
    assert planned["actions"] == done["actions"]
    assert planned["diff"] == done["diff"]


def test_diff_shows_volume_and_actions(run):
    diff = run(scene.node(2), check=True)["diff"]
    assert diff["before"] == ""
    lines = diff["after"].splitlines()
    assert lines[0].startswith("/data: ext4 ")
    assert lines[0].endswith(", raid0 of 2 disks, owner ours")
    assert "- create array mlcluster" in lines
    assert "- mount /data" in lines


def test_diff_of_rebuild_shows_destroyed_data(run):
    host = scene.converged(2)
    diff = run(host, check=True, fstype="xfs", **scene.CONSENT)["diff"]
    assert "- unmount /data" in diff["after"]
    assert "- wipe /dev/nvme1n1" in diff["after"]


@pytest.mark.parametrize("check", [False, True])
def test_diff_names_uninspected_data(run, check):
    host = scene.node(4)
    host.machine.stopped_array(["nvme1n1", "nvme2n1"], scene.FOREIGN_ARRAY, name="host:old")
    host.machine.volume("data", "all", ["nvme3n1"], active=False)
    host.machine.array("md5", ["nvme4n1"], "5" * 32, name="host:live")
    host.machine.sign("md5", "ext4", None, "theirs")
    before = run(host, check=check, **scene.CONSENT)["diff"]["before"].splitlines()
    assert [line for line in before if "inspected" in line] == [
        "destroyed: the array host:old does not run, so its content could not be inspected",
        "destroyed: the logical volume data/all is not active, so its content could not be inspected",
    ]
    assert before[0].startswith(
        "destroyed: /dev/nvme1n1 (AWS0001) carries a linux_raid_member signature (label host:old"
    )
    assert before[3].startswith("destroyed: /dev/nvme4n1 (AWS0004) is held by md5, carries a linux_raid_member")
    assert before[4] == "destroyed: md5 carries an ext4 signature (label theirs)"


@pytest.mark.parametrize("check", [False, True])
def test_refusal_fails_with_message_plan_and_disks(run, check):
    host = scene.node(2)
    scene.foreign_array(host)
    result = run(host, check=check)
    assert result["failed"]
    assert "set nvme_raid0_existing: replace together with nvme_raid0_safe_mode: false" in result["msg"]
    assert result["plan"]["situation"] == "refused"
    assert result["disks"][0]["reasons"][:2] == ["is mounted on /mnt/theirs", "is held by md127"]
    assert host.changes() == []


def test_consent_needs_both_switches(run):
    host = scene.node(2)
    scene.foreign_array(host)
    assert run(host, existing="replace")["failed"]
    assert run(host, safe_mode=False)["failed"]
    result = run(host, existing="replace", safe_mode=False)
    assert (result["changed"], result["plan"]["situation"]) == (True, "rebuild")


@pytest.mark.parametrize("check", [False, True])
def test_invalid_option_fails_with_one_sentence(run, check):
    result = run(scene.node(2), check=check, mode="0777")
    assert result["failed"]
    assert result["msg"].startswith("mode is 0777: all users could delete")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"fstype": "btrfs"}, "value of fstype must be one of: ext4, xfs, got: btrfs"),
        ({"layout": "raid5"}, "value of layout must be one of"),
        ({"chunk_kib": "much"}, "'chunk_kib' is of type str and we were unable to convert to int"),
        ({"size": 3}, "Unsupported parameters for .* size"),
        ({"directories": [{"mode": "0755"}]}, "missing required arguments: path found in directories"),
    ],
)
def test_argument_spec_rejects_other_values(run, options, word):
    result = run(scene.node(2), **options)
    assert result["failed"]
    assert re.search(word, result["msg"])


def test_failing_tool_is_reported_with_action_and_output(run):
    host = scene.node(2)
    host.failures["mkfs.ext4"] = (1, "mkfs.ext4: Input/output error")
    result = run(host)
    assert result["failed"]
    assert result["msg"].startswith("make filesystem failed: mkfs.ext4 ")
    assert result["msg"].endswith("failed with status 1: mkfs.ext4: Input/output error")


def test_boolean_strings_are_accepted(run):
    host = scene.node(2)
    scene.foreign_array(host)
    assert run(host, existing="replace", safe_mode="yes")["failed"]
    assert run(host, existing="replace", safe_mode="no", chunk_kib="64")["changed"]
    assert json.loads(host.machine.files[RECORD_PATH])["chunk_kib"] == 64


def test_node_without_disks_is_unchanged(run):
    host = scene.node(0)
    result = run(host)
    assert (result["changed"], result["plan"]["situation"], result["local_storage"]) == (False, "no_disks", None)
    assert RECORD_PATH not in host.machine.files
