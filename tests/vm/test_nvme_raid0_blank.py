# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data without a signature, and changes by other programs between look and action, on real block devices."""

from __future__ import annotations

from pathlib import Path

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
