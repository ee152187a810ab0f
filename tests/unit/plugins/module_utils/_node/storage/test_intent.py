# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import INTENT_PATH, RECORD_PATH

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import ext4_superblock, fs_uuid, xfs_superblock

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
def test_killed_run_is_continued_by_next_one(layout, point, at_boot):
    host = killed(point, layout=layout)
    scene.run(host, at_boot, layout=layout)
    assert INTENT_PATH not in host.machine.files
    assert scene.run(host, layout=layout) == []


@pytest.mark.parametrize(("layout", "point"), CASES)
def test_killed_run_is_continued_after_reboot(layout, point):
    host = killed(point, layout=layout)
    host.machine.reboot()
    scene.run(host, at_boot=True, layout=layout)
    assert scene.run(host, layout=layout) == []


@pytest.mark.parametrize(("layout", "point"), CASES)
def test_killed_run_is_forgotten_after_stop_and_start(layout, point):
    host = killed(point, layout=layout)
    host.machine.stop_start()
    scene.run(host, at_boot=True, layout=layout)
    assert scene.run(host, layout=layout) == []


@pytest.mark.parametrize("point", ["mount", "findmnt", "write /data", f"write {RECORD_PATH}", f"remove {INTENT_PATH}"])
def test_from_mount_on_nothing_is_made_again(point):
    host = killed(point)
    done = scene.run(host)
    assert not set(done) & scene.DESTRUCTIVE


def test_foreign_array_beside_unfinished_disks_is_not_theirs():
    host = scene.node(4)
    host.machine.ebs("nvme9n1")
    host.machine.array("md5", ["nvme9n1"], scene.FOREIGN_ARRAY)
    killed("mkfs.ext4 .* /dev/nvme3n1", host=host, layout="per_disk")
    plan = scene.plan_of(host, layout="per_disk")
    made = [action["device"] for action in plan.actions if action["action"] == "make_filesystem"]
    assert (plan.situation, made) == ("half_finished", ["/dev/nvme3n1", "/dev/nvme4n1"])


@pytest.mark.parametrize(
    ("command", "stage"),
    [("mdadm --create", "create"), ("mkfs.ext4", "mkfs"), ("mount", "mount")],
)
def test_intent_is_on_disk_before_command_that_needs_it(command, stage):
    host = killed(command)
    intent = json.loads(host.machine.files[INTENT_PATH])
    assert (intent["stage"], intent["schema"], intent["layout"]) == (stage, "mlcluster.storage_intent/1", "raid0")
    assert intent["serials"] == ["AWS0001", "AWS0002", "AWS0003", "AWS0004"]
    assert len(intent["array_uuid"]) == 32


def test_record_is_written_before_intent_is_removed():
    host = killed(f"remove {INTENT_PATH}")
    assert json.loads(host.machine.files[RECORD_PATH])["state"] == "intact"
    assert scene.run(host) == ["clear_intent", "write_record"][::-1]


def half_array():
    """Return a node of a killed run with an array and no filesystem on it."""
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
def test_half_made_array_without_its_matching_intent_is_foreign(name, at_boot):
    host = half_array()
    NOT_MATCHING[name](host)
    assert "was not made by this role" in scene.refusal(host, at_boot)


def test_device_mounted_meanwhile_is_not_taken_apart():
    host = half_array()
    host.machine.sign("md127", "ext4", fs_uuid("by hand"))
    host.machine.mount("md127", "/mnt/hand")
    text = scene.refusal(host)
    assert "interrupted before it mounted anything, yet the disks are mounted on /mnt/hand" in text


def test_member_that_was_added_meanwhile_is_not_taken_apart():
    host = half_array()
    host.machine.ebs("nvme9n1")
    host.machine.devices["md127"].parents.append("nvme9n1")
    assert "yet array /dev/md127 also uses nvme9n1" in scene.refusal(host)


def test_unfinished_run_is_planned_with_current_settings():
    host = half_array()
    plan = scene.plan_of(host, fstype="xfs")
    assert (plan.situation, plan.owner) == ("half_finished", "ours")
    assert scene.kinds(plan)[:2] == ["stop_array", "wipe"]
    scene.run(host, fstype="xfs")
    assert scene.run(host, fstype="xfs") == []


def test_other_settings_after_last_mkfs_are_refused():
    host = killed("mount")
    assert "this node's volume exists with other settings (fstype is ext4 and xfs is wanted)" in scene.refusal(
        host, fstype="xfs"
    )


def test_killed_rebuild_needs_consent_again():
    host = scene.converged(4)
    killed("mkfs.ext4", host=host, chunk_kib=256, **scene.CONSENT)
    # The content to destroy is still visible in the new array and cannot be distinguished from newer content.
    assert "yet /dev/md127 is not proved blank (the byte at offset 0x8000000" in scene.refusal(host, chunk_kib=256)
    scene.run(host, chunk_kib=256, **scene.CONSENT)
    assert scene.run(host, chunk_kib=256) == []


def test_killed_rebuild_of_one_disk_follows_intent():
    host = scene.converged(1)
    killed("mount", host=host, fstype="xfs", **scene.CONSENT)
    assert scene.kinds(scene.plan_of(host, fstype="xfs"))[0] == "mount"
    scene.run(host, fstype="xfs")
    assert scene.run(host, fstype="xfs") == []


@pytest.mark.parametrize("point", ["umount", "mdadm --stop", "wipefs --all /dev/nvme3n1"])
def test_killed_teardown_needs_consent_again(point):
    host = scene.node(4)
    scene.foreign_array(host)
    killed(point, host=host, **scene.CONSENT)
    scene.refusal(host)
    scene.run(host, **scene.CONSENT)
    assert scene.run(host) == []


@pytest.mark.parametrize("at_boot", [False, True])
def test_filesystem_made_by_hand_meanwhile_needs_consent(at_boot):
    host = half_array()
    host.machine.sign("md127", "ext4", fs_uuid("by hand"))
    assert "yet /dev/md127 carries an ext4 signature" in scene.refusal(host, at_boot)
    assert scene.plan_of(host, **scene.CONSENT).situation == "half_finished"


def before_mount(host):
    """Kill the host at the next write of an intent of the stage mount, and at no other."""
    write = host.write_text

    def write_text(path, text, mode=0o644):
        if path == INTENT_PATH and '"stage": "mount"' not in text:
            host.machine.files[path] = text
        else:
            write(path, text, mode)

    host.write_text = write_text
    return host


def contents(host):
    return {d.kname: (list(d.signatures), dict(d.blocks)) for d in host.machine.devices.values()}


@pytest.mark.parametrize("at_boot", [False, True])
@pytest.mark.parametrize("fstype", ["ext4", "xfs"])
def test_finished_filesystem_is_kept_and_missing_one_made(at_boot, fstype):
    host = killed(f"mkfs.{fstype} .* /dev/nvme2n1", 2, layout="per_disk", existing="fail", fstype=fstype)
    first = contents(host)["nvme1n1"]
    plan = scene.plan_of(host, at_boot, layout="per_disk", existing="fail", fstype=fstype)
    assert plan.situation == "half_finished"
    assert [a["device"] for a in plan.actions if a["action"] == "make_filesystem"] == ["/dev/nvme2n1"]
    assert not {"wipe", "stop_array"} & set(scene.kinds(plan))
    scene.run(host, at_boot, layout="per_disk", existing="fail", fstype=fstype)
    assert contents(host)["nvme1n1"][0] == first[0]
    assert {m["target"] for m in host.machine.mounts} == {"/", "/data/disk0", "/data/disk1"}
    assert scene.run(host, layout="per_disk", existing="fail", fstype=fstype) == []


@pytest.mark.parametrize("at_boot", [False, True])
@pytest.mark.parametrize("disks", [1, 4])
def test_finished_filesystem_is_mounted_and_not_made_again(at_boot, disks):
    host = finished(disks, "raid0")
    done = scene.run(host, at_boot)
    assert not set(done) & scene.DESTRUCTIVE
    assert scene.run(host) == []


@pytest.mark.parametrize("at_boot", [False, True])
def test_mounted_filesystem_is_never_made_again(at_boot):
    host = killed("mkfs.ext4 .* /dev/nvme2n1", 2, layout="per_disk")
    host.machine.devices["nvme1n1"].blocks[1024] = ext4_superblock(mounts=1)
    before = contents(host)["nvme1n1"]
    text = scene.refusal(host, at_boot, layout="per_disk", fstype="xfs")
    assert "interrupted before it mounted anything, yet 1 of its filesystems are finished and may hold files" in text
    scene.run(host, at_boot, layout="per_disk")
    assert contents(host)["nvme1n1"][0] == before[0]


USED = {
    "mounted once": ext4_superblock(mounts=1),
    "a file": ext4_superblock(files=1),
    "unreadable superblock": b"\0" * 1024,
}


@pytest.mark.parametrize("name", USED)
@pytest.mark.parametrize("layout", ["raid0", "per_disk"])
def test_other_settings_do_not_destroy_possible_files(name, layout):
    host = finished(2, layout)
    for device in host.machine.devices.values():
        if 1024 in device.blocks:
            device.blocks[1024] = USED[name]
    assert "other settings (fstype is ext4 and xfs is wanted)" in scene.refusal(host, layout=layout, fstype="xfs")


@pytest.mark.parametrize("layout", ["raid0", "per_disk"])
def test_other_settings_start_over_where_no_file_can_be(layout):
    host = finished(2, layout)
    assert "other settings" in scene.refusal(host, at_boot=True, layout=layout, fstype="xfs")
    assert "make_filesystem" in scene.run(host, layout=layout, fstype="xfs")
    assert scene.run(host, layout=layout, fstype="xfs") == []


def test_other_settings_do_not_start_over_on_xfs():
    host = finished(2, "raid0", fstype="xfs")
    assert "other settings (fstype is xfs and ext4 is wanted)" in scene.refusal(host)


def finished(disks, layout, **options):
    """Return a node with every filesystem made, whose intent still has the stage of mkfs."""
    return killed(f"write {INTENT_PATH}", host=before_mount(scene.node(disks)), layout=layout, **options)


def test_xfs_of_which_mkfs_was_killed_is_made_again():
    host = finished(2, "raid0", fstype="xfs")
    host.machine.devices["md127"].blocks[0] = xfs_superblock(in_progress=1)
    host.machine.devices["md127"].content = []
    assert "make_filesystem" in scene.run(host, at_boot=True, fstype="xfs")
    assert scene.run(host, fstype="xfs") == []


@pytest.mark.parametrize("at_boot", [False, True])
@pytest.mark.parametrize("layout", ["raid0", "per_disk"])
def test_data_without_signature_on_half_made_disks_is_kept(at_boot, layout):
    host = killed("mkfs.ext4", layout=layout)
    device = "md127" if layout == "raid0" else "nvme1n1"
    host.machine.write(device, [(10 << 30, 10 << 30)])
    assert f"/dev/{device}" in scene.refusal(host, at_boot, layout=layout)
    assert "is not proved blank (the byte at offset 0x" in scene.refusal(host, at_boot, layout=layout)


@pytest.mark.parametrize("at_boot", [False, True])
def test_data_on_members_of_array_that_never_ran_is_kept(at_boot):
    host = killed("mkfs.ext4")
    host._do_mdadm(["--stop", "/dev/md127"])
    host.machine.devices["nvme1n1"].signatures, host.machine.devices["nvme1n1"].md = [], {}
    host.machine.devices["nvme1n1"].content = []
    assert "make_filesystem" in scene.kinds(scene.plan_of(host, at_boot))
    host.machine.write("nvme2n1", [(129 << 20, 4096)])
    assert "yet /dev/nvme2n1 is not proved blank (the byte at offset 0x8100000 is not zero)" in scene.refusal(
        host, at_boot
    )


@pytest.mark.parametrize("at_boot", [False, True])
def test_array_that_does_not_run_is_started_and_looked_at_first(at_boot):
    host = killed("mkfs.ext4")
    host._do_mdadm(["--stop", "/dev/md127"])
    plan = scene.plan_of(host, at_boot)
    assert (plan.situation, scene.kinds(plan)) == ("half_finished", ["assemble_array"])
    assert scene.run(host, at_boot)[0] == "assemble_array"
    assert scene.run(host) == []


@pytest.mark.parametrize(("layout", "disks"), [("raid0", 1), ("per_disk", 3)])
@pytest.mark.parametrize("at_boot", [False, True])
def test_older_record_does_not_hide_intent(layout, disks, at_boot):
    host = scene.converged(disks, layout=layout)
    host.machine.stop_start()
    # The serial numbers are new, and the filesystem gets the UUID of the one before.
    killed(f"write {INTENT_PATH}", host=before_mount(host), layout=layout)
    plan = scene.plan_of(host, at_boot, layout=layout)
    assert (plan.state, plan.refusals) == ("intact", [])
    scene.run(host, at_boot, layout=layout)
    assert scene.run(host, layout=layout) == []


def test_intent_of_other_disks_makes_nothing_half_finished():
    host = half_array()
    intent = json.loads(host.machine.files[INTENT_PATH])
    serials = [*intent["serials"][:3], "AWS0009"]
    volumes = [{**intent["volumes"][0], "serials": serials}]
    host.machine.files[INTENT_PATH] = json.dumps({**intent, "serials": serials, "volumes": volumes})
    assert "was not made by this role" in scene.refusal(host)


def test_no_intent_makes_nothing_half_finished():
    host = half_array()
    host.machine.files[INTENT_PATH] = json.dumps({"stage": "mkfs", "schema": "mlcluster.storage_intent/1"})
    assert "was not made by this role" in scene.refusal(host)


@pytest.mark.parametrize("point", ["mkfs.ext4 .* /dev/nvme3n1", "write_intent mount"])
@pytest.mark.parametrize("options", [{}, scene.CONSENT])
def test_filesystem_mounted_meanwhile_is_refused(point, options):
    host = scene.node(4)
    if point == "write_intent mount":
        killed("mount", host=host, layout="per_disk")
        change(stage="mkfs")(host)
    else:
        killed(point, host=host, layout="per_disk")
    host.machine.mount("nvme1n1", "/mnt/looked")
    text = scene.refusal(host, layout="per_disk", **options)
    assert "the disks are mounted on /mnt/looked" in text
