# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Content on the mount point, below it or over it."""

from __future__ import annotations

import pytest

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.fakes.fake_machine import fs_uuid

IN_THE_WAY = {
    "another filesystem": (
        lambda host: host.machine.mount("nvme9n1", "/data", "xfs"),
        "/data already carries /dev/nvme9n1 (xfs): unmount it",
    ),
    "a network filesystem": (
        lambda host: host.machine.mount(None, "/data", "lustre", source="10.0.0.1@tcp:/abc"),
        "/data already carries 10.0.0.1@tcp:/abc (lustre)",
    ),
    "an automount": (
        lambda host: host.machine.mount(None, "/data", "autofs", source="systemd-1"),
        "/data already carries systemd-1 (autofs)",
    ),
    "a link": (
        lambda host: host.machine.links.update({"/data": "/mnt"}),
        "/data is a link, or leads through one, to /mnt: remove the link",
    ),
    "a line of fstab": (
        lambda host: host.machine.files.update({"/etc/fstab": "LABEL=mine /data xfs noauto 0 0\n"}),
        "/etc/fstab mounts LABEL=mine on /data: take that line out",
    ),
    "a line of fstab in another spelling": (
        lambda host: host.machine.files.update({"/etc/fstab": "LABEL=mine /d\\141ta/ xfs noauto 0 0\n"}),
        "/etc/fstab mounts LABEL=mine on /data: take that line out",
    ),
    "a file": (lambda host: host.machine.files.update({"/data": ""}), "/data is a file: remove it"),
    "files": (
        lambda host: (
            [host.machine.directories.update({"/data": {"mode": "0755", "uid": 0, "gid": 0}})]
            + [host.machine.files.update({"/data/a": "", "/data/b": "", "/data/lost+found": ""})]
        ),
        "/data has 2 entries on the root filesystem that the volume would hide",
    ),
}


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_content_of_mount_point_is_not_hidden(name):
    prepare, expected = IN_THE_WAY[name]
    host = scene.node(2)
    host.machine.ebs("nvme9n1")
    prepare(host)
    assert expected in scene.refusal(host)


def test_empty_directory_hides_nothing():
    host = scene.node(2)
    for path in ("/data", "/data/disk0"):
        host.machine.directories[path] = {"mode": "0755", "uid": 0, "gid": 0}
    assert scene.plan_of(host).situation == "fresh"


def test_mount_below_is_not_hidden_either():
    host = scene.node(2)
    host.machine.ebs("nvme9n1")
    host.machine.mount("nvme9n1", "/data/ebs")
    assert "/data/ebs would be hidden below /data: unmount it" in scene.refusal(host)


@pytest.mark.parametrize(("first", "second"), [("per_disk", "raid0"), ("raid0", "per_disk")])
def test_one_layout_may_follow_other_with_consent(first, second):
    host = scene.converged(2, layout=first)
    scene.refusal(host, layout=second)
    scene.run(host, layout=second, **scene.CONSENT)
    assert scene.run(host, layout=second) == []


@pytest.mark.parametrize(("first", "second"), [("/data", "/data/nvme"), ("/data/nvme", "/data")])
def test_mount_point_may_move_up_and_down(first, second):
    host = scene.converged(2, mount_point=first)
    scene.run(host, mount_point=second)
    assert scene.run(host, mount_point=second) == []


def test_files_on_mount_point_do_not_block_volume_at_boot():
    host = scene.node(2)
    IN_THE_WAY["files"][0](host)
    assert scene.plan_of(host, True).situation == "fresh"


def test_overmounted_volume_is_not_mounted():
    host = scene.converged(2)
    host.machine.ebs("nvme9n1")
    host.machine.mount("nvme9n1", "/data")
    plan = scene.plan_of(host)
    assert plan.volumes[0]["mounted"] is False
    assert "/data already carries /dev/nvme9n1 (ext4)" in scene.refusal(host)


def test_line_of_fstab_for_adopted_volume_is_its_own():
    host = scene.node(2)
    scene.owned_by_image(host, scene.PCLUSTER_UNIT, "/scratch")
    host.machine.files["/etc/fstab"] = f"UUID={fs_uuid('ephemeral')} /data ext4 nofail 0 0\n"
    assert scene.plan_of(host).refusals == []
    host.machine.files["/etc/fstab"] = f"UUID={fs_uuid('another')} /data ext4 nofail 0 0\n"
    assert "/etc/fstab mounts UUID=" in scene.refusal(host)
