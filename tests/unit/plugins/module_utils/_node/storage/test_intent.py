# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import INTENT_PATH, RECORD_PATH

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import fs_uuid

# Each place where a first run can be killed: before this command or write.
KILL_POINTS = {
    "raid0": [
        f"write {INTENT_PATH}",
        "mdadm --create",
        "mkfs.ext4",
        "mount",
        "findmnt",
        "write /data/EPHEMERAL.txt",
        "write /etc/mdadm",
        f"write {RECORD_PATH}",
        f"remove {INTENT_PATH}",
    ],
    "per_disk": [
        f"write {INTENT_PATH}",
        "mkfs.ext4",
        "mkfs.ext4 .* /dev/nvme3n1",
        "mount",
        "mount -t ext4 -o noatime,data=ordered /dev/nvme2n1",
        "write /data/disk2/EPHEMERAL.txt",
        f"write {RECORD_PATH}",
        f"remove {INTENT_PATH}",
    ],
}
CASES = [(layout, point) for layout, points in KILL_POINTS.items() for point in points]


def killed(point, disks=4, host=None, **options):
    host = host or scene.node(disks)
    host.killed_before = point
    with pytest.raises(KeyboardInterrupt):
        scene.run(host, **options)
    host.killed_before = ""
    host.calls.clear()
    return host


@pytest.mark.parametrize(("layout", "point"), CASES)
@pytest.mark.parametrize("at_boot", [False, True])
def test_a_killed_run_is_continued_by_the_next_one(layout, point, at_boot):
    host = killed(point, layout=layout)
    scene.run(host, at_boot, layout=layout)
    assert INTENT_PATH not in host.machine.files
    assert scene.run(host, layout=layout) == []


@pytest.mark.parametrize(("layout", "point"), CASES)
def test_a_killed_run_is_continued_after_a_reboot(layout, point):
    host = killed(point, layout=layout)
    host.machine.reboot()
    scene.run(host, at_boot=True, layout=layout)
    assert scene.run(host, layout=layout) == []


@pytest.mark.parametrize(("layout", "point"), CASES)
def test_a_killed_run_is_forgotten_after_a_stop_and_start(layout, point):
    host = killed(point, layout=layout)
    host.machine.stop_start()
    scene.run(host, at_boot=True, layout=layout)
    assert scene.run(host, layout=layout) == []


@pytest.mark.parametrize("point", ["mount", "findmnt", "write /data", f"write {RECORD_PATH}", f"remove {INTENT_PATH}"])
def test_from_the_mount_on_nothing_is_made_again(point):
    host = killed(point)
    done = scene.run(host)
    assert not set(done) & scene.DESTRUCTIVE


@pytest.mark.parametrize(
    ("command", "stage"),
    [("mdadm --create", "create"), ("mkfs.ext4", "mkfs"), ("mount", "mount")],
)
def test_the_intent_is_on_disk_before_the_command_that_needs_it(command, stage):
    host = killed(command)
    intent = json.loads(host.machine.files[INTENT_PATH])
    assert (intent["stage"], intent["schema"], intent["layout"]) == (stage, "mlcluster.storage_intent/1", "raid0")
    assert intent["serials"] == ["AWS0001", "AWS0002", "AWS0003", "AWS0004"]
    assert len(intent["array_uuid"]) == 32


def test_the_record_is_written_before_the_intent_goes():
    host = killed(f"remove {INTENT_PATH}")
    assert json.loads(host.machine.files[RECORD_PATH])["state"] == "intact"
    assert scene.run(host) == ["clear_intent", "write_record"][::-1]


def half_array():
    """A run that was killed with its array made and no filesystem on it."""
    return killed("mkfs.ext4")


def forget(host):
    del host.machine.files[INTENT_PATH]


def change(**fields):
    def do(host):
        intent = json.loads(host.machine.files[INTENT_PATH])
        host.machine.files[INTENT_PATH] = json.dumps({**intent, **fields})

    return do


NOT_MATCHING = {
    "no intent": forget,
    "another stage": change(stage="done"),
    "no stage": change(stage=None),
    "another array": change(array_uuid="9" * 32),
    "fewer disks": change(serials=["AWS0001", "AWS0002"]),
    "more disks": change(serials=["AWS0001", "AWS0002", "AWS0003", "AWS0004", "AWS0005"]),
    "other disks": change(serials=["AWS0001", "AWS0002", "AWS0003", "AWS0009"]),
    "no serials": change(serials=None),
    "no volumes": change(volumes=[]),
    "odd volumes": change(volumes=[{"path": 3}]),
    "not JSON": lambda host: host.machine.files.update({INTENT_PATH: "{"}),
    "a list": lambda host: host.machine.files.update({INTENT_PATH: "[1]"}),
    "empty": lambda host: host.machine.files.update({INTENT_PATH: ""}),
    "another signature on a disk": lambda host: host.machine.sign("nvme2n1", "ext4", fs_uuid("x")),
    "a partition on a disk": lambda host: host.machine.part("nvme2n1"),
    "swap on the array": lambda host: host.machine.swap_on("/dev/md127"),
    "a volume group on the array": lambda host: host.machine.add("dm-0", "lvm", parents=["md127"], name="vg-lv"),
}


@pytest.mark.parametrize("name", NOT_MATCHING)
@pytest.mark.parametrize("at_boot", [False, True])
def test_a_half_made_array_without_its_matching_intent_is_foreign(name, at_boot):
    host = half_array()
    NOT_MATCHING[name](host)
    assert "was not made by this role" in scene.refusal(host, at_boot)


def test_what_was_mounted_meanwhile_is_not_taken_apart():
    host = half_array()
    host.machine.sign("md127", "ext4", fs_uuid("by hand"))
    host.machine.mount("md127", "/mnt/hand")
    text = scene.refusal(host)
    assert "interrupted before it mounted anything, yet the disks are mounted on /mnt/hand" in text


def test_a_member_that_was_added_meanwhile_is_not_taken_apart():
    host = half_array()
    host.machine.ebs("nvme9n1")
    host.machine.devices["md127"].parents.append("nvme9n1")
    assert "yet array /dev/md127 also uses nvme9n1" in scene.refusal(host)


def test_a_half_finished_run_is_planned_as_such_with_the_settings_of_today():
    host = half_array()
    plan = scene.plan_of(host, fstype="xfs")
    assert (plan.situation, plan.owner) == ("half_finished", "ours")
    assert scene.kinds(plan)[:2] == ["stop_array", "wipe"]
    scene.run(host, fstype="xfs")
    assert scene.run(host, fstype="xfs") == []


def test_after_the_last_mkfs_other_settings_are_refused_like_those_of_a_finished_volume():
    host = killed("mount")
    assert "this node's volume exists with other settings (fstype is ext4 and xfs is wanted)" in scene.refusal(
        host, fstype="xfs"
    )


def test_a_rebuild_with_consent_that_was_killed_is_continued_without_it():
    host = scene.converged(4)
    killed("mkfs.ext4", host=host, chunk_kib=256, **scene.CONSENT)
    assert scene.plan_of(host, chunk_kib=256).situation == "half_finished"
    scene.run(host, chunk_kib=256)
    assert scene.run(host, chunk_kib=256) == []


def test_a_rebuild_of_one_disk_that_was_killed_is_what_the_intent_says():
    host = scene.converged(1)
    killed("mount", host=host, fstype="xfs", **scene.CONSENT)
    assert scene.kinds(scene.plan_of(host, fstype="xfs"))[0] == "mount"
    scene.run(host, fstype="xfs")
    assert scene.run(host, fstype="xfs") == []


@pytest.mark.parametrize("point", ["umount", "mdadm --stop", "wipefs --all /dev/nvme3n1"])
def test_a_teardown_that_was_killed_needs_its_consent_again(point):
    host = scene.node(4)
    scene.foreign_array(host)
    killed(point, host=host, **scene.CONSENT)
    scene.refusal(host)
    scene.run(host, **scene.CONSENT)
    assert scene.run(host) == []


@pytest.mark.parametrize("at_boot", [False, True])
def test_a_filesystem_that_was_made_by_hand_meanwhile_is_not_destroyed_without_consent(at_boot):
    host = half_array()
    host.machine.sign("md127", "ext4", fs_uuid("by hand"))
    assert "yet /dev/md127 carries an ext4 signature" in scene.refusal(host, at_boot)
    assert scene.plan_of(host, **scene.CONSENT).situation == "half_finished"
