# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of site.yml on a host without disks, and on one that builds an image (debian13)."""

from __future__ import annotations

import json
import stat

import pytest

UNIT = "mlcluster-storage.service"


@pytest.fixture
def is_image(host):
    return host.check_output("hostname").endswith("-debian13")


def test_host_is_whole(host):
    assert host.check_output("systemctl is-system-running --wait") == "running"


def test_fstab_and_mounts_are_unchanged(host):
    assert "mlcluster" not in host.check_output("cat /etc/fstab")
    assert not host.mount_point("/data").exists


def test_host_without_disks_is_left_unchanged(host, is_image):
    if is_image:
        pytest.skip("an image gets everything installed")
    for path in ("/etc/mlcluster", "/usr/local/lib/mlcluster", f"/etc/systemd/system/{UNIT}"):
        assert not host.file(path).exists
    assert not host.package("mdadm").is_installed


def test_image_gets_tools_and_boot_unit(host, is_image):
    if not is_image:
        pytest.skip("a node without disks needs none of it")
    assert host.package("mdadm").is_installed
    assert host.service(UNIT).is_enabled
    verified = host.run(f"systemd-analyze verify --man=no /etc/systemd/system/{UNIT}")
    assert (verified.rc, verified.stderr) == (0, "")


def test_files_of_image_are_writable_by_root_only(host, is_image):
    if not is_image:
        pytest.skip("a node without disks needs none of it")
    files = host.check_output("find /etc/mlcluster /usr/local/lib/mlcluster").splitlines()
    assert len(files) > 3
    for path in files:
        assert not host.file(path).mode & (stat.S_IWGRP | stat.S_IWOTH), path
        assert host.file(path).user == "root", path


def test_boot_unit_of_image_finds_no_disks_and_reports_it(host, is_image):
    if not is_image:
        pytest.skip("a node without disks has no boot unit")
    host.check_output(f"systemctl restart {UNIT}")
    record = json.loads(host.check_output("cat /var/lib/mlcluster/local_storage.json"))
    assert (record["state"], record["disks"]) == ("none", [])
    # The output of a unit reaches the journal shortly after its end.
    assert "none" in host.check_output(f"journalctl --sync && journalctl --no-pager --output cat --unit {UNIT}")


def test_only_image_gets_limits_and_environment_of_nccl(host, is_image):
    for path in ("/etc/nccl.conf", "/etc/systemd/system/slurmd.service.d/mlcluster-limits.conf"):
        assert host.file(path).exists == is_image, path
