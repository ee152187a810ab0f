# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data of another owner: refused with reason and remedy, and replaced only if both consent options are set."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.rig.vm import prepare
from tests.rig.vm.guest import Guest
from tests.vm import helpers
from tests.vm.helpers import CONSENT

pytestmark = pytest.mark.vm


class Case(NamedTuple):
    """A refusal's reason for the first disk, its number of disks, and a command that fails after the replacement."""

    finding: str
    named: int
    gone: str


CASES = {
    "gpt": Case("has partitions nvme1n1p1", 1, "test -b /dev/nvme1n1p1"),
    "lone-ext4": Case("carries an ext4 signature (label keep", 1, "blkid -L keep"),
    "swap": Case("is in use as swap (/dev/nvme1n1)", 1, "swapon --noheadings | grep ."),
    "mounted-disk": Case("is mounted on /mnt/busy", 1, "mountpoint -q /mnt/busy || blkid -L busy"),
    "old-md": Case("carries a linux_raid_member signature", 4, "blkid -L old || test -e /data/result.txt"),
    "foreign-homehost": Case("is mounted on /mnt", 4, "mountpoint -q /mnt || blkid -L theirs"),
    "half-array": Case("is held by md", 4, "mdadm --detail --scan | grep ':data'"),
}
IN_SUITE = {"old-md"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.ci] if name in IN_SUITE else []) for name in CASES]
)
def test_foreign_data_is_refused_and_replaced_only_with_consent(session_guest: Guest, name: str) -> None:
    case = CASES[name]
    node = helpers.blank(session_guest)
    prepare.prepare(node, name)
    disks, files = helpers.digests(node), helpers.files_outside(node)
    refusal = helpers.play(node).refusal
    serials = [disk.serial for disk in node.plan if disk.is_instance_store]
    assert f"/dev/nvme1n1 ({serials[0]}) " in refusal and case.finding in refusal, refusal
    assert sum(serial in refusal for serial in serials) == case.named, refusal
    assert "nothing was touched" in refusal and helpers.CONSENT_SENTENCE in refusal, refusal
    assert helpers.digests(node) == disks, "a refused run wrote on a disk"
    assert helpers.files_outside(node) == files, "a refused run wrote files"

    run = helpers.configure(node, **CONSENT)
    assert run.result_of("instance_store")["plan"]["situation"] == "rebuild"
    helpers.expect_volume(node)
    assert node.run(case.gone, check=False).rc != 0, f"the replaced data can still be seen ({case.gone})"
    wanted = ["EPHEMERAL.txt", "cache", "checkpoints", "enroot", "hf", "lost+found", "scratch"]
    assert node.run("ls /data").out.split() == wanted


def test_volume_group_with_ebs_is_always_refused(session_guest: Guest) -> None:
    """An EBS volume is in the volume group; no option of the role may touch its data."""
    node = helpers.blank(session_guest)
    prepare.prepare(node, "lvm-with-ebs")
    node.run("echo precious > /mnt/mixed/file; sync")
    disks = helpers.digests(node)
    refusal = helpers.play(node).refusal
    assert "LVM2_member" in refusal and helpers.CONSENT_SENTENCE in refusal
    refusal = helpers.play(node, **CONSENT).refusal
    assert "cannot replace the content of the disks: volume group mixed also uses nvme0n1" in refusal, refusal
    named = helpers.play(node, **CONSENT, nvme_raid0_devices=[node.ebs_volumes()[0]]).refusal
    assert f"nvme_raid0_devices names {node.ebs_volumes()[0]}, which is an EBS volume" in named, named
    assert helpers.digests(node) == disks
    assert node.run("cat /mnt/mixed/file").out == "precious\n"


def test_boot_with_foreign_data_touches_nothing(session_guest: Guest) -> None:
    """With a foreign filesystem on a disk of the volume, the unit reports it, exits with 1 and changes nothing."""
    node = helpers.configured(session_guest)
    node.script(
        'umount /data; mdadm --quiet --stop "$1"; wipefs -q -a "$2"; mkfs.ext4 -q -F -L theirs "$2"',
        helpers.look(node).mounts["/data"]["source"],
        node.instance_store()[0],
    )
    before = helpers.digests(node)
    node.reboot()
    assert helpers.settle(node) == "degraded"
    seen = helpers.look(node)
    assert seen.record and seen.record["state"] in ("foreign", "lost"), seen.record
    assert seen.unit["ExecMainStatus"] == "1" and "/data" not in seen.mounts
    assert "nothing was touched" in seen.journal, seen.journal
    assert helpers.digests(node) == before
    assert node.run("blkid -o value -s LABEL /dev/nvme1n1").out == "theirs\n"
