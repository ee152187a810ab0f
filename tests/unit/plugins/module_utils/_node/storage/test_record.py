# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of the node's volume after a run."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage import converge as storage

from tests.unit.fakes import fake_storage_scene as scene
from tests.unit.plugins.module_utils._node.storage.test_converge import record_of


def test_record_after_first_run():
    record = record_of(scene.converged(2))
    assert record["schema"] == "mlcluster.local_storage/1"
    assert (record["state"], record["owner"], record["layout"], record["fstype"]) == ("intact", "ours", "raid0", "ext4")
    assert (record["device"], record["chunk_kib"], record["array_name"]) == ("/dev/md127", 512, "mlcluster")
    assert record["size_bytes"] == (200 << 30) * 98 // 100
    assert record["created_at"] == record["updated_at"] == "2026-01-02T03:04:05Z"
    assert record["disks"][0] == {"serial": "AWS0001", "path": "/dev/nvme1n1", "size": 100 << 30}
    assert record["mount_options"] == ["noatime", "data=ordered"]
    assert record["volumes"][0]["device"] == "/dev/md127"


def test_record_of_per_disk_names_top():
    record = record_of(scene.converged(2, layout="per_disk"))
    assert (record["path"], record["array_uuid"], record["chunk_kib"]) == ("/data", None, None)
    assert [volume["path"] for volume in record["volumes"]] == ["/data/disk0", "/data/disk1"]


def test_refusal_changes_record_only_at_boot():
    host = scene.converged(4)
    before = record_of(host)
    host.machine.unmount("/data")
    host.machine.devices.pop("md127")
    host.machine.devices.pop("nvme2n1")
    with pytest.raises(storage.RefusedError):
        scene.run(host)
    assert record_of(host) == before
    with pytest.raises(storage.RefusedError):
        scene.run(host, at_boot=True)
    after = record_of(host)
    assert after["state"] == "lost"
    assert "(AWS0002)" in after["reason"]
    for key in ("serials", "array_uuid", "filesystem_uuids", "volumes", "path"):
        assert after[key] == before[key]


def test_boot_with_intact_volume_renews_record():
    host = scene.converged(2)
    host.machine.files["/proc/sys/kernel/random/boot_id"] = "boot-2\n"
    assert scene.run(host, at_boot=True) == []
    assert record_of(host)["boot_id"] == "boot-2"


def test_boot_without_disks_records_none():
    host = scene.node(0)
    scene.run(host, at_boot=True)
    record = record_of(host)
    assert (record["state"], record["layout"], record["volumes"], record["path"]) == ("none", "none", [], None)
    assert scene.run(host) == []
