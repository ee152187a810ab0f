# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Killed runs: the next run or boot continues them if the disks are the same; other disks are foreign."""

from __future__ import annotations

from pathlib import Path

import pytest

from plugins.plugin_utils import _runtime
from tests.rig.vm.guest import Guest
from tests.vm import helpers
from tests.vm.helpers import HERE

pytestmark = pytest.mark.vm
TOOL = "/root/interrupt.py"
RUNTIME = "/usr/local/lib/mlcluster/mlcluster.pyz"
POINTS = [
    "write_intent:create",
    "create_array",
    "write_intent:mkfs",
    "amid",
    "make_filesystem",
    "write_intent:mount",
    "mount",
    "directory",
    "write_marker",
    "write_array_config",
    "write_record",
    "clear_intent",
]


def interrupt(node: Guest, point: str) -> None:
    """Run a build of the volume that is killed at that point."""
    node.run(["mkdir", "-p", RUNTIME.rpartition("/")[0]])
    node.copy_to(Path(_runtime.build()["path"]), RUNTIME)
    node.copy_to(HERE / "guest_interrupt.py", TOOL)
    # The shell reports the signal as an exit status, which ssh cannot.
    done = node.run(f"python3 {TOOL} {point}; exit $?", check=False)
    assert done.rc == 137, f"the run was not killed at {point} and ended with {done.rc}: {done.err}"
    if point == "amid":
        array = f"/dev/{helpers.look(node).arrays[0].split()[0]}"
        assert node.run(f"test -b {array} && blkid -p {array}", check=False).rc == 2, "mkfs had ended"


@pytest.mark.parametrize("point", POINTS)
def test_killed_run_is_continued(session_guest: Guest, point: str) -> None:
    """A second run completes the volume after a kill at any step, and leaves nothing else on the disks."""
    node = helpers.blank(session_guest)
    interrupt(node, point)
    node.run(["python3", TOOL, "never"])
    seen = helpers.look(node)
    assert seen.mounts["/data"]["fstype"] == "ext4" and seen.intent is None
    assert len(seen.arrays) == 1 and seen.arrays[0].count("nvme") == 4, seen.mdstat
    assert seen.record and seen.record["state"] == "intact"
    assert seen.record["fs_uuid"] == seen.mounts["/data"]["uuid"]
    assert "/data/EPHEMERAL.txt" in seen.tree
    label = node.run(["blkid", "-p", "-o", "value", "-s", "LABEL", seen.mounts["/data"]["source"]]).out
    assert label == "mlcluster\n"


@pytest.mark.parametrize("point", ["create_array", "amid", "mount"])
def test_role_continues_killed_run(session_guest: Guest, point: str) -> None:
    node = helpers.blank(session_guest)
    interrupt(node, point)
    before = helpers.look(node)
    stages = {"create_array": "create", "amid": "mkfs", "mount": "mount"}
    assert before.intent and before.intent["stage"] == stages[point]
    run = helpers.configure(node)
    assert run.result_of("instance_store")["plan"]["situation"] == "half_finished"
    helpers.expect_volume(node)
    helpers.expect_unchanged(node)


def test_changed_disks_after_killed_run_are_foreign(session_guest: Guest) -> None:
    node = helpers.blank(session_guest)
    interrupt(node, "create_array")
    node.run("mdadm --quiet --stop --scan")
    node.lose_disk(3)
    disks = helpers.digests(node)
    refusal = helpers.play(node, nvme_raid0_expected_disks=3).refusal
    assert "linux_raid_member" in refusal and helpers.CONSENT_SENTENCE in refusal
    assert helpers.digests(node) == disks


def test_intent_survives_power_cut(session_guest: Guest) -> None:
    """After a power cut right after mkfs, the intent on the root disk lets the next run continue."""
    node = helpers.blank(session_guest)
    interrupt(node, "make_filesystem")
    node.power_cut()
    node.power_on(node.state["accelerator"], node.state["instance_type"])
    node.wait_ssh()
    helpers.settle(node)
    assert (helpers.look(node).intent or {})["stage"] == "mkfs"
    run = helpers.configure(node)
    assert run.result_of("instance_store")["plan"]["situation"] == "half_finished"
    helpers.expect_volume(node)


def test_boot_continues_killed_boot(session_guest: Guest) -> None:
    """The unit is killed while it rebuilds after a stop and start; the next boot completes the volume."""
    node = helpers.configured(session_guest)
    node.copy_to(HERE / "guest_interrupt.py", TOOL)
    folder = f"/etc/systemd/system/{helpers.UNIT}.d"
    node.run(f"mkdir {folder}; printf '[Service]\\nExecStart=\\nExecStart=python3 {TOOL} create_array boot\\n'"
             f" > {folder}/killed.conf")  # fmt: skip
    node.stop_start()
    assert helpers.settle(node) == "degraded"
    seen = helpers.look(node)
    assert seen.unit["Result"] == "signal" and "/data" not in seen.mounts, seen
    assert seen.intent and seen.intent["stage"] == "create"
    node.run(f"rm -r {folder}; sync")
    node.reboot()
    assert helpers.settle(node) == "running"
    helpers.expect_volume(node, state="recreated")
    helpers.expect_unchanged(node)
