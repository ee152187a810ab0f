# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data without a signature, and changes by other programs between look and action, on real block devices."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from plugins.plugin_utils import _runtime
from tests.rig.vm.guest import Guest
from tests.vm import helpers
from tests.vm.helpers import CONSENT, HERE

pytestmark = pytest.mark.vm
TOOL = "/root/take.py"
RUNTIME = "/usr/local/lib/mlcluster/mlcluster.pyz"
NO_SUPERBLOCK = """
mkfs.ext4 -q -F -b 4096 "$1"
mkdir -p /mnt/lost
mount "$1" /mnt/lost
echo precious > /mnt/lost/file
umount /mnt/lost
dd if=/dev/zero of="$1" bs=1024 seek=1 count=1 conv=notrunc,fsync
dd if=/dev/urandom of="$2" bs=1M seek=300 count=100 conv=notrunc,fsync
udevadm settle
"""
# A mount that only its own namespace shows.
HIDDEN_MOUNT = """
mkdir /run/theirs
mount --bind /run/theirs /run/theirs
mount --make-private /run/theirs
touch /run/theirs/ns
unshare --mount=/run/theirs/ns mount -o ro,noload "$1" /mnt
"""
# The child keeps the exclusive open of its parent.
HIDDEN_OPEN = """
import os, signal, sys
os.open(sys.argv[1], os.O_RDONLY | os.O_EXCL)
if os.fork():
    os._exit(0)
os.closerange(0, 3)
signal.pause()
"""
LINUX_VOLUME = """
pvcreate -q "$1"
vgcreate -q theirs "$1"
lvcreate -q -y -n data -l 100%FREE theirs
mkfs.ext4 -q /dev/theirs/data
udevadm settle
"""


class Taken(NamedTuple):
    """A shell script that takes the first disk, part of the refusal, and a command that fails if the taker lost it."""

    script: str
    refusal: str
    kept: str


TAKEN = "has been taken by another program{} since the look: nothing was removed"
TAKERS = {
    "filesystem": Taken('mkfs.ext4 -q -F "$1"', "carries an ext4 signature (uuid ", 'e2fsck -fn "$1"'),
    "partition": Taken('echo , | sfdisk -q "$1"', "carries a dos signature", 'test -b "$1p1"'),
    "mount": Taken('mkfs.ext4 -q -F "$1"; mount "$1" /mnt', TAKEN.format(""), "mountpoint -q /mnt"),
    "hidden mount": Taken(
        f'mkfs.ext4 -q -F "$1"; {HIDDEN_MOUNT}',
        TAKEN.format(""),
        "nsenter --mount=/run/theirs/ns mountpoint -q /mnt",
    ),
    "swap": Taken('mkswap -q "$1"; swapon "$1"', TAKEN.format(""), 'grep "^$1 " /proc/swaps'),
    "loop": Taken('losetup /dev/loop5 "$1"', TAKEN.format(" (loop5)"), "losetup /dev/loop5"),
    "array": Taken(
        'mdadm --quiet --create /dev/md9 --run --level=0 --raid-devices=2 "$1" "$2"',
        TAKEN.format(" (md9)"),
        "mdadm --detail /dev/md9",
    ),
    "open": Taken(f"python3 -c '{HIDDEN_OPEN}' \"$1\"", TAKEN.format(""), "pgrep -x python3"),
}


def installed(node: Guest) -> Guest:
    node.run(["mkdir", "-p", RUNTIME.rpartition("/")[0]])
    node.copy_to(Path(_runtime.build()["path"]), RUNTIME)
    node.copy_to(HERE / "guest_take.py", TOOL)
    return node


def test_data_without_signature_is_refused(session_guest: Guest) -> None:
    """Covers an ext4 without its first superblock, and raw data: blkid recognizes neither."""
    node = helpers.blank(session_guest)
    first, second, *_others = node.instance_store()
    node.script(NO_SUPERBLOCK, first, second)
    assert node.run(["wipefs", "--no-act", first, second]).out == ""
    before = helpers.digests(node)
    refusal = helpers.play(node).refusal
    for disk in (first, second):
        assert f"{disk} (" in refusal, refusal
    assert refusal.count("is not proved blank (the byte at offset 0x") == 2, refusal
    assert helpers.CONSENT_SENTENCE in refusal
    refusal = helpers.module(node, "md_array", {"name": "mlcluster"}).refusal
    assert refusal.count("is not proved blank (the byte at offset 0x") == 2, refusal
    assert helpers.digests(node) == before, "a refused run wrote on a disk"
    assert node.run(f"e2fsck -fn -b 32768 -B 4096 {first}", check=False).rc in (0, 4)
    assert helpers.configure(node, **CONSENT).result_of("instance_store")["plan"]["situation"] == "rebuild"
    helpers.expect_volume(node)


def test_mapping_opened_after_look_is_refused_and_kept(session_guest: Guest) -> None:
    """Opens a mapping as cryptsetup does for a container, right before the array is made."""
    node = installed(helpers.blank(session_guest))
    disk = node.instance_store()[1]
    sectors = node.run(["blockdev", "--getsz", disk]).out.strip()
    table = f"0 {sectors} crypt aes-xts-plain64 {'5a' * 64} 0 {disk} 0"
    opened = ["dmsetup", "create", "secret", "--uuid", "CRYPT-LUKS2-0123-secret", "--table", table]
    before = helpers.digests(node)
    done = node.run(["python3", TOOL, "create_array", *opened], check=False)
    assert done.rc == 1, done
    assert f"{disk} has been taken by another program (dm-0) since the look: nothing was removed" in done.err, done.err
    assert node.run(["dmsetup", "ls"]).out.startswith("secret"), "the mapping is gone"
    assert helpers.look(node).arrays == []
    assert helpers.digests(node) == before, "a refused step wrote on a disk"


def test_data_written_after_look_is_refused_and_kept(session_guest: Guest) -> None:
    node = installed(helpers.blank(session_guest))
    disk = node.instance_store()[3]
    written = ["dd", "if=/dev/urandom", f"of={disk}", "bs=1M", "seek=200", "count=100", "conv=fsync"]
    done = node.run(["python3", TOOL, "create_array", *written], check=False)
    assert done.rc == 1, done
    assert f"{disk} was blank at the look, and now the byte at offset 0x" in done.err, done.err
    assert helpers.look(node).arrays == []


@pytest.mark.parametrize("taker", TAKERS)
def test_disk_taken_after_look_is_refused_and_kept(session_guest: Guest, taker: str) -> None:
    case = TAKERS[taker]
    node = installed(helpers.blank(session_guest))
    disks = node.instance_store()[1:3]
    done = node.run(["python3", TOOL, "create_array", "sh", "-euc", case.script, "sh", *disks], check=False)
    assert done.rc == 1, done
    # Whichever of an array's disks is the first in the plan.
    taken = disks if taker == "array" else disks[:1]
    assert any(f"{disk} {case.refusal}" in done.err for disk in taken), done.err
    node.script(case.kept, *disks)
    assert not [line for line in helpers.look(node).arrays if not line.startswith("md9 ")]


def test_disk_open_for_a_moment_delays_run(session_guest: Guest) -> None:
    node = installed(helpers.blank(session_guest))
    done = node.run(["python3", TOOL, "create_array", "hold", node.instance_store()[1]])
    assert done.out == "closed\n", done
    assert helpers.look(node).mounts["/data"]["fstype"] == "ext4"


def test_probes_of_udev_refuse_no_disk(session_guest: Guest) -> None:
    """Repeats the events of a boot for each disk right before the array is made."""
    node = installed(helpers.blank(session_guest))
    events = ["udevadm", "trigger", "--subsystem-match=block", "--action=add"]
    node.run(["python3", TOOL, "create_array", *events])
    assert helpers.look(node).mounts["/data"]["fstype"] == "ext4"


def test_new_array_taken_before_mkfs_is_refused_and_kept(session_guest: Guest) -> None:
    node = installed(helpers.blank(session_guest))
    done = node.run(["python3", TOOL, "make_filesystem", "pvcreate", "-q", "/dev/md/mlcluster"], check=False)
    assert done.rc == 1 and "carries an LVM2_member signature" in done.err, done
    assert "that was not there at the look: nothing was removed" in done.err, done.err
    assert "/dev/md" in node.run(["pvs", "--noheadings", "-o", "pv_name"]).out


def test_volume_open_out_of_sight_is_never_taken_apart(session_guest: Guest) -> None:
    """Both switches are set; only an exclusive open shows that another namespace has mounted the volume."""
    node = helpers.blank(session_guest)
    node.script(LINUX_VOLUME, node.instance_store()[0])
    node.script(HIDDEN_MOUNT, "/dev/theirs/data")
    assert "theirs-data" not in node.run("findmnt --noheadings --output SOURCE").out
    before = helpers.digests(node)
    refusal = helpers.play(node, **CONSENT).refusal
    assert "is opened exclusively by a program that cannot be seen from here" in refusal, refusal
    assert helpers.digests(node) == before, "a refused run wrote on a disk"
    node.run("nsenter --mount=/run/theirs/ns umount /mnt")
    assert helpers.configure(node, **CONSENT).result_of("instance_store")["plan"]["situation"] == "rebuild"
    helpers.expect_volume(node)
