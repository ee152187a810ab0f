# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.storage.config import (
    ARGUMENT_SPEC,
    StorageConfig,
    config_text,
    mount_points,
    parse_config,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError

REFUSED = {
    "unknown key": ({"chunk": 512}, "the storage configuration has unknown keys: chunk"),
    "layout": ({"layout": "raid5"}, "layout is 'raid5': it must be one of raid0, per_disk, none"),
    "existing": ({"existing": "overwrite"}, "existing is 'overwrite': it must be one of adopt, replace, fail"),
    "fstype": ({"fstype": "btrfs"}, "fstype is 'btrfs': it must be one of ext4, xfs"),
    "chunk 500": ({"chunk_kib": 500}, "chunk_kib is 500: md needs a power of two from 4 to 65536"),
    "chunk 0": ({"chunk_kib": 0}, "chunk_kib is 0: md needs a power of two"),
    "chunk 2": ({"chunk_kib": 2}, "chunk_kib is 2: md needs a power of two"),
    "chunk -512": ({"chunk_kib": -512}, "chunk_kib is -512: md needs a power of two"),
    "chunk 131072": ({"chunk_kib": 131072}, "chunk_kib is 131072: md needs a power of two"),
    "relative": ({"mount_point": "data"}, "mount_point is 'data': use an absolute path"),
    "empty path": ({"mount_point": ""}, "mount_point is '': use an absolute path"),
    "dots": ({"mount_point": "/data/../etc"}, "mount_point is '/data/../etc': use an absolute path without '..'"),
    "dot": ({"mount_point": "/./data"}, "use an absolute path without '..', '.'"),
    "slash at the end": ({"mount_point": "/data/"}, "or a slash at the end"),
    "two slashes": ({"mount_point": "//data"}, "mount_point is '//data': use an absolute path"),
    "space": ({"mount_point": "/my data"}, "spaces, quotes, '#' and backslashes cannot stand in fstab"),
    "newline": ({"mount_point": "/data\n/ x"}, "cannot stand in fstab"),
    "control": ({"mount_point": "/data\x00"}, "cannot stand in fstab"),
    "hash": ({"mount_point": "/da#ta"}, "cannot stand in fstab"),
    "backslash": ({"mount_point": "/da\\040ta"}, "cannot stand in fstab"),
    "root": ({"mount_point": "/"}, "mount_point is /: the operating system lives there"),
    "home": ({"mount_point": "/home"}, "mount_point is /home: the operating system lives there"),
    "var": ({"mount_point": "/var/lib"}, "the operating system lives there; choose a path such as /data"),
    "dev": ({"mount_point": "/dev/shm/data"}, "the operating system lives there"),
    "0777": ({"mode": "0777"}, "mode is 0777: all users could delete each other's files there"),
    "0002": ({"mode": "002"}, "all users could delete each other's files there"),
    "mode words": ({"mode": "u=rwx"}, "mode is 'u=rwx': use an octal mode in quotes, such as '0755'"),
    "mode 8": ({"mode": "0785"}, "use an octal mode in quotes"),
    "discard": ({"mount_options": ["nofail", "discard"]}, "mount_options has 'discard': it slows every delete"),
    "bind": ({"mount_options": ["nofail", "bind"]}, "mount_options has 'bind': it mounts something else"),
    "offset": ({"mount_options": ["nofail", "offset=4096"]}, "mount_options has 'offset=4096': it mounts something"),
    "read-only": ({"mount_options": ["nofail", "ro"]}, "mount_options has 'ro': it mounts something else"),
    "no nofail": ({"mount_options": ["noatime"]}, "mount_options lacks 'nofail': without it a node with blank disks"),
    "two in one": ({"mount_options": ["noatime,nofail"]}, "use one entry for each option, such as noatime"),
    "option with space": ({"mount_options": ["nofail", "a b"]}, "mount_options has 'a b'"),
    "label": ({"label": "my label"}, "label is 'my label': ext4 takes 1 to 16 characters"),
    "long label": ({"label": "x" * 17}, "ext4 takes 1 to 16 characters"),
    "xfs label": ({"label": "x" * 13, "fstype": "xfs"}, "xfs takes 1 to 12 characters"),
    "empty label": ({"label": ""}, "label is ''"),
    "array name": ({"array_name": "host:data"}, "array_name is 'host:data': use 1 to 32 letters"),
    "array path": ({"array_name": "../x"}, "array_name is '../x'"),
    "array name end": ({"array_name": "data\n"}, "array_name is 'data\\n'"),
    "expected": ({"expected_disks": -1}, "expected_disks is -1: use a count of 0 or more"),
    "tolerance": ({"size_tolerance_percent": 51}, "size_tolerance_percent is 51: use 0 to 50"),
    "user": ({"users": ["../root"]}, "users has '../root': it cannot be a directory name"),
    "user dots": ({"users": [".."]}, "users has '..'"),
    "directory absolute": ({"directories": [{"path": "/etc"}]}, "directories has '/etc': use a path below"),
    "directory up": ({"directories": [{"path": "../etc"}]}, "directories has '../etc'"),
    "directory inside up": ({"directories": [{"path": "a/../../etc"}]}, "directories has 'a/../../etc'"),
    "directory dot": ({"directories": [{"path": "."}]}, "directories has '.'"),
    "directory twice": ({"directories": [{"path": "a"}, {"path": "a"}]}, "directories has 'a' twice"),
    "directory mode": (
        {"directories": [{"path": "a", "mode": "0777"}]},
        "the mode of directory a is 0777: all users could delete",
    ),
    "directory key": ({"directories": [{"path": "a", "user": "b"}]}, "a directories entry has unknown keys user"),
    "directory with NUL": ({"directories": [{"path": "a\0b"}]}, "directories has 'a\\x00b': use printable"),
    "directory with half a character": ({"directories": [{"path": "\ud800"}]}, "use printable characters"),
    "directory in place of the marker": ({"directories": [{"path": "EPHEMERAL.txt"}]}, "not the name EPHEMERAL.txt"),
    "device with NUL": ({"devices": ["/dev/a\0"]}, "devices has '/dev/a\\x00': a path has printable characters only"),
    "own directory": ({"mount_point": "/var/lib/mlcluster"}, "data that must outlive the volume are kept there"),
    "below own directory": ({"mount_point": "/etc/mlcluster/data"}, "data that must outlive the volume are kept there"),
    "automount": ({"mount_options": ["nofail", "x-systemd.automount"]}, "mount_options has 'x-systemd.automount'"),
    "directory without path": ({"directories": [{"mode": "0755"}]}, "a directories entry has no path"),
    "no devices": ({"devices": []}, "devices is an empty list: name the disks, or leave it out for all"),
    "type of chunk": ({"chunk_kib": "512"}, "chunk_kib is '512': it must be an integer"),
    "type of count": ({"expected_disks": True}, "expected_disks is True: it must be an integer"),
    "type of switch": ({"safe_mode": "false"}, "safe_mode is 'false': it must be true or false"),
    "type of mode": ({"mode": 493}, "mode is 493: it must be text"),
    "type of list": ({"devices": "/dev/nvme1n1"}, "devices is '/dev/nvme1n1': it must be a list"),
    "type of entry": ({"users": [7]}, "an entry of users is 7: it must be text"),
    "type of directory": (
        {"directories": ["scratch"]},
        "an entry of directories is 'scratch': it must be a dictionary",
    ),
    "type in directory": ({"directories": [{"path": "a", "mode": 448}]}, "directories: mode is 448: it must be text"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_setting_is_one_sentence(name):
    options, expected = REFUSED[name]
    with pytest.raises(NodeError) as refused:
        parse_config(options)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


def test_defaults_are_those_of_argument_spec():
    given = parse_config({key: spec.get("default") for key, spec in ARGUMENT_SPEC.items()})
    assert given == parse_config({}) == StorageConfig()


@pytest.mark.parametrize(
    ("fstype", "expected"),
    [
        ("ext4", ("noatime", "data=ordered", "nofail", "x-systemd.device-timeout=15s")),
        ("xfs", ("noatime", "nofail", "x-systemd.device-timeout=15s")),
    ],
)
@pytest.mark.parametrize("given", [{}, {"mount_options": None}, {"mount_options": []}])
def test_mount_options_follow_filesystem(fstype, expected, given):
    assert parse_config({"fstype": fstype, **given}).mount_options == expected


@pytest.mark.parametrize(
    ("existing", "safe_mode", "expected"),
    [("replace", False, True), ("replace", True, False), ("adopt", False, False), ("fail", False, False)],
)
def test_both_switches_are_needed_to_destroy(existing, safe_mode, expected):
    assert parse_config({"existing": existing, "safe_mode": safe_mode}).may_destroy is expected


@pytest.mark.parametrize("null", ["safe_mode", "existing", "layout", "devices", "directories"])
def test_null_means_default(null):
    assert parse_config({null: None}) == StorageConfig()


@pytest.mark.parametrize("mode", ["0755", "755", "2775", "1777", "0700"])
def test_sticky_and_private_modes_are_accepted(mode):
    assert parse_config({"mode": mode}).mode == mode


def test_entry_without_options_has_defaults():
    (directory,) = parse_config({"directories": [{"path": "a/b", "mode": None}]}).directories
    assert (directory.path, directory.owner, directory.mode, directory.per_user) == ("a/b", "root", "0755", False)


def test_text_for_boot_unit_reads_back_as_same_configuration():
    config = parse_config(
        {
            "devices": ["/dev/a"],
            "users": ["ana"],
            "directories": [{"path": "s", "per_user": True}],
            "layout": "per_disk",
        }
    )
    text = config_text(config)
    assert parse_config(json.loads(text)) == config
    assert config_text(parse_config(json.loads(text))) == text
    assert json.loads(text)["schema"] == "mlcluster.storage_config/1"


@pytest.mark.parametrize(
    ("layout", "expected"),
    [("raid0", ["/data"]), ("none", []), ("per_disk", ["/data/disk0", "/data/disk1"])],
)
def test_mount_points_of_volumes(layout, expected):
    assert mount_points(parse_config({"layout": layout}), 2) == expected
