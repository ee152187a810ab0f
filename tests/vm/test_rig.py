# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rig: the disks as the guest sees them, the effect of each hardware event, and each prepared case."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.rig.vm import cache, plan, prepare
from tests.rig.vm.guest import Guest

pytestmark = pytest.mark.vm
GuestFactory = Callable[..., Guest]
COLUMNS = "NAME,MODEL,SERIAL,SIZE,FSTYPE,LABEL,MOUNTPOINTS,TYPE"


def nvme(guest: Guest) -> list[dict[str, Any]]:
    """Return the NVMe disks as lsblk reports them, in the order of their numbers."""
    seen = json.loads(guest.run(["lsblk", "-J", "-b", "-o", COLUMNS]).out)["blockdevices"]
    disks = [entry for entry in seen if entry["name"].startswith("nvme")]
    return sorted(disks, key=lambda entry: int(entry["name"][4:].split("n")[0]))


def identities(guest: Guest) -> list[tuple[str, str, int]]:
    """Return model, serial and size of each NVMe disk as the guest sees it."""
    return [(entry["model"], entry["serial"], entry["size"]) for entry in nvme(guest)]


def planned(guest: Guest) -> list[tuple[str, str, int]]:
    """Return model, serial and size of each disk of the plan."""
    return [(disk.model, disk.serial, disk.size_mb << 20) for disk in guest.plan]


def mounted(guest: Guest, path: str) -> dict[str, str]:
    """Return source, type and options of a mount point from findmnt; fail the test if nothing is mounted there."""
    options = "SOURCE,FSTYPE,OPTIONS"
    found = json.loads(guest.run(["findmnt", "-J", "-o", options, "--mountpoint", path]).out)
    entry: dict[str, str] = found["filesystems"][0]
    return entry


def make_array(guest: Guest) -> str:
    """Make and mount a RAID 0 over all instance-store disks, with a file and an fstab line; return its UUID."""
    script = """
        count=$#
        mdadm --create /dev/md/data --run --level=0 --homehost=any --name=data --raid-devices="$count" "$@" >&2
        mkfs.xfs -q -K /dev/md/data
        uuid=$(blkid -o value -s UUID /dev/md/data)
        mkdir -p /data
        echo "UUID=$uuid /data xfs defaults,nofail,x-systemd.device-timeout=60s 0 0" >> /etc/fstab
        mount /dev/md/data /data
        echo kept > /data/file
        echo "$uuid"
    """
    return guest.script(script, *guest.instance_store()).strip()


@pytest.mark.parametrize("disks", [0, 1, pytest.param(3, marks=pytest.mark.ci), 8, 16])
def test_disks_match_plan(guest: GuestFactory, disks: int) -> None:
    node = guest(disks=disks, ebs=2 if disks == 3 else 1, disk_mb=512)
    assert identities(node) == planned(node)
    assert len(node.instance_store()) == disks
    assert not any(entry["fstype"] or any(entry["mountpoints"]) or "children" in entry for entry in nvme(node))


@pytest.mark.ci
def test_guest_passes_for_instance(guest: GuestFactory) -> None:
    begun = time.time()
    node = guest(disks=1)
    # The guest's clock is set once, in whole seconds; a busy machine delays the answer.
    clock = int(node.run("date +%s").out)
    assert begun - 1 < clock < time.time() + 1
    assert node.run("systemd-detect-virt").out.strip() == "amazon"
    assert node.run("cat /sys/class/dmi/id/product_name").out.strip() == "trn2.48xlarge"
    links = node.run("ls /dev/disk/by-id").out.split()
    serial = node.plan[1].serial
    assert f"nvme-Amazon_EC2_NVMe_Instance_Storage_{serial}" in links
    assert "ec2-rig" not in node.run("cat /proc/mounts").out


def test_reboot_keeps_array_and_honours_new_initramfs(guest: GuestFactory) -> None:
    node = guest(disks=4)
    uuid = make_array(node)
    node.script("""
        printf '#!/bin/sh\\necho seen > /run/from-new-initramfs\\n' > /etc/initramfs-tools/scripts/init-premount/proof
        chmod 755 /etc/initramfs-tools/scripts/init-premount/proof
        update-initramfs -u
    """)
    node.reboot()
    assert identities(node) == planned(node)
    assert node.run("cat /run/from-new-initramfs").out == "seen\n"
    # Without an ARRAY line, mdadm names the array by a number after a reboot; the UUID persists.
    assert node.run(["blkid", "-t", f"UUID={uuid}", "-o", "device"]).out.startswith("/dev/md12")
    node.run("systemctl start data.mount")
    assert node.run("cat /data/file").out == "kept\n"


def test_stop_start_blanks_instance_store_and_keeps_ebs(guest: GuestFactory) -> None:
    node = guest(disks=4)
    volume = node.ebs_volumes()[0]
    node.script(
        'mkfs.ext4 -q -L keep "$1"; shift; for disk; do mkfs.ext4 -q -L gone "$disk"; done',
        volume,
        *node.instance_store(),
    )
    before = {disk.serial for disk in node.plan}
    node.stop_start()
    assert identities(node) == planned(node)
    same = before & {disk.serial for disk in node.plan}
    assert same == {disk.serial for disk in node.plan if not disk.is_instance_store}
    assert node.run(["blkid", "-o", "value", "-s", "LABEL", node.ebs_volumes()[0]]).out == "keep\n"
    for disk in node.instance_store():
        assert node.run(["cmp", "-n", "67108864", disk, "/dev/zero"], check=False).rc == 0


def test_lost_disk_is_missing_now_and_after_reboot(guest: GuestFactory) -> None:
    node = guest(disks=4)
    make_array(node)
    lost = node.lose_disk(2)
    assert lost.serial not in {serial for _model, serial, _size in identities(node)}
    assert identities(node) == planned(node)
    node.reboot()
    assert identities(node) == planned(node)
    assert len(node.instance_store()) == 3
    assert "inactive" in node.run("cat /proc/mdstat").out


def test_reshuffle_moves_names_and_not_contents(guest: GuestFactory) -> None:
    node = guest(disks=4)
    for number, disk in enumerate(node.instance_store()):
        node.run(["mkfs.ext4", "-q", "-L", f"disk{number}", disk])
    labels = {entry["serial"]: entry["label"] for entry in nvme(node)}
    order = [serial for _model, serial, _size in identities(node)]
    assert node.reshuffle(seed=7)
    assert identities(node) == planned(node)
    assert [serial for _model, serial, _size in identities(node)] != order
    assert {entry["serial"]: entry["label"] for entry in nvme(node)} == labels


def test_reshuffle_of_disks_in_use_waits_for_reboot(guest: GuestFactory) -> None:
    node = guest(disks=4)
    make_array(node)
    order = identities(node)
    assert not node.reshuffle(seed=7)
    assert identities(node) == order
    node.reboot()
    assert identities(node) == planned(node) != order
    node.run("systemctl start data.mount")
    assert node.run("cat /data/file").out == "kept\n"


@pytest.mark.ci
def test_restore_brings_disks_and_plan_back(guest: GuestFactory) -> None:
    node = guest(disks=4)
    make_array(node)
    node.snapshot("with-array")
    before = identities(node)
    node.run("umount /data && mdadm --stop /dev/md/data")
    node.lose_disk(0)
    node.restore("with-array")
    assert identities(node) == before == planned(node)
    assert node.run("cat /data/file").out == "kept\n"


def stripe_of(node: Guest) -> list[str]:
    """Return group, name, number of stripes and stripe size in KiB of the only logical volume."""
    return node.run("lvs --noheadings --units k --nosuffix -o vg_name,lv_name,stripes,stripe_size").out.split()


def expect_owner_volume(node: Guest, path: str, unit: str) -> None:
    entry = mounted(node, path)
    assert (entry["source"], entry["fstype"]) == ("/dev/mapper/vg.01-lv_ephemeral", "ext4")
    assert {"noatime", "nodiratime"} <= set(entry["options"].split(","))
    assert stripe_of(node) == ["vg.01", "lv_ephemeral", "4", "64.00"]
    assert node.run(["stat", "-c", "%a", path]).out == "1777\n"
    assert node.run(["systemctl", "is-enabled", unit]).out == "enabled\n"


def expect_parallelcluster(node: Guest) -> None:
    expect_owner_volume(node, "/scratch", "setup-ephemeral.service")
    assert "cfn_ephemeral_dir=/scratch\n" in node.run("cat /etc/parallelcluster/cfnconfig").out


def expect_dlami(node: Guest) -> None:
    expect_owner_volume(node, "/opt/dlami/nvme", "dlami-nvme.service")
    assert node.run("systemctl is-active dlami-nvme.service").out == "active\n"


def expect_old_md(node: Guest) -> None:
    assert [entry["fstype"] for entry in nvme(node)][1:] == ["linux_raid_member"] * 4
    assert "active" not in node.run("cat /proc/mdstat").out
    node.run(["mdadm", "--assemble", "--run", "/dev/md/again", *node.instance_store()])
    assert node.run("blkid -o value -s LABEL /dev/md/again").out == "old\n"
    node.run("mount -o ro /dev/md/again /mnt && test -s /mnt/result.txt")


def expect_gpt(node: Guest) -> None:
    assert node.run(["blkid", "-p", "-o", "value", "-s", "PTTYPE", node.instance_store()[0]]).out == "gpt\n"
    assert [child["type"] for child in nvme(node)[1]["children"]] == ["part"]


def expect_lone_ext4(node: Guest) -> None:
    disk = nvme(node)[1]
    assert (disk["fstype"], disk["label"], any(disk["mountpoints"])) == ("ext4", "keep", False)


def expect_swap(node: Guest) -> None:
    assert node.run("swapon --show=NAME --noheadings").out.strip() == node.instance_store()[0]


def expect_half_array(node: Guest) -> None:
    detail = node.run("mdadm --detail --export /dev/md/data").out
    assert "MD_LEVEL=raid0\n" in detail and "MD_DEVICES=4\n" in detail
    assert node.run("blkid -p /dev/md/data", check=False).rc == 2


def expect_foreign_homehost(node: Guest) -> None:
    assert mounted(node, "/mnt")["source"] == "/dev/md127"
    assert "MD_NAME=elsewhere:theirs\n" in node.run("mdadm --detail --export /dev/md127").out


def expect_mounted_disk(node: Guest) -> None:
    assert mounted(node, "/mnt/busy")["source"] == node.instance_store()[0]
    assert "LABEL=busy /mnt/busy" in node.run("cat /etc/fstab").out


def expect_lvm_with_ebs(node: Guest) -> None:
    members = set(node.run("pvs --noheadings -o pv_name").out.split())
    assert members == {*node.instance_store(), *node.ebs_volumes()}
    assert mounted(node, "/mnt/mixed")["source"] == "/dev/mapper/mixed-all"


EXPECTED = {
    "parallelcluster": expect_parallelcluster,
    "dlami": expect_dlami,
    "old-md": expect_old_md,
    "gpt": expect_gpt,
    "lone-ext4": expect_lone_ext4,
    "swap": expect_swap,
    "half-array": expect_half_array,
    "foreign-homehost": expect_foreign_homehost,
    "mounted-disk": expect_mounted_disk,
    "lvm-with-ebs": expect_lvm_with_ebs,
}


@pytest.mark.parametrize("case", list(prepare.CASES))
def test_prepared_case_has_expected_disks(guest: GuestFactory, case: str) -> None:
    node = guest(disks=4)
    prepare.prepare(node, case)
    EXPECTED[case](node)


@pytest.mark.parametrize("case", ["parallelcluster", "dlami"])
def test_owner_makes_its_volume_again_on_blank_disks(guest: GuestFactory, case: str) -> None:
    node = guest(disks=4)
    prepare.prepare(node, case)
    node.stop_start()
    node.run("systemctl is-system-running --wait", check=False)
    # A simple service counts as started while its script still runs.
    node.run("while systemctl -q is-active setup-ephemeral.service; do sleep 0.5; done")
    EXPECTED[case](node)


def test_other_instance_type_is_in_firmware() -> None:
    node = Guest("pytest-type")
    with cache.locked(f"guest-{node.name}", "another pytest session's guest"):
        try:
            node.up(disks=8, instance_type="p5.48xlarge")
            assert node.run("cat /sys/class/dmi/id/product_name").out == "p5.48xlarge\n"
            assert identities(node) == planned(node)
            assert sum(model == plan.INSTANCE_STORE for model, _serial, _size in identities(node)) == 8
        finally:
            node.down()
