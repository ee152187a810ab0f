# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.blank import WRITTEN_LIMIT
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.converge import look
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.plan_array import ArrayPlan, plan_array

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import fs_uuid
from tests.unit.fakes.fake_storage_host import SimulatedHost

UUID = "a" * 32
OURS = "b" * 32
DISKS = ["/dev/nvme1n1", "/dev/nvme2n1", "/dev/nvme3n1", "/dev/nvme4n1"]


def plan_of(host: SimulatedHost, state: str = "present", **options: object) -> ArrayPlan:
    config = scene.config(**options)
    return plan_array(look(host, config), config, state, UUID)


def kinds(plan: ArrayPlan) -> list[str]:
    return [action["action"] for action in plan.actions]


def refusal(host: SimulatedHost, state: str = "present", **options: object) -> str:
    plan = plan_of(host, state, **options)
    assert plan.actions == []
    assert plan.refusals
    return "; ".join(plan.refusals)


def with_array(members: list[str] | None = None, **fields: object) -> SimulatedHost:
    """Return four disks and a running array over them or some of them."""
    host = scene.node(4)
    host.machine.array("md127", members or scene.store_names(host), OURS, **fields)
    return host


def fragment(name: str = "mlcluster", spelled: str = "bbbbbbbb:bbbbbbbb:bbbbbbbb:bbbbbbbb") -> dict[str, str]:
    path = f"/etc/mdadm/mdadm.conf.d/{name}.conf"
    text = "# Written by mlcluster.aws for the instance-store array.\n"
    return {path: f"{text}ARRAY /dev/md/{name} metadata=1.2 UUID={spelled}\n"}


def test_blank_disks_become_array():
    plan = plan_of(scene.node(4), chunk_kib=256, array_name="scratch")
    assert plan.found is None
    assert plan.actions == [
        {
            "action": "create_array",
            "name": "scratch",
            "uuid": UUID,
            "chunk_kib": 256,
            "devices": DISKS,
            "serials": ["AWS0001", "AWS0002", "AWS0003", "AWS0004"],
            "blank": dict.fromkeys(DISKS, 0),
        },
        {"action": "write_array_config", "name": "scratch", "uuid": UUID},
    ]


def test_only_named_disks_are_members():
    plan = plan_of(scene.node(4), devices=["/dev/nvme3n1", "/dev/nvme2n1", "/dev/nvme3n1"])
    assert plan.actions[0]["devices"] == ["/dev/nvme2n1", "/dev/nvme3n1"]


def test_order_of_enumeration_does_not_matter():
    host = scene.node(4)
    before = plan_of(host)
    devices = list(host.machine.devices.items())
    random.Random(7).shuffle(devices)
    host.machine.devices = dict(devices)
    assert plan_of(host) == before


@pytest.mark.parametrize("disks", [0, 1])
def test_too_few_disks_for_array(disks):
    assert refusal(scene.node(disks)) == (f"found {disks} instance-store disks: an array needs at least 2, see 'lsblk'")


@pytest.mark.parametrize("state", ["present", "absent"])
def test_ebs_cannot_be_chosen(state):
    host = scene.node(2)
    host.machine.ebs("nvme9n1")
    text = refusal(host, state, devices=["/dev/nvme1n1", "/dev/nvme9n1"], safe_mode=False)
    assert text == "nvme_raid0_devices names /dev/nvme9n1, which is an EBS volume: take it out of the list"


def test_named_disk_that_is_missing():
    assert "names /dev/nvme7n1, and there is no such disk" in refusal(scene.node(2), devices=["/dev/nvme7n1"])


def test_requested_array_is_kept():
    host = with_array()
    host.machine.files.update(fragment())
    plan = plan_of(host)
    assert (plan.actions, plan.refusals) == ([], [])
    assert plan.found["uuid"] == OURS
    assert plan.found["members"] == scene.store_names(host)


def test_missing_configuration_is_written_again():
    plan = plan_of(with_array())
    assert plan.actions == [{"action": "write_array_config", "name": "mlcluster", "uuid": OURS}]


def test_array_that_does_not_run_is_assembled():
    host = scene.node(4)
    host.machine.stopped_array(scene.store_names(host), OURS)
    host.machine.files.update(fragment())
    plan = plan_of(host)
    assert plan.found is None
    paths = [f"/dev/{name}" for name in scene.store_names(host)]
    assert plan.actions == [{"action": "assemble_array", "uuid": OURS, "name": "mlcluster", "devices": paths}]


def test_homehost_in_name_does_not_matter():
    host = with_array(name="old-hostname:mlcluster")
    host.machine.files.update(fragment())
    assert plan_of(host).actions == []


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "any:other"},
        {"level": "raid10"},
        {"chunk_kib": 64},
        {"raid_devices": 5},
        {"members": ["nvme1n1", "nvme2n1"]},
    ],
    ids=["name", "level", "chunk", "a member is missing", "a disk is left out"],
)
def test_other_array_is_rebuilt_only_with_consent(fields):
    host = with_array(**fields)
    text = refusal(host)
    assert "/dev/nvme1n1 (AWS0001)" in text
    assert text.endswith("nothing was touched; set safe_mode: false to destroy the content of these disks")
    plan = plan_of(host, safe_mode=False)
    assert plan.refusals == []
    wiped = ["wipe"] * len(plan.found["members"])
    assert kinds(plan) == ["stop_array", *wiped, "create_array", "write_array_config"]
    assert plan.actions[-2]["uuid"] == UUID


def test_members_of_two_arrays_are_no_array():
    host = scene.node(4)
    host.machine.stopped_array(["nvme1n1", "nvme2n1"], OURS, raid_devices=4)
    host.machine.stopped_array(["nvme3n1", "nvme4n1"], "c" * 32, raid_devices=4)
    assert "set safe_mode: false" in refusal(host)


def test_array_over_some_of_named_disks_reaches_beyond_them():
    host = with_array()
    named = ["/dev/nvme1n1", "/dev/nvme2n1"]
    assert "set safe_mode: false" in refusal(host, devices=named)
    assert "array /dev/md127 also uses nvme3n1, nvme4n1" in refusal(host, devices=named, safe_mode=False)


def test_array_that_reaches_to_ebs_is_never_taken_apart():
    host = scene.node(2)
    host.machine.ebs("nvme9n1")
    host.machine.array("md127", ["nvme1n1", "nvme2n1", "nvme9n1"], OURS)
    for state in ("present", "absent"):
        assert "array /dev/md127 also uses nvme9n1" in refusal(host, state, safe_mode=False)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "gpt", "swap"])
def test_signature_is_refused_and_wiped_only_with_consent(kind):
    host = scene.node(2)
    host.machine.sign("nvme2n1", kind, fs_uuid(kind))
    assert refusal(host).startswith("/dev/nvme2n1 (AWS0002) carries a")
    plan = plan_of(host, safe_mode=False)
    assert (plan.refusals, kinds(plan)) == ([], ["wipe", "create_array", "write_array_config"])
    assert plan.actions[0]["device"] == "/dev/nvme2n1"


def test_disk_with_large_writes_is_not_taken_without_consent():
    host = scene.node(2)
    host.machine.devices["nvme2n1"].written = WRITTEN_LIMIT + 1
    assert "/dev/nvme2n1 (AWS0002) is not proved blank (sampled reads are zero" in refusal(host)


def test_disk_of_operating_system_is_never_taken():
    host = scene.node(2)
    host.machine.mount("nvme1n1", "/var")
    assert "carries the operating system's /var" in refusal(host, safe_mode=False)


def test_absent_where_there_is_none():
    host = scene.node(4)
    host.machine.sign("nvme1n1", "ext4", fs_uuid("data"))
    plan = plan_of(host, "absent", safe_mode=False)
    assert (plan.actions, plan.refusals, plan.found) == ([], [], None)


def test_absent_needs_consent():
    assert "set safe_mode: false to destroy" in refusal(with_array(), "absent")


@pytest.mark.parametrize("running", [True, False])
def test_absent_stops_and_wipes_members(running):
    host = with_array() if running else scene.node(4)
    if not running:
        host.machine.stopped_array(scene.store_names(host), OURS)
    plan = plan_of(host, "absent", safe_mode=False)
    assert plan.refusals == []
    assert kinds(plan) == ["stop_array"] * running + ["wipe"] * 4 + ["remove_array_config"]
    assert [action["device"] for action in plan.actions if action["action"] == "wipe"] == DISKS


def test_absent_refuses_array_in_use():
    host = with_array()
    host.machine.sign("md127", "ext4", fs_uuid("data"))
    host.machine.mount("md127", "/data")
    text = refusal(host, "absent", safe_mode=False)
    assert text == "/dev/md127 is in use (/data): unmount it or take it apart, then run again"
    # Consent does not help, so it is not advised.
    assert refusal(host, "absent") == text


def test_array_of_other_disks_is_not_found():
    host = scene.node(2)
    host.machine.ebs("nvme9n1")
    host.machine.array("md5", ["nvme9n1"], OURS)
    plan = plan_of(host)
    assert plan.found is None
    assert kinds(plan) == ["create_array", "write_array_config"]


@pytest.mark.parametrize("state", ["present", "absent"])
def test_losses_of_array_are_named(state):
    host = scene.node(2)
    host.machine.stopped_array(scene.store_names(host), OURS, chunk_kib=64, level="raid1")
    plan = plan_of(host, state, safe_mode=False)
    assert [text.partition(" carries")[0] for text in plan.losses[:2]] == [
        "/dev/nvme1n1 (AWS0001)",
        "/dev/nvme2n1 (AWS0002)",
    ]
    assert "does not run, so its content could not be inspected" in plan.losses[-1]


def test_absent_refuses_array_under_lvm():
    host = with_array()
    host.machine.volume("group", "volume", ["md127"])
    assert "/dev/md127 is in use (dm-0)" in refusal(host, "absent", safe_mode=False)


def test_absent_keeps_array_of_another_name():
    plan = plan_of(with_array(name="any:other"), "absent", safe_mode=False)
    assert (plan.actions, plan.refusals, plan.found) == ([], [], None)


def test_absent_takes_one_of_two_arrays():
    host = with_array(["nvme1n1", "nvme2n1"])
    host.machine.array("md126", ["nvme3n1", "nvme4n1"], "c" * 32, name="any:busy")
    host.machine.sign("md126", "ext4", fs_uuid("busy"))
    host.machine.mount("md126", "/busy")
    plan = plan_of(host, "absent", safe_mode=False)
    assert plan.found["path"] == "/dev/md127"
    assert [action.get("device") for action in plan.actions] == ["/dev/md127", *DISKS[:2], None]


def test_absent_finishes_removal_that_was_interrupted():
    host = scene.node(4)
    host.machine.files.update(fragment())
    assert kinds(plan_of(host, "absent")) == ["remove_array_config"]


def test_absent_without_mdadm_is_refused():
    host = with_array()
    host.programs -= {"mdadm"}
    assert "the name of their array cannot be read; install mdadm" in refusal(host, "absent", safe_mode=False)
