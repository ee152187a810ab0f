# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Directories are created on the real file system; lfs is the one of lustre_host."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.lustre import directories as lustre_directories
from ansible_collections.mlcluster.aws.plugins.modules import lustre_directories as module

from tests.unit.fakes.fake_lustre_host import ME, MY_GROUP, LustreHost

ALL = [{"count": -1, "size": "16M"}]
GROWING = [{"end": "100M", "count": 1}, {"end": "10G", "count": 8}, {"count": 16}]


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(lustre_directories, "LOCK_PATH", str(tmp_path / "lock" / "lustre.lock"))
    return LustreHost(tmp_path)


@pytest.fixture
def make(host, run_module):
    """make(mount, {below: settings}, check) returns the module's result."""

    def run(mount, wanted, check=False):
        entries = [{"path": f"{mount}/{name}", "owner": ME, "group": MY_GROUP, **more} for name, more in wanted.items()]
        return run_module(module, host, check, file_systems=[{"path": mount}], directories=entries)

    return run


def mode_of(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_missing_directories_are_created_with_parents(host, make):
    mount = host.mount("fsx")
    answer = make(mount, {"checkpoints/model1": {"stripe": ALL}, "logs": {"mode": "0750"}})
    assert answer["created"] == [f"{mount}/checkpoints", f"{mount}/checkpoints/model1", f"{mount}/logs"]
    assert [mode_of(path) for path in answer["created"]] == [0o2775, 0o2775, 0o750]
    assert ["lfs", "setstripe", "-c", "-1", "-S", "16M", "."] in host.ran
    assert sum(argv[:2] == ["lfs", "setstripe"] for argv in host.ran) == 1


def test_second_run_changes_nothing_and_finds_no_difference(host, make):
    mount = host.mount("fsx")
    wanted = {"a": {"stripe": ALL}, "b/c": {"stripe": GROWING}}
    make(mount, wanted)
    answer = make(mount, wanted)
    assert (answer["changed"], answer["created"], answer["differences"]) == (False, [], [])


def test_check_mode_predicts_and_creates_nothing(host, make):
    mount = host.mount("fsx")
    answer = make(mount, {"a/b": {}}, check=True)
    assert (answer["changed"], answer["created"]) == (True, [f"{mount}/a", f"{mount}/a/b"])
    assert answer["diff"]["after"] == f"{mount}/a\n{mount}/a/b\n"
    assert os.listdir(mount) == []


def test_existing_directory_is_unchanged_and_reported(host, make):
    mount = host.mount("fsx")
    os.mkdir(f"{mount}/logs", 0o700)
    Path(mount, "logs", "kept").write_text("kept", encoding="utf-8")
    answer = make(mount, {"logs": {"stripe": ALL}, "logs/model1": {}})
    assert answer["created"] == [f"{mount}/logs/model1"]
    assert mode_of(f"{mount}/logs") == 0o700
    (difference,) = answer["differences"]
    assert difference.startswith(f"{mount}/logs exists and was left as it is: mode is 0700 instead of 2775")
    assert "its stripe layout could not be read" in difference
    assert not any(argv[:2] == ["lfs", "setstripe"] for argv in host.ran)


def test_different_layout_is_reported(host, make):
    mount = host.mount("fsx")
    make(mount, {"a": {"stripe": GROWING}})
    (difference,) = make(mount, {"a": {"stripe": ALL}})["differences"]
    assert "layout is to 104857600: 1 OST of 1048576; to 10737418240: 8 OSTs" in difference
    assert difference.endswith("instead of all OSTs of 16777216")


def test_shorter_list_of_models_deletes_nothing(host, make):
    mount = host.mount("fsx")
    make(mount, {"one": {}, "two": {}})
    answer = make(mount, {"two": {}})
    assert not answer["changed"]
    assert sorted(os.listdir(mount)) == ["one", "two"]


@pytest.mark.parametrize("where", ["logs", "logs/model1"])
def test_no_link_is_followed(host, make, tmp_path, where):
    mount = host.mount("fsx")
    target = tmp_path / "elsewhere"
    target.mkdir()
    os.symlink(target, f"{mount}/logs")
    answer = make(mount, {where: {}})
    assert "a link or a file is in its place" in answer["msg"]
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("kind", ["tmpfs", "nfs", "hangs"])
def test_nothing_is_created_on_other_file_systems(host, make, kind):
    mount = host.mount("fsx", kind)
    assert "is not proved to be its Lustre file system, so nothing is done below it" in make(mount, {"a": {}})["msg"]
    assert os.listdir(mount) == []


@pytest.mark.parametrize(
    "names",
    [
        {"mount_name": "other"},
        {"mount_name": "fsx"},
        {"mount_name": "abcdefgh", "dns_name": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com"},
    ],
)
def test_nothing_is_created_on_another_lustre(host, run_module, names):
    mount = host.mount("fsx")
    host.address = "10.0.1.9"
    if names["mount_name"] == "fsx":
        host.source[mount] = "10.0.1.7@tcp:/fsx"
    entries = [{"path": f"{mount}/a", "owner": ME, "group": MY_GROUP}]
    answer = run_module(module, host, file_systems=[{"path": mount, **names}], directories=entries)
    assert "is not proved to be its Lustre file system, so nothing is done below it" in answer["msg"]
    assert os.listdir(mount) == []


def test_nothing_is_created_on_unmounted_automount(host, make):
    mount = host.mount("fsx")
    host.autofs.add(mount)
    assert "is not proved to be its Lustre file system" in make(mount, {"a": {}})["msg"]


def test_unknown_account_stops_before_first_directory(host, make):
    mount = host.mount("fsx")
    answer = make(mount, {"a": {}, "b": {"group": "missing-group"}})
    assert (
        answer["msg"]
        == f"{mount}/b is to belong to group missing-group, which this node does not have: create it first"
    )
    assert os.listdir(mount) == []


def test_incomplete_directory_of_killed_run_is_replaced(host, make):
    mount = host.mount("fsx")
    os.mkdir(f"{mount}/.mlcluster-new.a")
    make(mount, {"a": {}})
    assert os.listdir(mount) == ["a"]


def test_rejected_layout_leaves_no_directory(host, make):
    mount = host.mount("fsx")
    host.broken["lfs"] = "setstripe: Invalid argument"
    answer = make(mount, {"a": {"stripe": ALL}})
    assert "was not created, since its stripe layout could not be set" in answer["msg"]
    assert "Invalid argument" in answer["msg"]
    assert os.listdir(mount) == []


def test_acl_is_set_on_open_directory(host, make, monkeypatch):
    mount, written = host.mount("fsx"), {}
    monkeypatch.setattr(os, "setxattr", lambda handle, name, value: written.update({name: value}))
    entry = f"group:{MY_GROUP}:rwx"
    make(mount, {"a": {"mode": "2770", "acl": [entry, f"default:{entry}"]}})
    assert sorted(written) == ["system.posix_acl_access", "system.posix_acl_default"]
