# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that appear late, that have hidden holders, or that belong to data on other devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins.plugin_utils import _runtime
from tests.rig.vm import prepare
from tests.rig.vm.guest import Guest
from tests.vm import helpers
from tests.vm.helpers import CONSENT, HERE

pytestmark = pytest.mark.vm
RUNTIME = "/usr/local/lib/mlcluster/mlcluster.pyz"
LATE_DISK = """
umount /data
mdadm --quiet --stop --scan
name=$(basename "$1")
controller=/sys/class/nvme/${name%n*}
back="transport=loop,nr_io_queues=1,nqn=$(cat "$controller/subsysnqn")"
back="$back,hostid=$(cat "$controller/hostid"),hostnqn=$(cat "$controller/hostnqn")"
echo 1 > "$controller/delete_controller"
udevadm settle
test ! -e "$1"
nohup sh -c 'sleep 5; printf %s "$1" > /dev/nvme-fabrics' sh "$back" < /dev/null > /dev/null 2>&1 &
"""
# Made by the kernel's interface: mdadm stops arrays that it cannot run, and udev's rules assemble members.
HALVES = """
umount /data
mdadm --quiet --stop --scan
half() {
    echo "$1" > /sys/module/md_mod/parameters/new_array
    echo 1.2 > "/sys/block/$1/md/metadata_version"
    for disk in "$2" "$3"; do cat "/sys/class/block/$(basename "$disk")/dev" > "/sys/block/$1/md/new_dev"; done
}
half md50 "$1" "$2"
half md51 "$3" "$4"
udevadm settle
"""
PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
from mlcluster._node.system.host import Host
with Host().opened_device(sys.argv[2]) as reader:
    effects = reader.nvme_log(5, 4096)
    # Four bytes for each command; command 2 is Get Log Page, and the lowest bit means that it is supported.
    print(len(effects or b""), effects and effects[8] & 1, reader.nvme_log(0xD0, 512))
"""


def installed(node: Guest) -> Guest:
    node.run(["mkdir", "-p", RUNTIME.rpartition("/")[0]])
    node.copy_to(Path(_runtime.build()["path"]), RUNTIME)
    return node


def test_late_device_node_of_array_is_awaited(session_guest: Guest) -> None:
    node = installed(helpers.blank(session_guest))
    node.copy_to(HERE / "guest_late.py", "/root/late.py")
    done = node.run(["python3", "/root/late.py", "2"]).out
    assert "create_array" in done and "make_filesystem" in done, done
    seen = helpers.look(node)
    assert seen.mounts["/data"]["fstype"] == "ext4" and seen.intent is None


def test_boot_waits_for_disk_that_appears_late(session_guest: Guest) -> None:
    node = helpers.configured(session_guest)
    node.script(LATE_DISK, node.instance_store()[2])
    node.run(f"systemctl restart {helpers.UNIT}", timeout=120)
    helpers.expect_volume(node)
    assert node.run(f"cat {helpers.KEPT}").out == "kept\n"


def test_two_inactive_halves_become_one_array_again(session_guest: Guest) -> None:
    """The members are in two inactive arrays, as after a late appearance of half of them; the boot unit runs once."""
    node = helpers.configured(session_guest)
    node.script(HALVES, *node.instance_store())
    halves = [line for line in helpers.look(node).arrays if "inactive" in line]
    assert len(halves) == 2, helpers.look(node).mdstat
    node.run(f"systemctl restart {helpers.UNIT}", timeout=120)
    helpers.expect_volume(node)
    assert node.run(f"cat {helpers.KEPT}").out == "kept\n"


def test_volume_hidden_by_devices_file_is_adopted(session_guest: Guest) -> None:
    """The volume of the image is adopted although LVM's devices file hides its disks."""
    node = helpers.blank(session_guest)
    prepare.prepare(node, "parallelcluster")
    node.run("echo theirs > /scratch/theirs; mkdir -p /etc/lvm/devices")
    node.run("printf 'devices {\\n\\tuse_devicesfile = 1\\n}\\n' > /etc/lvm/lvmlocal.conf")
    node.run("printf 'VERSION=1.1.1\\n' > /etc/lvm/devices/system.devices")
    shown = node.run(["pvs", "--noheadings"], check=False)
    assert "nvme" not in shown.out, f"the devices file hides nothing: {shown}"
    run = helpers.configure(node)
    assert run.result_of("instance_store")["plan"]["situation"] == "adopted"
    seen = helpers.look(node)
    assert seen.mounts["/data"]["source"] == seen.mounts["/scratch"]["source"]
    assert node.run("cat /data/theirs").out == "theirs\n"


def test_journal_of_filesystem_on_ebs_is_always_refused(session_guest: Guest) -> None:
    """An ext4 on EBS has its journal on a local disk: wiping the disk would lose data on EBS."""
    node = helpers.blank(session_guest)
    journal, volume = node.instance_store()[0], node.ebs_volumes()[0]
    node.run(f"mke2fs -q -F -O journal_dev {journal} && mkfs.ext4 -q -F -J device={journal} {volume}")
    node.run("udevadm settle")
    before = helpers.digests(node)
    refusal = helpers.play(node).refusal
    assert f"{journal} (" in refusal and "carries a jbd signature" in refusal, refusal
    refusal = helpers.play(node, **CONSENT).refusal
    assert "which may belong to something on other devices" in refusal, refusal
    assert helpers.digests(node) == before, "a refused run wrote on a disk"
    assert node.run(f"e2fsck -fn {volume}", check=False).rc == 0


def test_disk_held_by_loop_device_is_refused(session_guest: Guest) -> None:
    node = helpers.blank(session_guest)
    disk = node.instance_store()[1]
    numbers = node.run(["stat", "--format=0x%t 0x%T", disk]).out.split()
    node.run(["mknod", "/srv/planted", "b", *(str(int(number, 16)) for number in numbers)])
    loop = node.run("losetup --find --show /srv/planted").out.strip()
    refusal = helpers.play(node).refusal
    assert f"{disk} (" in refusal and f"is held by {loop.rpartition('/')[2]}" in refusal, refusal
    assert helpers.look(node).arrays == []


def test_log_pages_are_read_by_kernel_interface(session_guest: Guest) -> None:
    """Every NVMe disk has the log of supported commands; only EC2's disks have the log of statistics."""
    node = installed(helpers.blank(session_guest))
    output = node.run(["python3", "-", RUNTIME, node.instance_store()[0]], stdin=PROBE).out
    assert output == "4096 1 None\n"
