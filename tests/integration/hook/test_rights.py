# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Protection of the hook from other users of its node: lock, unpacked bundles, variables, command lines."""

from __future__ import annotations

import os
import stat

import pytest

from tests.integration.hook.conftest import BOOT, BUCKET
from tests.integration.hook.test_failures import BUNDLE_PATH, failed, finished
from tests.integration.hook.test_orders import with_program

SOMEBODY = 12345
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")


@pytest.mark.parametrize("before", [None, 0o644], ids=["fresh", "older"])
def test_lock_is_accessible_to_root_only(node, wanted, before):
    lock = node.root / "run/mlcluster/hook.lock"
    if before:
        lock.parent.mkdir(parents=True)
        lock.touch(before)
    finished(node, node.run(*wanted))
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    assert stat.S_IMODE(lock.parent.stat().st_mode) == 0o755 and lock.parent.stat().st_uid == os.getuid()


@pytest.mark.parametrize(
    "place", ["run/mlcluster", "var/lib/mlcluster", "opt", "opt/mlcluster", "opt/mlcluster/bundles"]
)
@pytest.mark.parametrize("fault", ["mode", pytest.param("owner", marks=as_root)])
def test_directory_writable_by_others_is_rejected(node, wanted, proxy, place, fault):
    folder = node.root / place
    folder.mkdir(parents=True)
    if fault == "mode":
        folder.chmod(0o777)
    else:
        os.chown(folder, SOMEBODY, SOMEBODY)
    failed(node, node.run(*wanted), "others may write where", f"{folder} (owner", "set owner root and mode 0755")
    assert proxy.requests == [] and node.marks() == []
    os.chown(folder, os.getuid(), os.getgid())
    folder.chmod(0o755)
    finished(node, node.run(*wanted))


def given_away(tree):
    os.chown(tree, SOMEBODY, SOMEBODY)


def file_given_away(tree):
    os.chown(tree / "mlcluster-bundle/bin/run-node", SOMEBODY, SOMEBODY)


def file_open(tree):
    (tree / "mlcluster-bundle/bin/run-node").chmod(0o777)


def folder_open(tree):
    (tree / "mlcluster-bundle/hooks").chmod(0o777)


def file_changed(tree):
    path = tree / "mlcluster-bundle/bin/run-node"
    before = path.stat()
    text = path.read_text()
    changed = text.replace("SPDX", "spdx")
    assert changed != text
    path.write_text(changed)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def file_added(tree):
    (tree / "mlcluster-bundle/hooks/json.py").write_text("raise SystemExit('planted')\n")


def file_removed(tree):
    (tree / "mlcluster-bundle/hooks/mlcluster_boot/stop.py").unlink()


def link_changed(tree):
    (tree / "mlcluster-bundle/site").unlink()
    (tree / "mlcluster-bundle/site").symlink_to("/tmp")


def without_record(tree):
    (tree / "record").unlink()


def record_changed(tree):
    (tree / "record").write_text("")


def record_open(tree):
    (tree / "record").chmod(0o666)


CHANGES = [file_open, folder_open, file_changed, file_added, file_removed, link_changed]
CHANGES += [without_record, record_changed, record_open]
CHANGES += [pytest.param(change, marks=as_root) for change in (given_away, file_given_away)]


@pytest.mark.parametrize("change", CHANGES)
def test_changed_bundle_is_unpacked_again(node, wanted, proxy, bundle, change):
    finished(node, node.run(*wanted))
    tree = node.root / "opt/mlcluster/bundles" / bundle[1]
    fresh = {path.relative_to(tree): path.lstat()[:6:4] for path in tree.rglob("*")}
    change(tree)
    ran = node.run(*wanted)
    finished(node, ran, changed=0)
    assert f"the bundle in {tree} has changed since it was unpacked (" in ran.log and "planted" not in ran.out
    assert proxy.paths() == [BUNDLE_PATH] * 2
    # The bundle is as it was after the first run, and the next run uses it.
    assert {path.relative_to(tree): path.lstat()[:6:4] for path in tree.rglob("*")} == fresh
    finished(node, node.run(*wanted), changed=0)
    assert len(proxy.requests) == 2


def test_variables_by_http_are_rejected(node, wanted, proxy):
    words = [*wanted, "--vars", "http://b.example/vars.json?X-Amz-Signature=f00d"]
    ran = node.run(*words, **BOOT)
    failed(node, ran, "--vars takes s3://..., https://..., a file or {JSON}", "nothing signs variables")
    assert ran.status["exit_code"] == 3 and proxy.requests == [] and "f00d" not in ran.out + ran.log


def test_presigned_address_is_on_no_command_line(node, bundle, stored, proxy, moto, tmp_path):
    url = stored.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": "bundle.tar.gz"})
    record = f'echo "$@" >>"{tmp_path}/asked"\nexec {node.programs}/curl "$@"'
    path = with_program(node, tmp_path / "bin", "curl", record)
    ran = node.run("--bundle", url.replace(moto, proxy.url), "--sha256", bundle[1], "--roles", "mark", PATH=path)
    finished(node, ran)
    asked = (tmp_path / "asked").read_text()
    assert "--config -" in asked and "Signature" not in asked and BUCKET not in asked
    # Variables have no checksum, so a redirect from https to http is refused.
    assert "--proto-redir =https " in asked
