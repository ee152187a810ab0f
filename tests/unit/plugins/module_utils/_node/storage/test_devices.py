# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import devices as block
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import (
    CommandError,
    CommandResult,
    NodeError,
)

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import EBS, INSTANCE_STORE, SHAPES, fs_uuid
from tests.unit.fakes.recorded_host import RecordedHost


def disks_of(host):
    return {disk["kname"]: disk for disk in block.look(host)["disks"]}


def test_recorded_node_with_mounted_array():
    facts = block.look(RecordedHost("debian-13-raid0"))
    kinds = {disk["kname"]: disk["kind"] for disk in facts["disks"]}
    stores = {f"nvme{number}n1": "instance_store" for number in (1, 2, 3, 4)}
    assert kinds == {"vda": "other", "vdb": "other", "nvme0n1": "ebs", **stores}
    (array,) = facts["arrays"]
    members = sorted(stores)
    assert {key: array[key] for key in ("kname", "uuid", "level", "chunk_kib", "members", "active")} == {
        "kname": "md127",
        "uuid": "820c601f8bb032481cd68a8da3b1d073",
        "level": "raid0",
        "chunk_kib": 512,
        "members": members,
        "active": True,
    }
    assert (array["filesystem"]["type"], array["mounts"]) == ("ext4", ["/data"])
    disk = next(disk for disk in facts["disks"] if disk["kname"] == "nvme1n1")
    assert (disk["serial"], disk["holders"], disk["mounts"], disk["claimed"]) == (
        "AWS010000",
        ["md127"],
        ["/data"],
        True,
    )
    assert [signature["type"] for signature in disk["signatures"]] == ["linux_raid_member"]
    assert disk["md"]["raid_devices"] == 4
    assert (facts["logical_volumes"], facts["outside_members"], facts["instance_type"]) == ([], [], None)


@pytest.mark.parametrize("shape", SHAPES)
def test_look_is_same_with_every_lsblk_version(shape):
    hosts = [scene.node(4, shape), scene.node(4, "2.39")]
    for host in hosts:
        scene.foreign_array(host)
        host.machine.mount("md127", "/mnt/again")
    looks = [block.look(host) for host in hosts]
    assert looks[0] == looks[1]
    assert looks[0]["disks"][1]["mounts"] == ["/mnt/again", "/mnt/theirs"]


def test_kind_comes_only_from_controller_model_in_sysfs():
    host = scene.node(0)
    host.machine.add("nvme1n1", "disk", model=f"{INSTANCE_STORE} v2", serial="AWS1")
    host.machine.add("xvdb", "disk")
    host.machine.add("nvme2n1", "disk", model=INSTANCE_STORE, serial="AWS2")
    kinds = {kname: disk["kind"] for kname, disk in disks_of(host).items()}
    assert kinds == {"nvme0n1": "ebs", "nvme1n1": "other", "xvdb": "other", "nvme2n1": "instance_store"}


def test_serial_and_model_are_stripped_of_their_padding():
    disk = disks_of(scene.node(1))["nvme1n1"]
    assert (disk["serial"], disk["model"]) == ("AWS0001", INSTANCE_STORE)


def test_hidden_paths_of_multipath_disk_are_not_disks():
    host = scene.node(1)
    host.machine.add("nvme1c1n1", "disk", model=INSTANCE_STORE, serial="AWS0001", hidden=True)
    tree = json.loads(host.machine.lsblk())["blockdevices"]
    hidden = {**tree[-1], "name": "nvme1c1n1", "kname": "nvme1c1n1", "path": "/dev/nvme1c1n1"}
    host.machine.lsblk = lambda: json.dumps({"blockdevices": [*tree, hidden]})
    assert sorted(disks_of(host)) == ["nvme0n1", "nvme1n1"]


def test_serials_are_those_of_current_disks_of_kind():
    host = scene.node(2)
    host.machine.add("nvme1c1n1", "disk", model=INSTANCE_STORE, serial="AWS0001", hidden=True)
    host.machine.add("xvdb", "disk")
    assert block.serials_of(host, "instance_store") == [("nvme1n1", "AWS0001"), ("nvme2n1", "AWS0002")]
    assert [kname for kname, _serial in block.serials_of(host, "ebs")] == ["nvme0n1"]


def test_file_where_device_node_should_be_proves_nothing():
    host = scene.node(1)
    host.machine.devices["nvme1n1"].openable = False
    assert disks_of(host)["nvme1n1"]["claimed"] is None


def test_loop_device_on_raw_disk_holds_it():
    host = scene.node(2)
    host.machine.add("loop0", "loop", loop="/dev/nvme1n1", number="7:0")
    host.machine.add("loop1", "loop", loop="/var/lib/image.img", number="7:1")
    assert [disk["holders"] for disk in disks_of(host).values()] == [[], ["loop0"], []]


def test_loop_device_holds_disk_whose_node_lies_elsewhere():
    host = scene.node(2)
    host.machine.nodes["/srv/planted"] = host.machine.devices["nvme2n1"].number
    host.machine.add("loop0", "loop", loop="/srv/planted", number="7:0")
    assert [disk["holders"] for disk in disks_of(host).values()] == [[], [], ["loop0"]]
    assert "(AWS0002) is held by loop0" in scene.refusal(host)


def test_hanging_loop_device_is_reported_by_its_path():
    host = scene.node(1)
    host.machine.add("loop0", "loop", loop="/dev/disk/by-id/x", number="7:0")
    host.machine.links["/dev/disk/by-id/x"] = "/dev/nvme1n1"
    host.loop_backing = lambda name: None
    assert disks_of(host)["nvme1n1"]["holders"] == ["loop0"]


def test_only_swap_on_device_is_swap_on_disk():
    host = scene.node(2)
    host.machine.swap_on("/var/nvme2n1")
    host.machine.swap_on("/dev/disk/by-uuid/1234")
    host.machine.links["/dev/disk/by-uuid/1234"] = "/dev/nvme1n1"
    assert [disk["swap"] for disk in disks_of(host).values()] == [[], ["/dev/nvme1n1"], []]


def test_btrfs_mount_is_found_by_its_source():
    host = scene.node(2)
    host.machine.mount("nvme1n1", "/mnt/b", "btrfs", root="/@")
    tree = scene.node(2).machine.lsblk()
    host.machine.lsblk = lambda: tree
    assert disks_of(host)["nvme1n1"]["mounts"] == ["/mnt/b"]


def test_mounts_of_network_filesystems_are_kept_without_device():
    host = scene.node(1)
    host.machine.mount(None, "/data", "lustre", source="10.0.0.1@tcp:/abc")
    assert [(m["target"], m["kname"]) for m in block.look(host)["mounts"]] == [("/", "nvme0n1p1"), ("/data", None)]


def test_partitions_and_their_holders():
    host = scene.node(1)
    host.machine.sign("nvme1n1", "gpt")
    host.machine.part("nvme1n1", 1)
    host.machine.part("nvme1n1", 2)
    host.machine.add("dm-0", "crypt", parents=["nvme1n1p2"], name="secret")
    disk = disks_of(host)["nvme1n1"]
    assert (disk["partitions"], disk["holders"]) == (["nvme1n1p1", "nvme1n1p2"], ["dm-0"])
    assert [entry["type"] for entry in disk["stack"]] == ["part", "part", "crypt"]
    assert (disk["pttype"], disk["claimed"]) == ("gpt", True)


def test_one_unreadable_disk_does_not_hide_signatures_of_others():
    host = scene.node(3)
    host.machine.devices["nvme2n1"].readable = False
    host.machine.sign("nvme3n1", "ext4", fs_uuid("x"))
    disks = disks_of(host)
    assert [disks[f"nvme{n}n1"]["readable"] for n in (1, 2, 3)] == [True, False, True]
    assert [s["type"] for s in disks["nvme3n1"]["signatures"]] == ["ext4"]


def test_signature_without_device_counts_for_every_disk():
    host = scene.node(2)
    host.machine.sign("nvme1n1", "ext4", fs_uuid("x"))
    host.machine.devices["nvme1n1"].name = "renamed"
    tree = scene.node(2).machine.lsblk()
    host.machine.lsblk = lambda: tree
    assert [disk["readable"] for disk in disks_of(host).values()] == [True, False, False]


def test_wipefs_reads_only_instance_store_devices():
    host = scene.node(2)
    scene.foreign_array(host)
    block.look(host)
    (asked,) = [call for call in host.calls if call[0] == "wipefs"]
    assert asked == ["wipefs", "--no-act", "--json", "/dev/nvme1n1", "/dev/nvme2n1", "/dev/md127"]


def test_no_instance_store_no_question():
    host = scene.node(0)
    assert block.look(host)["arrays"] == []
    assert [call[0] for call in host.calls] == ["lsblk"]


def test_inactive_array_is_seen_though_lsblk_leaves_it_out():
    host = scene.node(2)
    scene.foreign_array(host, state="inactive")
    host.machine.mounts.pop()
    host.machine.devices["md127"].size = 0
    facts = block.look(host)
    assert [(array["kname"], array["active"]) for array in facts["arrays"]] == [("md127", False)]
    assert facts["disks"][1]["holders"] == ["md127"]


@pytest.mark.parametrize(
    ("others", "state", "known"),
    [(0, "inactive", True), (1, "inactive", False), (2, "inactive", False), (0, "clean", False)],
)
def test_array_without_mdadm_map_is_known_by_members(others, state, known):
    """None, one or both members have the superblock of another array."""
    host = scene.node(2)
    scene.foreign_array(host, state=state, shows_uuid=False)
    for name, identity in zip(scene.store_names(host)[:others], ("a" * 32, "b" * 32)):
        host.machine.devices[name].md["uuid"] = identity
    (array,) = block.look(host)["arrays"]
    assert array["uuid"] == (scene.FOREIGN_ARRAY if known else None)


def test_array_over_member_without_superblock_is_unknown():
    host = scene.node(2)
    scene.foreign_array(host, state="inactive", shows_uuid=False)
    host.machine.devices[scene.store_names(host)[1]].md = {}
    assert [array["uuid"] for array in block.look(host)["arrays"]] == [None]


def test_device_node_of_stopped_array_is_no_array():
    host = scene.node(2)
    host.machine.add(
        "md5", "raid0", number="9:5", md={"uuid": "b" * 32, "level": "raid0", "chunk_kib": 0, "raid_devices": 0}
    )
    assert block.look(host)["arrays"] == []


def test_array_is_known_by_mdadm_where_sysfs_has_no_uuid():
    host = scene.node(2)
    scene.foreign_array(host)
    sysfs = host.machine.sysfs
    host.machine.sysfs = lambda kname, end: None if end == "md/uuid" else sysfs(kname, end)
    assert block.look(host)["arrays"][0]["uuid"] == scene.FOREIGN_ARRAY


def test_without_mdadm_sysfs_is_enough():
    host = scene.node(2)
    scene.foreign_array(host)
    host.programs.discard("mdadm")
    facts = block.look(host)
    assert (facts["arrays"][0]["uuid"], facts["disks"][1]["md"]) == (scene.FOREIGN_ARRAY, None)


def test_members_outside_instance_store_are_named_with_owner():
    host = scene.node(2)
    disk = host.machine.ebs("nvme9n1")
    host.machine.stopped_array(["nvme1n1", disk.kname], "c" * 32)
    host.machine.sign("nvme0n1p1", "btrfs", fs_uuid("pool"))
    assert block.look(host)["outside_members"] == [
        {"kname": "nvme0n1p1", "uuid": fs_uuid("pool").replace("-", "")},
        {"kname": "nvme9n1", "uuid": "c" * 32},
    ]


def test_volume_group_is_shown_with_all_its_members():
    host = scene.node(2)
    host.machine.ebs("nvme9n1")
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch", ["nvme9n1"])
    facts = block.look(host)
    (volume,) = facts["logical_volumes"]
    assert (volume["vg"], volume["lv"], volume["kname"]) == ("vg.01", "lv_ephemeral", "dm-0")
    assert volume["members"] == facts["physical_volumes"] == ["nvme1n1", "nvme2n1", "nvme9n1"]
    assert (volume["filesystem"]["type"], volume["mounts"], volume["active"]) == ("ext4", ["/scratch"], True)


def test_volume_group_without_volumes_and_one_with_missing_disk():
    host = scene.node(2)
    host.machine.volume("vg.01", "", ["nvme1n1", "nvme2n1"])
    host.machine.groups["vg.01"]["members"].append("nvme7n1")
    (volume,) = block.look(host)["logical_volumes"]
    assert (volume["lv"], volume["members"]) == ("", ["[unknown]", "nvme1n1", "nvme2n1"])


def test_lvm_on_other_disks_is_ignored():
    host = scene.node(2)
    host.machine.ebs("nvme9n1")
    host.machine.volume("data", "all", ["nvme9n1"])
    assert block.look(host)["logical_volumes"] == []


@pytest.mark.parametrize("program", ["lsblk", "wipefs"])
def test_missing_tool_is_one_sentence(program):
    host = scene.node(1)
    host.programs.discard(program)
    with pytest.raises(NodeError, match=f"looked for {program} and did not find it: install util-linux"):
        block.look(host)


def test_failing_lsblk_is_reported_with_its_output():
    host = scene.node(1)
    host.failures["lsblk"] = (1, "lsblk: failed to access sysfs directory")
    with pytest.raises(CommandError, match=r"lsblk .*failed with status 1: lsblk: failed to access sysfs directory"):
        block.look(host)


def test_units_that_take_disks():
    host = scene.node(0)
    host.machine.unit(scene.DLAMI_UNIT, enabled=False)
    host.machine.unit(scene.PCLUSTER_UNIT)
    units = block.owner_units(host)
    assert units[scene.DLAMI_UNIT] == {"owner": "dlami", "exists": True, "masked": False, "enabled": False}
    assert units[scene.PCLUSTER_UNIT] == {"owner": "parallelcluster", "exists": True, "masked": False, "enabled": True}
    host.machine.links[f"/etc/systemd/system/{scene.PCLUSTER_UNIT}"] = "/dev/null"
    masked = {"owner": "parallelcluster", "exists": True, "masked": True, "enabled": False}
    assert block.owner_units(host)[scene.PCLUSTER_UNIT] == masked


def test_ebs_is_never_opened():
    host = scene.node(1)
    host.machine.add("nvme5n1", "disk", model=EBS, serial="vol5")
    opened = []
    host.claimed = lambda device, number: opened.append(device)
    block.look(host)
    assert opened == ["/dev/nvme1n1"]


@pytest.mark.parametrize(("openings", "expected"), [(0, False), (block.CLAIM_ATTEMPTS, False), (99, True)])
def test_passing_open_of_disk_is_no_claim(openings, expected):
    host = scene.node(1)
    answers = [True] * openings
    host.claimed = lambda device, number: bool(answers and answers.pop())
    assert disks_of(host)["nvme1n1"]["claimed"] is expected
    assert host.clock == block.CLAIM_SECONDS * min(openings, block.CLAIM_ATTEMPTS)


def test_visible_user_of_disk_is_not_waited_for():
    host = scene.node(2)
    scene.foreign_array(host)
    assert disks_of(host)["nvme1n1"]["claimed"] is True
    assert host.clock == 0


def test_array_that_is_being_reshaped_does_not_end_look():
    host = scene.node(1)
    for kname in ("nvme8n1", "nvme9n1"):
        host.machine.ebs(kname)
    host.machine.array("md5", ["nvme8n1", "nvme9n1"], "5" * 32, level="raid5", raid_devices="3 (2)")
    (array,) = block.look(host)["arrays"]
    assert array["raid_devices"] == 3


@pytest.mark.parametrize("shape", SHAPES)
def test_lsblk_output_counts_with_any_status(shape):
    """Statuses 32 and 64 mean named devices that were not found; none is named."""
    host = scene.node(2, shape)
    real = host.run

    def run(argv, timeout=120, check=True, stdin=None):
        done = real(argv, timeout, check, stdin)
        if argv[0] != "lsblk" or not done.stdout:
            return done
        assert not check, "a status other than 0 would end the look"
        return CommandResult(64, done.stdout, "lsblk: x: not a block device\n")

    host.run = run
    assert sorted(disks_of(host)) == ["nvme0n1", "nvme1n1", "nvme2n1"]


def test_array_at_rest_is_read_from_its_beginning(monkeypatch):
    host = scene.node(2)
    host.machine.array("md127", scene.store_names(host), scene.FOREIGN_ARRAY)
    facts, skipped = block.look(host), []
    monkeypatch.setattr(block.blank, "prove", lambda host, reader, device, seed, skip=0: skipped.append(skip))
    block.look_at_rest(host, facts, ())
    # Members have their superblock before the data.
    assert skipped == [block.blank.SUPERBLOCK_END, block.blank.SUPERBLOCK_END, 0]


def test_only_running_array_without_filesystem_is_read_at_rest():
    host = scene.node(2)
    host.machine.array("md127", scene.store_names(host), scene.FOREIGN_ARRAY)
    facts = block.look(host)
    block.look_at_rest(host, facts, ())
    assert facts["arrays"][0]["blank"]["proof"] == "zeros"
    host.machine.sign("md127", "ext4", fs_uuid("x"))
    facts = block.look(host)
    block.look_at_rest(host, facts, ())
    assert (facts["arrays"][0]["blank"], facts["arrays"][0]["use"]) == (None, None)


def test_model_and_serial_of_disk_are_those_of_controller():
    host = scene.node(1)
    real = host.machine.lsblk
    host.machine.lsblk = lambda: real().replace('"AWS0001"', "null").replace(f'"{INSTANCE_STORE}"', '"Amazon EC2 NVMe"')
    disk = disks_of(host)["nvme1n1"]
    assert (disk["kind"], disk["model"], disk["serial"]) == ("instance_store", INSTANCE_STORE, "AWS0001")


def test_inactive_volume_has_no_size():
    host = scene.node(2)
    host.machine.volume("vg.01", "lv_ephemeral", scene.store_names(host), active=False)
    (volume,) = block.look(host)["logical_volumes"]
    assert (volume["active"], volume["size"], volume["filesystem"], volume["mounts"]) == (False, 0, None, [])


def test_array_over_two_partitions_of_disk_is_on_it_once():
    host = scene.node(1)
    for number in (1, 2):
        host.machine.part("nvme1n1", number)
    host.machine.array("md5", ["nvme1n1p1", "nvme1n1p2"], scene.FOREIGN_ARRAY)
    names = [entry["kname"] for entry in disks_of(host)["nvme1n1"]["stack"]]
    assert names == ["nvme1n1p1", "nvme1n1p2", "md5"]


@pytest.mark.parametrize(("status", "output"), [(1, f"MD_UUID={scene.FOREIGN_ARRAY}\n"), (0, "MD_LEVEL=raid0\n")])
def test_superblock_that_mdadm_cannot_read_is_not_identity(status, output):
    host = scene.node(2)
    scene.foreign_array(host)
    real, done = host.run, CommandResult(status, output, "mdadm: cannot read\n")
    host.run = lambda argv, *rest, **more: done if "--examine" in argv else real(argv, *rest, **more)
    assert disks_of(host)["nvme1n1"]["md"] is None


@pytest.mark.parametrize("missing", ["pvs", "lvs", "volume"])
def test_lvm_is_asked_only_with_both_tools_and_volume(missing):
    host = scene.node(1)
    if missing != "volume":
        host.machine.volume("vg", "lv", ["nvme1n1"])
        host.programs.discard(missing)
    facts = block.look(host)
    assert (facts["physical_volumes"], facts["logical_volumes"]) == ([], [])
    assert {"pvs", "lvs"}.isdisjoint(call[0] for call in host.calls)


class Head:
    """A host whose only device begins with these bytes; without any it cannot be opened."""

    def __init__(self, head):
        self.head = head

    @contextlib.contextmanager
    def opened_device(self, path):
        if self.head is None:
            raise OSError(5, "Input/output error")
        yield self

    def read(self, start, length):
        assert (start, length) == (0, 4096)
        return self.head


def superblock(**fields):
    """Return the first 4 KiB of a new ext4: 1,000 inodes, 11 of them used. Most other bytes are not zero."""
    places = {
        "inodes": (0, 4),
        "blocks": (4, 4),
        "free": (16, 4),
        "mounted": (44, 4),
        "mounts": (52, 2),
        "magic": (56, 2),
    }
    values = {"inodes": 1000, "blocks": 0, "free": 989, "mounted": 0, "mounts": 0, "magic": 0xEF53, **fields}
    head = bytearray(b"\xff" * 4096)
    for name, value in values.items():
        start, size = places[name]
        head[1024 + start : 1024 + start + size] = value.to_bytes(size, "little")
    return bytes(head)


@pytest.mark.parametrize(
    ("fields", "pristine"),
    [
        ({}, True),
        ({"inodes": 70000, "free": 69989}, True),
        ({"free": 988}, False),
        ({"free": 990}, False),
        ({"inodes": 1000 + (1 << 24), "free": 989}, False),
        ({"mounted": 1}, False),
        ({"mounted": 1 << 31}, False),
        ({"mounts": 1}, False),
        ({"mounts": 1 << 15}, False),
        ({"magic": 0xEF52}, False),
        ({"magic": 0xEE53}, False),
    ],
)
def test_ext4_is_pristine_only_as_mkfs_left_it(fields, pristine):
    found = block.filesystem_use(Head(superblock(**fields)), "/dev/x", "ext4")
    assert found == {"finished": True, "pristine": pristine}


@pytest.mark.parametrize(("inprogress", "finished"), [(0, True), (1, False), (255, False)])
def test_xfs_of_killed_mkfs_is_unfinished_and_never_pristine(inprogress, finished):
    head = bytearray(b"XFSB" + bytes(4092))
    head[125] = head[127] = 7
    head[126] = inprogress
    assert block.filesystem_use(Head(bytes(head)), "/dev/x", "xfs") == {"finished": finished, "pristine": False}


@pytest.mark.parametrize(
    ("head", "fstype"),
    [
        (None, "ext4"),
        (b"", "ext4"),
        (b"", "xfs"),
        (superblock(), "xfs"),
        (superblock(), "vfat"),
        (b"XFSB" + bytes(4092), "ext4"),
    ],
)
def test_unreadable_filesystem_counts_as_finished_and_used(head, fstype):
    assert block.filesystem_use(Head(head), "/dev/x", fstype) == {"finished": True, "pristine": False}


def test_only_volume_groups_on_instance_store_are_looked_at():
    host = scene.node(1)
    host.machine.ebs("nvme9n1")
    host.machine.volume("theirs", "all", ["nvme9n1"], "dm-9")
    host.machine.volume("local", "all", ["nvme1n1"], "dm-1")
    assert [(lv["vg"], lv["members"]) for lv in block.look(host)["logical_volumes"]] == [("local", ["nvme1n1"])]


def test_array_missing_in_lsblk_has_no_size():
    host = scene.node(1)
    host.machine.array("md5", ["nvme1n1"], scene.FOREIGN_ARRAY, state="inactive").size = 0
    (array,) = block.look(host)["arrays"]
    assert (array["kname"], array["active"], array["size"], array["filesystem"]) == ("md5", False, 0, None)


def test_swap_that_lsblk_does_not_show_is_seen():
    host = scene.node(3)
    host.machine.swap_on("/dev/nvme2n1")
    host.machine.swap_on("/dev/nvme3n1")
    real = host.machine.lsblk
    host.machine.lsblk = lambda: real().replace('"[SWAP]"', "null")
    swaps = {kname: disk["swap"] for kname, disk in disks_of(host).items() if disk["kind"] == "instance_store"}
    assert swaps == {"nvme1n1": [], "nvme2n1": ["/dev/nvme2n1"], "nvme3n1": ["/dev/nvme3n1"]}


def test_mount_is_assigned_by_device_number_not_source():
    host = scene.node(2)
    host.machine.mount("nvme2n1", "/mnt/x", source="/dev/nvme1n1")
    found = disks_of(host)
    assert (found["nvme1n1"]["mounts"], found["nvme2n1"]["mounts"]) == ([], ["/mnt/x"])


def test_lsblk_is_asked_again_only_about_its_column():
    host = scene.node(1)
    host.failures["lsblk"] = (1, "lsblk: failed to access sysfs directory")
    with pytest.raises(CommandError, match="failed with status 1"):
        block.look(host)
    assert len([call for call in host.calls if call[0] == "lsblk"]) == 1
