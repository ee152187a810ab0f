# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module md_array on real disks: arrays are made, found again, refused and removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.rig.vm import prepare
from tests.rig.vm.guest import Guest
from tests.vm import helpers

pytestmark = pytest.mark.vm
GuestFactory = Callable[..., Guest]
FRAGMENT = "/etc/mdadm/mdadm.conf.d/scratch.conf"


def md_array(node: Guest, check: bool = False, **arguments: Any) -> dict[str, Any]:
    """Run the module and return its result."""
    run = helpers.module(node, "md_array", {"name": "scratch", **arguments}, check)
    result = run.result_of("md_array")
    assert not result.get("failed"), result
    return result


def refused(node: Guest, **arguments: Any) -> str:
    """Run the module, check that it fails, and return its message."""
    result = helpers.module(node, "md_array", {"name": "scratch", **arguments}).result_of("md_array")
    assert result.get("failed"), result
    return str(result["msg"])


def test_array_is_made_found_and_removed(guest: GuestFactory) -> None:
    node = guest(disks=4)
    disks = helpers.digests(node)
    shown = md_array(node, check=True)
    assert shown["changed"] and "create array" in shown["diff"]["after"], shown
    assert helpers.digests(node) == disks, "check mode wrote on a disk"

    made = md_array(node, chunk_kib=256)
    assert made["changed"] and made["after"]["level"] == "raid0" and made["after"]["chunk_kib"] == 256
    detail = node.run(["mdadm", "--detail", "--export", made["device"]]).out
    assert f"MD_UUID={':'.join(made['uuid'][i : i + 8] for i in range(0, 32, 8))}" in detail
    assert "MD_LEVEL=raid0\n" in detail and "MD_DEVICES=4\n" in detail
    assert made["uuid"] in node.run(["cat", FRAGMENT]).out.replace(":", "")
    found = md_array(node, chunk_kib=256)
    assert not found["changed"] and found["uuid"] == made["uuid"]

    node.run(["mdadm", "--stop", made["device"]])
    again = md_array(node, chunk_kib=256)
    assert [step["action"] for step in again["actions"]] == ["assemble_array"] and again["uuid"] == made["uuid"]

    device = again["device"]
    node.script('mkfs.ext4 -q "$1"; mount "$1" /mnt; echo mine > /mnt/file', device)
    assert f"{device} is in use (/mnt)" in refused(node, state="absent", safe_mode=False)
    assert node.run("cat /mnt/file").out == "mine\n"
    node.run("umount /mnt")
    assert "set safe_mode: false to destroy" in refused(node, state="absent")
    assert "set safe_mode: false to destroy" in refused(node, chunk_kib=64)
    gone = md_array(node, state="absent", safe_mode=False)
    assert gone["changed"] and gone["after"] is None
    assert node.run(["wipefs", "--no-act", *node.instance_store()]).out == ""
    assert node.run(["test", "-e", FRAGMENT], check=False).rc == 1
    assert not md_array(node, state="absent")["changed"]


def test_unusable_disks_are_refused_until_consent(guest: GuestFactory) -> None:
    """EBS volumes, too few disks and disks with data are refused; with consent, data on disks is replaced."""
    node = guest(disks=4)
    ebs = node.ebs_volumes()[0]
    assert f"names {ebs}, which is an EBS volume" in refused(node, devices=[ebs, *node.instance_store()])
    assert "an array needs at least 2" in refused(node, devices=node.instance_store()[:1])
    assert "needs a power of two" in refused(node, chunk_kib=100)
    prepare.prepare(node, "gpt")
    before = helpers.digests(node)
    assert "has partitions nvme1n1p1" in refused(node)
    assert helpers.digests(node) == before
    made = md_array(node, safe_mode=False)
    assert made["after"]["members"] == [path.rsplit("/", 1)[-1] for path in node.instance_store()]
