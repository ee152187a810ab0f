# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import uuid

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import volume

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import INSTANCE_STORE

MKFS = ["write_intent", "make_filesystem", "write_intent"]
FINISH = ["mount", "directory", "write_marker"]


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_blank_disks_become_one_array(count):
    plan = scene.plan_of(scene.node(count), fstype="xfs", chunk_kib=1024, array_name="fast", label="scratch")
    expected = ["write_intent", "create_array", *MKFS, *FINISH, "write_array_config", "write_record", "clear_intent"]
    assert scene.kinds(plan) == expected
    create = plan.actions[1]
    assert create == {
        "action": "create_array",
        "name": "fast",
        "uuid": create["uuid"],
        "chunk_kib": 1024,
        "devices": [f"/dev/nvme{number}n1" for number in range(1, count + 1)],
        "serials": [f"AWS{number:04d}" for number in range(1, count + 1)],
        "blank": {f"/dev/nvme{number}n1": 0 for number in range(1, count + 1)},
    }
    mkfs = plan.actions[3]
    assert (mkfs["array_uuid"], mkfs["fstype"], mkfs["label"], mkfs["chunk_kib"]) == (
        create["uuid"],
        "xfs",
        "scratch",
        1024,
    )
    (volume,) = plan.volumes
    assert volume["serials"] == [f"AWS{number:04d}" for number in range(1, count + 1)]
    assert volume["fstab"] == {
        "src": f"UUID={volume['fs_uuid']}",
        "path": "/data",
        "fstype": "xfs",
        "opts": "noatime,nofail,x-systemd.device-timeout=15s",
        "dump": "0",
        "passno": "0",
    }


def test_each_disk_gets_its_filesystem_in_serial_order():
    host = scene.node(0)
    for kname, serial in (("nvme1n1", "AWS3"), ("nvme2n1", "AWS1"), ("nvme3n1", "AWS2")):
        host.machine.add(kname, "disk", model=INSTANCE_STORE, serial=serial)
    plan = scene.plan_of(host, layout="per_disk", label="averylonglabel01")
    made = [(a["device"], a["label"]) for a in plan.actions if a["action"] == "make_filesystem"]
    assert made == [
        ("/dev/nvme2n1", "averylonglabel-0"),
        ("/dev/nvme3n1", "averylonglabel-1"),
        ("/dev/nvme1n1", "averylonglabel-2"),
    ]
    assert [volume["path"] for volume in plan.volumes] == ["/data/disk0", "/data/disk1", "/data/disk2"]
    assert len({volume["fs_uuid"] for volume in plan.volumes}) == 3


DIRECTORIES = [
    {"path": "scratch", "mode": "1777"},
    {"path": "cache/hf", "owner": "ml", "group": "ml", "mode": "2775", "per_user": True},
]


FURNISHED = {"directories": DIRECTORIES, "users": ["ana"]}


def furnished():
    host = scene.node(2)
    host.accounts.update(ml=(50, 60), ana=(1000, 1001))
    scene.run(host, **FURNISHED)
    return host


def test_directories_come_with_their_parents_owners_and_modes():
    host = furnished()
    made = {path: (d["mode"], d["uid"], d["gid"]) for path, d in host.machine.directories.items() if path > "/data"}
    assert made == {
        "/data/cache": ("0755", 0, 0),
        "/data/cache/hf": ("2775", 50, 60),
        "/data/cache/hf/ana": ("0700", 1000, 1001),
        "/data/scratch": ("1777", 0, 0),
        "/etc/mdadm": ("0755", 0, 0),
    }
    assert scene.plan_of(host, **FURNISHED).actions == []


@pytest.mark.parametrize("drift", [{"mode": "0755"}, {"uid": 7}, {"gid": 7}])
def test_only_different_directory_is_fixed(drift):
    host = furnished()
    host.machine.directories["/data/cache/hf"].update(drift)
    (action,) = scene.plan_of(host, **FURNISHED).actions[:-1]
    assert (action["action"], action["path"], action["mode"]) == ("directory", "/data/cache/hf", "2775")


def test_marker_that_was_removed_comes_back():
    host = furnished()
    del host.machine.files["/data/EPHEMERAL.txt"]
    assert scene.kinds(scene.plan_of(host, **FURNISHED)) == ["write_marker", "write_record"]


def test_unknown_accounts_are_refused_and_waited_for_at_boot():
    host = scene.node(2)
    assert "there is no user ml, no user nobody, no group ml on the node" in scene.refusal(
        host, owner="nobody", directories=DIRECTORIES
    )
    plan = scene.plan_of(host, True, directories=DIRECTORIES)
    assert [a["path"] for a in plan.actions if a["action"] == "directory"] == ["/data", "/data/cache", "/data/scratch"]


@pytest.mark.parametrize(
    ("label", "fstype", "index", "found"),
    [
        ("scratch", "xfs", None, "scratch"),
        ("averylonglabel01", "xfs", None, "averylonglab"),
        ("averylonglabel0123", "ext4", None, "averylonglabel01"),
        ("averylonglabel01", "xfs", 10, "averylong-10"),
        ("scratch", "ext4", 0, "scratch-0"),
    ],
)
def test_label_is_cut_to_what_filesystem_carries(label, fstype, index, found):
    assert volume.volume_label(label, fstype, index) == found


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("0F" * 16, "0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f"),
        ("0f0f0f0f:0f0f0f0f:0f0f0f0f:0f0f0f0f", "0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f"),
        ("ABCD-1234", "ABCD-1234"),
        (None, None),
    ],
)
def test_uuid_in_spelling_of_fstab(given, found):
    assert volume.dashed(given) == found


def test_filesystem_keeps_its_uuid_when_it_is_made_again():
    one, other = uuid.UUID(int=1), uuid.UUID(int=2)
    assert volume.filesystem_uuid(one, "/data") == volume.filesystem_uuid(one, "/data")
    assert len({volume.filesystem_uuid(*pair) for pair in ((one, "/data"), (other, "/data"), (one, "/scratch"))}) == 3


def test_systemd_options_stay_in_fstab():
    config = scene.config(mount_options=["noatime", "nofail", "x-systemd.device-timeout=15s", "discard=async"])
    assert volume.mount_options(config) == ["noatime", "discard=async"]


def test_adopted_volume_has_no_line_in_fstab():
    base = {"owner": "dlami", "fs_uuid": "u", "path": "/data", "fstype": "ext4"}
    assert volume.fstab_line(base, scene.config()) == {}
    assert volume.fstab_line({**base, "owner": "ours"}, scene.config())["src"] == "UUID=u"


def test_array_line_has_mdadms_own_spelling():
    text = volume.array_config("fast", "0123456789abcdef0123456789ABCDEF")
    assert text.splitlines()[1] == ("ARRAY /dev/md/fast metadata=1.2 UUID=01234567:89abcdef:01234567:89abcdef")


def test_filesystem_under_another_mount_is_not_in_place():
    facts = {
        "mounts": [
            {"target": "/data", "kname": "md127", "root": "/"},
            {"target": "/part", "kname": "md127", "root": "/sub"},
            {"target": "/over", "kname": "md127", "root": "/"},
            {"target": "/over", "kname": "nvme9n1", "root": "/"},
        ]
    }
    assert volume.visible_mounts(facts, "md127") == ["/data"]


@pytest.mark.parametrize(
    ("signatures", "proof", "is_blank"),
    [([], "zeros", True), ([], None, False), ([{"type": "ext4"}], "zeros", False)],
)
def test_disk_is_blank_by_proof_alone(signatures, proof, is_blank):
    assert volume.is_blank({"signatures": signatures, "blank": {"proof": proof}}) is is_blank
    assert volume.is_blank({"signatures": signatures, "blank": None}) is False


def test_unconfigured_parent_is_kept_unchanged():
    config = scene.config(
        users=["ana"], directories=[{"path": "a/b/c", "mode": "0750", "per_user": True}, {"path": "a", "mode": "0711"}]
    )
    found = {entry["path"]: (entry["mode"], entry.get("keep", False)) for entry in volume.wanted_directories(config)}
    assert list(found.items()) == [
        ("a", ("0711", False)),
        ("a/b", ("0755", True)),
        ("a/b/c", ("0750", False)),
        ("a/b/c/ana", ("0700", False)),
    ]
