# Copyright: (c) 2026, mlcluster.aws contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds import prerequisites as gds_prereq
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.look import look
from ansible_collections.mlcluster.aws.plugins.module_utils._node.gds.parse import parse_table

from tests.unit.fakes.fake_gds_host import EBS, enable_p2pdma, fixture, load_nvidia_fs, node, raid0


def items(host, path="/data", **changes):
    facts = look(host, [path])
    facts.update(changes)
    return gds_prereq.prerequisites(facts, facts["mounts"][0])


def lacking(host, path="/data", state=gds_prereq.MISSING):
    found = items(host, path)
    return {name: gds_prereq.missing(found, name, (state,)) for name in ("nvfs", "p2pdma")}


def state(found, name, path="p2pdma"):
    (item,) = [item for item in found if item["id"] == name and path in item["paths"]]
    return item["state"]


def test_stock_node():
    assert lacking(node()) == {
        "nvfs": ["nvidia_fs_module", "nvme_driver"],
        "p2pdma": ["nvme_multipath", "cufile_p2pdma", "registry_dwords"],
    }


def test_node_set_up_for_p2pdma():
    host = node()
    enable_p2pdma(host)
    assert lacking(host) == {"nvfs": ["nvidia_fs_module", "nvme_driver"], "p2pdma": []}
    assert lacking(host, state=gds_prereq.DOUBTFUL)["p2pdma"] == []


def test_node_set_up_for_nvidia_fs():
    host = node()
    load_nvidia_fs(host)
    assert lacking(host)["nvfs"] == []


def test_nvidia_fs_with_stock_nvme_driver():
    host = node()
    load_nvidia_fs(host, modules="wekafsio: 1.0\n")
    assert lacking(host)["nvfs"] == ["nvme_driver"]


def test_raid0_on_x86_has_no_p2pdma_and_on_arm_it_has():
    host = node()
    raid0(host)
    enable_p2pdma(host)
    load_nvidia_fs(host)
    assert lacking(host, "/raid") == {"nvfs": [], "p2pdma": ["raid_p2pdma"]}
    host.files["/proc/sys/kernel/arch"] = "aarch64\n"
    assert lacking(host, "/raid") == {"nvfs": [], "p2pdma": []}


def test_raid_with_p2pdma_is_in_doubt_on_kernel_that_may_have_it():
    host = node(kernel="7.1.0-1001-aws")
    raid0(host)
    enable_p2pdma(host)
    assert lacking(host, "/raid")["p2pdma"] == ["raid_p2pdma"]
    host.files["/etc/cufile.json"] = (
        '{"properties": {"use_pci_p2pdma": true}, "block": {"raid": {"use_pci_p2pdma": true}}}'
    )
    assert lacking(host, "/raid")["p2pdma"] == []
    assert lacking(host, "/raid", gds_prereq.DOUBTFUL)["p2pdma"] == ["raid_p2pdma"]


@pytest.mark.parametrize(
    ("level", "library", "expected"),
    [("raid0", "1.15", "met"), ("raid1", "1.15", "missing"), ("raid1", "1.19", "met"), ("raid5", "1.19", "missing")],
)
def test_raid_levels_by_release(level, library, expected):
    host = node()
    raid0(host)
    host.files["/sys/class/block/md127/md/level"] = level
    found = items(host, "/raid", library={"path": "/x", "version": library})
    assert state(found, "raid_level", "nvfs") == expected


def test_raid_level_that_depends_on_unknown_release():
    host = node()
    raid0(host)
    host.files["/sys/class/block/md127/md/level"] = "raid10"
    found = items(host, "/raid", library={"path": "/x", "version": None})
    assert (state(found, "raid_level", "nvfs"), state(found, "library_version")) == ("unknown", "unknown")


def test_ext4_wants_explicit_data_ordered():
    host = node()
    host.mount("259:1 / /four rw,noatime - ext4 /dev/nvme1n1 rw")
    host.mount("259:1 / /ordered rw,noatime - ext4 /dev/nvme1n1 rw,data=ordered")
    assert "ext4_data_ordered" in lacking(host, "/four")["nvfs"]
    assert "ext4_data_ordered" not in lacking(host, "/ordered")["nvfs"]


def test_lvm_and_other_filesystems_and_disks():
    host = node()
    host.disk("dm-0", "252:0", model="", slaves=("nvme1n1",), dm__uuid="LVM-a")
    host.mount("252:0 / /scratch rw - ext4 /dev/mapper/x rw,data=ordered")
    host.mount("259:1 / /b rw - btrfs /dev/nvme1n1 rw")
    host.disk("vda", "254:0", model="")
    host.mount("254:0 / /v rw - xfs /dev/vda rw")
    assert lacking(host, "/scratch")["nvfs"][0] == "lvm"
    assert lacking(host, "/b")["p2pdma"][0] == "filesystem"
    assert lacking(host, "/v")["p2pdma"][0] == "nvme_disks"


def test_root_on_ebs_is_in_doubt():
    host = node()
    host.disk("nvme0n1", "259:7", model=EBS)
    host.mount("259:7 / /ebs rw - xfs /dev/nvme0n1 rw")
    assert lacking(host, "/ebs", gds_prereq.DOUBTFUL)["p2pdma"] == ["instance_store"]


def test_block_integrity():
    host = node()
    host.files["/sys/class/block/nvme1n1/integrity/device_is_integrity_capable"] = "1\n"
    assert "block_integrity" in lacking(host)["nvfs"]


@pytest.mark.parametrize(
    ("line", "modules", "nvfs"),
    [
        ("0:50 / /x rw - lustre 10.0.0.1@tcp:/fsx rw", "lnet: 1.0\n", []),
        ("0:50 / /x rw - lustre 10.0.0.1@tcp:/fsx rw", "nvme: 1.0\n", ["client_driver"]),
        ("0:51 / /x rw - nfs4 10.0.0.2:/ rw", "rpcrdma: 1.0\n", []),
        ("0:52 / /x rw - overlay overlay rw", "nvme: 1.0\n", ["filesystem"]),
    ],
)
def test_network_filesystems_have_one_path(line, modules, nvfs):
    host = node()
    enable_p2pdma(host)
    load_nvidia_fs(host, modules)
    host.mount(line)
    assert lacking(host, "/x") == {"nvfs": nvfs, "p2pdma": ["filesystem"]}


def test_network_filesystem_before_nvidia_fs_is_loaded():
    host = node()
    host.mount("0:50 / /x rw - lustre 10.0.0.1@tcp:/fsx rw")
    found = items(host, "/x")
    assert state(found, "client_driver", "nvfs") == "unknown"


def test_driver_is_too_old_or_of_wrong_kind():
    host = node()
    enable_p2pdma(host)
    host.files["/proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n"
    assert lacking(host)["p2pdma"] == ["open_kernel_module", "driver_version"]
    assert lacking(host)["nvfs"][0] == "open_kernel_module"


def test_no_driver():
    host = node()
    del host.files["/proc/driver/nvidia/version"]
    found = items(host)
    assert (state(found, "driver"), state(found, "open_kernel_module")) == ("missing", "unknown")


def test_kernels():
    assert "kernel_p2pdma" in lacking(node(p2pdma=False))["p2pdma"]
    host = node()
    del host.files["/proc/kallsyms"]
    assert state(items(host), "kernel_p2pdma") == "unknown"
    host.files["/boot/config-6.8.0-1021-aws"] = "# CONFIG_PCI_P2PDMA is not set\n"
    assert state(items(host), "kernel_p2pdma") == "missing"
    assert state(items(node(kernel="6.17.0-1019-aws")), "kernel_nvfs", "nvfs") == "doubtful"


def test_iommu_is_advised_against_on_x86():
    host = node()
    host.files["/sys/kernel/iommu_groups/0/type"] = "DMA\n"
    assert lacking(host, state=gds_prereq.DOUBTFUL) == {"nvfs": ["iommu"], "p2pdma": ["iommu"]}
    host.files["/proc/sys/kernel/arch"] = "aarch64\n"
    assert lacking(host, state=gds_prereq.DOUBTFUL) == {"nvfs": [], "p2pdma": []}


@pytest.mark.parametrize(
    ("gpus", "extra"),
    [
        (["NVIDIA H100 80GB HBM3"], {}),
        (["NVIDIA H200"], {}),
        (["NVIDIA B200"], {}),
        (["NVIDIA A100-SXM4-40GB"], {"ForceP2P": "0"}),
        (["NVIDIA L4"], {"ForceP2P": "0"}),
        (["NVIDIA L40S"], {}),
        ([], {}),
    ],
)
def test_registry_settings_by_gpu(gpus, extra):
    wanted = gds_prereq.registry_wanted(gpus)
    assert wanted == {"RMForceStaticBar1": "1", "RmForceDisableIomapWC": "1", **extra}


def test_hint_for_registry_is_ready_to_use():
    (item,) = [item for item in items(node()) if item["id"] == "registry_dwords"]
    assert 'NVreg_RegistryDwords="RMForceStaticBar1=1;RmForceDisableIomapWC=1;"' in item["hint"]
    assert item["found"] == "not set: RMForceStaticBar1=1, RmForceDisableIomapWC=1"


def test_registry_settings_are_x86_only_and_need_driver():
    host = node(machine="aarch64")
    assert "registry_dwords" not in {item["id"] for item in items(host)}
    host = node()
    del host.files["/proc/driver/nvidia/params"]
    assert state(items(host), "registry_dwords") == "unknown"


def test_nvidia_fs_older_than_libcufile_wants():
    host = node()
    load_nvidia_fs(host)
    for least, expected in (("2.12", "met"), ("2.30", "missing")):
        found = items(host, capability={"versions": {"nvidia_fs minimum version": least}})
        assert state(found, "nvidia_fs_version", "nvfs") == expected


def test_libcufile_errors_override_other_evidence():
    host = node()
    load_nvidia_fs(host)
    table = parse_table("ERROR cufio-fs:204 NVMe Driver not registered with nvidia-fs!!!\n")
    found = gds_prereq.from_log(items(host), table)
    assert gds_prereq.missing(found, "nvfs") == ["nvme_driver"]
    assert next(item for item in found if item["id"] == "nvme_driver")["hint"] != ""
    assert gds_prereq.missing(items(host), "nvfs") == []


def test_recorded_log_of_gpu_without_attribute():
    host = node()
    enable_p2pdma(host)
    log = fixture("libcufile-1.15-h200-compat-forbidden.log").replace("Config doesn't support PCIP2PDMA", "")
    found = gds_prereq.from_log(items(host), parse_table(log))
    assert gds_prereq.missing(found, "p2pdma") == ["kernel_p2pdma", "gpu_p2pdma"]


def test_recorded_log_of_machine_without_udev():
    found = gds_prereq.from_log(items(node()), parse_table(fixture("libcufile-1.15-h200-compat-allowed.log")))
    assert "udev" in gds_prereq.missing(found, "nvfs")
    assert "gpu_p2pdma" not in gds_prereq.missing(found, "p2pdma")


def test_codes_that_name_version():
    host = node()
    load_nvidia_fs(host)
    found = gds_prereq.from_log(items(host), parse_table(""), err=5004)
    assert gds_prereq.missing(found, "nvfs") == ["nvidia_fs_version"]
    found = gds_prereq.from_log(items(host), parse_table(""), err=5011, cu_err=35)
    assert gds_prereq.missing(found, "nvfs") == ["driver_version"]
    assert [item["state"] for item in found if item["id"] == "driver_version"] == ["missing"]


def test_every_item_is_complete():
    host = node(kernel="6.17.0-1019-aws")
    raid0(host)
    host.files["/sys/kernel/iommu_groups/0/type"] = "DMA\n"
    for path in ("/data", "/raid", "/"):
        for item in items(host, path):
            assert item["state"] in ("met", "missing", "doubtful", "unknown")
            assert item["found"]
            assert bool(item["hint"]) == (item["state"] != "met")
            assert set(item["paths"]) <= {"nvfs", "p2pdma"}
