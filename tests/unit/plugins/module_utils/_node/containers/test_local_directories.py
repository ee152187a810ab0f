# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The directory for images: the local volume, a given directory, a known mount, or a fallback with a warning."""

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.enroot_conf import LOCAL_LINK
from ansible_collections.mlcluster.aws.plugins.module_utils._node.containers.local_directories import (
    LocalConfig,
    choose,
    config_problems,
    is_prepared,
    prepare,
)
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import NodeError
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.mounts import read_mounts
from ansible_collections.mlcluster.aws.tests.unit.fakes import fake_rooted_host as rooted

RECORD = "/var/lib/mlcluster/local_storage.json"


@pytest.fixture
def host(tmp_path):
    return rooted.node(tmp_path)


def test_mounted_volume_of_record_is_used(host):
    host.put(RECORD, '{"state": "intact", "path": "/data"}')
    assert choose(host, LocalConfig()).kind == "fallback"
    assert "the local volume /data is not mounted" in choose(host, LocalConfig()).warning
    rooted.mount(host, "/data", "xfs")
    place = choose(host, LocalConfig())
    assert (place.path, place.kind, place.fstype, place.warning) == ("/data/containers", "volume", "xfs", "")


def test_known_mounts_are_used(host):
    rooted.mount(host, "/scratch", "ext4")
    assert choose(host, LocalConfig()).path == "/scratch/containers"
    rooted.mount(host, "/opt/dlami/nvme", "ext4")
    assert choose(host, LocalConfig()).path == "/opt/dlami/nvme/containers"


def test_known_mount_on_shared_filesystem_is_skipped(host):
    rooted.mount(host, "/scratch", "lustre")
    assert choose(host, LocalConfig()).kind == "fallback"


@pytest.mark.parametrize(("fstype", "name"), [("nfs4", "NFS"), ("lustre", "Lustre"), ("efs", "EFS")])
def test_given_directory_on_shared_filesystem_is_rejected(host, fstype, name):
    rooted.mount(host, "/fsx", fstype)
    with pytest.raises(NodeError, match=f"/fsx/x/containers, which is {name}: Enroot cannot unpack there"):
        choose(host, LocalConfig(local_dir="/fsx/x"))
    with pytest.raises(NodeError, match=f"/fsx/y, which is {name}"):
        choose(host, LocalConfig(fallback="/fsx/y"))


def test_missing_volume_without_fallback_is_rejected(host):
    with pytest.raises(NodeError, match="no local NVMe volume was found and enroot_pyxis_fallback_dir is empty"):
        choose(host, LocalConfig(fallback=""))


def test_directory_and_link_follow_the_boot(host):
    place = prepare(host, LocalConfig())
    assert place.kind == "fallback"
    assert host.stat(place.path)["mode"] == "1777"
    assert host.link_target(LOCAL_LINK) == "/var/lib/mlcluster-containers"
    assert is_prepared(host, place)
    host.put(RECORD, '{"state": "recreated", "path": "/data"}')
    rooted.mount(host, "/data", "ext4")
    place = choose(host, LocalConfig())
    assert not is_prepared(host, place)
    prepare(host, LocalConfig())
    assert host.link_target(LOCAL_LINK) == "/data/containers"
    host.folder("/data/containers", 0o755)
    assert not is_prepared(host, place)


@pytest.mark.parametrize(
    ("mode", "uid", "names", "refused"),
    [
        (0o1777, 0, ["enroot-0"], False),
        (0o755, 0, [], False),
        (0o755, 0, ["precious"], True),
        (0o1777, 1000, [], True),
        (0o700, 1000, [], True),
    ],
)
def test_fallback_that_is_used_for_something_else_stays(host, monkeypatch, mode, uid, names, refused):
    """All users may write to it afterwards."""
    host.folder("/images", mode)
    for name in names:
        host.put(f"/images/{name}")
    state = {**host.stat("/images"), "uid": uid}
    monkeypatch.setattr(host, "stat", lambda path: state)
    if not refused:
        assert choose(host, LocalConfig(fallback="/images")).path == "/images"
        return
    with pytest.raises(NodeError, match=f"enroot_pyxis_fallback_dir is /images, which has owner {uid}, mode"):
        prepare(host, LocalConfig(fallback="/images"))
    assert host.is_dir("/images") and host.link_target(LOCAL_LINK) is None


@pytest.mark.parametrize("config", [LocalConfig(), LocalConfig(local_dir="/scratch")])
@pytest.mark.parametrize(
    ("mode", "uid", "names", "refused"),
    [
        (0o755, 0, ["user-1000", "user-0"], False),
        (0o755, 0, [], False),
        (0o700, 0, ["user-1000", "thesis"], True),
        (0o755, 0, ["user-name"], True),
        (0o750, 1000, [], True),
        (0o1777, 1000, [], True),
    ],
)
def test_directory_of_a_user_on_the_volume_stays(host, monkeypatch, config, mode, uid, names, refused):
    rooted.mount(host, "/scratch", "ext4")
    host.folder("/scratch/containers", mode)
    for name in names:
        host.folder(f"/scratch/containers/{name}")
    stat, state = host.stat, {**host.stat("/scratch/containers"), "uid": uid}
    monkeypatch.setattr(host, "stat", lambda path: state if path == "/scratch/containers" else stat(path))
    if not refused:
        prepare(host, config)
        assert stat("/scratch/containers")["mode"] == "1777"
        return
    with pytest.raises(NodeError, match=r"enroot_pyxis_local_subdirectory makes the directory /scratch/containers, "):
        prepare(host, config)
    assert stat("/scratch/containers")["mode"] == f"{mode:04o}"


def test_directory_in_place_of_link_is_reported(host):
    host.folder(LOCAL_LINK)
    with pytest.raises(NodeError, match="is a directory where a link"):
        prepare(host, LocalConfig())


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (LocalConfig(local_dir="data"), "local_dir is 'data': use an absolute path"),
        (LocalConfig(local_dir="/a/../b"), "without '..'"),
        (LocalConfig(local_dir="/a b"), "would be evaluated by Enroot"),
        (LocalConfig(fallback="/a$(id)"), "would be evaluated by Enroot"),
        (LocalConfig(subdirectory="a/b"), "subdirectory is 'a/b'"),
        (LocalConfig(subdirectory=""), "subdirectory is ''"),
    ],
)
def test_bad_settings_are_rejected(config, words):
    assert words in "; ".join(config_problems(config))


def test_good_settings_are_accepted():
    assert config_problems(LocalConfig()) == []
    assert config_problems(LocalConfig(local_dir="/opt/dlami/nvme", fallback="")) == []


def test_mount_with_special_characters_is_found(host):
    """The kernel escapes space, tab, line feed and backslash, but no other white space."""
    rooted.mount(host, "/home/u/a\x0bb\\040c\\134d", "fuse")
    assert read_mounts(host)[-1]["target"] == "/home/u/a\x0bb c\\d"
