# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge as storage
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import (
    INTENT_PATH,
    LOCK_PATH,
    RECORD_PATH,
)

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.recorded_host import RecordedHost


def record_of(host):
    return json.loads(host.machine.files[RECORD_PATH])


def test_recorded_intact_node_needs_nothing():
    host = RecordedHost("debian-13-raid0")
    facts, plan = storage.survey(host, scene.config())
    assert (plan.situation, plan.state, plan.owner, plan.actions) == ("intact", "intact", "ours", [])
    assert [claim.owner for claim in plan.claims] == ["ours"] * 4
    assert facts["record"]["serials"] == [claim.disk["serial"] for claim in plan.claims]


def test_array_without_record_is_foreign():
    host = RecordedHost("debian-13-raid0")
    del host.files[RECORD_PATH]
    plan = storage.survey(host, scene.config())[1]
    assert (plan.situation, plan.actions) == ("refused", [])
    assert "/dev/nvme1n1 (AWS010000) is mounted on /data, is held by md127" in plan.refusals[0]


def test_recorded_blank_disks_become_volume_in_serial_order():
    host = RecordedHost("debian-13-blank")
    facts, plan = storage.survey(host, scene.config())
    assert (plan.situation, plan.refusals, facts["instance_type"]) == ("fresh", [], "trn2.48xlarge")
    assert [claim.usable for claim in plan.claims] == [True] * 4
    create = next(action for action in plan.actions if action["action"] == "create_array")
    assert create["devices"] == ["/dev/nvme2n1", "/dev/nvme5n1", "/dev/nvme4n1", "/dev/nvme3n1"]


def test_whole_run_holds_lock():
    host = scene.node(2)
    scene.run(host)
    assert host.locks == [LOCK_PATH]


def test_look_writes_nothing():
    host = scene.node(4)
    scene.plan_of(host)
    storage.dry_run(host, scene.config())
    assert host.changes() == []
    assert RECORD_PATH not in host.machine.files


def test_dry_run_raises_same_errors():
    host = scene.node(2)
    scene.foreign_array(host)
    with pytest.raises(storage.RefusedError) as refused:
        storage.dry_run(host, scene.config())
    assert refused.value.plan.refusals == [str(refused.value)]


def test_disk_that_comes_back_makes_volume_whole_again():
    host = scene.converged(4)
    host.machine.unmount("/data")
    host.run(["mdadm", "--stop", "/dev/md127"])
    gone = host.machine.devices.pop("nvme2n1")
    with pytest.raises(storage.RefusedError):
        scene.run(host, at_boot=True)
    host.machine.devices["nvme2n1"] = gone
    scene.run(host, at_boot=True)
    assert (record_of(host)["state"], record_of(host)["reason"]) == ("intact", "")


def test_foreign_state_is_recorded_at_boot():
    host = scene.node(2)
    scene.foreign_array(host)
    with pytest.raises(storage.RefusedError):
        scene.run(host, at_boot=True)
    record = record_of(host)
    assert (record["state"], record["owner"], record["serials"]) == ("foreign", "foreign", None)
    scene.refusal(host)


def test_service_of_image_starts_once_and_volume_is_used():
    host = scene.node(2)
    host.machine.unit(scene.PCLUSTER_UNIT)
    host.on_start[scene.PCLUSTER_UNIT] = lambda machine: (
        machine.volume("vg.01", "lv_ephemeral", ["nvme1n1", "nvme2n1"]),
        machine.sign("dm-0", "ext4", "ab"),
        machine.mount("dm-0", "/scratch"),
    )
    applied = storage.converge(host, scene.config())
    assert applied.plan.situation == "adopted"
    assert [action["action"] for action in applied.done][:2] == ["start_unit", "bind_mount"]
    assert record_of(host)["owner"] == "parallelcluster"
    assert len([call for call in host.calls if call[:2] == ["systemctl", "restart"]]) == 1


def test_array_gets_another_uuid_each_time_and_filesystem_same():
    host = scene.node(2)
    first = storage.context_for(storage.look(host, scene.config()))
    scene.run(host)
    second = storage.context_for(storage.look(host, scene.config()))
    assert first.array_uuid != second.array_uuid
    assert first.namespace == second.namespace
    host.machine.files["/etc/machine-id"] = "another\n"
    assert storage.context_for(storage.look(host, scene.config())).namespace != first.namespace


@pytest.mark.parametrize("path", [RECORD_PATH, INTENT_PATH])
@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '"x"', '{"volumes": 3}', '{"serials": [{}]}', "\x00\xff"])
@pytest.mark.parametrize("disks", ["blank", "foreign"])
def test_damaged_state_files_never_destroy_or_crash(path, text, disks):
    host = scene.node(2)
    host.machine.files[path] = text
    if disks == "foreign":
        scene.foreign_array(host)
        scene.refusal(host, at_boot=True)
        scene.refusal(host)
    else:
        scene.run(host)
        assert scene.run(host) == []


def test_look_without_root_is_reported_as_such():
    host = scene.converged(2)
    host.is_root = lambda: False
    with pytest.raises(storage.NodeError, match="only root can look at the disks"):
        scene.plan_of(host)
