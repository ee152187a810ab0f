# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import mounts
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host, NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.mounts import find_mount, parse_mountinfo

from tests.unit.fakes.fake_gds_host import node


def test_mountinfo_fields_escapes_and_broken_lines():
    text = (
        "30 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "31 30 0:35 /@home /with\\040space rw - btrfs /dev/nvme1n1 rw,subvol=/@home\n"
        "32 30 0:41 / /fsx rw - lustre 10.0.0.1@tcp:/abc rw,flock\n"
        "33 30 0:42 / /plain rw - tmpfs tmpfs\n"
        "too short\n"
        "34 30 0:43 / /nothing rw - \n"
    )
    mounts = parse_mountinfo(text)
    assert [mount["target"] for mount in mounts] == ["/", "/with space", "/fsx", "/plain"]
    assert mounts[1] == {
        "target": "/with space",
        "source": "/dev/nvme1n1",
        "fstype": "btrfs",
        "options": "rw,rw,subvol=/@home",
        "device": "0:35",
        "root": "/@home",
    }
    assert mounts[2]["source"] == "10.0.0.1@tcp:/abc"


def test_mount_point_with_unescaped_separator_is_one_line():
    line = "36 25 259:1 / /mnt/a\x0cb\u2028c rw - ext4 /dev/nvme1n1 rw"
    assert [mount["target"] for mount in parse_mountinfo(line + "\n")] == ["/mnt/a\x0cb\u2028c"]


@pytest.mark.parametrize(("path", "expected"), [("/data", "/data"), ("/data2", "/"), ("/datax/y", "/"), ("/", "/")])
def test_name_that_only_begins_alike_is_another_place(path, expected):
    mounts = parse_mountinfo(node().read_text("/proc/self/mountinfo"))
    assert find_mount(path, mounts)["target"] == expected


def test_last_of_several_mounts_on_target_is_found():
    lines = [f"{number} 1 0:{number} / /data rw - tmpfs source{number} rw" for number in (30, 31)]
    assert find_mount("/data/x", parse_mountinfo("\n".join(lines)))["source"] == "source31"


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("/data", "data.mount"),
        ("/a/b-c", "a-b\\x2dc.mount"),
        ("/a/.b", "a-.b.mount"),
        ("/.a", "\\x2ea.mount"),
        ("/a b", "a\\x20b.mount"),
        ("/é", "\\xc3\\xa9.mount"),
    ],
)
def test_mount_unit_is_escaped_as_systemd_does(path, unit):
    # Compared with systemd-escape --path --suffix=mount of systemd 252.
    assert mounts.mount_unit(path) == unit


def test_fstab_without_comments_and_broken_lines():
    text = "# UUID=1 /a ext4 defaults 0 0\n\nUUID=2 /b xfs nofail\nbroken line\nfs:/c /c nfs4 ro 0 2 x\n"
    assert mounts.parse_fstab(text) == [
        {"src": "UUID=2", "path": "/b", "fstype": "xfs", "opts": "nofail", "dump": "0", "passno": "0"},
        {"src": "fs:/c", "path": "/c", "fstype": "nfs4", "opts": "ro", "dump": "0", "passno": "2"},
    ]


class Files(Host):
    def read_text(self, path):
        return {mounts.MOUNTINFO: "30 1 254:0 / / rw - ext4 /dev/vda rw\n"}.get(path)

    def exists(self, path):
        return path == mounts.MOUNTINFO


class OneFile(Host):
    """A machine whose mount table and fstab are these texts; None: it cannot be read."""

    def __init__(self, text):
        self.text = text

    def read_text(self, path):
        return self.text

    def exists(self, path):
        return True


ROOT = "30 1 254:0 / / rw - ext4 /dev/vda rw"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, "no table"),
        ("", "an empty table"),
        ("\n", "an empty table"),
        (f"{ROOT}\n31 1 254:1 / /data rw ext4\n", "a line that is not a mount"),
        (f"{ROOT}\n31 1 254:1 / /da", "a line that is not a mount"),
    ],
)
def test_unreadable_mount_table_is_not_empty_one(text, found):
    with pytest.raises(NodeError, match=f"and found {found}, so it is unknown what is mounted: mount /proc"):
        mounts.read_mounts(OneFile(text))


@pytest.mark.parametrize("text", [ROOT, f"{ROOT}\n"])
def test_whole_mount_table_is_read(text):
    assert [mount["target"] for mount in mounts.read_mounts(OneFile(text))] == ["/"]


def test_unreadable_fstab_is_not_empty_one():
    with pytest.raises(NodeError, match="read /etc/fstab and got nothing"):
        mounts.read_fstab(OneFile(None))


def test_machine_without_fstab_has_no_lines():
    assert [mount["source"] for mount in mounts.read_mounts(Files())] == ["/dev/vda"]
    assert mounts.read_fstab(Files()) == []


@pytest.mark.parametrize(
    ("written", "path", "same"),
    [
        ("/data", "/data", True),
        ("/data/", "/data", True),
        ("//data", "/data", True),
        ("/a/./b", "/a/b", True),
        ("/with\\040blank", "/with blank", True),
        ("/data/more", "/data", False),
        ("none", "/data", False),
        ("/", "/", True),
    ],
)
def test_path_in_fstab_has_several_spellings(written, path, same):
    assert mounts.mounts_on({"path": written}, path) is same
