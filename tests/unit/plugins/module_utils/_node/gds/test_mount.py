# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.mount import block_devices, resolve
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.mounts import parse_mountinfo

from tests.unit.fakes.fake_gds_host import EBS, GdsHost, node, raid0


def answer(host, path):
    return resolve(path, parse_mountinfo(host.read_text("/proc/self/mountinfo")), block_devices(host))


def brief(found):
    return found["mount_point"], found["layout"], [disk["kname"] for disk in found["disks"]]


def test_one_disk():
    found = answer(node(), "/data/train/shard-0001")
    assert brief(found) == ("/data", "disk", ["nvme1n1"])
    assert (found["fstype"], found["source"], found["bind"], found["kname"]) == (
        "xfs",
        "/dev/nvme1n1",
        False,
        "nvme1n1",
    )
    assert found["options"] == ["rw", "noatime", "attr2"]
    assert found["disks"] == [
        {
            "kname": "nvme1n1",
            "model": "Amazon EC2 NVMe Instance Storage",
            "transport": "pcie",
            "integrity": False,
        }
    ]


def test_partition_leads_to_its_disk():
    host = node()
    host.disk("nvme0n1", "259:9", model=EBS)
    host.disk("nvme0n1p1", "259:0", model="", partition="1\n")
    host.links["/sys/class/block/nvme0n1p1"] = "/sys/devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p1"
    found = answer(host, "/home")
    assert brief(found) == ("/", "disk", ["nvme0n1"])
    assert found["disks"][0]["model"] == EBS


def test_md():
    host = node()
    raid0(host)
    found = answer(host, "/raid")
    assert brief(found) == ("/raid", "md", ["nvme2n1", "nvme3n1"])
    assert found["md_level"] == "raid0"


def test_lvm_alone_and_over_md():
    host = node()
    raid0(host)
    host.disk("dm-0", "252:0", model="", slaves=("nvme1n1",), dm__uuid="LVM-abcdef\n")
    host.disk("dm-1", "252:1", model="", slaves=("md127",), dm__uuid="LVM-abcdee\n")
    host.disk("dm-2", "252:2", model="", slaves=("nvme1n1",), dm__uuid="CRYPT-LUKS2-abc\n")
    for number, path in ((0, "/scratch"), (1, "/both"), (2, "/secret")):
        host.mount(f"252:{number} / {path} rw - ext4 /dev/mapper/x rw")
    assert brief(answer(host, "/scratch")) == ("/scratch", "lvm", ["nvme1n1"])
    both = answer(host, "/both")
    assert (*brief(both), both["md_level"]) == ("/both", "lvm", ["nvme2n1", "nvme3n1"], "raid0")
    assert brief(answer(host, "/secret")) == ("/secret", "dm", ["nvme1n1"])


@pytest.mark.parametrize(
    ("line", "layout"),
    [
        ("0:50 / /x rw - lustre 10.0.0.1@tcp:/fsx rw,flock", "network"),
        ("0:51 / /x rw - nfs4 10.0.0.2:/ rw", "network"),
        ("0:52 / /x rw - tmpfs tmpfs rw", "memory"),
        ("0:53 / /x rw - overlay overlay rw,lowerdir=/a", "stacked"),
        ("0:54 / /x rw - zfs pool/x rw", "other"),
    ],
)
def test_mounts_without_disk(line, layout):
    host = node()
    host.mount(line)
    found = answer(host, "/x/y")
    assert brief(found) == ("/x", layout, [])


def test_bind_mount_is_reported():
    host = node()
    host.mount("259:1 /enroot /var/lib/enroot rw - xfs /dev/nvme1n1 rw")
    found = answer(host, "/var/lib/enroot")
    assert (*brief(found), found["bind"]) == ("/var/lib/enroot", "disk", ["nvme1n1"], True)


def test_btrfs_subvolume_is_found_by_source_and_is_no_bind_mount():
    host = node()
    host.mount("0:60 /@data /sub rw - btrfs /dev/nvme1n1 rw")
    found = answer(host, "/sub")
    assert (*brief(found), found["bind"]) == ("/sub", "disk", ["nvme1n1"], False)


def test_last_mount_on_place_counts():
    host = node()
    host.mount("0:52 / /data rw - tmpfs tmpfs rw")
    assert answer(host, "/data")["layout"] == "memory"


def test_no_mount_at_all():
    found = resolve("/data", [], {})
    assert (found["mount_point"], found["layout"], found["disks"]) == (None, "unknown", [])


def test_members_that_point_at_each_other_end():
    host = GdsHost()
    host.disk("dm-0", "252:0", model="", slaves=("dm-1",), dm__uuid="LVM-a")
    host.disk("dm-1", "252:1", model="", slaves=("dm-0",), dm__uuid="LVM-b")
    host.mount("252:0 / / rw - ext4 /dev/dm-0 rw")
    assert brief(answer(host, "/")) == ("/", "lvm", [])


def test_integrity_and_its_absence():
    host = node()
    host.disk("nvme5n1", "259:5", integrity__device_is_integrity_capable="1\n")
    host.disk("vda", "254:0", model="")
    devices = block_devices(host)
    assert [devices[name]["integrity"] for name in ("nvme1n1", "nvme5n1", "vda")] == [False, True, None]
