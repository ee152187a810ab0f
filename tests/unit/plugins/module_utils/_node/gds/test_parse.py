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


def test_recorded_log_of_driver_that_opened():
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


def test_switched_off_path_proves_nothing_about_gpu():
    table = gds_parse.parse_table(fixture("libcufile-1.15-h200-compat-allowed.log"))
    assert (table["p2pdma"], table["signs"]) == (None, ["nvidia_fs_module", "udev"])
    on = fixture("libcufile-1.15-h200-compat-allowed.log").replace("Config doesn't support PCIP2PDMA", "")
    table = gds_parse.parse_table(on)
    assert table["p2pdma"] == {"supported": False, "kernel": False, "cuda": False, "gpus": False}
    assert "gpu_p2pdma" in table["signs"]


def test_recorded_log_of_driver_that_did_not_open():
    table = gds_parse.parse_table(fixture("libcufile-1.15-h200-compat-forbidden.log"))
    assert (table["drivers"], table["signs"]) == ({}, ["nvidia_fs_module"])
    assert table["errors"] == ["nvidia-fs.ko driver not loaded"]


def test_recorded_logs_of_newer_generation():
    table = gds_parse.parse_table(fixture("libcufile-1.19-no-cuda-compat-allowed.log"))
    assert table["versions"] == {"GDS release version": "1.19.1.55", "nvidia_fs minimum version": "2.12"}
    assert set(map(tuple, table["drivers"].values())) == {("compat",)}
    assert (len(table["drivers"]), table["signs"]) == (12, ["cuda", "nvidia_fs_module"])
    table = gds_parse.parse_table(fixture("libcufile-1.19-no-cuda-compat-forbidden.log"))
    assert table["signs"] == ["cuda", "kernel_p2pdma", "nvidia_fs_module"]


def test_recorded_log_without_cuda():
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
def test_unknown_value_is_no_mode(value):
    text = f"DRIVER CONFIGURATION:\nNVMe : {value}\n"
    assert gds_parse.parse_table(text)["drivers"] == {}


@given(st.text())
def test_any_text_is_read_without_error(text):
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
def test_invalid_cufile_json_is_none(text):
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
def test_driver_module_type_is_read(text, expected):
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
def test_long_line_costs_no_more_than_its_length(line):
    assert gds_parse.parse_table(f"DRIVER CONFIGURATION:\n{line}\n")["drivers"] == {}


def test_every_status_of_libcufile_has_its_own_words():
    assert set(gds_parse.ERROR_NAMES) == set(range(5001, 5037)) - {5032}
    assert len(set(gds_parse.ERROR_NAMES.values())) == 35
    assert gds_parse.error_text(5032) == "5032 (unknown to this version)"


@pytest.mark.parametrize(("sign", "prerequisite"), gds_parse.LOG_SIGNS)
def test_every_log_sign_names_its_prerequisite_once(sign, prerequisite):
    found = gds_parse.parse_table(f"x {sign} y\n{sign}\n")
    assert found["signs"] == [prerequisite]


@pytest.mark.parametrize("words", gds_parse.P2PDMA_OFF)
def test_p2pdma_that_is_off_is_no_finding(words):
    lines = (
        "Is PCIP2PDMA Supported: 1 kernel Support: 0 pci_p2pdma_supported_cuda: 1 checkIfAllGPUsSupportP2PDMA(): 0\n"
        "Kernel does not support PCIP2PDMA\nUnsupported block device\n"
    )
    found = gds_parse.parse_table(lines)
    assert found["p2pdma"] == {"supported": True, "kernel": False, "cuda": True, "gpus": False}
    assert found["signs"] == ["kernel_p2pdma", "block_device"]
    found = gds_parse.parse_table(lines + words)
    assert (found["p2pdma"], found["signs"]) == (None, ["block_device"])


GPU = " GPU index 0 NVIDIA H100 80GB HBM3 bar:1 bar size (MiB):131072 supports GDS, IOMMU State: Disabled\n"


@pytest.mark.parametrize(
    ("line", "supported", "iommu"),
    [
        (GPU, True, "Disabled"),
        (GPU.replace(", IOMMU State: Disabled", ""), True, None),
        (GPU.replace("supports GDS", "does not support GDS"), False, "Disabled"),
        (GPU.replace("supports GDS", "supports GDS maybe"), False, "Disabled"),
    ],
)
def test_gpu_of_table(line, supported, iommu):
    (gpu,) = gds_parse.parse_table(line)["gpus"]
    assert gpu == {
        "index": 0,
        "name": "NVIDIA H100 80GB HBM3",
        "bar_mib": 131072,
        "supported": supported,
        "iommu": iommu,
    }


def test_rows_belong_to_their_section():
    text = (
        " a.b : 1\n DRIVER CONFIGURATION:\n =====\n NVMe P2PDMA : Supported\n NVMe : p2pdma, compat\n"
        " NVMeOF : Unsupported\n Other : odd\n --rdma library : Loaded (libcufile_rdma.so)\n"
        " CUFILE CONFIGURATION:\n properties.use_compat_mode : true\n not a.setting : x\n word : y\n"
        " PLATFORM INFO:\n IOMMU: disabled\n Arch:\n Color: blue\n Platform: x86\n OTHER:\n IOMMU: enabled\n"
    )
    found = gds_parse.parse_table(text)
    assert found["drivers"] == {"NVMe": ["p2pdma", "compat"], "NVMeOF": []}
    assert found["rdma"] == {"rdma library": "Loaded (libcufile_rdma.so)"}
    assert found["settings"] == {"properties.use_compat_mode": "true"}
    assert found["platform"] == {"IOMMU": "disabled", "Platform": "x86"}
    assert (found["compatible"], found["errors"]) == (False, [])


def test_errors_are_kept_once_and_compatible_mode_is_reported():
    line = " 29-11-2026 05:52:01:123 [pid=1 tid=2] {}  cufio:12 {}\n"
    text = line.format("ERROR", "bad") + line.format("ERROR", "bad") + line.format("WARN", "fine")
    found = gds_parse.parse_table(text + line.format("INFO", "running in compatible mode"))
    assert (found["errors"], found["compatible"]) == (["bad"], True)


@pytest.mark.parametrize(
    ("config", "path", "found"),
    [
        ({"a": {"b": 5}}, "a.b", 5),
        ({"a": {"b": False}}, "a.b", False),
        ({"a": {"b": None}}, "a.b", "default"),
        ({"a": 5}, "a.b", "default"),
        ({"a": {"b": {"c": 1}}}, "a.b.c", 1),
        ({}, "a", "default"),
        (None, "a", "default"),
    ],
)
def test_setting_by_its_path(config, path, found):
    assert gds_parse.setting(config, path, "default") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, {"loaded": False, "version": None, "open_module": None}),
        ("\nKernel Module 580.1 \n", {"loaded": False, "version": None, "open_module": None}),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module 580.95.05 x\n",
            {"loaded": True, "version": "580.95.05", "open_module": True},
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module 470.1",
            {"loaded": True, "version": "470.1", "open_module": False},
        ),
        ("something 580", {"loaded": True, "version": None, "open_module": None}),
    ],
)
def test_first_line_of_driver_decides(text, found):
    assert gds_parse.parse_nvidia_version(text) == found


def test_pairs_of_kernel_are_split_at_their_first_sign():
    dwords = 'X: 1\nRegistryDwords: "a=1=2; b = 3 ;c"\nRegistryDwordsPerDevice: "d=4"\n'
    assert gds_parse.parse_registry_dwords(dwords) == {"a": "1=2", "b": "3"}
    assert gds_parse.parse_registry_dwords(None) is gds_parse.parse_registry_dwords("x") is None
    assert gds_parse.parse_nvfs_modules("nvme : 1:2\nword\n") == {"nvme": "1:2"}
    assert (gds_parse.parse_nvfs_modules(None), gds_parse.parse_nvfs_modules("")) == (None, {})


def test_row_without_value_is_no_setting():
    table = gds_parse.parse_table("CUFILE CONFIGURATION:\nproperties.use_pci_p2pdma\nproperties.x : true\n")
    assert table["settings"] == {"properties.x": "true"}
