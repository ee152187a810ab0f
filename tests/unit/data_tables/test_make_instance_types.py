# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib.util

import pytest
from ansible_collections.mlcluster.aws.tests.data_tables import make_instance_types as make


def described(name="p9.large", **changes):
    facts = {
        "InstanceType": name,
        "VCpuInfo": {"DefaultVCpus": 8},
        "MemoryInfo": {"SizeInMiB": 1024},
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "NetworkInfo": {"NetworkPerformance": "10 Gigabit", "MaximumNetworkCards": 1},
        "InstanceStorageInfo": {"NvmeSupport": "required", "Disks": [{"Count": 2, "SizeInGB": 900}]},
    }
    facts.update(changes)
    return facts


def network(text, **more):
    return {"NetworkPerformance": text, "MaximumNetworkCards": 1, **more}


@pytest.mark.parametrize(
    "facts, line",
    [
        (described(), "p9.large 8 1024 - 2x900 0 10 1 x86_64"),
        (
            described(GpuInfo={"Gpus": [{"Name": "RTX 9", "Count": 4, "MemoryInfo": {"SizeInMiB": 7}}]}),
            "p9.large 8 1024 gpu:RTX_9:4:7 2x900 0 10 1 x86_64",
        ),
        (
            described(
                GpuInfo={"Gpus": [{"Name": "L4", "Count": 0, "LogicalGpuCount": 1, "MemoryInfo": {"SizeInMiB": 2861}}]}
            ),
            "p9.large 8 1024 gpu:L4:1:2861 2x900 0 10 1 x86_64",
        ),
        (
            described(
                NeuronInfo={"NeuronDevices": [{"Name": "Trainium", "Count": 2, "MemoryInfo": {"SizeInMiB": 9}}]},
                InstanceStorageInfo={},
            ),
            "p9.large 8 1024 neuron:Trainium:2:9 - 0 10 1 x86_64",
        ),
        (described(NetworkInfo=network("Up to 12.5 Gigabit")), "p9.large 8 1024 - 2x900 0 <12.5 1 x86_64"),
        (
            described(NetworkInfo=network("4x 100 Gigabit", EfaInfo={"MaximumEfaInterfaces": 4})),
            "p9.large 8 1024 - 2x900 4 400 1 x86_64",
        ),
        (described(NetworkInfo=network("750 Megabit")), "p9.large 8 1024 - 2x900 0 0.75 1 x86_64"),
        (
            described(ProcessorInfo={"SupportedArchitectures": ["arm64"]}),
            "p9.large 8 1024 - 2x900 0 10 1 arm64",
        ),
        (described(InstanceStorageInfo={}), None),
        (described(InstanceStorageInfo={"NvmeSupport": "unsupported", "Disks": [{"Count": 2, "SizeInGB": 9}]}), None),
        (described(ProcessorInfo={"SupportedArchitectures": ["arm64_mac"]}), None),
    ],
)
def test_one_line_for_one_type(facts, line):
    assert make.row(facts) == line


def test_correction_replaces_api_data_and_names_source():
    device = {"Name": "Trainium2", "Count": 16, "MemoryInfo": {"SizeInMiB": 524288}}
    types = {"trn2.48xlarge": described("trn2.48xlarge", NeuronInfo={"NeuronDevices": [device]})}
    text = make.generated(types, "1.0")
    assert "\ntrn2.48xlarge 8 1024 neuron:Trainium2:16:98304 2x900 0 10 1 x86_64\n" in text
    assert '"trn2.48xlarge": "accelerators: AWS Neuron' in text
    assert "trn2u" not in text


@pytest.mark.parametrize(
    "facts, word",
    [
        (described(NetworkInfo=network("Moderate")), "Moderate"),
        (
            described(InstanceStorageInfo={"NvmeSupport": "required", "Disks": [{"Count": 1}, {"Count": 2}]}),
            "several sizes",
        ),
        (described(GpuInfo={"Gpus": [{"Name": "A"}, {"Name": "B"}]}), "more than one kind"),
    ],
)
def test_data_that_table_cannot_hold_is_error(facts, word):
    with pytest.raises(make.SourceError, match=word):
        make.row(facts)


def test_types_are_in_natural_order():
    types = {name: described(name) for name in ("i4i.16xlarge", "i4i.2xlarge", "i10.large")}
    table = make.generated(types, "1.0").split('TABLE = """\n')[1]
    assert [line.split(" ")[0] for line in table.splitlines()[:3]] == ["i4i.2xlarge", "i4i.16xlarge", "i10.large"]


def test_only_text_between_marks_is_replaced():
    assert make.replaced(f"a\n{make.BEGIN}old\n{make.END}b\n", "new\n") == f"a\n{make.BEGIN}new\n{make.END}b\n"
    with pytest.raises(make.SourceError, match="marks"):
        make.replaced("a\n", "new\n")


@pytest.mark.skipif(importlib.util.find_spec("moto") is None, reason="moto is not installed")
def test_table_matches_installed_moto(capsys):
    assert make.main(["--check"]) == 0
    assert capsys.readouterr().out == "up to date\n"
