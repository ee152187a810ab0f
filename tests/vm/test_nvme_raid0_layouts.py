# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers of disks, layouts and filesystems."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.rig.vm.guest import Guest
from tests.vm import helpers

pytestmark = pytest.mark.vm
GuestFactory = Callable[..., Guest]


def test_eight_disks_with_xfs(guest: GuestFactory) -> None:
    """The instance type has four disks by its table; an option sets the expected number to eight."""
    node = guest(disks=8)
    settings = {"nvme_raid0_fstype": "xfs", "nvme_raid0_expected_disks": 8}
    helpers.configure(node, **settings)
    helpers.expect_volume(node, fstype="xfs", disks=8)
    geometry = node.run("xfs_info /data").out
    # sunit: 512 KiB per disk in blocks of 4 KiB; swidth: eight times that.
    assert "sunit=128" in geometry and "swidth=1024 blks" in geometry, geometry
    helpers.expect_unchanged(node, **settings)
    refusal = helpers.play(node, nvme_raid0_expected_disks=8).refusal
    assert "fstype is xfs and ext4 is wanted" in refusal and helpers.CONSENT_SENTENCE in refusal


def test_node_without_disks_succeeds_without_volume(guest: GuestFactory) -> None:
    """A node without instance-store disks gets no volume, and the role reports that."""
    node = guest(disks=0)
    files = helpers.files_outside(node)
    run = helpers.entry(node, "main", nvme_raid0_expected_disks=0)
    assert (run.rc, run.changed) == (0, 0) and len(run.modules) == 1, (run.modules, run.errors)
    assert "no volume, since this node has no instance-store disks" in run.output, run.output
    assert "went on with storage state none" in run.output
    assert helpers.files_outside(node) == files


def test_missing_disks_are_refused(guest: GuestFactory) -> None:
    """The instance type has four disks by its table; the node has one."""
    node = guest(disks=1)
    refusal = helpers.play(node).refusal
    assert "found 1 of the 4 instance-store disks that the instance type trn2.48xlarge calls for" in refusal
    run = helpers.configure(node, nvme_raid0_expected_disks=1)
    assert "create_array" not in [step["action"] for step in run.result_of("instance_store")["actions"]]
    helpers.expect_volume(node, disks=1)
    helpers.expect_unchanged(node, nvme_raid0_expected_disks=1)


def expect_each_disk(node: Guest, state: str) -> None:
    seen = helpers.look(node)
    by_serial = {
        entry["serial"]: entry["name"]
        for entry in json.loads(node.run("lsblk -J -d -o NAME,SERIAL").out)["blockdevices"]
    }
    serials = sorted(disk.serial for disk in node.plan if disk.is_instance_store)
    for index, serial in enumerate(serials):
        mount = seen.mounts[f"/data/disk{index}"]
        assert (mount["source"], mount["fstype"]) == (f"/dev/{by_serial[serial]}", "xfs")
        assert seen.tree[f"/data/disk{index}/scratch"] == "1777 root root"
        assert f"UUID={mount['uuid']} /data/disk{index} xfs " in seen.fstab
    assert not seen.arrays and "/data" not in seen.mounts
    assert seen.record and (seen.record["state"], seen.record["layout"]) == (state, "per_disk")


def test_per_disk_filesystems_survive_reboot_and_stop(session_guest: Guest) -> None:
    """Layout per_disk: no md array, paths in the order of serials, kept over a reboot, made again after a stop."""
    node = helpers.blank(session_guest)
    settings = {"nvme_raid0_layout": "per_disk", "nvme_raid0_fstype": "xfs"}
    helpers.configure(node, **settings)
    expect_each_disk(node, "intact")
    helpers.expect_unchanged(node, **settings)
    node.run("echo kept > /data/disk3/scratch/file; sync")
    node.reboot()
    assert helpers.settle(node) == "running"
    expect_each_disk(node, "intact")
    assert node.run("cat /data/disk3/scratch/file").out == "kept\n"
    node.stop_start()
    assert helpers.settle(node) == "running"
    expect_each_disk(node, "recreated")
    helpers.expect_unchanged(node, **settings)


def test_layout_none_keeps_disks_unchanged(guest: GuestFactory) -> None:
    node = guest(disks=4)
    disks = helpers.digests(node)
    run = helpers.configure(node, nvme_raid0_layout="none")
    assert "no volume, since the layout is none" in run.output
    assert helpers.digests(node) == disks
    assert "/data" not in helpers.look(node).mounts
    helpers.expect_unchanged(node, nvme_raid0_layout="none")


def test_initramfs_knows_array_when_asked(session_guest: Guest) -> None:
    """The new initramfs has the ARRAY line, so the array has its name before root is mounted."""
    node = helpers.blank(session_guest)
    old = node.run("sha256sum /initrd.img").out
    helpers.configure(node, nvme_raid0_update_initramfs=True)
    uuid = (helpers.look(node).record or {})["array_uuid"]
    assert node.run("sha256sum /initrd.img").out != old
    node.reboot()
    assert helpers.settle(node) == "running"
    seen = helpers.expect_volume(node)
    inside = "cd $(mktemp -d) && unmkinitramfs /initrd.img . && grep -rhs '^ARRAY /dev/md/mlcluster' . | sort -u"
    assert uuid in node.run(inside).out.replace(":", "")
    assert node.run("readlink -f /dev/md/mlcluster").out.strip() == seen.mounts["/data"]["source"]
    helpers.expect_unchanged(node, nvme_raid0_update_initramfs=True)
