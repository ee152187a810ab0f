# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import errno
import itertools

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import blank
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.apply import (
    ACTIONS,
    BUSY_ATTEMPTS,
    PROGRAMS,
    array_device,
    describe,
    look_again,
    require_programs,
    run_action,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import INTENT_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import fs_uuid

UUID = "0123456789abcdef0123456789abcdef"
SPELLED = "01234567:89abcdef:01234567:89abcdef"
FS = "d6873650-a8dc-5188-8f6e-24b99406bab0"
SETTLE = ["udevadm", "settle", "--timeout=30"]


def act(host, action, **fields):
    run_action(host, {"action": action, **fields}, ACTIONS)
    return changes(host)


def changes(host):
    """Return the calls that change something, except the probes of single actions."""
    looks = (["hold"], ["wipefs", "--no-act"], SETTLE[:2], ["pvs"], ["lvs"])
    return [call for call in host.calls if not any(call[: len(look)] == look for look in looks)]


def with_array(disks=2):
    host = scene.node(disks)
    host.machine.array("md127", scene.store_names(host), UUID)
    return host


CREATE = {
    "name": "mlcluster",
    "uuid": UUID,
    "chunk_kib": 512,
    "devices": ["/dev/nvme1n1", "/dev/nvme2n1"],
    "serials": ["AWS0001", "AWS0002"],
    "blank": {"/dev/nvme1n1": 0, "/dev/nvme2n1": None},
}
EXT4 = [{"type": "ext4", "uuid": FS}]


def test_create_array():
    host = scene.node(2)
    assert act(host, "create_array", **{**CREATE, "name": "fast", "chunk_kib": 1024}) == [
        [
            "mdadm",
            "--create",
            "/dev/md/fast",
            "--run",
            "--level=0",
            "--metadata=1.2",
            "--homehost=any",
            "--name=fast",
            f"--uuid={SPELLED}",
            "--chunk=1024",
            "--raid-devices=2",
            "/dev/nvme1n1",
            "/dev/nvme2n1",
        ]
    ]
    assert host.calls[-1] == SETTLE


def test_assemble_array():
    host = scene.node(2)
    host.machine.stopped_array(scene.store_names(host), UUID)
    paths = [f"/dev/{name}" for name in scene.store_names(host)]
    assert act(host, "assemble_array", name="fast", uuid=UUID, devices=paths) == [
        ["mdadm", "--assemble", "/dev/md/fast", f"--uuid={SPELLED}", *paths]
    ]


def test_inactive_rest_is_stopped_before_assembly():
    host = with_array()
    host.machine.devices["md127"].md["state"] = "inactive"
    # The kernel shows zeros as the UUID of an inactive array, so mdadm is asked.
    paths = [f"/dev/{name}" for name in scene.store_names(host)]
    assert act(host, "assemble_array", name="fast", uuid=UUID, devices=paths)[:3] == [
        ["mdadm", "--detail", "--export", "/dev/md127"],
        ["mdadm", "--stop", "/dev/md127"],
        ["mdadm", "--assemble", "/dev/md/fast", f"--uuid={SPELLED}", *paths],
    ]


def test_stop_array():
    assert act(with_array(), "stop_array", device="/dev/md127", uuid=UUID) == [["mdadm", "--stop", "/dev/md127"]]


def test_array_without_uuid_is_stopped_while_it_has_none():
    host = with_array()
    host.machine.devices["md127"].md["shows_uuid"] = False
    stopped = act(host, "stop_array", device="/dev/md127", uuid=None)
    assert stopped[-1] == ["mdadm", "--stop", "/dev/md127"]


def test_wipe_never_forces():
    host = scene.node(1)
    host.machine.sign("nvme1n1", "ext4", FS)
    fields = {"device": "/dev/nvme1n1", "serial": "AWS0001", "signatures": EXT4, "members_of": []}
    assert act(host, "wipe", **fields) == [["wipefs", "--all", "/dev/nvme1n1"]]
    assert host.machine.devices["nvme1n1"].signatures == []


MAKE = {
    "device": "/dev/nvme1n1",
    "array_uuid": None,
    "serial": "AWS0001",
    "fstype": "ext4",
    "fs_uuid": FS,
    "label": "s",
    "chunk_kib": None,
    "blank": True,
    "prove": True,
    "written": 0,
}
ON_ARRAY = {
    "device": None,
    "array_uuid": UUID,
    "serial": None,
    "fstype": "ext4",
    "fs_uuid": FS,
    "label": "s",
    "chunk_kib": 512,
    "prove": False,
    "written": None,
}
MKFS = {
    ("ext4", 512): [
        *["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1"],
        *["-U", FS, "-L", "scratch"],
    ],
    ("xfs", 256): ["mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={FS}", "-L", "scratch"],
    ("xfs", 512): ["mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={FS}", "-L", "scratch", "-l", "su=32k"],
    ("xfs", None): ["mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={FS}", "-L", "scratch"],
}


@pytest.mark.parametrize(("fstype", "chunk"), MKFS)
def test_make_filesystem_on_disk(fstype, chunk):
    host = scene.node(1)
    fields = {**MAKE, "fstype": fstype, "label": "scratch", "chunk_kib": chunk}
    # Nothing is wiped: content that appeared on a blank disk is foreign.
    assert act(host, "make_filesystem", **fields) == [[*MKFS[fstype, chunk], "/dev/nvme1n1"]]


@pytest.mark.parametrize("blank", [True, False])
def test_make_filesystem_wipes_array_only_over_erasable_content(blank):
    host = with_array()
    commands = [call[0] for call in act(host, "make_filesystem", **ON_ARRAY, blank=blank)]
    assert commands == ["mkfs.ext4"] if blank else ["wipefs", "mkfs.ext4"]


def test_make_filesystem_finds_array_by_its_uuid():
    host = with_array()
    assert {call[-1] for call in act(host, "make_filesystem", **ON_ARRAY, blank=False)} == {"/dev/md127"}


def test_mount_and_proof():
    host = with_array()
    host.machine.sign("md127", "ext4", FS)
    fields = {"device": None, "array_uuid": UUID, "fs_uuid": FS, "fstype": "ext4", "target": "/data/a"}
    assert act(host, "mount", options=["noatime", "data=ordered"], **fields) == [
        ["mount", "-t", "ext4", "-o", "noatime,data=ordered", "/dev/md127", "/data/a"],
        ["findmnt", "--noheadings", "--mountpoint", "/data/a"],
    ]
    assert "/data/a" in host.machine.directories


def test_mount_without_options_and_without_success():
    host = scene.node(1)
    host.machine.sign("nvme1n1", "xfs", FS)
    host.failures["findmnt"] = (1, "")
    fields = {"device": "/dev/nvme1n1", "array_uuid": None, "fs_uuid": FS, "fstype": "xfs", "target": "/data"}
    with pytest.raises(NodeError, match=r"mount /data failed: .* but findmnt shows nothing on /data"):
        act(host, "mount", options=[], **fields)
    assert ["mount", "-t", "xfs", "/dev/nvme1n1", "/data"] in host.calls


def test_bind_mount():
    host = scene.node(1)
    host.machine.mount("nvme1n1", "/scratch")
    assert act(host, "bind_mount", source="/scratch", target="/data")[0] == ["mount", "--bind", "/scratch", "/data"]


def test_bind_mount_makes_its_directory_and_is_looked_for():
    host = scene.node(1)
    host.machine.mount("nvme1n1", "/scratch")
    act(host, "bind_mount", source="/scratch", target="/data/fast")
    assert host.machine.directories["/data/fast"]
    host.failures["findmnt"] = (1, "")
    with pytest.raises(NodeError, match="mount reported success, but findmnt shows nothing on /data/fast"):
        act(host, "bind_mount", source="/scratch", target="/data/fast")


def test_unmount_and_swap_off():
    host = scene.node(2)
    host.machine.mount("nvme1n1", "/mnt/a")
    host.machine.swap_on("/dev/nvme2n1")
    act(host, "unmount", target="/mnt/a")
    assert act(host, "swap_off", device="/dev/nvme2n1") == [["umount", "/mnt/a"], ["swapoff", "/dev/nvme2n1"]]


GROUP = {"vg": "vg.01", "members": ["nvme1n1", "nvme2n1"], "volumes": ["lv_ephemeral"], "lvm_options": []}


def test_remove_volume_group():
    host = scene.node(2)
    host.machine.volume("vg.01", "lv_ephemeral", scene.store_names(host))
    assert act(host, "remove_volume_group", **GROUP) == [
        ["vgchange", "--activate", "n", "vg.01"],
        ["vgremove", "--yes", "--force", "vg.01"],
        ["pvremove", "--yes", "/dev/nvme1n1", "/dev/nvme2n1"],
    ]


def test_activate_volume():
    host = scene.node(1)
    host.machine.volume("vg.01", "lv_ephemeral", ["nvme1n1"], active=False)
    assert act(host, "activate_volume", vg="vg.01", lv="lv_ephemeral", lvm_options=[]) == [
        ["lvchange", "--activate", "y", "vg.01/lv_ephemeral"]
    ]


def test_mask_unit_moves_existing_unit_file_away():
    host = scene.node(1)
    host.machine.unit(scene.PCLUSTER_UNIT)
    calls = act(host, "mask_unit", unit=scene.PCLUSTER_UNIT)
    assert calls == [
        ["systemctl", "disable", "--now", scene.PCLUSTER_UNIT],
        ["systemctl", "mask", scene.PCLUSTER_UNIT],
    ]
    assert f"/etc/systemd/system/{scene.PCLUSTER_UNIT}" not in host.machine.files
    host.calls.clear()
    # A unit file outside of /etc stays.
    host.machine.files[f"/usr/lib/systemd/system/{scene.DLAMI_UNIT}"] = "[Service]\n"
    act(host, "mask_unit", unit=scene.DLAMI_UNIT)
    assert f"/usr/lib/systemd/system/{scene.DLAMI_UNIT}" in host.machine.files


def test_earlier_backup_of_unit_file_is_not_replaced():
    host = scene.node(1)
    path = f"/etc/systemd/system/{scene.PCLUSTER_UNIT}"
    for text in ("first", "second", "third"):
        host.machine.files[path] = text
        act(host, "mask_unit", unit=scene.PCLUSTER_UNIT)
        del host.machine.links[path]
    kept = [host.machine.files[f"{path}.replaced-by-mlcluster{end}"] for end in ("", ".2", ".3")]
    assert kept == ["first", "second", "third"]


def test_unit_file_without_free_name_stays(monkeypatch):
    """As where no path of the directory can be looked at."""
    host = scene.node(1)
    path = f"/etc/systemd/system/{scene.PCLUSTER_UNIT}"
    host.machine.files[path] = "first"
    monkeypatch.setattr(host, "exists", lambda path: True)
    with pytest.raises(NodeError, match="could not be set aside"):
        act(host, "mask_unit", unit=scene.PCLUSTER_UNIT)
    assert host.machine.files[path] == "first"


def test_directory_with_owner_and_mode():
    host = scene.node(0)
    fields = {"path": "/data/scratch", "owner": "ml", "group": None, "mode": "1777"}
    act(host, "directory", uid=5, gid=6, **fields)
    assert host.machine.directories["/data/scratch"] == {"mode": "1777", "uid": 5, "gid": 6}
    with pytest.raises(NodeError, match="directory /data/scratch failed: there is no user ml or group None"):
        act(host, "directory", uid=5, gid=None, **fields)


def test_marker_describes_volume():
    host = scene.node(0)
    act(host, "write_marker", path="/data/EPHEMERAL.txt")
    text = host.machine.files["/data/EPHEMERAL.txt"]
    assert "gone when the instance stops" in text
    assert "mlcluster.aws (role nvme_raid0) at 2026-01-02T03:04:05Z" in text


@pytest.mark.parametrize(("debian", "path"), [(True, "/etc/mdadm/mdadm.conf.d"), (False, "/etc/mdadm.conf.d")])
def test_array_line_is_written_to_path_of_distribution(debian, path):
    host = scene.node(0)
    if not debian:
        del host.machine.directories["/etc/mdadm"]
    act(host, "write_array_config", name="fast", uuid=UUID)
    assert host.machine.files[f"{path}/fast.conf"].splitlines()[-1] == (
        f"ARRAY /dev/md/fast metadata=1.2 UUID={SPELLED}"
    )
    act(host, "remove_array_config", name="fast")
    assert f"{path}/fast.conf" not in host.machine.files


@pytest.mark.parametrize(
    ("program", "argv"),
    [("update-initramfs", ["update-initramfs", "-u"]), ("dracut", ["dracut", "--force"])],
)
def test_initramfs_by_distributions_own_tool(program, argv):
    host = scene.node(0)
    host.programs = {program}
    assert act(host, "update_initramfs") == [argv]
    host.programs = set()
    with pytest.raises(NodeError, match="found neither update-initramfs nor dracut"):
        act(host, "update_initramfs")


def test_initramfs_is_rebuilt_only_on_request_and_never_at_boot():
    host = scene.node(2)
    assert "update_initramfs" not in scene.kinds(scene.plan_of(host))
    assert "update_initramfs" not in scene.kinds(scene.plan_of(host, True, update_initramfs=True))
    kinds = scene.kinds(scene.plan_of(host, update_initramfs=True))
    assert kinds.index("update_initramfs") == kinds.index("write_array_config") + 1


FAILING = {
    "create_array": ("mdadm --create", "create array mlcluster failed: mdadm --create"),
    "make_filesystem": ("mkfs.ext4", "make filesystem failed: mkfs.ext4"),
    "mount": ("mount", "mount /data failed: mount -t ext4"),
}


@pytest.mark.parametrize("name", FAILING)
def test_failing_action_quotes_error_of_tool(name):
    command, expected = FAILING[name]
    host = scene.node(2)
    host.failures[command] = (1, "the tool's own words")
    with pytest.raises(NodeError) as failed:
        scene.run(host)
    assert str(failed.value).startswith(expected)
    assert str(failed.value).endswith("failed with status 1: the tool's own words")
    host.failures.clear()
    scene.run(host)
    assert scene.run(host) == []


TEARDOWN = {
    "umount": ("unmount /mnt/theirs failed: umount /mnt/theirs: failed with status 1: busy; end what uses it"),
    "mdadm --stop": "stop array /dev/md127 failed: mdadm --stop /dev/md127: failed with status 1: busy",
    "wipefs --all": "wipe /dev/nvme1n1 failed: wipefs --all /dev/nvme1n1: failed with status 1: busy",
}


@pytest.mark.parametrize("command", TEARDOWN)
def test_failing_teardown_stops(command):
    host = scene.node(2)
    scene.foreign_array(host)
    host.failures[command] = (1, "busy")
    with pytest.raises(NodeError) as failed:
        scene.run(host, **scene.CONSENT)
    assert str(failed.value).startswith(TEARDOWN[command])
    assert " ".join(host.changes()[-1]).startswith(command)
    assert INTENT_PATH not in host.machine.files


def test_busy_mount_without_visible_users_is_reported():
    host = scene.node(1)
    host.programs.add("fuser")
    host.failures.update({"umount": (32, "target is busy."), "fuser": (1, "")})
    host.machine.mount("nvme1n1", "/mnt")
    with pytest.raises(NodeError, match=r"target is busy.; end what uses it and run again"):
        act(host, "unmount", target="/mnt")


def test_users_of_busy_mount_are_named():
    host = scene.node(1)
    host.programs.add("fuser")
    host._do_fuser = lambda args: " 12 345" if args == ["-m", "/mnt"] else pytest.fail(f"fuser {args}")
    host.machine.mount("nvme1n1", "/mnt")
    host.failures["umount"] = (32, "target is busy.")
    with pytest.raises(NodeError, match=r"target is busy.; end what uses it \(process ids 12, 345\) and run again"):
        act(host, "unmount", target="/mnt")


def test_mount_that_went_with_its_peer_is_gone():
    host = scene.node(1)
    host.failures["umount"] = (32, "umount: /mnt/y: not mounted.")
    act(host, "unmount", target="/mnt/y")


def ghost(kind, name, beside=()):
    """Simulate what udev activates on a new array from the content of an older one."""

    def appear(machine, array):
        machine.add(name, kind, parents=[array, *beside], name=f"old-{name}", md={"uuid": "b" * 32})

    return appear


def consented(disks=2):
    """Return disks with a foreign array that the run may destroy."""
    host = scene.node(disks)
    scene.foreign_array(host)
    return host


GHOSTS = [("lvm", "dm-5", ["dmsetup", "remove", "old-dm-5"]), ("raid1", "md5", ["mdadm", "--stop", "/dev/md5"])]


@pytest.mark.parametrize(("kind", "name", "command"), GHOSTS)
def test_udev_ghost_in_new_array_is_stopped_and_wiped(kind, name, command):
    host = consented()
    host.on_create = ghost(kind, name)
    scene.run(host, **scene.CONSENT)
    assert command in host.calls
    assert name not in host.machine.devices
    assert scene.run(host) == []


@pytest.mark.parametrize(("kind", "name", "command"), GHOSTS)
def test_ghost_that_is_busy_at_first_is_stopped_at_next_try(kind, name, command):
    host, tries = consented(), []
    host.on_create = ghost(kind, name)
    real = host.run

    def run(argv, *args, **more):
        if argv == command:
            tries.append(argv)
            host.failures[" ".join(command)] = (1, "Device or resource busy")
            if len(tries) == 2:
                host.failures.clear()
        return real(argv, *args, **more)

    host.run = run
    scene.run(host, **scene.CONSENT)
    assert tries == [command, command]
    assert host.calls[host.calls.index(command) + 1] == SETTLE
    assert name not in host.machine.devices


@pytest.mark.parametrize(("kind", "name", "command"), GHOSTS)
def test_new_content_on_array_of_blank_disks_is_not_stopped(kind, name, command):
    host = scene.node(2)
    host.on_create = ghost(kind, name)
    with pytest.raises(NodeError, match=f"/dev/md127 has been taken by another program \\({name}\\) since the look"):
        scene.run(host)
    assert command not in host.calls
    assert not [call for call in host.calls if call[:2] == ["wipefs", "--all"] or call[0].startswith("mkfs")]


def test_luks_mapping_on_new_array_is_no_ghost():
    host = consented()
    host.on_create = ghost("crypt", "dm-5")
    with pytest.raises(NodeError, match=r"/dev/md127 has been taken by another program \(dm-5\) since the look"):
        scene.run(host, **scene.CONSENT)
    assert not [call for call in host.calls if call[0] == "dmsetup"]
    assert "dm-5" in host.machine.devices


def test_signature_on_array_of_blank_disks_is_not_wiped():
    host = scene.node(2)
    host.on_create = lambda machine, array: machine.sign(array, "xfs", FS, "theirs")
    with pytest.raises(NodeError, match=r"/dev/md127 carries an xfs signature .* that was not there at the look"):
        scene.run(host)
    assert [s["label"] for s in host.machine.devices["md127"].signatures] == ["theirs"]


def test_data_on_array_of_blank_disks_is_kept():
    host = scene.node(2)
    host.on_create = lambda machine, array: machine.write(array, [(1 << 30, 20 << 30)])
    with pytest.raises(NodeError, match=r"/dev/md127 was blank at the look, and now the byte at offset .* is not zero"):
        scene.run(host)
    assert not [call for call in host.calls if call[0].startswith("mkfs")]


def test_array_of_unwritten_disks_may_read_as_anything():
    host = scene.node(2)
    for device in host.machine.devices.values():
        if device.kname in scene.store_names(host):
            device.content, device.counted = [(0, device.size)], 0
    host.machine.files["/sys/class/dmi/id/board_asset_tag"] = "i-0123456789abcdef0"
    host.machine.births["/var/lib/cloud/instances/i-0123456789abcdef0"] = 1767322805
    host.on_create = lambda machine, array: machine.devices[array].content.append((0, 1 << 30))
    scene.run(host)
    assert scene.run(host) == []


def test_ghost_that_reaches_beyond_array_ends_run():
    host = consented()
    host.machine.ebs("nvme9n1")
    host.on_create = ghost("lvm", "dm-5", ["nvme9n1"])
    with pytest.raises(NodeError, match="dm-5 was on the disks before and uses nvme9n1 too: take it apart by hand"):
        scene.run(host, **scene.CONSENT)
    assert not [call for call in host.calls if call[0] == "dmsetup"]


def test_persistent_ghost_ends_run_with_error_of_wipefs():
    host = consented()
    host.on_create = ghost("lvm", "dm-5")
    host.failures["dmsetup"] = (1, "Device or resource busy")
    with pytest.raises(NodeError, match=r"make filesystem failed: wipefs --all /dev/md127: .*Device or resource busy"):
        scene.run(host, **scene.CONSENT)


def luks(machine):
    machine.sign("nvme1n1", "crypto_LUKS", FS)
    machine.add("dm-7", "crypt", parents=["nvme1n1"], name="secret")


APPEARED = {
    "LUKS mapping": (luks, r"/dev/nvme1n1 has been taken by another program \(dm-7\) since the look: nothing was"),
    "LVM": (
        lambda machine: machine.volume("theirs", "all", ["nvme1n1"]),
        r"/dev/nvme1n1 has been taken by another program \(dm-0\)",
    ),
    "md": (
        lambda machine: machine.array("md5", ["nvme1n1"], "b" * 32),
        r"/dev/nvme1n1 has been taken by another program \(md5\)",
    ),
    "mount": (lambda machine: machine.mount("nvme1n1", "/mnt/x"), "/dev/nvme1n1 has been taken by another program"),
    "swap": (lambda machine: machine.swap_on("/dev/nvme1n1"), "/dev/nvme1n1 has been taken by another program"),
    "loop device": (
        lambda machine: machine.add("loop3", "loop", loop="/dev/nvme1n1"),
        r"/dev/nvme1n1 has been taken by another program \(loop3\) since the look",
    ),
    "filesystem": (
        lambda machine: machine.sign("nvme1n1", "ext4", fs_uuid("x"), "theirs"),
        r"/dev/nvme1n1 carries an ext4 signature \(label theirs, .* that was not there at the look",
    ),
    "raw data": (
        lambda machine: machine.write("nvme1n1", [(1 << 30, 1 << 30)]),
        "/dev/nvme1n1 was blank at the look, and now the byte at offset .* is not zero",
    ),
    "writes between the samples": (
        lambda machine: setattr(machine.devices["nvme1n1"], "written", (16 << 20) // 512 + 1),
        "/dev/nvme1n1 was blank at the look, and more than 16 MiB may have been written to it since, which can lie",
    ),
    "no counter": (
        lambda machine: setattr(machine.devices["nvme1n1"], "iostats", False),
        "/dev/nvme1n1 was blank at the look, and more than 16 MiB may have been written to it since, which can lie",
    ),
    "another disk": (
        lambda machine: setattr(machine.devices["nvme1n1"], "serial", "AWS9999"),
        r"/dev/nvme1n1 is another disk now \(AWS9999\): run again",
    ),
}


@pytest.mark.parametrize("layout", ["raid0", "per_disk"])
@pytest.mark.parametrize("name", APPEARED)
def test_content_that_appears_after_look_is_refused_and_kept(name, layout):
    host = scene.node(2)
    appear, expected = APPEARED[name]
    write = host.write_text

    def write_text(path, text, mode=0o644):
        if path == INTENT_PATH and "mkfs" not in text and "mount" not in text.split('"stage": ')[1][:8]:
            appear(host.machine)
        write(path, text, mode)

    host.write_text = write_text
    with pytest.raises(NodeError, match=expected):
        scene.run(host, layout=layout)
    commands = {call[0] for call in host.changes()}
    assert not commands & {"mdadm", "wipefs", "dmsetup", "umount", "swapoff", "mkfs.ext4"}
    assert host.held == []


@pytest.mark.parametrize("layout", ["raid0", "per_disk"])
def test_writes_of_signature_erasure_are_no_data(layout):
    host = scene.node(2)
    write = host.write_text

    def write_text(path, text, mode=0o644):
        host.machine.devices["nvme1n1"].written = (16 << 20) // 512
        write(path, text, mode)

    host.write_text = write_text
    assert "make_filesystem" in scene.run(host, layout=layout)


@pytest.mark.parametrize("layout", ["raid0", "per_disk"])
def test_writes_of_interrupted_run_count_from_look(layout):
    host = scene.node(2)
    host.killed_before = "mdadm --create" if layout == "raid0" else "mkfs"
    with pytest.raises(KeyboardInterrupt):
        scene.run(host, layout=layout)
    host.killed_before = ""
    host.machine.devices["nvme1n1"].written = 10 << 20
    assert "make_filesystem" in scene.run(host, layout=layout)


def test_blank_disk_beside_erasable_content_is_proved_again():
    host = scene.node(2)
    host.machine.sign("nvme2n1", "ext4", FS)
    write = host.write_text

    def write_text(path, text, mode=0o644):
        if path == INTENT_PATH and '"stage": "create"' in text:
            host.machine.write("nvme1n1", [(1 << 30, 50 << 30)])
        write(path, text, mode)

    host.write_text = write_text
    with pytest.raises(NodeError, match="/dev/nvme1n1 was blank at the look, and now the byte at offset"):
        scene.run(host, **scene.CONSENT)


def test_disk_that_udev_looks_at_is_tried_again():
    host = scene.node(2)
    host.machine.devices["nvme2n1"].held = True
    real = host.sleep

    def sleep(seconds):
        real(seconds)
        host.machine.devices["nvme2n1"].held = host.clock < 1

    host.sleep = sleep
    act(host, "create_array", **CREATE)
    assert host.clock == 1.0


def test_disk_that_stays_open_ends_run():
    host = scene.node(2)
    host.machine.devices["nvme2n1"].held = True
    with pytest.raises(NodeError, match="/dev/nvme2n1 has been taken by another program since the look"):
        act(host, "create_array", **CREATE)
    assert host.clock == 2.0


def test_all_disks_are_held_during_last_look(monkeypatch):
    host = scene.node(4)
    held = []
    monkeypatch.setattr(blank, "prove", lambda *args: held.append(list(host.held)) or {"proof": "zeros"})
    devices = [f"/dev/nvme{n}n1" for n in (1, 2, 3, 4)]
    serials = [f"AWS000{n}" for n in (1, 2, 3, 4)]
    act(host, "create_array", **{**CREATE, "devices": devices, "serials": serials, "blank": dict.fromkeys(devices)})
    assert held == [devices] * 4


def test_disk_is_proved_blank_again_at_other_places(monkeypatch):
    host, seeds = scene.node(1), []
    real = blank.places
    monkeypatch.setattr(blank, "places", lambda size, seed: seeds.append(seed) or real(size, seed))
    scene.run(host)
    assert len(seeds) == len(set(seeds)) == 2


def signed(host):
    host.machine.sign("nvme1n1", "ext4", FS)
    return host


def grouped(active):
    host = scene.node(2)
    host.machine.volume("vg.01", "lv_ephemeral", scene.store_names(host), active=active)
    return host


STEPS = {
    "wipe": (
        lambda: signed(scene.node(1)),
        {"device": "/dev/nvme1n1", "serial": "AWS0001", "signatures": EXT4, "members_of": []},
    ),
    "make_filesystem": (lambda: scene.node(1), MAKE),
    "create_array": (lambda: scene.node(2), CREATE),
    "stop_array": (with_array, {"device": "/dev/md127", "uuid": UUID}),
    "remove_volume_group": (lambda: grouped(True), GROUP),
    "activate_volume": (lambda: grouped(False), {"vg": "vg.01", "lv": "lv_ephemeral", "lvm_options": []}),
    "start_unit": (lambda: scene.node(1), {"unit": scene.PCLUSTER_UNIT}),
}


@pytest.mark.parametrize("action", STEPS)
def test_udev_is_waited_for_after_step(action):
    make, fields = STEPS[action]
    host = make()
    act(host, action, **fields)
    assert host.calls[-1] == SETTLE
    # A slow udev is not a failure.
    host = make()
    host.failures["udevadm"] = (1, "")
    act(host, action, **fields)
    host = make()
    host.programs.discard("udevadm")
    act(host, action, **fields)
    assert SETTLE not in host.calls


def test_wipe_stops_array_that_udev_assembles_meanwhile():
    host = with_array()
    known = [{key: s[key] for key in ("type", "uuid")} for s in host.machine.devices["nvme1n1"].signatures]
    host.run(["mdadm", "--stop", "/dev/md127"])
    real, tries = host.run, []

    def run(argv, *args, **more):
        if argv[:2] == ["wipefs", "--all"]:
            tries.append(argv)
            if len(tries) == 1:
                real(["mdadm", "--assemble", "/dev/md/x", f"--uuid={UUID}"])
                host.calls.clear()
        return real(argv, *args, **more)

    host.run = run
    fields = {"device": "/dev/nvme1n1", "serial": "AWS0001", "signatures": known, "members_of": [UUID]}
    wipe, stop = ["wipefs", "--all", "/dev/nvme1n1"], ["mdadm", "--stop", "/dev/md127"]
    run_action(host, {"action": "wipe", **fields}, ACTIONS)
    assert changes(host) == [wipe, stop, wipe]
    assert host.calls[-1] == SETTLE
    assert host.machine.devices["nvme1n1"].signatures == []


def test_wipe_refuses_unknown_signature():
    host = scene.node(1)
    host.machine.sign("nvme1n1", "ext4", FS)
    host.machine.sign("nvme1n1", "crypto_LUKS", fs_uuid("new"))
    fields = {"device": "/dev/nvme1n1", "serial": "AWS0001", "signatures": EXT4, "members_of": []}
    with pytest.raises(NodeError, match=r"carries a crypto_LUKS signature .* that was not there at the look: nothing"):
        act(host, "wipe", **fields)
    assert len(host.machine.devices["nvme1n1"].signatures) == 2


def test_wipe_refuses_disk_in_use():
    host = scene.node(1)
    luks(host.machine)
    known = [{"type": "crypto_LUKS", "uuid": FS}]
    fields = {"device": "/dev/nvme1n1", "serial": "AWS0001", "signatures": known, "members_of": [UUID]}
    with pytest.raises(NodeError, match=r"taken by another program \(dm-7\) since the look: nothing was removed"):
        act(host, "wipe", **fields)
    assert changes(host) == []


@pytest.mark.parametrize("seen", ["f" * 32, None])
def test_stop_array_refuses_another_array(seen):
    host = with_array()
    with pytest.raises(NodeError, match=f"/dev/md127 is another array now \\({UUID}\\): nothing was stopped"):
        act(host, "stop_array", device="/dev/md127", uuid=seen)
    assert changes(host) == []


def test_array_that_shows_no_uuid_any_more_is_not_stopped():
    host = with_array()
    host.machine.devices["md127"].md["shows_uuid"] = False
    with pytest.raises(NodeError, match=r"/dev/md127 is another array now \(no UUID\): nothing was stopped"):
        act(host, "stop_array", device="/dev/md127", uuid=UUID)
    assert not [call for call in host.calls if "--stop" in call]


def flapping(host, disks):
    """Let each look find the first disk busy, and each question after that find all disks free."""
    opened, times = host.opened_device, itertools.count()

    @contextlib.contextmanager
    def opened_device(device, exclusive=False):
        if exclusive and next(times) % (disks + 1) == 0:
            raise OSError(errno.EBUSY, "busy")
        with opened(device, exclusive) as reader:
            yield reader

    host.opened_device = opened_device
    return host


def test_disk_that_is_busy_at_each_look_is_refused():
    host = flapping(scene.node(2), 2)
    with pytest.raises(NodeError, match="create array mlcluster failed: /dev/nvme1n1 has been taken by another"):
        act(host, "create_array", **CREATE)
    assert changes(host) == []
    assert host.calls.count(SETTLE) == BUSY_ATTEMPTS
    assert host.clock == 0.5 * BUSY_ATTEMPTS


def test_disk_that_is_gone_is_not_called_busy():
    host = scene.node(2)
    del host.machine.devices["nvme2n1"]
    with pytest.raises(NodeError, match=r"create array mlcluster failed: .*No such file or directory"):
        act(host, "create_array", **CREATE)
    assert host.clock == 0


def test_changed_group_without_logical_volumes_shows_none():
    host = scene.node(2)
    host.machine.volume("vg.01", "", scene.store_names(host))
    with pytest.raises(NodeError, match=r"physical volumes nvme1n1, nvme2n1; logical volumes none\)"):
        act(host, "remove_volume_group", vg="vg.01", members=scene.store_names(host), volumes=["lv"], lvm_options=[])


@pytest.mark.parametrize("change", [{"members": ["nvme1n1"]}, {"volumes": []}, {"volumes": ["lv_ephemeral", "more"]}])
def test_volume_group_that_has_changed_is_not_removed(change):
    host = scene.node(2)
    host.machine.volume("vg.01", "lv_ephemeral", scene.store_names(host))
    with pytest.raises(NodeError, match=r"the volume group vg.01 has changed since the look .*nothing was removed"):
        act(host, "remove_volume_group", **{**GROUP, **change})
    assert changes(host) == []


@pytest.mark.parametrize("mapped", [True, False])
def test_both_inactive_halves_are_stopped_before_assembly(mapped):
    """Also if mdadm's map, which was lost with /run, does not have them."""
    host = scene.node(2)
    host.machine.stopped_array(scene.store_names(host), UUID)
    for number, name in enumerate(scene.store_names(host)):
        half = {**host.machine.devices[name].md, "state": "inactive", "shows_uuid": mapped}
        host.machine.add(f"md{number}", "raid0", parents=[name], number=f"9:{number}", md=half)
    paths = [f"/dev/{name}" for name in scene.store_names(host)]
    calls = act(host, "assemble_array", name="fast", uuid=UUID, devices=paths)
    assert [call[2] for call in calls if "--stop" in call] == ["/dev/md0", "/dev/md1"]
    assert array_device(host, UUID) == "/dev/md127"


def test_array_that_was_started_meanwhile_is_not_stopped():
    host = with_array()
    with pytest.raises(NodeError, match="/dev/md127 has been started since the look: nothing was stopped; run again"):
        act(host, "assemble_array", name="fast", uuid=UUID, devices=[])
    assert changes(host) == []


def late(host, seconds, attribute, before=None):
    """Let the array appear only some time after mdadm has ended; before: the attribute's value until then."""
    real = host.machine.sysfs

    def sysfs(kname, end):
        hidden = kname.startswith("md") and end == attribute and host.clock < seconds
        return before if hidden else real(kname, end)

    host.machine.sysfs = sysfs


@pytest.mark.parametrize(("attribute", "before"), [("md/array_state", None), ("size", None), ("size", "0\n")])
@pytest.mark.parametrize("action", ["create_array", "assemble_array"])
def test_late_array_is_waited_for(action, attribute, before):
    host = scene.node(2)
    if action == "assemble_array":
        host.machine.stopped_array(scene.store_names(host), UUID)
    late(host, 2, attribute, before)
    act(host, action, **CREATE)
    assert 2 <= host.clock < 3
    assert host.calls[-1] == SETTLE


def test_array_that_kernel_does_not_list_yet_is_waited_for():
    host = scene.node(2)
    real = host.listdir
    host.listdir = lambda path: [name for name in real(path) if host.clock >= 2 or not name.startswith("md")]
    act(host, "create_array", **CREATE)
    assert 2 <= host.clock < 3


def test_array_that_never_appears_ends_run():
    host = scene.node(2)
    late(host, 99, "size")
    with pytest.raises(NodeError, match=f"30 seconds later the array {UUID} does not run: look with 'cat /proc/mdst"):
        act(host, "create_array", **CREATE)
    assert 30 <= host.clock < 31


def test_device_node_of_array_is_waited_for():
    host = scene.node(2)
    real = host.exists
    host.exists = lambda path: real(path) and not (path == "/dev/md127" and host.clock < 2)
    act(host, "create_array", **CREATE)
    assert 2 <= host.clock < 3


@pytest.mark.parametrize("text", [None, "Personalities : [raid1]\n"])
@pytest.mark.parametrize("action", ["create_array", "assemble_array"])
def test_raid0_is_loaded_first(action, text):
    host = scene.node(2)
    if action == "assemble_array":
        host.machine.stopped_array(scene.store_names(host), UUID)
    host.machine.files["/proc/mdstat"] = text
    assert [call[:2] for call in act(host, action, **CREATE)] == [["modprobe", "raid0"], ["mdadm", f"--{action[:-6]}"]]


def test_kernel_without_raid0_is_named():
    host = scene.node(2)
    del host.machine.files["/proc/mdstat"]
    host.failures["modprobe"] = (1, "modprobe: FATAL: Module raid0 not found in directory /lib/modules/6.1.0")
    with pytest.raises(NodeError, match=r"modprobe raid0 failed \(modprobe: FATAL: Module raid0 not found .*install"):
        scene.run(host)
    assert not [call for call in host.changes() if call[0] == "mdadm"]


@pytest.mark.parametrize("state", ["activating/start", "active/running", "reloading/reload"])
def test_running_unit_is_awaited_and_not_restarted(state):
    host = scene.node(1)
    host.states[scene.PCLUSTER_UNIT] = [state, state, "active/exited"]
    calls = act(host, "start_unit", unit=scene.PCLUSTER_UNIT)
    assert not [call for call in calls if "restart" in call]
    assert host.clock == 0.5


def test_parent_that_exists_keeps_its_owner_and_mode():
    host = scene.converged(2, directories=[{"path": "team/cache/hf"}])
    host.machine.directories["/data/team"] = {"mode": "2775", "uid": 1000, "gid": 1000}
    assert scene.run(host, directories=[{"path": "team/cache/hf"}]) == []
    host.machine.reboot()
    assert "directory" in scene.run(host, at_boot=True, directories=[{"path": "team/cache/hf"}])
    assert host.machine.directories["/data/team"] == {"mode": "2775", "uid": 1000, "gid": 1000}
    scene.run(host, directories=[{"path": "team/cache/hf"}, {"path": "team", "mode": "0755"}])
    assert host.machine.directories["/data/team"] == {"mode": "0755", "uid": 0, "gid": 0}


def test_lost_array_is_reported():
    fields = {"device": None, "array_uuid": UUID, "fs_uuid": FS, "fstype": "ext4", "target": "/data"}
    with pytest.raises(NodeError, match=f"the array {UUID} is not running: look with 'cat /proc/mdstat'"):
        act(scene.node(2), "mount", options=[], **fields)


def test_file_that_cannot_be_written_is_reported():
    host = scene.node(2)
    host.write_text = lambda path, text, mode=0o644: (n for n in ()).throw(OSError(28, "No space left on device"))
    with pytest.raises(NodeError, match=r"write intent create failed: .*No space left on device"):
        scene.run(host)


def test_array_is_found_only_by_uuid():
    host = with_array()
    assert array_device(host, SPELLED) == array_device(host, UUID) == "/dev/md127"
    assert array_device(host, "f" * 32) is None
    host.machine.devices["md127"].md["shows_uuid"] = False
    assert array_device(host, "") is None


def test_every_action_of_plan_has_function():
    assert set(PROGRAMS) <= set(ACTIONS)
    planned = set()
    for prepare in (scene.foreign_array, lambda host: scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch")):
        host = scene.node(2)
        prepare(host)
        planned |= set(scene.kinds(scene.plan_of(host, **scene.CONSENT)))
    assert planned - {"write_record"} <= set(ACTIONS)


@pytest.mark.parametrize("missing", ["mdadm", "mkfs.ext4", "umount"])
def test_missing_program_stops_before_teardown(missing):
    host = scene.node(2)
    scene.foreign_array(host)
    host.programs.discard(missing)
    with pytest.raises(NodeError, match=f"looked for {missing} and did not find it, so nothing was touched"):
        scene.run(host, **scene.CONSENT)
    assert host.changes() == []


def test_only_programs_of_actions_are_required():
    host = scene.node(1)
    host.programs = {"mount"}
    require_programs(host, [{"action": "mount"}, {"action": "directory"}])


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ({"action": "mount", "target": "/data", "device": "/dev/md127"}, "mount /data"),
        ({"action": "remove_volume_group", "vg": "vg.01"}, "remove volume group vg.01"),
        ({"action": "write_intent", "stage": "mkfs"}, "write intent mkfs"),
        ({"action": "write_record"}, "write record"),
    ],
)
def test_action_is_described_in_words(action, text):
    assert describe(action) == text


def test_disk_that_shrank_to_nothing_after_look_is_refused():
    host = scene.node(2)
    host.machine.devices["nvme1n1"].size = 0
    with pytest.raises(NodeError, match="/dev/nvme1n1 was blank at the look, and now nothing can be read of it"):
        look_again(host, [{"path": "/dev/nvme1n1", "serial": None, "signatures": (), "blank": True, "written": None}])
