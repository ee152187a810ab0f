# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulated contents of disks with their owners, which only the maker knows.

Nothing here uses the engine: a test compares the engine's actions with the contents.
"""

from __future__ import annotations

import dataclasses
import random
import typing as t

from tests.unit.fakes.fake_machine import GIB, Machine, fs_uuid

MIB = 1 << 20
# Contents that both switches may destroy, since they are complete on their own disk.
ALONE = "ext2 ext3 ext4 xfs vfat exfat ntfs swap iso9660 squashfs gpt dos PMBR".split()
# Contents that may be a part of something elsewhere, or may be incomplete.
PARTS = (
    "crypto_LUKS bcache jbd xfs_external_log isw_raid_member ddf_raid_member jmicron_raid_member via_raid_member "
    "silicon_medley_raid_member promise_fasttrack_raid_member drbd stratis f2fs nilfs2 reiserfs jfs ubifs "
    "VMFS_volume_member vdo LVM1_member ceph_bluestore ocfs2 gfs2 hfsplus ufs minix oracleasm erofs swsuspend "
    "BitLocker apfs cramfs romfs udf sun mac atari DM_snapshot_cow cs_fvault2 unheard_of"
).split()


@dataclasses.dataclass(frozen=True)
class Content:
    """put: writes it to a disk. replaceable: whether both switches may destroy it."""

    put: t.Callable[[Machine, str, random.Random], None]
    replaceable: bool


def _signed(kind: str) -> t.Callable[[Machine, str, random.Random], None]:
    def put(machine: Machine, kname: str, rng: random.Random) -> None:
        machine.sign(kname, kind, fs_uuid(rng.random()), "theirs")
        machine.write(kname, [(rng.randrange(1, 50) * GIB, GIB)])

    return put


def _ranges(*ranges: tuple[float, float]) -> t.Callable[[Machine, str, random.Random], None]:
    """Write data to parts of the disk, from and to as fractions of its size."""

    def put(machine: Machine, kname: str, rng: random.Random) -> None:
        size = machine.devices[kname].size
        machine.write(kname, [(int(size * first), int(size * (last - first))) for first, last in ranges])

    return put


def _places(*places: int) -> t.Callable[[Machine, str, random.Random], None]:
    """Write a block at each of these offsets; negative ones count from the end."""

    def put(machine: Machine, kname: str, rng: random.Random) -> None:
        size = machine.devices[kname].size
        machine.write(kname, [(place if place >= 0 else size + place, 512) for place in places])

    return put


def _spread(machine: Machine, kname: str, rng: random.Random) -> None:
    """Write pages of a database: half of every 64 MiB."""
    size = machine.devices[kname].size
    machine.write(kname, [(start, 32 * MIB) for start in range(0, size - 64 * MIB, 64 * MIB)])


def _mounted(machine: Machine, kname: str, rng: random.Random) -> None:
    machine.sign(kname, "ext4", fs_uuid(rng.random()), "theirs")
    machine.mount(kname, f"/mnt/{kname}")


def _system(machine: Machine, kname: str, rng: random.Random) -> None:
    machine.sign(kname, "xfs", fs_uuid(rng.random()))
    machine.mount(kname, "/var/lib")


def _swap(machine: Machine, kname: str, rng: random.Random) -> None:
    machine.sign(kname, "swap", fs_uuid(rng.random()))
    machine.swap_on(f"/dev/{kname}")


def _holder(kind: str, signature: str) -> t.Callable[[Machine, str, random.Random], None]:
    def put(machine: Machine, kname: str, rng: random.Random) -> None:
        if signature:
            machine.sign(kname, signature, fs_uuid(rng.random()))
        number = 200 + len(machine.devices)
        machine.add(f"dm-{number}", kind, parents=[kname], name=f"x{number}", number=f"253:{number}")

    return put


def _loop(machine: Machine, kname: str, rng: random.Random) -> None:
    machine.add(f"loop{len(machine.devices)}", "loop", loop=f"/dev/{kname}")


def _flag(**fields: t.Any) -> t.Callable[[Machine, str, random.Random], None]:
    def put(machine: Machine, kname: str, rng: random.Random) -> None:
        for name, value in fields.items():
            setattr(machine.devices[kname], name, value)

    return put


def _partition(machine: Machine, kname: str, rng: random.Random) -> None:
    machine.sign(kname, "gpt")
    part = machine.part(kname)
    machine.sign(part.kname, "ext4", fs_uuid(rng.random()), "theirs")


def _array(machine: Machine, kname: str, rng: random.Random) -> None:
    number = f"md{len(machine.devices)}"
    machine.array(number, [kname], f"{rng.getrandbits(128):032x}", "there:theirs")
    machine.sign(number, "ext4", fs_uuid(rng.random()), "theirs")


def _stopped_array(machine: Machine, kname: str, rng: random.Random) -> None:
    machine.stopped_array([kname], f"{rng.getrandbits(128):032x}", name="there:theirs")
    machine.write(kname, [(129 * MIB, GIB)])


def _array_over_ebs(machine: Machine, kname: str, rng: random.Random) -> None:
    ebs = machine.ebs(f"nvme{50 + len(machine.devices)}n1", f"vol{rng.random()}")
    machine.array(f"md{len(machine.devices)}", [kname, ebs.kname], f"{rng.getrandbits(128):032x}", "there:wide")


def _group(machine: Machine, kname: str, rng: random.Random) -> None:
    number = 100 + len(machine.devices)
    machine.volume(f"vg{number}", "all", [kname], f"dm-{number}")
    machine.sign(f"dm-{number}", "ext4", fs_uuid(rng.random()), "theirs")


def _group_over_ebs(machine: Machine, kname: str, rng: random.Random) -> None:
    ebs = machine.ebs(f"nvme{50 + len(machine.devices)}n1", f"vol{rng.random()}")
    number = 100 + len(machine.devices)
    machine.volume(f"vg{number}", "all", [kname, ebs.kname], f"dm-{number}")


def _hidden_group(machine: Machine, kname: str, rng: random.Random) -> None:
    machine.sign(kname, "LVM2_member", f"pv-{rng.random()}")
    machine.left_out.add(f"/dev/{kname}")


CONTENTS: dict[str, Content] = {
    **{f"{kind} signature": Content(_signed(kind), True) for kind in ALONE},
    **{f"{kind} signature": Content(_signed(kind), False) for kind in PARTS},
    "raw data, full": Content(_ranges((0, 1)), True),
    "raw data, first half": Content(_ranges((0, 0.5)), True),
    "raw data, last half": Content(_ranges((0.5, 1)), True),
    "raw data, from a fifth to two": Content(_ranges((0.2, 0.4)), True),
    "raw data, the last hundredth": Content(_ranges((0.99, 1)), True),
    "raw data, the first MiB": Content(_ranges((0, 1e-5)), True),
    "raw data, many pages": Content(_spread, True),
    "tar on the raw disk": Content(_ranges((0, 0.07)), True),
    "LUKS without its header": Content(_ranges((0.00017, 1)), True),
    "ext4 without its first superblock": Content(_places(4096, 128 * MIB, 384 * MIB), True),
    "ext4, backups only": Content(_places(*(n * 128 * MIB for n in (1, 3, 5, 7, 9, 25, 27))), True),
    "ext4 of 1 KiB blocks, backups only": Content(_places(*((n * 8192 + 1) * 1024 for n in (1, 3, 5, 7))), True),
    "ext4 of 2 KiB blocks, backups only": Content(_places(*(n * 32 * MIB for n in (1, 3, 5, 7))), True),
    "XFS without its first group": Content(_places(25 * GIB, 50 * GIB, 75 * GIB), True),
    "GPT, second header only": Content(_places(-512), True),
    "GPT, second table only": Content(_places(-33 * 512), True),
    "md 0.90, magic erased": Content(_places(-64 * 1024 + 100), True),
    "md 1.0, magic erased": Content(_places(-8192 + 40), True),
    "md 1.2, magic erased": Content(_places(4096 + 40, 129 * MIB), True),
    "LVM, label erased": Content(_places(4096, MIB), True),
    "ZFS, last labels": Content(_places(-512 * 1024 + 16384, -256 * 1024 + 16384), True),
    "firmware array, last sector": Content(_places(-1024), True),
    "partition without its table": Content(_places(MIB + 1024, MIB + 128 * MIB), True),
    "mounted": Content(_mounted, True),
    "system": Content(_system, False),
    "swap in use": Content(_swap, True),
    "LUKS, open": Content(_holder("crypt", "crypto_LUKS"), False),
    "dm-crypt without a header": Content(_holder("crypt", ""), False),
    "multipath": Content(_holder("mpath", ""), False),
    "loop device": Content(_loop, False),
    "opened by a program": Content(_flag(held=True), False),
    "read-only": Content(_flag(read_only=True), False),
    "read errors": Content(_flag(bad=True), False),
    "no signatures to be read": Content(_flag(readable=False), False),
    "no device node": Content(_flag(openable=False), False),
    "partition": Content(_partition, True),
    "array": Content(_array, True),
    "stopped array": Content(_stopped_array, True),
    "array over EBS": Content(_array_over_ebs, False),
    "volume group": Content(_group, True),
    "volume group over EBS": Content(_group_over_ebs, False),
    "volume group that pvs hides": Content(_hidden_group, True),
    "one zfs_member of many": Content(_signed("zfs_member"), False),
    "btrfs": Content(_signed("btrfs"), False),
}
