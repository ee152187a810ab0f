# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system import pci
from ansible_collections.mlcluster.aws.plugins.module_utils._node.system.host import Host

# Vendor, device and class as sysfs shows them: EFA, ENA, GPUs (3D, VGA), NVSwitch, audio of a GPU, another's VGA.
DEVICES = (
    ("0x1d0f", "0xefa2", "0x020000"),
    ("0x1d0f", "0xec20", "0x020000"),
    ("0x10de", "0x2330", "0x030200"),
    ("0x10de", "0x2237", "0x030000"),
    ("0x10de", "0x22a3", "0x068000"),
    ("0x10de", "0x1aef", "0x040300"),
    ("0x1d0f", "0x1111", "0x030000"),
)


@pytest.fixture
def sysfs(tmp_path):
    for number, values in enumerate(DEVICES):
        place = tmp_path / f"bus/pci/devices/0000:00:0{number}.0"
        place.mkdir(parents=True)
        for name, value in zip(("vendor", "device", "class"), values):
            (place / name).write_text(f"{value}\n")
    return tmp_path


def test_gpus_and_efa_by_vendor_and_class(sysfs):
    assert pci.look(Host(), str(sysfs)) == (True, ["0000:00:02.0", "0000:00:03.0"], ["0000:00:00.0"])


def test_bus_without_devices_is_not_readable(tmp_path):
    assert pci.look(Host(), str(tmp_path)) == (False, [], [])


def test_device_without_files_is_neither(tmp_path):
    (tmp_path / "bus/pci/devices/0000:00:00.0").mkdir(parents=True)
    assert pci.look(Host(), str(tmp_path)) == (True, [], [])


@pytest.mark.parametrize(
    ("config", "is_lost"),
    [(b"\xff" * 64, True), (b"\xde\x10\x30\x23" * 16, False), (b"\xff\xff\xff", False), (b"", False)],
)
def test_device_that_answers_with_ones_is_lost(sysfs, config, is_lost):
    (sysfs / "bus/pci/devices/0000:00:02.0/config").write_bytes(config)
    found = pci.lost(Host(), ["0000:00:02.0", "0000:00:03.0"], str(sysfs))
    assert found == (["0000:00:02.0"] if is_lost else [])
