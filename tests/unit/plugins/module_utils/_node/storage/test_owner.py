# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge as storage
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.owner import (
    OwnedIdentities,
    claim,
    findings,
    is_member_of,
    losses,
    owned_identities,
    teardown_obstacles,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import RECORD_PATH, sound

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import INSTANCE_STORE, fs_uuid

OURS = "0" * 31 + "1"


def crypt(host):
    host.machine.add("dm-0", "crypt", parents=["nvme1n1"], name="secret")


def swap_partition(host):
    host.machine.part("nvme1n1")
    host.machine.swap_on("/dev/nvme1n1p1")


def table(kind):
    return lambda host: host.machine.sign("nvme1n1", kind)


def flag(**fields):
    return lambda host: [setattr(host.machine.devices["nvme1n1"], key, value) for key, value in fields.items()]


FINDINGS = {
    "mounted": (lambda host: host.machine.mount("nvme1n1", "/mnt"), ["is mounted on /mnt"]),
    "swap": (lambda host: host.machine.swap_on("/dev/nvme1n1"), ["is in use as swap (/dev/nvme1n1)"]),
    "swap in a partition": (
        swap_partition,
        ["is in use as swap (/dev/nvme1n1p1)", "has partitions nvme1n1p1"],
    ),
    "dm-crypt without a header": (crypt, ["is held by dm-0"]),
    "partition": (lambda host: host.machine.part("nvme1n1"), ["has partitions nvme1n1p1"]),
    "gpt": (table("gpt"), ["carries a gpt signature"]),
    "dos": (table("dos"), ["carries a dos signature"]),
    "ext4": (
        lambda host: host.machine.sign("nvme1n1", "ext4", "aa-bb", "keep"),
        ["carries an ext4 signature (label keep, uuid aa-bb)"],
    ),
    "a label that a terminal would obey": (
        lambda host: host.machine.sign("nvme1n1", "ext4", "aa-bb", "\x1b[2J\nPASS"),
        ["carries an ext4 signature (label \\x1b[2J\\nPASS, uuid aa-bb)"],
    ),
    "luks": (table("crypto_LUKS"), ["carries a crypto_LUKS signature"]),
    "zfs": (table("zfs_member"), ["carries a zfs_member signature"]),
    "read errors": (flag(bad=True), ["cannot be read for signatures, so nothing proves it blank"]),
    "unseen opener": (flag(held=True), ["is opened exclusively by another program"]),
    "unopenable": (flag(openable=False), ["cannot be opened, so nothing proves it free"]),
    "unreadable": (flag(readable=False), ["cannot be read for signatures, so nothing proves it blank"]),
    "read-only": (flag(read_only=True), ["is read-only"]),
    "loop device": (
        lambda host: host.machine.add("loop0", "loop", loop="/dev/nvme1n1"),
        ["is held by loop0"],
    ),
    "another device number": (flag(number="1:3"), ["cannot be opened, so nothing proves it free"]),
}


def look(host, known=None):
    facts = storage.look(host, scene.config())
    disk = next(disk for disk in facts["disks"] if disk["kname"] == "nvme1n1")
    return disk, facts, claim(disk, facts, known or OwnedIdentities())


@pytest.mark.parametrize("name", FINDINGS)
def test_one_finding_is_enough_to_make_disk_unusable(name):
    prepare, expected = FINDINGS[name]
    host = scene.node(2)
    if name == "another device number":
        host.claimed = lambda device, number: None if device == "/dev/nvme1n1" else False
    else:
        prepare(host)
    disk, _facts, decided = look(host)
    assert list(findings(disk)) == expected
    assert (decided.owner, decided.usable) == ("foreign", False)


def test_partition_table_only_in_lsblk_counts():
    disk = {**look(scene.node(1))[0], "pttype": "gpt"}
    assert findings(disk) == ("has a gpt partition table",)


def test_blank_disk_is_usable_without_findings():
    disk, _facts, decided = look(scene.node(1))
    assert (findings(disk), decided.owner, decided.usable) == ((), "none", True)
    shown = decided.as_dict()
    assert (shown["path"], shown["serial"], shown["model"]) == ("/dev/nvme1n1", "AWS0001", INSTANCE_STORE)
    assert json.loads(json.dumps(shown)) == shown


@pytest.mark.parametrize("mount", ["/", "/usr", "/home", "/var/lib", "/boot/efi"])
def test_system_disk_is_foreign_even_with_our_marks(mount):
    host = scene.node(1)
    host.machine.sign("nvme1n1", "ext4", fs_uuid("x"))
    host.machine.mount("nvme1n1", mount)
    known = OwnedIdentities(filesystem_uuids=frozenset([fs_uuid("x").replace("-", "")]))
    assert look(host, known)[2].owner == "foreign"
    host.machine.mounts[-1]["target"] = "/data"
    assert look(host, known)[2].owner == "ours"


def array_of_ours(host):
    host.machine.array("md127", scene.store_names(host), OURS)
    host.machine.sign("md127", "ext4", fs_uuid("data"))


def lv_on_the_array(host):
    host.machine.add("dm-0", "lvm", parents=["md127"], name="vg-lv")


def array_partition(host):
    host.machine.add("md127p1", "part", parents=["md127"])


def second_signature(host):
    host.machine.sign("nvme1n1", "ext4", fs_uuid("other"))


NOT_OURS = {
    "another array's": lambda host: host.machine.devices["nvme1n1"].signatures[0].update(uuid=fs_uuid("other")),
    "a volume group on it": lv_on_the_array,
    "a partition in it": array_partition,
    "a second signature": second_signature,
    "a partition beside": lambda host: host.machine.part("nvme1n1"),
    "swap on it": lambda host: host.machine.swap_on("/dev/md127"),
    "a loop device on a member": lambda host: host.machine.add("loop0", "loop", loop="/dev/nvme1n1"),
    "an unreadable member": flag(readable=False),
}


def test_member_of_known_array_is_ours():
    host = scene.node(2)
    array_of_ours(host)
    assert look(host, OwnedIdentities(OURS))[2].owner == "ours"
    assert look(host, OwnedIdentities("9" * 32))[2].owner == "foreign"
    assert look(host)[2].owner == "foreign"


@pytest.mark.parametrize("name", NOT_OURS)
def test_more_than_our_own_marks_on_member_is_foreign(name):
    host = scene.node(2)
    array_of_ours(host)
    NOT_OURS[name](host)
    assert look(host, OwnedIdentities(OURS))[2].owner == "foreign"


def test_known_filesystem_on_disk_is_ours_without_other_content():
    known = OwnedIdentities(filesystem_uuids=frozenset([fs_uuid("data").replace("-", "")]))
    host = scene.node(1)
    host.machine.sign("nvme1n1", "xfs", fs_uuid("data"))
    assert look(host, known)[2].owner == "ours"
    second_signature(host)
    assert look(host, known)[2].owner == "foreign"


@pytest.mark.parametrize("unit", [scene.PCLUSTER_UNIT, scene.DLAMI_UNIT])
@pytest.mark.parametrize("mount", ["/scratch", None])
def test_images_own_volume_is_known_by_its_names(unit, mount):
    host = scene.node(2)
    scene.owned_by_image(host, unit, mount)
    assert look(host)[2].owner == {"setup-ephemeral.service": "parallelcluster"}.get(unit, "dlami")


def test_masked_unit_does_not_prove_owner():
    host = scene.node(2)
    scene.owned_by_image(host, scene.DLAMI_UNIT, "/scratch")
    host.machine.unit(scene.PCLUSTER_UNIT)
    assert look(host)[2].owner == "parallelcluster"
    host.machine.links[f"/etc/systemd/system/{scene.PCLUSTER_UNIT}"] = "/dev/null"
    assert look(host)[2].owner == "dlami"


def test_own_disk_that_became_read_only_is_refused():
    host = scene.converged(2)
    host.machine.devices["nvme2n1"].read_only = True
    plan = scene.plan_of(host)
    assert (plan.situation, plan.state) == ("refused", "lost")
    assert "is read-only" in plan.claims[1].findings


def test_dlami_volume_is_known_by_its_mount_without_unit():
    host = scene.node(2)
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/opt/dlami/nvme")
    assert look(host)[2].owner == "dlami"


def rename_group(host):
    host.machine.groups["vg.02"] = host.machine.groups.pop("vg.01")


def add_volume(host):
    host.machine.groups["vg.01"]["volumes"]["mine"] = "dm-7"


@pytest.mark.parametrize("change", [rename_group, add_volume, second_signature])
def test_lvm_that_differs_from_images_is_foreign(change):
    host = scene.node(2)
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch")
    change(host)
    assert look(host)[2].owner == "foreign"


@pytest.mark.parametrize("member", ["nvme9n1", "nvme0n1p1"])
def test_images_group_over_ebs_is_foreign(member):
    host = scene.node(2)
    host.machine.ebs("nvme9n1")
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch", [member])
    assert look(host)[2].owner == "foreign"


@pytest.mark.parametrize(("name", "mount"), [("host:kubernetes", None), ("any:x", "/mnt/k8s-disks/0")])
def test_disks_that_eks_image_set_up(name, mount):
    host = scene.node(2)
    host.machine.array("md0", scene.store_names(host), scene.FOREIGN_ARRAY, name)
    if mount:
        host.machine.mount("md0", mount)
    assert look(host)[2].owner == "eks"


def obstacles(host, names=None):
    facts = storage.look(host, scene.config())
    names = names or scene.store_names(host)
    return teardown_obstacles([disk for disk in facts["disks"] if disk["kname"] in names], facts)


def test_device_on_disk_counts_without_holder_in_sysfs():
    (disk,) = (disk for disk in storage.look(scene.node(1), scene.config())["disks"] if disk["kname"] == "nvme1n1")
    above = [{"kname": "dm-9", "path": "/dev/mapper/x", "type": "dm", "claimed": False}]
    assert findings(disk) == ()
    assert findings({**disk, "stack": above}) == ("has devices on top: dm-9",)


def test_losses_name_known_and_uninspected_content():
    host = scene.node(7)
    machine = host.machine
    machine.volume("live", "all", ["nvme1n1"], "dm-1")
    machine.sign("dm-1", "xfs", None, "a\nb")
    machine.volume("empty", "", ["nvme2n1"])
    machine.volume("asleep", "all", ["nvme3n1"], "dm-3", active=False)
    machine.volume("elsewhere", "all", ["nvme4n1"], "dm-4", active=False)
    machine.array("md5", ["nvme5n1"], "5" * 32, name="host:half", state="inactive")
    machine.stopped_array(["nvme6n1"], "6" * 32, name="")
    facts = storage.look(host, scene.config())
    chosen = [disk for disk in facts["disks"] if disk["kname"] in [f"nvme{n}n1" for n in (1, 2, 3, 5, 6, 7)]]
    found = losses(chosen, facts)
    assert [line.split(" carries ")[0] for line in found[:6]] == [
        "/dev/nvme1n1 (AWS0001) is held by dm-1,",
        "/dev/nvme2n1 (AWS0002)",
        "/dev/nvme3n1 (AWS0003)",
        "/dev/nvme5n1 (AWS0005) is held by md5,",
        "/dev/nvme6n1 (AWS0006)",
        "dm-1",
    ]
    assert found[5:] == [
        "dm-1 carries an xfs signature (label a\\nb)",
        "the array host:half does not run, so its content could not be inspected",
        f"the array {'6' * 8}-6666-6666-6666-{'6' * 12} does not run, so its content could not be inspected",
        "the logical volume asleep/all is not active, so its content could not be inspected",
    ]


def test_content_only_on_disks_may_be_taken_apart():
    image = scene.PCLUSTER_UNIT
    for prepare in (scene.foreign_array, orphaned_lvm, lambda host: scene.owned_by_image(host, image, "/scratch")):
        host = scene.node(3)
        prepare(host)
        assert obstacles(host) == []


def array_with_ebs(host):
    host.machine.ebs("nvme9n1")
    host.machine.array("md1", ["nvme1n1", "nvme9n1"], scene.FOREIGN_ARRAY)


def stopped_array_with_ebs(host):
    host.machine.ebs("nvme9n1")
    host.machine.stopped_array(["nvme1n1", "nvme9n1"], scene.FOREIGN_ARRAY)


def btrfs_with_ebs(host):
    host.machine.ebs("nvme9n1")
    for disk in ("nvme1n1", "nvme9n1"):
        host.machine.sign(disk, "btrfs", fs_uuid("pool"))


def group_with_ebs(host):
    host.machine.ebs("nvme9n1")
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch", ["nvme9n1"])


def mount_over(host):
    scene.foreign_array(host)
    host.machine.ebs("nvme9n1")
    host.machine.mount("nvme9n1", "/mnt/theirs")


def mount_below(host):
    scene.foreign_array(host)
    host.machine.mount(None, "/mnt/theirs/fsx", "lustre", source="10.0.0.1@tcp:/abc")


def unlisted_lvm(host):
    host.machine.volume("vg", "lv", ["nvme1n1"])
    host.machine.left_out.add("/dev/nvme1n1")
    host.devices_file = False


def lvm_without_tools(host):
    host.machine.volume("vg", "lv", ["nvme1n1"])
    host.programs.discard("pvs")


def orphaned_lvm(host):
    host.machine.sign("nvme1n1", "LVM2_member", "Yb1OsX-8dqv")


def taken_volume(host):
    host.machine.volume("vg", "lv", ["nvme1n1"]).held = True


def taken_array(host):
    host.machine.array("md5", ["nvme1n1", "nvme2n1"], scene.FOREIGN_ARRAY).held = True


def looped(kname):
    def prepare(host):
        host.machine.array("md5", ["nvme1n1", "nvme2n1"], scene.FOREIGN_ARRAY)
        if kname == "dm-0":
            host.machine.volume("vg", "lv", ["md5"])
        host.machine.add("loop5", "loop", loop=host.machine.devices[kname].path)

    return prepare


OBSTACLES = {
    "array over EBS": (array_with_ebs, "array /dev/md1 also uses nvme9n1"),
    "stopped array over EBS": (stopped_array_with_ebs, "nvme9n1 belongs to the same array or filesystem"),
    "btrfs over EBS": (btrfs_with_ebs, "nvme9n1 belongs to the same array or filesystem"),
    "group over EBS": (group_with_ebs, "volume group vg.01 also uses nvme9n1"),
    "mount over": (mount_over, "/dev/nvme9n1 is mounted on /mnt/theirs, over or below a mount of the disks"),
    "mount below": (mount_below, "10.0.0.1@tcp:/abc is mounted on /mnt/theirs/fsx, over or below"),
    "LVM that pvs leaves out": (unlisted_lvm, "nvme1n1 carries LVM that 'pvs' does not show"),
    "LVM without its tools": (lvm_without_tools, "the lvm2 tools, which show its extent, are not installed"),
    "dm-crypt": (crypt, "is used by dm-0 (crypt), which only its owner can take apart"),
    "loop device": (FINDINGS["loop device"][0], "/dev/nvme1n1 is held by loop0, which only its owner"),
    "unseen opener": (flag(held=True), "is opened exclusively by a program that cannot be seen from here"),
    "loop device of a volume": (looped("dm-0"), "/dev/nvme1n1 is held by loop5, which only its owner can take apart"),
    "loop device of an array": (looped("md5"), "/dev/nvme1n1 is held by loop5, which only its owner can take apart"),
    "unseen opener of a volume": (taken_volume, "/dev/mapper/vg-lv is opened exclusively by a program that cannot be"),
    "unseen opener of an array": (taken_array, "/dev/md5 is opened exclusively by a program that cannot be seen"),
    "root": (lambda host: host.machine.mount("nvme1n1", "/usr"), "carries the operating system's /usr"),
    "read-only": (flag(read_only=True), "/dev/nvme1n1 is read-only"),
    "unopenable": (flag(openable=False), "/dev/nvme1n1 cannot be opened"),
    "unreadable": (flag(readable=False), "/dev/nvme1n1 cannot be read for signatures"),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_content_beyond_disks_is_never_taken_apart(name):
    prepare, expected = OBSTACLES[name]
    host = scene.node(2)
    prepare(host)
    assert any(expected in text for text in obstacles(host)), obstacles(host)
    before = json.dumps([vars(device) for device in host.machine.devices.values()])
    assert expected in scene.refusal(host, **scene.CONSENT)
    assert json.dumps([vars(device) for device in host.machine.devices.values()]) == before


def test_ebs_volume_is_obstacle_by_itself():
    host = scene.node(1)
    assert {
        "/dev/nvme0n1 is not an instance-store disk",
        "/dev/nvme0n1 carries the operating system's /",
    } <= set(obstacles(host, ["nvme0n1"]))


def test_disk_left_out_of_selection_protects_array_it_belongs_to():
    host = scene.node(4)
    host.machine.stopped_array(scene.store_names(host), scene.FOREIGN_ARRAY)
    options = {**scene.CONSENT, "devices": ["/dev/nvme1n1", "/dev/nvme2n1"]}
    assert "nvme3n1 belongs to the same array or filesystem" in scene.refusal(host, **options)
    assert "rebuild" in scene.plan_of(host, **scene.CONSENT).situation


RECORD = json.loads(scene.converged(4).machine.files[RECORD_PATH])
PER_DISK = json.loads(scene.converged(2, layout="per_disk").machine.files[RECORD_PATH])
SINGLE = json.loads(scene.converged(1).machine.files[RECORD_PATH])


def test_own_records_are_sound():
    for record in (RECORD, PER_DISK, SINGLE):
        assert sound(record) is record
        assert owned_identities(record).serials == frozenset(record["serials"])
    assert owned_identities(None) == OwnedIdentities()


@pytest.mark.parametrize("empty", [{}, {"state": "none", "serials": [], "volumes": None}])
def test_record_without_volume_proves_nothing(empty):
    assert sound(empty) is empty
    assert owned_identities(empty) == OwnedIdentities()


@pytest.mark.parametrize("document", [None, [], "text", 3, True])
def test_record_of_other_type_is_ignored(document):
    assert sound(document) is None


@pytest.mark.parametrize("base", [RECORD, PER_DISK, SINGLE])
@pytest.mark.parametrize("key", ["serials", "volumes", "filesystem_uuids", "layout", "array_uuid"])
@pytest.mark.parametrize("value", [None, "", "text", 7, {}, [], [None], [{}], [7], ["x", "x"], [["x"]]])
def test_partial_identity_is_ignored(base, key, value):
    document = {**base, key: value}
    allowed = key == "array_uuid" and base is not RECORD and not value
    assert (sound(document) is not None) == allowed


@pytest.mark.parametrize("key", ["path", "fs_uuid", "serials", "label"])
def test_volume_is_checked_too(key):
    volume = RECORD["volumes"][0]
    assert sound({**RECORD, "volumes": [{**volume, key: 7}]}) is None


@pytest.mark.parametrize("key", ["path", "fs_uuid", "serials"])
def test_volume_needs_path_identity_and_disks(key):
    volume = {name: value for name, value in RECORD["volumes"][0].items() if name != key}
    assert sound({**RECORD, "volumes": [volume]}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"serials": ["AWS0001", "AWS0002", "AWS0003"]},
        {"serials": ["AWS0001", "AWS0002", "AWS0003", "AWS0009"]},
        {"filesystem_uuids": [fs_uuid("other")]},
        {"layout": "single"},
        {"layout": "per_disk", "array_uuid": None},
        {"layout": "adopted"},
        {"array_uuid": "abc"},
    ],
)
def test_contradicting_identity_is_ignored(change):
    assert sound({**RECORD, **change}) is None


@pytest.mark.parametrize("length", range(0, len(json.dumps(RECORD)), 23))
def test_record_cut_short_neither_destroys_nor_crashes(length):
    host = scene.converged(4)
    host.machine.files[RECORD_PATH] = json.dumps(RECORD)[:length]
    text = scene.refusal(host, at_boot=True)
    assert "was not made by this role" in text
    assert host.changes() == []


BEYOND = (
    "bcache crypto_LUKS ddf_raid_member drbd isw_raid_member jbd jmicron_raid_member lvm_snapshot_cow nilfs2 f2fs "
    "reiserfs stratis VxFS xfs_external_log unheard_of"
).split()


@pytest.mark.parametrize("kind", BEYOND)
def test_content_possibly_beyond_disks_is_refused_with_consent(kind):
    host = scene.node(2)
    host.machine.sign("nvme1n1", kind, fs_uuid("x"))
    assert "cannot replace the content of the disks: nvme1n1 carries a" in scene.refusal(host, **scene.CONSENT)
    found = f" {kind} signature (uuid {fs_uuid('x')}), which may belong to something on other devices"
    assert found in scene.refusal(host, **scene.CONSENT)


def test_array_content_possibly_beyond_disks_is_refused():
    host = scene.node(2)
    scene.foreign_array(host)
    host.machine.sign("md127", "bcache", fs_uuid("x"))
    assert "md127 carries a bcache signature" in scene.refusal(host, **scene.CONSENT)


@pytest.mark.parametrize("kind", "dos exfat ext2 ext3 ext4 gpt iso9660 ntfs PMBR squashfs swap vfat xfs".split())
def test_self_contained_content_is_replaced_with_consent(kind):
    host = scene.node(2)
    host.machine.sign("nvme1n1", kind, fs_uuid("x"))
    assert "wipe" in scene.run(host, **scene.CONSENT)
    assert scene.run(host) == []


@pytest.mark.parametrize("unit", [scene.PCLUSTER_UNIT, scene.DLAMI_UNIT])
def test_images_volume_is_known_though_devices_file_hides_it(unit):
    host = scene.node(2)
    scene.owned_by_image(host, unit, "/scratch")
    host.machine.left_out = {"/dev/nvme1n1", "/dev/nvme2n1"}
    owner = {scene.PCLUSTER_UNIT: "parallelcluster", scene.DLAMI_UNIT: "dlami"}[unit]
    plan = scene.plan_of(host)
    assert (plan.situation, plan.owner) == ("adopted", owner)
    assert ["pvs", "--devicesfile", "", "--reportformat", "json", "-o", "pv_name,vg_name"] in host.calls


def test_inactive_volume_that_devices_file_hides_is_activated():
    host = scene.node(2)
    host.machine.volume("vg.01", "lv_ephemeral", scene.store_names(host), active=False)
    host.machine.inside["vg.01/lv_ephemeral"] = [
        {"offset": "0x438", "type": "ext4", "uuid": fs_uuid("x"), "label": None}
    ]
    host.machine.left_out = {"/dev/nvme1n1", "/dev/nvme2n1"}
    (action,) = scene.plan_of(host).actions
    assert action["lvm_options"] == ["--devicesfile", ""]


def test_hidden_volume_is_removed_with_consent():
    host = scene.node(2)
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch")
    host.machine.left_out = {"/dev/nvme1n1", "/dev/nvme2n1"}
    scene.run(host, **scene.CONSENT)
    for command in ("vgchange", "vgremove", "pvremove"):
        assert [call[1:3] for call in host.calls if call[0] == command] == [["--devicesfile", ""]]


def test_invisible_lvm_is_refused_without_advice_to_destroy():
    host = scene.node(2)
    unlisted_lvm(host)
    text = scene.refusal(host)
    assert (
        "the owner cannot be determined, since nvme1n1 carries LVM that 'pvs' does not show; nothing was touched"
        in text
    )
    assert "safe_mode" not in text


def test_devices_file_is_ignored_if_lvm_shows_every_disk():
    host = scene.node(2)
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch")
    scene.plan_of(host)
    assert not [call for call in host.calls if "--devicesfile" in call]


def test_volume_group_that_is_not_on_disks_is_no_obstacle():
    host = scene.node(3)
    host.machine.volume("theirs", "all", ["nvme3n1"])
    host.machine.sign("nvme1n1", "ext4", fs_uuid("x"))
    chosen = {"devices": ["/dev/nvme1n1", "/dev/nvme2n1"], **scene.CONSENT}
    assert scene.plan_of(host, **chosen).situation == "rebuild"


def test_array_that_is_not_on_disks_is_no_obstacle():
    host = scene.node(4)
    host.machine.array("md7", ["nvme3n1", "nvme4n1"], scene.FOREIGN_ARRAY)
    host.machine.sign("nvme1n1", "ext4", fs_uuid("x"))
    chosen = {"devices": ["/dev/nvme1n1", "/dev/nvme2n1"], **scene.CONSENT}
    assert scene.plan_of(host, **chosen).situation == "rebuild"


@pytest.mark.parametrize("change", [{"holders": ["dm-9"]}, {"uuid": "e" * 32}], ids=["held array", "another array"])
def test_member_below_array_of_unknown_use_is_not_ours(change):
    facts = storage.look(scene.converged(2), scene.config())
    known = owned_identities(facts["record"])
    disk = next(disk for disk in facts["disks"] if disk["kname"] == "nvme1n1")
    assert is_member_of(disk, facts, known)
    facts["arrays"][0].update(change)
    assert not is_member_of(disk, facts, known)
