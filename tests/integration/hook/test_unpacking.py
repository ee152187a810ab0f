# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundles with a right checksum and bad content: none of their files gets out of their directory."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import tarfile

import pytest

from tests.integration.hook.test_failures import failed, finished


def test_bundle_damaged_on_disk_is_unpacked_again(node, bundle):
    words = ["--bundle", str(bundle[0]), "--sha256", bundle[1], "--roles", "mark"]
    finished(node, node.run(*words))
    # The file is empty, as after a power loss before it reached the disk.
    (node.root / "opt/mlcluster/bundles" / bundle[1] / "mlcluster-bundle/bin/run-node").write_text("")
    ran = node.run(*words)
    # The damage is detected before the bundle runs.
    finished(node, ran, changed=0)
    assert "has changed since it was unpacked" in ran.log and "the bundle's runner ended" not in ran.log


def respun(source, target, change):
    """Write the bundle with members changed by ``change(member, text)`` (None: unchanged); return a run's options."""
    with tarfile.open(source) as old, tarfile.open(target, "w:gz", compresslevel=1) as new:
        for member in old:
            data = old.extractfile(member).read() if member.isreg() else b""
            data = change(member, data)
            member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    sha = hashlib.sha256(target.read_bytes()).hexdigest()
    return ["--bundle", str(target), "--sha256", sha, "--roles", "mark"], sha


@pytest.fixture
def open_umask():
    """The umask of a caller whose files anyone may write."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_unpacked_files_are_writable_by_root_only(node, bundle, tmp_path, open_umask):
    def open_to_all(member, data):
        member.mode = 0o6777
        member.uid = member.gid = 12345
        return data

    words, sha = respun(bundle[0], tmp_path / "open.tar.gz", open_to_all)
    finished(node, node.run(*words))
    home = node.root / "opt/mlcluster"
    found = [(path, path.lstat()) for path in (home, *home.rglob("*")) if not path.is_symlink()]
    assert {(status.st_uid, status.st_gid) for _path, status in found} == {(os.getuid(), os.getgid())}
    assert [str(path) for path, status in found if status.st_mode & 0o022] == []
    tree = node.root / "opt/mlcluster/bundles" / sha / "mlcluster-bundle"
    paths = [tree / "MANIFEST.json", tree / "bin/run-node", tree / "hooks/mlcluster_boot/main.py"]
    assert [oct(path.stat().st_mode & 0o7777) for path in paths] == ["0o755"] * 3


def leaving(source, target, *members):
    """Write the bundle with these additional members; return the options of a run with it."""
    words, _sha = respun(source, target, lambda _member, data: data)
    with gzip.open(target) as packed:
        whole = io.BytesIO(packed.read())
    with tarfile.open(fileobj=whole, mode="a") as archive:
        for name, link in members:
            member = tarfile.TarInfo(name)
            if link:
                member.type, member.linkname = tarfile.SYMTYPE, link
            archive.addfile(member, io.BytesIO())
    target.write_bytes(gzip.compress(whole.getvalue(), 1))
    return [*words[:3], hashlib.sha256(target.read_bytes()).hexdigest(), *words[4:]]


def test_member_with_outside_path_stays_inside(node, bundle, tmp_path):
    words = leaving(bundle[0], tmp_path / "up.tar.gz", ("mlcluster-bundle/../../../../../../escaped", ""))
    failed(node, node.run(*words), "could not unpack the bundle into", "escaped: Member name contains '..'")
    assert not list(tmp_path.rglob("escaped"))


def test_member_with_outside_link_stays_inside(node, bundle, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    way = [("mlcluster-bundle/way", str(outside)), ("mlcluster-bundle/way/escaped", "")]
    failed(
        node,
        node.run(*leaving(bundle[0], tmp_path / "link.tar.gz", *way)),
        "could not unpack the bundle into",
        "mlcluster-bundle/way/escaped: Cannot open: Not a directory",
    )
    assert not list(outside.iterdir())


def test_manifest_with_wrong_python_is_rejected(node, bundle, tmp_path):
    def lie(member, data):
        return data.replace(f'"3.{sys.version_info[1]}"'.encode(), b'"3.99"') if "MANIFEST" in member.name else data

    words, _sha = respun(bundle[0], tmp_path / "lie.tar.gz", lie)
    failed(node, node.run(*words), "this node has no Python 3.99 or newer")
