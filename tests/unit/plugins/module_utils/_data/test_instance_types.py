# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types, ultraservers

# type, vCPUs, GiB, accelerators, each MiB, disks, each GB, EFA, Gbit/s, cards
ROWS = [
    ("p3dn.24xlarge", 96, 768, "8 V100", 32768, 2, 900, 1, 100, 1),
    ("p4d.24xlarge", 96, 1152, "8 A100", 40960, 8, 1000, 4, 400, 4),
    ("p4de.24xlarge", 96, 1152, "8 A100", 81920, 8, 1000, 4, 400, 4),
    ("p5.4xlarge", 16, 256, "1 H100", 81920, 1, 3800, 1, 100, 1),
    ("p5.48xlarge", 192, 2048, "8 H100", 81920, 8, 3800, 32, 3200, 32),
    ("p5e.48xlarge", 192, 2048, "8 H200", 144384, 8, 3800, 32, 3200, 32),
    ("p5en.48xlarge", 192, 2048, "8 H200", 144384, 8, 3800, 16, 3200, 16),
    ("p6-b200.48xlarge", 192, 2048, "8 B200", 183359, 8, 3800, 8, 3200, 8),
    ("p6-b300.48xlarge", 192, 4096, "8 B300", 275040, 8, 3800, 16, 6400, 17),
    ("g4dn.12xlarge", 48, 192, "4 T4", 16384, 1, 900, 1, 50, 1),
    ("g5.12xlarge", 48, 192, "4 A10G", 22888, 1, 3800, 1, 40, 1),
    ("g5.24xlarge", 96, 384, "4 A10G", 22888, 1, 3800, 1, 50, 1),
    ("g5.48xlarge", 192, 768, "8 A10G", 22888, 2, 3800, 1, 100, 1),
    ("g6.8xlarge", 32, 128, "1 L4", 22888, 2, 450, 1, 25, 1),
    ("g6.12xlarge", 48, 192, "4 L4", 22888, 4, 940, 1, 40, 1),
    ("g6.24xlarge", 96, 384, "4 L4", 22888, 4, 940, 1, 50, 1),
    ("g6.48xlarge", 192, 768, "8 L4", 22888, 8, 940, 1, 100, 1),
    ("g6e.12xlarge", 48, 384, "4 L40S", 45776, 2, 1900, 1, 100, 1),
    ("g6e.24xlarge", 96, 768, "4 L40S", 45776, 2, 1900, 2, 200, 2),
    ("g6e.48xlarge", 192, 1536, "8 L40S", 45776, 4, 1900, 4, 400, 4),
    ("g7e.48xlarge", 192, 2048, "8 RTX PRO Server 6000", 98304, 4, 3800, 4, 1600, 4),
    ("trn1.2xlarge", 8, 32, "1 Trainium", 32768, 1, 474, 0, 12.5, 1),
    ("trn1.32xlarge", 128, 512, "16 Trainium", 32768, 4, 1900, 8, 800, 8),
    ("trn1n.32xlarge", 128, 512, "16 Trainium", 32768, 4, 1900, 16, 1600, 16),
    ("trn2.3xlarge", 12, 128, "1 Trainium2", 98304, 1, 470, 1, 200, 1),
    ("trn2.48xlarge", 192, 2048, "16 Trainium2", 98304, 4, 1900, 16, 3200, 16),
    ("trn2u.48xlarge", 192, 2048, "16 Trainium2", 98304, 4, 1900, 16, 3200, 16),
    ("inf1.24xlarge", 96, 192, "16 Inferentia", 8192, 0, 0, 1, 100, 1),
    ("inf2.xlarge", 4, 16, "1 Inferentia2", 32768, 0, 0, 0, 15, 1),
    ("inf2.8xlarge", 32, 128, "1 Inferentia2", 32768, 0, 0, 0, 25, 1),
    ("inf2.24xlarge", 96, 384, "6 Inferentia2", 32768, 0, 0, 0, 50, 1),
    ("inf2.48xlarge", 192, 768, "12 Inferentia2", 32768, 0, 0, 0, 100, 1),
    ("i4i.large", 2, 16, None, None, 1, 468, 0, 10, 1),
    ("i4i.4xlarge", 16, 128, None, None, 1, 3750, 0, 25, 1),
    ("i4i.16xlarge", 64, 512, None, None, 4, 3750, 0, 37.5, 1),
    ("i4i.32xlarge", 128, 1024, None, None, 8, 3750, 1, 75, 1),
    ("i3en.24xlarge", 96, 768, None, None, 8, 7500, 1, 100, 1),
    ("i7ie.48xlarge", 192, 1536, None, None, 16, 7500, 1, 200, 2),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_rows_match_published_tables(row):
    name, vcpus, memory, devices, each, disks, size, efa, gbps, cards = row
    facts = instance_types.lookup(name)
    accelerators = None
    if devices:
        count, device = devices.split(" ", 1)
        kind = "neuron" if device.startswith(("Trainium", "Inferentia")) else "gpu"
        accelerators = {"kind": kind, "name": device, "count": int(count), "memory_mib": each}
    assert facts == {
        "instance_type": name,
        "vcpus": vcpus,
        "memory_mib": memory * 1024,
        "accelerators": accelerators,
        "instance_store": {"count": disks, "size_gb": size, "total_gb": disks * size},
        "efa_interfaces": efa,
        "network_gbps": gbps,
        "network_burst": name in ("trn1.2xlarge", "inf2.xlarge", "inf2.8xlarge", "i4i.large", "i4i.4xlarge"),
        "network_cards": cards,
        "architecture": "x86_64",
        "source": facts["source"],
    }
    assert facts["source"].startswith("EC2 DescribeInstanceTypes")
    assert ("Neuron documentation" in facts["source"]) == name.startswith("trn2")


@pytest.mark.parametrize(
    "name", ["", "p5", "p5.48", "48xlarge", "p5.48xlarge ", "p5.48xlarge 192", "\np5.48xlarge", None, 5]
)
def test_invalid_type_is_unknown(name):
    assert instance_types.lookup(name) is None


def test_ultraservers_have_confirmed_values_only():
    facts = instance_types.lookup("p6e-gb200.36xlarge")
    assert facts["accelerators"] == {"kind": "gpu", "name": "GB200", "count": 4, "memory_mib": 185 * 1024}
    assert facts["instance_store"] == {"count": 3, "size_gb": 7500, "total_gb": 22500}
    assert (facts["vcpus"], facts["memory_mib"], facts["architecture"]) == (144, 960 * 1024, "arm64")
    assert (facts["network_gbps"], facts["network_cards"], facts["efa_interfaces"]) == (3200, 17, None)
    assert facts["source"].startswith("EC2 Instance Types Guide")
    assert [name for name in ultraservers.TYPES if instance_types.lookup(name)] == ["p6e-gb200.36xlarge"]


def test_efa_is_known_without_its_number():
    assert instance_types.has_efa(instance_types.lookup("p6e-gb200.36xlarge"))
    assert instance_types.has_efa(instance_types.lookup("p5.48xlarge"))
    assert not instance_types.has_efa(instance_types.lookup("trn1.2xlarge"))
    assert not instance_types.has_efa(None) and not instance_types.has_efa({})


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("p5.48xlarge", (8, 8)),
        ("p6e-gb200.36xlarge", (3, 4)),
        ("trn2.48xlarge", (4, 0)),
        ("i4i.large", (1, 0)),
        ("g4dn.metal", (2, 8)),
        ("inf2.xlarge", (0, 0)),
        ("zz9.metal", (0, 0)),
    ],
)
def test_disks_and_gpus_of_type(name, numbers):
    assert instance_types.disks_and_gpus(instance_types.lookup(name)) == numbers


def test_every_line_is_plausible():
    names = instance_types.names()
    assert len(names) == len(set(names)) > 500
    for name in names:
        facts = instance_types.lookup(name)
        store, accelerators = facts["instance_store"], facts["accelerators"]
        assert facts["instance_type"] == name
        assert facts["architecture"] in ("x86_64", "arm64")
        assert store["count"] or accelerators, name
        assert (store["count"] == 0) == (store["total_gb"] == 0)
        assert facts["vcpus"] > 0 < facts["memory_mib"]
        assert 0 <= (facts["efa_interfaces"] or 0) <= facts["network_cards"]
        if accelerators:
            assert accelerators["kind"] in ("gpu", "neuron")
            assert accelerators["count"] > 0 < accelerators["memory_mib"]


def test_table_is_small_enough_for_module():
    assert Path(instance_types.__file__).stat().st_size < 60000
