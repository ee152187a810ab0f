# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Proofs of the first boot since the start of the instance."""

from __future__ import annotations

import json
import struct

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.first_boot import SEEN_PATH, note_disks

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.plugins.module_utils._node.storage.test_blank import BOOT, KIB, dirty, launched, proof_of

VOLUMES = ["vol0root"]


def test_disk_unwritten_since_launch_is_blank():
    assert proof_of(launched(dirty(scene.node(1)))) == {
        "proof": "never_written",
        "offset": 0,
        "reads": 1,
        "bytes": 256 * KIB,
        "written": 0,
    }


def seen_before(host):
    """Simulate a reboot after "cloud-init clean": its directory is of this boot, and the disk is not."""
    note_disks(host, ["AWS0001"], VOLUMES, by_boot_unit=False)
    host.machine.reboot()


def change(**fields):
    def do(host):
        for key, value in fields.items():
            setattr(host.machine.devices["nvme1n1"], key, value)

    return do


def files(path, text):
    return lambda host: host.machine.files.update({path: text})


def odd_statistics(host, layout, *fields):
    device = host.machine.devices["nvme1n1"]
    device.__class__ = type("Odd", (device.__class__,), {"logs": {0xD0: struct.pack(layout, *fields)}})


NOT_FIRST = {
    "a sector was written": change(written=1),
    "the root volume was replaced": change(counted=1),
    "the disk keeps no statistics": change(counted=None),
    "the statistics are another's": lambda host: odd_statistics(host, "<II4Q", 0x3C23B510, 0, 7, 0, 0, 0),
    "only a write was counted": lambda host: odd_statistics(host, "<II4Q", 0xEC2C0D7E, 0, 7, 1, 28672, 0),
    "only bytes were counted": lambda host: odd_statistics(host, "<II4Q", 0xEC2C0D7E, 0, 7, 0, 28672, 512),
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
def test_nothing_proves_that_disk_was_never_written(name):
    host = launched(dirty(scene.node(1)))
    NOT_FIRST[name](host)
    assert proof_of(host)["proof"] is None


@pytest.mark.parametrize(("seconds", "proof"), [(0, "never_written"), (900, "never_written"), (901, None)])
def test_directory_of_instance_is_made_early_in_first_boot(seconds, proof):
    assert proof_of(launched(dirty(scene.node(1)), BOOT + seconds))["proof"] == proof


def stopped_and_started(host):
    """Simulate two boots seen by the boot unit, after which the disks returned with other serial numbers."""
    note_disks(host, ["AWS0001"], VOLUMES, by_boot_unit=True)
    host.machine.stop_start()
    note_disks(host, ["AWS0001b"], VOLUMES, by_boot_unit=True)
    return dirty(host)


def test_disk_is_blank_that_no_earlier_boot_saw():
    assert proof_of(stopped_and_started(scene.node(1)))["proof"] == "never_written"


def test_disk_of_earlier_boot_may_have_been_written():
    host = scene.node(1)
    note_disks(host, ["AWS0001"], VOLUMES, by_boot_unit=True)
    host.machine.reboot()
    note_disks(host, ["AWS0001"], VOLUMES, by_boot_unit=True)
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
def test_incomplete_record_of_disks_proves_nothing(name):
    host = stopped_and_started(scene.node(1))
    SEEN[name](host)
    assert proof_of(host)["proof"] is None


OTHER_VOLUMES = {
    "another root": (["vol0root"], ["vol1root"]),
    "another root beside the same data": (["vol0data", "vol0root"], ["vol0data", "vol1root"]),
    "none before": ([], ["vol0root"]),
    "none now": (["vol0root"], []),
}


@pytest.mark.parametrize("name", OTHER_VOLUMES)
def test_record_on_replaced_root_volume_proves_nothing(name):
    """Record and journal of a snapshot have only the earlier disks; the disks were used since."""
    before, now = OTHER_VOLUMES[name]
    host = scene.node(1)
    note_disks(host, ["AWS0001"], before, by_boot_unit=True)
    host.machine.stop_start()
    note_disks(host, ["AWS0001b"], now, by_boot_unit=True)
    assert proof_of(dirty(host))["proof"] is None


def test_volume_attached_later_keeps_proof():
    host = scene.node(1)
    note_disks(host, ["AWS0001"], VOLUMES, by_boot_unit=True)
    host.machine.stop_start()
    note_disks(host, ["AWS0001b"], ["vol0new", *VOLUMES], by_boot_unit=True)
    assert proof_of(dirty(host))["proof"] == "never_written"


def test_record_without_volumes_proves_nothing():
    host = stopped_and_started(scene.node(1))
    document = json.loads(host.machine.files[SEEN_PATH])
    del document["earlier_unit"]["volumes"]
    host.machine.files[SEEN_PATH] = json.dumps(document)
    assert proof_of(host)["proof"] is None


def boots_of(host, *boots):
    """Simulate boots after the first, each with the serial numbers seen by the boot unit; None: it did not run."""
    for number, serials in enumerate(boots):
        if number:
            host.machine.reboot()
        if serials is not None:
            note_disks(host, serials, VOLUMES, by_boot_unit=True)
    return dirty(host)


UNSEEN = {
    "the unit did not run in the boot before": [["AWS0000"], None, ["AWS0001"]],
    "the disk appeared late in the boot before": [["AWS0000"], ["AWS0002"], ["AWS0001", "AWS0002"]],
    "the only disk appeared late in the boot before": [["AWS0000"], [], ["AWS0001"]],
    "the unit has not seen the disk": [["AWS0000"], ["AWS0002"]],
}


@pytest.mark.parametrize("name", UNSEEN)
def test_disk_that_may_have_been_used_unseen_is_not_new(name):
    assert proof_of(boots_of(scene.node(1), *UNSEEN[name]))["proof"] is None


@pytest.mark.parametrize("boot", [None, "", 7])
def test_record_with_odd_first_boot_of_disk_proves_nothing(boot):
    host = stopped_and_started(scene.node(1))
    document = json.loads(host.machine.files[SEEN_PATH])
    document["first_boot"]["AWS0009"] = boot
    host.machine.files[SEEN_PATH] = json.dumps(document)
    assert proof_of(host)["proof"] is None


def test_record_of_disks_is_written_only_where_it_changes():
    host = stopped_and_started(scene.node(1))
    host.calls.clear()
    note_disks(host, ["AWS0001b"], VOLUMES, by_boot_unit=True)
    assert host.calls == []
    note_disks(host, ["AWS0002b"], VOLUMES, by_boot_unit=True)
    assert host.calls == [["write", SEEN_PATH]]


def test_boot_without_id_is_not_recorded():
    host = scene.node(1)
    host.machine.files["/proc/sys/kernel/random/boot_id"] = "\n"
    note_disks(host, ["AWS0001"], VOLUMES, by_boot_unit=True)
    assert SEEN_PATH not in host.machine.files


def test_journal_is_read_by_its_first_two_words():
    host = stopped_and_started(scene.node(1))
    lines = host.machine.list_boots().splitlines()
    host.machine.list_boots = lambda: "\n".join(["IDX", "", *(" ".join(line.split()[:2]) for line in lines)])
    assert proof_of(host)["proof"] == "never_written"


@pytest.mark.parametrize("boots", [[], ["boot1again"]])
def test_journal_without_boot_before_proves_nothing(boots):
    host = stopped_and_started(scene.node(1))
    host.machine.boots = boots
    assert proof_of(host)["proof"] is None


def test_journal_that_lacks_this_boot_proves_nothing():
    host = stopped_and_started(scene.node(1))
    host.machine.list_boots = lambda: " -1 boot1 Fri\n  0 boot0 Fri\n"
    assert proof_of(host)["proof"] is None


@pytest.mark.parametrize(
    "unit",
    [
        [],
        {},
        {"boot_id": "", "serials": []},
        {"boot_id": "b", "serials": "AWS0001"},
        {"boot_id": "b", "serials": ["AWS0001"], "volumes": "vol0root"},
    ],
)
@pytest.mark.parametrize("key", ["unit", "earlier_unit"])
def test_unsound_boot_in_record_proves_nothing(key, unit):
    host = stopped_and_started(launched(scene.node(1)))
    document = {**json.loads(host.machine.files[SEEN_PATH]), key: unit}
    host.machine.files[SEEN_PATH] = json.dumps(document)
    assert proof_of(host)["proof"] is None


def test_node_without_journal_proves_nothing():
    host = stopped_and_started(scene.node(1))
    host.failures["journalctl"] = (1, "No journal files were found.")
    assert proof_of(host)["proof"] is None


def test_boot_unit_that_runs_again_keeps_boot_before():
    host = stopped_and_started(scene.node(1))
    note_disks(host, ["AWS0001b"], VOLUMES, by_boot_unit=True)
    assert proof_of(host)["proof"] == "never_written"


def test_record_without_earlier_boot_proves_nothing():
    host = scene.node(1)
    note_disks(host, ["AWS0001"], VOLUMES, by_boot_unit=True)
    assert proof_of(dirty(host))["proof"] is None
    note_disks(host, ["AWS0002"], VOLUMES, by_boot_unit=True)
    assert proof_of(dirty(host))["proof"] is None


def test_run_outside_boot_unit_does_not_prove_boot():
    host = scene.node(1)
    note_disks(host, ["AWS0001"], VOLUMES, by_boot_unit=True)
    host.machine.stop_start()
    note_disks(host, ["AWS0001b"], VOLUMES, by_boot_unit=False)
    assert proof_of(dirty(host))["proof"] is None
