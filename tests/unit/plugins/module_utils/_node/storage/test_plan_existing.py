# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.record import RECORD_PATH
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import fs_uuid


def lone_ext4(host):
    host.machine.sign("nvme1n1", "ext4", fs_uuid("keep"), "keep")


def gpt(host):
    host.machine.sign("nvme1n1", "gpt")
    host.machine.part("nvme1n1")


def swap(host):
    host.machine.sign("nvme1n1", "swap", fs_uuid("swap"))
    host.machine.swap_on("/dev/nvme1n1")


def mounted(host):
    lone_ext4(host)
    host.machine.mount("nvme1n1", "/mnt/theirs")


def old_array_with_old_filesystem(host):
    inside = [{"offset": "0x0", "type": "xfs", "uuid": fs_uuid("old"), "label": "old"}]
    host.machine.stopped_array(scene.store_names(host), scene.FOREIGN_ARRAY, inside, name="host:old")
    host.machine.inside["+".join(sorted(scene.store_names(host)))] = inside


def eks(host):
    host.machine.array("md0", scene.store_names(host), scene.FOREIGN_ARRAY, "node:kubernetes")
    host.machine.sign("md0", "xfs", fs_uuid("k8s"))
    host.machine.mount("md0", "/mnt/k8s-disks/0")


def array_with_a_partition_table(host):
    host.machine.array("md127", scene.store_names(host), scene.FOREIGN_ARRAY)
    host.machine.sign("md127", "gpt")
    host.machine.add("md127p1", "part", parents=["md127"])


def nested_arrays(host):
    names = scene.store_names(host)
    for number, pair in ((126, names[:2]), (127, names[2:])):
        host.machine.array(f"md{number}", pair, f"{number:032x}", level="raid1")
    host.machine.array("md125", ["md126", "md127"], "e" * 32)
    host.machine.devices["md126"].md = {**host.machine.devices["nvme1n1"].md}
    host.machine.devices["md127"].md = {**host.machine.devices["nvme3n1"].md}


def array_on_partitions(host):
    for name in scene.store_names(host):
        host.machine.sign(name, "gpt")
        host.machine.part(name)
    host.machine.array("md127", [f"{name}p1" for name in scene.store_names(host)], scene.FOREIGN_ARRAY)
    host.machine.sign("md127", "ext4", fs_uuid("theirs"))
    host.machine.mount("md127", "/data")


def group_on_an_array(host):
    host.machine.array("md127", scene.store_names(host), scene.FOREIGN_ARRAY)
    host.machine.volume("data", "all", ["md127"])
    host.machine.sign("dm-0", "ext4", fs_uuid("theirs"))
    host.machine.mount("dm-0", "/srv/a")
    host.machine.mount("dm-0", "/srv/a/b/c", root="/c")


def parallelcluster(host):
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch")


FOREIGN = {
    "ext4": (lone_ext4, "(AWS0001) carries an ext4 signature (label keep", ["wipe"]),
    "gpt": (gpt, "has partitions nvme1n1p1", ["wipe", "wipe"]),
    "swap": (swap, "is in use as swap (/dev/nvme1n1)", ["swap_off", "wipe"]),
    "mounted": (mounted, "is mounted on /mnt/theirs", ["unmount", "wipe"]),
    "array": (scene.foreign_array, "is held by md127", ["unmount", "stop_array", *["wipe"] * 4]),
    "old array": (old_array_with_old_filesystem, "label host:old", ["wipe"] * 4),
    "eks": (eks, "the disks are set up by the EKS image", ["unmount", "stop_array", *["wipe"] * 4]),
    "partitioned array": (array_with_a_partition_table, "is held by md127", ["stop_array", *["wipe"] * 4]),
    "nested arrays": (nested_arrays, "is held by md126", ["stop_array"] * 3 + ["wipe"] * 4),
    "array on partitions": (array_on_partitions, "has partitions", ["unmount", "stop_array", *["wipe"] * 8]),
    "group on an array": (
        group_on_an_array,
        "is mounted on /srv/a, /srv/a/b/c",
        ["unmount", "unmount", "remove_volume_group", "stop_array", *["wipe"] * 4],
    ),
    "parallelcluster": (parallelcluster, "", ["mask_unit", "unmount", "remove_volume_group", *["wipe"] * 4]),
}


@pytest.mark.parametrize("name", [name for name in FOREIGN if name != "parallelcluster"])
@pytest.mark.parametrize(
    "options", [{}, {"existing": "fail"}, {"existing": "replace"}, {"safe_mode": False}, {"existing": "adopt"}]
)
def test_foreign_content_is_refused_with_finding_and_switch(name, options):
    prepare, expected, _teardown = FOREIGN[name]
    host = scene.node(4)
    prepare(host)
    text = scene.refusal(host, **options)
    assert expected in text
    assert "/dev/nvme1n1 (AWS0001)" in text
    assert "set nvme_raid0_existing: replace together with nvme_raid0_safe_mode: false" in text
    assert scene.plan_of(host, **options).state == "foreign"


@pytest.mark.parametrize("name", FOREIGN)
def test_boot_unit_destroys_nothing_with_any_switches(name):
    host = scene.node(4)
    FOREIGN[name][0](host)
    scene.refusal(host, at_boot=True, **scene.CONSENT)


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("layout", ["raid0", "per_disk"])
def test_consent_tears_down_from_top_and_rebuilds(name, layout):
    prepare, _text, teardown = FOREIGN[name]
    host = scene.node(4)
    prepare(host)
    plan = scene.plan_of(host, layout=layout, **scene.CONSENT)
    assert (plan.situation, plan.owner) == ("rebuild", "ours")
    assert scene.kinds(plan)[: len(teardown) + 1] == [*teardown, "write_intent"]
    scene.run(host, layout=layout, **scene.CONSENT)
    assert not [call for call in host.calls if {"-f", "--force"} & set(call) and call[0] == "wipefs"]
    assert scene.run(host, layout=layout, **scene.CONSENT) == []
    assert scene.run(host, layout=layout) == []


def test_old_filesystem_in_new_array_is_wiped_before_mkfs():
    host = scene.node(4)
    old_array_with_old_filesystem(host)
    scene.run(host, **scene.CONSENT)
    calls = [call[:3] for call in host.changes() if "/dev/md127" in call]
    assert calls[0] == ["wipefs", "--all", "/dev/md127"]
    assert [signature["type"] for signature in host.machine.devices["md127"].signatures] == ["ext4"]


def test_nested_arrays_stop_from_top():
    host = scene.node(4)
    nested_arrays(host)
    stopped = [a["device"] for a in scene.plan_of(host, **scene.CONSENT).actions if a["action"] == "stop_array"]
    assert stopped == ["/dev/md125", "/dev/md126", "/dev/md127"]


def test_mounts_are_removed_deepest_first_and_repeatedly():
    host = scene.node(4)
    group_on_an_array(host)
    host.machine.mount("dm-0", "/srv/a")
    unmounted = [a["target"] for a in scene.plan_of(host, **scene.CONSENT).actions if a["action"] == "unmount"]
    assert unmounted == ["/srv/a/b/c", "/srv/a", "/srv/a"]


def test_disk_that_udev_put_together_again_is_stopped_and_wiped():
    host = scene.node(2)
    host.machine.stopped_array(scene.store_names(host), scene.FOREIGN_ARRAY)
    wipefs = host._do_wipefs
    again = []

    def reassembled(args):
        if "--all" in args and not again:
            again.append(host._do_mdadm(["--assemble", "/dev/md/old", f"--uuid={scene.FOREIGN_ARRAY}"]))
        return wipefs(args)

    host._do_wipefs = reassembled
    scene.run(host, **scene.CONSENT)
    assert ["mdadm", "--stop", "/dev/md127"] in host.calls
    assert scene.run(host) == []


def test_array_without_uuid_is_not_mistaken_for_another():
    host = scene.node(1)
    host.machine.sign("nvme1n1", "gpt")
    host.machine.ebs("nvme9n1")
    host.machine.array("md5", ["nvme9n1"], "d" * 32, shows_uuid=False)
    host.failures["wipefs --all /dev/nvme1n1"] = (1, "Device or resource busy")
    with pytest.raises(NodeError, match=r"wipe /dev/nvme1n1 failed: .*Device or resource busy"):
        scene.run(host, **scene.CONSENT)
    assert not [call for call in host.calls if "--stop" in call]


IMAGES = {"parallelcluster": (scene.PCLUSTER_UNIT, "/scratch"), "dlami": (scene.DLAMI_UNIT, "/opt/dlami/nvme")}


@pytest.mark.parametrize("owner", IMAGES)
def test_volume_of_image_is_used_through_bind_mount(owner):
    host = scene.node(4)
    scene.owned_by_image(host, *IMAGES[owner])
    plan = scene.plan_of(host, directories=[{"path": "scratch", "mode": "1777"}])
    assert (plan.situation, plan.state, plan.owner) == ("adopted", "intact", owner)
    assert scene.kinds(plan) == ["bind_mount", "directory", "write_marker", "write_record"]
    assert plan.actions[0] == {"action": "bind_mount", "source": IMAGES[owner][1], "target": "/data"}
    assert (plan.volumes[0]["device"], plan.volumes[0]["fstab"]) == ("/dev/vg.01/lv_ephemeral", {})
    scene.run(host, directories=[{"path": "scratch", "mode": "1777"}])
    assert scene.run(host, directories=[{"path": "scratch", "mode": "1777"}]) == []


def test_volume_of_image_is_one_volume_in_any_layout():
    host = scene.node(2)
    scene.owned_by_image(host, *IMAGES["parallelcluster"])
    assert scene.run(host, layout="per_disk") == ["bind_mount", "write_marker", "write_record"]
    assert scene.run(host, layout="per_disk") == []


@pytest.mark.parametrize("owner", IMAGES)
def test_images_mount_point_itself_may_be_wanted(owner):
    host = scene.node(2)
    scene.owned_by_image(host, *IMAGES[owner])
    plan = scene.plan_of(host, mount_point=IMAGES[owner][1])
    assert scene.kinds(plan) == ["write_marker", "write_record"]


@pytest.mark.parametrize("owner", IMAGES)
@pytest.mark.parametrize("existing", ["fail", "replace"])
def test_unusable_volume_of_image_is_refused_without_consent(owner, existing):
    host = scene.node(2)
    scene.owned_by_image(host, *IMAGES[owner])
    text = scene.refusal(host, existing=existing)
    assert f"the disks are set up by {owner}" in text
    assert f"to use what {owner} made, set nvme_raid0_existing: adopt" in text


@pytest.mark.parametrize("owner", IMAGES)
def test_replacing_images_volume_takes_its_unit_out_of_service(owner):
    host = scene.node(4)
    unit, mount = IMAGES[owner]
    scene.owned_by_image(host, unit, mount)
    scene.run(host, **scene.CONSENT)
    assert host.changes()[:2] == [["systemctl", "disable", "--now", unit], ["systemctl", "mask", unit]]
    assert f"/etc/systemd/system/{unit}.replaced-by-mlcluster" in host.machine.files
    assert ["vgremove", "--yes", "--force", "vg.01"] in host.calls
    assert scene.run(host) == []


@pytest.mark.parametrize("owner", IMAGES)
def test_adopted_volume_that_lost_its_record_gets_one(owner):
    host = scene.node(2)
    scene.owned_by_image(host, *IMAGES[owner])
    scene.run(host)
    del host.machine.files[RECORD_PATH]
    assert scene.run(host) == ["write_record"]
    assert scene.run(host) == []


def test_shortest_whole_mount_is_source_not_part_of_it():
    host = scene.node(2)
    scene.owned_by_image(host, *IMAGES["parallelcluster"])
    host.machine.mount("dm-0", "/x", root="/sub")
    host.machine.mount("dm-0", "/scratch/again")
    assert scene.plan_of(host).actions[0]["source"] == "/scratch"


def test_image_volume_without_service_or_mount_is_mounted():
    host = scene.node(2)
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, None)
    del host.machine.files[f"/etc/systemd/system/{scene.PCLUSTER_UNIT}"]
    mount = scene.plan_of(host).actions[0]
    assert (mount["action"], mount["device"], mount["fstype"]) == ("mount", "/dev/vg.01/lv_ephemeral", "ext4")
    scene.run(host)
    assert scene.run(host) == []


def test_inactive_volume_is_activated_and_looked_at_again():
    host = scene.node(2)
    host.machine.inside["vg.01/lv_ephemeral"] = [{"offset": "0x0", "type": "ext4", "uuid": "ab", "label": None}]
    host.machine.volume("vg.01", "lv_ephemeral", scene.store_names(host), active=False)
    assert scene.kinds(scene.plan_of(host)) == ["activate_volume"]
    assert scene.run(host)[:2] == ["activate_volume", "mount"]


def test_partial_volume_without_service_is_refused():
    host = scene.node(2)
    host.machine.volume("vg.01", "", scene.store_names(host))
    text = scene.refusal(host)
    assert "the volume of parallelcluster is unfinished and the service that finishes it does not exist" in text


def test_active_volume_without_filesystem_or_service_is_refused():
    host = scene.node(2)
    host.machine.volume("vg.01", "lv_ephemeral", scene.store_names(host))
    assert "the volume of parallelcluster is unfinished" in scene.refusal(host)


def image_script(mount):
    def script(machine):
        if "vg.01" not in machine.groups:
            machine.volume("vg.01", "lv_ephemeral", ["nvme1n1", "nvme2n1"])
            machine.sign("dm-0", "ext4", fs_uuid("ephemeral"))
        machine.mount("dm-0", mount)

    return script


def blank(host):
    host.machine.unit(scene.PCLUSTER_UNIT)


def unmounted(host):
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, None)


def half_made(host):
    host.machine.unit(scene.PCLUSTER_UNIT)
    host.machine.volume("vg.01", "", scene.store_names(host))
    host.machine.groups["vg.01"]["volumes"]["lv_ephemeral"] = "dm-0"


@pytest.mark.parametrize("prepare", [blank, unmounted])
def test_images_service_is_started_and_waited_for(prepare):
    host = scene.node(2)
    prepare(host)
    host.on_start[scene.PCLUSTER_UNIT] = image_script("/scratch")
    host.states[scene.PCLUSTER_UNIT] = ["inactive/dead", "active/running", "active/running", "inactive/dead"]
    plan = scene.plan_of(host)
    assert (plan.situation, plan.owner) == ("owner_pending", "parallelcluster")
    assert scene.kinds(plan) == ["start_unit"]
    assert scene.run(host) == ["start_unit", "bind_mount", "write_marker", "write_record"]
    assert host.clock == 1.0
    assert scene.run(host) == []


def test_partial_volume_with_service_is_left_to_service():
    host = scene.node(2)
    half_made(host)
    assert scene.kinds(scene.plan_of(host)) == ["start_unit"]


def test_failing_service_is_reported():
    host = scene.node(2)
    blank(host)
    with pytest.raises(NodeError, match="asked parallelcluster's service to set the disks up and they are still not"):
        scene.run(host)
    assert [call[:2] for call in host.changes()] == [["systemctl", "restart"]] * 2


def test_service_that_never_ends_is_reported():
    host = scene.node(2)
    blank(host)
    host.states[scene.PCLUSTER_UNIT] = ["inactive/dead", "active/running"]
    with pytest.raises(NodeError, match=r"setup-ephemeral.service is still at work after 320 seconds"):
        scene.run(host)
    assert host.clock == 320


def test_service_that_stays_active_counts_as_done():
    host = scene.node(2)
    host.machine.unit(scene.DLAMI_UNIT)
    host.on_start[scene.DLAMI_UNIT] = image_script("/opt/dlami/nvme")
    host.states[scene.DLAMI_UNIT] = ["active/exited"]
    assert scene.run(host)[0] == "start_unit"


@pytest.mark.parametrize(("at_boot", "existing"), [(True, "adopt"), (False, "fail"), (False, "replace")])
def test_blank_disks_that_service_would_take_back_are_not_used(at_boot, existing):
    host = scene.node(2)
    blank(host)
    text = scene.refusal(host, at_boot, existing=existing)
    assert "the disks are blank, but setup-ephemeral.service is enabled and takes them at every boot" in text


def test_with_consent_service_goes_first():
    host = scene.node(2)
    blank(host)
    assert scene.kinds(scene.plan_of(host, **scene.CONSENT))[:2] == ["mask_unit", "write_intent"]
    scene.run(host, **scene.CONSENT)
    assert scene.run(host) == []


def test_disabled_or_masked_service_takes_nothing():
    host = scene.node(2)
    host.machine.unit(scene.PCLUSTER_UNIT, enabled=False)
    assert scene.plan_of(host).situation == "fresh"
    blank(host)
    host.machine.links[f"/etc/systemd/system/{scene.PCLUSTER_UNIT}"] = "/dev/null"
    assert scene.plan_of(host).situation == "fresh"


def test_recreated_adopted_volume_is_reported():
    host = scene.node(2)
    scene.owned_by_image(host, *IMAGES["parallelcluster"])
    scene.run(host)
    host.machine.devices["dm-0"].signatures[0]["uuid"] = fs_uuid("another")
    assert scene.plan_of(host).state == "recreated"


def test_group_over_ebs_is_named_and_never_replaced():
    host = scene.node(2)
    host.machine.ebs("nvme9n1")
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch", ["nvme9n1"])
    text = scene.refusal(host, **scene.CONSENT)
    assert text == "cannot replace the content of the disks: volume group vg.01 also uses nvme9n1"


def test_unknown_account_is_refused_before_volume_is_adopted():
    host = scene.node(2)
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch")
    assert "there is no user nobody-here" in scene.refusal(host, owner="nobody-here", existing="adopt")
    assert scene.plan_of(host, at_boot=True, owner="nobody-here", existing="adopt").refusals == []


def test_masked_service_is_not_masked_again():
    host = scene.node(2)
    lone_ext4(host)
    host.machine.unit(scene.PCLUSTER_UNIT)
    host.machine.unit(scene.DLAMI_UNIT)
    host.machine.links[f"/etc/systemd/system/{scene.DLAMI_UNIT}"] = "/dev/null"
    masked = [action["unit"] for action in scene.plan_of(host, **scene.CONSENT).actions if "unit" in action]
    assert masked == [scene.PCLUSTER_UNIT]


def test_volume_of_image_beside_foreign_content_is_not_adopted():
    host = scene.node(3)
    host.machine.unit(scene.PCLUSTER_UNIT)
    host.machine.volume("vg.01", "lv_ephemeral", ["nvme1n1", "nvme2n1"])
    host.machine.sign("dm-0", "ext4", fs_uuid("ephemeral"))
    host.machine.mount("dm-0", "/scratch")
    assert scene.plan_of(host, existing="adopt").situation == "adopted"
    host.machine.sign("nvme3n1", "ext4", fs_uuid("theirs"), "theirs")
    assert "the content of the disks was not made by this role" in scene.refusal(host, existing="adopt")
