# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import blank
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import devices as block

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_device import FakeDevice

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
# Those of p4d, g6, g5 and i3en, in decimal as EC2 has them, and the disks of the virtual machine.
SIZES = [GIB, 450 * 10**9, 940 * 10**9, 1900 * 10**9, 3800 * 10**9, 7500 * 10**9]
INSTANCE = "i-0123456789abcdef0"
CLOUD_INIT = f"/var/lib/cloud/instances/{INSTANCE}"
BOOT = 1767322800


def covered(size, offset, length=1, seed="s"):
    """Return whether a sample reads any of these bytes."""
    return any(start < offset + length and offset < start + read for start, read in blank.places(size, seed))


def proof_of(host, number=1):
    disks = {disk["kname"]: disk for disk in block.look(host)["disks"]}
    return disks[f"nvme{number}n1"]["blank"]


@pytest.mark.parametrize("size", [*SIZES, 4096, MIB, 3 * MIB, 64 * TIB])
def test_samples_are_bounded_and_inside_disk(size):
    places = blank.places(size, "seed")
    assert len(places) <= 64
    assert sum(length for _offset, length in places) <= 2 * MIB
    assert all(offset >= 0 and length > 0 and offset + length <= size for offset, length in places)
    assert places == sorted(set(places))


@pytest.mark.parametrize(("size", "cost"), [(GIB, (52, 1421312)), (7500 * 10**9, (56, 1462272))])
def test_cost_of_samples_is_known(size, cost):
    places = blank.places(size, "seed")
    assert (len(places), sum(length for _offset, length in places)) == cost


def test_cost_of_first_run_on_eight_disks_is_known(monkeypatch):
    """As in docs/performance.md: the role and the module look, then the disks and the array are proved again."""
    host, costs, prove = scene.node(8), [], blank.prove
    for kname in scene.store_names(host):
        host.machine.devices[kname].size = 3800 * 10**9

    def counted(*args):
        found = prove(*args)
        costs.append((found["reads"], found["bytes"]))
        return found

    monkeypatch.setattr(blank, "prove", counted)
    scene.plan_of(host)
    assert [sum(column) for column in zip(*costs)] == [448, 11698176]
    scene.run(host)
    assert len(costs) == 8 + 8 + 8 + 1
    assert [sum(column) for column in zip(*costs)] == [1400, 36556800]
    costs.clear()
    scene.run(host)
    scene.run(host, True)
    assert costs == []


@pytest.mark.parametrize("start", [1, 2, 4, 8, 16, 64, 129])
def test_usual_starts_of_content_are_read(start):
    assert covered(1900 * 10**9, start * MIB)
    assert not covered(1900 * 10**9, start * MIB - MIB // 2)


SUPERBLOCKS = {
    "partition table": lambda size: 0,
    "GPT header": lambda size: 512,
    "ext": lambda size: 1024,
    "LVM label": lambda size: 512,
    "md 1.2": lambda size: 4096,
    "btrfs": lambda size: 64 * KIB,
    "ZFS label 1": lambda size: 256 * KIB - 1,
    "ZFS label 2": lambda size: size // (256 * KIB) * 256 * KIB - 512 * KIB + 16 * KIB,
    "ZFS label 3": lambda size: size // (256 * KIB) * 256 * KIB - 256 * KIB + 16 * KIB,
    "GPT second header": lambda size: size - 512,
    "GPT second table": lambda size: size - 33 * 512,
    "md 0.90": lambda size: size // (64 * KIB) * 64 * KIB - 64 * KIB,
    "md 1.0": lambda size: (size // 512 - 16) // 8 * 8 * 512,
    "imsm": lambda size: size - 1024,
    "second partition start": lambda size: MIB,
    "XFS group 1": lambda size: -(-(size // 4096) // 4) * 4096,
    "XFS group 2": lambda size: -(-(size // 4096) // 4) * 4096 * 2,
    "XFS group 3": lambda size: -(-(size // 4096) // 4) * 4096 * 3,
    "array content at 129 MiB": lambda size: 264192 * 512,
    **{f"ext 4 KiB group {group}": lambda size, group=group: group * 32768 * 4096 for group in (1, 3, 5, 7)},
    **{f"ext 2 KiB group {group}": lambda size, group=group: group * 16384 * 2048 for group in (1, 3)},
    **{f"ext 1 KiB group {group}": lambda size, group=group: (group * 8192 + 1) * 1024 for group in (1, 3, 5)},
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SUPERBLOCKS)
def test_samples_cover_every_superblock(name, size):
    assert covered(size, SUPERBLOCKS[name](size), 512), SUPERBLOCKS[name](size)


@pytest.mark.parametrize("size", SIZES)
def test_samples_begin_at_superblocks_of_small_blocks(size):
    places = blank.places(size, "s")
    assert {((group * 8192 + 1) * KIB, 4 * KIB) for group in (1, 3, 5)} <= set(places)
    assert (size // (256 * KIB) * 256 * KIB - 496 * KIB, 4 * KIB) in places


@pytest.mark.parametrize("size", SIZES)
def test_each_thirtieth_of_disk_has_its_sample(size):
    spread = [offset for offset, length in blank.places(size, "s") if length == 16 * KIB]
    step = size // 30
    assert len(spread) == 30
    assert all(part * step - 4 * KIB < offset < (part + 1) * step for part, offset in enumerate(spread))


def test_samples_cover_ninth_group_of_ext():
    assert covered(1900 * 10**9, 9 * 32768 * 4096, 512)


def test_samples_cover_groups_of_large_xfs():
    # Beyond 4 TiB mkfs.xfs takes groups of 1 TiB less one block.
    assert covered(7500 * 10**9, TIB - 4096, 512)
    assert covered(7500 * 10**9, 2 * (TIB - 4096), 512)
    assert covered(7500 * 10**9, 3 * (TIB - 4096), 512)


@pytest.mark.parametrize("size", SIZES)
def test_samples_are_spread_over_whole_disk_by_seed(size):
    first, second = set(blank.places(size, "one")), set(blank.places(size, "two"))
    assert blank.places(size, "one") == blank.places(size, "one")
    assert len(first - second) > 20
    ends = sorted(offset for offset, _length in first)
    # No stretch longer than two of the thirty parts is left unread.
    assert max(b - a for a, b in zip(ends, [*ends[1:], size])) <= 2 * (size // 30) + MIB


def test_zero_disk_is_blank_by_its_samples():
    assert proof_of(scene.node(1)) == {
        "proof": "zeros",
        "offset": None,
        "reads": len(blank.places(100 * GIB, "s")),
        "bytes": sum(length for _offset, length in blank.places(100 * GIB, "s")),
        "written": 0,
    }


def test_first_byte_that_is_not_zero_is_named():
    host = scene.node(1)
    host.machine.write("nvme1n1", [(5 * 128 * MIB + 100, 8)])
    proof = proof_of(host)
    assert (proof["proof"], proof["offset"]) == (None, 5 * 128 * MIB + 100)


def dirty(host):
    """Add content that the kernel has not written since boot, as trimmed blocks may have on some types."""
    for device in host.machine.devices.values():
        device.content = [(0, device.size)]
    return host


def launched(host, born=BOOT + 5):
    """Let cloud-init have made the directory of this instance, and the disks count no write since its start."""
    for device in host.machine.devices.values():
        device.counted = 0
    host.machine.files["/sys/class/dmi/id/board_asset_tag"] = f"{INSTANCE}\n"
    host.machine.births[CLOUD_INIT] = born
    return host


def test_counter_of_older_kernel_has_eleven_fields():
    host = launched(dirty(scene.node(1)))
    real = host.machine.sysfs
    host.machine.sysfs = lambda kname, end: "1 0 8 0 0 0 0 0 0 0 0" if end == "stat" else real(kname, end)
    assert proof_of(host)["proof"] == "never_written"


@pytest.mark.parametrize("text", ["", "1 2 3", "1 0 8 0 0 0 0 0 0 0", "a b c d e f g h i j k", " ".join(["0"] * 17)])
def test_damaged_counter_proves_nothing(text):
    host = launched(dirty(scene.node(1)))
    real = host.machine.sysfs
    host.machine.sysfs = lambda kname, end: text if end == "stat" else real(kname, end)
    assert proof_of(host)["proof"] is None


@pytest.mark.parametrize("text", ["0", "", None])
def test_counter_that_was_turned_off_later_proves_nothing(text):
    host = launched(dirty(scene.node(1)))
    real = host.machine.sysfs
    host.machine.sysfs = lambda kname, end: text if end == "queue/iostats" else real(kname, end)
    assert proof_of(host)["proof"] is None


def test_with_superblock_left_out_only_zeros_prove():
    host = launched(scene.node(1))
    disk = {"kname": "nvme1n1", "serial": "AWS0001"}
    superblock = FakeDevice(100 * GIB, [(4096, 8192)])
    superblock.logs = host.machine.devices["nvme1n1"].logs
    assert blank.prove(host, superblock, disk, "s")["proof"] == "never_written"
    assert blank.prove(host, superblock, None, "s")["proof"] is None
    assert blank.prove(host, superblock, None, "s", blank.SUPERBLOCK_END)["proof"] == "zeros"
    data = FakeDevice(100 * GIB, [(4096, 8192), (129 * MIB, 1)])
    assert blank.prove(host, data, None, "s", blank.SUPERBLOCK_END)["proof"] is None
    assert min(offset for offset, _length in data.reads) >= MIB


def test_disk_of_no_samples_is_not_blank():
    assert blank.prove(scene.node(1), FakeDevice(4096), {"kname": "x", "serial": "y"}, "s", MIB)["proof"] is None


def test_disk_of_size_0_is_not_blank():
    assert blank.places(0, "s") == []
    assert blank.prove(scene.node(1), FakeDevice(0), None, "s")["proof"] is None


def test_unreadable_disk_proves_nothing():
    host = launched(scene.node(1))
    host.machine.devices["nvme1n1"].bad = True
    assert proof_of(host) is None
    assert "cannot be read for signatures, so nothing proves it blank" in scene.refusal(host)


def test_disk_with_signature_is_not_read():
    host = scene.converged(4)
    assert [disk["blank"] for disk in block.look(host)["disks"]] == [None] * 5


REFUSED = (
    "/dev/nvme1n1 (AWS0001) is not proved blank (the byte at offset 0x800000 is not zero, and nothing proves that the "
    "disk was never written since the instance started): the content of the disks was not made by this role, so "
    "nothing was touched; to destroy it and build again, set nvme_raid0_existing: replace together with "
    "nvme_raid0_safe_mode: false"
)


@pytest.mark.parametrize("at_boot", [False, True])
@pytest.mark.parametrize("layout", ["raid0", "per_disk"])
def test_data_without_signature_is_refused(at_boot, layout):
    host = scene.node(2)
    host.machine.write("nvme1n1", [(8 * MIB, 4096)])
    assert scene.refusal(host, at_boot, layout=layout) == REFUSED
    assert scene.plan_of(host, **scene.CONSENT, layout=layout).situation == "rebuild"


def written(host, sectors):
    for device in host.machine.devices.values():
        device.written = sectors
    return host


@pytest.mark.parametrize(("microseconds", "sectors"), [(120_000_000, 8), (120_000_001, None)])
def test_counters_of_disk_that_appears_late_are_not_taken(microseconds, sectors):
    host = written(scene.node(1), 8)
    host.machine.udev = lambda number: f"I:{microseconds}\n"
    assert blank.written_sectors(host, "nvme1n1") == sectors


def test_zeros_prove_nothing_after_large_writes():
    host = written(scene.node(2), blank.WRITTEN_LIMIT + 1)
    text = scene.refusal(host)
    assert "sampled reads are zero, but 32769 sectors were written to it since the boot, or since the start" in text
    assert scene.plan_of(host, **scene.CONSENT).situation == "rebuild"


def counted(host, sectors):
    """Let the disks count as many sectors since the start of the instance, and the kernel none since this boot."""
    for device in host.machine.devices.values():
        device.written, device.counted = 0, sectors // 8
    return host


def test_zeros_prove_nothing_after_large_writes_of_earlier_boots():
    """On a later boot the kernel counts from 0 again, and the data lie between the samples."""
    host = counted(scene.node(2), blank.WRITTEN_LIMIT + 8)
    assert proof_of(host)["written"] == 32776
    assert "is not proved blank (sampled reads are zero, but 32776 sectors were written" in scene.refusal(host)
    assert scene.plan_of(host, **scene.CONSENT).situation == "rebuild"
    assert scene.plan_of(counted(scene.node(2), blank.WRITTEN_LIMIT)).situation == "fresh"


@pytest.mark.parametrize("content", ["zeros", "trimmed"])
def test_later_boot_counts_zeros_and_no_lack_of_writes(content):
    """Trimmed blocks that read as anything prove nothing then; the kernel's counter of writes is 0 after a reboot."""
    host = scene.node(2)
    host = counted(dirty(host) if content == "trimmed" else host, 8)
    host.machine.files["/sys/class/dmi/id/board_asset_tag"] = f"{INSTANCE}\n"
    host.machine.births[CLOUD_INIT] = BOOT - 86400
    assert proof_of(host)["proof"] == ("zeros" if content == "zeros" else None)
    if content == "zeros":
        assert scene.plan_of(host).situation == "fresh"
    else:
        assert "is not proved blank (the byte at offset 0x0 is not zero" in scene.refusal(host)


def test_erased_signatures_leave_disk_blank():
    assert scene.plan_of(written(scene.node(2), blank.WRITTEN_LIMIT)).situation == "fresh"


def test_writes_of_interrupted_run_are_accepted():
    host = scene.node(2)
    host.killed_before = "mkfs.ext4 .* /dev/nvme2n1"
    with pytest.raises(KeyboardInterrupt):
        scene.run(host, layout="per_disk")
    host.killed_before = ""
    written(host, blank.WRITTEN_LIMIT + 1)
    assert scene.plan_of(host, layout="per_disk").situation == "half_finished"
