# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.instance import (
    instance_id,
    instance_type,
    table_disks,
)

from tests.unit.fakes import fake_storage_scene as scene


@pytest.mark.parametrize(
    ("vendor", "product", "expected"),
    [
        ("Amazon EC2", "p5.48xlarge", "p5.48xlarge"),
        ("Amazon EC2", "u-6tb1.metal", "u-6tb1.metal"),
        ("QEMU", "p5.48xlarge", None),
        ("Amazon EC2", "HVM domU", None),
        (None, None, None),
    ],
)
def test_instance_type_comes_from_firmware(vendor, product, expected):
    host = scene.node(0)
    for name, text in (("sys_vendor", vendor), ("product_name", product)):
        host.machine.files.pop(f"/sys/class/dmi/id/{name}")
        if text:
            host.machine.files[f"/sys/class/dmi/id/{name}"] = f"{text}\n"
    assert instance_type(host) == expected


def test_instance_type_below_another_root():
    host = scene.node(0)
    host.machine.files["/image/sys/class/dmi/id/sys_vendor"] = "Amazon EC2\n"
    host.machine.files["/image/sys/class/dmi/id/product_name"] = "g5.xlarge\n"
    assert instance_type(host, "/image/sys") == "g5.xlarge"
    assert instance_type(host, "/empty/sys") is None


@pytest.mark.parametrize(
    ("instance_type", "expected"), [("p5.48xlarge", 8), ("g6.xlarge", 1), ("x9.unknown", None), (None, None)]
)
def test_number_of_disks_of_type(instance_type, expected):
    assert table_disks(instance_type) == expected


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("i-0123456789abcdef0\n", "i-0123456789abcdef0"),
        ("i-12345678", "i-12345678"),
        ("Not Specified\n", None),
        ("i-../../x", None),
        (None, None),
    ],
)
def test_instance_id_comes_from_firmware(tag, expected):
    host = scene.node(0)
    host.machine.files.pop("/sys/class/dmi/id/board_asset_tag", None)
    if tag:
        host.machine.files["/sys/class/dmi/id/board_asset_tag"] = tag
    assert instance_id(host) == expected
