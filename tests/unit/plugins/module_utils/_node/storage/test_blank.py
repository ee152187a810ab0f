# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import blank
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import devices as block
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.first_boot import SEEN_PATH, note_disks

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_device import FakeDevice

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
# Those of p4d, g6, g5 and i3en, in decimal as EC2 has them, and the disks of the virtual machine.
SIZES = [GIB, 450 * 10**9, 940 * 10**9, 1900 * 10**9, 3800 * 10**9, 7500 * 10**9]
INSTANCE = "i-0123456789abcdef0"
CLOUD_INIT = f"/var/lib/cloud/instances/{INSTANCE}"
BOOT = 1767322800


def covered(size, offset, length=1, seed="s"):
    """Whether a sample reads any of these bytes."""
    return any(start < offset + length and offset < start + read for start, read in blank.places(size, seed))


def proof_of(host, number=1):
    disks = {disk["kname"]: disk for disk in block.gather(host)["disks"]}
    return disks[f"nvme{number}n1"]["blank"]


@pytest.mark.parametrize("size", [*SIZES, 4096, MIB, 3 * MIB, 64 * TIB])
def test_samples_are_bounded_and_inside_the_disk(size):
    places = blank.places(size, "seed")
    assert len(places) <= blank.MAX_READS == 64
    assert sum(length for _offset, length in places) <= blank.MAX_BYTES == 2 * MIB
    assert all(offset >= 0 and length > 0 and offset + length <= size for offset, length in places)
    assert places == sorted(set(places))


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


def test_samples_cover_the_groups_of_a_large_xfs():
    # Beyond 4 TiB mkfs.xfs takes groups of 1 TiB less one block.
    assert covered(7500 * 10**9, TIB - 4096, 512)
    assert covered(7500 * 10**9, 2 * (TIB - 4096), 512)


@pytest.mark.parametrize("size", SIZES)
def test_samples_are_spread_over_the_whole_disk_by_the_seed(size):
    first, second = set(blank.places(size, "one")), set(blank.places(size, "two"))
    assert blank.places(size, "one") == blank.places(size, "one")
    assert len(first - second) > 20
    ends = sorted(offset for offset, _length in first)
    # No stretch longer than two of the thirty parts is left unread.
    assert max(b - a for a, b in zip(ends, [*ends[1:], size])) <= 2 * (size // 30) + MIB


def test_a_zero_disk_is_blank_by_its_samples():
    assert proof_of(scene.node(1)) == {
        "proof": "zeros",
        "offset": None,
        "reads": len(blank.places(100 * GIB, "s")),
        "bytes": sum(length for _offset, length in blank.places(100 * GIB, "s")),
    }


def test_the_first_byte_that_is_not_zero_is_named():
    host = scene.node(1)
    host.machine.write("nvme1n1", [(5 * 128 * MIB + 100, 8)])
    proof = proof_of(host)
    assert (proof["proof"], proof["offset"]) == (None, 5 * 128 * MIB + 100)


def dirty(host):
    """Content that the kernel has not written since the boot, as trimmed blocks may have on some type."""
    for device in host.machine.devices.values():
        device.content = [(0, device.size)]
    return host


def launched(host, born=BOOT + 5):
    """cloud-init has made the directory of this instance."""
    host.machine.files["/sys/class/dmi/id/board_asset_tag"] = f"{INSTANCE}\n"
    host.machine.births[CLOUD_INIT] = born
    return host


def test_a_disk_is_blank_that_nobody_wrote_since_the_launch():
    assert proof_of(launched(dirty(scene.node(1)))) == {
        "proof": "never_written",
        "offset": 0,
        "reads": 1,
        "bytes": 256 * KIB,
    }


def seen_before(host):
    """A reboot after "cloud-init clean": its directory is of this boot, and the disk is not."""
    note_disks(host, ["AWS0001"], by_boot_unit=False)
    host.machine.reboot()


def change(**fields):
    def do(host):
        for key, value in fields.items():
            setattr(host.machine.devices["nvme1n1"], key, value)

    return do


def files(path, text):
    return lambda host: host.machine.files.update({path: text})


NOT_FIRST = {
    "a sector was written": change(written=1),
    "nothing is counted": change(iostats=False),
    "the directory is of an earlier boot": lambda host: launched(host, BOOT - 1),
    "the directory is of a boot with a wrong clock": lambda host: launched(host, BOOT + 86400),
    "the disk was taken from the kernel and given back": change(appeared=3600),
    "the disk was seen in an earlier boot": seen_before,
    "the record of disks is damaged": files(SEEN_PATH, "{"),
    "the filesystem keeps no time of birth": lambda host: launched(host, 0),
    "no directory": lambda host: host.machine.births.clear(),
    "another instance's directory": files("/sys/class/dmi/id/board_asset_tag", "i-0fedcba9876543210\n"),
    "no instance id": files("/sys/class/dmi/id/board_asset_tag", "Not Specified\n"),
    "an odd instance id": files("/sys/class/dmi/id/board_asset_tag", "i-../../x\n"),
    "no time of the boot": files("/proc/stat", "cpu 1 2\n"),
}


@pytest.mark.parametrize("name", NOT_FIRST)
def test_nothing_proves_that_the_disk_was_never_written(name):
    host = launched(dirty(scene.node(1)))
    NOT_FIRST[name](host)
    assert proof_of(host)["proof"] is None


@pytest.mark.parametrize("text", ["", "1 2 3", "a b c d e f g h i j k", " ".join(["0"] * 17)])
def test_a_damaged_counter_proves_nothing(text):
    host = launched(dirty(scene.node(1)))
    real = host.machine.sysfs
    host.machine.sysfs = lambda kname, end: text if end == "stat" else real(kname, end)
    assert proof_of(host)["proof"] is None


@pytest.mark.parametrize("text", ["0", "", None])
def test_a_counter_that_was_turned_off_later_proves_nothing(text):
    host = launched(dirty(scene.node(1)))
    real = host.machine.sysfs
    host.machine.sysfs = lambda kname, end: text if end == "queue/iostats" else real(kname, end)
    assert proof_of(host)["proof"] is None


def stopped_and_started(host):
    """The boot unit saw the disks of two boots, and they came back under other serial numbers."""
    note_disks(host, ["AWS0001"], by_boot_unit=True)
    host.machine.stop_start()
    note_disks(host, ["AWS0001b"], by_boot_unit=True)
    return dirty(host)


def test_a_disk_is_blank_that_no_earlier_boot_saw():
    assert proof_of(stopped_and_started(scene.node(1)))["proof"] == "never_written"


def test_a_disk_of_an_earlier_boot_may_have_been_written():
    host = scene.node(1)
    note_disks(host, ["AWS0001"], by_boot_unit=True)
    host.machine.reboot()
    note_disks(host, ["AWS0001"], by_boot_unit=True)
    assert proof_of(dirty(host))["proof"] is None


SEEN = {
    "missing": lambda host: host.machine.files.pop(SEEN_PATH),
    "damaged": files(SEEN_PATH, "{"),
    "no mapping": files(SEEN_PATH, '{"schema": "mlcluster.disks_seen/1", "unit": null, "first_boot": []}'),
    "odd boots": files(SEEN_PATH, '{"schema": "mlcluster.disks_seen/1", "first_boot": {"x": null}}'),
    "another schema": lambda host: files(SEEN_PATH, host.machine.files[SEEN_PATH].replace("seen/1", "seen/2"))(host),
    "not of this boot": lambda host: host.machine.reboot(),
}


@pytest.mark.parametrize("name", SEEN)
def test_a_record_of_disks_that_is_not_whole_proves_nothing(name):
    host = stopped_and_started(scene.node(1))
    SEEN[name](host)
    assert proof_of(host)["proof"] is None


def boots_of(host, *boots):
    """Boots after the first, each with the serial numbers that the boot unit saw in it; None: it did not run."""
    for number, serials in enumerate(boots):
        if number:
            host.machine.reboot()
        if serials is not None:
            note_disks(host, serials, by_boot_unit=True)
    return dirty(host)


UNSEEN = {
    "the unit did not run in the boot before": [["AWS0000"], None, ["AWS0001"]],
    "the disk appeared late in the boot before": [["AWS0000"], ["AWS0002"], ["AWS0001", "AWS0002"]],
    "the only disk appeared late in the boot before": [["AWS0000"], [], ["AWS0001"]],
    "the unit has not seen the disk": [["AWS0000"], ["AWS0002"]],
}


@pytest.mark.parametrize("name", UNSEEN)
def test_a_disk_that_may_have_been_used_unseen_is_not_new(name):
    assert proof_of(boots_of(scene.node(1), *UNSEEN[name]))["proof"] is None


@pytest.mark.parametrize("boots", [[], ["boot1again"]])
def test_a_journal_without_the_boot_before_proves_nothing(boots):
    host = stopped_and_started(scene.node(1))
    host.machine.boots = boots
    assert proof_of(host)["proof"] is None


def test_a_journal_that_lacks_this_boot_proves_nothing():
    host = stopped_and_started(scene.node(1))
    host.machine.list_boots = lambda: " -1 boot1 Fri\n  0 boot0 Fri\n"
    assert proof_of(host)["proof"] is None


@pytest.mark.parametrize("unit", [[], {}, {"boot_id": "", "serials": []}, {"boot_id": "b", "serials": "AWS0001"}])
@pytest.mark.parametrize("key", ["unit", "earlier_unit"])
def test_an_unsound_boot_in_the_record_proves_nothing(key, unit):
    host = stopped_and_started(launched(scene.node(1)))
    document = {**json.loads(host.machine.files[SEEN_PATH]), key: unit}
    host.machine.files[SEEN_PATH] = json.dumps(document)
    assert proof_of(host)["proof"] is None


def test_a_node_without_a_journal_proves_nothing():
    host = stopped_and_started(scene.node(1))
    host.failures["journalctl"] = (1, "No journal files were found.")
    assert proof_of(host)["proof"] is None


def test_a_boot_unit_that_runs_again_keeps_the_boot_before():
    host = stopped_and_started(scene.node(1))
    note_disks(host, ["AWS0001b"], by_boot_unit=True)
    assert proof_of(host)["proof"] == "never_written"


def test_a_record_without_an_earlier_boot_proves_nothing():
    host = scene.node(1)
    note_disks(host, ["AWS0001"], by_boot_unit=True)
    assert proof_of(dirty(host))["proof"] is None
    note_disks(host, ["AWS0002"], by_boot_unit=True)
    assert proof_of(dirty(host))["proof"] is None


def test_a_run_that_is_no_boot_unit_does_not_vouch_for_the_boot():
    host = scene.node(1)
    note_disks(host, ["AWS0001"], by_boot_unit=True)
    host.machine.stop_start()
    note_disks(host, ["AWS0001b"], by_boot_unit=False)
    assert proof_of(dirty(host))["proof"] is None


def test_with_a_superblock_left_out_only_zeros_prove():
    host = launched(scene.node(1))
    disk = {"kname": "nvme1n1", "serial": "AWS0001"}
    superblock = FakeDevice(100 * GIB, [(4096, 8192)])
    assert blank.prove(host, superblock, disk, "s")["proof"] == "never_written"
    assert blank.prove(host, superblock, None, "s")["proof"] is None
    assert blank.prove(host, superblock, None, "s", blank.SUPERBLOCK_END)["proof"] == "zeros"
    data = FakeDevice(100 * GIB, [(4096, 8192), (129 * MIB, 1)])
    assert blank.prove(host, data, None, "s", blank.SUPERBLOCK_END)["proof"] is None
    assert min(offset for offset, _length in data.reads) >= MIB


def test_a_disk_of_no_samples_is_not_blank():
    assert blank.prove(scene.node(1), FakeDevice(4096), {"kname": "x", "serial": "y"}, "s", MIB)["proof"] is None


def test_an_unreadable_disk_proves_nothing():
    host = launched(scene.node(1))
    host.machine.devices["nvme1n1"].bad = True
    assert proof_of(host) is None
    assert "cannot be read for signatures, so nothing proves it blank" in scene.refusal(host)


def test_a_disk_with_a_signature_is_not_read():
    host = scene.converged(4)
    assert [disk["blank"] for disk in block.gather(host)["disks"]] == [None] * 5


REFUSED = (
    "/dev/nvme1n1 (AWS0001) is not proved blank (the byte at offset 0x800000 is not zero, and nothing proves that the "
    "disk was never written since the instance started): what is on the disks was not made by this role, so nothing "
    "was touched; to destroy it and build anew, set nvme_raid0_existing: replace together with "
    "nvme_raid0_safe_mode: false"
)


@pytest.mark.parametrize("at_boot", [False, True])
@pytest.mark.parametrize("layout", ["raid0", "per_disk"])
def test_data_without_a_signature_is_refused(at_boot, layout):
    host = scene.node(2)
    host.machine.write("nvme1n1", [(8 * MIB, 4096)])
    assert scene.refusal(host, at_boot, layout=layout) == REFUSED
    assert scene.plan_of(host, **scene.CONSENT, layout=layout).situation == "rebuild"
