# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._data import instance_types
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2 import hardware as _ec2_hardware
from ansible_collections.mlcluster.aws.plugins.plugin_utils._ec2.hardware import KEYS, LongCache, from_api, from_table


def test_every_type_of_table_has_every_fact():
    for name in instance_types.names():
        facts = from_table(name)
        assert set(facts) == {*KEYS, "source"}
        assert facts["source"] == "table"
        assert None not in (facts["count"], facts["instance_store_count"])
        # No source has the number of interfaces of p6e-gb200, only that it has some.
        assert facts["efa_max"] is not None or name == "p6e-gb200.36xlarge"
    assert from_table("m5.large") is None
    assert set(_ec2_hardware.unknown()) == {*KEYS, "source"}


P5 = {
    "InstanceType": "p5.48xlarge",
    "VCpuInfo": {"DefaultVCpus": 192},
    "MemoryInfo": {"SizeInMiB": 2097152},
    "GpuInfo": {"Gpus": [{"Name": "H100", "Manufacturer": "NVIDIA", "Count": 8, "MemoryInfo": {"SizeInMiB": 81920}}]},
    "InstanceStorageInfo": {"TotalSizeInGB": 30400, "Disks": [{"SizeInGB": 3800, "Count": 8, "Type": "ssd"}]},
    "NetworkInfo": {"NetworkPerformance": "3200 Gigabit", "EfaInfo": {"MaximumEfaInterfaces": 32}},
}


def test_api_and_table_agree():
    assert from_api(P5) == {**from_table("p5.48xlarge"), "source": "api"}


def test_wrong_memory_of_api_is_corrected():
    wrong = {"NeuronDevices": [{"Name": "Trainium2", "Count": 16, "MemoryInfo": {"SizeInMiB": 524288}}]}
    facts = from_api({"InstanceType": "trn2.48xlarge", "NeuronInfo": wrong})
    assert (facts["kind"], facts["count"], facts["memory_mib"]) == ("neuron", 16, 98304)


def test_older_answers_list_inferentia_apart():
    accelerators = {"Accelerators": [{"Name": "Inferentia", "Count": 4, "MemoryInfo": {"SizeInMiB": 8192}}]}
    facts = from_api({"InstanceType": "inf1.6xlarge", "InferenceAcceleratorInfo": accelerators})
    assert (facts["kind"], facts["count"]) == ("neuron", 4)


@pytest.mark.parametrize(
    ("network", "gbps"),
    [
        ({"NetworkPerformance": "Up to 12.5 Gigabit"}, 12.5),
        ({"NetworkPerformance": "4x 100 Gigabit"}, 400),
        ({"NetworkPerformance": "750 Megabit"}, 0.75),
        ({"NetworkPerformance": "High"}, None),
        (
            {"NetworkPerformance": "?", "NetworkCards": [{"PeakBandwidthInGbps": 100.0}, {"PeakBandwidthInGbps": 50}]},
            150,
        ),
        ({"NetworkCards": [{"PeakBandwidthInGbps": 100.0}, {}]}, None),
        ({}, None),
    ],
)
def test_network_speed(network, gbps):
    assert from_api({"InstanceType": "x", "NetworkInfo": network})["network_gbps"] == gbps


def test_long_cache_expires(tmp_path):
    path, clock = tmp_path / "a" / "types.json", [1000.0]
    cache = LongCache(path, 60, lambda: clock[0])
    cache.put({"p5.48xlarge": from_api(P5)})
    assert LongCache(path, 60, lambda: clock[0]).get(["p5.48xlarge", "x"]) == {"p5.48xlarge": from_api(P5)}
    assert path.stat().st_mode & 0o077 == 0
    clock[0] += 61
    assert LongCache(path, 60, lambda: clock[0]).get(["p5.48xlarge"]) == {}


def test_long_cache_can_be_off(tmp_path):
    cache = LongCache(tmp_path / "types.json", 0)
    cache.put({"p5.48xlarge": from_api(P5)})
    assert not (tmp_path / "types.json").exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        # Each has one error; without it the entry would be valid.
        json.dumps({"format": 0, "types": {"p5.48xlarge": {"time": 1000.0, "facts": from_api(P5)}}}),
        '{"format": 1, "types": []}',
        '{"format": 1, "types": {"p5.48xlarge": {"time": 9e9, "facts": {"kind": "gpu"}}}}',
        json.dumps({"format": 1, "types": {"p5.48xlarge": {"time": "now", "facts": from_api(P5)}}}),
    ],
)
def test_unusable_long_cache_counts_as_empty(tmp_path, content):
    path = tmp_path / "types.json"
    path.write_text(content)
    cache = LongCache(path, 60, lambda: 1000.0)
    assert cache.get(["p5.48xlarge"]) == {}
    cache.put({"x": from_api(P5)})
    assert list(json.loads(path.read_text())["types"]) == ["x"]


def test_unwritable_place_is_no_failure(tmp_path):
    (tmp_path / "file").write_text("")
    cache = LongCache(tmp_path / "file" / "types.json", 60)
    cache.put({"x": from_api(P5)})
    assert cache.get(["x"]) == {"x": from_api(P5)}
