# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's volume: built, found again, kept over a reboot, rebuilt after a stop, lost with a disk."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.rig.vm.guest import Guest
from tests.vm import helpers
from tests.vm.helpers import CONSENT, KEPT

pytestmark = pytest.mark.vm
GuestFactory = Callable[..., Guest]


@pytest.mark.ci
def test_fresh_disks_become_volume_once(guest: GuestFactory) -> None:
    """Check mode shows the plan and writes nothing; the run builds the volume; the second run changes nothing."""
    node = guest(disks=4)
    disks, files = helpers.digests(node), helpers.files_outside(node)
    shown = helpers.configure(node, check=True)
    plan = shown.result_of("instance_store")
    assert [step["action"] for step in plan["actions"]][:3] == ["write_intent", "create_array", "write_intent"]
    assert "make filesystem" in plan["diff"]["after"] and "/data: ext4" in plan["diff"]["after"]
    assert "would change" in shown.output and shown.changed >= 5
    assert helpers.files_outside(node) == files, "check mode wrote files"
    assert helpers.digests(node) == disks, "check mode wrote on a disk"

    run = helpers.configure(node)
    assert run.result_of("instance_store")["plan"]["situation"] == "fresh"
    seen = helpers.expect_volume(node)
    assert "data=ordered" in seen.mounts["/data"]["options"]
    for verdict in ("storage.mounted", "storage.size", "storage.members", "storage.write_read", "storage.boot_unit"):
        assert f"PASS {verdict}" in run.output, run.output
    helpers.expect_unchanged(node)
    assert helpers.entry(node, "verify").output.count("PASS storage.mounted") == 1


@pytest.mark.ci
def test_reboot_keeps_volume_and_its_files(session_guest: Guest) -> None:
    node = helpers.configured(session_guest)
    before = helpers.look(node)
    node.reboot()
    assert helpers.settle(node) == "running"
    seen = helpers.expect_volume(node)
    assert node.run(["cat", KEPT]).out == "kept\n"
    # The array's device name may change; the UUID by which fstab mounts may not.
    assert seen.mounts["/data"]["uuid"] == before.mounts["/data"]["uuid"]
    assert "storage-boot: intact: /data (ext4)" in seen.journal, seen.journal
    assert (seen.unit["ActiveState"], seen.unit["ExecMainStatus"]) == ("active", "0")
    helpers.expect_unchanged(node)


@pytest.mark.ci
def test_stop_and_start_rebuilds_without_ansible(session_guest: Guest) -> None:
    node = helpers.configured(session_guest)
    before = helpers.look(node)
    node.stop_start()
    assert helpers.settle(node) == "running"
    seen = helpers.expect_volume(node, state="recreated")
    assert "storage-boot: recreated: /data (ext4)" in seen.journal, seen.journal
    assert node.run(["test", "-e", KEPT], check=False).rc == 1
    assert before.record and seen.record
    assert not set(before.record["serials"]) & set(seen.record["serials"])
    assert seen.fstab == before.fstab, "fstab changed over a stop and start"
    helpers.expect_unchanged(node)


@pytest.mark.ci
def test_lost_disk_is_reported_and_nothing_is_touched(session_guest: Guest) -> None:
    """The boot reports the lost disk and ends; neither boot nor role touches the other disks without consent."""
    node = helpers.configured(session_guest)
    lost = node.lose_disk(2)
    node.reboot()
    assert helpers.settle(node) == "degraded", "a lost disk has to fail the unit and not the boot"
    seen = helpers.look(node)
    assert "/data" not in seen.mounts
    assert seen.record and (seen.record["state"], len(seen.record["serials"])) == ("lost", 4)
    assert (seen.unit["Result"], seen.unit["ExecMainStatus"]) == ("exit-code", "1")
    assert f"storage-boot: lost: this node's volume was made of 4 disks and 1 of them ({lost.serial})" in seen.journal
    disks = helpers.digests(node)
    refusal = helpers.play(node).refusal
    assert lost.serial in refusal and "nothing was touched" in refusal and helpers.CONSENT_SENTENCE in refusal
    assert helpers.digests(node) == disks
    assert node.run("systemctl is-active ssh").out == "active\n"

    run = helpers.configure(node, **CONSENT, nvme_raid0_expected_disks=3)
    assert run.result_of("instance_store")["plan"]["situation"] == "rebuild"
    helpers.expect_volume(node, disks=3)
    helpers.expect_unchanged(node, **CONSENT, nvme_raid0_expected_disks=3)


def names(node: Guest) -> dict[str, str]:
    """Return {serial: name} of the disks."""
    disks = json.loads(node.run("lsblk -J -d -o NAME,SERIAL").out)["blockdevices"]
    return {disk["serial"]: disk["name"] for disk in disks if disk["name"].startswith("nvme")}


def test_changed_device_names_change_nothing(session_guest: Guest) -> None:
    node = helpers.configured(session_guest)
    before = names(node)
    assert not node.reshuffle(seed=3)
    node.reboot()
    assert helpers.settle(node) == "running"
    assert names(node).keys() == before.keys()
    assert names(node) != before
    helpers.expect_volume(node)
    assert node.run(["cat", KEPT]).out == "kept\n"
    helpers.expect_unchanged(node)
