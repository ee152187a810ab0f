# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge as storage
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import StorageConfig
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.plan import expected_disks, make_plan, select
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import RECORD_PATH

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import INSTANCE_STORE, fs_uuid

MKFS = ["write_intent", "make_filesystem", "write_intent"]
FINISH = ["mount", "directory", "write_marker"]


def record_of(host):
    return json.loads(host.machine.files[RECORD_PATH])


def test_no_disks_is_clean_no_op_without_file():
    host = scene.node(0)
    plan = scene.plan_of(host)
    assert (plan.situation, plan.state, plan.actions, plan.volumes) == ("no_disks", "none", [], [])
    assert scene.run(host) == []
    assert RECORD_PATH not in host.machine.files


def test_layout_none_changes_no_disk():
    host = scene.node(4)
    scene.foreign_array(host)
    plan = scene.plan_of(host, layout="none", **scene.CONSENT)
    assert (plan.situation, plan.state, plan.actions) == ("disabled", "none", [])


def test_layout_none_keeps_record():
    host = scene.converged(2)
    assert scene.run(host, layout="none") == ["write_record"]
    assert (record_of(host)["state"], len(record_of(host)["serials"])) == ("none", 2)
    assert scene.run(host, layout="none") == []
    assert scene.run(host) == ["write_record"]
    assert scene.run(host) == []


def test_one_disk_gets_filesystem_without_md():
    plan = scene.plan_of(scene.node(1))
    assert (plan.situation, plan.state, plan.owner) == ("fresh", "intact", "ours")
    assert scene.kinds(plan) == ["write_intent", *MKFS, *FINISH, "write_record", "clear_intent"]
    (volume,) = plan.volumes
    assert (volume["layout"], volume["device"], volume["array_uuid"]) == ("single", "/dev/nvme1n1", None)


@pytest.mark.parametrize("count", [1, 2, 4, 8])
@pytest.mark.parametrize("layout", ["raid0", "per_disk"])
def test_life_of_volume(count, layout):
    host = scene.node(count)
    assert scene.run(host, layout=layout)
    assert scene.run(host, layout=layout) == []
    made = record_of(host)
    assert (made["state"], made["owner"], made["path"], made["serials"]) == (
        "intact",
        "ours",
        "/data",
        [f"AWS{n:04d}" for n in range(1, count + 1)],
    )
    host.machine.reboot()
    host.calls.clear()
    scene.run(host, at_boot=True, layout=layout)
    assert not [call for call in host.changes() if call[0] in ("wipefs", "mkfs.ext4") or "--create" in call]
    assert (record_of(host)["state"], record_of(host)["boot_id"]) == ("intact", "boot-1-again")
    host.machine.stop_start()
    scene.run(host, at_boot=True, layout=layout)
    again = record_of(host)
    assert again["state"] == "recreated"
    assert again["filesystem_uuids"] == made["filesystem_uuids"]
    assert (again["array_uuid"] != made["array_uuid"]) == (layout == "raid0" and count > 1)
    assert scene.run(host, layout=layout) == []


def test_two_looks_at_one_state_name_same_array():
    host = scene.node(4)
    assert scene.plan_of(host).actions == scene.plan_of(host).actions


def test_array_that_is_not_running_is_assembled_and_mounted():
    host = scene.converged(4)
    host.machine.unmount("/data")
    host.run(["mdadm", "--stop", "/dev/md127"])
    plan = scene.plan_of(host)
    assert scene.kinds(plan)[:2] == ["assemble_array", "mount"]
    scene.run(host)
    assert scene.run(host) == []


def test_array_that_runs_with_copy_of_member_is_refused():
    host = scene.converged(4)
    facts = storage.look(host, scene.config())
    (array,) = facts["arrays"]
    array["members"] = [*array["members"][:3], "nvme0n1"]
    plan = make_plan(facts, scene.config(), storage.context_for(facts))
    assert (plan.situation, plan.state, plan.actions) == ("refused", "foreign", [])
    assert "this node's array runs with nvme0n1, no instance-store disk of its record" in plan.refusals[0]


def test_foreign_array_beside_ours_is_accepted():
    host = scene.converged(2)
    host.machine.ebs("nvme9n1")
    host.machine.array("md5", ["nvme9n1"], scene.FOREIGN_ARRAY)
    plan = scene.plan_of(host)
    assert (plan.situation, plan.actions, plan.refusals) == ("intact", [], [])


def test_only_disks_of_record_are_assembled():
    host = scene.converged(4)
    host.machine.unmount("/data")
    host.run(["mdadm", "--stop", "/dev/md127"])
    assert scene.plan_of(host).actions[0]["devices"] == [f"/dev/{name}" for name in scene.store_names(host)]


def test_line_of_fstab_for_mount_point_is_not_replaced():
    host = scene.node(4)
    host.machine.files["/etc/fstab"] = "UUID=0aa1 /data xfs noauto 0 0\n"
    assert "/etc/fstab mounts UUID=0aa1 on /data: take that line out" in scene.refusal(host)
    assert scene.plan_of(host, at_boot=True).refusals == []


def test_inactive_array_counts_as_not_running():
    host = scene.converged(4)
    host.machine.unmount("/data")
    host.machine.devices["md127"].md["state"] = "inactive"
    assert scene.kinds(scene.plan_of(host))[0] == "assemble_array"


@pytest.mark.parametrize("at_boot", [False, True])
def test_lost_disk_is_reported_and_nothing_is_touched(at_boot):
    host = scene.converged(4)
    host.machine.unmount("/data")
    del host.machine.devices["md127"]
    del host.machine.devices["nvme2n1"]
    plan = scene.plan_of(host, at_boot)
    text = scene.refusal(host, at_boot)
    assert plan.state == "lost"
    assert "was made of 4 disks and 1 of them (AWS0002) do not carry it any more" in text


def test_disk_that_returned_blank_is_lost_too():
    host = scene.converged(4)
    host.machine.unmount("/data")
    del host.machine.devices["md127"]
    host.machine.devices["nvme2n1"].signatures = []
    assert "(AWS0002)" in scene.refusal(host, at_boot=True, **scene.CONSENT)
    assert scene.plan_of(host, **scene.CONSENT).situation == "rebuild"


def test_fewer_blank_disks_than_before_are_refused_at_boot():
    host = scene.converged(4)
    host.machine.stop_start()
    del host.machine.devices["nvme4n1"]
    text = scene.refusal(host, at_boot=True)
    assert "found 3 of the 4 instance-store disks that the record of the last run on this node calls for" in text
    assert scene.plan_of(host, True, expected_disks=3).situation == "fresh"


def test_fewer_disks_than_instance_type_are_refused():
    host = scene.node(3)
    host.machine.files["/sys/class/dmi/id/product_name"] = "p4d.24xlarge\n"
    assert "found 3 of the 8 instance-store disks that the instance type p4d.24xlarge" in scene.refusal(host)
    empty = scene.node(0)
    empty.machine.files["/sys/class/dmi/id/product_name"] = "p4d.24xlarge\n"
    assert "found 0 of the 8" in scene.refusal(empty)


@pytest.mark.parametrize(
    ("options", "table", "record", "expected"),
    [
        ({}, None, None, None),
        ({}, None, {"serials": ["a", "b"]}, 2),
        ({}, 8, {"serials": ["a", "b"]}, 8),
        ({"expected_disks": 3}, 8, {"serials": ["a", "b"]}, 3),
        ({"expected_disks": 0}, 8, None, 0),
        ({"devices": ("/dev/nvme1n1",), "expected_disks": 3}, 8, None, None),
    ],
)
def test_source_of_expected_disks(options, table, record, expected):
    facts = {"instance_type": "p5.48xlarge", "record": record}
    assert expected_disks(facts, StorageConfig(**options), table)[0] == expected


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"fstype": "xfs"}, "fstype is ext4 and xfs is wanted"),
        ({"chunk_kib": 256}, "chunk is 512 and 256 is wanted"),
        ({"layout": "per_disk"}, "layout is raid0 and per_disk is wanted"),
    ],
)
def test_other_settings_of_existing_volume_need_consent(options, word):
    host = scene.converged(4)
    assert word in scene.refusal(host, **options)
    assert word in scene.refusal(host, at_boot=True, **options, **scene.CONSENT)
    plan = scene.plan_of(host, **options, **scene.CONSENT)
    assert plan.situation == "rebuild"
    assert scene.kinds(plan)[:2] == ["unmount", "stop_array"]
    scene.run(host, **options, **scene.CONSENT)
    assert scene.run(host, **options) == []


def test_chunk_size_of_single_disk_is_ignored():
    assert scene.plan_of(scene.converged(1), chunk_kib=64).actions == []


def test_changed_mount_point_moves_mount_and_nothing_else():
    host = scene.converged(4)
    plan = scene.plan_of(host, mount_point="/local")
    assert scene.kinds(plan) == ["unmount", *FINISH, "write_record"]
    assert (plan.actions[0]["target"], plan.actions[1]["target"]) == ("/data", "/local")
    scene.run(host, mount_point="/local")
    assert scene.run(host, mount_point="/local") == []
    assert "/data" not in [mount["target"] for mount in host.machine.mounts]


def test_foreign_filesystem_is_refused():
    host = scene.converged(4)
    host.machine.unmount("/data")
    host.machine.devices["md127"].signatures[0]["uuid"] = fs_uuid("somebody's")
    assert "the filesystem for /data is not on them" in scene.refusal(host)


def named(host, *devices):
    facts = storage.look(host, scene.config(devices=list(devices)))
    disks, problems = select(facts, scene.config(devices=list(devices)))
    return [disk["kname"] for disk in disks], "; ".join(problems)


def test_devices_by_any_path_and_each_once():
    host = scene.node(4)
    host.machine.links["/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS0003"] = "/dev/nvme3n1"
    host.machine.links["/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS0003_1"] = "/dev/nvme3n1"
    links = [link for link in host.machine.links if "AWS0003" in link]
    assert named(host, *links, "/dev/nvme1n1", "/dev/nvme3n1") == (["nvme1n1", "nvme3n1"], "")


NAMED = {
    "/dev/nvme0n1": "nvme_raid0_devices names /dev/nvme0n1, which is an EBS volume: take it out of the list",
    "/dev/xvda": "names /dev/xvda, which is not an instance-store disk (no model string)",
    "/dev/nvme9n1": "names /dev/nvme9n1, and there is no such disk: see 'lsblk', correct it",
    "/dev/nvme1n1p1": "names /dev/nvme1n1p1, and there is no such disk",
    "/mnt/nvme1n1": "names /mnt/nvme1n1, and there is no such disk",
    "nvme1n1": "names nvme1n1, and there is no such disk",
}


@pytest.mark.parametrize("device", NAMED)
@pytest.mark.parametrize("options", [{}, scene.CONSENT])
def test_no_name_makes_another_disk_instance_store_disk(device, options):
    host = scene.node(2)
    host.machine.part("nvme1n1")
    host.machine.add("xvda", "disk")
    host.machine.directories["/mnt/nvme1n1"] = {"mode": "0755", "uid": 0, "gid": 0}
    assert NAMED[device] in scene.refusal(host, devices=["/dev/nvme2n1", device], **options)


def test_unidentifiable_disks_are_refused():
    host = scene.node(3)
    for device in host.machine.devices.values():
        device.serial = {"nvme1n1": "", "nvme2n1": "AWS7", "nvme3n1": "AWS7"}.get(device.kname, device.serial)
    text = scene.refusal(host, **scene.CONSENT)
    assert "/dev/nvme1n1 has no serial number" in text
    assert "/dev/nvme2n1 and /dev/nvme3n1 both have the serial number AWS7" in text
    assert scene.plan_of(host, devices=["/dev/nvme2n1"]).situation == "fresh"


def test_root_disk_on_instance_store_is_never_taken():
    host = scene.node(0)
    host.machine.devices.clear()
    host.machine.mounts.clear()
    host.machine.root("nvme0n1", INSTANCE_STORE, "AWS0000")
    host.machine.stores(2)
    assert "carries the operating system's /" in scene.refusal(host, **scene.CONSENT)
    allowed = scene.plan_of(host, devices=["/dev/nvme1n1", "/dev/nvme2n1"])
    assert "nvme0n1" not in json.dumps(allowed.actions)


def test_link_above_mount_point_is_refused_first():
    host = scene.node(2)
    host.machine.links["/scratch/data"] = "/mnt/big/data"
    text = scene.refusal(host, mount_point="/scratch/data")
    assert "/scratch/data is a link, or leads through one, to /mnt/big/data" in text


@pytest.mark.parametrize("at_boot", [False, True])
def test_refused_plan_never_reports_volume_in_place(at_boot):
    host = scene.converged(2)
    host.machine.mounts = [mount for mount in host.machine.mounts if mount["target"] != "/data"]
    host.machine.ebs("nvme9n1")
    host.machine.mount("nvme9n1", "/data")
    plan = scene.plan_of(host, at_boot)
    assert (plan.situation, plan.state) == ("refused", "foreign")


@pytest.mark.parametrize("at_boot", [False, True])
def test_disk_with_read_errors_is_not_blank(at_boot):
    host = scene.node(4)
    host.machine.devices["nvme2n1"].bad = True
    assert "/dev/nvme2n1 (AWS0002) cannot be read for signatures" in scene.refusal(host, at_boot)
    assert "cannot be read for signatures" in scene.refusal(host, at_boot, **scene.CONSENT)


def test_own_disks_that_all_fail_are_not_recreated():
    host = scene.converged(4)
    host.machine.mounts = [mount for mount in host.machine.mounts if mount["target"] != "/data"]
    del host.machine.devices["md127"]
    for kname in scene.store_names(host):
        host.machine.devices[kname].bad = True
        host.machine.devices[kname].signatures = []
    assert "cannot be read for signatures" in scene.refusal(host, at_boot=True)


def test_record_of_another_owner_is_corrected():
    host = scene.converged(2)
    record = {**json.loads(host.machine.files[RECORD_PATH]), "owner": "dlami"}
    host.machine.files[RECORD_PATH] = json.dumps(record)
    assert scene.run(host) == ["write_record"]


def test_two_disks_without_serial_numbers_are_named_once_each():
    host = scene.node(2)
    for kname in scene.store_names(host):
        host.machine.devices[kname].serial = ""
    assert scene.refusal(host).count("serial number") == 2


def test_unreadable_unfinished_disk_is_not_blank():
    host = scene.node(2)
    host.killed_before = "mkfs.ext4"
    with pytest.raises(KeyboardInterrupt):
        scene.run(host)
    host.killed_before = ""
    facts = storage.look(host, scene.config())
    facts["arrays"][0]["blank"] = {**facts["arrays"][0]["blank"], "proof": None}
    plan = make_plan(facts, scene.config(), storage.context_for(facts))
    assert "/dev/md127 cannot be read, so nothing proves it blank" in plan.refusals[0]
