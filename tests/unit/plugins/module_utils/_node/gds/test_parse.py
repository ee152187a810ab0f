# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import parse as gds_parse
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes.fake_gds_host import fixture


def test_a_recorded_log_of_a_driver_that_opened():
    table = gds_parse.parse_table(fixture("libcufile-1.15-h200-compat-allowed.log"))
    assert table["versions"] == {"GDS release version": "1.15.1.6", "libcufile version": "2.12"}
    assert (len(table["drivers"]), table["drivers"]["NVMe"], table["drivers"]["WekaFS"]) == (12, [], [])
    assert table["rdma"]["rdma library"] == "Not Loaded (libcufile_rdma.so)"
    assert table["settings"]["properties.posix_pool_slab_count"] == "128 64 64"
    assert table["settings"]["fs.lustre.posix_gds_min_kb"] == "0"
    assert table["gpus"] == [
        {"index": 0, "name": "NVIDIA H200", "bar_mib": 262144, "supported": True, "iommu": "Disabled"}
    ]
    assert table["platform"] == {
        "IOMMU": "disabled",
        "Nvidia Driver Info Status": "Supported(Nvidia Open Driver Installed)",
        "Cuda Driver Version Installed": "13000",
        "Arch": "x86_64(Linux 6.18.44-fc-v657-gpu)",
    }
    assert table["compatible"]
    assert table["errors"][0] == "udev property not found: ID_FS_USAGE vda"


def test_what_is_switched_off_says_nothing_of_the_gpu():
    table = gds_parse.parse_table(fixture("libcufile-1.15-h200-compat-allowed.log"))
    assert (table["p2pdma"], table["signs"]) == (None, ["nvidia_fs_module", "udev"])
    on = fixture("libcufile-1.15-h200-compat-allowed.log").replace("Config doesn't support PCIP2PDMA", "")
    table = gds_parse.parse_table(on)
    assert table["p2pdma"] == {"supported": False, "kernel": False, "cuda": False, "gpus": False}
    assert "gpu_p2pdma" in table["signs"]


def test_a_recorded_log_of_a_driver_that_did_not_open():
    table = gds_parse.parse_table(fixture("libcufile-1.15-h200-compat-forbidden.log"))
    assert (table["drivers"], table["signs"]) == ({}, ["nvidia_fs_module"])
    assert table["errors"] == ["nvidia-fs.ko driver not loaded"]


def test_recorded_logs_of_the_newer_generation():
    table = gds_parse.parse_table(fixture("libcufile-1.19-no-cuda-compat-allowed.log"))
    assert table["versions"] == {"GDS release version": "1.19.1.55", "nvidia_fs minimum version": "2.12"}
    assert set(map(tuple, table["drivers"].values())) == {("compat",)}
    assert (len(table["drivers"]), table["signs"]) == (12, ["cuda", "nvidia_fs_module"])
    table = gds_parse.parse_table(fixture("libcufile-1.19-no-cuda-compat-forbidden.log"))
    assert table["signs"] == ["cuda", "kernel_p2pdma", "nvidia_fs_module"]


def test_a_recorded_log_without_cuda():
    table = gds_parse.parse_table(fixture("libcufile-1.15-no-cuda.log"))
    assert table["signs"] == ["cuda"]
    assert table["errors"][-1] == "cuFile initialization failed"


@pytest.mark.parametrize(
    ("name", "versions", "nvme"),
    [
        ("gdscheck-1.0-supported.txt", ("1.0.1.3", "2.7"), ["nvfs"]),
        ("gdscheck-1.11-nvme-supported.txt", ("1.11.1.6", "2.22"), ["nvfs"]),
        ("gdscheck-1.13-both.txt", ("1.13.1.3", "2.24"), ["p2pdma", "nvfs"]),
        ("gdscheck-1.16-unsupported.txt", ("1.16.1.26", "2.27"), []),
        ("gdscheck-1.16-p2pdma-derived.txt", ("1.16.1.26", "2.27"), ["p2pdma", "nvfs", "compat"]),
    ],
)
def test_gdscheck_of_every_generation(name, versions, nvme):
    table = gds_parse.parse_table(fixture(name))
    found = table["versions"]
    assert (found["GDS release version"], found["nvidia_fs version"]) == versions
    assert table["drivers"]["NVMe"] == nvme
    assert "NVMe P2PDMA" not in table["drivers"]


def test_gdscheck_rows_that_are_no_modes():
    table = gds_parse.parse_table(fixture("gdscheck-1.16-p2pdma-derived.txt"))
    assert (table["drivers"]["FSx Lustre"], table["drivers"]["WekaFS"]) == (["nvfs"], ["dmabuf", "compat"])
    assert table["rdma"] == {"DmaBuf support": "Enabled"}
    assert [(gpu["supported"], gpu["iommu"]) for gpu in table["gpus"]] == [
        (True, "Disabled"),
        (True, None),
        (False, "Pass-through or Enabled"),
    ]
    table = gds_parse.parse_table(fixture("gdscheck-1.11-nvme-supported.txt"))
    assert table["rdma"]["rdma_device_status"] == "Up: 1 Down: 0"
    assert table["settings"]["properties.use_compat_mode"] == "true"


@pytest.mark.parametrize("value", ["Yes", "PASS", "Supported, maybe", "", "p2pdma; nvfs"])
def test_an_unknown_value_is_no_mode(value):
    text = f"DRIVER CONFIGURATION:\nNVMe : {value}\n"
    assert gds_parse.parse_table(text)["drivers"] == {}


@given(st.text())
def test_any_text_is_read_without_an_error(text):
    table = gds_parse.parse_table(text)
    assert set(table) == set(gds_parse.parse_table(""))
    json.dumps(table)


def test_cufile_json_with_its_comments():
    text = '{ // as NVIDIA ships it\n "properties": {"allow_compat_mode": true, "list": ["//no comment"]} /* end */ }'
    config = gds_parse.parse_cufile_json(text, "/etc/cufile.json")
    assert config == {"properties": {"allow_compat_mode": True, "list": ["//no comment"]}}
    assert gds_parse.setting(config, "properties.allow_compat_mode", False) is True
    assert gds_parse.setting(config, "properties.force_compat_mode", False) is False
    assert gds_parse.setting(config, "properties.allow_compat_mode.deeper", "none") == "none"
    assert gds_parse.setting(None, "properties.allow_compat_mode", 7) == 7


@pytest.mark.parametrize("text", [None, "", "{", "[1]", "// nothing", '{"a": 1,}', "null"])
def test_what_is_no_cufile_json(text):
    assert gds_parse.parse_cufile_json(text, "/etc/cufile.json") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, (False, None, None)),
        ("", (False, None, None)),
        (fixture("nvidia-version-h100.txt"), (True, "580.159.04", True)),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n", (True, "550.54.15", False)),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86\n", (True, "570.86", True)),
    ],
)
def test_the_driver_says_what_it_is(text, expected):
    driver = gds_parse.parse_nvidia_version(text)
    assert (driver["loaded"], driver["version"], driver["open_module"]) == expected


def test_registry_dwords():
    assert gds_parse.parse_registry_dwords(fixture("nvidia-params-h100.txt")) == {}
    assert gds_parse.parse_registry_dwords(None) is None
    assert gds_parse.parse_registry_dwords("EnableMSI: 1\n") is None
    text = 'RegistryDwords: "RMForceStaticBar1=1;RmForceDisableIomapWC=1;"\nRegistryDwordsPerDevice: "a=2"\n'
    assert gds_parse.parse_registry_dwords(text) == {"RMForceStaticBar1": "1", "RmForceDisableIomapWC": "1"}


def test_registered_storage_drivers():
    assert gds_parse.parse_nvfs_modules("nvme: 1.0\nlnet: 2.15\n\n") == {"nvme": "1.0", "lnet": "2.15"}
    assert (gds_parse.parse_nvfs_modules(None), gds_parse.parse_nvfs_modules("")) == (None, {})


def test_codes_have_words():
    assert gds_parse.error_text(5008) == "5008 (I/O not supported on this file)"
    assert gds_parse.error_text(4711) == "4711 (unknown to this version)"


@pytest.mark.parametrize(
    "line",
    [" " * 200000 + "x", "=" * 200000 + "x", "A" + " " * 200000 + "x", " " * 200000 + ":", "GPU index 1 " * 20000],
)
def test_a_long_line_costs_no_more_than_its_length(line):
    assert gds_parse.parse_table(f"DRIVER CONFIGURATION:\n{line}\n")["drivers"] == {}
