# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge as storage
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.first_boot import SEEN_PATH
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


def test_dry_run_returns_plan_of_run():
    host = scene.node(2)
    assert storage.dry_run(host, scene.config()).actions == scene.plan_of(host).actions


def test_disks_are_recorded_before_first_change_and_by_boot_unit():
    host = scene.node(2)
    scene.foreign_array(host)
    with pytest.raises(storage.RefusedError):
        scene.run(host)
    assert SEEN_PATH not in host.machine.files
    with pytest.raises(storage.RefusedError):
        scene.run(host, at_boot=True)
    assert sorted(json.loads(host.machine.files.pop(SEEN_PATH))["unit"]["serials"]) == ["AWS0001", "AWS0002"]
    scene.run(host, **scene.CONSENT)
    seen = json.loads(host.machine.files.pop(SEEN_PATH))
    assert (sorted(seen["first_boot"]), seen["unit"]) == (["AWS0001", "AWS0002"], None)
    assert scene.run(host) == []
    assert SEEN_PATH not in host.machine.files


def test_run_without_word_of_boot_may_destroy_with_consent():
    host = scene.node(2)
    scene.foreign_array(host)
    applied = storage.converge(host, scene.config(**scene.CONSENT))
    assert (applied.plan.situation, host.lock_seconds) == ("rebuild", 300)


def test_files_on_mounted_volume_are_not_counted():
    host = scene.converged(2)
    host.machine.files["/data/a"] = ""
    assert storage.look(host, scene.config())["mount_points"]["/data"]["entries"] == 0


def test_look_has_every_wanted_mount_point_and_no_more():
    host = scene.converged(2, layout="per_disk")
    facts = storage.look(host, scene.config(layout="per_disk"))
    assert sorted(facts["mount_points"]) == ["/data", "/data/disk0", "/data/disk1"]
    assert [path for path in facts["paths"] if path.endswith("EPHEMERAL.txt")] == [
        f"/data{below}/EPHEMERAL.txt" for below in ("", "/disk0", "/disk1")
    ]
    assert storage.look(scene.node(2), scene.config())["mount_points"] == {}


def test_link_that_leads_nowhere_is_no_mount_point():
    host = scene.node(2)
    host.machine.links["/data"] = "/nowhere"
    assert "/data is a link, or leads through one, to /nowhere" in scene.refusal(host)


def test_uuid_of_array_depends_on_its_disks_alone():
    host = scene.node(2)
    host.machine.ebs("nvme9n1", "vol9")
    first = storage.context_for(storage.look(host, scene.config())).array_uuid
    host.machine.devices["nvme9n1"].serial = "vol8"
    assert storage.context_for(storage.look(host, scene.config())).array_uuid == first
    host.machine.devices["nvme2n1"].serial = "AWS0009"
    assert storage.context_for(storage.look(host, scene.config())).array_uuid != first


@pytest.mark.parametrize("at_boot", [False, True])
def test_failed_action_is_recorded_at_boot_alone(at_boot):
    host = scene.node(2)
    host.failures["mkfs.ext4"] = (1, "no space")
    with pytest.raises(storage.NodeError, match=r"make filesystem .* failed"):
        scene.run(host, at_boot)
    assert (RECORD_PATH in host.machine.files) == at_boot
    assert not at_boot or "no space" in record_of(host)["reason"]


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
