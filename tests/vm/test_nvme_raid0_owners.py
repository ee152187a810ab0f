# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that ParallelCluster or a Deep Learning AMI has set up: adopted, or replaced with consent."""

from __future__ import annotations

import pytest

from tests.rig.vm import prepare
from tests.rig.vm.guest import Guest
from tests.vm import helpers
from tests.vm.helpers import CONSENT

pytestmark = pytest.mark.vm
VOLUME = "/dev/mapper/vg.01-lv_ephemeral"
MOUNTS = {"parallelcluster": "/scratch", "dlami": "/opt/dlami/nvme"}
UNITS = {"parallelcluster": "setup-ephemeral.service", "dlami": "dlami-nvme.service"}


def expect_adopted(node: Guest, owner: str, state: str) -> helpers.Seen:
    """Check that /data is a bind mount of the owner's volume, with the role's directories and no line in fstab."""
    seen = helpers.look(node)
    base = MOUNTS[owner]
    for path in (base, "/data"):
        assert path in seen.mounts, f"{path} is not mounted: {sorted(seen.mounts)}; {seen.journal}"
        assert (seen.mounts[path]["source"], seen.mounts[path]["fstype"]) == (VOLUME, "ext4"), seen.mounts[path]
    # Both paths show one filesystem: a file written to one is in the other.
    proof = f"echo bind > {base}/proof && cat /data/proof && rm {base}/proof && stat -c %m /data/scratch"
    assert node.run(proof).out == "bind\n/data\n"
    assert {name: seen.tree.get(f"/data/{name}") for name in ("scratch", "cache", "hf", "EPHEMERAL.txt")} == {
        "scratch": "1777 root root",
        "cache": "755 root root",
        "hf": "755 root root",
        "EPHEMERAL.txt": "644 root root",
    }
    assert seen.tree["/data"] == "1777 root root", "the owner's top directory was changed"
    assert " /data " not in seen.fstab
    helpers.expect_record(node, seen, "/data", "ext4", state, owner)
    return seen


def adopted(node: Guest, owner: str) -> Guest:
    """Reset the guest to the owner's volume, adopted by the role; made once a session, then from a snapshot."""
    name = f"adopted-{owner}"
    if name in node.state["snapshots"]:
        node.restore(name)
        return node
    helpers.blank(node)
    prepare.prepare(node, owner)
    node.run(f"echo theirs > {MOUNTS[owner]}/theirs")
    run = helpers.configure(node)
    assert run.result_of("instance_store")["plan"]["situation"] == "adopted"
    node.run("sync")
    node.snapshot(name)
    return node


@pytest.mark.parametrize("owner", [pytest.param("parallelcluster", marks=pytest.mark.ci), "dlami"])
def test_volume_of_owner_is_adopted(session_guest: Guest, owner: str) -> None:
    """The role uses the owner's volume and keeps its files, also in the second run and after a reboot."""
    node = adopted(session_guest, owner)
    expect_adopted(node, owner, "intact")
    assert node.run("cat /data/theirs").out == "theirs\n"
    helpers.expect_unchanged(node)
    node.reboot()
    assert helpers.settle(node) == "running"
    expect_adopted(node, owner, "intact")
    assert node.run("cat /data/theirs").out == "theirs\n"


@pytest.mark.parametrize("owner", ["parallelcluster", "dlami"])
def test_adopted_volume_is_adopted_again_after_stop(session_guest: Guest, owner: str) -> None:
    """The owner's service makes its volume on blank disks, and the boot unit makes the role's directories on it."""
    node = adopted(session_guest, owner)
    node.stop_start()
    assert helpers.settle(node) == "running"
    expect_adopted(node, owner, "recreated")
    assert node.run("test -e /data/theirs", check=False).rc == 1
    helpers.expect_unchanged(node)


def test_enabled_service_of_owner_is_started_and_adopted(session_guest: Guest) -> None:
    """Disks are blank and an enabled service would use them: the role starts the service and adopts its volume."""
    node = helpers.blank(session_guest)
    prepare.prepare(node, "parallelcluster")
    # Only new disks are blank: on these, remains of the volume would be data of someone.
    node.run(["systemctl", "-q", "disable", UNITS["parallelcluster"]])
    node.stop_start()
    node.run(["systemctl", "-q", "enable", UNITS["parallelcluster"]])
    run = helpers.configure(node)
    assert {"action": "start_unit", "unit": UNITS["parallelcluster"]}.items() <= run.result_of("instance_store")[
        "actions"
    ][0].items()
    expect_adopted(node, "parallelcluster", "intact")
    helpers.expect_unchanged(node)


@pytest.mark.parametrize(("owner", "existing"), [("parallelcluster", "fail"), ("dlami", "replace")])
def test_disks_of_owner_are_replaced_with_consent_only(session_guest: Guest, owner: str, existing: str) -> None:
    """Without both consent options the role refuses; with both it replaces the volume and masks the owner's service."""
    node = helpers.blank(session_guest)
    prepare.prepare(node, owner)
    disks = helpers.digests(node)
    refusal = helpers.play(node, nvme_raid0_existing=existing).refusal
    assert f"the disks are set up by {owner}" in refusal and helpers.CONSENT_SENTENCE in refusal
    assert f"is mounted on {MOUNTS[owner]}" in refusal and "/dev/nvme1n1" in refusal
    assert helpers.digests(node) == disks

    run = helpers.configure(node, **CONSENT)
    assert run.result_of("instance_store")["plan"]["situation"] == "rebuild"
    seen = helpers.expect_volume(node)
    assert MOUNTS[owner] not in seen.mounts
    assert node.run("pvs --noheadings").out == ""
    node.reboot()
    helpers.settle(node)
    seen = helpers.expect_volume(node)
    assert MOUNTS[owner] not in seen.mounts
    assert node.run(["systemctl", "is-enabled", UNITS[owner]], check=False).out == "masked\n"
